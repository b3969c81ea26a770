/* SPDX-License-Identifier: Apache-2.0 */
/* Each cause that explain finds, and its sentence. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "ctl_explain.h"

/* A server with two CPUs and ten slots; the first site is explained. */
static ctl_vhost_t vhosts[2];
static ctl_status_t status = { .slots = 10, .processors = 2, .sampler = { "runs", "", 0, 0, 0 },
                               .vhosts = vhosts, .nvhosts = 2 };

static void begin(json_int_t running, json_int_t waiting, json_int_t others)
{
    static const ctl_vhost_t site = { .mode = "on", .state = "running",
                                      .limits = { 100, 0, 1000, 0 },
                                      .configured = { -1, -1, -1, -1 } };

    vhosts[0] = vhosts[1] = site;
    vhosts[0].name = "a";
    vhosts[1].name = "b";
    vhosts[0].running = running;
    vhosts[0].waiting = waiting;
    vhosts[1].running = others;
    vhosts[0].runnable_permille = running * 1000;
    vhosts[1].runnable_permille = others * 1000;
    vhosts[1].duty_permille = 1000;
}

/* The answer to the command clients, or NULL. */
static json_t *clients;

/* Returns 1 if the causes are these, with spaces between them, and a sentence has the
 * words. */
static int says(const char *causes, const char *words)
{
    json_t *made = ctl_explain_make(&status, &vhosts[0], clients);
    const json_t *value;
    char found[100] = "";
    int has_words = 0;
    size_t i;

    json_array_foreach(json_object_get(made, "causes"), i, value) {
        strcat(found, i ? " " : "");
        strcat(found, json_string_value(value));
    }
    json_array_foreach(json_object_get(made, "sentences"), i, value) {
        printf("# %s\n", json_string_value(value));
        has_words |= strstr(json_string_value(value), words) != NULL;
    }
    json_decref(made);
    return has_words && !strcmp(found, causes);
}

