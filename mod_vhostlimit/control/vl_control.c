/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket is served by a thread, because the main thread of the parent sleeps in
 * the MPM.  It is a thread of the parent, because only root may write the limits of
 * cgroups, and because no code of a website runs in the parent.  The main thread forks, so
 * the control thread follows these rules:
 *  - It runs from the end of one post_config to the cleanup of the configuration pool, and
 *    blocks all signals.
 *  - It creates answers and changes the list of clients while it holds fork_lock.  Every
 *    fork() takes fork_lock too.  So no child process starts with a lock that the control
 *    thread holds, or with a descriptor that vl_control_child_init() does not close.
 *  - It looks at no file of a site: a file system that does not answer would keep the server
 *    from starting child processes and, because stop() joins the thread, from restarting.
 *    Rules of sandboxes were made at the start; vhostlimitctl looks for links itself.  The
 *    answer with them is created without fork_lock, because it needs memory only.
 *  - It releases fork_lock while the kernel sets a limit of a cgroup.  The kernel can need long
 *    to lower memory.max, because it reclaims memory then.  A restart waits for it, because
 *    stop() joins the thread.
 *  - It releases fork_lock while a piped error log is not read, and before each line of a long
 *    answer if a thread waits to fork (vl_control_fork_may_log()).
 *  - It allocates memory only from pools that no other thread uses.
 * The thread serves up to CLIENTS connections at the same time, with a deadline each.  It
 * also takes back changes of limits whose time is over. */
#include "control/vl_control.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>
#include <unixd.h>

#include "base/vl_clock.h"
#include "control/vl_command.h"
#include "control/vl_control_int.h"
#include "base/vl_private.h"

/* Connections that are served at the same time; more wait in the listen backlog. */
#define CLIENTS 16
/* ... and those of them that are owners of sites; others are closed. */
#define OWNERS 4
/* Time limits for receiving the command and for sending the answer. */
#define COMMAND_US (2 * APR_USEC_PER_SEC)
#define ANSWER_US (10 * APR_USEC_PER_SEC)
/* Longest time without a byte of what follows "bulk". */
#define BODY_US (5 * APR_USEC_PER_SEC)

typedef struct client_t {
    int fd;                         /* -1: unused entry */
    uid_t uid;                      /* of the peer */
    int is_owner;                   /* 1: it may only say "mine" */
    apr_int64_t deadline;
    char line[VL_COMMAND_MAX];
    apr_size_t len;
    char *body;                     /* what follows "bulk", from malloc(); NULL: nothing */
    apr_size_t body_len, body_size; /* received so far, and in all */
    apr_pool_t *pool;               /* of the answer; NULL: the command is incomplete */
    const char *answer;
    apr_size_t answer_len;
} client_t;

static struct control_t {
    vl_control_kept_t *kept;
    pid_t pid;                      /* of the parent; 0: no thread runs */
    uid_t uid;                      /* user that may connect, besides root */
    int has_owners;                 /* 1: owners of sites may too (VhostLimitOwner) */
    int end_fd;                     /* eventfd; readable: the thread must stop */
    pthread_t thread;
    apr_int64_t expire_us;          /* when the first timed change ends; 0: there is none */
    client_t clients[CLIENTS];
} control;

/* --- one client ----------------------------------------------------------- */

/* Closes the connection.  Takes fork_lock.  shutdown() is needed because a child process
 * that was just forked may have a copy of the descriptor: close() alone would not end
 * the connection. */
static void close_client(client_t *client)
{
    vl_control_fork_lock();
    if (client->pool)
        apr_pool_destroy(client->pool);
    free(client->body);
    shutdown(client->fd, SHUT_RDWR);
    close(client->fd);
    client->fd = -1;
    client->pool = NULL;
    client->body = NULL;
    vl_control_fork_unlock();
}

/* Takes back the changes whose time is over, and finds out when the next one ends.  The
 * caller holds fork_lock. */
