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

typedef struct ruleset_t {
    uint64_t handled_fs, handled_net, scoped;
} ruleset_t;

typedef struct __attribute__((packed)) path_beneath_t {
    uint64_t allowed;
    int32_t parent_fd;
} path_beneath_t;

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
#define SCOPE_ABSTRACT (1ULL << 0)      /* version 6 */
#define SCOPE_SIGNAL   (1ULL << 1)      /* version 6 */

#define READS (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
/* What a file that is no folder can have. */
#define OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

int vl_landlock_version(void)
{
    long version = syscall(__NR_landlock_create_ruleset, NULL, (size_t)0,
                           CREATE_RULESET_VERSION);

    return version > 0 ? (int)version : 0;
}

static uint64_t all_of(int version)
{
    uint64_t all = FS_ALL_OF_1;

    if (version >= 2)
        all |= FS_REFER;
    if (version >= 3)
        all |= FS_TRUNCATE;
    if (version >= 5)
        all |= FS_IOCTL_DEV;
    return all;
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
        return all & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV);
    case VL_RULE_HIDE:
        break;
    }
    return 0;
}

static apr_status_t add_rule(int ruleset, const vl_rule_t *rule, uint64_t all)
{
    path_beneath_t beneath = { .allowed = rights_of(rule->access, all) };
    struct stat file;
    apr_status_t rv = APR_SUCCESS;

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

/* The kernel knows the size of the struct that a version of it has; it accepts a larger one
 * if the rest is zero. */
static apr_status_t create(apr_pool_t *p, const ruleset_t *ruleset, int *ret_fd)
{
    long fd = syscall(__NR_landlock_create_ruleset, ruleset, sizeof(*ruleset), 0);

    int *kept;

    if (fd < 0)
        return errno;
    kept = apr_palloc(p, sizeof(*kept));
    *kept = *ret_fd = (int)fd;
    fcntl(*kept, F_SETFD, FD_CLOEXEC);
    apr_pool_cleanup_register(p, kept, close_fd, apr_pool_cleanup_null);
    return APR_SUCCESS;
}

apr_status_t vl_landlock_files(apr_pool_t *p, const apr_array_header_t *rules, int *ret_fd,
                               const char **ret_path)
{
    int version = vl_landlock_version(), i;
    ruleset_t ruleset = { .handled_fs = all_of(version) };
    apr_status_t rv;

    *ret_path = "";
    if (version >= VL_LANDLOCK_SCOPES)
        ruleset.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
    rv = create(p, &ruleset, ret_fd);
    for (i = 0; i < rules->nelts && rv == APR_SUCCESS; i++) {
        const vl_rule_t *rule = &APR_ARRAY_IDX(rules, i, vl_rule_t);

        rv = add_rule(*ret_fd, rule, ruleset.handled_fs);
        *ret_path = rule->path;
    }
    return rv;
}

apr_status_t vl_landlock_sockets(apr_pool_t *p, int *ret_fd)
{
    ruleset_t ruleset = { .scoped = SCOPE_ABSTRACT };

    *ret_fd = -1;
    if (vl_landlock_version() < VL_LANDLOCK_SCOPES)
        return APR_SUCCESS;
    return create(p, &ruleset, ret_fd);
}

int vl_landlock_enter(int fd)
{
    return (int)syscall(__NR_landlock_restrict_self, fd, 0);
}
