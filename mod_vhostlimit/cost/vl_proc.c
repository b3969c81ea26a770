/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_proc.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <apr_strings.h>

#include "base/vl_own.h"

/* Files /proc/PID/task/TID/syscall and schedstat that stay open: reading an open one costs 1.3 us,
 * and 5.3 us with open() and close(). */
#define CACHE_SIZE 512
/* Programs of one process that are looked at. */
#define PROGRAMS 16
#define PROGRAM_THREADS 64
/* State of a TCP socket in /proc/net/tcp (include/net/tcp_states.h). */
#define TCP_LISTENS 0x0a
/* Flag of a Unix socket that listens in /proc/net/unix (include/linux/net.h). */
#define SO_ACCEPTS 0x10000

typedef struct cached_t {
    pid_t tid;
    int fd;
} cached_t;

static struct {
    int netlink;
    apr_uint32_t sequence;
    cached_t syscalls[CACHE_SIZE], schedstats[CACHE_SIZE];
} proc = { .netlink = -1 };

int vl_proc_open(void)
{
    int i, pair[2];
    vl_peer_t peer;
    apr_uint64_t inode;
    int works = 0;

    for (i = 0; i < CACHE_SIZE; i++)
        proc.syscalls[i].fd = proc.schedstats[i].fd = -1;
    proc.netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (proc.netlink < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return 0;
    inode = vl_proc_inode(getpid(), pair[0], NULL);
    works = vl_proc_peer(getpid(), pair[0], inode, &peer) == VL_PEER_HERE
            && peer.inode == vl_proc_inode(getpid(), pair[1], NULL);
    close(pair[0]);
    close(pair[1]);
    return works;
}

/* --- what a thread waits for ------------------------------------------------ */

long vl_proc_parse_syscall(const char *text, unsigned long ret_args[2])
{
    char *end;
    long number;
    int i;

    if (!strncmp(text, "running", 7))
        return -1;
    number = strtol(text, &end, 10);
    /* -1: the thread is blocked outside of a system call, in a page fault for example. */
    if (end == text || number < 0)
        return -2;
    for (i = 0; i < 2; i++)
        ret_args[i] = strtoul(end, &end, 16);
    return number;
}

/* Reads a file of a thread. Returns the number of bytes read, or -1. */
static ssize_t read_cached(cached_t *cache, pid_t pid, pid_t tid, const char *name, char *text,
                           size_t size)
{
    char path[64];
    int *fd = &cache[(unsigned)tid % CACHE_SIZE].fd;
    pid_t *owner = &cache[(unsigned)tid % CACHE_SIZE].tid;
    ssize_t n;
    int tries;

    for (tries = 0; tries < 2; tries++) {
        if (*fd >= 0 && (*owner != tid || tries)) {
            close(*fd);
            *fd = -1;
        }
        if (*fd < 0) {
            apr_snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
            *fd = open(path, O_RDONLY | O_CLOEXEC);
            *owner = tid;
        }
        if (*fd < 0)
            return -1;
        n = pread(*fd, text, size - 1, 0);
        if (n > 0) {
            text[n] = '\0';
            return n;
        }
    }
    return -1;
}

/* Copies memory of the other process. Returns the number of bytes, or -1. */
static ssize_t copy_memory(pid_t pid, unsigned long address, void *to, size_t size)
{
    struct iovec here = { to, size }, there = { NULL, size };

    memcpy(&there.iov_base, &address, sizeof(address));
    return process_vm_readv(pid, &here, 1, &there, 1, 0);
}

/* Reads the descriptors of an epoll set: lines "tfd: N events: ..." (proc(5)). */
static void read_epoll(pid_t pid, int epoll_fd, vl_waits_t *waits)
{
    char path[64], line[256];
    FILE *file;

    apr_snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, epoll_fd);
    file = fopen(path, "re");
    while (file && waits->n < VL_PROC_FDS && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "tfd:", 4))
            waits->fd[waits->n++] = (int)strtol(line + 4, NULL, 10);
    }
    if (file)
        (void)fclose(file);
}

