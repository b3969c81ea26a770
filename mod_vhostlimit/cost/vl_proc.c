/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_proc.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
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
/* Programs of one process that are looked at, and generations behind these. */
#define PROGRAMS 16
#define PROGRAMS_DEPTH 2
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

/* Copies the descriptors of poll()'s argument. */
static void read_pollfds(pid_t pid, unsigned long address, unsigned long n, vl_waits_t *waits)
{
    struct pollfd fds[VL_PROC_FDS];
    size_t i, count = n < VL_PROC_FDS ? n : VL_PROC_FDS;
    struct iovec to = { fds, count * sizeof(fds[0]) }, from;

    /* An address in the other process. */
    from.iov_base = NULL;
    from.iov_len = to.iov_len;
    memcpy(&from.iov_base, &address, sizeof(from.iov_base));

    if (!count || process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)to.iov_len)
        return;
    for (i = 0; i < count; i++)
        waits->fd[waits->n++] = fds[i].fd;
}

/* The same for the first set of select(). */
static void read_fdset(pid_t pid, unsigned long address, unsigned long n, vl_waits_t *waits)
{
    fd_set set;
    struct iovec to = { &set, (n < FD_SETSIZE ? n + 63 : FD_SETSIZE) / 64 * 8 }, from;
    int fd;

    FD_ZERO(&set);
    from.iov_len = to.iov_len;
    memcpy(&from.iov_base, &address, sizeof(from.iov_base));
    if (process_vm_readv(pid, &to, 1, &from, 1, 0) <= 0)
        return;
    for (fd = 0; fd < FD_SETSIZE && waits->n < VL_PROC_FDS; fd++) {
        if (FD_ISSET(fd, &set))
            waits->fd[waits->n++] = fd;
    }
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
    switch (number) {
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
        read_pollfds(pid, args[0], args[1], waits);
        break;
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
        read_fdset(pid, args[1], args[0], waits);
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

/* Reads the peer and the path of the Unix socket with this inode. Returns 0 if there is
 * none. *ret_has_peer: it is connected. */
static int ask_unix(apr_uint64_t inode, apr_uint32_t *ret_peer, int *ret_has_peer, char *name,
                    size_t size)
{
    struct unix_diag_req question = { .sdiag_family = AF_UNIX, .udiag_states = -1U,
                                      .udiag_ino = (apr_uint32_t)inode,
                                      .udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_NAME,
                                      .udiag_cookie = { -1U, -1U } };
    char answer[1024];
    struct nlmsghdr *got = ask(&question, sizeof(question), answer, sizeof(answer));
    struct nlattr *attribute;
    size_t left, length;
    char *at;

    *ret_peer = 0;
    *ret_has_peer = 0;
    name[0] = '\0';
    if (!got)
        return 0;
    at = (char *)NLMSG_DATA(got) + NLMSG_ALIGN(sizeof(struct unix_diag_msg));
    left = got->nlmsg_len - (size_t)(at - answer);
    while (left >= sizeof(*attribute)) {
        attribute = (struct nlattr *)at;
        if (attribute->nla_len < sizeof(*attribute) || attribute->nla_len > left)
            break;
        length = attribute->nla_len - sizeof(*attribute);
        if (attribute->nla_type == UNIX_DIAG_PEER && length >= sizeof(*ret_peer)) {
            memcpy(ret_peer, attribute + 1, sizeof(*ret_peer));
            *ret_has_peer = 1;
        }
        else if (attribute->nla_type == UNIX_DIAG_NAME) {
            if (length >= size)
                length = size - 1;
            memcpy(name, attribute + 1, length);
            name[length] = '\0';
            if (length && !name[0])     /* an abstract name */
                name[0] = '@';
        }
        length = NLA_ALIGN(attribute->nla_len);
        if (length > left)
            break;
        at += length;
        left -= length;
    }
    return 1;
}

static vl_peer_e peer_of_unix(apr_uint64_t inode, vl_peer_t *peer)
{
    apr_uint32_t number;
    int has_peer, has = ask_unix(inode, &number, &has_peer, peer->name, sizeof(peer->name));

    peer->name[0] = '\0';
    peer->inode = number;
    if (!has || !has_peer)
        return VL_PEER_NONE;
    return number ? VL_PEER_HERE : VL_PEER_QUEUED;
}

/* Copies the other process's descriptor, so that its addresses can be asked for. */
static int copy_fd(pid_t pid, int fd)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), copy = -1;

    if (pidfd >= 0) {
        copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        close(pidfd);
    }
    return copy;
}

