/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PRIVATE_H
#define VL_PRIVATE_H

/* Declarations for files that include headers of httpd: the module record, the log level of
 * the module, and its log ids.  docs/reference/messages.md lists the ids; the numbers of
 * APLOGNO are reserved for httpd.  No state and no lock. */

#include <httpd.h>
#include <apr_portable.h>
#include <http_config.h>
#include <http_core.h>
#include <http_log.h>
#include <util_filter.h>

extern module AP_MODULE_DECLARE_DATA vhostlimit_module;
APLOG_USE_MODULE(vhostlimit);

/* True if a filter of the connection holds output that has not been sent, or input that has
 * not been read.  httpd 2.5 asks the filters; httpd 2.4 has a flag. */
#if AP_MODULE_MAGIC_AT_LEAST(20180720, 1)
#define vl_has_pending_output(c) ap_filter_should_yield((c)->output_filters)
#define vl_has_pending_input(c) (ap_filter_input_pending(c) == OK)
#define vl_set_pending_output(c, value) ((void) (c))
#else
#define vl_has_pending_output(c) ((c)->data_in_output_filters)
#define vl_set_pending_output(c, value) ((c)->data_in_output_filters = (value))
#define vl_has_pending_input(c) ((c)->data_in_input_filters)
#endif

/* Sends the output that the filters of the connection hold, without blocking, as the MPM
 * does in CONN_STATE_WRITE_COMPLETION. */
static inline apr_status_t vl_flush(conn_rec *c)
{
    ap_filter_t *last = c->output_filters;

    while (last->next)
        last = last->next;
    return last->frec->filter_func.out_func(last, NULL);
}

/* Returns the descriptor of the connection's socket, or -1. */
static inline int vl_socket_of(conn_rec *c)
{
    apr_socket_t *socket = ap_get_conn_socket(c);
    int fd = -1;

    if (socket)
        apr_os_sock_get(&fd, socket);
    return fd;
}

/* True for "httpd -X" and -DONE_PROCESS: the server has no child processes. */
#define vl_is_one_process() \
    (ap_exists_config_define("DEBUG") || ap_exists_config_define("ONE_PROCESS"))

/* Log id at the beginning of a message. */
#define VLOGNO(n) "VL" #n ": "

#endif
