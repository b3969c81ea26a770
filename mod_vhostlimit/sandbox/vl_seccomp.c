/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/vl_seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

struct vl_seccomp_t {
    struct sock_fprog program;
};

int vl_seccomp_enter(const vl_seccomp_t *filter)
{
    return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter->program);
}

#ifdef VL_LIBSECCOMP

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID \
                    | CLONE_NEWNET | CLONE_NEWCGROUP)
#define SOCK_TYPE 0xf

int vl_seccomp_built(void)
{
    return 1;
}

/* Refused with EPERM whatever the arguments are.  By name: libseccomp leaves out a name that
 * the architecture does not have. */
static const char *const refused[] = {
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime",
    "create_module", "delete_module", "fanotify_init", "finit_module", "fsconfig", "fsmount",
    "fsopen", "fspick", "get_kernel_syms", "init_module", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load",
    "kexec_load", "keyctl", "lookup_dcookie", "mbind", "migrate_pages", "mount",
    "mount_setattr", "move_mount", "move_pages", "name_to_handle_at", "nfsservctl",
    "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd", "pivot_root",
    "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace", "query_module",
    "quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy", "setdomainname",
    "sethostname", "setns", "settimeofday", "stime", "swapoff", "swapon", "sysfs", "syslog",
    "umount", "umount2", "unshare", "uselib", "userfaultfd", "vhangup", "vm86", "vm86old"
};

/* Returns 1 for the families of sockets that programs of a site use; all others are refused. */
static int may_use(int family, const vl_connect_t *connect)
{
    int has_inet = !connect->is_limited || connect->has_udp || connect->ports->nelts;

    return family == AF_NETLINK || (family == AF_UNIX && (!connect->is_limited || connect->has_unix))
           || ((family == AF_INET || family == AF_INET6) && has_inet);
}
#define FAMILY_LAST AF_NETLINK

/* A filter that is being made. */
typedef struct rules_t {
    scmp_filter_ctx ctx;
    int error;                  /* of the first rule that could not be added, or 0 */
} rules_t;

/* Refuses the system call where all comparisons hold. */
static void refuse(rules_t *rules, int number, unsigned n, const struct scmp_arg_cmp *when)
{
    if (!rules->error)
        rules->error = seccomp_rule_add_array(rules->ctx, SCMP_ACT_ERRNO(EPERM), number, n, when);
}

static void refuse_if(rules_t *rules, int number, struct scmp_arg_cmp when)
{
    refuse(rules, number, 1, &when);
}

/* Says that the kernel does not have the system call. */
static void hide(rules_t *rules, int number)
{
    if (!rules->error)
        rules->error = seccomp_rule_add(rules->ctx, SCMP_ACT_ERRNO(ENOSYS), number, 0);
}

/* Landlock limits TCP when it connects.  So a site whose connections are limited gets no other
 * protocol for streams (MPTCP), and no TCP that sends before it connects (MSG_FASTOPEN).  UDP is
 * allowed as a whole or not at all. */
static void add_limits(rules_t *rules, const vl_connect_t *connect)
{
    static const struct { const char *name; unsigned flags; } sends[] = {
        { "sendto", 3 }, { "sendmsg", 2 }, { "sendmmsg", 3 }
    };
    static const int families[] = { AF_INET, AF_INET6 };
    int type;
    unsigned i;

    for (i = 0; i < 2; i++) {
        for (type = 0; type <= SOCK_TYPE; type++) {
            int is_allowed = (type == SOCK_STREAM && connect->ports->nelts)
                             || (type == SOCK_DGRAM && connect->has_udp);
            scmp_datum_t last = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
            const struct scmp_arg_cmp when[] = {
                SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]),
                SCMP_A1(SCMP_CMP_MASKED_EQ, SOCK_TYPE, (scmp_datum_t)type),
                SCMP_A2(SCMP_CMP_GT, last)
            };

            refuse(rules, SCMP_SYS(socket), is_allowed ? 3 : 2, when);
        }
    }
    for (i = 0; i < sizeof(sends) / sizeof(sends[0]); i++)
        refuse_if(rules, seccomp_syscall_resolve_name(sends[i].name),
                  SCMP_CMP(sends[i].flags, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
}

static void add_sockets(rules_t *rules, const vl_connect_t *connect)
{
    static const int families[] = { AF_INET, AF_INET6 };
    int i;

    for (i = 0; i < FAMILY_LAST; i++) {
        if (!may_use(i, connect))
            refuse_if(rules, SCMP_SYS(socket), SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)i));
    }
    refuse_if(rules, SCMP_SYS(socket), SCMP_A0(SCMP_CMP_GT, FAMILY_LAST));
    if (connect->is_limited && may_use(AF_INET, connect))
        add_limits(rules, connect);
    for (i = 0; i < 2 && !connect->is_limited; i++) {
        const struct scmp_arg_cmp when[] = {
            SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]),
            SCMP_A1(SCMP_CMP_MASKED_EQ, SOCK_TYPE, SOCK_RAW)
        };

        refuse(rules, SCMP_SYS(socket), 2, when);
    }
}

/* No setuid and setgid programs for other users of the machine.  The mode of openat2() is
 * behind a pointer; programs use openat() where the kernel has no openat2(). */
