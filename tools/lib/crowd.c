/* SPDX-License-Identifier: Apache-2.0 */
/* crowd HOST PORT PATH CLIENTS SECONDS [OPTION=VALUE]...
 *
 * Many HTTP clients.  Each request has a connection of its own and is sent to the IPv4
 * address of HOST.  Prints one line of JSON at the end.
 *
 *   from=ADDRESS   requests are sent from this address and the following ones, in turn
 *   addresses=N    so many of them (1)
 *   rate=R         open loop: each client sends R requests a second, whether or not the
 *                  earlier ones were answered.  Without it each client sends the next
 *                  request when the last one has ended
 *   patience=S     a client gives up after S seconds (30)
 *   hold=1         each client sends one request, and keeps its connection when the response
 *                  has begun.  That is a good response, and its time ends there; a
 *                  connection that the server ends later is broken
 *   upgrade=1      the requests ask for a WebSocket
 *   pause=S        slow clients: they send a header of the request every S seconds, and
 *                  never the end of the request
 *
 * siege, wrk and h2load send from one address, and their clients do not give up.
 *
 * The time of a response counts from the moment when its request was due.  In an open loop
 * a request that was given up, or has no answer at the end, counts with the time that it
 * has waited: percentiles of the answers alone would be low where few are answered. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_S 0.1             /* after a connection that could not be made */
#define SLOW_STEP_S 0.05        /* how exact the pauses of slow clients are */
#define STATUS_AT 9             /* of "HTTP/1.1 200" */
#define STATUS_END 12
#define EVENTS 256
#define CLASSES 118             /* as in load.jq */

typedef struct visit_t visit_t;
struct visit_t {
    int fd;
    double due;
    double slow_at;             /* when a slow client sends the next header; HUGE_VAL before the first */
    size_t got;                 /* bytes of the answer */
    int held;                   /* is on the list of held visits */
    char line[STATUS_END + 1];  /* its begin */
    TAILQ_ENTRY(visit_t) link;
};

static struct {
    struct sockaddr_in server;
    char request[2048];
    size_t request_len;
    long clients;
    double seconds, rate, patience, pause;
    in_addr_t from;             /* in the byte order of this machine; 0: any address */
    long addresses;
    int hold, upgrade;
} crowd = {.patience = 30, .addresses = 1 };

static TAILQ_HEAD(visits_t, visit_t) visits = TAILQ_HEAD_INITIALIZER(visits);   /* the oldest first */
static struct visits_t held = TAILQ_HEAD_INITIALIZER(held);
static int epoll_fd;
static long visits_open;
static unsigned long begun, good, refused, broken, gave_up;
static double *times;           /* of good answers, and of an open loop's other requests */
static size_t ntimes, times_size;
static double retry_at;

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void *need(void *memory)
{
    if (!memory)
        errx(1, "out of memory");
    return memory;
}

static void add_time(const visit_t *visit, double now)
{
    if (ntimes == times_size) {
        times_size = times_size ? 2 * times_size : 4096;
        times = need(realloc(times, times_size * sizeof(*times)));
    }
    times[ntimes++] = now - visit->due;
}

static void end(visit_t *visit)
{
    close(visit->fd);
    TAILQ_REMOVE(visit->held ? &held : &visits, visit, link);
    visits_open--;
    free(visit);
}

/* The connection failed. */
static void break_off(visit_t *visit)
{
    broken++;
    end(visit);
}

/* Returns a socket that is being connected from the next address, or -1. */
static int dial(void)
{
    struct sockaddr_in source = {.sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;

    if (fd < 0)
        return -1;
    source.sin_addr.s_addr = htonl(crowd.from + (in_addr_t)(begun % (unsigned long)crowd.addresses));
    /* The port is chosen by connect(), so each address has all ports. */
    if ((!crowd.from
         || (!setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes))
             && !bind(fd, (struct sockaddr *)&source, sizeof(source))))
        && (!connect(fd, (struct sockaddr *)&crowd.server, sizeof(crowd.server))
            || errno == EINPROGRESS))
        return fd;
    close(fd);
    return -1;
}

static void begin(double due)
{
    struct epoll_event event = {.events = EPOLLOUT };
    visit_t *visit = need(calloc(1, sizeof(*visit)));

    visit->due = due;
    visit->slow_at = HUGE_VAL;
    visit->fd = dial();
    begun++;
    event.data.ptr = visit;
    if (visit->fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, visit->fd, &event)) {
        if (visit->fd >= 0)
            close(visit->fd);
        free(visit);
        broken++;
        retry_at = now_s() + RETRY_S;
        return;
    }
    visits_open++;
    TAILQ_INSERT_TAIL(&visits, visit, link);
}

