/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_SAMPLER_PROCESS_H
#define VL_SAMPLER_PROCESS_H

/*
 * The process of the sampler (vl_sampler.h), "vl-sampler" in the output of `ps axc`. Apache's
 * parent starts it in post_config and again when it has ended. It keeps the capabilities
 * CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, without which the kernel does not show what other
 * users' processes wait for, and no other one. It runs no code of sites, and reads the
 * segment and /proc only.
 */

#include <httpd.h>

#include "core/vl_shm.h"
#include "cost/vl_backends.h"

/* Name of the process (at most 15 bytes). */
#define VL_SAMPLER_NAME "vl-sampler"

/* Parent, in post_config: starts the process. It ends when p is cleared. folder, user: see
 * vl_backends.h. */
void vl_sampler_post_config(apr_pool_t *p, server_rec *main_server, vl_shm_t *shm,
                            vl_backends_site_fn *folder, vl_backends_site_fn *user);

#endif
