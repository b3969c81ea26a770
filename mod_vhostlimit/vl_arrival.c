/* SPDX-License-Identifier: Apache-2.0 */
/* Each arrival is in one place at a time, see place_e.  Those that may come
 * back from the MPM keep their descriptor and lend it a duplicate: it closes
 * that one, told that the client has gone (c->aborted) so that it shuts nothing
 * down, and the connection is open as before.
 *
 * Only the acceptor frees what may still be among the events it has got:
 * see bury_locked(). */
#include "vl_arrival.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <apr_portable.h>
#include <apr_strings.h>

#include "vl_clock.h"
#include "vl_conf.h"
#include "vl_look.h"
#include "vl_wheel.h"

/* A head that has not come by then is the MPM's, whose timeouts hold. */
#define PENDING_US (10 * APR_USEC_PER_SEC)
/* The MPM was told that somebody may pass and has not come for so long. */
#define STUCK_US (100 * 1000)
/* Of what a closing client still sends; then it is others' turn. */
#define DRAIN_SIZE (1 << 16)
/* As long as the MPM waits for the client after closing an idle connection
 * (SECONDS_TO_LINGER). */
#define SHORT_LINGER_US (2 * APR_USEC_PER_SEC)

static const char visit_key[] = "vhostlimit";

typedef enum {
    SORTING,                        /* the acceptor looks at it */
    PENDING,                        /* its head has not all come */
    LINE,                           /* (vl_park.h) its turn has not come */
    PASSING,                        /* to be given to the MPM next: its turn has
                                     * come, it is refused, could not be told
                                     * whose it is, or is not ours to limit */
    VISIT,                          /* in the MPM's hands, and may come back */
    IDLE,                           /* kept alive */
    FRESH,                          /* kept alive, and its next request had come
                                     * before it was back */
    LINGER,                         /* shut down; the client has not closed */
    GONE,                           /* memory to be freed */
    PLACES
} place_e;

struct vl_arrival_t {
    vl_waiter_t waiter;             /* first: a waiter is its arrival */
    APR_RING_ENTRY(vl_arrival_t) link;  /* with the others in its place */
    place_e place;
    vl_timer_t timer;               /* PENDING, IDLE, LINGER */
    int fd;
    int watched;                    /* in the epoll set */
    int news;                       /* there was an event during its VISIT */
    int returns;                    /* the MPM gets a duplicate of fd */
    int begun;                      /* a worker has taken it up */
    apr_uint32_t keepalives;
    apr_int64_t idle_us;            /* until when it is kept alive */
    int waited;                     /* since waiter.since_us, in line */
    vl_turn_t turn;
    socklen_t addr_len;             /* of both */
    struct sockaddr_storage local, remote;
};

APR_RING_HEAD(arrivals_t, vl_arrival_t);

static struct places_t {
    vl_shm_t *shm;
    vl_wheel_t *wheel;
    int epoll_fd;
    apr_uint32_t most;              /* in IDLE and LINGER, and half of all */
    struct arrivals_t in[PLACES];
    apr_uint32_t count[PLACES];
    int leaving;                    /* nobody comes back */
    int pass_fd;                    /* eventfd: somebody is in PASSING */
    int signalled;                  /* it is readable */
    apr_int64_t signalled_us;       /* since when */
    apr_int64_t asked_us;           /* when the MPM last asked who may pass */
    int stuck;                      /* it has not for too long */
} *places;

int vl_arrival_child_init(apr_pool_t *pchild, server_rec *main_server,
                          vl_shm_t *shm, int epoll_fd, apr_uint32_t most)
{
    int i;

    places = apr_pcalloc(pchild, sizeof(*places));
    places->shm = shm;
    vl_look_child_init(pchild, main_server);
    places->wheel = vl_wheel_create(pchild, vl_clock_us());
    places->epoll_fd = epoll_fd;
    places->most = most;
    places->pass_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (i = 0; i < PLACES; i++)
        APR_RING_INIT(&places->in[i], vl_arrival_t, link);
    return places->pass_fd;
}

