/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of system calls, run here as the kernel runs it: what it answers, and in how many
 * steps. */
#include <errno.h>
#include <stddef.h>
#include <stdarg.h>
#include <string.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <apr_general.h>

#include "tap.h"
#include "sandbox/vl_seccomp.h"

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* Numbers of system calls that are tried. Linux 6.18 has fewer. */
#define NUMBERS 512
/* A binary tree of 80 numbers and the tests of the architecture. A list takes 80. */
#define STEPS_MAX 20

#ifdef ARCH

static struct sock_fprog program;

/* The linker calls it in place of syscall() (Makefile.am). */
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list ap;

    va_start(ap, number);
    if (number == __NR_seccomp) {
        (void)va_arg(ap, int);
        (void)va_arg(ap, int);
        program = *va_arg(ap, const struct sock_fprog *);
    }
    va_end(ap);
    return 0;
}

static unsigned load(const struct seccomp_data *data, unsigned offset)
{
    unsigned value;

    memcpy(&value, (const char *)data + offset, sizeof(value));
    return value;
}

static int is_true(const struct sock_filter *at, unsigned a)
{
    switch (BPF_OP(at->code)) {
    case BPF_JEQ:
        return a == at->k;
    case BPF_JGT:
        return a > at->k;
    case BPF_JGE:
        return a >= at->k;
    default:
        return (a & at->k) != 0;
    }
}

/* Returns the answer of the filter, and the number of its instructions that were run. */
static unsigned run(const struct seccomp_data *data, unsigned *ret_steps)
{
    unsigned a = 0, pc;

    *ret_steps = 0;
    for (pc = 0; pc < program.len; pc++) {
        const struct sock_filter *at = &program.filter[pc];

        ++*ret_steps;
        switch (BPF_CLASS(at->code)) {
        case BPF_LD:
            a = load(data, at->k);
            break;
        case BPF_ALU:
            a &= at->k;
            break;
        case BPF_JMP:
            pc += BPF_OP(at->code) == BPF_JA ? at->k : is_true(at, a) ? at->jt : at->jf;
            break;
        default:
            return at->k;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static unsigned answer(int number, apr_uint64_t first, apr_uint64_t second)
{
    struct seccomp_data data = { number, ARCH, 0, { first, second } };
    unsigned steps;

    return run(&data, &steps);
}

static void answers(void)
{
    const unsigned no = SECCOMP_RET_ERRNO | EPERM, absent = SECCOMP_RET_ERRNO | ENOSYS;
    struct seccomp_data other = { __NR_getpid, 1, 0, { 0 } };
    unsigned steps;

    ok(answer(__NR_getpid, 0, 0) == SECCOMP_RET_ALLOW, "getpid() is allowed");
    ok(answer(__NR_mount, 0, 0) == no && answer(__NR_ptrace, 0, 0) == no,
       "mount() and ptrace() are refused");
    ok(answer(__NR_clone3, 0, 0) == absent, "clone3() does not exist");
    ok(answer(__NR_clone, 0x10000000, 0) == no, "clone() of a user namespace is refused");
    ok(answer(__NR_clone, 0x00000100, 0) == SECCOMP_RET_ALLOW, "clone() of a thread is allowed");
    ok(answer(__NR_socket, 17, 3) == no && answer(__NR_socket, 2, 3) == no,
       "packet and raw sockets are refused");
    ok(answer(__NR_socket, 2, 1) == SECCOMP_RET_ALLOW, "a TCP socket is allowed");
    ok(run(&other, &steps) == no, "another architecture is refused");
}

/* The kernel runs the filter once for each number when it is installed. */
static void steps_of_all(void)
{
    unsigned number, steps, allowed = 0, sum = 0;

    for (number = 0; number < NUMBERS; number++) {
        struct seccomp_data data = { (int)number, ARCH, 0, { 0 } };

        if (run(&data, &steps) != SECCOMP_RET_ALLOW)
            continue;
        allowed++;
        sum += steps;
    }
    ok(allowed > NUMBERS / 2 && sum <= STEPS_MAX * allowed,
       "an allowed system call takes %u.%02u steps", sum / allowed,
       sum * 100 / allowed % 100);
}

static void filter(void)
{
    const vl_connect_t everything = { 0 };
    const vl_seccomp_t *made;
    apr_pool_t *p;

    apr_pool_create(&p, NULL);
    ok(vl_seccomp_make(p, &everything, &made) == APR_SUCCESS && made && !vl_seccomp_enter(made)
       && program.len, "the filter is made and loaded");
    if (program.len) {
        answers();
        steps_of_all();
    }
    apr_pool_destroy(p);
}

#else

static void filter(void)
{
}

#endif

int main(void)
{
    apr_initialize();
    if (vl_seccomp_built())
        filter();
    else
        ok(1, "built without libseccomp");
    apr_terminate();
    return tap_done();
}
