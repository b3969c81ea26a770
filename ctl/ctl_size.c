/* SPDX-License-Identifier: Apache-2.0 */
/* The command size: how many slots and workers the measured load needs. */
#include "ctl_size.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl_command.h"

#define SECONDS_DEFAULT 10
#define LEAST_MAX 20000
/* MaxRequestWorkers is a multiple of ThreadsPerChild, whose default is 25. */
#define WORKERS_STEP 25
/* More requests than a server can run at once; the formulas take a step for each. */
#define AT_ONCE_MAX 1e6

/* --- Erlang's formulas ---------------------------------------------------- */

/* One step of the recursion from k - 1 servers to k. */
static double next_erlang_b(double b, long k, double offered)
{
    return offered * b / ((double)k + offered * b);
}

double ctl_size_erlang_b(long n, double offered)
{
    double b = 1;
    long k;

    for (k = 1; k <= n; k++)
        b = next_erlang_b(b, k, offered);
    return b;
}

double ctl_size_erlang_c(long n, double offered)
{
    double b;

    if (offered >= (double)n)
        return 1;
    b = ctl_size_erlang_b(n, offered);
    return (double)n * b / ((double)n - offered * (1 - b));
}

long ctl_size_least(double offered, double part)
{
    double b = 1;
    long n;

    for (n = 1; n < LEAST_MAX; n++) {
        b = next_erlang_b(b, n, offered);
        if (b <= part)
            return n;
    }
    return 0;
}

/* --- the computation ------------------------------------------------------ */

/* Requests that take s from admission to their end, and c of that on a processor, keep one
 * processor busy if s/c of them run. */
static long wanted_at_once(json_int_t processors, double busy_ms, double cpu_ms)
{
    double least = CTL_SLOTS_OF_PROCESSOR * (double)processors;
    double needed = ceil((double)processors * (cpu_ms > 0 ? busy_ms / cpu_ms : 1));

    return (long)fmin(fmax(least, needed), AT_ONCE_MAX);
}

static void compute_needs(ctl_size_t *size, double busy_ms, double cpu_ms)
{
    double n = (double)size->requests;

    size->per_second = n / (double)size->seconds;
    size->service_ms = busy_ms / n;
    size->cpu_ms = cpu_ms / n;
    size->most_per_second = cpu_ms > 0
                            ? round((double)size->processors * 1000 * n / cpu_ms) : -1;
    size->offered = busy_ms / 1000 / (double)size->seconds;
    size->at_once = wanted_at_once(size->processors, busy_ms, cpu_ms);
    size->workers_wanted = (2 * size->at_once + WORKERS_STEP - 1) / WORKERS_STEP
                           * WORKERS_STEP;
    size->loss = ctl_size_erlang_b(size->at_once, size->offered);
    size->wait = ctl_size_erlang_c(size->at_once, size->offered);
    size->for_loss = ctl_size_least(size->offered, 0.01);
}

int ctl_size_compute(const ctl_status_t *before, const ctl_status_t *after,
                     json_int_t seconds, ctl_size_t *ret_size)
{
    static const ctl_status_t zero;
    json_int_t n, busy_us, cpu_us;

    before = before ? before : &zero;
    n = CTL_SUM(after, requests) - CTL_SUM(before, requests);
    busy_us = CTL_SUM(after, busy_us) - CTL_SUM(before, busy_us);
    cpu_us = CTL_SUM(after, charged_us) - CTL_SUM(before, charged_us);
    memset(ret_size, 0, sizeof(*ret_size));
    if (n < 0 || busy_us < 0 || cpu_us < 0)
        return -1;
    ret_size->seconds = seconds > 1 ? seconds : 1;
    ret_size->processors = after->processors;
    ret_size->slots = after->slots;
    ret_size->workers = after->workers;
    ret_size->requests = n;
    if (n)
        compute_needs(ret_size, (double)busy_us / 1000, (double)cpu_us / 1000);
    return 0;
}

/* --- output --------------------------------------------------------------- */

/* Four digits behind the point. */
static double rounded(double value)
{
    return round(10000 * value) / 10000;
}

static void add(json_t *json, const char *key, json_t *value)
{
    if (json_object_set_new(json, key, value))
        ctl_json_check(NULL);
}

static void print_json(const ctl_size_t *size)
{
    json_t *json = ctl_json_check(json_pack(
        "{s:I, s:I, s:I, s:I, s:I}", "seconds", size->seconds,
        "processors", size->processors, "slots", size->slots,
        "workers", size->workers, "requests", size->requests));

    if (size->requests) {
        add(json, "per_second", ctl_json_number(rounded(size->per_second)));
        add(json, "service_ms", ctl_json_number(rounded(size->service_ms)));
        add(json, "cpu_ms", ctl_json_number(rounded(size->cpu_ms)));
        add(json, "most_per_second", size->most_per_second < 0 ? json_null()
            : ctl_json_number(size->most_per_second));
        add(json, "offered_erlangs", ctl_json_number(rounded(size->offered)));
        add(json, "requests_at_once", json_integer(size->at_once));
        add(json, "workers_wanted", json_integer(size->workers_wanted));
        add(json, "loss", ctl_json_number(rounded(size->loss)));
        add(json, "wait", ctl_json_number(rounded(size->wait)));
        add(json, "requests_for_loss_1_percent",
            size->for_loss ? json_integer(size->for_loss) : json_null());
    }
    ctl_json_print(json);
    json_decref(json);
}