static void find_waits(pid_t pid, long number, const unsigned long args[2], vl_waits_t *waits)
{
    struct pollfd fds[VL_PROC_FDS];
    ssize_t size;
    fd_set set;
    int i, n;

    switch (number) {
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
        n = args[1] < VL_PROC_FDS ? (int)args[1] : VL_PROC_FDS;
        size = n * (ssize_t)sizeof(fds[0]);
        if (!n || copy_memory(pid, args[0], fds, (size_t)size) != size)
            break;
        for (i = 0; i < n; i++)
            waits->fd[waits->n++] = fds[i].fd;
        break;
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
        FD_ZERO(&set);
        if (copy_memory(pid, args[1], &set, (args[0] < FD_SETSIZE ? args[0] + 63 : FD_SETSIZE) / 64 * 8) <= 0)
            break;
        for (i = 0; i < FD_SETSIZE && waits->n < VL_PROC_FDS; i++) {
            if (FD_ISSET(i, &set))
                waits->fd[waits->n++] = i;
        }
        break;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        read_epoll(pid, (int)args[0], waits);
        waits->is_loop = 1;
        break;
    case SYS_read: case SYS_readv: case SYS_recvfrom: case SYS_recvmsg:
    case SYS_write: case SYS_writev: case SYS_sendto: case SYS_sendmsg: case SYS_sendfile:
    case SYS_connect: case SYS_accept: case SYS_accept4:
        waits->fd[waits->n++] = (int)args[0];
        break;
    case SYS_wait4: case SYS_waitid:
        waits->is_for_child = 1;
        break;
    default:
        break;
    }
}

vl_proc_e vl_proc_look(pid_t pid, pid_t tid, vl_waits_t *ret_waits)
{
    char text[256];
    unsigned long args[2];
    long number;

    ret_waits->n = ret_waits->is_for_child = ret_waits->is_loop = 0;
    errno = 0;
    if (read_cached(proc.syscalls, pid, tid, "syscall", text, sizeof(text)) < 0)
        return errno == EPERM || errno == EACCES ? VL_PROC_DENIED : VL_PROC_GONE;
    number = vl_proc_parse_syscall(text, args);
    if (number == -1)
        return VL_PROC_RUNS;
    find_waits(pid, number, args, ret_waits);
    return VL_PROC_WAITS;
}

/* --- sockets ------------------------------------------------------------------ */

apr_uint64_t vl_proc_inode(pid_t pid, int fd, int *ret_is_pipe)
{
    char path[64], target[64];
    ssize_t n;
    int is_pipe;

    apr_snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    n = readlink(path, target, sizeof(target) - 1);
    if (n <= 0)
        return 0;
    target[n] = '\0';
    is_pipe = !strncmp(target, "pipe:[", 6);
    if (ret_is_pipe)
        *ret_is_pipe = is_pipe;
    if (is_pipe)
        return strtoull(target + 6, NULL, 10);
    return !strncmp(target, "socket:[", 8) ? strtoull(target + 8, NULL, 10) : 0;
}

/* Sends a question about one socket and reads the answer. Returns the message, or NULL if
 * there is no such socket. */
static struct nlmsghdr *ask(const void *question, size_t size, char *answer, size_t answer_size)
{
    struct nlmsghdr head = { (apr_uint32_t)(NLMSG_HDRLEN + size), SOCK_DIAG_BY_FAMILY,
                             NLM_F_REQUEST, ++proc.sequence, 0 };
    struct iovec parts[] = { { &head, sizeof(head) }, { (void *)question, size } };
    struct nlmsghdr *got = (struct nlmsghdr *)answer;
    ssize_t n;

    if (writev(proc.netlink, parts, 2) < 0)
        return NULL;
    do {
        n = recv(proc.netlink, answer, answer_size, 0);
    } while ((n < 0 && errno == EINTR)
             || (n >= (ssize_t)sizeof(*got) && got->nlmsg_seq != proc.sequence));
    return n >= (ssize_t)sizeof(*got) && NLMSG_OK(got, (size_t)n)
           && got->nlmsg_type == SOCK_DIAG_BY_FAMILY ? got : NULL;
}