static void expire_locked(apr_int64_t now)
{
    apr_pool_t *p;

    if (apr_pool_create_unmanaged(&p) != APR_SUCCESS)
        return;
    control.expire_us = vl_control_expire(p, now);
    apr_pool_destroy(p);
}

/* Executes the command and starts sending its answer.  Takes fork_lock. */
static void make_answer(client_t *client, apr_size_t len)
{
    const server_rec *sandboxed = NULL;
    vl_out_t *out = NULL;

    vl_control_fork_lock();
    if (apr_pool_create_unmanaged(&client->pool) == APR_SUCCESS) {
        out = vl_out_to_memory(client->pool);
        if (!vl_control_owner_answer(client->line, len, client->uid, out) && !client->is_owner)
            sandboxed = vl_control_answer(client->line, len, client->body, out);
        expire_locked(vl_clock_us());
    }
    vl_control_fork_unlock();
    if (sandboxed)
        vl_control_sandbox_json(out, sandboxed);
    if (out)
        client->answer = vl_out_memory(out, &client->answer_len);
    client->deadline = vl_clock_us() + ANSWER_US;
    if (!client->pool)
        close_client(client);
}

/* Receives up to size bytes.  Returns their number, 0 if there are none yet, or if there will be
 * none: then the client has been closed. */
static apr_size_t receive(client_t *client, char *ret_bytes, apr_size_t size)
{
    ssize_t n = recv(client->fd, ret_bytes, size, MSG_DONTWAIT);

    if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_client(client);
    return n > 0 ? (apr_size_t)n : 0;
}

/* Receives a part of what follows "bulk".  Executes the command when it is complete. */
static void receive_body(client_t *client)
{
    apr_size_t n = receive(client, client->body + client->body_len, client->body_size - client->body_len);

    if (!n)
        return;
    client->body_len += n;
    client->deadline = vl_clock_us() + BODY_US;
    if (client->body_len == client->body_size)
        make_answer(client, client->len);
}

/* Begins to receive `size` bytes that follow the line of `len` bytes.  Those that came with
 * it are in the line's buffer. */
static void begin_body(client_t *client, apr_size_t len, apr_size_t size)
{
    apr_size_t came = client->len - len - 1;

    client->body = calloc(1, size + 1);
    if (!client->body) {
        close_client(client);
        return;
    }
    client->body_size = size;
    client->body_len = came < size ? came : size;
    memcpy(client->body, client->line + len + 1, client->body_len);
    client->len = len;
    client->deadline = vl_clock_us() + BODY_US;
    if (client->body_len == size)
        make_answer(client, len);
}

/* Receives a part of the command.  Executes the command when its line is complete and no more follows
 * it, or when the buffer is full. */
static void receive_command(client_t *client)
{
    apr_size_t n = receive(client, client->line + client->len, sizeof(client->line) - client->len);
    apr_size_t len, size;
    const char *end;

    if (!n)
        return;
    client->len += n;
    end = memchr(client->line, '\n', client->len);
    len = end ? (apr_size_t)(end - client->line) : client->len;
    size = end && !client->is_owner ? vl_control_body(client->line, len) : 0;
    if (size)
        begin_body(client, len, size);
    else if (end || len == sizeof(client->line))
        make_answer(client, len);
}

/* Sends a part of the answer.  Closes the connection when all is sent. */
static void send_answer(client_t *client)
{
    ssize_t n = send(client->fd, client->answer, client->answer_len,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0 || (apr_size_t)n == client->answer_len) {
        close_client(client);
        return;
    }
    client->answer += n;
    client->answer_len -= (apr_size_t)n;
}

/* --- all clients ---------------------------------------------------------- */

/* Returns an unused entry, or NULL. */
static client_t *free_client(void)
{
    int i;

    for (i = 0; i < CLIENTS; i++) {
        if (control.clients[i].fd < 0)
            return &control.clients[i];
    }
    return NULL;
}

