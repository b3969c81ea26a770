/* SPDX-License-Identifier: Apache-2.0 */
/* A CGI program that tries to get out of the sandbox of its site.  The query string is the
 * name of the attempt and its argument: "kill=4711".  The answer is "escaped", or "refused" and
 * the reason.
 *
 * As "vl-victim FOLDER NAMED" it is a process outside of the sandboxes with things that programs
 * in them should not reach.  It makes FOLDER/done when all are there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns 1 if the file can be opened. */
static int opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int read_file(const char *path) { return opens(path, O_RDONLY); }
static int write_file(const char *path) { return opens(path, O_WRONLY | O_APPEND); }

/* The pid is the victim's outside. Inside, another process may have the number: its name
 * tells. */
static int is_victim(const char *pid)
{
    char path[64], name[64] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    file = fopen(path, "r");
    if (file && !fgets(name, sizeof(name), file))
        *name = '\0';
    if (file)
        fclose(file);
    return !strncmp(name, "vl-victim", 9);
}

static int stat_file(const char *path)
{
    struct stat file;

    return !stat(path, &file);
}

static int see_process(const char *pid) { return is_victim(pid); }

static int read_environ(const char *pid)
{
    char path[64], text[4096];
    int fd;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%s/environ", pid);
    fd = open(path, O_RDONLY);
    n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    return n > 0 && memmem(text, (size_t)n, "SECRET", 6) != NULL;
}

static int signal_process(const char *pid)
{
    return is_victim(pid) ? !kill(atoi(pid), 0) : (errno = ESRCH, !kill(atoi(pid), 0) && 0);
}

static int trace_process(const char *pid)
{
    int stopped = is_victim(pid) && !ptrace(PTRACE_ATTACH, atoi(pid), NULL, NULL);

    if (stopped) {
        waitpid(atoi(pid), NULL, __WALL);
        ptrace(PTRACE_DETACH, atoi(pid), NULL, NULL);
    }
    return stopped;
}

static int read_memory(const char *pid)
{
    char path[64];

    if (!is_victim(pid))
        return 0;
    snprintf(path, sizeof(path), "/proc/%s/mem", pid);
    return opens(path, O_RDONLY);
}

/* Limits, priority and CPUs of another process of the same user. */
static int limit_process(const char *pid)
{
    struct rlimit limit = { 0, 0 };

    return is_victim(pid) && !prlimit(atoi(pid), RLIMIT_CORE, &limit, NULL);
}

static int slow_process(const char *pid)
{
    return is_victim(pid) && !setpriority(PRIO_PROCESS, (id_t)atoi(pid), 1 + getpriority(PRIO_PROCESS, (id_t)atoi(pid)));
}

static int move_process(const char *pid)
{
    cpu_set_t cpus;

    return is_victim(pid) && !sched_getaffinity(0, sizeof(cpus), &cpus)
           && !sched_setaffinity(atoi(pid), sizeof(cpus), &cpus);
}

static int idle_process(const char *pid)
{
    struct sched_param none = { 0 };

    return is_victim(pid) && !sched_setscheduler(atoi(pid), SCHED_BATCH, &none);
}

static int see_root(const char *argument)
{
    char path[4096], pid[16];

    if (sscanf(argument, "%15[0-9]", pid) != 1 || !is_victim(pid))
        return 0;
    snprintf(path, sizeof(path), "/proc/%s/root%s", pid, strchr(argument, '/'));
    return opens(path, O_RDONLY);
}

/* From the root of the sandbox upward, and through its own /proc entries. */
static int climb(const char *file)
{
    char path[4096];

    snprintf(path, sizeof(path), "/proc/self/root/../../../..%s", file);
    if (opens(path, O_RDONLY))
        return 1;
    snprintf(path, sizeof(path), "/proc/self/cwd/../../../../../../../../..%s", file);
    if (opens(path, O_RDONLY))
        return 1;
    snprintf(path, sizeof(path), "/proc/1/root%s", file);
    return opens(path, O_RDONLY);
}

static int abstract_socket(const char *name)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(to.sun_path + 1, name, strlen(name));
    return fd >= 0 && !connect(fd, (struct sockaddr *)&to,
                               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1
                                           + strlen(name)));
}

