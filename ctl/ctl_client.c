/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_client.h"

#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The default DefaultRuntimeDir of Debian, Red Hat and Apache's own build. */
static const char *const places[] = {
    "/run/apache2*/vhostlimit.sock",
    "/run/httpd*/vhostlimit.sock",
    "/usr/local/apache2/logs/vhostlimit.sock"
};

/* Time limit for the whole command. */
#define ANSWER_MS 15000
/* A server that restarts may close the connection without an answer.  The command is then
 * sent again; executing a command twice has the effect of executing it once. */
#define ATTEMPTS 5
#define PAUSE_MS 200
/* A server with 100 000 vhosts sends about 100 MB. */
#define ANSWER_MAX (512UL << 20)

/* Bytes that were received so far, with a zero byte behind them. */
typedef struct buffer_t {
    char *bytes;
    size_t len, size;
} buffer_t;

/* --- finding the socket --------------------------------------------------- */

/* Returns the path of the only control socket in the usual places; the caller frees it.
 * Returns NULL and fills in *error if there is none or more than one. */
static char *find_socket(ctl_error_t *error)
{
    char *found = NULL;
    struct stat st;
    glob_t all;
    size_t i;
    int n = 0;

    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        (void)glob(places[i], i ? GLOB_APPEND : 0, NULL, &all);
    for (i = 0; i < all.gl_pathc; i++) {
        /* A path that matches and is no socket does not count. */
        if (!stat(all.gl_pathv[i], &st) && S_ISSOCK(st.st_mode))
            ctl_append(&found, "%s%s", n++ ? " " : "", all.gl_pathv[i]);
    }
    globfree(&all);
    if (n == 1)
        return found;
    if (!n)
        ctl_error_set(error, CTL_UNAVAILABLE,
                      "no control socket in the usual places: no Apache with "
                      "mod_vhostlimit is running, or its DefaultRuntimeDir is another one. "
                      "Name the socket with -s SOCKET");
    else
        ctl_error_set(error, CTL_UNAVAILABLE,
                      "several servers are running; choose one with -s: %s", found);
    free(found);
    return NULL;
}

/* --- one attempt ---------------------------------------------------------- */

/* Returns a connected socket, or -1 with errno set.  connect() waits while the server's
 * backlog is full, at most for SO_SNDTIMEO. */
static int connect_to(const char *path, long long deadline)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    long long left = deadline - ctl_now_ms();
    struct timeval limit;
    int fd, failed;

    if (left <= 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    limit.tv_sec = left / 1000;
    limit.tv_usec = left % 1000 * 1000;
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit))
        && !connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
        return fd;
    failed = errno == EAGAIN ? ETIMEDOUT : errno;
    close(fd);
    errno = failed;
    return -1;
}