/* Accepts one connection.  The caller holds fork_lock. */
static void accept_client_locked(client_t *client)
{
    int fd = accept4(control.kept->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int i, is_owner, owners = 0;
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)) {
        close(fd);
        return;
    }
    is_owner = peer.uid && peer.uid != control.uid;
    for (i = 0; i < CLIENTS; i++)
        owners += control.clients[i].fd >= 0 && control.clients[i].is_owner;
    /* Programs of the sites run as Apache's user, so it owns no site. */
    if (is_owner && (!control.has_owners || peer.uid == ap_unixd_config.user_id
                     || owners >= OWNERS)) {
        close(fd);
        return;
    }
    memset(client, 0, sizeof(*client));
    client->fd = fd;
    client->uid = peer.uid;
    client->is_owner = is_owner;
    client->deadline = vl_clock_us() + COMMAND_US;
}

static void serve(client_t *client, short events, apr_int64_t now)
{
    if (events && client->pool)
        send_answer(client);
    else if (events && client->body)
        receive_body(client);
    else if (events)
        receive_command(client);
    else if (now > client->deadline)
        close_client(client);
}

/* Ends changes and leases that are due.  Returns the milliseconds until the first deadline; -1: there is
 * no deadline. */
static int next_deadline(apr_int64_t now)
{
    apr_int64_t first, leases;
    int i;

    vl_control_fork_lock();         /* it may log */
    if (control.expire_us && control.expire_us <= now)
        expire_locked(now);
    leases = vl_control_leases_expire(now);
    vl_control_fork_unlock();
    first = control.expire_us;
    if (leases && (!first || leases < first))
        first = leases;
    for (i = 0; i < CLIENTS; i++) {
        const client_t *client = &control.clients[i];

        if (client->fd >= 0 && (!first || client->deadline < first))
            first = client->deadline;
    }
    if (!first)
        return -1;
    if (first > now + APR_USEC_PER_SEC * 3600)
        first = now + APR_USEC_PER_SEC * 3600;      /* a wait that fits an int */
    return first > now ? (int)((first - now) / 1000) + 1 : 0;
}

/* The control thread. */
static void *run(void *unused)
{
    struct pollfd pfds[CLIENTS + 2];
    apr_int64_t now;
    int i;

    memset(pfds, 0, sizeof(pfds));
    vl_control_fork_begin(control.end_fd);
    control.expire_us = 1;          /* changes may have ended before */
    do {
        for (i = 0; i < CLIENTS; i++) {
            pfds[i].fd = control.clients[i].fd;     /* negative: ignored */
            pfds[i].events = control.clients[i].pool ? POLLOUT : POLLIN;
        }
        pfds[CLIENTS].fd = free_client() ? control.kept->fd : -1;
        pfds[CLIENTS + 1].fd = control.end_fd;
        pfds[CLIENTS].events = pfds[CLIENTS + 1].events = POLLIN;
        if (poll(pfds, CLIENTS + 2, next_deadline(vl_clock_us())) < 0)
            continue;
        now = vl_clock_us();
        for (i = 0; i < CLIENTS; i++) {
            if (control.clients[i].fd >= 0)
                serve(&control.clients[i], pfds[i].revents, now);
        }
        if (pfds[CLIENTS].revents) {
            vl_control_fork_lock();
            accept_client_locked(free_client());
            vl_control_fork_unlock();
        }
    } while (!pfds[CLIENTS + 1].revents);
    /* Executes the commands that are complete, and sends as much of each answer as possible without
     * blocking. */
    for (i = 0; i < CLIENTS; i++) {
        client_t *client = &control.clients[i];

        if (client->fd >= 0 && !client->pool)
            serve(client, POLLIN, 0);
        if (client->fd >= 0 && client->pool)
            serve(client, POLLOUT, 0);
    }
    return NULL;
}

/* --- start and stop ------------------------------------------------------- */