static void causes(void)
{
    begin(2, 0, 0);
    vhosts[0].limits[CTL_CONCURRENCY] = 2;
    ok(says("concurrency", "2 of 2 requests are running"), "concurrency");
    vhosts[0].limits[CTL_QUEUE] = 0;
    vhosts[0].service_us = 1500;
    ok(says("concurrency", "is refused, because VhostLimitQueue is 0. Raise the limit, or "
            "make the requests faster (they take 1.5 ms). Next: vhostlimitctl set a "
            "concurrency=4."), "no queue");
    begin(0, 5, 0);
    vhosts[0].limits[CTL_QUEUE] = 5;
    vhosts[0].deferred = 1;
    ok(says("queue", "No request is running and 5 are queued now."), "only queued ones");
    ok(says("queue", "1 more connection waits for a place in the queue and is refused"),
       "a full queue");
    vhosts[0].deferred = 2;
    ok(says("queue", "2 more connections wait for a place in the queue and are refused if none "
            "becomes free in time. Next: vhostlimitctl clients a."),
       "a full queue and two connections");
    begin(1, 1, 9);
    vhosts[0].limits[CTL_CPU] = 30;
    vhosts[0].cpu_now_permille = 270;
    ok(says("cpu", "the site uses 27 % of one CPU, VhostLimitCPU is 30%"),
       "the CPU limit, and not the slots");
    ok(says("cpu", "Raise cpu to give the site more. Next: vhostlimitctl set a cpu=60%."),
       "how to raise the CPU limit");
    vhosts[0].cpu_now_permille = 269;
    ok(says("slots", "With weight 100 beside 1 other active site, the share of this site "
            "is 50 % of the CPU time."), "slots");
    ok(says("slots", "All 10 slots of the server are held."), "all slots");
    ok(says("slots", "The site holds 1.0 of 10 slots (1 running)."), "its own slots");
    ok(says("slots", "b holds 9.0 of 10 slots (9 running)."), "the others' slots");
    ok(says("slots", "counts requests that sleep too: raise it, or set it to auto."), "few slots, idle CPUs");
    status.slots = 16;
    status.slots_auto = 1;
    vhosts[1].running = 30;
    vhosts[1].asleep = 10;
    vhosts[1].duty_permille = 755;
    vhosts[1].runnable_permille = 15100;
    ok(says("slots", "b holds 15.1 of 16 slots (30 running, 10 of them asleep, duty 75.5 %)."),
       "requests that sleep");
    ok(says("slots", "other programs of this machine use them"), "automatic slots, idle CPUs");
    status.sampler.state = "none";
    ok(says("slots", "The sampler does not work, so each running request holds a slot: see "
            "vhostlimitctl doctor."), "slots without a sampler");
    status.sampler.state = "runs";
    vhosts[0].database_waits = 3;
    vhosts[0].database_now_permille = 805;
    ok(says("slots", "It waits for its database: 3 queries are running, with 80.5 % of one CPU."), "a database");
    vhosts[0].database_waits = 0;
    vhosts[1].runnable_permille = 11900;
    ok(says("most", "The last 3.1 slots are kept for sites that hold few."),
       "a fifth of automatic slots");
    vhosts[1].runnable_permille = 11700;
    ok(says("threads", "No limit keeps"), "more than a fifth is free");
    status.slots = 10;
    vhosts[1].runnable_permille = 9000;
    vhosts[1].cpu_now_permille = 1900;
    ok(says("slots", "faster pages help"), "slots that are held with CPU time");
    ok(says("slots", "The loudest other site is b: it uses 190 % of one CPU now. "
            "Next: vhostlimitctl explain b."), "the loudest neighbor");
    vhosts[0].requests = 4;
    vhosts[0].wait_us = 10000;
    ok(says("slots", "queueing has added 2.5 ms to each request of this site on average"),
       "what queueing costs");
    begin(10, 1, 0);
    ok(says("slots", "No other site has requests."), "slots of one site alone");
    ok(says("slots", "See docs/guides/sizing.md."), "no neighbor");
    begin(8, 1, 0);
    ok(says("most", "Next: vhostlimitctl show a."), "what holds the slots");
    ok(says("most", "The last 2.0 slots are kept for sites that hold few. Next"),
       "four fifths of the slots");
    vhosts[0].mode = "dryrun";
    vhosts[0].would_queue = 1;
    ok(says("dryrun", "1 request would have been queued and 0 would have been refused. Next: "
            "vhostlimitctl report."),
       "DryRun is the only cause");
}

static void no_cause(void)
{
    begin(0, 0, 0);
    ok(says("", "No request is running or queued now."), "an idle site");
    ok(says("", "a new request starts at once"), "an idle site is not limited");
    begin(1, 1, 0);
    ok(says("threads", "1 request is running and 1 is queued now."), "one request each");
    ok(says("threads", "as soon as a child process has a free thread"), "a grant on its way");
    begin(3, 0, 0);
    ok(says("", "3 requests are running and none is queued now."), "three requests");
    ok(says("", "none of its requests has ended yet"), "a slow site whose requests do not end");
    vhosts[0].service_us = 2000;
    vhosts[0].requests = 10;
    vhosts[0].charged_us = 5000;
    ok(says("", "its requests take 2 ms, with 0.5 ms of CPU time. Look at its program, its "
            "database and its clients. Next: vhostlimitctl show a."), "a slow site");
    vhosts[0].charged_us = 90000;
    ok(says("", "its requests take 2 ms, with 2 ms of CPU time"),
       "CPU time is not more than time");
    vhosts[0].cpu_now_permille = 300;
    vhosts[1].cpu_now_permille = 1300;
    ok(says("neighbor", "Requests of the site start at once, but the CPUs are busy: all sites "
            "together use 160 % of 200 %, and this one uses 30 %; its requests take 2 ms, with "
            "2 ms of CPU time."), "a neighbor on busy CPUs");
    ok(says("neighbor", "The loudest other site is b: "), "which one it is");
    vhosts[1].cpu_now_permille = 1299;
    ok(says("", "queueing is not the reason"), "CPUs that are not busy");
    begin(3, 0, 7);
    ok(says("slots", "b holds 7.0 of 10 slots (7 running)."),
       "no free slot for the next request");
}

