/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* The open files of one account; -1: not open. */
typedef struct account_fds_t {
    int thread;
    int process[VL_CG_CONTROLLERS];     /* one for each hierarchy */
} account_fds_t;

struct vl_place_t {
    const vl_cgroup_t *cg;
    apr_uint32_t accounts, max_open, open, wanted;
    int server_fd;                      /* file of the server's group, or -1 */
    account_fds_t *fds;                 /* indexed by account */
};

static const int no_fds = -1;

/* The files that a child process of this thread writes itself to after fork(). */
static __thread const int *fork_fds = &no_fds;

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static apr_status_t close_all(void *data)
{
    vl_place_t *place = data;
    apr_uint32_t a;
    int i;

    fork_fds = &no_fds;         /* with "httpd -X" this thread may fork again */
    close_fd(&place->server_fd);
    for (a = 0; a < place->accounts; a++) {
        close_fd(&place->fds[a].thread);
        for (i = 0; i < VL_CG_CONTROLLERS; i++)
            close_fd(&place->fds[a].process[i]);
    }
    return APR_SUCCESS;
}

static int open_fd(const char *file)
{
    return file ? open(file, O_WRONLY | O_CLOEXEC) : -1;
}

vl_place_t *vl_place_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t accounts,
                                        apr_uint32_t max_open)
{
    vl_place_t *place = apr_pcalloc(p, sizeof(*place));

    place->cg = cg;
    place->accounts = accounts;
    place->max_open = max_open;
    place->fds = apr_palloc(p, accounts * sizeof(account_fds_t));
    memset(place->fds, 0xff, accounts * sizeof(account_fds_t));
    place->server_fd = open_fd(vl_cgroup_thread_file(cg, p, NULL));
    place->open = place->server_fd >= 0;
    apr_pool_cleanup_register(p, place, close_all, apr_pool_cleanup_null);
    return place;
}

/* Returns how many files the account has.  Opens them if `really` is 1. */
static apr_uint32_t open_files(const vl_place_t *place, account_fds_t *files,
                               const char *name, int really)
{
    const char *file;
    apr_uint32_t n = 0;
    apr_pool_t *p;
    int i;

    apr_pool_create(&p, NULL);
    file = vl_cgroup_thread_file(place->cg, p, name);
    if (file) {
        n++;
        files->thread = really ? open_fd(file) : -1;
    }
    for (i = 0; i < VL_CG_CONTROLLERS
         && (file = vl_cgroup_process_file(place->cg, p, name, i)); i++) {
        n++;
        files->process[i] = really ? open_fd(file) : -1;
    }
    apr_pool_destroy(p);
    return n;
}

apr_status_t vl_place_post_config_add(vl_place_t *place, apr_uint32_t account,
                                      const char *name)
{
    account_fds_t *files = &place->fds[account];
    apr_uint32_t n = open_files(place, files, name, 0);

    place->wanted += n;
    if (!n)
        return APR_ENOENT;
    if (place->open + n > place->max_open)
        return APR_ENOSPC;
    place->open += n;
    open_files(place, files, name, 1);
    return APR_SUCCESS;
}

apr_uint32_t vl_place_open_count(const vl_place_t *place)
{
    return place->open;
}

apr_uint32_t vl_place_wanted_count(const vl_place_t *place)
{
    return place->wanted;
}

int vl_place_thread_fd(const vl_place_t *place, apr_uint32_t account)
{
    return place->fds[account].thread;
}

int vl_place_home_fd(const vl_place_t *place)
{
    return place->server_fd;
}

int vl_place_forks(const vl_place_t *place, apr_uint32_t account)
{
    return place->fds[account].process[0] >= 0;
}

apr_status_t vl_place_enter(int fd)
{
    return write(fd, "0", 1) == 1 ? APR_SUCCESS : errno;
}

void vl_place_thread(const vl_place_t *place, apr_uint32_t account)
{
    static __thread apr_uint32_t current_account = VL_PLACE_NONE;
    int fd;

    if (account == current_account)
        return;
    fd = account == VL_PLACE_NONE ? place->server_fd : place->fds[account].thread;
    if (fd >= 0 && vl_place_enter(fd) == APR_SUCCESS)
        current_account = account;
}

/* Handler of pthread_atfork(): runs in the new process, in its only thread.  If the group
 * has been removed, the process stays in the group of its parent. */
static void enter_in_child(void)
{
    int i;

    for (i = 0; i < VL_CG_CONTROLLERS && fork_fds[i] >= 0; i++)
        vl_place_enter(fork_fds[i]);
}

static void register_handler(void)
{
    pthread_atfork(NULL, NULL, enter_in_child);
}

void vl_place_fork_for(const vl_place_t *place, apr_uint32_t account)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_handler);
    fork_fds = account == VL_PLACE_NONE ? &no_fds
                                        : place->fds[account].process;
}
