/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_accept.h"

#include "accept/vl_acceptor.h"
#include "accept/vl_child.h"
#include "accept/vl_listener.h"
#include "accept/vl_prefork.h"
#include "base/vl_private.h"
#include "config/vl_conf.h"
#include "core/vl_shm_child.h"

static struct {
    int is_set_up;                  /* vl_accept_child_init() has decided */
    int replaces_listeners;         /* connections are queued as sockets */
} accepting;

void vl_accept_child_init(void)
{
    if (vl_shm_child_wake_fd(vl_child.shm) < 0 || !vl_conf_knows_mpm())
        return;
    accepting.is_set_up = 1;
    if (vl_listener_is_threaded())
        accepting.replaces_listeners = vl_acceptor_child_start();
    else if (!vl_listener_obstacle())
        accepting.replaces_listeners = vl_prefork_child_init();
}

/* Without the child_stopping hook a sleeping acceptor would not notice that the child stops. */
int vl_accept_may_rest(void)
{
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 110)
    return vl_accept_works() && !vl_is_one_process();
#else
    return 0;
#endif
}

int vl_accept_follows(void)
{
    return vl_acceptor_is_thread() || accepting.replaces_listeners;
}

int vl_accept_works(void)
{
    return accepting.is_set_up ? accepting.replaces_listeners
                               : vl_conf_knows_mpm() && !vl_listener_obstacle();
}