/* --- places --------------------------------------------------------------- */

static void leave_locked(vl_arrival_t *arrival)
{
    vl_wheel_clear(&arrival->timer);
    APR_RING_REMOVE(arrival, link);
    places->count[arrival->place]--;
}

static void enter_locked(vl_arrival_t *arrival, place_e place)
{
    arrival->place = place;
    APR_RING_INSERT_TAIL(&places->in[place], arrival, vl_arrival_t, link);
    places->count[place]++;
}

static void move_locked(vl_arrival_t *arrival, place_e place)
{
    leave_locked(arrival);
    enter_locked(arrival, place);
}

static vl_arrival_t *first_locked(place_e place)
{
    return APR_RING_EMPTY(&places->in[place], vl_arrival_t, link)
           ? NULL : APR_RING_FIRST(&places->in[place]);
}

/* how: EPOLLET, or 0 for one that closes, which is read piece by piece and may
 * have sent something before.  0: it cannot be watched. */
static int watch_locked(vl_arrival_t *arrival, apr_uint32_t how)
{
    struct epoll_event ev = { EPOLLIN | EPOLLRDHUP | how, { .ptr = arrival } };

    if (!arrival->watched)
        arrival->watched = !epoll_ctl(places->epoll_fd, EPOLL_CTL_ADD,
                                      arrival->fd, &ev);
    else if (!how)
        epoll_ctl(places->epoll_fd, EPOLL_CTL_MOD, arrival->fd, &ev);
    return arrival->watched;
}

/* Its descriptor is no longer our business.  One that was watched may be among
 * the events that the acceptor is working on. */
static void bury_locked(vl_arrival_t *arrival)
{
    if (!arrival->watched) {
        leave_locked(arrival);
        free(arrival);
        return;
    }
    epoll_ctl(places->epoll_fd, EPOLL_CTL_DEL, arrival->fd, NULL);
    move_locked(arrival, GONE);
}

static void close_locked(vl_arrival_t *arrival)
{
    int fd = arrival->fd;

    bury_locked(arrival);
    close(fd);
}

/* Who is closed when there is no room for others: the oldest of those that have
 * been answered, then the oldest that has asked nothing.  0: there is nobody. */
static int close_one_locked(void)
{
    vl_arrival_t *arrival = first_locked(LINGER);

    if (!arrival)
        arrival = first_locked(IDLE);
    if (!arrival)
        arrival = first_locked(PENDING);
    if (arrival)
        close_locked(arrival);
    return arrival != NULL;
}

/* For one more that has been answered. */
static void make_room_locked(void)
{
    while (places->count[IDLE] + places->count[LINGER] >= places->most)
        close_one_locked();
}

/* The threads need the descriptors that are left. */
static int is_crowded_locked(void)
{
    apr_uint32_t all = 0;
    int i;

    for (i = 0; i < PLACES; i++)
        all += i == VISIT || i == GONE ? 0 : places->count[i];
    return all / 2 > places->most;
}

/* The MPM is told once that somebody may pass, and finds no more when all have
 * passed. */
static void pass_locked(vl_arrival_t *arrival)
{
    apr_uint64_t one = 1;

    move_locked(arrival, PASSING);
    if (!places->signalled) {
        places->signalled = write(places->pass_fd, &one, sizeof(one))
                            == sizeof(one);
        places->signalled_us = vl_clock_us();
    }
}

static void quiet_locked(void)
{
    apr_uint64_t count;

    if (places->signalled
        && read(places->pass_fd, &count, sizeof(count)) == sizeof(count))
        places->signalled = 0;
}

static void turn_locked(vl_waiter_t *waiter, const vl_ticket_t *ticket,
                        vl_reason_e refused)
{
    vl_arrival_t *arrival = (vl_arrival_t *)waiter;

    arrival->turn.holds = ticket != NULL;
    if (ticket)
        arrival->turn.ticket = *ticket;
    arrival->turn.refused = refused;
    pass_locked(arrival);
}

