/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_local.h"

#include "fleet_answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Requests that waited for this part of the time: the site wants all that the server has. It
 * is not nearly 1, because a server that is short of CPU time also accepts connections late:
 * its queues are empty meanwhile. */
#define MOSTLY 0.5
/* A server without CPU time has no share to give. */
#define CAPACITY_LEAST 1000.0
/* Most sites in a lease command: the longest words of so many fit in a line of the module
 * (VL_COMMAND_MAX). And most accounts. */
#define LEASES 400
#define ACCOUNTS_MAX 1000000
/* A weight is leased anew when it differs by more than 1 / this. */
#define WEIGHT_STEP 500

/* --- reading ---------------------------------------------------------------- */

void fleet_local_clear(fleet_local_t *local)
{
    size_t i;

    for (i = 0; i < local->nknown; i++)
        free(local->known[i].name);
    free(local->known);
    free(local->rows);
    local->known = NULL;
    local->rows = NULL;
    local->nknown = 0;
    local->was_full = 0;
}

/* Returns the site with that account, with room for it. */
static fleet_known_t *known_at(fleet_local_t *local, size_t account)
{
    size_t size = local->nknown ? local->nknown : 64;

    while (size <= account)
        size *= 2;
    if (size != local->nknown) {
        local->known = ctl_grow(local->known, local->nknown * sizeof(*local->known),
                                size * sizeof(*local->known));
        local->rows = ctl_grow(local->rows, local->nknown * sizeof(*local->rows),
                               size * sizeof(*local->rows));
        local->nknown = size;
    }
    return &local->known[account];
}

/* A name that a report may have. */
static int is_name(const char *name)
{
    const char *at = name;

    while ((unsigned char)*at >= ' ' && *at != 127)
        at++;
    return at > name && !*at && at - name <= FLEET_NAME_MAX;
}

/* Reads a row of the answer. Returns 1 if its requests mostly waited for the server
 * itself. A site that has a limit may wait for that. */
static int read_row(fleet_local_t *local, const fleet_limits_t *limits,
                    const fleet_reading_t *row, double seconds)
{
    fleet_known_t *site;
    double waited = 0;              /* the part of the time for which its requests waited */
    size_t i;

    if (!is_name(row->name) || row->account > ACCOUNTS_MAX)
        return 0;
    site = known_at(local, (size_t)row->account);
    if (!site->name) {
        site->name = ctl_printf("%s", row->name);
        for (i = 0; i < limits->nlimits; i++)
            site->is_limited |= !strcmp(limits->limits[i].site, row->name);
        seconds = 0;
    }
    site->weight = (uint32_t)row->weight;
    site->cpu = (uint32_t)row->cpu;
    site->concurrency = (uint32_t)row->concurrency;
    site->requests = (uint32_t)fmin((double)row->requests, FLEET_REQUESTS_MAX);
    site->used = 0;
    if (seconds > 0 && row->charged_us >= site->charged_us)
        site->used = fmin((double)(row->charged_us - site->charged_us) / seconds, FLEET_CPU_MAX);
    if (seconds > 0 && row->backlog_us >= site->backlog_us)
        waited = fmin(1, (double)(row->backlog_us - site->backlog_us) / 1e6 / seconds);
    site->charged_us = row->charged_us;
    site->backlog_us = row->backlog_us;
    site->wanted = waited;          /* until the capacity is known */
    site->is_active = 1;
    return waited >= MOSTLY && !site->cpu && !site->concurrency && !site->is_limited;
}

/* When a site waits for the server itself, the server's capacity is what all sites use
 * together: it may have a quota, or other work to do. */
static void set_capacity(fleet_local_t *local, double processors, int is_full)
{
    double used = 0;
    size_t i;

    for (i = 0; i < local->nknown; i++)
        used += local->known[i].is_active ? local->known[i].used : 0;
    used = fmax(used, CAPACITY_LEAST);
    if (!is_full)
        local->capacity = local->configured_capacity > 0 ? local->configured_capacity
                          : processors * 1e6;
    else
        local->capacity = local->was_full ? (local->capacity + used) / 2 : used;
    local->was_full = is_full;
}

