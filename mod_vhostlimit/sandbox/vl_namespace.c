/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/vl_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <apr_strings.h>

#include "sandbox/vl_path.h"
#include "sandbox/vl_rule.h"

/* System calls and flags that older headers lack.  The numbers are the same on all
 * architectures. */
#ifndef __NR_open_tree
#define __NR_open_tree 428
#define __NR_move_mount 429
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#ifndef __NR_close_range
#define __NR_close_range 436
#endif
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif
#define TREE_CLONE 1
#define TREE_RECURSIVE 0x8000
#define MOVE_FROM_EMPTY 4
#define ATTR_RDONLY 1
#define ATTR_NOSUID 2
#define ATTR_NODEV 4

#define JOINED (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)

typedef struct mount_attr_t {
    uint64_t set, clear, propagation, userns_fd;
} mount_attr_t;

/* The keeper has three steps of preparation, in the process that becomes its parent:
 * mounts as root, then the namespaces as the owner, then the fork.  All of this runs
 * between fork() and exec: nothing here allocates memory. */
typedef struct maker_t {
    const apr_array_header_t *rules;
    int *trees;                 /* descriptors of the mounts to come; -1: none */
    const char *title;          /* argument of the shell, seen in ps */
    uid_t user;
    gid_t group;
    int report;                 /* pipe to the parent: pids and error messages */
    int go;                     /* pipe from the parent: "go on" */
    int life;                   /* the keeper's standard input */
} maker_t;

/* What the maker tells the parent. */
typedef struct report_t {
    pid_t keeper;               /* 0: the user namespace waits for its maps */
    int error;                  /* errno, and then what failed: */
    char what[240];
} report_t;

/* --- in the maker ---------------------------------------------------------- */

static void die(const maker_t *maker, const char *what, const char *path)
{
    report_t report = { .error = errno ? errno : EIO };

    (void)snprintf(report.what, sizeof(report.what), "%s%s%s", what, *path ? " " : "",
                   path);
    if (write(maker->report, &report, sizeof(report)) < 0)
        _exit(2);
    _exit(1);
}

/* Clones the mount of each rule, before the old root goes. */
static void clone_trees(const maker_t *maker)
{
    int i;

    for (i = 0; i < maker->rules->nelts; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(maker->rules, i, vl_rule_t);
        mount_attr_t attr = { .set = ATTR_NOSUID };
        int hides = rule->access == VL_RULE_HIDE;
        struct stat file;
        int source;

        maker->trees[i] = -1;
        if (rule->access == VL_RULE_TMP)
            continue;
        source = rule->real ? vl_path_open_real(rule->real) : open(rule->path, O_PATH | O_CLOEXEC);
        if (source < 0)
            continue;
        if (fstat(source, &file) || (hides && S_ISDIR(file.st_mode))) {
            close(source);
            continue;
        }
        if (hides) {
            close(source);
            source = open("/dev/null", O_PATH | O_CLOEXEC);
        }
        if (rule->access == VL_RULE_RO || hides)
            attr.set |= ATTR_RDONLY;
        if (rule->access != VL_RULE_DEVICE)
            attr.set |= ATTR_NODEV;
        maker->trees[i] = (int)syscall(__NR_open_tree, source, "", TREE_CLONE | AT_EMPTY_PATH
                                       | O_CLOEXEC | (rule->access == VL_RULE_PROC
                                                      ? 0 : TREE_RECURSIVE));
        close(source);
        if (maker->trees[i] < 0)
            die(maker, "open_tree", rule->path);
        if (syscall(__NR_mount_setattr, maker->trees[i], "", AT_EMPTY_PATH | TREE_RECURSIVE,
                    &attr, sizeof(attr)))
            die(maker, "mount_setattr", rule->path);
    }
}

/* Makes the folders above the path, and what the tree will cover, unless they are there. */
static void make_target(int tree, const char *path)
{
    char folder[PATH_MAX], *slash;
    struct stat file;
    int fd;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    for (slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0755);
        *slash = '/';
    }
    if (tree < 0 || (!fstat(tree, &file) && S_ISDIR(file.st_mode))) {
        mkdir(path, 0755);
        return;
    }
    /* A program of the site may have put a FIFO there. */
    fd = open(path, O_CREAT | O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
}

static void mount_tmpfs(const maker_t *maker, const char *path, unsigned long flags,
                        const char *options)
{
    if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | flags, options))
        die(maker, "mounting a tmpfs at", path);
}