/* Finds the other end of the Unix socket with this inode, and the path of the socket itself. */
static vl_peer_e ask_unix(apr_uint64_t inode, vl_peer_t *ret_peer)
{
    struct unix_diag_req question = { .sdiag_family = AF_UNIX, .udiag_states = -1U,
                                      .udiag_ino = (apr_uint32_t)inode,
                                      .udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_NAME,
                                      .udiag_cookie = { -1U, -1U } };
    char answer[1024];
    struct nlmsghdr *got = ask(&question, sizeof(question), answer, sizeof(answer));
    vl_peer_e found = VL_PEER_NONE;
    const struct rtattr *attribute;         /* as struct nlattr */
    apr_uint32_t peer = 0;
    size_t length;
    int left;

    ret_peer->name[0] = '\0';
    ret_peer->inode = 0;
    if (!got)
        return VL_PEER_NONE;
    attribute = (const struct rtattr *)((char *)NLMSG_DATA(got) + NLMSG_ALIGN(sizeof(struct unix_diag_msg)));
    left = (int)got->nlmsg_len - (int)((const char *)attribute - answer);
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        length = RTA_PAYLOAD(attribute);
        if (attribute->rta_type == UNIX_DIAG_PEER && length >= sizeof(peer)) {
            memcpy(&peer, RTA_DATA(attribute), sizeof(peer));
            ret_peer->inode = peer;
            found = peer ? VL_PEER_HERE : VL_PEER_QUEUED;
        }
        else if (attribute->rta_type == UNIX_DIAG_NAME && length) {
            length = length < sizeof(ret_peer->name) ? length : sizeof(ret_peer->name) - 1;
            memcpy(ret_peer->name, RTA_DATA(attribute), length);
            ret_peer->name[length] = '\0';
            if (!ret_peer->name[0])         /* an abstract name */
                ret_peer->name[0] = '@';
        }
    }
    return found;
}

typedef union address_t {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_storage all;
} address_t;

typedef struct socket_t {
    address_t local, remote;
    socklen_t remote_size;
    struct ucred client;            /* of a Unix socket: the process that has connected, or has called listen() */
} socket_t;

/* Copies the other process's descriptor, so that its addresses can be asked for. Returns 1 if it is a connected
 * socket. */
static int look_at_socket(pid_t pid, int fd, socket_t *ret_socket)
{
    socklen_t local_size = sizeof(address_t), client_size = sizeof(ret_socket->client);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), copy = -1, is_connected;

    memset(ret_socket, 0, sizeof(*ret_socket));
    ret_socket->remote_size = sizeof(address_t);
    if (pidfd >= 0) {
        copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        close(pidfd);
    }
    if (copy < 0)
        return 0;
    (void)getsockopt(copy, SOL_SOCKET, SO_PEERCRED, &ret_socket->client, &client_size);
    is_connected = !getsockname(copy, &ret_socket->local.any, &local_size)
                   && !getpeername(copy, &ret_socket->remote.any, &ret_socket->remote_size);
    close(copy);
    return is_connected;
}

int vl_proc_ip_matches(const vl_ip_t *listens, const vl_ip_t *address)
{
    if (IN6_ARE_ADDR_EQUAL(listens, address))
        return 2;
    return IN6_IS_ADDR_UNSPECIFIED(listens) || (IN6_IS_ADDR_V4MAPPED(listens) && !listens->s6_addr32[3]);
}

/* Asks for the socket at the other end of a TCP connection, or, without from_ip and from_port, for one that accepts
 * connections to the address. Returns 0 if there is none. */
static int ask_tcp(int family, const vl_peer_t *peer, struct inet_diag_msg *ret_socket)
{
    struct inet_diag_req_v2 question = { .sdiag_family = (apr_byte_t)family, .sdiag_protocol = IPPROTO_TCP,
                                         .idiag_states = -1U };
    const int first = family == AF_INET ? 3 : 0;
    const size_t size = (size_t)(4 - first) * sizeof(peer->ip.s6_addr32[0]);
    char answer[1024];
    const struct nlmsghdr *got;

    memcpy(question.id.idiag_src, peer->ip.s6_addr32 + first, size);
    memcpy(question.id.idiag_dst, peer->from_ip.s6_addr32 + first, size);
    question.id.idiag_sport = htons((apr_uint16_t)peer->port);
    question.id.idiag_dport = htons((apr_uint16_t)peer->from_port);
    question.id.idiag_cookie[0] = question.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    got = ask(&question, sizeof(question), answer, sizeof(answer));
    if (got)
        memcpy(ret_socket, NLMSG_DATA(got), sizeof(*ret_socket));
    return got != NULL;
}

