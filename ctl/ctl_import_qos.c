/* SPDX-License-Identifier: Apache-2.0 */
/* mod_qos (mod-qos.sourceforge.net) limits locations and clients; this module limits sites.
 * So only limits of a whole virtual host are translated.  Of all others a comment says what
 * comes near. */
#include "ctl_import.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 8

/* What is said about a directive.  The first row whose name is a prefix counts. */
static const struct {
    const char *prefix, *text;
    const char *vhost_text;         /* inside a virtual host; NULL: the same */
} notes[] = {
    { "QS_LocRequestLimit", "limits a part of a site; VhostLimitClass gives requests of a part "
      "a share of the site's queue by weight", NULL },
    { "QS_CondLocRequestLimit", "limits a part of a site; VhostLimitClass gives requests of a "
      "part a share of the site's queue by weight", NULL },
    { "QS_EventRequestLimit", "limits requests with a variable; VhostLimitClass takes an "
      "expression, such as \"reqenv('NAME') == '1'\"", NULL },
    { "QS_SrvMaxConnPerIP", "not needed for fairness: clients of a site share its queue equally "
      "(VhostLimitClients On, the default)", NULL },
    { "QS_SrvMaxConnExcludeIP", "VhostLimitExempt takes an expression, such as "
      "\"-R '192.0.2.0/24'\"", NULL },
    { "QS_SrvMaxConn", "MaxRequestWorkers of the MPM, and VhostLimitSlots auto",
      "limits connections of this virtual host; VhostLimitConcurrency limits running requests of "
      "the site, and VhostLimitQueue waiting ones" },
    { "QS_SrvMinDataRate", "mod_reqtimeout of Apache: RequestReadTimeout with MinRate", NULL },
    { "QS_SrvRequestRate", "mod_reqtimeout of Apache: RequestReadTimeout with MinRate", NULL },
    { "QS_ClientPrefer", "clients that were served before have a share of the queue with "
      "VhostLimitKnown Address", NULL },
    { "QS_Vip", "requests that never wait: VhostLimitExempt; clients that were served before: "
      "VhostLimitKnown Cookie", NULL },
    { "QS_Session", "VhostLimitKnown Cookie has a cookie of its own", NULL },
    { "QS_LocRequestPerSec", "no rates: a site has its share of the CPU, and VhostLimitCPU "
      "limits it", NULL },
    { "QS_EventPerSec", "no rates: a site has its share of the CPU, and VhostLimitCPU limits "
      "it", NULL },
    { "QS_LocKBytes", "mod_ratelimit of Apache", NULL },
    { "QS_EventKBytes", "mod_ratelimit of Apache", NULL },
    { "QS_KeepAliveTimeout", "KeepAliveTimeout of Apache", NULL },
    { "QS_MaxKeepAliveRequests", "MaxKeepAliveRequests of Apache", NULL },
    { "QS_LimitRequestBody", "LimitRequestBody of Apache", NULL },
    { "QS_ErrorPage", "ErrorDocument of Apache, for the status of VhostLimitStatusCode", NULL },
    { "QS_Client", "no limits of single clients: clients of a site share its queue equally "
      "(VhostLimitClients On)", NULL },
    { "QS_", "no equivalent: it is no limit of a site", NULL }
};

/* Directives that a site can have one value of. */
typedef enum { CONCURRENCY, STATUS_CODE, VALUES } value_e;

static const char *const value_names[VALUES] = {
    "VhostLimitConcurrency", "VhostLimitStatusCode"
};

typedef struct value_t {
    char *number, *place;           /* place: "<VirtualHost *:80>, line 3"; NULL: at server level */
    char *before, *after;           /* comments around it, or NULL */
    int rank;                       /* in one virtual host the highest counts, else the last */
} value_t;

/* What was translated: of the server, of an open <VirtualHost>, or of a site, which may have
 * several of them. */
