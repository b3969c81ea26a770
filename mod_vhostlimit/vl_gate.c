/* SPDX-License-Identifier: Apache-2.0 */
#include "vl_gate.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <ap_mmn.h>
#include <ap_mpm.h>
#include <apr_portable.h>
#include <http_core.h>             /* before http_connection.h */
#include <http_connection.h>
#include <http_ssl.h>

#include "vl_conf.h"
#include "vl_peek.h"

/* Apache has a state for "call me when the socket is readable". */
#define CAN_PARK AP_MODULE_MAGIC_AT_LEAST(20120211, 135)

/* Bytes of a head that are looked at; a request of which more has arrived is
 * not parked, so nothing grows. */
#define PEEK_SIZE 8192

static struct {
    server_rec *main_server;
    vl_shm_t *shm;
    vl_vhostmap_t *map;
    int can_park;
} gate;

static void set_lowat(int fd, int bytes)
{
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

static void turn_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    vl_conn_t *conn = (vl_conn_t *)waiter;

    conn->parked = 0;
    conn->turn.holds = ticket != NULL;
    if (ticket)
        conn->turn.ticket = *ticket;
    conn->turn.refused = refused;
    conn->turn.waited_us = apr_time_now() - waiter->since_us;
    set_lowat(conn->fd, 1);
}

static apr_status_t conn_cleanup(void *data)
{
    vl_conn_t *conn = data;

    vl_park_lock();
    if (conn->parked) {
        conn->parked = 0;
        vl_park_remove_locked(&conn->waiter);
    }
    vl_park_unlock();
    if (conn->turn.holds)
        vl_park_end(&conn->turn.ticket, NULL);
    conn->turn.holds = 0;
    return APR_SUCCESS;
}

vl_conn_t *vl_gate_connection(conn_rec *c, apr_socket_t *csd,
                              const vl_turn_t *turn)
{
    vl_conn_t *conn = apr_pcalloc(c->pool, sizeof(*conn));

    conn->waiter.done = turn_locked;
    if (csd)
        apr_os_sock_get(&conn->fd, csd);
    if (turn)
        conn->turn = *turn;
    ap_set_module_config(c->conn_config, &vhostlimit_module, conn);
    apr_pool_cleanup_register(c->pool, conn, conn_cleanup,
                              apr_pool_cleanup_null);
    return conn;
}

/* The configuration of the vhost whose request has arrived, if that request
 * can be parked: its head is all there, and in the socket.  NULL: leave it. */
static const vl_conf_t *peek_conf(conn_rec *c, const vl_conn_t *conn,
                                  int *ret_bytes)
{
    char bytes[PEEK_SIZE];
    ssize_t n = recv(conn->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    vl_peek_t peek;

    if (n <= 0 || n == sizeof(bytes)
        || vl_peek(bytes, (apr_size_t)n, &peek) == VL_PEEK_MORE)
        return NULL;
    *ret_bytes = (int)n;
    return vl_conf_get(vl_vhostmap_find(gate.map, gate.main_server,
                                        c->local_addr, peek.host));
}

/* 1: parked; 0: its turn came before it was, or it was refused. */
static int park(vl_conn_t *conn, const vl_conf_t *conf, int bytes)
{
    vl_waiter_t *waiter = &conn->waiter;
    int parked;

    waiter->account = conf->account;
    waiter->since_us = apr_time_now();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    /* Before anybody can set it back. */
    set_lowat(conn->fd, bytes + 1);
    vl_park_lock();
    conn->parked = 1;
    vl_park_add_locked(waiter);
    parked = conn->parked;
    vl_park_unlock();
    return parked;
}

/* Woken while it waits: the client has closed its side, or sent more.  Its
 * place in line is lost, and Apache deals with it; what it costs is charged. */
static void unpark(vl_conn_t *conn)
{
    vl_park_lock();
    if (conn->parked) {
        conn->parked = 0;
        vl_park_remove_locked(&conn->waiter);
        set_lowat(conn->fd, 1);
    }
    vl_park_unlock();
}

static int wait_for_turn(conn_rec *c)
{
#if CAN_PARK
    c->cs->state = CONN_STATE_ASYNC_WAITIO;
    c->cs->sense = CONN_SENSE_WANT_READ;
#endif
    return OK;
}

static int process_connection(conn_rec *c)
{
    vl_conn_t *conn = vl_conn_get(c);
    const vl_conf_t *conf;
    int bytes;

    if (!gate.can_park || c->master || !c->cs || !conn)
        return DECLINED;
    unpark(conn);
    if (conn->turn.holds || conn->turn.refused || vl_slot_calm(gate.shm)
        || c->data_in_input_filters || ap_ssl_conn_is_ssl(c))
        return DECLINED;
    conf = peek_conf(c, conn, &bytes);
    if (!conf || conf->mode != VL_MODE_ON)
        return DECLINED;
    if (vl_slot_try(gate.shm, conf->account, &conn->turn.ticket)
        == APR_SUCCESS) {
        conn->turn.holds = 1;
        conn->turn.waited_us = 0;
        return DECLINED;
    }
    return park(conn, conf, bytes) ? wait_for_turn(c) : DECLINED;
}

void vl_gate_child_init(server_rec *main_server, vl_shm_t *shm,
                        vl_vhostmap_t *map)
{
    gate.main_server = main_server;
    gate.shm = shm;
    gate.map = map;
#if CAN_PARK
    ap_mpm_query(AP_MPMQ_CAN_WAITIO, &gate.can_park);
#endif
}

void vl_gate_register(apr_pool_t *p)
{
    /* Before the core reads the request; mod_ssl's handshake goes first. */
    ap_hook_process_connection(process_connection, NULL, NULL, APR_HOOK_LAST);
}