static void add_modes(rules_t *rules)
{
    /* System calls that give a file its mode: which argument that is, and which one has the
     * flags if the mode counts with O_CREAT only (-1: it always counts). */
    static const struct { const char *name; unsigned mode; int flags; } modes[] = {
        { "chmod", 1, -1 }, { "fchmod", 1, -1 }, { "fchmodat", 2, -1 }, { "fchmodat2", 2, -1 },
        { "creat", 1, -1 }, { "mknod", 1, -1 }, { "mknodat", 2, -1 }, { "mkdir", 1, -1 },
        { "mkdirat", 2, -1 }, { "open", 2, 1 }, { "openat", 3, 2 }
    };
    static const scmp_datum_t bits[] = { S_ISUID, S_ISGID };
    int number = seccomp_syscall_resolve_name("openat2");
    unsigned i, k;

    if (number != __NR_SCMP_ERROR)
        hide(rules, number);
    for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        number = seccomp_syscall_resolve_name(modes[i].name);
        for (k = 0; k < 2 && number != __NR_SCMP_ERROR; k++) {
            const struct scmp_arg_cmp when[] = {
                SCMP_CMP(modes[i].mode, SCMP_CMP_MASKED_EQ, bits[k], bits[k]),
                SCMP_CMP((unsigned)modes[i].flags, SCMP_CMP_MASKED_EQ, O_CREAT, O_CREAT)
            };

            refuse(rules, number, modes[i].flags < 0 ? 1 : 2, when);
        }
    }
}

/* The kernel lets a process set limits, priorities and CPUs of each process of its user, also of
 * another site's.  A program may set its own: the process 0. */
static void add_processes(rules_t *rules)
{
    static const struct { const char *name; unsigned argument; scmp_datum_t only; } own[] = {
        { "prlimit64", 0, 0 }, { "sched_setaffinity", 0, 0 }, { "sched_setattr", 0, 0 },
        { "sched_setparam", 0, 0 }, { "sched_setscheduler", 0, 0 },
        { "setpriority", 0, PRIO_PROCESS }, { "setpriority", 1, 0 },
        { "ioprio_set", 0, 1 /* IOPRIO_WHO_PROCESS */ }, { "ioprio_set", 1, 0 }
    };
    unsigned i;

    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        refuse_if(rules, seccomp_syscall_resolve_name(own[i].name),
                  SCMP_CMP(own[i].argument, SCMP_CMP_NE, own[i].only));
}

static int fill(scmp_filter_ctx ctx, const vl_connect_t *connect)
{
    rules_t rules = { .ctx = ctx };
    unsigned i;

#if SCMP_VER_MAJOR > 2 || SCMP_VER_MINOR >= 5
    /* When a filter is installed, the kernel runs it once for each number of a system call, to know
     * which ones it always allows (seccomp_cache_prepare() in kernel/seccomp.c). With a list of
     * comparisons that takes three times as long as with a binary tree (docs/design/013-sandbox.md). */
    rules.error = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
#endif
#ifdef __x86_64__
    /* Programs of 32 bits run too.  Their socketcall() has its arguments behind a pointer. */
    if (!rules.error && !connect->is_limited)
        rules.error = seccomp_arch_add(ctx, SCMP_ARCH_X86);
#endif
    if (!rules.error)
        rules.error = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
    for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        int number = seccomp_syscall_resolve_name(refused[i]);

        if (number != __NR_SCMP_ERROR)
            refuse(&rules, number, 0, NULL);
    }
    /* clone() with a namespace is refused.  The flags of clone3() are behind a pointer, which a
     * filter cannot read; with ENOSYS the C library uses clone(). */
    for (i = 0; i < 32; i++) {
        scmp_datum_t flag = (scmp_datum_t)1 << i;

        if (NAMESPACES & flag)
            refuse_if(&rules, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
    }
    hide(&rules, SCMP_SYS(clone3));
    add_sockets(&rules, connect);
    add_modes(&rules);
    add_processes(&rules);
    /* TIOCSTI writes input into a terminal. */
    refuse_if(&rules, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, TIOCSTI));
    return rules.error;
}

/* Reads the compiled filter: libseccomp writes it to a descriptor. */
static apr_status_t read_program(apr_pool_t *p, scmp_filter_ctx ctx, vl_seccomp_t *filter)
{
    int fd = memfd_create("seccomp", MFD_CLOEXEC);
    int rc = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);
    off_t size = rc ? 0 : lseek(fd, 0, SEEK_END);

    filter->program.filter = apr_palloc(p, (apr_size_t)size);
    filter->program.len = (unsigned short)(size / sizeof(struct sock_filter));
    if (!rc && pread(fd, filter->program.filter, (size_t)size, 0) != size)
        rc = -EIO;
    if (fd >= 0)
        close(fd);
    return -rc;
}

apr_status_t vl_seccomp_make(apr_pool_t *p, const vl_connect_t *connect,
                             const vl_seccomp_t **ret_filter)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    vl_seccomp_t *filter = apr_pcalloc(p, sizeof(*filter));
    apr_status_t rv;

    *ret_filter = NULL;
    if (!ctx)
        return APR_ENOMEM;
    rv = -fill(ctx, connect);
    if (rv == APR_SUCCESS)
        rv = read_program(p, ctx, filter);
    seccomp_release(ctx);
    if (rv == APR_SUCCESS)
        *ret_filter = filter;
    return rv;
}

#else

int vl_seccomp_built(void)
{
    return 0;
}

apr_status_t vl_seccomp_make(apr_pool_t *p, const vl_connect_t *connect,
                             const vl_seccomp_t **ret_filter)
{
    *ret_filter = NULL;
    return APR_SUCCESS;
}

#endif
