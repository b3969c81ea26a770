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
} notes[] = {
    { "QS_LocRequestLimit", "limits a part of a site; VhostLimitClass gives requests of a part "
      "a share of the site's queue by weight" },
    { "QS_CondLocRequestLimit", "limits a part of a site; VhostLimitClass gives requests of a "
      "part a share of the site's queue by weight" },
    { "QS_EventRequestLimit", "limits requests with a variable; VhostLimitClass takes an "
      "expression, such as \"reqenv('NAME') == '1'\"" },
    { "QS_SrvMaxConnPerIP", "not needed for fairness: clients of a site share its queue equally "
      "(VhostLimitClients On, the default)" },
    { "QS_SrvMaxConnExcludeIP", "VhostLimitExempt takes an expression, such as "
      "\"-R '192.0.2.0/24'\"" },
    { "QS_SrvMaxConn", "MaxRequestWorkers of the MPM, and VhostLimitSlots auto" },
    { "QS_SrvMinDataRate", "mod_reqtimeout of Apache: RequestReadTimeout with MinRate" },
    { "QS_SrvRequestRate", "mod_reqtimeout of Apache: RequestReadTimeout with MinRate" },
    { "QS_ClientPrefer", "clients that were served before have a share of the queue with "
      "VhostLimitKnown Address" },
    { "QS_Vip", "requests that never wait: VhostLimitExempt; clients that were served before: "
      "VhostLimitKnown Cookie" },
    { "QS_Session", "VhostLimitKnown Cookie has a cookie of its own" },
    { "QS_LocRequestPerSec", "no rates: a site has its share of the CPU, and VhostLimitCPU "
      "limits it" },
    { "QS_EventPerSec", "no rates: a site has its share of the CPU, and VhostLimitCPU limits "
      "it" },
    { "QS_LocKBytes", "mod_ratelimit of Apache" },
    { "QS_EventKBytes", "mod_ratelimit of Apache" },
    { "QS_KeepAliveTimeout", "KeepAliveTimeout of Apache" },
    { "QS_MaxKeepAliveRequests", "MaxKeepAliveRequests of Apache" },
    { "QS_LimitRequestBody", "LimitRequestBody of Apache" },
    { "QS_ErrorPage", "ErrorDocument of Apache, for the status of VhostLimitStatusCode" },
    { "QS_Client", "no limits of single clients: clients of a site share its queue equally "
      "(VhostLimitClients On)" },
    { "QS_", "no equivalent: it is no limit of a site" }
};

typedef struct reader_t {
    char *server_name;              /* of the open <VirtualHost>; NULL: none yet */
    char *lines;                    /* what is printed for it */
    int is_vhost;                   /* 1: in a <VirtualHost> */
    int is_dry, n;                  /* QS_LogOnly on; number of mod_qos directives */
    char *head;                     /* what is printed at server level */
} reader_t;

static void append(char **text, const char *line)
{
    char *before = *text;

    *text = ctl_printf("%s%s\n", before ? before : "", line);
    free(before);
}

/* Adds a line where the directive was: in the section of the site, or at server level. */
static void put(reader_t *reader, char *line)
{
    char *indented = ctl_printf("%s%s", reader->is_vhost ? "    " : "", ctl_plain(line));

    append(reader->is_vhost ? &reader->lines : &reader->head, indented);
    free(indented);
    free(line);
}

static int is_number(const char *text)
{
    return *text && !text[strspn(text, "0123456789")] && strlen(text) < 7;
}

static void put_note(reader_t *reader, const char *directive, const char *original)
{
    size_t i;

    for (i = 0; strncasecmp(notes[i].prefix, directive, strlen(notes[i].prefix)) != 0; i++)
        ;
    put(reader, ctl_printf("# %s: %s", original, notes[i].text));
}