vl_peer_e vl_proc_peer(pid_t pid, int fd, apr_uint64_t inode, vl_peer_t *ret_peer)
{
    vl_peer_e found = ask_unix(inode, ret_peer);
    char ip[INET6_ADDRSTRLEN] = "";
    struct inet_diag_msg other;
    socket_t socket;
    int family;

    ret_peer->name[0] = '\0';
    ret_peer->port = 0;
    ret_peer->listener = 0;
    if (found != VL_PEER_NONE || !look_at_socket(pid, fd, &socket))
        return found;
    ret_peer->port = vl_own_address(&socket.remote.any, &ret_peer->ip);
    ret_peer->from_port = vl_own_address(&socket.local.any, &ret_peer->from_ip);
    if (!ret_peer->port || !ret_peer->from_port)
        return VL_PEER_NONE;
    family = socket.local.any.sa_family;
    inet_ntop(family, ret_peer->ip.s6_addr32 + (family == AF_INET ? 3 : 0), ip, sizeof(ip));
    apr_snprintf(ret_peer->name, sizeof(ret_peer->name), family == AF_INET6 ? "[%s]:%d" : "%s:%d", ip, ret_peer->port);
    if (ask_tcp(family, ret_peer, &other)) {
        ret_peer->inode = other.idiag_inode;
        return ret_peer->inode ? VL_PEER_HERE : VL_PEER_QUEUED;
    }
    return IN6_ARE_ADDR_EQUAL(&ret_peer->ip, &ret_peer->from_ip) ? VL_PEER_HIDDEN : VL_PEER_REMOTE;
}

pid_t vl_proc_client(pid_t pid, int fd)
{
    socket_t socket;

    (void)look_at_socket(pid, fd, &socket);
    return socket.client.pid;
}

/* Returns the n-th field of the line, counted from 0; fields end at blanks. */
static const char *field(const char *line, int n)
{
    line += strspn(line, " ");
    for (; n; n--) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return line;
}

/* Reads the address in a line of /proc/net/tcp or tcp6. Returns the port. */
static int read_ip(const char *text, vl_ip_t *ret_ip)
{
    char word[9] = "";
    int n = strcspn(text, ":") > 8 ? 0 : 3;

    memset(ret_ip, 0, sizeof(*ret_ip));
    ret_ip->s6_addr32[2] = htonl(0xffff);           /* of an IPv4 address */
    for (; n < 4 && strcspn(text, ":") >= 8; n++, text += 8) {
        memcpy(word, text, 8);
        ret_ip->s6_addr32[n] = (apr_uint32_t)strtoul(word, NULL, 16);
    }
    return *text == ':' ? (int)strtol(text + 1, NULL, 16) : 0;
}

/* Opens a list of sockets in the network namespace of the process, 0: of this one. */
static FILE *open_sockets(pid_t pid, const char *name)
{
    char path[64];

    apr_snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)(pid ? pid : getpid()), name);
    return fopen(path, "re");
}

/* Calls `see` for the Unix sockets that listen at this path ("": any), until it returns 0. Fields: num refcount protocol
 * flags type st inode path. */
static void see_unix(pid_t pid, const char *name, vl_proc_listener_fn *see, void *data)
{
    FILE *file = open_sockets(pid, "unix");
    apr_uint64_t inode;
    char line[512];
    int more = 1;

    while (file && more && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        inode = strtoull(field(line, 6), NULL, 10);
        if (inode && (strtol(field(line, 3), NULL, 16) & SO_ACCEPTS) && (!*name || !strcmp(field(line, 7), name)))
            more = see(data, inode, field(line, 7));
    }
    if (file)
        (void)fclose(file);
}

/* Calls `see` for the TCP sockets that listen. The lists in /proc/net have all other ones too: reading them takes
 * milliseconds. */