/* An IPv4 address that is mapped to IPv6 becomes the IPv4 address. */
static void unmap(vl_ip_t *ip)
{
    if (ip->word[0] || ip->word[1] || ip->word[2] != htonl(0xffff))
        return;
    ip->word[0] = ip->word[3];
    ip->word[2] = ip->word[3] = 0;
}

int vl_proc_ip(const struct sockaddr *address, vl_ip_t *ret_ip)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;

    memset(ret_ip, 0, sizeof(*ret_ip));
    if (address->sa_family == AF_INET6) {
        memcpy(ret_ip, &in6->sin6_addr, sizeof(*ret_ip));
        unmap(ret_ip);
        return ntohs(in6->sin6_port);
    }
    ret_ip->word[0] = in->sin_addr.s_addr;
    return ntohs(in->sin_port);
}

struct in6_addr vl_proc_ip6(const vl_ip_t *ip)
{
    struct in6_addr address;

    memcpy(&address, ip, sizeof(address));
    if (!ip->word[1] && !ip->word[2] && !ip->word[3]) {
        address.s6_addr32[3] = ip->word[0];
        address.s6_addr32[2] = htonl(0xffff);
        address.s6_addr32[0] = 0;
    }
    return address;
}

apr_uint32_t vl_proc_key(const vl_ip_t *client, int client_port, int server_port)
{
    const struct in6_addr address = vl_proc_ip6(client);

    return vl_own_key_of(&address, client_port, server_port);
}

int vl_proc_ip_matches(const vl_ip_t *listens, const vl_ip_t *address)
{
    static const vl_ip_t any;

    return !memcmp(listens, address, sizeof(*listens)) ? 2 : !memcmp(listens, &any, sizeof(any));
}

static void put_address(const struct sockaddr_storage *address, __be32 ret_ip[4], __be16 *ret_port)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;

        memset(ret_ip, 0, 16);
        ret_ip[0] = in->sin_addr.s_addr;
        *ret_port = in->sin_port;
    }
    else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

        memcpy(ret_ip, &in6->sin6_addr, 16);
        *ret_port = in6->sin6_port;
    }
}

static vl_peer_e peer_of_tcp(const struct sockaddr_storage *local,
                             const struct sockaddr_storage *remote, vl_peer_t *peer)
{
    struct inet_diag_req_v2 question = { .sdiag_family = (apr_byte_t)local->ss_family,
                                         .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1U };
    char answer[1024], ip[INET6_ADDRSTRLEN] = "";
    struct nlmsghdr *got;
    __be32 mine[4];
    __be16 port;

    put_address(local, mine, &port);
    question.id.idiag_dport = port;
    memcpy(question.id.idiag_dst, mine, sizeof(mine));
    put_address(remote, question.id.idiag_src, &question.id.idiag_sport);
    question.id.idiag_cookie[0] = question.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    peer->port = vl_proc_ip((const struct sockaddr *)remote, &peer->ip);
    peer->from_port = vl_proc_ip((const struct sockaddr *)local, &peer->from_ip);
    inet_ntop(local->ss_family, question.id.idiag_src, ip, sizeof(ip));
    apr_snprintf(peer->name, sizeof(peer->name), local->ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d",
             ip, peer->port);
    got = ask(&question, sizeof(question), answer, sizeof(answer));
    if (got) {
        peer->inode = ((struct inet_diag_msg *)NLMSG_DATA(got))->idiag_inode;
        return peer->inode ? VL_PEER_HERE : VL_PEER_QUEUED;
    }
    return !memcmp(question.id.idiag_src, mine, sizeof(mine)) ? VL_PEER_HIDDEN : VL_PEER_REMOTE;
}

