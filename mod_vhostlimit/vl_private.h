/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PRIVATE_H
#define VL_PRIVATE_H

/* For the edge files: our module record, our log level, our log ids (listed in
 * docs/operating.md; APLOGNO belongs to httpd). */

#include <httpd.h>
#include <http_config.h>
#include <http_log.h>

extern module AP_MODULE_DECLARE_DATA vhostlimit_module;
APLOG_USE_MODULE(vhostlimit);

#define VLOGNO(n) "VL" #n ": "

#endif