static void see_tcp(int family, vl_proc_listener_fn *see, void *data)
{
    const struct inet_diag_req_v2 question = { .sdiag_family = (apr_byte_t)family, .sdiag_protocol = IPPROTO_TCP,
                                               .idiag_states = 1U << TCP_LISTENS };
    struct nlmsghdr head = { NLMSG_HDRLEN + sizeof(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP,
                             ++proc.sequence, 0 };
    const struct iovec parts[] = { { &head, sizeof(head) }, { (void *)&question, sizeof(question) } };
    static char answer[32768];
    struct nlmsghdr *got;
    ssize_t n = writev(proc.netlink, parts, 2);
    int more = n >= 0;

    while (more) {
        n = recv(proc.netlink, answer, sizeof(answer), 0);
        if (n < 0 && errno == EINTR)
            continue;
        more = n > 0;
        for (got = (struct nlmsghdr *)answer; more && NLMSG_OK(got, (size_t)n); got = NLMSG_NEXT(got, n)) {
            if (got->nlmsg_seq != proc.sequence)
                continue;
            more = got->nlmsg_type == SOCK_DIAG_BY_FAMILY;
            if (more)
                see(data, ((struct inet_diag_msg *)NLMSG_DATA(got))->idiag_inode, "");
        }
    }
}

static int keep_first(void *data, apr_uint64_t inode, const char *name)
{
    (void)name;
    *(apr_uint64_t *)data = inode;
    return 0;
}

/* Finds the TCP socket that accepts connections to the peer's address in a list of another network namespace. best: how
 * the one that was found so far listens at it (vl_proc_ip_matches()). Returns it. */
static int find_tcp(pid_t pid, const char *name, const vl_peer_t *peer, int best, apr_uint64_t *ret_inode)
{
    FILE *file = open_sockets(pid, name);
    char line[512];
    vl_ip_t ip;
    int matches;

    /* Those that listen are the first ones. */
    while (file && best < 2 && fgets(line, sizeof(line), file)) {
        if (read_ip(field(line, 1), &ip) != peer->port || strtol(field(line, 3), NULL, 16) != TCP_LISTENS)
            continue;
        matches = vl_proc_ip_matches(&ip, &peer->ip);
        if (matches > best)
            *ret_inode = strtoull(field(line, 9), NULL, 10);
        best = matches > best ? matches : best;
    }
    if (file)
        (void)fclose(file);
    return best;
}

apr_uint64_t vl_proc_listener(const vl_peer_t *peer)
{
    const vl_peer_t address = { .ip = peer->ip, .port = peer->port };
    struct inet_diag_msg socket;
    apr_uint64_t found = 0;

    if (!peer->port)
        see_unix(0, peer->name, keep_first, &found);
    else if (ask_tcp(IN6_IS_ADDR_V4MAPPED(&peer->ip) ? AF_INET : AF_INET6, &address, &socket)
             && socket.idiag_state == TCP_LISTENS)
        found = socket.idiag_inode;
    return found;
}

/* A name that is relative to the folder in which the server was started ("app.sock") becomes a path. pid: the
 * process that listened first. */
static void add_folder(pid_t pid, char *name, size_t size)
{
    char folder[PATH_MAX], path[PATH_MAX + 128];
    size_t length;

    if (pid <= 0 || !vl_proc_folder(pid, folder, sizeof(folder)))
        return;
    /* The end tells two of them apart if it is too long. */
    length = (size_t)apr_snprintf(path, sizeof(path), "%s/%s", folder, name);
    apr_cpystrn(name, path + (length < size ? 0 : length - size + 1), size);
}

void vl_proc_name(pid_t pid, int fd, vl_peer_t *peer)
{
    vl_peer_t other;
    socket_t socket;
    char *path = socket.remote.un.sun_path;
    apr_uint64_t net;
    size_t length;
    int is_connected;

    if (peer->name[0])
        return;
    is_connected = look_at_socket(pid, fd, &socket);
    if (peer->inode) {
        (void)ask_unix(peer->inode, &other);
        apr_cpystrn(peer->name, other.name[0] ? other.name : "unnamed socket", sizeof(peer->name));
        if (!other.name[0])
            return;
    }
    /* One that has not been accepted has no inode. */
    else if (is_connected && socket.remote_size > offsetof(struct sockaddr_un, sun_path)) {
        if (!*path)                         /* an abstract name */
            *path = '@';
        apr_cpystrn(peer->name, path, sizeof(peer->name));
    }
    if (peer->name[0] && peer->name[0] != '/' && peer->name[0] != '@')
        add_folder(socket.client.pid, peer->name, sizeof(peer->name));
    /* Each container may have a socket with this path. */
    length = strlen(peer->name);
    net = length && socket.client.pid > 0 ? vl_proc_net(socket.client.pid) : 0;
    if (!net || net == vl_proc_net(getpid()))
        return;
    see_unix(socket.client.pid, peer->name, keep_first, &peer->listener);
    apr_snprintf(peer->name + length, sizeof(peer->name) - length, "#%" APR_UINT64_T_FMT, peer->listener);
}

/* Returns 1 if the process's network namespace has the address. */
static int has_ip(pid_t pid, const vl_ip_t *ip)
{
    const int is_ip6 = !IN6_IS_ADDR_V4MAPPED(ip);
    char address[64] = "|-- ", line[256];
    FILE *file = open_sockets(pid, is_ip6 ? "if_inet6" : "fib_trie");
    size_t i;
    int found = 0;

    if (!is_ip6)
        inet_ntop(AF_INET, ip->s6_addr32 + 3, address + 4, sizeof(address) - 4);
    for (i = 0; is_ip6 && i < 16; i++)
        apr_snprintf(address + i * 2, 3, "%02x", ip->s6_addr[i]);
    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, is_ip6 ? " " : "\n")] = '\0';
        found = !strcmp(line + strspn(line, " "), address);
    }
    if (file)
        (void)fclose(file);
    return found;
}

