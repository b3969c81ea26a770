/* SPDX-License-Identifier: Apache-2.0 */
/* vhostlimit-fleet: a daemon beside each Apache of a fleet. Once a second it asks Apache what
 * its sites use, exchanges that with the other servers through a store, computes the same
 * allocation as they do, and leases the weights and parts of limits that follow to Apache
 * for three seconds. Whatever fails, the leases end and the configured limits hold. */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fleet_conf.h"
#include "fleet_local.h"
#include "fleet_peers.h"
#include "fleet_store.h"

#define PROGRAM "vhostlimit-fleet"
#define INTERVAL_MS 1000
/* Exchanges without a gap before the first lease: the others' reports and this server's own
 * use are known then. */
#define LEARNING 2
/* A server that has had no report for so long is removed from the store's list. */
#define REMOVE_AFTER 60
/* Time for a client of the socket to send its command, and to take the answer. */
#define CLIENT_MS 200
/* Messages that repeat are logged once in so many intervals. */
#define REPEAT 60

static const char help[] =
    "Summary: shares each site's part of a fleet of servers fairly (mod_vhostlimit)\n"
    "Usage:   " PROGRAM " [OPTION]...\n"
    "  -c FILE     configuration file (" FLEET_CONF_FILE ")\n"
    "  -t          check the configuration file and end\n"
    "  -h, --help  print this help\n"
    "  --version   print the version\n"
    "The program stays in the foreground and logs to stderr. Keywords of the file:\n"
    "  store ADDRESS...      HOST:PORT or unix:/PATH of a Valkey or Redis server. The next one\n"
    "                        is tried when one does not answer or takes no writes\n"
    "  sentinel MASTER ADDRESS...\n"
    "                        instead of store: sentinels (HOST:PORT) that know the address of\n"
    "                        the master of this name\n"
    "  fleet NAME            fleets on one store have different names (main)\n"
    "  server NAME           name of this server, unique in the fleet (its host name)\n"
    "  user NAME             user of the store's ACL\n"
    "  password-file PATH    file with the password in its first line\n"
    "  sentinel-user NAME, sentinel-password-file PATH\n"
    "                        the same for the sentinels\n"
    "  tls on|off            TLS to the store and to sentinels (off)\n"
    "  tls-ca FILE           certificates that sign theirs (those of the system)\n"
    "  tls-cert FILE, tls-key FILE\n"
    "                        certificate and key of this client, if they ask for one\n"
    "  tls-name NAME         name in their certificates (the host of the address)\n"
    "  capacity PERCENT|auto CPU time of this server, 100% is one processor (auto: its\n"
    "                        processors)\n"
    "  floor PERCENT         least weight, as part of the configured one (1%)\n"
    "  limit SITE cpu=PERCENT concurrency=NUMBER\n"
    "                        limits of a site over all servers\n"
    "  control PATH          Apache's control socket, if it is not in a usual place\n"
    "  socket PATH           socket for 'vhostlimitctl fleet' (" FLEET_SOCKET ")\n"
    "Exit:    0 ended by SIGTERM or SIGINT, or the file is valid; 1 failed; 2 usage or\n"
    "         configuration\n";

typedef struct daemon_t {
    fleet_conf_t conf;
    fleet_local_t local;
    fleet_store_t *store;
    fleet_peers_t peers;
    fleet_report_t own;             /* the last one; its names belong to local */
    fleet_plan_t plan;              /* the last one, for the sites of own */
    uint64_t start;                 /* tells this process from an earlier one */
    int learned;                    /* exchanges without a gap */
    int is_leasing;
    int foreign;                    /* reports of another process under this server's name,
                                     * without a gap */
    long long leased_ms;            /* when the last lease was made; 0: never */
    ctl_error_t error;              /* of the last interval; status CTL_DONE: none */
    char logged[sizeof(((ctl_error_t *)0)->text)];  /* the last message */
    int repeated;
    size_t gone;                    /* servers without a report in the last exchange */
    char gone_name[FLEET_SERVER_MAX + 1];
    unsigned gone_for;
    int listener;
} daemon_t;