vl_peer_e vl_proc_peer(pid_t pid, int fd, apr_uint64_t inode, vl_peer_t *ret_peer)
{
    struct sockaddr_storage local = { 0 }, remote = { 0 };
    socklen_t local_size = sizeof(local), remote_size = sizeof(remote);
    vl_peer_e found = peer_of_unix(inode, ret_peer);
    int copy, known;

    ret_peer->port = 0;
    ret_peer->listener = 0;
    if (found != VL_PEER_NONE)
        return found;
    copy = copy_fd(pid, fd);
    if (copy < 0)
        return VL_PEER_NONE;
    known = !getsockname(copy, (struct sockaddr *)&local, &local_size)
            && !getpeername(copy, (struct sockaddr *)&remote, &remote_size);
    close(copy);
    if (!known || (local.ss_family != AF_INET && local.ss_family != AF_INET6))
        return VL_PEER_NONE;
    return peer_of_tcp(&local, &remote, ret_peer);
}

pid_t vl_proc_client(pid_t pid, int fd)
{
    int copy = copy_fd(pid, fd);
    struct ucred client = { 0 };
    socklen_t size = sizeof(client);

    if (copy < 0)
        return 0;
    if (getsockopt(copy, SOL_SOCKET, SO_PEERCRED, &client, &size))
        client.pid = 0;
    close(copy);
    return client.pid;
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
    int n;

    memset(ret_ip, 0, sizeof(*ret_ip));
    for (n = 0; n < 4 && strcspn(text, ":") >= 8; n++, text += 8) {
        memcpy(word, text, 8);
        ret_ip->word[n] = (apr_uint32_t)strtoul(word, NULL, 16);
    }
    unmap(ret_ip);
    return *text == ':' ? (int)strtol(text + 1, NULL, 16) : 0;
}

/* Returns the inode in a line of /proc/net/unix if the socket listens at this path ("": any), else 0. Fields: num
 * refcount protocol flags type st inode path. */
static apr_uint64_t unix_listener(char *line, const char *name)
{
    line[strcspn(line, "\n")] = '\0';
    if (!(strtol(field(line, 3), NULL, 16) & SO_ACCEPTS)
        || (*name && strcmp(field(line, 7), name) != 0))
        return 0;
    return strtoull(field(line, 6), NULL, 10);
}

/* Opens a list of sockets in the network namespace of the process, 0: of this one. */
static FILE *open_sockets(pid_t pid, const char *name)
{
    char path[64];

    apr_snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)(pid ? pid : getpid()), name);
    return fopen(path, "re");
}

