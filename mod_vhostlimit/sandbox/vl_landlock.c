/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/vl_landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/vl_path.h"
#include "sandbox/vl_rule.h"

/* The interface of the kernel, from its documentation: the headers of an old system know
 * less than a new kernel on it.  The numbers are the same on all architectures. */
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#define CREATE_RULESET_VERSION 1
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2

typedef struct ruleset_t {
    uint64_t handled_fs, handled_net, scoped;
} ruleset_t;

typedef struct __attribute__((packed)) path_beneath_t {
    uint64_t allowed;
    int32_t parent_fd;
} path_beneath_t;

typedef struct net_port_t {
    uint64_t allowed, port;
} net_port_t;

#define FS_EXECUTE     (1ULL << 0)
#define FS_WRITE_FILE  (1ULL << 1)
#define FS_READ_FILE   (1ULL << 2)
#define FS_READ_DIR    (1ULL << 3)
#define FS_ALL_OF_1    ((1ULL << 13) - 1)
#define FS_MAKE_CHAR   (1ULL << 6)
#define FS_MAKE_BLOCK  (1ULL << 11)
#define FS_REFER       (1ULL << 13)     /* version 2 */
#define FS_TRUNCATE    (1ULL << 14)     /* version 3 */
#define FS_IOCTL_DEV   (1ULL << 15)     /* version 5 */
#define FS_RESOLVE_UNIX (1ULL << 16)    /* version 9 */
#define NET_BIND_TCP   (1ULL << 0)      /* version 4 */
#define NET_CONNECT_TCP (1ULL << 1)     /* version 4 */
#define SCOPE_ABSTRACT (1ULL << 0)      /* version 6 */
#define SCOPE_SIGNAL   (1ULL << 1)      /* version 6 */

#define READS (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
/* What a file that is no folder can have. */
#define OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV \
                  | FS_RESOLVE_UNIX)

int vl_landlock_version(void)
{
    long version = syscall(__NR_landlock_create_ruleset, NULL, (size_t)0,
                           CREATE_RULESET_VERSION);

    return version > 0 ? (int)version : 0;
}

static uint64_t rights_of(vl_rule_e access, uint64_t all)
{
    switch (access) {
    case VL_RULE_RO:
        return READS;
    case VL_RULE_PROC:
        return FS_READ_FILE | FS_READ_DIR;
    case VL_RULE_DEVICE:
        return (FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV) & all;
    case VL_RULE_RW:
    case VL_RULE_TMP:
        return all & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV | FS_RESOLVE_UNIX);
    case VL_RULE_HIDE:
        break;
    }
    return 0;
}

static apr_status_t add_rule(int ruleset, const vl_rule_t *rule, const vl_connect_t *connect,
                             uint64_t all)
{
    path_beneath_t beneath = { .allowed = rights_of(rule->access, all) };
    int is_own = rule->access == VL_RULE_RW;
    int is_seen = is_own || rule->access == VL_RULE_RO || rule->access == VL_RULE_TMP;
    apr_status_t rv = APR_SUCCESS;
    struct stat file;

    /* Unix sockets: all that the programs may use if connections are not limited, else those of the site and of the
     * list. */
    if (connect->is_limited ? is_own || rule->has_sockets : is_seen)
        beneath.allowed |= FS_RESOLVE_UNIX & all;
    if (!beneath.allowed)
        return APR_SUCCESS;
    beneath.parent_fd = rule->real ? vl_path_open_real(rule->real)
                                   : open(rule->path, O_PATH | O_CLOEXEC);
    /* ELOOP: a link was made after the path was resolved. */
    if (beneath.parent_fd < 0)
        return errno == ENOENT || errno == ENOTDIR || (rule->real && errno == ELOOP)
               ? APR_SUCCESS : errno;
    if (fstat(beneath.parent_fd, &file))
        rv = errno;
    if (!S_ISDIR(file.st_mode))
        beneath.allowed &= OF_FILES;
    if (rv == APR_SUCCESS && syscall(__NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH,
                                     &beneath, 0))
        rv = errno;
    close(beneath.parent_fd);
    return rv;
}

static apr_status_t close_fd(void *data)
{
    close(*(int *)data);
    return APR_SUCCESS;
}

apr_status_t vl_landlock_make(apr_pool_t *p, const apr_array_header_t *rules,
                              const vl_connect_t *connect, int *ret_fd, const char **ret_path)
{
    int version = vl_landlock_version(), i, *kept;
    ruleset_t ruleset = { 0 };
    apr_status_t rv = APR_SUCCESS;
    long fd;

    *ret_fd = -1;
    *ret_path = "";
    if (rules)
        ruleset.handled_fs = FS_ALL_OF_1 | (version >= 2 ? FS_REFER : 0) | (version >= 3 ? FS_TRUNCATE : 0)
                             | (version >= 5 ? FS_IOCTL_DEV : 0)
                             | (version >= VL_LANDLOCK_UNIX ? FS_RESOLVE_UNIX : 0);
    if (version >= VL_LANDLOCK_SCOPES)
        ruleset.scoped = SCOPE_ABSTRACT | (rules ? SCOPE_SIGNAL : 0);
    if (version >= VL_LANDLOCK_PORTS && connect->is_limited)
        ruleset.handled_net = NET_BIND_TCP | NET_CONNECT_TCP;
    if (!ruleset.handled_fs && !ruleset.handled_net && !ruleset.scoped)
        return APR_SUCCESS;
    /* The kernel knows the size of the struct that a version of it has; it accepts a larger one if
     * the rest is zero. */
    fd = syscall(__NR_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);
    if (fd < 0)
        return errno;
    kept = apr_palloc(p, sizeof(*kept));
    *kept = *ret_fd = (int)fd;
    fcntl(*kept, F_SETFD, FD_CLOEXEC);
    apr_pool_cleanup_register(p, kept, close_fd, apr_pool_cleanup_null);
    for (i = 0; ruleset.handled_net && i < connect->ports->nelts; i++) {
        const net_port_t port = { NET_CONNECT_TCP,
                                  (uint64_t)APR_ARRAY_IDX(connect->ports, i, int) };

        if (syscall(__NR_landlock_add_rule, *kept, RULE_NET_PORT, &port, 0))
            return errno;
    }
    for (i = 0; rules && i < rules->nelts && rv == APR_SUCCESS; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(rules, i, vl_rule_t);

        rv = add_rule(*kept, rule, connect, ruleset.handled_fs);
        *ret_path = rule->path;
    }
    return rv;
}

int vl_landlock_enter(int fd)
{
    return (int)syscall(__NR_landlock_restrict_self, fd, 0);
}
