/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/vl_place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Of one account; -1 where there is none. */
typedef struct spot_t {
    int thread;
    int process[VL_CG_CONTROLLERS];     /* one for each hierarchy */
} spot_t;

struct vl_place_t {
    const vl_cgroup_t *cg;
    apr_uint32_t accounts, most, open, wanted;
    int home;
    spot_t *spots;                      /* by account */
};

static const int none = -1;

/* What the next fork of this thread is for. */
static __thread const int *fork_for = &none;

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

    fork_for = &none;           /* httpd -X: this thread forks on */
    close_fd(&place->home);
    for (a = 0; a < place->accounts; a++) {
        close_fd(&place->spots[a].thread);
        for (i = 0; i < VL_CG_CONTROLLERS; i++)
            close_fd(&place->spots[a].process[i]);
    }
    return APR_SUCCESS;
}

static int open_fd(const char *file)
{
    return file ? open(file, O_WRONLY | O_CLOEXEC) : -1;
}

vl_place_t *vl_place_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t accounts,
                                        apr_uint32_t most)
{
    vl_place_t *place = apr_pcalloc(p, sizeof(*place));

    place->cg = cg;
    place->accounts = accounts;
    place->most = most;
    place->spots = apr_palloc(p, accounts * sizeof(spot_t));
    memset(place->spots, 0xff, accounts * sizeof(spot_t));
    place->home = open_fd(vl_cgroup_thread_file(cg, p, NULL));
    place->open = place->home >= 0;
    apr_pool_cleanup_register(p, place, close_all, apr_pool_cleanup_null);
    return place;
}

/* Opens the account's files; returns how many there are, opened or not. */
static apr_uint32_t open_spot(const vl_place_t *place, spot_t *spot,
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
        spot->thread = really ? open_fd(file) : -1;
    }
    for (i = 0; i < VL_CG_CONTROLLERS
         && (file = vl_cgroup_process_file(place->cg, p, name, i)); i++) {
        n++;
        spot->process[i] = really ? open_fd(file) : -1;
    }
    apr_pool_destroy(p);
    return n;
}

apr_status_t vl_place_post_config_add(vl_place_t *place, apr_uint32_t account,
                                      const char *name)
{
    spot_t *spot = &place->spots[account];
    apr_uint32_t n = open_spot(place, spot, name, 0);

    place->wanted += n;
    if (!n)
        return APR_ENOENT;
    if (place->open + n > place->most)
        return APR_ENOSPC;
    place->open += n;
    open_spot(place, spot, name, 1);
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
    return place->spots[account].thread;
}

int vl_place_home_fd(const vl_place_t *place)
{
    return place->home;
}

int vl_place_forks(const vl_place_t *place, apr_uint32_t account)
{
    return place->spots[account].process[0] >= 0;
}

apr_status_t vl_place_enter(int fd)
{
    return write(fd, "0", 1) == 1 ? APR_SUCCESS : errno;
}

void vl_place_thread(const vl_place_t *place, apr_uint32_t account)
{
    static __thread apr_uint32_t here = VL_PLACE_NONE;
    int fd;

    if (account == here)
        return;
    fd = account == VL_PLACE_NONE ? place->home : place->spots[account].thread;
    if (fd >= 0 && vl_place_enter(fd) == APR_SUCCESS)
        here = account;
}

/* In the new process, whose only thread this is.  A group that is gone takes
 * nobody: the process stays where its parent is. */
static void enter_in_child(void)
{
    int i;

    for (i = 0; i < VL_CG_CONTROLLERS && fork_for[i] >= 0; i++)
        vl_place_enter(fork_for[i]);
}

static void register_handler(void)
{
    pthread_atfork(NULL, NULL, enter_in_child);
}

void vl_place_fork_for(const vl_place_t *place, apr_uint32_t account)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_handler);
    fork_for = account == VL_PLACE_NONE ? &none
                                        : place->spots[account].process;
}