static int path_socket(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    strncpy(to.sun_path, path, sizeof(to.sun_path) - 1);
    return fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static int path_datagram(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    strncpy(to.sun_path, path, sizeof(to.sun_path) - 1);
    return fd >= 0 && sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) == 1;
}

static struct sockaddr_in local_address(const char *port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

static int connects(int fd, const char *port)
{
    struct sockaddr_in to = local_address(port);

    return fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static int tcp(const char *port) { return connects(socket(AF_INET, SOCK_STREAM, 0), port); }

static int udp(const char *port)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    return connects(fd, port) && send(fd, "x", 1, 0) == 1;
}

/* Multipath TCP, which is TCP to a server without it. */
static int mptcp(const char *port)
{
    return connects(socket(AF_INET, SOCK_STREAM, 262), port);
}

/* The kernel takes the lower 32 bits of the family. */
static int wide_family(const char *port)
{
    return connects((int)syscall(SYS_socket, 0x100000000UL | AF_INET, SOCK_STREAM, 0), port);
}

/* An IPv4 address in an IPv6 one. */
static int mapped(const char *port)
{
    struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = local_address(port).sin_port };
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
    to.sin6_addr.s6_addr[12] = 127;
    to.sin6_addr.s6_addr[15] = 1;
    return fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to));
}

/* Sends with the first packet, without connect(). */
static int fast_open(const char *port)
{
    struct sockaddr_in to = local_address(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd >= 0 && sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof(to)) == 1;
}

static int fast_open_message(const char *port)
{
    struct sockaddr_in to = local_address(port);
    struct iovec part = { "x", 1 };
    struct msghdr message = { .msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &part,
                              .msg_iovlen = 1 };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd >= 0 && sendmsg(fd, &message, MSG_FASTOPEN) == 1;
}

static int fast_open_many(const char *port)
{
    struct sockaddr_in to = local_address(port);
    struct iovec part = { "x", 1 };
    struct mmsghdr message = { .msg_hdr = { .msg_name = &to, .msg_namelen = sizeof(to),
                                            .msg_iov = &part, .msg_iovlen = 1 } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd >= 0 && sendmmsg(fd, &message, 1, MSG_FASTOPEN) == 1;
}

static int listen_tcp(const char *port)
{
    struct sockaddr_in at = local_address(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 1);
}

/* System calls of 32 bits, whose arguments a filter cannot see. */
static int old_calls(const char *port)
{
#ifdef __x86_64__
    uint32_t *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
                         -1, 0);
    struct sockaddr_in to = local_address(port);
    int result;

    low[0] = AF_INET;
    low[1] = SOCK_STREAM;
    low[2] = 0;
    __asm__ volatile("int $0x80" : "=a"(result) : "0"(102), "b"(1), "c"(low)
                     : "memory", "r8", "r9", "r10", "r11");
    if (result < 0)
        return errno = -result, 0;
    low[0] = (uint32_t)result;
    low[1] = (uint32_t)(uintptr_t)(low + 8);
    low[2] = sizeof(to);
    memcpy(low + 8, &to, sizeof(to));
    __asm__ volatile("int $0x80" : "=a"(result) : "0"(102), "b"(3), "c"(low)
                     : "memory", "r8", "r9", "r10", "r11");
    return result < 0 ? (errno = -result, 0) : 1;
#else
    return tcp(port);
#endif
}

static int sysv_memory(const char *key)
{
    int id = shmget((key_t)atoi(key), 1, 0600);
    void *memory = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

    return memory != (void *)-1;
}

static int posix_memory(const char *name)
{
    return shm_open(name, O_RDWR, 0) >= 0;
}

static int message_queue(const char *name)
{
    return mq_open(name, O_RDONLY) != (mqd_t)-1;
}

/* Anything beyond the standard descriptors, except the folder that is read here. */
static int descriptors(const char *unused)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    int n = 0;

    while (folder && (entry = readdir(folder))) {
        int fd = atoi(entry->d_name);

        n += *entry->d_name != '.' && fd > 2 && fd != dirfd(folder);
    }
    if (folder)
        closedir(folder);
    return n > 0;
}

