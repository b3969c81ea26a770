/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/vl_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <apr_strings.h>

/* openat2() is in Linux 5.6.  Landlock and the mounts of namespaces need later versions. */
#ifndef __NR_openat2
#define __NR_openat2 437
#endif
#define NO_SYMLINKS 0x04        /* RESOLVE_NO_SYMLINKS */
#define LINKS_MAX 40            /* as in the kernel */

/* The resolution of one path.  Each folder is open while its entry is examined, so a change
 * of the path meanwhile cannot mix two folders. */
typedef struct walk_t {
    apr_pool_t *p;
    uid_t shared_user;
    int fd;                     /* of the folder so far */
    const char *real;           /* its path, "" for the root */
    const char *rest;           /* what is still to be resolved */
    int links;
    const char *link_folder;    /* folder of the first link that a user can replace */
    int has_owner;              /* such links have this owner; links of root do not count */
    uid_t owner;
    int has_foreign;            /* links of several owners or of the shared user */
} walk_t;

int vl_path_is_below(const char *path, const char *folder)
{
    apr_size_t n = strlen(folder);

    return !strncmp(path, folder, n) && (path[n] == '/' || path[n] == '\0');
}

int vl_path_open_real(const char *real)
{
    const struct { uint64_t flags, mode, resolve; } how =
        { .flags = O_PATH | O_CLOEXEC, .resolve = NO_SYMLINKS };

    return (int)syscall(__NR_openat2, AT_FDCWD, real, &how, sizeof(how));
}

/* Replaces the folder.  Returns 0, or -1 if fd is not open. */
static int go_to(walk_t *walk, int fd, const char *real)
{
    if (fd < 0)
        return -1;
    close(walk->fd);
    walk->fd = fd;
    walk->real = real;
    return 0;
}

/* The next entry is the link fd.  Closes it.  Returns 0, or -1. */
static int follow(walk_t *walk, int fd, uid_t owner)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);
    struct stat folder;
    int is_roots;

    close(fd);
    if (n <= 0 || ++walk->links > LINKS_MAX)
        return -1;
    target[n] = '\0';
    /* In a folder with the sticky bit each user makes links of its own. */
    is_roots = !fstat(walk->fd, &folder) && folder.st_uid == 0
               && (!(folder.st_mode & (S_IWGRP | S_IWOTH)) || (folder.st_mode & S_ISVTX));
    /* A user other than root can replace the link.  Root may have made it. */
    if ((!is_roots || owner != 0) && !walk->link_folder)
        walk->link_folder = walk->real;
    if (owner != 0) {
        walk->has_foreign |= owner == walk->shared_user || (walk->has_owner && owner != walk->owner);
        walk->has_owner = 1;
        walk->owner = owner;
    }
    walk->rest = apr_pstrcat(walk->p, target, "/", walk->rest, NULL);
    if (*target == '/')
        return go_to(walk, open("/", O_PATH | O_CLOEXEC), "");
    return 0;
}

/* Resolves the next component.  Returns 1 at the end, 0 to go on, or -1. */
static int step(walk_t *walk)
{
    struct stat file;
    const char *name;
    int fd;

    while (*walk->rest == '/')
        walk->rest++;
    if (!*walk->rest)
        return 1;
    name = apr_pstrmemdup(walk->p, walk->rest, strcspn(walk->rest, "/"));
    walk->rest += strlen(name);
    if (!strcmp(name, "."))
        return 0;
    fd = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (!strcmp(name, "..")) {
        const char *slash = strrchr(walk->real, '/');

        return go_to(walk, fd, slash ? apr_pstrmemdup(walk->p, walk->real,
                                                      (apr_size_t)(slash - walk->real)) : "");
    }
    if (fstat(fd, &file)) {
        close(fd);
        return -1;
    }
    if (S_ISLNK(file.st_mode))
        return follow(walk, fd, file.st_uid);
    return go_to(walk, fd, apr_pstrcat(walk->p, walk->real, "/", name, NULL));
}

void vl_path_resolve(apr_pool_t *p, const char *path, uid_t shared_user, vl_path_t *ret_path)
{
    walk_t walk = { .p = p, .shared_user = shared_user, .real = "", .rest = path };
    struct stat target;
    int end = 0;

    memset(ret_path, 0, sizeof(*ret_path));
    walk.fd = open("/", O_PATH | O_CLOEXEC);
    if (walk.fd < 0)
        return;
    while (!end)
        end = step(&walk);
    if (end > 0 && !fstat(walk.fd, &target)) {
        ret_path->real = *walk.real ? walk.real : "/";
        ret_path->leaves = walk.link_folder && !vl_path_is_below(ret_path->real,
                                                                 walk.link_folder);
        ret_path->is_foreign = ret_path->leaves
                               && (walk.has_foreign
                                   || (walk.has_owner && target.st_uid != walk.owner));
    }
    close(walk.fd);
}
