/* SPDX-License-Identifier: Apache-2.0 */
/* What explain says of the queue inside a site: whether one client or one class has most of
 * it. */
#include "ctl_explain.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N "%" JSON_INTEGER_FORMAT

/* With fewer waiting requests, or fewer requests whose CPU time is counted, it says nothing
 * about them. */
#define LEAST_WAITING 4
#define LEAST_COUNTED 10

/* Returns the row with the largest number, or NULL. */
static const json_t *largest(const json_t *rows, const char *key)
{
    const json_t *row, *found = NULL;
    size_t i;

    json_array_foreach(rows, i, row) {
        if (!found || ctl_number_of(row, key) > ctl_number_of(found, key))
            found = row;
    }
    return found;
}

/* The numbers of an answer have no bounds, but sums of doubles do not overflow. */
static double sum_of(const json_t *rows, const char *key)
{
    const json_t *row;
    double sum = 0;
    size_t i;

    json_array_foreach(rows, i, row)
        sum += (double)ctl_number_of(row, key);
    return sum;
}

static int has_most_waiting(const json_t *clients, const json_t *row)
{
    json_int_t all = ctl_number_of(clients, "waiting");

    return row && all >= LEAST_WAITING && (double)ctl_number_of(row, "waiting") > (double)all / 2;
}

/* Requests of the site are queued, or were in the last second, and the row has used more than
 * half of the CPU time of the requests that ended meanwhile. */
static int has_most_cpu(const json_t *clients, const json_t *row)
{
    const json_t *classes = json_object_get(clients, "classes");
    double all = sum_of(classes, "cpu_us");

    return row && json_is_true(json_object_get(clients, "contended"))
           && sum_of(classes, "requests") >= LEAST_COUNTED && all > 0
           && (double)ctl_number_of(row, "cpu_us") > all / 2;
}

/* Returns what the row has most of. */
static char *part_text(const json_t *clients, const json_t *row, int is_of_queue)
{
    double all = sum_of(json_object_get(clients, "classes"), "cpu_us");

    if (is_of_queue)
        return ctl_printf("has " N " of the " N " waiting requests", ctl_number_of(row, "waiting"),
                          ctl_number_of(clients, "waiting"));
    return ctl_printf("has used %.0f %% of the CPU time of the requests that ended while "
                      "others were queued", 100 * (double)ctl_number_of(row, "cpu_us") / all);
}

char *ctl_explain_no_worker(const json_t *modules, const char *site)
{
    const json_t *last = json_object_get(modules, "no_worker");
    const char *message = json_string_value(json_object_get(last, "message"));
    const char *name = json_string_value(json_object_get(last, "site"));
    time_t at = (time_t)ctl_number_of(last, "at_s");
    struct tm local;
    char when[32] = "";

    if (!message || !name || (site && strcmp(site, name) != 0))
        return NULL;
    if (localtime_r(&at, &local))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    return ctl_printf("Apache had no free worker (%s) at %s, when %s had " N " of " N " running "
                      "requests, more than any other site", message, when, name,
                      ctl_number_of(last, "running"), ctl_number_of(last, "all"));
}

char *ctl_explain_client(const json_t *clients)
{
    const json_t *most = json_object_get(clients, "most"), *row = NULL;
    const json_t *list = json_object_get(clients, "clients");
    const char *address;
    char *part, *text;
    int is_of_queue = has_most_waiting(clients, json_is_object(most) ? most : NULL);

    if (is_of_queue)
        row = most;
    else if (json_array_size(list) > 1 && has_most_cpu(clients, largest(list, "cpu_us")))
        row = largest(list, "cpu_us");
    if (!row)
        return NULL;
    address = ctl_text_of(row, "address");
    part = part_text(clients, row, is_of_queue);
    text = ctl_printf("One client%s%s%s %s; requests of the other clients go first, and "
                      "VhostLimitClass can give its requests a smaller share. Next: "
                      CTL_PROGRAM " clients %s.", *address ? " (" : "", address,
                      *address ? ")" : "", part, ctl_text_of(clients, "site"));
    free(part);
    return text;
}

char *ctl_explain_class(const json_t *clients)
{
    const json_t *classes = json_object_get(clients, "classes"), *row = NULL;
    char *part, *text;
    int is_of_queue;

    if (json_array_size(classes) < 2)
        return NULL;
    is_of_queue = has_most_waiting(clients, largest(classes, "waiting"));
    if (is_of_queue)
        row = largest(classes, "waiting");
    else if (has_most_cpu(clients, largest(classes, "cpu_us")))
        row = largest(classes, "cpu_us");
    if (!row)
        return NULL;
    part = part_text(clients, row, is_of_queue);
    text = ctl_printf("The class %s (weight " N ") %s; the weights in VhostLimitClass decide its "
                      "share. Next: " CTL_PROGRAM " clients %s.",
                      ctl_text_of(row, "name"), ctl_number_of(row, "weight"), part,
                      ctl_text_of(clients, "site"));
    free(part);
    return text;
}
