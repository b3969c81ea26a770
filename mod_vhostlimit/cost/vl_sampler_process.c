/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_sampler_process.h"

#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ap_listen.h>
#include <apr_thread_proc.h>

#include "base/vl_private.h"
#include "core/vl_duty.h"
#include "cost/vl_sampler.h"

/* Signals that the parent sends to its process group at restarts are ignored. */
static const int ignored[] = { SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGPIPE, SIGWINCH };

/* The process has this many milliseconds to end by itself. */
#define END_TRIES 1500

static struct {
    server_rec *main_server;
    apr_pool_t *pool;
    vl_sampler_conf_t conf;
    apr_proc_t proc;
    int registered;                 /* the parent hears of the end of proc */
} sampler;

/* Keeps the two capabilities, if the process has them. */
static void drop_rights(void)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct has[2] = { { 0 } };
    const __u32 keep = 1U << CAP_SYS_PTRACE | 1U << CAP_DAC_READ_SEARCH;

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_capget, &head, has))
        return;
    has[0].effective &= keep;
    has[0].permitted &= keep;
    has[0].inheritable = has[1].effective = has[1].permitted = has[1].inheritable = 0;
    syscall(SYS_capset, &head, has);
}

/* Only interrupts the sampler's sleep. */
static void interrupt(int signal)
{
    (void)signal;
}

/* Prepares the new process. */
static void become_sampler(void)
{
    struct sigaction action = { .sa_handler = interrupt };
    struct rlimit files;
    sigset_t none;
    size_t i;

    prctl(PR_SET_NAME, VL_SAMPLER_NAME);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        (void)signal(ignored[i], SIG_IGN);
    sigaction(SIGTERM, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    ap_close_listeners();
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    drop_rights();
}

static void start(void);

static void unregister(void)
{
    if (sampler.registered)
        apr_proc_other_child_unregister(&sampler.proc);
    sampler.registered = 0;
}

/* The parent calls this when the process has ended, and before restarts. */
static void maintain(int reason, void *data, apr_wait_t status)
{
    (void)data;
    (void)status;
    switch (reason) {
    case APR_OC_REASON_DEATH:
    case APR_OC_REASON_LOST:
        unregister();
        vl_duty_sampler(sampler.conf.shm)->state = VL_SAMPLER_NONE;
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, sampler.main_server, VLOGNO(0076)
                     "the sampler has ended: until the next one works, sites are shared by "
                     "what was last known of them. It is started again now");
        start();
        break;
    case APR_OC_REASON_RESTART:
        unregister();
        break;
    case APR_OC_REASON_UNREGISTER:
        sampler.registered = 0;
        break;
    default:
        break;
    }
}

/* vl_backends_name_fn */
static void log_unfound(const char *address)
{
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, sampler.main_server, VLOGNO(0078)
                 "requests wait for a back end at %s, but none of its processes was found: its "
                 "CPU time is charged to no site, and its requests hold slots while they sleep. "
                 "Let Apache connect to the address at which it listens, and see its process IDs", address);
}

/* vl_backends_unread_fn */
static void log_unread(const char *address, const char *why)
{
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, sampler.main_server, VLOGNO(0080)
                 "the sessions of the database at %s cannot be seen, because %s: its CPU time is "
                 "divided equally between the requests that wait for it. Let root@localhost log in by "
                 "unix_socket, and give each connection a thread", address, why);
}

static void start(void)
{
    apr_status_t rv = apr_proc_fork(&sampler.proc, sampler.pool);

    if (rv == APR_INCHILD) {
        become_sampler();
        vl_sampler_run(sampler.pool, &sampler.conf);
        _exit(0);
    }
    if (rv != APR_INPARENT) {
        sampler.proc.pid = 0;
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, sampler.main_server, VLOGNO(0077)
                     "the sampler cannot be started: back ends are not charged, and requests "
                     "that sleep hold slots. Raise TasksMax or the memory limit, and restart");
        return;
    }
    apr_proc_other_child_register(&sampler.proc, maintain, &sampler.proc, NULL, sampler.pool);
    sampler.registered = 1;
}

/* Cleanup of the configuration pool. The process ends here, because the parent removes the
 * cgroup that it is in afterwards. */
static apr_status_t end(void *unused)
{
    int tries;

    (void)unused;
    if (sampler.proc.pid <= 0)
        return APR_SUCCESS;
    unregister();
    /* With "httpd -X" this process has no right to send a signal any more. */
    (void)eventfd_write(sampler.conf.stop_fd, 1);
    /* A signal may come just before it sleeps. */
    for (tries = 0; tries < END_TRIES && !waitpid(sampler.proc.pid, NULL, WNOHANG); tries++) {
        kill(sampler.proc.pid, SIGTERM);
        apr_sleep(1000);
    }
    if (tries == END_TRIES && !kill(sampler.proc.pid, SIGKILL))
        waitpid(sampler.proc.pid, NULL, 0);
    sampler.proc.pid = 0;
    close(sampler.conf.stop_fd);
    return APR_SUCCESS;
}

void vl_sampler_post_config(apr_pool_t *p, server_rec *main_server, vl_shm_t *shm,
                            vl_backends_site_fn *folder, vl_backends_site_fn *user)
{
    const ap_listen_rec *listener;
    vl_listen_address_t *own;
    int n = 0;

    for (listener = ap_listeners; listener; listener = listener->next)
        n++;
    own = apr_pcalloc(p, sizeof(*own) * (apr_size_t)(n + 1));
    n = 0;
    for (listener = ap_listeners; listener; listener = listener->next, n++)
        own[n].port = vl_proc_ip((struct sockaddr *)&listener->bind_addr->sa, &own[n].ip);
    sampler.main_server = main_server;
    sampler.pool = p;
    sampler.conf.shm = shm;
    sampler.conf.server = getpid();
    sampler.conf.own = own;
    sampler.conf.folder = folder;
    sampler.conf.user = user;
    sampler.conf.unfound = log_unfound;
    sampler.conf.unread = log_unread;
    sampler.conf.n_own = n;
    sampler.conf.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    start();
    apr_pool_cleanup_register(p, NULL, end, apr_pool_cleanup_null);
}
