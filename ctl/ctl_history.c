/* SPDX-License-Identifier: Apache-2.0 */
/* The command history: the figures of a site in the last week, as a table, CSV or JSON.  It
 * reads the file and needs no server. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl_command.h"
#include "ctl_figures.h"
#include "ctl_store.h"

#define DEFAULT_SINCE "24h"
/* Most lines of the table. */
#define LINES_MAX 60

/* --- time ----------------------------------------------------------------- */

/* Reads a number and its unit. */
static int read_ago(const char *text, time_t *ret_ago)
{
    static const struct {
        const char *unit;
        long seconds;
    } units[] = { { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
    char *end;
    long n = strtol(text, &end, 10);
    size_t i;

    if (end == text || end - text > 6 || n <= 0 || *text == '+' || *text == ' ')
        return 0;
    for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!strcmp(end, units[i].unit)) {
            *ret_ago = n * units[i].seconds;
            return 1;
        }
    }
    return 0;
}

static int read_date(const char *text, time_t *ret_time)
{
    static const char *const formats[] = {
        "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S"
    };
    size_t i;

    for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct tm tm = { .tm_isdst = -1 };
        const char *end = strptime(text, formats[i], &tm);

        tm.tm_isdst = -1;
        if (!end || *end)
            continue;
        *ret_time = mktime(&tm);
        return *ret_time != (time_t)-1;
    }
    return 0;
}

/* Reads the argument of --since: a time before now such as 90min, 6h or 2d, or a local time
 * such as "2026-11-22" or "2026-11-22 14:30", with a "T" in place of the blank too.  Returns
 * 0 if it is neither, or not before now. */
static int read_since(const char *text, time_t now, time_t *ret_since)
{
    time_t ago;

    if (read_ago(text, &ago)) {
        *ret_since = now > ago ? now - ago : 0;
        return 1;
    }
    return read_date(text, ret_since) && *ret_since <= now;
}

/* Returns the number of minutes of a line of the table. */
static unsigned step_of(unsigned minutes)
{
    static const unsigned steps[] = { 1, 2, 5, 10, 15, 30, 60, 120, 180 };
    size_t i;

    for (i = 0; i + 1 < sizeof(steps) / sizeof(steps[0]); i++) {
        if (minutes <= steps[i] * LINES_MAX)
            break;
    }
    return steps[i];
}

/* Local time for people, and UTC for programs. */
static void format_time(char text[32], uint32_t minute, int is_utc)
{
    time_t seconds = (time_t)minute * 60;
    struct tm tm;

    if (is_utc)
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    else
        strftime(text, 32, "%Y-%m-%d %H:%M", localtime_r(&seconds, &tm));
}

/* --- the range ------------------------------------------------------------ */

/* What is printed. */
typedef struct range_t {
    ctl_store_t *store;
    ctl_place_t place;
    uint32_t first, last;           /* minutes */
} range_t;

static ctl_exit_e find_range(const ctl_call_t *call, range_t *range, ctl_error_t *error)
{
    const char *text = call->since ? call->since : DEFAULT_SINCE;
    time_t now = time(NULL), since;

    if (!read_since(text, now, &since))
        return ctl_error_set(error, CTL_USAGE, "--since: '%s' is not a time of the past, such "
                             "as 90min, 6h, 7d or '2026-11-22 14:30'", text);
    range->last = (uint32_t)(now / 60);
    range->first = (uint32_t)((since + 59) / 60);
    if (range->first + CTL_HISTORY_SLOTS <= range->last)
        range->first = range->last - CTL_HISTORY_SLOTS + 1;
    return CTL_DONE;
}

/* The name of the site that the server has for a ServerName; NULL: it does not know it, or
 * does not answer.  Fills in *error if it is a host of a site. */
static char *ask_name(const ctl_call_t *call, ctl_error_t *ret_error)
{
    const char *site;
    ctl_error_t error;
    ctl_state_t one;
    char *name = NULL;

    if (ctl_state_ask(call, call->args[0], &one, &error) != CTL_DONE)
        return NULL;
    site = ctl_text_of(one.status.vhosts[0].json, "host_of");
    if (*site)
        ctl_error_set(ret_error, CTL_REFUSED, "'%s' is a host of site %s (VhostLimitAccounts), "
                      "and the history has no figures of hosts. Prometheus can keep those of "
                      "the 200 busiest hosts (?prometheus). Next: " CTL_PROGRAM " show %s",
                      call->args[0], site, call->args[0]);
    else
        name = ctl_name_from_text(one.status.vhosts[0].name);
    ctl_state_free(&one);
    return name;
}

static ctl_exit_e find_site(const ctl_call_t *call, range_t *range, ctl_error_t *error)
{
    char *name;

    range->place = CTL_PLACE_SERVER;
    if (!call->nargs)
        return CTL_DONE;
    range->place = *call->args[0] ? ctl_store_find(range->store, call->args[0])
                                  : CTL_PLACE_NONE;
    if (range->place != CTL_PLACE_NONE)
        return CTL_DONE;
    name = ask_name(call, error);
    if (error->status != CTL_DONE)
        return error->status;
    if (name)
        range->place = ctl_store_find(range->store, name);
    free(name);
    if (range->place != CTL_PLACE_NONE)
        return CTL_DONE;
    return ctl_error_set(error, CTL_REFUSED, "the history has no site '%s'. A new site is in "
                         "it after a minute", call->args[0]);
}