static void ask(visit_t *visit)
{
    struct epoll_event event = {.events = EPOLLIN,.data = {.ptr = visit } };

    if (send(visit->fd, crowd.request, crowd.request_len, MSG_NOSIGNAL) != (ssize_t)crowd.request_len
        || epoll_ctl(epoll_fd, EPOLL_CTL_MOD, visit->fd, &event)) {
        retry_at = now_s() + RETRY_S;
        break_off(visit);
        return;
    }
    visit->slow_at = now_s() + crowd.pause;
}

/* Sends a header of each slow client that is due.  A connection that the server has closed
 * is noticed by listen_to(). */
static void send_slowly(double now)
{
    static const char header[] = "X-Slow: 1\r\n";
    visit_t *visit;

    TAILQ_FOREACH(visit, &visits, link) {
        if (visit->slow_at <= now) {
            visit->slow_at = now + crowd.pause;
            (void)!send(visit->fd, header, sizeof(header) - 1, MSG_NOSIGNAL);
        }
    }
}

static int status_of(const visit_t *visit)
{
    return visit->got >= STATUS_END ? atoi(visit->line + STATUS_AT) : 0;
}

/* The response has begun, and the client does not wait for its end. */
static void keep(visit_t *visit)
{
    good++;
    add_time(visit, now_s());
    TAILQ_REMOVE(&visits, visit, link);
    visit->held = 1;
    TAILQ_INSERT_TAIL(&held, visit, link);
}

static void answered(visit_t *visit)
{
    int status = status_of(visit);

    if (!status || visit->held) {
        break_off(visit);
        return;
    }
    if (status >= 400) {
        refused++;
    }
    else {
        good++;
        add_time(visit, now_s());
    }
    end(visit);
}

/* The answer ends with its connection. */
static void listen_to(visit_t *visit)
{
    static char buffer[65536];
    ssize_t n;

    while ((n = recv(visit->fd, buffer, sizeof(buffer), 0)) > 0) {
        size_t i;

        for (i = 0; i < (size_t)n && visit->got + i < STATUS_END; i++)
            visit->line[visit->got + i] = buffer[i];
        visit->got += (size_t)n;
    }
    if (crowd.hold && !visit->held && status_of(visit) && status_of(visit) < 400)
        keep(visit);
    if (n == 0)
        answered(visit);
    else if (errno != EAGAIN && errno != EINTR)
        break_off(visit);
}

static void give_up(double now)
{
    visit_t *visit;

    while ((visit = TAILQ_FIRST(&visits)) && visit->due + crowd.patience <= now) {
        gave_up++;
        if (crowd.rate > 0)
            add_time(visit, now);
        end(visit);
    }
}

/* At the end of the run. */
static void end_all(double now)
{
    visit_t *visit;

    while ((visit = TAILQ_FIRST(&visits))) {
        if (crowd.rate > 0)
            add_time(visit, now);
        end(visit);
    }
    while ((visit = TAILQ_FIRST(&held)))
        end(visit);
}

/* Begins the requests that are due.  Returns the seconds until the next one is. */
static double begin_due(double start, double now)
{
    double interval = crowd.rate > 0 ? 1 / (crowd.rate * (double)crowd.clients) : 0;

    if (crowd.rate > 0) {
        while (start + (double)begun * interval <= now)
            begin(start + (double)begun * interval);
        return start + (double)begun * interval - now;
    }
    while (visits_open < crowd.clients && now >= retry_at && (!crowd.hold || begun < (unsigned long)crowd.clients))
        begin(now);
    return visits_open < crowd.clients ? RETRY_S : 1;
}