/* Calls `see` for the Unix sockets that listen at this path, until it returns 0. */
static void see_unix(pid_t pid, const char *name, vl_proc_listener_fn *see, void *data)
{
    FILE *file = open_sockets(pid, "unix");
    char line[512];
    apr_uint64_t inode;
    int more = 1;

    while (file && more && fgets(line, sizeof(line), file)) {
        inode = unix_listener(line, name);
        more = !inode || see(data, inode, field(line, 7));
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

/* Returns the inode of the TCP socket that accepts connections to the peer's address, 0 if there is none. */
static apr_uint64_t tcp_listener(const vl_peer_t *peer)
{
    const int is_ip6 = peer->ip.word[1] || peer->ip.word[2] || peer->ip.word[3];
    struct inet_diag_req_v2 question = { .sdiag_family = is_ip6 ? AF_INET6 : AF_INET, .sdiag_protocol = IPPROTO_TCP,
                                         .idiag_states = -1U };
    const struct inet_diag_msg *socket;
    struct nlmsghdr *got;
    char answer[1024];

    question.id.idiag_sport = htons((apr_uint16_t)peer->port);
    memcpy(question.id.idiag_src, peer->ip.word, sizeof(peer->ip.word));
    question.id.idiag_cookie[0] = question.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    got = ask(&question, sizeof(question), answer, sizeof(answer));
    socket = got ? NLMSG_DATA(got) : NULL;
    return socket && socket->idiag_state == TCP_LISTENS ? socket->idiag_inode : 0;
}

/* The same in a list of another network namespace. best: how the socket that was found so far listens at the peer's
 * address (vl_proc_ip_matches()). Returns it. */
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
    apr_uint64_t found = 0;

    if (peer->port)
        return tcp_listener(peer);
    see_unix(0, peer->name, keep_first, &found);
    return found;
}

/* Returns 1 if the process is in another network namespace. */
static int is_elsewhere(pid_t pid)
{
    apr_uint64_t net = vl_proc_net(pid);

    return net && net != vl_proc_net(getpid());
}

/* Copies the path at which the other end of a Unix socket listens. One that has not been accepted has no inode. */
static void name_queued(pid_t pid, int fd, char *name, size_t size)
{
    struct sockaddr_un remote = { 0 };
    socklen_t length = sizeof(remote) - 1;
    int copy = copy_fd(pid, fd);

    if (copy < 0)
        return;
    if (!getpeername(copy, (struct sockaddr *)&remote, &length) && length > offsetof(struct sockaddr_un, sun_path)) {
        if (!remote.sun_path[0])            /* an abstract name */
            remote.sun_path[0] = '@';
        apr_cpystrn(name, remote.sun_path, size);
    }
    close(copy);
}

void vl_proc_name(pid_t pid, int fd, vl_peer_t *peer)
{
    apr_uint32_t unused;
    pid_t server;
    size_t length;
    int has;

    if (peer->name[0])
        return;
    if (peer->inode)
        ask_unix(peer->inode, &unused, &has, peer->name, sizeof(peer->name));
    else
        name_queued(pid, fd, peer->name, sizeof(peer->name));
    length = strlen(peer->name);
    if (!length && peer->inode)
        apr_snprintf(peer->name, sizeof(peer->name), "unnamed socket");
    /* Each container may have a socket with this path. */
    server = length ? vl_proc_client(pid, fd) : 0;
    if (server <= 0 || !is_elsewhere(server))
        return;
    see_unix(server, peer->name, keep_first, &peer->listener);
    apr_snprintf(peer->name + length, sizeof(peer->name) - length, "#%" APR_UINT64_T_FMT, peer->listener);
}

/* Returns 1 if the process's network namespace has the address. */
static int has_ip(pid_t pid, const vl_ip_t *ip)
{
    const int is_ip6 = ip->word[1] || ip->word[2] || ip->word[3];
    const apr_byte_t *byte = (const apr_byte_t *)ip;
    char address[64] = "|-- ", line[256];
    FILE *file = open_sockets(pid, is_ip6 ? "if_inet6" : "fib_trie");
    size_t i;
    int found = 0;

    if (!is_ip6)
        inet_ntop(AF_INET, ip, address + strlen(address), (socklen_t)(sizeof(address) - strlen(address)));
    for (i = 0; is_ip6 && i < 16; i++)
        apr_snprintf(address + i * 2, 3, "%02x", byte[i]);
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
    struct sockaddr_storage remote = { 0 };
    socklen_t size = sizeof(remote);
    int copy = copy_fd(pid, fd), port = 0;
    vl_ip_t unused;

    if (copy < 0)
        return 0;
    if (!getpeername(copy, (struct sockaddr *)&remote, &size)
        && (remote.ss_family == AF_INET || remote.ss_family == AF_INET6))
        port = vl_proc_ip((const struct sockaddr *)&remote, &unused);
    close(copy);
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
    char path[64], target[64];
    ssize_t n;

    apr_snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    n = readlink(path, target, sizeof(target) - 1);
    if (n <= 5)
        return 0;
    target[n] = '\0';
    return strtoull(target + 5, NULL, 10);      /* "net:[" */
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

/* Reads a file of a process into text. Returns 0 if it cannot be read. */
static int read_file(pid_t pid, const char *name, char *text, size_t size)
{
    char path[96];
    ssize_t n = -1;
    int fd;

    apr_snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, size - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

void vl_proc_program(pid_t pid, char *ret_name, size_t size)
{
    read_file(pid, "comm", ret_name, size);
    ret_name[strcspn(ret_name, "\n")] = '\0';
}

int vl_proc_title(pid_t pid, char *ret_title, size_t size)
{
    return read_file(pid, "cmdline", ret_title, size);
}

/* Reads /proc/PID/stat into text. Returns the part after the name, which may contain blanks and
 * parentheses, or NULL. The fields: state ppid pgrp session tty tpgid flags minflt cminflt majflt
 * cmajflt utime stime cutime cstime priority nice threads itrealvalue starttime. */
static const char *read_stat(pid_t pid, char *text, size_t size)
{
    const char *at = read_file(pid, "stat", text, size) ? strrchr(text, ')') : NULL;

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

static uid_t user_of(pid_t pid)
{
    struct stat about;
    char path[64];

    apr_snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return stat(path, &about) ? (uid_t)-1 : about.st_uid;
}

int vl_proc_is_alike(pid_t pid, pid_t other)
{
    char groups[2048], others[2048];

    return user_of(pid) == user_of(other) && read_file(pid, "cgroup", groups, sizeof(groups))
           && read_file(other, "cgroup", others, sizeof(others)) && !strcmp(groups, others);
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

int vl_proc_threads(pid_t pid, pid_t *ret_tids, int max)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;
    int n = 0;

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

/* Returns 1 if a thread of the process wants a processor. */
static int wants_processor(pid_t pid)
{
    pid_t tids[PROGRAM_THREADS];
    vl_waits_t waits;
    int i, n, runs = vl_proc_look(pid, pid, &waits) == VL_PROC_RUNS;

    n = runs || vl_proc_count_threads(pid, PROGRAM_THREADS) < 2 ? 0 : vl_proc_threads(pid, tids, PROGRAM_THREADS);
    for (i = 0; i < n && !runs; i++)
        runs = vl_proc_look(pid, tids[i], &waits) == VL_PROC_RUNS;
    return runs;
}

/* Returns up to max children of all threads of the process. */
static int all_children(pid_t pid, pid_t *ret_pids, int max)
{
    pid_t tids[PROGRAM_THREADS];
    int i, n = 0, threads = vl_proc_count_threads(pid, PROGRAM_THREADS);

    if (threads < 2)
        return vl_proc_children(pid, 0, ret_pids, max);
    threads = vl_proc_threads(pid, tids, PROGRAM_THREADS);
    for (i = 0; i < threads; i++)
        n += vl_proc_children(pid, tids[i], ret_pids + n, max - n);
    return n;
}

static apr_uint64_t programs_ns(pid_t pid, int depth, int *ret_run)
{
    pid_t children[PROGRAMS];
    apr_uint64_t ns = 0;
    int i, n = all_children(pid, children, PROGRAMS);

    for (i = 0; i < n; i++) {
        ns += vl_proc_cpu_ns(children[i]);
        *ret_run += wants_processor(children[i]);
        if (depth)
            ns += programs_ns(children[i], depth - 1, ret_run);
    }
    return ns;
}

apr_uint64_t vl_proc_programs_ns(pid_t pid, int *ret_run)
{
    return programs_ns(pid, PROGRAMS_DEPTH, ret_run);
}