static volatile sig_atomic_t must_end;

/* --- messages --------------------------------------------------------------- */

static void say(const char *text)
{
    fprintf(stderr, PROGRAM ": ");
    ctl_put_plain(stderr, text);
    fputc('\n', stderr);
}

/* Logs a message when it is new, and again once a minute while it repeats. */
static void say_once(daemon_t *d, const char *text)
{
    if (strcmp(d->logged, text) != 0) {
        snprintf(d->logged, sizeof(d->logged), "%s", text);
        d->repeated = 0;
    }
    if (d->repeated++ % REPEAT == 0)
        say(text);
}

/* --- an interval ------------------------------------------------------------ */

/* Takes over what the store has of a server. */
static void take(void *data, const char *server, const char *text, size_t len)
{
    daemon_t *d = data;
    uint64_t start;

    if (strcmp(server, d->conf.store.server) != 0) {
        if (text) {
            fleet_peers_take(&d->peers, server, text, len, ctl_now_ms());
        }
        else if (!d->gone++) {
            d->gone_for = strcmp(d->gone_name, server) ? 0 : d->gone_for + 1;
            snprintf(d->gone_name, sizeof(d->gone_name), "%s", server);
        }
    }
    else if (text && !fleet_report_start(text, len, &start)) {
        d->foreign = start != d->start ? d->foreign + 1 : 0;
    }
}

static ctl_exit_e exchange(daemon_t *d)
{
    size_t len;
    char *text;
    ctl_exit_e status;

    d->own.sequence++;
    text = fleet_report_write(&d->own, &len);
    d->gone = 0;
    status = fleet_store_exchange(d->store, text, len, take, d, &d->error);
    free(text);
    if (status == CTL_DONE && d->gone && d->gone_for >= REMOVE_AFTER) {
        fleet_store_remove(d->store, d->gone_name);
        d->gone_for = 0;
    }
    fleet_peers_expire(&d->peers, ctl_now_ms());
    return status;
}

/* Makes the plan from the reports that count, in the order of the servers' names. */
static void make_plan(daemon_t *d)
{
    const fleet_report_t **reports = ctl_alloc((d->peers.n + 1) * sizeof(*reports));
    size_t n = 0, self = (size_t)-1, i;

    for (i = 0; i < d->peers.n; i++) {
        const fleet_peer_t *peer = d->peers.peers[i];

        if (self == (size_t)-1 && strcmp(peer->report.server, d->own.server) > 0) {
            self = n;
            reports[n++] = &d->own;
        }
        if (fleet_peer_counts(peer, ctl_now_ms()))
            reports[n++] = &peer->report;
    }
    if (self == (size_t)-1) {
        self = n;
        reports[n++] = &d->own;
    }
    fleet_plan_free(&d->plan);
    fleet_plan_make(reports, n, self, &d->conf.limits, &d->plan);
    free(reports);
}

/* Leases the plan. Leases that have ended since are made anew. */
static ctl_exit_e lease(daemon_t *d)
{
    ctl_exit_e status;

    if (ctl_now_ms() - d->leased_ms > FLEET_LEASE_MS - INTERVAL_MS / 2)
        fleet_local_forget(&d->local);
    status = fleet_local_lease(&d->local, &d->plan, &d->error);
    d->leased_ms = status == CTL_DONE ? ctl_now_ms() : 0;
    return status;
}

/* The first report may be that of this daemon before a restart. */
static int is_doubled(const daemon_t *d)
{
    return d->foreign > 1;
}

/* Returns CTL_DONE or fills in d->error. */
static ctl_exit_e step(daemon_t *d)
{
    int is_new;
    ctl_exit_e status = fleet_local_read(&d->local, &d->conf.limits, &is_new, &d->error);

    if (status != CTL_DONE)
        return status;
    fleet_plan_free(&d->plan);
    free(d->own.entries);
    fleet_local_report(&d->local, &d->own);
    if (is_new)
        return CTL_DONE;
    status = exchange(d);
    if (status != CTL_DONE) {
        d->learned = 0;
        return status;
    }
    if (is_doubled(d))
        return ctl_error_set(&d->error, CTL_UNAVAILABLE, "another server of the fleet %s has "
                             "the name %s: give each one a name of its own (server NAME)",
                             d->conf.store.fleet, d->conf.store.server);
    make_plan(d);
    if (d->learned < LEARNING)
        d->learned++;
    if (d->learned == LEARNING && !d->foreign)
        return lease(d);
    return CTL_DONE;
}