/* --- CSV and JSON --------------------------------------------------------- */

static void print_csv(const range_t *range)
{
    ctl_minute_t minute;
    char time[32];
    uint32_t m;
    int i;

    printf("time,seconds");
#define X(member, help) printf("," #member);
    CTL_HISTORY_FIGURES(X)
#undef X
    putchar('\n');
    for (m = range->first; m <= range->last; m++) {
        if (!ctl_store_get(range->store, range->place, m, &minute))
            continue;
        format_time(time, m, 1);
        printf("%s,%u", time, minute.seconds);
        for (i = 0; i < CTL_HISTORY_FIGURE_COUNT; i++)
            printf(",%" PRIu64, minute.figures[i]);
        putchar('\n');
    }
}

static void print_json(const range_t *range)
{
    char *name = ctl_name_to_text(ctl_store_name(range->store, range->place)), time[32];
    json_t *minutes = ctl_json_check(json_array()), *all, *json;
    ctl_minute_t minute;
    uint32_t m;

    for (m = range->first; m <= range->last; m++) {
        if (!ctl_store_get(range->store, range->place, m, &minute))
            continue;
        format_time(time, m, 1);
        json = ctl_json_check(json_pack("{s:s, s:I}", "time", time,
                                        "seconds", (json_int_t)minute.seconds));
#define X(member, help)                                                                  \
        json_object_set_new(json, #member, ctl_json_check(                               \
            json_integer((json_int_t)minute.figures[CTL_HISTORY_##member])));
        CTL_HISTORY_FIGURES(X)
#undef X
        json_array_append_new(minutes, json);
    }
    all = ctl_json_check(json_pack("{s:s?, s:o}", "site",
                                   range->place == CTL_PLACE_SERVER ? NULL : name,
                                   "minutes", minutes));
    ctl_json_print(all);
    json_decref(all);
    free(name);
}

/* --- the table ------------------------------------------------------------ */

/* Sums up `step` minutes from the first one.  Returns the number of them with figures. */
static unsigned sum_up(const range_t *range, uint32_t first, unsigned step,
                       ctl_minute_t *ret_sum)
{
    ctl_minute_t minute;
    unsigned m, n = 0;
    int i;

    memset(ret_sum, 0, sizeof(*ret_sum));
    for (m = 0; m < step; m++) {
        if (!ctl_store_get(range->store, range->place, first + m, &minute))
            continue;
        n++;
        ret_sum->seconds += minute.seconds;
        for (i = 0; i < CTL_HISTORY_FIGURE_COUNT; i++) {
            uint64_t *to = &ret_sum->figures[i];

            if (i != CTL_HISTORY_waiting && i != CTL_HISTORY_wait_p99_us)
                *to += minute.figures[i];
            else if (*to < minute.figures[i])
                *to = minute.figures[i];
        }
    }
    return n;
}

static void print_table(const range_t *range)
{
    unsigned step = step_of(range->last - range->first + 1);
    uint32_t m = range->first - range->first % step;
    ctl_minute_t sum;
    const uint64_t *figures = sum.figures;
    char time[32], gap[32] = "";
    unsigned lines = 0;

    printf("%-16s %10s %8s %8s %8s %10s %10s %10s %8s\n", "TIME", "REQ/s", "CPU%", "DB%", "WAITING",
           "P99ms", "QUEUED", "REFUSED", "GONE");
    for (; m <= range->last; m += step) {
        format_time(time, m, 0);
        if (!sum_up(range, m, step, &sum)) {
            if (lines && !*gap)
                memcpy(gap, time, sizeof(gap));
            continue;
        }
        if (*gap)
            printf("%s  no figures\n", gap);
        *gap = '\0';
        printf("%s %10.1f %8.1f %8.1f %8" PRIu64 " %10s %10" PRIu64 " %10" PRIu64 " %8" PRIu64 "\n",
               time, (double)figures[CTL_HISTORY_requests] / sum.seconds,
               (double)figures[CTL_HISTORY_cpu_us] / sum.seconds / 1e4,
               (double)figures[CTL_HISTORY_database_us] / sum.seconds / 1e4,
               figures[CTL_HISTORY_waiting],
               ctl_ms((double)figures[CTL_HISTORY_wait_p99_us]).text,
               figures[CTL_HISTORY_queued], figures[CTL_HISTORY_refused],
               figures[CTL_HISTORY_gone]);
        lines++;
    }
    if (!lines)
        puts("No figures of that time.");
    if (lines && step > 1)
        printf("Each line has %u minutes: WAITING and P99ms are their highest.\n", step);
}

/* --- the command ---------------------------------------------------------- */

ctl_exit_e ctl_history(const ctl_call_t *call, ctl_error_t *error)
{
    range_t range = { .store = NULL };

    if (find_range(call, &range, error) != CTL_DONE)
        return error->status;
    range.store = ctl_store_open_to_read(call->file ? call->file : CTL_HISTORY_PATH, error);
    if (!range.store)
        return error->status;
    if (find_site(call, &range, error) == CTL_DONE) {
        if (call->csv)
            print_csv(&range);
        else if (call->json)
            print_json(&range);
        else
            print_table(&range);
    }
    ctl_store_close(range.store);
    return error->status;
}
