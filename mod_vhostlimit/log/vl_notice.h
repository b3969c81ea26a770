/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_NOTICE_H
#define VL_NOTICE_H

/* One line in the log when a vhost begins and when it ceases to be limited, and
 * when processes of it were killed for memory. */

#include <httpd.h>

#include "core/vl_shm.h"

void vl_notice_register(apr_pool_t *p);
/* Parent, after each (re)configuration. */
void vl_notice_post_config(server_rec *main_server, vl_shm_t *shm);
/* To be called now and then in every child. */
void vl_notice_tick(apr_int64_t now_us);

#endif