static void remove_socket(void)
{
    close(control.kept->fd);
    unlink(control.kept->path);
    control.kept->made = 0;
}

/* Cleanup of the configuration pool: stops the thread.  Does nothing in a child process,
 * which inherits the cleanup but has no such thread.  Removes the socket if the server
 * exits. */
static apr_status_t stop(void *unused)
{
    apr_uint64_t one = 1;
    int i;

    if (control.pid != getpid())
        return APR_SUCCESS;
    control.pid = 0;
    if (write(control.end_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(control.thread, NULL);
    for (i = 0; i < CLIENTS; i++) {
        if (control.clients[i].fd >= 0)
            close_client(&control.clients[i]);
    }
    close(control.end_fd);
    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_EXITING)
        remove_socket();
    return APR_SUCCESS;
}

/* Creates the socket.  Removes an existing one first, because a server that was killed
 * leaves its socket behind.  Two servers need different runtime directories, as they do
 * for their pid files. */
static apr_status_t make_socket(vl_control_kept_t *kept, const char *path)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    mode_t mask;
    int failed;

    if (strlen(path) >= sizeof(addr.sun_path))
        return APR_ENAMETOOLONG;
    apr_cpystrn(addr.sun_path, path, sizeof(addr.sun_path));
    apr_cpystrn(kept->path, path, sizeof(kept->path));
    unlink(path);
    kept->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (kept->fd < 0)
        return errno;
    mask = umask(0177);
    failed = bind(kept->fd, (struct sockaddr *)&addr, sizeof(addr))
             || listen(kept->fd, CLIENTS) ? errno : 0;
    umask(mask);
    if (failed)
        close(kept->fd);
    kept->made = !failed;
    return failed;
}

/* Starts the control thread with all signals blocked. */
static apr_status_t start(void)
{
    sigset_t all, before;
    int i, failed;

    for (i = 0; i < CLIENTS; i++)
        control.clients[i].fd = -1;
    control.end_fd = eventfd(0, EFD_CLOEXEC);
    if (control.end_fd < 0)
        return errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&control.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        close(control.end_fd);
    else
        control.pid = getpid();
    return failed;
}

void vl_control_post_config(apr_pool_t *pconf, server_rec *main_server,
                            vl_control_kept_t *kept, vl_shm_t *shm,
                            const vl_cgroup_t *cg, vl_plans_kept_t *plans)
{
    const char *path = ap_runtime_dir_relative(pconf, VL_CONTROL_SOCKET);
    apr_status_t rv = APR_SUCCESS;

    control.kept = kept;
    control.uid = geteuid();
    vl_control_server = main_server;
    vl_control_shm = shm;
    vl_control_cgroup = cg;
    vl_control_answer_post_config();
    vl_control_change_post_config(plans);
    vl_control_fork_post_config();
    control.has_owners = vl_control_owner_post_config();
    if (!kept->made || strcmp(kept->path, path) || access(path, F_OK)) {
        if (kept->made)         /* elsewhere, or it was removed */
            remove_socket();
        rv = make_socket(kept, path);
    }
    if (rv == APR_SUCCESS && chmod(path, control.has_owners ? 0666 : 0600))
        rv = errno;
    if (rv == APR_SUCCESS)
        rv = start();
    if (rv == APR_SUCCESS)
        apr_pool_pre_cleanup_register(pconf, NULL, stop);
    else
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, main_server, VLOGNO(0030)
                     "the control socket %s cannot be made: vhostlimitctl does not "
                     "work. Create its folder, or set DefaultRuntimeDir",
                     path);
}

void vl_control_child_init(void)
{
    int i;

    if (!control.pid || control.pid == getpid())
        return;
    close(control.kept->fd);
    close(control.end_fd);
    vl_control_fork_child_init();
    for (i = 0; i < CLIENTS; i++) {
        if (control.clients[i].fd >= 0)
            close(control.clients[i].fd);
    }
}
