/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_figures.h"

#include <stdlib.h>
#include <string.h>

#include "ctl_client.h"

/* The version of the answer that is read. */
#define SCHEMA 1
/* Bound of numbers, so that sums of a few of them do not overflow. */
#define NUMBER_MAX ((json_int_t)1 << 58)

/* --- names ---------------------------------------------------------------- */

char *ctl_name_to_text(const char *name)
{
    char *text = ctl_alloc(2 * strlen(name) + 1), *to = text;

    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;

        if (c < 0x80) {
            *to++ = (char)c;
            continue;
        }
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return text;
}

char *ctl_name_from_text(const char *text)
{
    char *name = ctl_alloc(strlen(text) + 1), *to = name;

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c & 0xfc) == 0xc0 && ((unsigned char)text[1] & 0xc0) == 0x80)
            *to++ = (char)(c << 6 | ((unsigned char)*++text & 0x3f));
        else
            *to++ = (char)c;
    }
    return name;
}

/* --- the answer ----------------------------------------------------------- */

static int is_number(const json_t *json)
{
    return json_is_integer(json) && json_integer_value(json) >= 0
           && json_integer_value(json) <= NUMBER_MAX;
}

/* Places of the numbers of a site in its array; 0: missing. */
typedef struct columns_t {
#define X(member) size_t member;
    CTL_SITE_NUMBERS(X)
#undef X
    size_t waits;
} columns_t;

/* Returns NULL, or the name of a column that is missing. */
static const char *find_columns(const json_t *names, columns_t *columns)
{
    const json_t *name;
    size_t i;

    memset(columns, 0, sizeof(*columns));
    json_array_foreach(names, i, name) {
        const char *text = json_is_string(name) ? json_string_value(name) : "";

#define X(member) if (!strcmp(text, #member)) columns->member = i;
        CTL_SITE_NUMBERS(X)
#undef X
        if (!strcmp(text, "waits"))
            columns->waits = i;
    }
#define X(member) if (!columns->member) return #member;
    CTL_SITE_NUMBERS(X)
#undef X
    return columns->waits ? NULL : "waits";
}

/* Reads pairs of bucket and number.  Returns 0 if they are not valid. */
static int read_waits(const json_t *pairs, size_t nlimits, json_int_t *waits)
{
    size_t i;

    if (!json_is_array(pairs) || json_array_size(pairs) % 2)
        return 0;
    for (i = 0; i < json_array_size(pairs); i += 2) {
        const json_t *bucket = json_array_get(pairs, i), *n = json_array_get(pairs, i + 1);

        if (!is_number(bucket) || !is_number(n)
            || (size_t)json_integer_value(bucket) >= nlimits)
            return 0;
        waits[json_integer_value(bucket)] = json_integer_value(n);
    }
    return 1;
}

/* Returns 0 if the site is not valid. */
static int read_site(const json_t *json, const columns_t *columns, size_t nlimits,
                     ctl_site_t *site)
{
    const char *text = json_string_value(json_array_get(json, 0));
    char *name;
    size_t len;

    if (!text)
        return 0;
    name = ctl_name_from_text(text);
    len = strlen(name);
    if (len < sizeof(site->name))
        memcpy(site->name, name, len + 1);
    free(name);
    if (!len || len >= sizeof(site->name))
        return 0;
#define X(member)                                                       \
    if (!is_number(json_array_get(json, columns->member)))              \
        return 0;                                                       \
    site->member = json_integer_value(json_array_get(json, columns->member));
    CTL_SITE_NUMBERS(X)
#undef X
    return read_waits(json_array_get(json, columns->waits), nlimits, site->waits);
}

static const char *read_sites(const json_t *json, ctl_figures_t *figures)
{
    const json_t *sites = json_object_get(json, "sites");
    columns_t columns;
    const char *missing = find_columns(json_object_get(json, "columns"), &columns);
    size_t i;

    if (missing || !json_is_array(sites))
        return missing ? missing : "sites";
    figures->nsites = json_array_size(sites);
    figures->sites = ctl_alloc(figures->nsites * sizeof(*figures->sites));
    for (i = 0; i < figures->nsites; i++) {
        if (!read_site(json_array_get(sites, i), &columns, figures->nlimits,
                       &figures->sites[i]))
            return "sites";
    }
    return NULL;
}

