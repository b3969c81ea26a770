/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_conf.h"

#include "fleet_link.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 16

/* The words of a line; words[n] is NULL. */
typedef struct line_t {
    char *words[WORDS_MAX + 1];
    int n;
    fleet_conf_t *conf;
    const char **text;              /* the member of conf that the table of keywords names */
} line_t;

/* --- values ----------------------------------------------------------------- */

/* Reads a whole number from least to most with `unit` behind it. Returns 0, or -1. */
static int read_number(const char *text, const char *unit, double least, double most,
                       double *ret_number)
{
    char *end;
    double number;

    if (*text < '0' || *text > '9')
        return -1;
    number = strtod(text, &end);
    if (strcmp(end, unit) != 0 || number < least || number > most)
        return -1;
    *ret_number = number;
    return 0;
}

/* The functions of the keywords return NULL or what is wrong. A key may be repeated where the
   last one holds. */
static const char *set_text(line_t *line)
{
    if (line->n != 2)
        return "takes one value";
    *line->text = ctl_printf("%s", line->words[1]);
    return NULL;
}

static const char *set_name(line_t *line)
{
    const char *wrong = set_text(line);

    if (!wrong && !fleet_report_is_server(*line->text))
        return "takes a name of letters, digits, \".\", \"-\" and \"_\"";
    return wrong;
}

/* Takes the words of the line from `first` on as addresses. Returns 0, or -1. */
static int set_addresses(line_t *line, int first)
{
    fleet_store_options_t *store = &line->conf->store;
    int i;

    store->addresses = ctl_alloc((size_t)line->n * sizeof(char *));
    store->naddresses = 0;
    for (i = first; i < line->n; i++) {
        if (!fleet_link_is_address(line->words[i]))
            return -1;
        store->addresses[store->naddresses++] = ctl_printf("%s", line->words[i]);
    }
    return store->naddresses ? 0 : -1;
}

static const char *set_store(line_t *line)
{
    if (line->conf->store.master)
        return "cannot be used together with sentinel";
    return set_addresses(line, 1) ? "takes HOST:PORT or unix:/PATH, one or more" : NULL;
}

static const char *set_sentinel(line_t *line)
{
    fleet_store_options_t *store = &line->conf->store;

    if (store->naddresses && !store->master)
        return "cannot be used together with store";
    if (line->n < 2 || set_addresses(line, 2))
        return "takes the name of the master and HOST:PORT, one or more";
    store->master = ctl_printf("%s", line->words[1]);
    return NULL;
}

/* Reads the first line of a file that only the daemon can read. */
static const char *set_password(line_t *line)
{
    char text[1024];
    FILE *file;

    if (line->n != 2)
        return "takes the path of a file";
    file = fopen(line->words[1], "re");
    if (!file)
        return "names a file that cannot be read";
    if (!fgets(text, sizeof(text), file))
        *text = '\0';
    fclose(file);
    text[strcspn(text, "\r\n")] = '\0';
    if (!*text)
        return "names a file without a password in its first line";
    *line->text = ctl_printf("%s", text);
    return NULL;
}

static const char *set_tls(line_t *line)
{
    if (line->n != 2 || (strcmp(line->words[1], "on") && strcmp(line->words[1], "off")))
        return "takes on or off";
    line->conf->is_tls = !strcmp(line->words[1], "on");
    return NULL;
}

static const char *set_capacity(line_t *line)
{
    double percent;

    if (line->n == 2 && !strcmp(line->words[1], "auto")) {
        line->conf->capacity = 0;
        return NULL;
    }
    if (line->n != 2 || read_number(line->words[1], "%", 1, 1000000, &percent))
        return "takes auto, or a percentage from 1% up, where 100% is one processor";
    line->conf->capacity = percent * 1e4;
    return NULL;
}

static const char *set_floor(line_t *line)
{
    double percent;

    if (line->n != 2 || read_number(line->words[1], "%", 0.1, 100, &percent))
        return "takes a percentage from 0.1% to 100%";
    line->conf->limits.floor = percent / 100;
    return NULL;
}

/* Reads cpu=PERCENT% or concurrency=NUMBER. Returns 0, or -1. */
static int read_limit(const char *word, fleet_limit_t *limit)
{
    double number;

    if (!strncmp(word, "cpu=", 4) && !read_number(word + 4, "%", 1, 1000000, &number)) {
        limit->cpu = (uint64_t)(number * 1e4);
        return 0;
    }
    if (!strncmp(word, "concurrency=", 12)
        && !read_number(word + 12, "", 1, FLEET_REQUESTS_MAX, &number)) {
        limit->concurrency = (uint32_t)number;
        return 0;
    }
    return -1;
}

static const char *set_limit(line_t *line)
{
    fleet_limits_t *limits = &line->conf->limits;
    fleet_limit_t *limit;
    size_t i;
    int w;

    if (line->n < 3)
        return "takes SITE cpu=PERCENT% concurrency=NUMBER, one of them or both";
    for (i = 0; i < limits->nlimits; i++) {
        if (!strcmp(limits->limits[i].site, line->words[1]))
            return "names a site that has a limit already";
    }
    limits->limits = ctl_grow(limits->limits, limits->nlimits * sizeof(*limit),
                              (limits->nlimits + 1) * sizeof(*limit));
    limit = &limits->limits[limits->nlimits++];
    limit->site = ctl_printf("%s", line->words[1]);
    for (w = 2; w < line->n; w++) {
        if (read_limit(line->words[w], limit))
            return "takes SITE cpu=PERCENT% concurrency=NUMBER, one of them or both";
    }
    return NULL;
}

