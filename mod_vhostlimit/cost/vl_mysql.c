/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_mysql.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <apr_strings.h>

#include "base/vl_clock.h"

/* The longest packet is a row: a name of at most 128 bytes of UTF-8 characters, and numbers. */
#define PACKET_MOST 4096
#define ROWS_MOST 16384
#define COLUMNS 4

/* Capabilities: 4.1 protocol, its authentication, and its plugins. */
#define CAPABILITIES (0x1 | 0x200 | 0x8000 | 0x80000)
#define UTF8 33
#define COM_QUERY 3
/* Errors (ER_ACCESS_DENIED_ERROR, ER_ACCESS_DENIED_NO_PASSWORD_ERROR). Others, as of a server that
 * stops or has too many connections, pass. */
#define ACCESS_DENIED 1045
#define NO_PASSWORD_DENIED 1698

/* MySQL's thread is seen in performance_schema only. */
static const char mariadb_question[] =
    "SELECT ID,TID,COMMAND='Sleep',USER FROM information_schema.PROCESSLIST WHERE COMMAND<>'Daemon'";
static const char mysql_question[] =
    "SELECT PROCESSLIST_ID,THREAD_OS_ID,PROCESSLIST_COMMAND='Sleep',PROCESSLIST_USER "
    "FROM performance_schema.threads WHERE TYPE='FOREGROUND' AND PROCESSLIST_COMMAND<>'Daemon'";

typedef enum { CLOSED, GREETING, LOGIN, READY, COLUMN_COUNT, COLUMN, ROW, DENIED } step_e;

struct vl_mysql_t {
    step_e step;
    int fd;
    char user[32];
    const char *question;
    apr_uint64_t own_id;
    pid_t own_tid;
    int columns;                    /* whose descriptions have been read */
    unsigned char data[2 * PACKET_MOST];
    size_t n;
    apr_pool_t *names;              /* of the rows */
    vl_mysql_row_t rows[ROWS_MOST];
    int n_rows;
};

vl_mysql_t *vl_mysql_create(apr_pool_t *p)
{
    vl_mysql_t *m = apr_pcalloc(p, sizeof(*m));

    m->fd = -1;
    apr_pool_create(&m->names, p);
    return m;
}

void vl_mysql_close(vl_mysql_t *m)
{
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    m->step = CLOSED;
}

int vl_mysql_open(vl_mysql_t *m, const char *path, const char *user)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    vl_mysql_close(m);
    apr_cpystrn(m->user, user, sizeof(m->user));
    apr_cpystrn(address.sun_path, path, sizeof(address.sun_path));
    m->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->fd < 0 || connect(m->fd, (struct sockaddr *)&address, sizeof(address))) {
        vl_mysql_close(m);
        return 0;
    }
    m->step = GREETING;
    m->n = 0;
    m->own_tid = 0;
    return 1;
}

vl_mysql_e vl_mysql_state(const vl_mysql_t *m)
{
    return m->step == CLOSED ? VL_MYSQL_CLOSED : m->step == READY ? VL_MYSQL_READY
           : m->step == DENIED ? VL_MYSQL_DENIED : VL_MYSQL_WAITS;
}

pid_t vl_mysql_own(const vl_mysql_t *m)
{
    return m->own_tid;
}

/* Packets of this client are small, so the socket takes a whole one, or the connection ends. */
static void put_packet(vl_mysql_t *m, int sequence, const void *data, size_t n)
{
    unsigned char packet[4 + 256] = { (unsigned char)n, (unsigned char)(n >> 8), 0,
                                      (unsigned char)sequence };

    memcpy(packet + 4, data, n);
    if (send(m->fd, packet, 4 + n, MSG_NOSIGNAL) != (ssize_t)(4 + n))
        vl_mysql_close(m);
}

static void log_in(vl_mysql_t *m, const unsigned char *data, size_t n)
{
    unsigned char answer[128] = { CAPABILITIES & 0xff, CAPABILITIES >> 8 & 0xff,
                                  CAPABILITIES >> 16 & 0xff, 0, 0, 0, 1, 0, UTF8 };
    const char *plugin = "unix_socket";
    size_t version = 1 + strnlen((const char *)data + 1, n - 1) + 1, at = 32;

    if (data[0] != 10 || version + 4 > n) {
        m->step = DENIED;
        return;
    }
    m->question = strstr((const char *)data + 1, "MariaDB") ? mariadb_question : mysql_question;
    m->own_id = (apr_uint64_t)data[version] | (apr_uint64_t)data[version + 1] << 8
                | (apr_uint64_t)data[version + 2] << 16 | (apr_uint64_t)data[version + 3] << 24;
    memcpy(answer + at, m->user, strlen(m->user) + 1);
    at += strlen(m->user) + 2;      /* and no password */
    memcpy(answer + at, plugin, strlen(plugin) + 1);
    m->step = LOGIN;
    put_packet(m, 1, answer, at + strlen(plugin) + 1);
}