typedef struct part_t {
    char *name;                     /* ServerName without scheme and port, or NULL */
    char *place, *lines, *conflicts;
    value_t values[VALUES];
    struct part_t *next;
} part_t;

typedef struct reader_t {
    part_t server, *vhost;          /* vhost: the open one, or NULL */
    part_t *sites, **last;
    char *unread;                   /* lines that name other files */
    int is_dry, n, n_unread, line;  /* QS_LogOnly on; numbers of directives; line of the file */
} reader_t;

static part_t *here(reader_t *reader)
{
    return reader->vhost ? reader->vhost : &reader->server;
}

/* Adds a line where the directive was.  text is freed. */
static void put(reader_t *reader, char *text)
{
    ctl_append(&here(reader)->lines, "%s\n", ctl_plain(text));
    free(text);
}

static void clear_value(value_t *value)
{
    free(value->number);
    free(value->place);
    free(value->before);
    free(value->after);
    memset(value, 0, sizeof(*value));
}

/* Sets a value where the directive was.  before and after are freed. */
static void put_value(reader_t *reader, value_e which, const char *number, int rank,
                      char *before, char *after)
{
    value_t *value = &here(reader)->values[which], new = {
        .before = before ? ctl_plain(before) : NULL, .after = after, .rank = rank
    };

    if (value->number && value->rank > rank) {
        clear_value(&new);
        return;
    }
    new.number = ctl_printf("%s", number);
    new.place = reader->vhost ? ctl_printf("%s, line %d", reader->vhost->place, reader->line)
                              : NULL;
    clear_value(value);
    *value = new;
}

static int is_number(const char *text)
{
    return *text && !text[strspn(text, "0123456789")] && strlen(text) < 7;
}

/* Translates a directive of mod_qos. */
static void translate(reader_t *reader, char *words[WORDS_MAX], int n, const char *original)
{
    int is_default = !strcasecmp(words[0], "QS_LocRequestLimitDefault");
    size_t i;

    reader->n++;
    if (n == 3 && !strcasecmp(words[0], "QS_LocRequestLimit") && !strcmp(words[1], "/")
        && is_number(words[2]))
        put_value(reader, CONCURRENCY, words[2], 1, NULL,
                  ctl_printf("# One request above it waits in the queue (VhostLimitQueue), "
                             "where mod_qos refuses it."));
    else if (n == 2 && is_default && is_number(words[1]))
        put_value(reader, CONCURRENCY, words[1], 0,
                  ctl_printf("# %s is for each location; here for the whole site:", original),
                  NULL);
    else if (n == 2 && !strcasecmp(words[0], "QS_ErrorResponseCode")
             && (!strcmp(words[1], "503") || !strcmp(words[1], "429")
                 || !strcmp(words[1], "508")))
        put_value(reader, STATUS_CODE, words[1], 0, NULL, NULL);
    else if (n == 2 && !strcasecmp(words[0], "QS_ErrorResponseCode"))
        put(reader, ctl_printf("# %s: VhostLimitStatusCode takes 503, 429 and 508", original));
    else if (n == 2 && !strcasecmp(words[0], "QS_LogOnly"))
        reader->is_dry |= !strcasecmp(words[1], "on");
    else {
        for (i = 0; strncasecmp(notes[i].prefix, words[0], strlen(notes[i].prefix)) != 0; i++)
            ;
        put(reader, ctl_printf("# %s: %s", original, reader->vhost && notes[i].vhost_text
                                                     ? notes[i].vhost_text : notes[i].text));
    }
}

/* --- sites ---------------------------------------------------------------- */

static void clear_part(part_t *part)
{
    int i;

    free(part->name);
    free(part->place);
    free(part->lines);
    free(part->conflicts);
    for (i = 0; i < VALUES; i++)
        clear_value(&part->values[i]);
}

/* Moves a value of a virtual host to its site.  If they differ, the larger limit and the first
 * status code stay. */