/* --- lines ------------------------------------------------------------------ */

#define MEMBER(name) offsetof(fleet_conf_t, name)

static const struct {
    const char *name;
    const char *(*set)(line_t *line);
    size_t member;
} keywords[] = {
    { "fleet", set_name, MEMBER(store.fleet) },
    { "server", set_name, MEMBER(store.server) },
    { "store", set_store, 0 },
    { "sentinel", set_sentinel, 0 },
    { "user", set_text, MEMBER(store.user) },
    { "password-file", set_password, MEMBER(store.password) },
    { "sentinel-user", set_text, MEMBER(store.sentinel_user) },
    { "sentinel-password-file", set_password, MEMBER(store.sentinel_password) },
    { "tls", set_tls, 0 },
    { "tls-ca", set_text, MEMBER(tls.ca) },
    { "tls-cert", set_text, MEMBER(tls.cert) },
    { "tls-key", set_text, MEMBER(tls.key) },
    { "tls-name", set_text, MEMBER(tls.name) },
    { "control", set_text, MEMBER(control) },
    { "socket", set_text, MEMBER(socket) },
    { "capacity", set_capacity, 0 },
    { "floor", set_floor, 0 },
    { "limit", set_limit, 0 }
};

/* Returns NULL or what is wrong with the line. */
static const char *read_line(char *text, line_t *line, fleet_conf_t *conf)
{
    char *word, *state = NULL;
    size_t i;

    text[strcspn(text, "#\r\n")] = '\0';
    memset(line, 0, sizeof(*line));
    line->conf = conf;
    for (word = strtok_r(text, " \t", &state); word; word = strtok_r(NULL, " \t", &state)) {
        if (line->n == WORDS_MAX)
            return "has too many words";
        line->words[line->n++] = word;
    }
    if (!line->n)
        return NULL;
    for (i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        line->text = (const char **)((char *)conf + keywords[i].member);
        if (!strcmp(keywords[i].name, line->words[0]))
            return keywords[i].set(line);
    }
    return "is no keyword";
}

/* Checks what only the whole file can show, and reads the files of TLS. */
static ctl_exit_e check(const char *path, fleet_conf_t *conf, ctl_error_t *error)
{
    const fleet_store_options_t *store = &conf->store;
    const fleet_tls_options_t *tls = &conf->tls;
    const char *wrong = NULL;
    char text[sizeof(error->text)];

    if (!store->naddresses)
        wrong = "no store: add a line \"store HOST:PORT\"";
    else if (store->sentinel_password && !store->master)
        wrong = "sentinel-password-file needs sentinel";
    else if (store->sentinel_user && !store->sentinel_password)
        wrong = "sentinel-user needs a sentinel-password-file";
    else if (!fleet_report_is_server(store->server))
        return ctl_error_set(error, CTL_USAGE, "%s: the host name '%s' cannot be the name of "
                             "a server: add a line \"server NAME\"", path, store->server);
    else if (store->user && !store->password)
        wrong = "user needs a password-file";
    else if (!conf->is_tls && (tls->ca || tls->cert || tls->key || tls->name))
        wrong = "tls-ca, tls-cert, tls-key and tls-name need \"tls on\"";
    else if (!tls->cert != !tls->key)
        wrong = "tls-cert and tls-key need each other";
    else if (conf->is_tls && !(conf->store.tls = fleet_tls_new(tls, error))) {
        snprintf(text, sizeof(text), "%s", error->text);
        wrong = text;
    }
    return wrong ? ctl_error_set(error, CTL_USAGE, "%s: %s", path, wrong) : CTL_DONE;
}

ctl_exit_e fleet_conf_read(const char *path, fleet_conf_t *ret_conf, ctl_error_t *error)
{
    FILE *file = fopen(path, "re");
    char name[256] = "", *text = NULL;
    const char *wrong = NULL;
    size_t size = 0;
    line_t line;
    int n = 0;

    memset(ret_conf, 0, sizeof(*ret_conf));
    if (gethostname(name, sizeof(name) - 1))
        *name = '\0';
    ret_conf->store.fleet = "main";
    ret_conf->store.server = ctl_printf("%s", name);
    ret_conf->socket = ctl_printf("%s", FLEET_SOCKET);
    ret_conf->limits.floor = 0.01;
    if (!file)
        return ctl_error_set(error, CTL_USAGE, "%s: %s", path, strerror(errno));
    while (!wrong && getline(&text, &size, file) >= 0) {
        n++;
        wrong = read_line(text, &line, ret_conf);
    }
    if (wrong)
        ctl_error_set(error, CTL_USAGE, "%s, line %d: %s %s", path, n,
                      line.words[0], wrong);
    fclose(file);
    free(text);
    return wrong ? CTL_USAGE : check(path, ret_conf, error);
}