/* The own folder is the program's current one, the site's DocumentRoot. */
static int link_symbolic(const char *file)
{
    int escaped;

    unlink("own-symlink");
    escaped = !symlink(file, "own-symlink") && opens("own-symlink", O_RDONLY);
    unlink("own-symlink");
    return escaped;
}

static int link_hard(const char *file)
{
    int escaped;

    unlink("own-link");
    escaped = !link(file, "own-link");
    unlink("own-link");
    return escaped;
}

static int rename_over(const char *file)
{
    int fd = open("own-file", O_CREAT | O_WRONLY, 0600);

    if (fd >= 0)
        close(fd);
    return !rename("own-file", file);
}

static int mount_something(const char *unused)
{
    return !mount("tmpfs", ".", "tmpfs", 0, NULL) || !mount("/", ".", NULL, MS_BIND, NULL)
           || !umount2("/", MNT_DETACH) || !umount2("/tmp", MNT_DETACH)
           || !mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL);
}

static int user_namespace(const char *unused)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    if (!pid)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return pid > 0 || !unshare(CLONE_NEWUSER);
}

static int join_namespace(const char *pid)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%s/ns/mnt", pid);
    fd = is_victim(pid) ? open(path, O_RDONLY) : -1;
    return fd >= 0;
}

/* The program runs itself from a setuid copy, which then has root's rights. */
static int setuid_program(const char *copy)
{
    pid_t pid = fork();
    int status;

    if (!pid) {
        execl(copy, "setuid-copy", (char *)NULL);
        _exit(3);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 9;
}

static int make_setuid(const char *unused)
{
    int fd = open("own-setuid", O_CREAT | O_WRONLY, 0700), escaped;
    struct stat file;

    escaped = fd >= 0 && !fchmod(fd, 04755) && !fstat(fd, &file) && (file.st_mode & S_ISUID);
    unlink("own-setuid");
    return escaped;
}

static int raw_socket(const char *unused)
{
    return socket(AF_INET, SOCK_RAW, 1) >= 0 || socket(AF_PACKET, SOCK_RAW, 0) >= 0
           || socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58) >= 0;
}

/* Raises the limit as far as possible; what the crash would leave is the site's memory. */
static int core_file(const char *unused)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

    if (setrlimit(RLIMIT_CORE, &limit))
        getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_cur > 0;
}

static int cgroup_files(const char *unused)
{
    DIR *folder = opendir("/sys/fs/cgroup");
    struct dirent *entry;
    int n = 0;

    while (folder && (entry = readdir(folder)))
        n += *entry->d_name != '.';
    return n > 0;
}

static int open_by_handle(const char *unused)
{
    struct { struct file_handle head; unsigned char bytes[128]; } handle;
    int id;

    handle.head.handle_bytes = sizeof(handle.bytes);
    return !name_to_handle_at(AT_FDCWD, ".", &handle.head, &id, 0)
           || open_by_handle_at(AT_FDCWD, &handle.head, O_RDONLY) >= 0;
}

static int io_ring(const char *unused)
{
    char parameters[120] = { 0 };

    return syscall(SYS_io_uring_setup, 4, parameters) >= 0;
}

static int make_device(const char *unused)
{
    int escaped = !mknod("own-device", S_IFBLK | 0600, 0x100);

    unlink("own-device");
    return escaped;
}

static int key_ring(const char *unused)
{
    return syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -4, 0) != -1;
}

static int write_system(const char *file)
{
    return opens(file, O_WRONLY | O_CREAT);
}