/* Finds the connection in a list: the port of an address of this machine may be forwarded to another network
 * namespace. Returns 1 if it is there, and fills in its own address. */
static int find_connection(pid_t pid, const char *name, const vl_peer_t *peer, vl_peer_t *ret_local)
{
    FILE *file = open_sockets(pid, name);
    char line[512];
    vl_ip_t ip;
    int found = 0;

    while (file && !found && fgets(line, sizeof(line), file)) {
        found = read_ip(field(line, 2), &ip) == peer->from_port && !memcmp(&ip, &peer->from_ip, sizeof(ip));
        if (found)
            ret_local->port = read_ip(field(line, 1), &ret_local->ip);
    }
    if (file)
        (void)fclose(file);
    return found;
}

int vl_proc_apart(pid_t pid, vl_peer_t *peer)
{
    vl_peer_t local = *peer;

    if (memcmp(&peer->ip, &peer->from_ip, sizeof(peer->ip))) {
        if (!has_ip(pid, &peer->ip))
            return 0;
    }
    else if (!find_connection(pid, "tcp", peer, &local) && !find_connection(pid, "tcp6", peer, &local)) {
        return 0;
    }
    peer->listener = 0;
    (void)find_tcp(pid, "tcp6", &local, find_tcp(pid, "tcp", &local, 0, &peer->listener), &peer->listener);
    peer->port = local.port;
    return peer->listener != 0;
}

apr_uint64_t vl_proc_from_port(pid_t pid, int fd)
{
    vl_ip_t unused;
    socket_t socket;
    int port = look_at_socket(pid, fd, &socket) ? vl_own_address(&socket.remote.any, &unused) : 0;

    return port ? VL_PROC_FROM_PORT | (apr_uint64_t)port : 0;
}

void vl_proc_listeners(vl_proc_listener_fn *see, void *data)
{
    see_unix(0, "", see, data);
    see_tcp(AF_INET, see, data);
    see_tcp(AF_INET6, see, data);
}

apr_uint64_t vl_proc_net(pid_t pid)
{
    struct stat about;
    char path[64];

    apr_snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    return stat(path, &about) ? 0 : about.st_ino;
}

/* --- processes ---------------------------------------------------------------- */

apr_uint64_t vl_proc_cpu_ns(pid_t pid)
{
    /* As clock_getcpuclockid(3) makes it, without its system call: the sampler reads these
     * clocks more often than anything else. */
    const clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | 2);
    struct timespec used;

    if (clock_gettime(clock, &used))
        return 0;
    return (apr_uint64_t)used.tv_sec * 1000000000 + (apr_uint64_t)used.tv_nsec;
}

apr_uint64_t vl_proc_thread_ns(pid_t pid, pid_t tid)
{
    char text[128];

    /* CPU time, run-queue delay, number of time slices. */
    return read_cached(proc.schedstats, pid, tid, "schedstat", text, sizeof(text)) < 0
           ? 0 : strtoull(text, NULL, 10);
}