/* Translates a directive of mod_qos. */
static void translate(reader_t *reader, char *words[WORDS_MAX], int n, const char *original)
{
    int is_default = !strcasecmp(words[0], "QS_LocRequestLimitDefault");

    reader->n++;
    if (n == 3 && !strcasecmp(words[0], "QS_LocRequestLimit") && !strcmp(words[1], "/")
        && is_number(words[2])) {
        put(reader, ctl_printf("VhostLimitConcurrency %s", words[2]));
        put(reader, ctl_printf("# One request above it waits in the queue (VhostLimitQueue), "
                               "where mod_qos refuses it."));
    }
    else if (n == 2 && is_default && is_number(words[1])) {
        put(reader, ctl_printf("# %s is for each location; here for the whole site:", original));
        put(reader, ctl_printf("VhostLimitConcurrency %s", words[1]));
    }
    else if (n == 2 && !strcasecmp(words[0], "QS_ErrorResponseCode")
             && (!strcmp(words[1], "503") || !strcmp(words[1], "429")
                 || !strcmp(words[1], "508")))
        put(reader, ctl_printf("VhostLimitStatusCode %s", words[1]));
    else if (n == 2 && !strcasecmp(words[0], "QS_ErrorResponseCode"))
        put(reader, ctl_printf("# %s: VhostLimitStatusCode takes 503, 429 and 508", original));
    else if (n == 2 && !strcasecmp(words[0], "QS_LogOnly"))
        reader->is_dry |= !strcasecmp(words[1], "on");
    else
        put_note(reader, words[0], original);
}

/* Prints the section of a virtual host that had directives of mod_qos. */
static void end_vhost(reader_t *reader)
{
    char *section = NULL, *commented = NULL, *next = reader->lines, *line, *text;

    while (!reader->server_name && next && *(line = strsep(&next, "\n"))) {
        text = ctl_printf("#%s", line);
        append(&commented, text);
        free(text);
    }
    if (reader->lines) {
        section = reader->server_name
                  ? ctl_printf("\n<VhostLimitSite \"%s\">\n%s</VhostLimitSite>",
                               reader->server_name, reader->lines)
                  : ctl_printf("\n# A virtual host without ServerName. These lines belong into "
                               "it:\n#<VirtualHost ...>\n%s#</VirtualHost>", commented);
        append(&reader->head, section);
    }
    free(section);
    free(commented);
    free(reader->lines);
    free(reader->server_name);
    reader->lines = reader->server_name = NULL;
    reader->is_vhost = 0;
}

/* Returns the ServerName without scheme and port. */
static char *site_name(const char *text)
{
    const char *from = strstr(text, "://") ? strstr(text, "://") + 3 : text;

    return ctl_plain(ctl_printf("%.*s", (int)strcspn(from, ":\"<>"), from));
}

static void read_line(reader_t *reader, char *line)
{
    char *original = ctl_printf("%s", line + strspn(line, " \t"));
    char *words[WORDS_MAX];
    int n = ctl_import_words(line, " \t", words, WORDS_MAX);

    if (!n || *words[0] == '#')
        ;                           /* nothing */
    else if (!strcasecmp(words[0], "<VirtualHost"))
        reader->is_vhost = 1;
    else if (!strcasecmp(words[0], "</VirtualHost>"))
        end_vhost(reader);
    else if (reader->is_vhost && n > 1 && !strcasecmp(words[0], "ServerName")) {
        free(reader->server_name);
        reader->server_name = site_name(words[1]);
    }
    else if (!strncasecmp(words[0], "QS_", 3))
        translate(reader, words, n, original);
    free(original);
}

ctl_exit_e ctl_import_mod_qos(FILE *in, const char *path, ctl_error_t *error)
{
    reader_t reader = { .server_name = NULL };
    char *line = NULL, *whole = NULL, *before;
    size_t size = 0;
    ssize_t len;

    while ((len = getline(&line, &size, in)) >= 0) {
        int is_continued;

        while (len && strchr("\r\n", line[len - 1]))
            line[--len] = '\0';
        is_continued = len && line[len - 1] == '\\';
        if (is_continued)
            line[len - 1] = '\0';
        before = whole;
        whole = ctl_printf("%s%s", before ? before : "", line);
        free(before);
        if (is_continued)
            continue;
        read_line(&reader, whole);
        free(whole);
        whole = NULL;
    }
    end_vhost(&reader);
    if (reader.n)
        printf("# From mod_qos, %s. Check it, and put it at server level.\n%s%s", path,
               reader.is_dry ? "# QS_LogOnly was on.\nVhostLimit DryRun\n" : "VhostLimit On\n",
               reader.head ? reader.head : "");
    else
        ctl_error_set(error, CTL_REFUSED, "%s has no directive of mod_qos", path);
    free(line);
    free(whole);
    free(reader.head);
    return error->status;
}
