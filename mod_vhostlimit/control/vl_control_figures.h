/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_CONTROL_FIGURES_H
#define VL_CONTROL_FIGURES_H

/* The answer to the command "figures" of the control socket: the counters and limits of all
 * sites in few bytes, for programs that ask often ("vhostlimitctl collect" and "watch"), and
 * events of the parent.  The control thread calls the functions, with the fork lock of
 * vl_control.c held. */

#include <httpd.h>

#include "base/vl_out.h"
#include "core/vl_shm.h"

/* Parent, at the end of each (re)configuration. */
void vl_control_figures_post_config(void);
/* Parent, main thread: a child process has died, with so many requests running. */
void vl_control_figures_child_lost(apr_uint32_t running);

/* Writes
 *   {"schema":1,"now_us":N,"started_us":N,"configured_us":N,"children_lost":N,
 *    "requests_lost":N,"slots":N,"processors":N,"wait_limits_us":[N,...],
 *    "columns":["mode",...],"sites":[
 *   ["NAME",N,...,[BUCKET,N,BUCKET,N,...]],...]}
 * columns names the numbers of a site.  The last element of a site has the buckets of
 * waiting times that are not empty: bucket b counts the requests that waited for at most
 * wait_limits_us[b], and longer than wait_limits_us[b - 1]. */
void vl_control_figures_json(vl_out_t *out, vl_shm_t *shm);

#endif