int vl_proc_read(pid_t pid, const char *name, char *ret_text, size_t size)
{
    char path[96];
    ssize_t n = -1;
    int fd;

    apr_snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, ret_text, size - 1);
        close(fd);
    }
    ret_text[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

/* Reads /proc/PID/stat into text. Returns the part after the name, which may contain blanks and
 * parentheses, or NULL. The fields: state ppid pgrp session tty tpgid flags minflt cminflt majflt
 * cmajflt utime stime cutime cstime priority nice threads itrealvalue starttime. */
static const char *read_stat(pid_t pid, char *text, size_t size)
{
    const char *at = vl_proc_read(pid, "stat", text, size) ? strrchr(text, ')') : NULL;

    return at ? at + 1 : NULL;
}

static apr_uint64_t ticks(const char *text)
{
    return strtoull(text, NULL, 10) * (1000000000 / (apr_uint64_t)sysconf(_SC_CLK_TCK));
}

pid_t vl_proc_parent(pid_t pid, apr_uint64_t *ret_children_ns)
{
    char text[1024];
    const char *at = read_stat(pid, text, sizeof(text));

    *ret_children_ns = at ? ticks(field(at, 13)) + ticks(field(at, 14)) : 0;
    return at ? (pid_t)strtol(field(at, 1), NULL, 10) : 0;
}

apr_int64_t vl_proc_age_us(pid_t pid)
{
    char text[1024];
    const char *at = read_stat(pid, text, sizeof(text));
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (apr_int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000
           - (at ? (apr_int64_t)(ticks(field(at, 19)) / 1000) : 0);
}

int vl_proc_folder(pid_t pid, char *ret_folder, size_t size)
{
    char path[64];
    ssize_t n;

    apr_snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
    n = readlink(path, ret_folder, size - 1);
    ret_folder[n > 0 ? n : 0] = '\0';
    return n > 0;
}

int vl_proc_is_alike(pid_t pid, pid_t other)
{
    const pid_t pids[] = { pid, other };
    char path[64], groups[2][2048];
    struct stat about[2];
    int i;

    for (i = 0; i < 2; i++) {
        apr_snprintf(path, sizeof(path), "/proc/%d", (int)pids[i]);
        if (stat(path, &about[i]) || !vl_proc_read(pids[i], "cgroup", groups[i], sizeof(groups[i])))
            return 0;
    }
    return about[0].st_uid == about[1].st_uid && !strcmp(groups[0], groups[1]);
}

int vl_proc_children(pid_t pid, pid_t tid, pid_t *ret_pids, int max)
{
    char path[96], text[4096];
    int fd, n = 0;
    pid_t child = 0;
    ssize_t i, length;

    apr_snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)(tid ? tid : pid));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    /* One read returns a page of the list at most. */
    while (fd >= 0 && n < max && (length = read(fd, text, sizeof(text))) > 0) {
        for (i = 0; i < length && n < max; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                child = child * 10 + (text[i] - '0');
            }
            else if (child) {
                ret_pids[n++] = child;
                child = 0;
            }
        }
    }
    if (fd >= 0)
        close(fd);
    return n;
}

int vl_proc_count_threads(pid_t pid, int max)
{
    struct stat about;
    char path[64];
    int n;

    apr_snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    /* proc_task_getattr() of the kernel adds the number of threads to the links of any folder. */
    n = stat(path, &about) ? 0 : (int)about.st_nlink - 2;
    return n < max ? n : max;
}

int vl_proc_threads(pid_t pid, pid_t *ret_tids, int max)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;
    int n = 0;

    if (vl_proc_count_threads(pid, 2) == 1) {
        ret_tids[0] = pid;
        return 1;
    }
    apr_snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir && n < max && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.')
            ret_tids[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    if (dir)
        (void)closedir(dir);
    return n;
}

/* Returns 1 if a thread of the process wants a processor. */
static int wants_processor(pid_t pid)
{
    pid_t tids[PROGRAM_THREADS];
    vl_waits_t waits;
    int i, n = vl_proc_threads(pid, tids, PROGRAM_THREADS);

    for (i = 0; i < n; i++) {
        if (vl_proc_look(pid, tids[i], &waits) == VL_PROC_RUNS)
            return 1;
    }
    return 0;
}

apr_uint64_t vl_proc_programs_ns(pid_t pid, int generations, int *ret_run)
{
    pid_t tids[PROGRAM_THREADS], programs[PROGRAMS];
    apr_uint64_t ns = 0;
    int i, n = 0, threads = vl_proc_threads(pid, tids, PROGRAM_THREADS);

    for (i = 0; i < threads; i++)
        n += vl_proc_children(pid, tids[i], programs + n, PROGRAMS - n);
    for (i = 0; i < n; i++) {
        ns += vl_proc_cpu_ns(programs[i]);
        *ret_run += wants_processor(programs[i]);
        if (generations > 1)
            ns += vl_proc_programs_ns(programs[i], generations - 1, ret_run);
    }
    return ns;
}