static void place_rule(const maker_t *maker, int i)
{
    const vl_rule_t *rule = &APR_ARRAY_IDX(maker->rules, i, vl_rule_t);
    struct stat file;

    if (rule->access == VL_RULE_HIDE && lstat(rule->path, &file))
        return;                 /* it is not there anyway */
    if (rule->access == VL_RULE_HIDE && S_ISDIR(file.st_mode)) {
        mount_tmpfs(maker, rule->path, MS_RDONLY, "mode=755,size=4k");
        return;
    }
    if (rule->access != VL_RULE_TMP && maker->trees[i] < 0)
        return;                 /* does not exist on this machine */
    make_target(maker->trees[i], rule->path);
    if (rule->access == VL_RULE_TMP)
        mount_tmpfs(maker, rule->path, 0, "mode=1777,size=256m,nr_inodes=100k");
    else if (syscall(__NR_move_mount, maker->trees[i], "", AT_FDCWD, rule->path,
                     MOVE_FROM_EMPTY))
        die(maker, "mounting", rule->path);
}

/* Gives the process a root of its own, a read-only tmpfs, with the mounts of the rules. */
static void make_root(const maker_t *maker)
{
    /* Programs expect these in /dev. */
    static const char *const links[][2] = {
        { "/proc/self/fd", "/dev/fd" }, { "fd/0", "/dev/stdin" },
        { "fd/1", "/dev/stdout" }, { "fd/2", "/dev/stderr" }
    };
    int i;

    if (unshare(CLONE_NEWNS))
        die(maker, "a mount namespace", "");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
        die(maker, "making mounts slaves", "");
    clone_trees(maker);
    mount_tmpfs(maker, "/tmp", 0, "mode=755,size=1m");
    if (chdir("/tmp") || syscall(SYS_pivot_root, ".", ".")
        || umount2(".", MNT_DETACH) || chdir("/"))
        die(maker, "pivot_root", "");
    umask(0);
    for (i = 0; i < maker->rules->nelts; i++)
        place_rule(maker, i);
    for (i = 0; i < (int)(sizeof(links) / sizeof(links[0])); i++) {
        if (symlink(links[i][0], links[i][1]))
            continue;           /* a program that needs it says so itself */
    }
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL))
        die(maker, "remounting the root read-only", "");
}

/* Becomes the server's user with the rights that unshare() asks for.  The user namespace
 * belongs to the user of the process that makes it.  System calls are used directly, because
 * setuid() of the C library signals threads, which the parent has and this process has not. */
static void become_owner(const maker_t *maker)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || syscall(SYS_setgroups, (size_t)0, NULL)
        || syscall(SYS_setresgid, maker->group, maker->group, maker->group)
        || syscall(SYS_setresuid, maker->user, maker->user, maker->user))
        die(maker, "becoming the server's user", "");
    if (syscall(SYS_capget, &head, data))
        die(maker, "capget", "");
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    if (syscall(SYS_capset, &head, data))
        die(maker, "capset", "");
}

/* The first process of the PID namespace.  SIGCHLD is ignored, which outlives exec: the
 * kernel reaps the processes whose parents have ended. */
static void run_keeper(const maker_t *maker)
{
    char *const arguments[] = { (char *)"sh", (char *)"-c", (char *)maker->title, NULL };
    char *const environment[] = { NULL };
    int null, i;

    for (i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL);
    (void)signal(SIGCHLD, SIG_IGN);
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        die(maker, "mounting /proc of the PID namespace", "");
    null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(maker->life, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        die(maker, "/dev/null", "");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        die(maker, "PR_SET_NO_NEW_PRIVS", "");
    if (maker->report > 2)      /* the pipe closes when the shell runs */
        fcntl(maker->report, F_SETFD, FD_CLOEXEC);
    syscall(__NR_close_range, 3, ~0U, 4);               /* CLOSE_RANGE_CLOEXEC */
    execve("/bin/sh", arguments, environment);
    die(maker, "executing /bin/sh", "");
}

static void make(const maker_t *maker)
{
    report_t report = { .keeper = 0 };
    sigset_t none;
    char byte;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    make_root(maker);
    become_owner(maker);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID))
        die(maker, "a user namespace", "");
    if (write(maker->report, &report, sizeof(report)) != sizeof(report)
        || read(maker->go, &byte, 1) != 1)
        _exit(2);
    report.keeper = fork();
    if (!report.keeper)
        run_keeper(maker);
    if (report.keeper < 0)
        die(maker, "the first process of a PID namespace", "");
    if (write(maker->report, &report, sizeof(report)) != sizeof(report))
        _exit(2);
    close(maker->report);
    /* Until the parent has a pidfd of the keeper, its pid must not be free. */
    _exit(read(maker->go, &byte, 1) == 1 ? 0 : 2);
}