static void interval(daemon_t *d)
{
    int was_leasing = d->is_leasing;

    d->error.status = CTL_DONE;
    step(d);
    if (d->error.status != CTL_DONE) {
        char *text = ctl_printf("%s. %s", d->error.text, is_doubled(d) || !d->is_leasing
                                ? "The configured limits hold on this server alone"
                                : "The parts end in 3 seconds at the latest; then the configured "
                                  "limits hold on this server alone");

        say_once(d, text);
        free(text);
    }
    d->is_leasing = d->leased_ms && ctl_now_ms() - d->leased_ms < FLEET_LEASE_MS;
    if (d->is_leasing && !was_leasing) {
        char *text = ctl_printf("leasing: fleet %s, %zu other servers, store %s",
                                d->conf.store.fleet, d->peers.n,
                                fleet_store_address(d->store));

        *d->logged = '\0';
        say(text);
        free(text);
    }
}

/* --- the socket ------------------------------------------------------------- */

static json_t *site_json(const fleet_entry_t *entry, const fleet_share_t *share)
{
    return ctl_json_check(json_pack(
        "{s:s, s:i, s:f, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:I, s:I}",
        "name", entry->name, "configured", (int)entry->weight,
        "weight", round(share->weight * 1000) / 1000,
        "used_us", (json_int_t)entry->used, "wanted_us", (json_int_t)entry->wanted,
        "allocated_us", round(share->given), "fleet_allocated_us", round(share->total),
        "fleet_used_us", round(share->used), "servers", (json_int_t)share->servers,
        "cpu_us", (json_int_t)share->cpu, "concurrency", (json_int_t)share->concurrency,
        "requests", (json_int_t)entry->requests));
}

static json_t *server_json(const fleet_report_t *report, long long age_ms)
{
    json_int_t used = 0;
    size_t i;

    for (i = 0; i < report->nentries; i++)
        used += (json_int_t)report->entries[i].used;
    return ctl_json_check(json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", report->server,
                                    "age_ms", (json_int_t)age_ms,
                                    "capacity_us", (json_int_t)report->capacity,
                                    "used_us", used,
                                    "sites", (json_int_t)report->nentries));
}

/* The document that "vhostlimitctl fleet" shows (docs/guides/fleet.md). */
static json_t *document(const daemon_t *d)
{
    json_t *servers = ctl_json_check(json_array()), *sites = ctl_json_check(json_array());
    const char *state = d->is_leasing ? "leasing"
                        : d->error.status == CTL_DONE ? "learning" : "failed";
    size_t i;

    json_array_append_new(servers, server_json(&d->own, 0));
    for (i = 0; i < d->peers.n; i++) {
        if (fleet_peer_counts(d->peers.peers[i], ctl_now_ms()))
            json_array_append_new(servers, server_json(&d->peers.peers[i]->report, ctl_now_ms()
                                                       - d->peers.peers[i]->seen_ms));
    }
    for (i = 0; i < d->plan.nshares && i < d->own.nentries; i++)
        json_array_append_new(sites, site_json(&d->own.entries[i], &d->plan.shares[i]));
    return ctl_json_check(json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:o, s:o}",
        "fleet", d->conf.store.fleet, "server", d->conf.store.server,
        "state", state, "reason", d->error.status == CTL_DONE ? "" : d->error.text,
        "store", fleet_store_address(d->store),
        "fleet_sites", (json_int_t)d->plan.sites, "rows", (json_int_t)d->plan.rows,
        "contended", (json_int_t)d->plan.contended,
        "rejected", (json_int_t)d->peers.rejected, "rejected_why", d->peers.why,
        "servers", servers, "sites", sites));
}