/* Sets the answer to the command clients. */
static void answer(const char *contended, const char *most, const char *classes,
                   const char *list)
{
    char *text = ctl_printf("{\"site\":\"a\",\"contended\":%s,\"waiting\":8,\"most\":%s,"
                            "\"classes\":[%s],\"clients\":[%s]}", contended, most, classes,
                            list);

    json_decref(clients);
    clients = json_loads(text, 0, NULL);
    if (!clients)
        abort();
    free(text);
}

#define CLASS(name, waiting, cpu) \
    "{\"name\":\"" name "\",\"weight\":7,\"waiting\":" waiting ",\"requests\":10," \
    "\"cpu_us\":" cpu "}"
#define CLIENT(address, cpu) "{\"address\":\"" address "\",\"cpu_us\":" cpu "}"

static void inside(void)
{
    begin(1, 8, 0);
    vhosts[0].limits[CTL_CONCURRENCY] = 1;
    answer("true", "{\"address\":\"192.0.2.1/32\",\"waiting\":5}", CLASS("other", "8", "100"),
           CLIENT("192.0.2.2/32", "50") "," CLIENT("192.0.2.1/32", "50"));
    ok(says("concurrency client", "One client (192.0.2.1/32) has 5 of the 8 waiting requests; "
            "requests of the other clients go first, and VhostLimitClass can give its requests "
            "a smaller share. Next: vhostlimitctl clients a."), "a client has most of the queue");
    answer("true", "{\"address\":null,\"waiting\":5}", CLASS("other", "8", "0"), "");
    ok(says("concurrency client", "One client has 5 of the 8 waiting requests"),
       "a client whose address is not known");
    answer("true", "{\"address\":null,\"waiting\":4}", CLASS("other", "8", "100"),
           CLIENT("192.0.2.2/32", "50") "," CLIENT("192.0.2.1/32", "50"));
    ok(says("concurrency", ""), "half is not most");
    answer("true", "null", CLASS("other", "8", "100"),
           CLIENT("192.0.2.2/32", "71") "," CLIENT("192.0.2.1/32", "20"));
    ok(says("concurrency client", "One client (192.0.2.2/32) has used 71 % of the CPU time of "
            "the requests that ended while others were queued; "), "or most of the CPU time");
    json_object_set_new(json_array_get(json_object_get(clients, "classes"), 0), "requests",
                        json_integer(9));
    ok(says("concurrency", ""), "nine requests are too few");
    answer("true", "null", CLASS("other", "8", "100"), CLIENT("192.0.2.2/32", "100"));
    ok(says("concurrency", ""), "the only client is not told");
    answer("false", "null", CLASS("other", "0", "100"), CLIENT("192.0.2.2/32", "71"));
    ok(says("concurrency", ""), "while no request is queued it does not matter");
    answer("true", "null", CLASS("other", "2", "0") "," CLASS("bots", "6", "0"), "");
    ok(says("concurrency class", "The class bots (weight 7) has 6 of the 8 waiting requests; the "
            "weights in VhostLimitClass decide its share. Next: vhostlimitctl clients a."),
       "a class has most of the queue");
    answer("true", "null", CLASS("other", "4", "20") "," CLASS("bots", "4", "80"), "");
    ok(says("concurrency class", "The class bots (weight 7) has used 80 % of the CPU time"),
       "or most of the CPU time");
    vhosts[0].limits[CTL_CONCURRENCY] = 0;
    ok(says("threads class", "No limit keeps"), "a class by itself limits nothing");
    json_object_set_new(clients, "waiting", json_integer(3));
    json_object_set_new(clients, "most", json_pack("{s:n, s:i}", "address", "waiting", 3));
    json_object_set_new(clients, "contended", json_false());
    ok(says("threads", ""), "three waiting requests are no queue");
    json_decref(clients);
    clients = NULL;
}