/* Returns 0, or -1 with errno set. */
static int send_line(int fd, const char *line, size_t len)
{
    while (len) {
        ssize_t n = send(fd, line, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        line += n;
        len -= (size_t)n;
    }
    return 0;
}

static void make_room(buffer_t *buffer)
{
    size_t size = buffer->size ? 2 * buffer->size : 65536;

    if (buffer->size - buffer->len > 1)
        return;
    buffer->bytes = ctl_grow(buffer->bytes, buffer->size, size);
    buffer->size = size;
}

/* Receives until the server closes the connection.  Returns 0, or -1 with errno set. */
static int receive_all(int fd, long long deadline, buffer_t *buffer)
{
    for (;;) {
        struct pollfd pfd = { .fd = fd, .events = POLLIN };
        long long left = deadline - ctl_now_ms();
        ssize_t n;

        if (left <= 0 || !poll(&pfd, 1, (int)left)) {
            errno = ETIMEDOUT;
            return -1;
        }
        make_room(buffer);
        n = recv(fd, buffer->bytes + buffer->len, buffer->size - buffer->len - 1,
                 MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return (int)n;
        buffer->len += (size_t)n;
        if (buffer->len > ANSWER_MAX) {
            errno = EMSGSIZE;
            return -1;
        }
    }
}

/* Sends the line and receives what comes back.  A connection that the server closes early
 * is no failure: the buffer then holds a part of an answer, or nothing.  Returns 0, or -1
 * with errno set. */
static int attempt(const char *path, const char *line, long long deadline,
                   buffer_t *buffer, ctl_answer_t *answer)
{
    int fd = connect_to(path, deadline);
    struct ucred peer = { 0 };
    socklen_t len = sizeof(peer);
    int rv, failed;

    if (fd < 0)
        return -1;
    buffer->len = 0;
    make_room(buffer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
        peer.pid = 0;
    answer->pid = peer.pid;
    answer->uid = peer.uid;
    rv = send_line(fd, line, strlen(line));
    if (!rv)
        rv = receive_all(fd, deadline, buffer);
    failed = errno;
    if (rv && (failed == EPIPE || failed == ECONNRESET))
        rv = 0;
    buffer->bytes[buffer->len] = '\0';
    close(fd);
    errno = failed;
    return rv;
}

/* --- the answer ----------------------------------------------------------- */

/* Describes why there is no answer.  Permission is what most users without root lack. */
static ctl_exit_e set_failed(ctl_error_t *error, const char *path, int failed,
                             const buffer_t *buffer)
{
    int is_denied = failed == EACCES || failed == EPERM || (!failed && !buffer->len);
    const char *why = !failed && buffer->len ? "the server closed the connection within "
                                               "its answer"
                      : !failed ? "the server closed the connection"
                      : failed == ETIMEDOUT ? "none within 15 seconds"
                      : strerror(failed);

    if (is_denied && geteuid())
        return ctl_error_set(error, CTL_NOT_ROOT, "no answer from %s: %s. Only root and "
                             "the user that started the server may connect. Owners of a site "
                             "may use mine, if VhostLimitOwner is set", path, why);
    return ctl_error_set(error, CTL_UNAVAILABLE, "no answer from %s: %s", path, why);
}

/* Sends the line until there is a complete answer. */
static ctl_exit_e exchange(const char *path, const char *line, buffer_t *buffer,
                           ctl_answer_t *answer, ctl_error_t *error)
{
    long long deadline = ctl_now_ms() + ANSWER_MS;
    int n;

    for (n = 0; n < ATTEMPTS; n++) {
        if (n)
            poll(NULL, 0, PAUSE_MS);
        if (attempt(path, line, deadline, buffer, answer))
            return set_failed(error, path, errno, buffer);
        if (buffer->len >= 2 && !memcmp(buffer->bytes + buffer->len - 2, "}\n", 2))
            return CTL_DONE;
    }
    return set_failed(error, path, 0, buffer);
}

/* Parses the answer.  A refusal is a document whose only key is "error". */
static void parse(const char *path, ctl_answer_t *answer, ctl_error_t *error)
{
    const char *refusal;

    answer->json = json_loads(answer->text, JSON_REJECT_DUPLICATES, NULL);
    refusal = json_string_value(json_object_get(answer->json, "error"));
    if (!json_is_object(answer->json))
        ctl_error_set(error, CTL_UNAVAILABLE, "the answer from %s is not a document of "
                      "mod_vhostlimit", path);
    else if (refusal)
        ctl_error_set(error, CTL_REFUSED, "%s", refusal);
}

/* --- the command ---------------------------------------------------------- */

/* Returns the line with the body behind it, which the caller frees; NULL: a word cannot be
 * sent. */
static char *make_line(const char *const words[], const char *body)
{
    char *line = NULL;
    int i;

    for (i = 0; words[i]; i++) {
        if (strpbrk(words[i], "\t\r\n")) {
            free(line);
            return NULL;
        }
        ctl_append(&line, "%s%s", i ? "\t" : "", words[i]);
    }
    ctl_append(&line, "\n%s", body ? body : "");
    return line;
}

static ctl_exit_e ask(const char *socket, const char *const words[], const char *body,
                      int is_text, ctl_answer_t *ret_answer, ctl_error_t *error)
{
    char *line = make_line(words, body), *found = NULL;
    buffer_t buffer = { NULL, 0, 0 };

    memset(ret_answer, 0, sizeof(*ret_answer));
    error->status = CTL_DONE;
    if (!line)
        return ctl_error_set(error, CTL_USAGE,
                             "a name or value must not contain a tab or a line break");
    if (!socket)
        socket = found = find_socket(error);
    if (socket && strlen(socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        ctl_error_set(error, CTL_UNAVAILABLE, "no answer from %s: the path of a socket has at "
                      "most 107 bytes", socket);
    else if (socket) {
        exchange(socket, line, &buffer, ret_answer, error);
        ret_answer->text = buffer.bytes;
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a complete answer has bytes */
        if (error->status == CTL_DONE && !(is_text && strncmp(ret_answer->text, "{\"error\"", 8)))
            parse(socket, ret_answer, error);
        if (error->status != CTL_DONE)
            ctl_client_free(ret_answer);
    }
    free(found);
    free(line);
    return error->status;
}

ctl_exit_e ctl_client_ask(const char *socket, const char *const words[],
                          const char *body, ctl_answer_t *ret_answer,
                          ctl_error_t *error)
{
    return ask(socket, words, body, 0, ret_answer, error);
}

ctl_exit_e ctl_client_ask_text(const char *socket, const char *const words[],
                               ctl_answer_t *ret_answer, ctl_error_t *error)
{
    return ask(socket, words, NULL, 1, ret_answer, error);
}

void ctl_client_free(ctl_answer_t *answer)
{
    free(answer->text);
    json_decref(answer->json);
    answer->text = NULL;
    answer->json = NULL;
}