static void run(double start)
{
    struct epoll_event events[EVENTS];
    double now, left, slow_at = start;
    int n, i;

    while ((now = now_s()) < start + crowd.seconds) {
        left = begin_due(start, now);
        if (left > 0.1)
            left = 0.1;         /* for give_up() */
        n = epoll_wait(epoll_fd, events, EVENTS, left > 0 ? (int)(left * 1000) + 1 : 0);
        for (i = 0; i < n; i++) {
            if (events[i].events & EPOLLOUT)
                ask(events[i].data.ptr);
            else
                listen_to(events[i].data.ptr);
        }
        now = now_s();
        give_up(now);
        if (crowd.pause > 0 && now >= slow_at) {
            send_slowly(now);
            slow_at = now + SLOW_STEP_S;
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* The time that this part of the requests did not exceed. */
static double at(double part)
{
    return times[(size_t)((double)(ntimes - 1) * part)];
}

/* The middle of a class of response times, in percent. */
static double middle(int class)
{
    if (class < 99)
        return class + 0.5;
    return class < 108 ? 99.05 + 0.1 * (class - 99) : 99.905 + 0.01 * (class - 108);
}

static void tell_times(void)
{
    double sum = 0;
    size_t i;
    int class;

    qsort(times, ntimes, sizeof(*times), by_size);
    for (i = 0; i < ntimes; i++)
        sum += times[i];
    printf(",\"timed\":%zu,\"mean\":%.6f,\"longest\":%.6f,\"p50\":%.6f,\"p90\":%.6f,\"p99\":%.6f,\"p999\":%.6f,\"at\":[",
           ntimes, sum / (double)ntimes, times[ntimes - 1], at(0.5), at(0.9), at(0.99), at(0.999));
    for (class = 0; class < CLASSES; class++)
        printf("%s%.6f", class ? "," : "", at(middle(class) / 100));
    putchar(']');
}

static void read_option(const char *option)
{
    const char *value = strchr(option, '=');
    struct in_addr from;

    if (value && !strncmp(option, "from=", 5) && inet_pton(AF_INET, value + 1, &from) == 1)
        crowd.from = ntohl(from.s_addr);
    else if (value && !strncmp(option, "addresses=", 10))
        crowd.addresses = atol(value + 1);
    else if (value && !strncmp(option, "rate=", 5))
        crowd.rate = atof(value + 1);
    else if (value && !strncmp(option, "patience=", 9))
        crowd.patience = atof(value + 1);
    else if (value && !strncmp(option, "pause=", 6))
        crowd.pause = atof(value + 1);
    else if (!strcmp(option, "hold=1"))
        crowd.hold = 1;
    else if (!strcmp(option, "upgrade=1"))
        crowd.upgrade = 1;
    else
        errx(2, "unknown option '%s'", option);
}

static void find_server(const char *name, const char *port)
{
    struct addrinfo wanted = {.ai_family = AF_INET,.ai_socktype = SOCK_STREAM }, *found;
    int rv = getaddrinfo(name, port, &wanted, &found);

    if (rv)
        errx(1, "%s: %s", name, gai_strerror(rv));
    memcpy(&crowd.server, found->ai_addr, sizeof(crowd.server));
    freeaddrinfo(found);
}

int main(int argc, char **argv)
{
    static const char upgrade[] = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    struct rlimit limit;
    double start;
    int i, length;

    if (argc < 6 || atol(argv[4]) < 1 || atof(argv[5]) <= 0) {
        fprintf(stderr, "usage: crowd HOST PORT PATH CLIENTS SECONDS [OPTION=VALUE]...\n");
        return 2;
    }
    for (i = 6; i < argc; i++)
        read_option(argv[i]);
    if (crowd.addresses < 1 || crowd.rate < 0 || crowd.patience <= 0 || crowd.pause < 0)
        errx(2, "addresses and patience are above 0, rate and pause are not negative");
    length = snprintf(crowd.request, sizeof(crowd.request),
                      "GET %s HTTP/1.1\r\nHost: %s\r\n%s%s", argv[3], argv[1],
                      crowd.upgrade ? upgrade : "Connection: close\r\n", crowd.pause > 0 ? "" : "\r\n");
    if (length >= (int)sizeof(crowd.request))
        errx(2, "the path is too long");
    crowd.request_len = (size_t)length;
    crowd.clients = atol(argv[4]);
    crowd.seconds = atof(argv[5]);
    /* As many open files as the hard limit allows: an open loop does not wait for answers. */
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    find_server(argv[1], argv[2]);
    epoll_fd = epoll_create1(0);
    if (epoll_fd < 0)
        err(1, "epoll_create1");
    start = now_s();
    run(start);
    end_all(now_s());
    printf("{\"begun\":%lu,\"good\":%lu,\"refused\":%lu,\"broken\":%lu,\"gave_up\":%lu,\"elapsed\":%.6f",
           begun, good, refused, broken, gave_up, now_s() - start);
    if (ntimes)
        tell_times();
    puts("}");
    return 0;
}