/* --- in the parent --------------------------------------------------------- */

static int write_file(pid_t pid, const char *name, const char *text)
{
    char path[64];
    int fd;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = write(fd, text, strlen(text));
    close(fd);
    return n < 0 ? -1 : 0;
}

/* Returns the error that the maker has reported, or NULL. */
static const char *report_error(apr_pool_t *p, const report_t *report, ssize_t size)
{
    if (size == sizeof(*report) && report->error)
        return apr_psprintf(p, "%s: %s", report->what, strerror(report->error));
    return size == sizeof(*report) ? NULL : "the process that makes it ended unexpectedly";
}

static ssize_t read_report(int fd, report_t *report)
{
    ssize_t n;

    do
        n = read(fd, report, sizeof(*report));
    while (n < 0 && errno == EINTR);
    return n;
}

/* Speaks with the maker until the keeper's shell runs. */
static const char *accompany(apr_pool_t *p, const maker_t *maker, pid_t pid, int report_fd,
                             int go_fd, vl_namespace_t *ns)
{
    const unsigned long user = maker->user, group = maker->group;
    report_t report = { .keeper = 0 };
    const char *error = report_error(p, &report, read_report(report_fd, &report));

    if (error)
        return error;
    /* The user and the group are mapped to themselves, and no others are. */
    if (write_file(pid, "setgroups", "deny") || write_file(pid, "uid_map", apr_psprintf(p, "%lu %lu 1", user, user))
        || write_file(pid, "gid_map", apr_psprintf(p, "%lu %lu 1", group, group)))
        return apr_psprintf(p, "the maps of the user namespace: %s", strerror(errno));
    if (write(go_fd, "m", 1) != 1)
        return "the process that makes it ended unexpectedly";
    error = report_error(p, &report, read_report(report_fd, &report));
    if (error)
        return error;
    ns->keeper = (int)syscall(__NR_pidfd_open, report.keeper, 0);
    if (ns->keeper < 0)
        return apr_psprintf(p, "pidfd_open: %s", strerror(errno));
    /* The end of the pipe: the shell has been executed. */
    if (read_report(report_fd, &report) != 0)
        return apr_psprintf(p, "%s: %s", report.what, strerror(report.error));
    if (write(go_fd, "e", 1) != 1)
        return "the process that makes it ended unexpectedly";
    return NULL;
}

const char *vl_namespace_make(apr_pool_t *p, const char *name, const apr_array_header_t *rules,
                              uid_t user, gid_t group, vl_namespace_t *ret_namespace)
{
    enum { REPORT, GO, LIFE, PIPES };
    maker_t maker = { .rules = rules, .user = user, .group = group };
    int pipes[PIPES][2], i;
    const char *error;
    pid_t pid;

    ret_namespace->keeper = ret_namespace->life = -1;
    maker.trees = apr_palloc(p, (apr_size_t)rules->nelts * sizeof(int));
    maker.title = apr_psprintf(p, "read -r end # sandbox of %s", name);
    for (i = 0; i < PIPES; i++) {
        if (!pipe2(pipes[i], O_CLOEXEC))
            continue;
        error = apr_psprintf(p, "a pipe: %s", strerror(errno));
        while (i--) {
            close(pipes[i][0]);
            close(pipes[i][1]);
        }
        return error;
    }
    maker.report = pipes[REPORT][1];
    maker.go = pipes[GO][0];
    maker.life = pipes[LIFE][0];
    pid = fork();
    if (!pid) {
        close(pipes[REPORT][0]);
        close(pipes[GO][1]);
        close(pipes[LIFE][1]);
        make(&maker);
    }
    close(maker.report);
    close(maker.go);
    close(maker.life);
    error = pid < 0 ? apr_psprintf(p, "fork: %s", strerror(errno))
                    : accompany(p, &maker, pid, pipes[REPORT][0], pipes[GO][1], ret_namespace);
    close(pipes[REPORT][0]);
    close(pipes[GO][1]);
    ret_namespace->life = pipes[LIFE][1];
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (error)
        vl_namespace_close(ret_namespace);
    return error;
}