/* Under the lock, and with the child paused, so that no grant comes of it. */
static void give_back_locked(vl_turn_t *turn)
{
    if (turn->holds)
        vl_slot_end(places->shm, &turn->ticket, NULL);
    turn->holds = 0;
}

static void pass(vl_arrival_t *arrival)
{
    vl_park_lock();
    pass_locked(arrival);
    vl_park_unlock();
}

static void pend(vl_arrival_t *arrival)
{
    vl_park_lock();
    if (watch_locked(arrival, EPOLLET)) {
        move_locked(arrival, PENDING);
        vl_wheel_set(places->wheel, &arrival->timer,
                     vl_clock_us() + PENDING_US);
    }
    else {
        pass_locked(arrival);
    }
    vl_park_unlock();
}

static void line_up(vl_arrival_t *arrival)
{
    arrival->waited = 1;
    vl_park_lock();
    move_locked(arrival, LINE);
    vl_park_add_locked(&arrival->waiter);
    vl_park_unlock();
}

/* --- sorting -------------------------------------------------------------- */

/* A connection without a request is the MPM's to answer or close, unless it has
 * had answers. */
static void give_up(vl_arrival_t *arrival)
{
    vl_park_lock();
    if (arrival->keepalives)
        close_locked(arrival);
    else
        pass_locked(arrival);
    vl_park_unlock();
}

static void idle_locked(vl_arrival_t *arrival)
{
    move_locked(arrival, IDLE);
    vl_wheel_set(places->wheel, &arrival->timer, arrival->idle_us);
}

static void idle(vl_arrival_t *arrival)
{
    vl_park_lock();
    idle_locked(arrival);
    vl_park_unlock();
}

/* Its account's slot at once, or its line. */
static void ask(vl_arrival_t *arrival, const vl_conf_t *conf)
{
    vl_waiter_t *waiter = &arrival->waiter;

    waiter->account = conf->account;
    waiter->since_us = vl_clock_us();
    waiter->deadline_us = waiter->since_us + conf->queue_timeout;
    waiter->done = turn_locked;
    if (vl_slot_try(places->shm, conf->account, &arrival->turn.ticket)
        == APR_SUCCESS) {
        arrival->turn.holds = 1;
        pass(arrival);
    }
    else {
        line_up(arrival);
    }
}

static void ask_for(vl_arrival_t *arrival, const vl_look_t *look)
{
    const vl_conf_t *conf = vl_conf_get(look->server);

    /* Whose the streams of an HTTP/2 connection are, each of them says. */
    if (!look->http2 && conf->mode == VL_MODE_ON && !look->exempt
        && vl_slot_queue(places->shm, conf->account)) {
        arrival->returns = !look->tls;
        ask(arrival, conf);
    }
    else {
        pass(arrival);
    }
}

/* all: nothing more will come. */
static void sort(vl_arrival_t *arrival, int all)
{
    vl_look_t look;
    vl_look_e seen = vl_look(arrival->fd, &arrival->local, &arrival->remote,
                             arrival->addr_len, &look);

    arrival->returns = 0;
    arrival->waited = 0;
    memset(&arrival->turn, 0, sizeof(arrival->turn));
    if (seen == VL_LOOK_ALL)
        ask_for(arrival, &look);
    else if (seen == VL_LOOK_CLOSED || all)
        give_up(arrival);
    else if (seen == VL_LOOK_NOTHING && arrival->keepalives)
        idle(arrival);
    else
        pend(arrival);
}

/* NULL: there is no memory, and it is closed. */
static vl_arrival_t *arrival_make(int fd)
{
    vl_arrival_t *arrival = calloc(1, sizeof(*arrival));

    if (!arrival) {
        close(fd);
        return NULL;
    }
    arrival->fd = fd;
    arrival->addr_len = sizeof(arrival->local);
    return arrival;
}

void vl_arrival_come(int fd, const struct sockaddr_storage *remote)
{
    vl_arrival_t *arrival = arrival_make(fd);
    socklen_t len = sizeof(arrival->remote);

    if (!arrival)
        return;
    getsockname(fd, (struct sockaddr *)&arrival->local, &arrival->addr_len);
    if (remote)
        arrival->remote = *remote;
    else
        getpeername(fd, (struct sockaddr *)&arrival->remote, &len);
    vl_park_lock();
    if (is_crowded_locked())
        close_one_locked();
    enter_locked(arrival, SORTING);
    vl_park_unlock();
    sort(arrival, 0);
}