/* Returns 0, or -1 if the answer is not valid. */
static int read_rows(fleet_local_t *local, const fleet_limits_t *limits,
                     fleet_answer_t *answer, double seconds)
{
    fleet_reading_t row;
    size_t i;
    int is_full = 0, rv;

    for (i = 0; i < local->nknown; i++)
        local->known[i].is_active = 0;
    while ((rv = fleet_answer_next(answer, &row)) > 0)
        is_full |= read_row(local, limits, &row, seconds);
    set_capacity(local, (double)answer->processors, is_full);
    for (i = 0; i < local->nknown; i++) {
        fleet_known_t *site = &local->known[i];

        /* A site whose requests waited for a part of the time would use more by that part; one
         * whose requests mostly waited wants the server. */
        if (!site->is_active)
            site->used = site->wanted = site->requests = 0;
        else if (site->wanted >= MOSTLY)
            site->wanted = local->capacity;
        else
            site->wanted = fmin(local->capacity, site->used / (1 - fmax(0, site->wanted)));
    }
    return rv;
}

/* Takes over an answer. *ret_is_new is 0 if there was an earlier one of the same
 * configuration. Returns 0, or -1 if it is not valid. */
static int take_over(fleet_local_t *local, const fleet_limits_t *limits,
                     fleet_answer_t *answer, int *ret_is_new)
{
    *ret_is_new = (int64_t)answer->generation != local->generation
                  || answer->clock_us <= local->clock_us;
    if (*ret_is_new)
        fleet_local_clear(local);
    if (read_rows(local, limits, answer,
                  *ret_is_new ? 0 : (double)(answer->clock_us - local->clock_us) / 1e6))
        return -1;
    local->generation = (int64_t)answer->generation;
    local->clock_us = answer->clock_us;
    return 0;
}

/* Asks once. After a restart of Apache the accounts have other numbers; then the generation
 * is -1 afterwards. */
static ctl_exit_e read_once(fleet_local_t *local, const fleet_limits_t *limits,
                            int *ret_is_new, ctl_error_t *error)
{
    const char *words[] = { "fleet", local->generation < 0 ? "all" : NULL, NULL };
    ctl_answer_t text;
    fleet_answer_t answer;
    ctl_exit_e status = ctl_client_ask_text(local->socket, words, &text, error);

    if (status != CTL_DONE) {
        local->generation = -1;
        return status;
    }
    if (fleet_answer_begin(text.text, &answer))
        status = ctl_error_set(error, CTL_UNAVAILABLE, "the module in the server does not know "
                               "vhostlimit-fleet: restart Apache after an update");
    else if (local->generation >= 0 && (int64_t)answer.generation != local->generation)
        local->generation = -1;
    else if (take_over(local, limits, &answer, ret_is_new))
        status = ctl_error_set(error, CTL_UNAVAILABLE, "the answer of the module in the server "
                               "is not valid: restart Apache after an update");
    if (status != CTL_DONE)
        local->generation = -1;
    ctl_client_free(&text);
    return status;
}

/* The first question is about all sites: their counters are what the next answer is compared
 * with. */
ctl_exit_e fleet_local_read(fleet_local_t *local, const fleet_limits_t *limits,
                            int *ret_is_new, ctl_error_t *error)
{
    ctl_exit_e status;

    *ret_is_new = 1;
    status = read_once(local, limits, ret_is_new, error);
    if (status == CTL_DONE && local->generation < 0)
        status = read_once(local, limits, ret_is_new, error);
    return status;
}

/* --- the report ------------------------------------------------------------- */

static uint64_t whole(double number)
{
    return number > 0 ? (uint64_t)(number + 0.5) : 0;
}