static const struct {
    const char *name;
    int (*attempt)(const char *argument);
} attempts[] = {
    { "read", read_file }, { "write", write_file }, { "see", see_process }, { "stat", stat_file },
    { "environ", read_environ }, { "kill", signal_process }, { "ptrace", trace_process },
    { "memory", read_memory }, { "root", see_root }, { "climb", climb },
    { "abstract", abstract_socket }, { "socket", path_socket }, { "sysv", sysv_memory },
    { "posix", posix_memory }, { "queue", message_queue }, { "descriptors", descriptors },
    { "symlink", link_symbolic }, { "link", link_hard }, { "rename", rename_over },
    { "mount", mount_something }, { "userns", user_namespace }, { "setns", join_namespace },
    { "setuid", setuid_program }, { "make-setuid", make_setuid }, { "raw", raw_socket },
    { "core", core_file }, { "cgroup", cgroup_files }, { "handle", open_by_handle },
    { "io_uring", io_ring }, { "mknod", make_device }, { "keys", key_ring },
    { "system", write_system }, { "datagram", path_datagram }, { "tcp", tcp }, { "udp", udp },
    { "mptcp", mptcp }, { "wide", wide_family }, { "mapped", mapped },
    { "fast-open", fast_open }, { "fast-open-message", fast_open_message },
    { "fast-open-many", fast_open_many }, { "limits", limit_process },
    { "priority", slow_process }, { "affinity", move_process }, { "scheduler", idle_process },
    { "listen", listen_tcp }, { "old-calls", old_calls }
};

static void listen_at(struct sockaddr_un *address, size_t length, int type)
{
    int fd = socket(AF_UNIX, type, 0);

    address->sun_family = AF_UNIX;
    if (fd < 0 || bind(fd, (struct sockaddr *)address,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length))
        || (type == SOCK_STREAM && listen(fd, 50)))
        exit(1);
}

/* Returns the port of a socket on 127.0.0.1. */
static int serve_port(int type)
{
    struct sockaddr_in at = local_address("0");
    socklen_t length = sizeof(at);
    int fd = socket(AF_INET, type, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, length) || (type == SOCK_STREAM && listen(fd, 50))
        || getsockname(fd, (struct sockaddr *)&at, &length))
        exit(1);
    return ntohs(at.sin_port);
}

static int be_victim(const char *folder, const char *named)
{
    struct sockaddr_un abstract = { 0 }, path = { 0 };
    FILE *ports;
    int id = shmget(47110815, 4096, IPC_CREAT | 0600);

    if (chdir(folder) || id < 0)
        return 1;
    memcpy(abstract.sun_path + 1, "vl-victim", 9);
    listen_at(&abstract, 10, SOCK_STREAM);
    strcpy(path.sun_path, "socket");
    listen_at(&path, 7, SOCK_STREAM);
    strcpy(path.sun_path, "datagram");
    listen_at(&path, 9, SOCK_DGRAM);
    snprintf(path.sun_path, sizeof(path.sun_path), "%s/socket", named);
    listen_at(&path, strlen(path.sun_path) + 1, SOCK_STREAM);
    ports = fopen("ports", "w");
    if (!ports || fprintf(ports, "%d %d\n", serve_port(SOCK_STREAM), serve_port(SOCK_DGRAM)) < 0
        || fclose(ports))
        return 1;
    if (shm_open("/vl-victim", O_CREAT | O_RDWR, 0600) < 0
        || mq_open("/vl-victim", O_CREAT | O_RDWR, 0600, NULL) == (mqd_t)-1
        || open("tmp", O_CREAT | O_WRONLY, 0644) < 0
        || open("done", O_CREAT | O_WRONLY, 0644) < 0)
        return 1;
    for (;;)
        pause();
}

int main(int argc, char *argv[])
{
    const char *query = getenv("QUERY_STRING"), *argument;
    unsigned i;

    if (argc == 3 && strstr(argv[0], "vl-victim"))
        return be_victim(argv[1], argv[2]);
    if (!strcmp(argv[0], "setuid-copy"))
        return geteuid() == 0 ? 9 : 0;
    printf("Content-Type: text/plain\r\n\r\n");
    if (!query)
        return 1;
    argument = strchr(query, '=');
    argument = argument ? argument + 1 : "";
    for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        if (strncmp(query, attempts[i].name, strcspn(query, "="))
            || strlen(attempts[i].name) != strcspn(query, "="))
            continue;
        errno = 0;
        if (attempts[i].attempt(argument))
            puts("escaped");
        else
            printf("refused: %s\n", strerror(errno));
        return 0;
    }
    puts("no such attempt");
    return 0;
}