int vl_arrival_spare(void)
{
    int spared;

    vl_park_lock();
    spared = close_one_locked();
    vl_park_unlock();
    return spared;
}

/* --- closing -------------------------------------------------------------- */

static void drain_locked(vl_arrival_t *arrival)
{
    static char untouched[DRAIN_SIZE];      /* MSG_TRUNC: tcp(7) */
    ssize_t n = recv(arrival->fd, untouched, sizeof(untouched),
                     MSG_TRUNC | MSG_DONTWAIT);

    if (!n || (n < 0 && errno != EAGAIN))
        close_locked(arrival);
}

static void linger_locked(vl_arrival_t *arrival, apr_int64_t until_us)
{
    move_locked(arrival, LINGER);
    vl_wheel_set(places->wheel, &arrival->timer, until_us);
}

/* --- the acceptor --------------------------------------------------------- */

void vl_arrival_revisit(vl_arrival_t *arrival, apr_uint32_t events)
{
    int sorts = 0;

    vl_park_lock();
    switch (arrival->place) {
    case PENDING:
    case IDLE:
        move_locked(arrival, SORTING);
        sorts = 1;
        break;
    case LINGER:
        drain_locked(arrival);
        break;
    case VISIT:
        arrival->news = 1;
        break;
    default:
        break;
    }
    vl_park_unlock();
    if (sorts)
        sort(arrival, !!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)));
}

static vl_arrival_t *next_fresh(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    arrival = first_locked(FRESH);
    if (arrival)
        move_locked(arrival, SORTING);
    vl_park_unlock();
    return arrival;
}

void vl_arrival_settle(void)
{
    vl_arrival_t *arrival;

    while ((arrival = next_fresh()))
        sort(arrival, 0);
    vl_park_lock();
    while ((arrival = first_locked(GONE))) {
        leave_locked(arrival);
        free(arrival);
    }
    vl_park_unlock();
}

static void due_locked(vl_timer_t *timer)
{
    vl_arrival_t *arrival = (vl_arrival_t *)(void *)
        ((char *)timer - offsetof(vl_arrival_t, timer));

    if (arrival->place == PENDING) {
        pass_locked(arrival);
    }
    else if (arrival->place == IDLE) {
        watch_locked(arrival, 0);
        shutdown(arrival->fd, SHUT_WR);
        linger_locked(arrival, vl_clock_us() + SHORT_LINGER_US);
    }
    else {
        close_locked(arrival);
    }
}

/* The MPM has stopped accepting, because its connections or its threads are at
 * their limit, and slots that nobody uses are held here: they go back, and no
 * more are granted to this child until the MPM asks again.  Who has had a slot
 * taken away waits again, before the others. */
static void give_up_slots_locked(apr_int64_t now_us)
{
    apr_int64_t limit = now_us - STUCK_US;
    struct arrivals_t *passing = &places->in[PASSING];
    vl_arrival_t *arrival, *before;

    if (places->stuck || !first_locked(PASSING) || places->asked_us > limit
        || places->signalled_us > limit)
        return;
    places->stuck = 1;
    vl_shm_child_pause(places->shm, 1);
    vl_park_take_locked();
    for (arrival = APR_RING_LAST(passing);
         arrival != APR_RING_SENTINEL(passing, vl_arrival_t, link);
         arrival = before) {
        before = APR_RING_PREV(arrival, link);
        if (arrival->turn.holds) {
            give_back_locked(&arrival->turn);
            arrival->waited = 1;
            move_locked(arrival, LINE);
            vl_park_put_back_locked(&arrival->waiter);
        }
    }
}