void vl_mysql_ask(vl_mysql_t *m)
{
    char packet[256] = { COM_QUERY };

    if (m->step != READY)
        return;
    apr_cpystrn(packet + 1, m->question, sizeof(packet) - 1);
    m->step = COLUMN_COUNT;
    m->columns = 0;
    m->n_rows = 0;
    apr_pool_clear(m->names);
    put_packet(m, 0, packet, 1 + strlen(m->question));
}

/* Reads COLUMNS strings, each behind a byte with its length. */
static void read_row(vl_mysql_t *m, const unsigned char *data, size_t n)
{
    const char *text[COLUMNS];
    size_t length[COLUMNS], at = 0;
    vl_mysql_row_t *row = &m->rows[m->n_rows];
    int i;

    for (i = 0; i < COLUMNS; i++) {
        if (at >= n || data[at] > 250 || at + 1 + data[at] > n)
            return;
        length[i] = data[at];
        text[i] = (const char *)data + at + 1;
        at += 1 + length[i];
    }
    row->id = strtoull(apr_pstrmemdup(m->names, text[0], length[0]), NULL, 10);
    row->tid = (pid_t)strtol(apr_pstrmemdup(m->names, text[1], length[1]), NULL, 10);
    row->sleeps = length[2] == 1 && text[2][0] == '1';
    row->user = apr_pstrmemdup(m->names, text[3], length[3]);
    if (row->id == m->own_id)
        m->own_tid = row->tid;
    else if (row->tid > 0 && m->n_rows < ROWS_MOST - 1)
        m->n_rows++;
}

/* Returns 1 when an answer is complete. */
static int take_packet(vl_mysql_t *m, int sequence, const unsigned char *data, size_t n)
{
    const int is_end = n && data[0] == 0xfe && n < 9, is_error = n && data[0] == 0xff;

    if (!n || is_error) {
        const int code = n > 2 ? data[1] | data[2] << 8 : 0;

        if (code == ACCESS_DENIED || code == NO_PASSWORD_DENIED)
            m->step = DENIED;
        else
            vl_mysql_close(m);
        return 0;
    }
    switch (m->step) {
    case GREETING:
        log_in(m, data, n);
        break;
    case LOGIN:
        if (data[0] == 0)
            m->step = READY;
        else if (data[0] == 0xfe)
            put_packet(m, sequence + 1, "", 0);
        else
            m->step = DENIED;
        break;
    case COLUMN_COUNT:
        m->step = data[0] == COLUMNS ? COLUMN : DENIED;
        break;
    case COLUMN:
        if (is_end)
            m->step = ROW;
        break;
    case ROW:
        if (is_end) {
            m->step = READY;
            return 1;
        }
        read_row(m, data, n);
        break;
    default:
        break;
    }
    return 0;
}

/* Returns 1 when an answer is complete. */
static int take_data(vl_mysql_t *m)
{
    size_t at = 0, length;
    int is_complete = 0;

    while (!is_complete && m->fd >= 0 && m->step != READY && m->step != DENIED && m->n - at >= 4) {
        const unsigned char *packet = m->data + at;

        length = (size_t)packet[0] | (size_t)packet[1] << 8 | (size_t)packet[2] << 16;
        if (length > PACKET_MOST - 4) {
            m->step = DENIED;
            break;
        }
        if (m->n - at < 4 + length)
            break;
        is_complete = take_packet(m, packet[3], packet + 4, length);
        at += 4 + length;
    }
    memmove(m->data, m->data + at, m->n - at);
    m->n -= at;
    return is_complete;
}

int vl_mysql_answer(vl_mysql_t *m, int timeout_ms, const vl_mysql_row_t **ret_rows)
{
    apr_int64_t until_us = vl_clock_us() + timeout_ms * 1000;
    struct pollfd waits = { m->fd, POLLIN, 0 };
    ssize_t n;

    while (m->fd >= 0 && m->step != READY && m->step != DENIED) {
        if (take_data(m)) {
            *ret_rows = m->rows;
            return m->n_rows;
        }
        if (m->fd < 0 || m->step == READY || m->step == DENIED)
            break;
        n = recv(m->fd, m->data + m->n, sizeof(m->data) - m->n, 0);
        if (n > 0) {
            m->n += (size_t)n;
            continue;
        }
        if (!n || (errno != EAGAIN && errno != EINTR)) {
            vl_mysql_close(m);
            break;
        }
        timeout_ms = (int)((until_us - vl_clock_us()) / 1000);
        if (timeout_ms <= 0)
            break;
        (void)poll(&waits, 1, timeout_ms);
    }
    return -1;
}