static void join_value(part_t *site, value_e which, value_t *value)
{
    value_t *mine = &site->values[which];
    const char *which_stays = which == CONCURRENCY ? "larger" : "first";

    if (!value->number)
        return;
    if (mine->number && strcmp(mine->number, value->number) != 0)
        ctl_append(&site->conflicts, "# Conflict: %s is %s in %s, and %s in %s. A site has one "
                   "value, here the %s one.\n", value_names[which], mine->number, mine->place,
                   value->number, value->place, which_stays);
    if (!mine->number
        || (which == CONCURRENCY
            && strtol(value->number, NULL, 10) > strtol(mine->number, NULL, 10))) {
        clear_value(mine);
        *mine = *value;
        memset(value, 0, sizeof(*value));
    }
}

/* Adds the lines to those of the site, each once. */
static void join_lines(part_t *site, char *lines)
{
    char *line;

    while (lines && *lines && (line = strsep(&lines, "\n"))) {
        char *all = ctl_printf("\n%s", site->lines ? site->lines : "");
        char *whole = ctl_printf("\n%s\n", line);

        if (!strstr(all, whole))
            ctl_append(&site->lines, "%s\n", line);
        free(all);
        free(whole);
    }
}

/* Adds the open virtual host to the site of its name.  One without a name is alone. */
static void end_vhost(reader_t *reader)
{
    part_t *vhost = reader->vhost, *site = reader->sites;
    int i;

    reader->vhost = NULL;
    if (!vhost)
        return;
    while (site && (!site->name || !vhost->name || strcasecmp(site->name, vhost->name) != 0))
        site = site->next;
    if (!site && (vhost->lines || vhost->values[CONCURRENCY].number
                  || vhost->values[STATUS_CODE].number)) {
        *reader->last = vhost;
        reader->last = &vhost->next;
        return;
    }
    for (i = 0; site && i < VALUES; i++)
        join_value(site, (value_e)i, &vhost->values[i]);
    if (site)
        join_lines(site, vhost->lines);
    clear_part(vhost);
    free(vhost);
}

/* Prints the lines, the last of which may have no line break; NULL: none. */
static void print_lines(const char *prefix, const char *lines)
{
    while (lines && *lines) {
        int len = (int)strcspn(lines, "\n");

        printf("%s%.*s\n", prefix, len, lines);
        lines += len + (lines[len] == '\n');
    }
}

static void print_part(const part_t *part, const char *prefix)
{
    int i;

    print_lines(prefix, part->conflicts);
    for (i = 0; i < VALUES; i++) {
        if (!part->values[i].number)
            continue;
        print_lines(prefix, part->values[i].before);
        printf("%s%s %s\n", prefix, value_names[i], part->values[i].number);
        print_lines(prefix, part->values[i].after);
    }
    print_lines(prefix, part->lines);
}

/* A name with other characters is a variable, or a parameter of a macro. */
static int is_host_name(const char *name)
{
    for (; *name && (isalnum((unsigned char)*name) || strchr("._-", *name)); name++)
        ;
    return !*name;
}

static void print_site(const part_t *site)
{
    int is_named = site->name && is_host_name(site->name);

    if (is_named)
        printf("\n<VhostLimitSite \"%s\">\n", site->name);
    else if (site->name)
        printf("\n# The ServerName %s is a variable. These lines belong into %s:\n"
               "#<VirtualHost ...>\n", site->name, site->place);
    else
        printf("\n# A virtual host without ServerName. These lines belong into %s:\n"
               "#<VirtualHost ...>\n", site->place);
    print_part(site, is_named ? "    " : "#    ");
    puts(is_named ? "</VhostLimitSite>" : "#</VirtualHost>");
}

/* --- lines ---------------------------------------------------------------- */

/* Returns the ServerName without scheme and port. */
static char *site_name(const char *text)
{
    const char *from = strstr(text, "://") ? strstr(text, "://") + 3 : text;

    return ctl_plain(ctl_printf("%.*s", (int)strcspn(from, ":\"<>"), from));
}