int vl_arrival_tick(apr_int64_t now_us)
{
    int stuck;

    vl_park_lock();
    vl_park_expire_locked(now_us);
    vl_park_take_locked();
    vl_wheel_turn(places->wheel, now_us, due_locked);
    give_up_slots_locked(now_us);
    stuck = places->stuck;
    vl_park_unlock();
    return stuck;
}

/* --- to other children ---------------------------------------------------- */

static vl_arrival_t *evict_one_locked(void)
{
    vl_arrival_t *arrival = first_locked(PENDING);
    vl_waiter_t *waiter;

    if (!arrival && places->leaving) {
        arrival = first_locked(IDLE);
        if (!arrival)
            arrival = first_locked(FRESH);
    }
    if (!arrival && (arrival = first_locked(PASSING)))
        give_back_locked(&arrival->turn);
    if (!arrival && (waiter = vl_park_evict_locked(turn_locked)))
        arrival = (vl_arrival_t *)waiter;
    return arrival;
}

static vl_arrival_t *shed_one_locked(void)
{
    return (vl_arrival_t *)vl_park_evict_locked(turn_locked);
}

static vl_arrival_t *unbegun_one_locked(void)
{
    vl_arrival_t *arrival;

    APR_RING_FOREACH(arrival, &places->in[VISIT], vl_arrival_t, link) {
        if (!arrival->begun) {
            give_back_locked(&arrival->turn);
            return arrival;
        }
    }
    return NULL;
}

static apr_size_t take_out_locked(vl_arrival_t *(*one_locked)(void),
                                  int *ret_fds, apr_size_t most)
{
    vl_arrival_t *arrival;
    apr_size_t n;

    for (n = 0; n < most && (arrival = one_locked()); n++) {
        ret_fds[n] = arrival->fd;
        bury_locked(arrival);
    }
    return n;
}

static apr_size_t take_out(vl_arrival_t *(*one_locked)(void), int *ret_fds,
                           apr_size_t most)
{
    apr_size_t n;

    vl_park_lock();
    n = take_out_locked(one_locked, ret_fds, most);
    vl_park_unlock();
    return n;
}

apr_size_t vl_arrival_evict(int *ret_fds, apr_size_t most)
{
    apr_size_t n;

    vl_shm_child_pause(places->shm, 1);
    vl_park_lock();
    places->stuck = 1;
    vl_park_take_locked();
    n = take_out_locked(evict_one_locked, ret_fds, most);
    vl_park_unlock();
    return n;
}

apr_size_t vl_arrival_shed(int *ret_fds, apr_size_t most)
{
    return take_out(shed_one_locked, ret_fds, most);
}

/* A request that has been read in full gets an answer. */
static void dismiss_locked(vl_arrival_t *arrival)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";

    if (arrival->returns && arrival->place != IDLE
        && send(arrival->fd, answer, sizeof(answer) - 1,
                MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        close_locked(arrival);
        return;
    }
    shutdown(arrival->fd, SHUT_WR);
    if (watch_locked(arrival, 0))
        linger_locked(arrival, vl_clock_us() + SHORT_LINGER_US);
    else
        close_locked(arrival);
}

void vl_arrival_dismiss(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    while ((arrival = evict_one_locked()))
        dismiss_locked(arrival);
    vl_park_unlock();
}

apr_size_t vl_arrival_unbegun(int *ret_fds, apr_size_t most)
{
    return take_out(unbegun_one_locked, ret_fds, most);
}

apr_uint32_t vl_arrival_leave(void)
{
    apr_uint32_t here;

    vl_park_lock();
    places->leaving = 1;
    here = places->count[PENDING] + places->count[LINE]
           + places->count[PASSING] + places->count[IDLE]
           + places->count[FRESH] + places->count[LINGER];
    vl_park_unlock();
    return here;
}

/* --- the MPM's listener --------------------------------------------------- */

static void go_on_locked(void)
{
    places->asked_us = vl_clock_us();
    if (places->stuck) {
        places->stuck = 0;
        vl_shm_child_pause(places->shm, 0);
        vl_park_take_locked();
    }
}

/* One socket a call is all the MPM takes, so pass_fd stays readable as long as
 * there are more. */