void fleet_local_report(fleet_local_t *local, fleet_report_t *report)
{
    size_t i, n = 0;

    report->entries = ctl_alloc(local->nknown * sizeof(*report->entries));
    for (i = 0; i < local->nknown && n < FLEET_ROWS_MAX; i++) {
        const fleet_known_t *site = &local->known[i];

        if (!site->name || !(site->is_limited || site->is_active) || !site->weight)
            continue;
        local->rows[n] = i;
        report->entries[n++] = (fleet_entry_t) { site->name, site->weight, site->requests,
                                                 whole(site->used), whole(site->wanted) };
    }
    report->nentries = n;
    report->capacity = whole(fmin(local->capacity, FLEET_CPU_MAX));
}

/* --- leases ----------------------------------------------------------------- */

void fleet_local_forget(fleet_local_t *local)
{
    size_t i;

    for (i = 0; i < local->nknown; i++)
        memset(local->known[i].leased, 0, sizeof(local->known[i].leased));
}

static int is_near(const uint32_t a[3], const uint32_t b[3])
{
    uint32_t difference = a[0] > b[0] ? a[0] - b[0] : b[0] - a[0];

    return a[1] == b[1] && a[2] == b[2] && !a[0] == !b[0] && difference <= b[0] / WEIGHT_STEP;
}

/* The words of a lease command. */
typedef struct words_t {
    const char *words[LEASES + 4];
    size_t n;
} words_t;

/* Sends the command and begins the next one. */
static ctl_exit_e send_words(fleet_local_t *local, words_t *words, ctl_error_t *error)
{
    ctl_answer_t answer;
    ctl_exit_e status = ctl_client_ask(local->socket, words->words, NULL, &answer,
                                       error);

    ctl_client_free(&answer);
    while (words->n > 3) {
        free((char *)words->words[--words->n]);
        words->words[words->n] = NULL;
    }
    return status;
}

/* Adds the lease of a site if it has changed. */
static ctl_exit_e add_lease(fleet_local_t *local, size_t account, const uint32_t lease[3],
                            words_t *words, ctl_error_t *error)
{
    fleet_known_t *site = &local->known[account];
    ctl_exit_e status = CTL_DONE;

    if (is_near(lease, site->leased))
        return CTL_DONE;
    memcpy(site->leased, lease, sizeof(site->leased));
    if (words->n == LEASES + 3)
        status = send_words(local, words, error);
    words->words[words->n++] = ctl_printf("%zu=%u,%u,%u", account, lease[0], lease[1],
                                          lease[2]);
    return status;
}

ctl_exit_e fleet_local_lease(fleet_local_t *local, const fleet_plan_t *plan,
                             ctl_error_t *error)
{
    char *generation = ctl_printf("%" PRId64, local->generation);
    char *milliseconds = ctl_printf("%d", FLEET_LEASE_MS);
    words_t *words = ctl_alloc(sizeof(*words));
    ctl_exit_e status = CTL_DONE;
    size_t i, row = 0;

    words->words[0] = "lease";
    words->words[1] = generation;
    words->words[2] = milliseconds;
    words->n = 3;
    for (i = 0; i < local->nknown && status == CTL_DONE; i++) {
        uint32_t lease[3] = { 0, 0, 0 };

        if (!local->known[i].name)
            continue;
        /* What the plan gives the site, as the module takes it. A weight that is the configured
         * one needs no lease. */
        if (row < plan->nshares && local->rows[row] == i) {
            const fleet_share_t *share = &plan->shares[row++];

            if (share->weight < local->known[i].weight)
                lease[0] = (uint32_t)fmax(1, share->weight * 1000);
            lease[1] = share->cpu ? (uint32_t)fmax(1, (double)share->cpu / 1000) : 0;
            lease[2] = share->concurrency;
        }
        status = add_lease(local, i, lease, words, error);
    }
    if (status == CTL_DONE)
        status = send_words(local, words, error);
    while (words->n > 3)
        free((char *)words->words[--words->n]);
    free(words);
    free(generation);
    free(milliseconds);
    return status;
}