static void print_load(const ctl_size_t *size)
{
    printf("Load: %" JSON_INTEGER_FORMAT " request%s in %" JSON_INTEGER_FORMAT
           " s, %s a second. A request takes %s ms from admission to its end, with %s ms "
           "of CPU time.\n", size->requests, ctl_plural(size->requests), size->seconds,
           ctl_number(rounded(size->per_second)).text,
           ctl_number(rounded(size->service_ms)).text,
           ctl_number(rounded(size->cpu_ms)).text);
    if (size->most_per_second < 0)
        puts("CPUs: the requests used no CPU time that could be measured.");
    else
        printf("CPUs: %" JSON_INTEGER_FORMAT " CPU%s can serve %s such requests a "
               "second.\n", size->processors, ctl_plural(size->processors),
               ctl_number(size->most_per_second).text);
}

static void print_erlang(const ctl_size_t *size)
{
    char *least = size->for_loss ? ctl_printf("%ld", size->for_loss)
                                 : ctl_printf("more than %d", LEAST_MAX - 1);

    printf("Erlang: %s requests run on average. If at most %ld ran at once, %s %% of the "
           "requests would be queued; without a queue, %s %% would be refused. Without a "
           "queue, a limit of %s would refuse 1 %%.\n", ctl_number(rounded(size->offered)).text,
           size->at_once, ctl_number(rounded(100 * size->wait)).text,
           ctl_number(rounded(100 * size->loss)).text, least);
    free(least);
}

static void print_text(const ctl_size_t *size)
{
    if (!size->requests) {
        printf("Load: no request was admitted in %" JSON_INTEGER_FORMAT
               " s, so nothing can be computed.\n", size->seconds);
        return;
    }
    print_load(size);
    printf("Slots: VhostLimitSlots auto is %" JSON_INTEGER_FORMAT ", %d for each CPU (now %"
           JSON_INTEGER_FORMAT "). A request that sleeps holds none.\n",
           CTL_SLOTS_OF_PROCESSOR * size->processors, CTL_SLOTS_OF_PROCESSOR, size->slots);
    printf("Workers: MaxRequestWorkers %ld (now %" JSON_INTEGER_FORMAT "). Half of them are "
           "for running requests, of which %ld keep the CPUs busy, half for responses that are being sent, TLS handshakes and "
           "requests that wait with a thread.\n", size->workers_wanted, size->workers, size->at_once);
    print_erlang(size);
    if (size->workers < size->workers_wanted)
        puts("MaxRequestWorkers is too small for this load.");
}

/* --- the command ---------------------------------------------------------- */

/* Returns -1 if the argument is not a number of seconds. */
static json_int_t parse_seconds(const char *text)
{
    if (!text)
        return SECONDS_DEFAULT;
    if (!*text || strlen(text) > 4 || strspn(text, "0123456789") != strlen(text))
        return -1;
    return strtol(text, NULL, 10);
}

static void wait_seconds(json_int_t seconds)
{
    struct timespec left = { .tv_sec = seconds };

    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static ctl_exit_e print_size(const ctl_call_t *call, const ctl_status_t *before,
                             const ctl_status_t *after, json_int_t seconds,
                             ctl_error_t *error)
{
    ctl_size_t size;

    if (ctl_size_compute(before, after, before ? seconds : after->uptime_s, &size))
        return ctl_error_set(error, CTL_REFUSED, "the counters of the server went back "
                             "during the measurement, because it was restarted or sites "
                             "were removed. Try again");
    if (call->json)
        print_json(&size);
    else
        print_text(&size);
    return CTL_DONE;
}

ctl_exit_e ctl_size(const ctl_call_t *call, ctl_error_t *error)
{
    const char *text = call->nargs ? call->args[0] : NULL;
    json_int_t seconds = parse_seconds(text);
    ctl_state_t before, after;
    ctl_exit_e status = CTL_DONE;

    if (seconds < 0)
        return ctl_error_set(error, CTL_USAGE,
                             "size: '%s' is not a whole number of seconds up to 9999",
                             text);
    memset(&before, 0, sizeof(before));
    if (seconds)
        status = ctl_state_ask(call, NULL, &before, error);
    if (status != CTL_DONE)
        return status;
    wait_seconds(seconds);
    status = ctl_state_ask(call, NULL, &after, error);
    if (status == CTL_DONE) {
        status = print_size(call, seconds ? &before.status : NULL, &after.status, seconds,
                            error);
        ctl_state_free(&after);
    }
    ctl_state_free(&before);
    return status;
}