/* Sets a list of a site. */
static void set_list(ctl_vhost_t *vhost, const char *key, const char *rows)
{
    char *text = ctl_printf("[%s]", rows);

    if (!vhost->json)
        vhost->json = json_object();
    if (json_object_set_new(vhost->json, key, json_loads(text, 0, NULL)))
        abort();
    free(text);
}

#define BACKEND(serving, waiting) \
    "{\"address\":\"/p\",\"cpu_us\":0,\"serving\":" serving ",\"waiting\":" waiting "}"
#define CALL(site, running, queued) \
    "{\"site\":\"" site "\",\"running\":" running ",\"queued\":" queued "}"

static void held_by_requests(void)
{
    begin(4, 0, 4);
    set_list(&vhosts[0], "backends", BACKEND("1", "3"));
    set_list(&vhosts[1], "backends", BACKEND("2", "1"));
    ok(says("backlog", "3 requests wait for /p, whose processes are all busy: b has 2 of them. More processes "
            "(pm.max_children of PHP-FPM), or a pool for each site, help. Next: vhostlimitctl explain b."),
       "another site has the processes of a pool");
    set_list(&vhosts[1], "calls", CALL("a", "2", "0"));
    ok(says("backlog", "b has 2 of them. Its requests there call this site in turn, so both may wait until a timeout."),
       "and waits for this one");
    set_list(&vhosts[0], "backends", BACKEND("5", "1"));
    ok(says("backlog", "1 request waits for /p, whose processes are all busy: the site itself has 5 of them. More"),
       "the site has them itself");
    set_list(&vhosts[0], "backends", BACKEND("0", "1"));
    set_list(&vhosts[1], "backends", "");
    ok(says("backlog", "whose processes are all busy. More"), "it is not known which site has them");
    set_list(&vhosts[0], "backends", "");
    set_list(&vhosts[0], "calls", CALL("b", "1", "2"));
    ok(says("calls", "Its requests wait for requests of b: 1 is running and 2 are queued. Next: vhostlimitctl explain b."),
       "calls that are queued");
    set_list(&vhosts[0], "calls", CALL("a", "2", "0"));
    ok(says("", "Its requests wait for requests of the site itself: 2 are running and 0 are queued. Next: vhostlimitctl show a."),
       "calls that run limit nothing");
    json_decref(vhosts[0].json);
    json_decref(vhosts[1].json);
    vhosts[0].json = vhosts[1].json = NULL;
}

static void history(void)
{
    begin(0, 0, 0);
    vhosts[0].limited_s = 7;
    ok(says("", "limited for 7 s. It is no longer limited when"), "limited and idle");
    vhosts[0].waiting = 1;
    ok(says("threads", "The site has been limited for 7 s."), "limited and queued");
    vhosts[0].queued = 4;
    vhosts[0].requests = 9;
    vhosts[0].wait_p99_us = 12345;
    ok(says("threads", "4 of 9 admitted requests had to wait; 99 % of the waits took at most "
            "12.3 ms."), "waits");
    vhosts[0].late = 1;
    ok(says("threads", "Since the start, 1 request had waited for so long that other clients had gone "
            "by then; newer requests went first."), "late requests");
    vhosts[0].refused = 3;
    vhosts[0].refused_queue = 1;
    vhosts[0].refused_timeout = 2;
    ok(says("threads", "3 requests were refused: 1 because the queue was full, 2 because of the "
            "queue's timeout."), "refusals by reason");
    vhosts[0].limits[CTL_WEIGHT] = 300;
    vhosts[0].configured[CTL_WEIGHT] = 100;
    ok(says("threads", "The limit weight is 300 and not 100 as configured"), "a changed limit");
}

int main(void)
{
    causes();
    no_cause();
    inside();
    held_by_requests();
    history();
    return tap_done();
}
