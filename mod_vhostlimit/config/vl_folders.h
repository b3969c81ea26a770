/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_FOLDERS_H
#define VL_FOLDERS_H

/* Finds the site that a folder belongs to. It owns nothing and has no lock. The sampler calls it,
 * for programs that a server for several sites has started (Passenger). */

#include "config/vl_conf.h"

/* Returns the account of the site whose virtual hosts have a directive with this folder, with a
 * path directly in it, or with a folder above it. Returns VL_NO_ACCOUNT if there is none, if several
 * sites have the same right to it, or if accounts of the site belong to hosts. Walks the whole
 * configuration. */
apr_uint32_t vl_folders_account(const char *folder);

#endif