static const char *read_limits(const json_t *json, ctl_figures_t *figures)
{
    const json_t *limits = json_object_get(json, "wait_limits_us");
    size_t i;

    figures->nlimits = json_array_size(limits);
    if (!figures->nlimits || figures->nlimits > CTL_WAITS_MAX)
        return "wait_limits_us";
    for (i = 0; i < figures->nlimits; i++) {
        if (!is_number(json_array_get(limits, i)))
            return "wait_limits_us";
        figures->wait_limits_us[i] = json_integer_value(json_array_get(limits, i));
    }
    return NULL;
}

/* Returns NULL, or the name of a member that is missing or not valid. */
static const char *read_all(const json_t *json, ctl_figures_t *figures)
{
    const char *missing;

#define X(member)                                                       \
    if (!is_number(json_object_get(json, #member)))                     \
        return #member;                                                 \
    figures->member = json_integer_value(json_object_get(json, #member));
    CTL_FIGURES_NUMBERS(X)
#undef X
    if (figures->schema != SCHEMA)
        return "schema";
    missing = read_limits(json, figures);
    return missing ? missing : read_sites(json, figures);
}

ctl_exit_e ctl_figures_read(const json_t *json, ctl_figures_t *ret_figures,
                            ctl_error_t *error)
{
    const char *missing;

    memset(ret_figures, 0, sizeof(*ret_figures));
    missing = read_all(json, ret_figures);
    if (!missing)
        return CTL_DONE;
    ctl_figures_free(ret_figures);
    return ctl_error_set_missing(error, "member", missing);
}

ctl_exit_e ctl_figures_ask(const char *socket, ctl_figures_t *ret_figures,
                           ctl_error_t *error)
{
    const char *words[] = { "figures", NULL };
    ctl_answer_t answer;
    ctl_exit_e status = ctl_client_ask(socket, words, NULL, &answer, error);

    memset(ret_figures, 0, sizeof(*ret_figures));
    if (status == CTL_DONE)
        status = ctl_figures_read(answer.json, ret_figures, error);
    ctl_client_free(&answer);
    return status;
}

void ctl_figures_free(ctl_figures_t *figures)
{
    free(figures->sites);
    figures->sites = NULL;
    figures->nsites = 0;
}

const ctl_site_t *ctl_figures_find(const ctl_figures_t *figures, const char *name,
                                   size_t *from)
{
    size_t i, at;

    for (i = 0; i < figures->nsites; i++) {
        at = (*from + i) % figures->nsites;
        if (!strcmp(figures->sites[at].name, name)) {
            *from = at + 1;
            return &figures->sites[at];
        }
    }
    return NULL;
}

/* --- differences ---------------------------------------------------------- */

static uint64_t counted(json_int_t now, json_int_t before)
{
    return (uint64_t)(now >= before ? now - before : now);
}

void ctl_count_add(ctl_count_t *count, const ctl_site_t *now, const ctl_site_t *before)
{
    static const ctl_site_t none;
    int i;

    if (!before || now->requests < before->requests || now->charged_us < before->charged_us)
        before = &none;
#define ADD(figure, member) \
    count->figures[CTL_HISTORY_##figure] += counted(now->member, before->member)
    ADD(requests, requests);
    ADD(queued, queued);
    ADD(refused, refused);
    ADD(gone, gone);
    ADD(cpu_us, charged_us);
    ADD(busy_us, busy_us);
    ADD(database_us, database_us);
#undef ADD
    count->figures[CTL_HISTORY_waiting] += (uint64_t)(now->waiting + now->deferred);
    count->wait_us += counted(now->wait_us, before->wait_us);
    for (i = 0; i < CTL_WAITS_MAX; i++)
        count->waits[i] += counted(now->waits[i], before->waits[i]);
}

/* Returns the longest wait of the bucket in which the 99th percentile is. */
static uint64_t percentile(const ctl_count_t *count, const ctl_figures_t *figures)
{
    uint64_t sum = 0, seen = 0;
    size_t b;

    for (b = 0; b < figures->nlimits; b++)
        sum += count->waits[b];
    for (b = 0; b < figures->nlimits && sum; b++) {
        seen += count->waits[b];
        if (seen >= sum - sum / 100)
            return (uint64_t)figures->wait_limits_us[b];
    }
    return 0;
}

void ctl_count_end(ctl_count_t *count, const ctl_figures_t *figures, uint32_t seconds)
{
    uint64_t mean = (count->wait_us + seconds * UINT64_C(500000))
                    / (seconds * UINT64_C(1000000));

    if (count->figures[CTL_HISTORY_waiting] < mean)
        count->figures[CTL_HISTORY_waiting] = mean;
    count->figures[CTL_HISTORY_wait_p99_us] = percentile(count, figures);
}
