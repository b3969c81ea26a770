/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NOTICE_H
#define VL_NOTICE_H

/* Logs when a vhost becomes limited, when it is no longer limited, and when the kernel has
 * killed processes of it for memory.  The parent sets the state in post_config; after that
 * it is constant.  vl_limited.h takes the segment lock. */

#include <httpd.h>

#include "core/vl_shm.h"

/* Registers the monitor hook. */
void vl_notice_register(apr_pool_t *p);
/* Parent, after each (re)configuration. */
void vl_notice_post_config(server_rec *main_server, vl_shm_t *shm);
/* Checks the accounts if a check is due and logs the events.  Every child process calls it
 * from its timer, several times per second. */
void vl_notice_tick(apr_int64_t now_us);

#endif