static int open_socket(const char *path)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    mode_t mask;
    int fd, failed;

    if (strlen(path) >= sizeof(addr.sun_path))
        return -1;
    strcpy(addr.sun_path, path);
    unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    mask = umask(0177);
    failed = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 8);
    umask(mask);
    if (!failed)
        return fd;
    close(fd);
    return -1;
}

/* Answers one client, which sends a line. Waits for it for a short time only. */
static void serve(const daemon_t *d)
{
    const struct timeval limit = { 0, CLIENT_MS * 1000 };
    int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
    char line[64];
    json_t *json;
    FILE *out;

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    out = recv(fd, line, sizeof(line), 0) > 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        close(fd);
        return;
    }
    json = document(d);
    json_dumpf(json, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
    fputc('\n', out);
    fclose(out);
    json_decref(json);
}

/* --- the program ------------------------------------------------------------ */

static void end(int signal)
{
    must_end = signal;
}

/* Between the intervals it serves clients. */
static void run(daemon_t *d)
{
    struct pollfd pfd = { .fd = d->listener, .events = POLLIN };
    long long due = ctl_now_ms(), left;

    while (!must_end) {
        interval(d);
        due += INTERVAL_MS;
        if (due < ctl_now_ms())
            due = ctl_now_ms();
        while (!must_end && (left = due - ctl_now_ms()) > 0) {
            if (poll(&pfd, 1, (int)left) > 0)
                serve(d);
        }
    }
}

static ctl_exit_e begin(daemon_t *d)
{
    const struct sigaction action = { .sa_handler = end };

    d->start = (uint64_t)ctl_clock_ms(CLOCK_REALTIME);
    strcpy(d->own.server, d->conf.store.server);
    d->own.start = d->start;
    d->local.socket = d->conf.control;
    d->local.configured_capacity = d->conf.capacity;
    d->local.generation = -1;
    d->store = fleet_store_new(&d->conf.store);
    d->listener = open_socket(d->conf.socket);
    if (d->listener < 0)
        return ctl_error_set(&d->error, CTL_REFUSED, "the socket %s cannot be made: %s",
                             d->conf.socket, strerror(errno));
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return CTL_DONE;
}

enum { OPTION_VERSION = 256 };

/* Returns -1 to go on, or the exit status. */
static int read_options(int argc, char *argv[], const char **ret_file, int *ret_check)
{
    static const struct option names[] = {
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, OPTION_VERSION },
        { NULL, 0, NULL, 0 }
    };
    int option;

    while ((option = getopt_long(argc, argv, "c:th", names, NULL)) != -1) {
        switch (option) {
        case 'c':
            *ret_file = optarg;
            break;
        case 't':
            *ret_check = 1;
            break;
        case 'h':
            printf("%s", help);
            return CTL_DONE;
        case OPTION_VERSION:
            puts(PROGRAM " (" PACKAGE_NAME ") " PACKAGE_VERSION);
            return CTL_DONE;
        default:
            return CTL_USAGE;
        }
    }
    if (optind == argc)
        return -1;
    fprintf(stderr, PROGRAM ": unknown argument '%s'\n", argv[optind]);
    return CTL_USAGE;
}

int main(int argc, char *argv[])
{
    static daemon_t daemon;
    const char *file = FLEET_CONF_FILE;
    int check = 0, status = read_options(argc, argv, &file, &check);

    if (status >= 0)
        return status;
    status = fleet_conf_read(file, &daemon.conf, &daemon.error);
    if (status == CTL_DONE && check) {
        puts("Syntax OK");
        return CTL_DONE;
    }
    if (status == CTL_DONE)
        status = begin(&daemon);
    if (status != CTL_DONE) {
        say(daemon.error.text);
        return status;
    }
    run(&daemon);
    close(daemon.listener);
    unlink(daemon.conf.socket);
    fleet_store_free(daemon.store);
    fleet_peers_clear(&daemon.peers);
    fleet_plan_free(&daemon.plan);
    free(daemon.own.entries);
    fleet_local_clear(&daemon.local);
    return CTL_DONE;
}