int vl_namespace_has_ended(const vl_namespace_t *ns, int timeout_ms)
{
    struct pollfd keeper = { .fd = ns->keeper, .events = POLLIN };

    return poll(&keeper, 1, timeout_ms) == 1;
}

void vl_namespace_release(vl_namespace_t *ns)
{
    if (ns->life >= 0)
        close(ns->life);
    ns->life = -1;
}

void vl_namespace_close(vl_namespace_t *ns)
{
    vl_namespace_release(ns);
    if (ns->keeper >= 0)
        close(ns->keeper);
    ns->keeper = -1;
}

/* Returns 1 if the file has the number 0, 0 if it has another one or cannot be read. */
static int is_zero(const char *path)
{
    char text[2] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

    if (fd >= 0)
        close(fd);
    return n > 0 && text[0] == '0';
}

/* Calls with arguments that a kernel with the system call refuses in another way. */
const char *vl_namespace_lacks(void)
{
    static const struct {
        const char *file, *setting, *is_off;
    } kinds[] = {
        { "/proc/self/ns/user", "/proc/sys/user/max_user_namespaces",
          "the setting user.max_user_namespaces is 0 (sysctl)" },
        { "/proc/self/ns/mnt", "/proc/sys/user/max_mnt_namespaces",
          "the setting user.max_mnt_namespaces is 0 (sysctl)" },
        { "/proc/self/ns/pid", "/proc/sys/user/max_pid_namespaces",
          "the setting user.max_pid_namespaces is 0 (sysctl)" },
        { "/proc/self/ns/ipc", "/proc/sys/user/max_ipc_namespaces",
          "the setting user.max_ipc_namespaces is 0 (sysctl)" }
    };
    unsigned i;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (access(kinds[i].file, F_OK))
            return "the kernel has no user, mount, PID or IPC namespaces";
        if (is_zero(kinds[i].setting))
            return kinds[i].is_off;
    }
    if (syscall(__NR_mount_setattr, -1, NULL, 0, NULL, 0) && errno == ENOSYS)
        return "the kernel is older than Linux 5.12";
    if (geteuid())
        return "the server is not started by root";
    return NULL;
}

/* --- in a process that executes a program ----------------------------------- */

/* A process that joins a PID namespace is not in it: its children are.  So the forked process
 * has a child that becomes the program, and stays behind as its guardian.  As after vfork(),
 * both share memory until the program is executed.  The child goes on with
 * the stack of the forked process, so the guardian has one of its own, and so has the
 * child's first function. */
static ucontext_t program_context, guardian_context;
static char guardian_stack[32768], first_stack[8192] __attribute__((aligned(16)));

static int become_program(void *unused)
{
    setcontext(&program_context);
    return 126;
}

/* The forked process: waits for the program, with all signals blocked, and ends as it has ended.  It
 * has no descriptors, so that the program's output ends when the program closes it. */
static void guard(void)
{
    sigset_t all, one;
    int sig, status;
    pid_t pid;

    (void)signal(SIGCHLD, SIG_DFL);
    pid = clone(become_program, first_stack + sizeof(first_stack), CLONE_VM | CLONE_VFORK
                | SIGCHLD, NULL);
    if (pid < 0)
        _exit(126);
    syscall(__NR_close_range, 0, ~0U, 0);
    sigfillset(&all);
    while (waitpid(pid, &status, WNOHANG) != pid) {
        sig = sigwaitinfo(&all, NULL);
        if (sig > 0 && sig != SIGCHLD)
            kill(pid, sig);
    }
    if (!WIFSIGNALED(status))
        _exit(WEXITSTATUS(status));
    (void)signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    (void)raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

int vl_namespace_enter(const vl_namespace_t *ns)
{
    if (setns(ns->keeper, JOINED) || getcontext(&guardian_context))
        return -1;
    /* The program goes on with the mask of now. */
    sigfillset(&guardian_context.uc_sigmask);
    guardian_context.uc_stack.ss_sp = guardian_stack;
    guardian_context.uc_stack.ss_size = sizeof(guardian_stack);
    makecontext(&guardian_context, guard, 0);
    if (swapcontext(&program_context, &guardian_context))
        return -1;
    /* If the forked process is killed, so is the program. */
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}
