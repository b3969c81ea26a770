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
   last one holds. `ret_text` is the member of `conf` that the table of keywords names. */
static const char *set_text(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    (void)conf;
    if (line->n != 2)
        return "takes one value";
    *ret_text = ctl_printf("%s", line->words[1]);
    return NULL;
}

static const char *set_name(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    const char *wrong = set_text(line, conf, ret_text);

    if (!wrong && !fleet_report_is_server(*ret_text))
        return "takes a name of letters, digits, \".\", \"-\" and \"_\"";
    return wrong;
}

/* Takes the words of the line from `first` on as addresses. Returns 0, or -1. */
static int set_addresses(const line_t *line, int first, fleet_conf_t *conf)
{
    int i;

    conf->store.addresses = ctl_alloc((size_t)line->n * sizeof(char *));
    conf->store.naddresses = 0;
    for (i = first; i < line->n; i++) {
        if (!fleet_link_is_address(line->words[i]))
            return -1;
        conf->store.addresses[conf->store.naddresses++] = ctl_printf("%s", line->words[i]);
    }
    return conf->store.naddresses ? 0 : -1;
}

static const char *set_store(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    (void)ret_text;
    if (conf->store.master)
        return "cannot be used together with sentinel";
    return set_addresses(line, 1, conf) ? "takes HOST:PORT or unix:/PATH, one or more" : NULL;
}

static const char *set_sentinel(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    (void)ret_text;
    if (conf->store.naddresses && !conf->store.master)
        return "cannot be used together with store";
    if (line->n < 2 || set_addresses(line, 2, conf))
        return "takes the name of the master and HOST:PORT, one or more";
    conf->store.master = ctl_printf("%s", line->words[1]);
    return NULL;
}

/* Reads the first line of a file that only the daemon can read. */
static const char *set_password(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    char text[1024];
    FILE *file;

    (void)conf;
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
    *ret_text = ctl_printf("%s", text);
    return NULL;
}

static const char *set_tls(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    (void)ret_text;
    if (line->n != 2 || (strcmp(line->words[1], "on") && strcmp(line->words[1], "off")))
        return "takes on or off";
    conf->is_tls = !strcmp(line->words[1], "on");
    return NULL;
}

static const char *set_capacity(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    double percent;

    (void)ret_text;
    if (line->n == 2 && !strcmp(line->words[1], "auto")) {
        conf->capacity = 0;
        return NULL;
    }
    if (line->n != 2 || read_number(line->words[1], "%", 1, 1000000, &percent))
        return "takes auto, or a percentage from 1% up, where 100% is one processor";
    conf->capacity = percent * 1e4;
    return NULL;
}

static const char *set_floor(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    double percent;

    (void)ret_text;
    if (line->n != 2 || read_number(line->words[1], "%", 0.1, 100, &percent))
        return "takes a percentage from 0.1% to 100%";
    conf->limits.floor = percent / 100;
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

static const char *set_limit(const line_t *line, fleet_conf_t *conf, const char **ret_text)
{
    fleet_limits_t *limits = &conf->limits;
    fleet_limit_t *limit, *all;
    size_t i;
    int w;

    (void)ret_text;
    if (line->n < 3)
        return "takes SITE cpu=PERCENT% concurrency=NUMBER, one of them or both";
    for (i = 0; i < limits->nlimits; i++) {
        if (!strcmp(limits->limits[i].site, line->words[1]))
            return "names a site that has a limit already";
    }
    all = ctl_alloc((limits->nlimits + 1) * sizeof(*all));
    if (limits->nlimits)
        memcpy(all, limits->limits, limits->nlimits * sizeof(*all));
    free(limits->limits);
    limits->limits = all;
    limit = &all[limits->nlimits++];
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
    const char *(*set)(const line_t *line, fleet_conf_t *conf, const char **ret_text);
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
    for (word = strtok_r(text, " \t", &state); word; word = strtok_r(NULL, " \t", &state)) {
        if (line->n == WORDS_MAX)
            return "has too many words";
        line->words[line->n++] = word;
    }
    if (!line->n)
        return NULL;
    for (i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        if (!strcmp(keywords[i].name, line->words[0]))
            return keywords[i].set(line, conf,
                                   (const char **)((char *)conf + keywords[i].member));
    }
    return "is no keyword";
}

static void set_defaults(fleet_conf_t *conf)
{
    char name[256] = "";

    memset(conf, 0, sizeof(*conf));
    if (gethostname(name, sizeof(name) - 1))
        *name = '\0';
    conf->store.fleet = "main";
    conf->store.server = ctl_printf("%s", name);
    conf->socket = ctl_printf("%s", FLEET_SOCKET);
    conf->limits.floor = 0.01;
}

/* Reads the files of TLS. */
static ctl_exit_e check_tls(const char *path, fleet_conf_t *conf, ctl_error_t *error)
{
    const fleet_tls_options_t *tls = &conf->tls;
    char text[sizeof(error->text)];

    if (!conf->is_tls && (tls->ca || tls->cert || tls->key || tls->name))
        return ctl_error_set(error, CTL_USAGE, "%s: tls-ca, tls-cert, tls-key and tls-name "
                             "need \"tls on\"", path);
    if (!tls->cert != !tls->key)
        return ctl_error_set(error, CTL_USAGE, "%s: tls-cert and tls-key need each other",
                             path);
    if (!conf->is_tls)
        return CTL_DONE;
    conf->store.tls = fleet_tls_new(tls, error);
    if (conf->store.tls)
        return CTL_DONE;
    snprintf(text, sizeof(text), "%s", error->text);
    return ctl_error_set(error, CTL_USAGE, "%s: %s", path, text);
}

/* Checks what only the whole file can show. */
static ctl_exit_e check(const char *path, fleet_conf_t *conf, ctl_error_t *error)
{
    if (!conf->store.naddresses)
        return ctl_error_set(error, CTL_USAGE, "%s: no store: add a line \"store HOST:PORT\"",
                             path);
    if (conf->store.sentinel_password && !conf->store.master)
        return ctl_error_set(error, CTL_USAGE, "%s: sentinel-password-file needs sentinel",
                             path);
    if (conf->store.sentinel_user && !conf->store.sentinel_password)
        return ctl_error_set(error, CTL_USAGE, "%s: sentinel-user needs a "
                             "sentinel-password-file", path);
    if (!fleet_report_is_server(conf->store.server))
        return ctl_error_set(error, CTL_USAGE, "%s: the host name '%s' cannot be the name of "
                             "a server: add a line \"server NAME\"", path,
                             conf->store.server);
    if (conf->store.user && !conf->store.password)
        return ctl_error_set(error, CTL_USAGE, "%s: user needs a password-file", path);
    return check_tls(path, conf, error);
}

ctl_exit_e fleet_conf_read(const char *path, fleet_conf_t *ret_conf, ctl_error_t *error)
{
    FILE *file = fopen(path, "re");
    const char *wrong = NULL;
    char *text = NULL;
    size_t size = 0;
    line_t line;
    int n = 0;

    set_defaults(ret_conf);
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
