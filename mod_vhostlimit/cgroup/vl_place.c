/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_place.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/vl_cgroup_int.h"

static const int no_fds[1 + VL_CG_CONTROLLERS] = { -1, -1 };

/* The files that a child process of this thread writes itself to after fork(). */
static __thread const int *fork_fds = no_fds;

static apr_status_t end(void *data)
{
    vl_place_t *place = data;

    fork_fds = no_fds;          /* with "httpd -X" this thread may fork again */
    if (place->server_fd >= 0)
        close(place->server_fd);
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
    apr_uint32_t a;

    place->cg = cg;
    place->max_open = max_open;
    place->fds = apr_palloc(p, accounts * sizeof(*place->fds));
    for (a = 0; a < accounts; a++)
        place->fds[a] = no_fds;
    place->server_fd = open_fd(vl_cgroup_thread_file(cg, p, NULL));
    place->open = place->server_fd >= 0;
    apr_pool_cleanup_register(p, place, end, apr_pool_cleanup_null);
    return place;
}

/* Opens the files of the account, or only counts them if `really` is 0.  Returns their number. */
static apr_uint32_t open_files(const vl_cgroup_t *cg, apr_pool_t *p, const char *account,
                               group_t *group, int really)
{
    const char *file = vl_cgroup_thread_file(cg, p, account);
    apr_uint32_t n = file != NULL;
    int i;

    memset(group->fds, 0xff, sizeof(group->fds));
    group->fds[0] = really ? open_fd(file) : -1;
    for (i = 0; i < VL_CG_CONTROLLERS
         && (file = vl_cgroup_process_file(cg, p, account, i)); i++, n++)
        group->fds[1 + i] = really ? open_fd(file) : -1;
    group->n_fds = really ? (int)n : 0;
    return n;
}

apr_status_t vl_place_post_config_add(vl_place_t *place, apr_uint32_t account,
                                      const char *name)
{
    apr_uint32_t n;
    group_t *group;
    apr_pool_t *p;

    apr_pool_create(&p, NULL);
    group = vl_cgroup_group(place->cg, p, name);
    n = !group ? 0 : group->n_fds ? (apr_uint32_t)group->n_fds
                                  : open_files(place->cg, p, name, group, 0);
    place->wanted += n;
    if (n && place->open + n <= place->max_open) {
        if (!group->n_fds)
            open_files(place->cg, p, name, group, 1);
        place->open += n;
        place->fds[account] = group->fds;
        account = VL_PLACE_NONE;
    }
    apr_pool_destroy(p);
    return account == VL_PLACE_NONE ? APR_SUCCESS : n ? APR_ENOSPC : APR_ENOENT;
}

void vl_place_thread(const vl_place_t *place, apr_uint32_t account)
{
    static __thread apr_uint32_t current_account = VL_PLACE_NONE;
    int fd;

    if (account == current_account)
        return;
    fd = account == VL_PLACE_NONE ? place->server_fd : place->fds[account][0];
    if (fd >= 0 && write(fd, "0", 1) == 1)
        current_account = account;
}

/* Handler of pthread_atfork(): runs in the new process, in its only thread.  If the group
 * has been removed, the process stays in the group of its parent. */
static void enter_in_child(void)
{
    int i;

    for (i = 1; i <= VL_CG_CONTROLLERS && fork_fds[i] >= 0; i++) {
        if (write(fork_fds[i], "0", 1) != 1)
            continue;
    }
}

static void register_handler(void)
{
    pthread_atfork(NULL, NULL, enter_in_child);
}

void vl_place_fork_for(const vl_place_t *place, apr_uint32_t account)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_handler);
    fork_fds = account == VL_PLACE_NONE ? no_fds : place->fds[account];
}