vl_arrival_t *vl_arrival_next(void)
{
    vl_arrival_t *arrival;

    vl_park_lock();
    go_on_locked();
    arrival = first_locked(PASSING);
    if (arrival)
        move_locked(arrival, VISIT);
    else
        quiet_locked();
    vl_park_unlock();
    return arrival;
}

/* The MPM has done with the connection, and it has not come back. */
static apr_status_t end_visit(void *data)
{
    vl_visit_t *visit = data;

    if (visit->turn.holds)
        vl_park_end(&visit->turn.ticket, NULL);
    visit->turn.holds = 0;
    if (visit->arrival) {
        vl_park_lock();
        close_locked(visit->arrival);
        vl_park_unlock();
    }
    visit->arrival = NULL;
    return APR_SUCCESS;
}

/* The descriptor for the MPM.  One that is not to come back leaves now. */
static int lend(vl_arrival_t *arrival)
{
    int fd = arrival->fd, lent = -1;

    if (arrival->returns)
        lent = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (lent >= 0)
        return lent;
    arrival->returns = 0;
    return fd;
}

static vl_visit_t *begin_visit(vl_arrival_t *arrival, apr_pool_t *p)
{
    vl_visit_t *visit = apr_pcalloc(p, sizeof(*visit));

    visit->turn = arrival->turn;
    if (arrival->waited)
        visit->turn.waited_us = vl_clock_us() - arrival->waiter.since_us;
    visit->keepalives = arrival->keepalives;
    visit->ready = arrival->returns;
    arrival->news = 0;
    arrival->begun = 0;
    if (arrival->returns) {
        visit->arrival = arrival;
    }
    else {
        vl_park_lock();
        bury_locked(arrival);
        vl_park_unlock();
    }
    apr_pool_cleanup_register(p, visit, end_visit, apr_pool_cleanup_null);
    return visit;
}

static apr_status_t make_socket(int fd, struct sockaddr_storage *local,
                                struct sockaddr_storage *remote, apr_pool_t *p,
                                apr_socket_t **ret_sock)
{
    apr_os_sock_info_t info = {
        &fd, (struct sockaddr *)local, (struct sockaddr *)remote,
        local->ss_family, SOCK_STREAM, APR_PROTO_TCP
    };
    apr_status_t rv = apr_os_sock_make(ret_sock, &info, p);

    if (rv != APR_SUCCESS)
        close(fd);
    return rv;
}

apr_status_t vl_arrival_socket(vl_arrival_t *arrival, apr_pool_t *p,
                               apr_socket_t **ret_sock)
{
    apr_status_t rv = make_socket(lend(arrival), &arrival->local,
                                  &arrival->remote, p, ret_sock);
    vl_visit_t *visit = begin_visit(arrival, p);

    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, visit, visit_key, NULL);
    return rv;
}

/* --- the MPM in another process ------------------------------------------- */

static apr_status_t relay_one_locked(vl_arrival_t *arrival,
                                     vl_arrival_send_fn *send_one)
{
    vl_item_t item = { .turn = arrival->turn, .ready = arrival->returns,
                       .keepalives = arrival->keepalives,
                       .addr_len = arrival->addr_len,
                       .local = arrival->local, .remote = arrival->remote };
    apr_status_t rv;

    if (arrival->waited)
        item.turn.waited_us = vl_clock_us() - arrival->waiter.since_us;
    rv = send_one(&item, arrival->fd);
    if (rv == APR_SUCCESS)
        close_locked(arrival);
    return rv;
}

void vl_arrival_relay(vl_arrival_send_fn *send_one)
{
    vl_arrival_t *arrival;
    apr_status_t rv = APR_SUCCESS;

    vl_park_lock();
    while (rv == APR_SUCCESS && (arrival = first_locked(PASSING)))
        rv = relay_one_locked(arrival, send_one);
    if (rv == APR_SUCCESS)
        go_on_locked();
    vl_park_unlock();
}