/* Cuts a line into words, with or without quotation marks, and ends each with a zero byte.  Returns
 * their number. */
static int cut_words(char *line, char *words[WORDS_MAX])
{
    static const char blanks[] = " \t";
    int n = 0;

    while (n < WORDS_MAX) {
        const char *end = blanks;

        line += strspn(line, blanks);
        if (!*line)
            break;
        if (*line == '"' || *line == '\'')
            end = *line++ == '"' ? "\"" : "'";
        words[n++] = line;
        line += strcspn(line, end);
        if (*line)
            *line++ = '\0';
    }
    return n;
}

static void read_line(reader_t *reader, char *line)
{
    char *original = ctl_printf("%s", line + strspn(line, " \t"));
    char *words[WORDS_MAX];
    int n = cut_words(line, words);

    if (!n || *words[0] == '#')
        ;                           /* nothing */
    else if (!strcasecmp(words[0], "<VirtualHost")) {
        end_vhost(reader);
        reader->vhost = ctl_alloc(sizeof(*reader->vhost));
        reader->vhost->place = ctl_plain(ctl_printf("%.*s>", (int)strcspn(original, ">"), original));
    }
    else if (!strcasecmp(words[0], "</VirtualHost>"))
        end_vhost(reader);
    else if (!strcasecmp(words[0], "Include") || !strcasecmp(words[0], "IncludeOptional")
             || !strcasecmp(words[0], "Use")) {
        ctl_append(&reader->unread, "#   line %d: %s\n", reader->line, ctl_plain(original));
        reader->n_unread++;
    }
    else if (reader->vhost && n > 1 && !strcasecmp(words[0], "ServerName")) {
        free(reader->vhost->name);
        reader->vhost->name = site_name(words[1]);
    }
    else if (!strncasecmp(words[0], "QS_", 3))
        translate(reader, words, n, original);
    free(original);
}

static void read_file(reader_t *reader, FILE *in)
{
    char *line = NULL, *whole = NULL;
    size_t size = 0;
    ssize_t len;
    int n = 0, is_continued;

    while ((len = getline(&line, &size, in)) >= 0) {
        n++;
        while (len && strchr("\r\n", line[len - 1]))
            line[--len] = '\0';
        is_continued = len && line[len - 1] == '\\';
        if (is_continued)
            line[len - 1] = '\0';
        if (!whole)
            reader->line = n;
        ctl_append(&whole, "%s", line);
        if (is_continued)
            continue;
        read_line(reader, whole);
        free(whole);
        whole = NULL;
    }
    free(line);
    free(whole);
    end_vhost(reader);
}

ctl_exit_e ctl_import_mod_qos(FILE *in, const char *path, ctl_error_t *error)
{
    reader_t reader = { .last = &reader.sites };

    read_file(&reader, in);
    if (reader.n) {
        printf("# From mod_qos, %s. Check it, and put it at server level.\n", path);
        if (reader.unread)
            printf("# Not read: these lines name other files or macros. Import the files too, or "
                   "all at once\n# (with mod_info): apachectl -t -D DUMP_CONFIG | vhostlimitctl "
                   "import mod_qos -\n%s", reader.unread);
        puts(reader.is_dry ? "# QS_LogOnly was on.\nVhostLimit DryRun" : "VhostLimit On");
        print_part(&reader.server, "");
    }
    else if (reader.n_unread)
        ctl_error_set(error, CTL_REFUSED, "%s has no directive of mod_qos. %d lines that name "
                      "other files (Include) or macros (Use) were not read", path,
                      reader.n_unread);
    else
        ctl_error_set(error, CTL_REFUSED, "%s has no directive of mod_qos", path);
    while (reader.sites) {          /* none without a directive */
        part_t *next = reader.sites->next;

        print_site(reader.sites);
        clear_part(reader.sites);
        free(reader.sites);
        reader.sites = next;
    }
    clear_part(&reader.server);
    free(reader.unread);
    return error->status;
}