void vl_arrival_come_back(const vl_item_t *item, int fd)
{
    vl_arrival_t *arrival = arrival_make(fd);

    if (!arrival)
        return;
    arrival->addr_len = item->addr_len;
    arrival->local = item->local;
    arrival->remote = item->remote;
    arrival->keepalives = item->keepalives;
    arrival->idle_us = item->until_us;
    vl_park_lock();
    enter_locked(arrival, SORTING);
    make_room_locked();
    if (!watch_locked(arrival, item->lingers ? 0 : EPOLLET))
        close_locked(arrival);
    else if (item->lingers)
        linger_locked(arrival, item->until_us);
    else
        idle_locked(arrival);
    vl_park_unlock();
}

apr_status_t vl_arrival_from(const vl_item_t *item, int fd,
                             vl_arrival_send_fn *back, apr_pool_t *p,
                             apr_socket_t **ret_sock)
{
    vl_visit_t *visit = apr_pcalloc(p, sizeof(*visit));
    vl_item_t *copy = apr_pmemdup(p, item, sizeof(*item));
    apr_status_t rv = make_socket(fd, &copy->local, &copy->remote, p,
                                  ret_sock);

    visit->turn = item->turn;
    visit->ready = item->ready;
    visit->keepalives = item->keepalives;
    visit->item = item->ready ? copy : NULL;
    visit->fd = fd;
    visit->back = back;
    apr_pool_cleanup_register(p, visit, end_visit, apr_pool_cleanup_null);
    if (rv == APR_SUCCESS)
        apr_socket_data_set(*ret_sock, visit, visit_key, NULL);
    return rv;
}

/* --- its workers ---------------------------------------------------------- */

vl_visit_t *vl_arrival_begin(apr_socket_t *sock)
{
    void *data = NULL;
    vl_visit_t *visit;

    if (apr_socket_data_get(&data, visit_key, sock) != APR_SUCCESS || !data)
        return NULL;
    visit = data;
    if (visit->arrival)
        visit->arrival->begun = 1;
    return visit;
}

static void wake_acceptor(void)
{
    apr_uint64_t one = 1;

    /* Fails only when it is readable already. */
    if (write(vl_shm_child_wake_fd(places->shm), &one, sizeof(one)) < 0)
        return;
}

int vl_arrival_returns(const vl_visit_t *visit)
{
    return visit && (visit->arrival || visit->item);
}

static int send_back(vl_visit_t *visit, int lingers, apr_int64_t for_us)
{
    vl_item_t *item = visit->item;

    memset(&item->turn, 0, sizeof(item->turn));
    item->lingers = lingers;
    item->until_us = vl_clock_us() + for_us;
    return visit->back(item, visit->fd) == APR_SUCCESS;
}

int vl_arrival_return(vl_visit_t *visit, apr_uint32_t keepalives,
                      apr_int64_t idle_us)
{
    vl_arrival_t *arrival = visit->arrival;
    int back, fresh = 0;

    if (!arrival) {
        visit->item->keepalives = keepalives;
        return send_back(visit, 0, idle_us);
    }
    vl_park_lock();
    back = !places->leaving && watch_locked(arrival, EPOLLET);
    if (back) {
        visit->arrival = NULL;
        fresh = arrival->news;
        arrival->keepalives = keepalives;
        arrival->idle_us = vl_clock_us() + idle_us;
        make_room_locked();
        if (fresh)
            move_locked(arrival, FRESH);
        else
            idle_locked(arrival);
    }
    vl_park_unlock();
    if (fresh)
        wake_acceptor();
    return back;
}

int vl_arrival_linger(vl_visit_t *visit, apr_int64_t linger_us)
{
    vl_arrival_t *arrival = visit->arrival;
    int back;

    if (!arrival) {
        shutdown(visit->fd, SHUT_WR);
        return send_back(visit, 1, linger_us);
    }
    vl_park_lock();
    back = !places->leaving && watch_locked(arrival, 0);
    if (back) {
        visit->arrival = NULL;
        shutdown(arrival->fd, SHUT_WR);
        make_room_locked();
        linger_locked(arrival, vl_clock_us() + linger_us);
    }
    vl_park_unlock();
    return back;
}
