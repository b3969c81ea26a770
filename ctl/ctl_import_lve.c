/* SPDX-License-Identifier: Apache-2.0 */
/* CloudLinux keeps its limits in /etc/container/ve.cfg (docs.cloudlinux.com, "Limits"): defaults,
 * packages, and LVEs, each of one user.  A package becomes a plan, and an LVE the section of the
 * user's group.  Limits that a package does not have are those of the defaults. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ctl_import.h"

#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <expat.h>

/* Memory is counted in pages of this size. */
#define PAGE_BYTES 4096

/* The most that directives with a number of bytes take: 1024 TB. */
#define KB_MAX (1LL << 40)

/* expat 2.9 deprecates the function without 64. */
#if HAVE_DECL_XML_GETCURRENTLINENUMBER64
#define line_of(parser) ((unsigned long)XML_GetCurrentLineNumber64(parser))
#else
#define line_of(parser) ((unsigned long)XML_GetCurrentLineNumber(parser))
#endif

#define LIMITS(X) X(cpu) X(ncpu) X(io) X(iops) X(pmem) X(mem) X(nproc) X(entries)

typedef enum {
#define X(limit) LIMIT_##limit,
    LIMITS(X)
#undef X
    LIMIT_COUNT
} limit_e;

typedef struct limits_t {
    char of[LIMIT_COUNT][32];       /* "": not set */
} limits_t;

typedef struct reader_t {
    limits_t defaults, now;
    int is_inside;                  /* 1: in a package, an LVE or the defaults */
    int is_lve_config;              /* 1: the root element was there */
    char *name;                     /* of the package or LVE that is open */
    char *plans;                    /* names of plans so far, each between newlines, or NULL */
    long processors;                /* of this machine */
} reader_t;

/* --- output --------------------------------------------------------------- */

/* Returns the limit as a number; 0: not set, or no limit. */
static long long number(const limits_t *limits, limit_e limit)
{
    return strtoll(limits->of[limit], NULL, 10);
}

/* Prints a limit, or a comment if the directive does not take it.  0 is no limit. */
static void print_number(const char *directive, long long value, const char *unit,
                         long long least, long long most)
{
    if (!value)
        return;
    if (value >= least && value <= most)
        printf("    %s %lld%s\n", directive, value, unit);
    else
        printf("    # %lld%s: no limit, because %s takes %lld%s to %lld%s\n", value, unit,
               directive, least, unit, most, unit);
}

/* Prints the CPU limit.  "150%" is a part of one processor.  "25" is a part of all, and
 * ncpu a number of processors; the smaller one counts. */
static void print_cpu(const limits_t *limits, long processors)
{
    const char *text = limits->of[LIMIT_cpu];
    long long cpu = number(limits, LIMIT_cpu), ncpu = number(limits, LIMIT_ncpu);
    size_t digits = strspn(text, "0123456789");

    if (!cpu)
        return;
    if (!strcmp(text + digits, "%")) {
        print_number("VhostLimitCPU", cpu, "%", 1, 100000);
        return;
    }
    if (text[digits]) {
        printf("    # cpu %s: no equivalent, VhostLimitCPU is a percentage of one processor\n",
               text);
        return;
    }
    cpu *= processors;
    if (ncpu && ncpu * 100 < cpu)
        cpu = ncpu * 100;
    printf("    # cpu %s is a percentage of all processors; this machine has %ld\n",
           text, processors);
    print_number("VhostLimitCPU", cpu, "%", 1, 100000);
}

static void print_limits(const limits_t *limits, long processors)
{
    print_cpu(limits, processors);
    print_number("VhostLimitConcurrency", number(limits, LIMIT_entries), "", 1, 1000000);
    print_number("VhostLimitMemory", number(limits, LIMIT_pmem) * (PAGE_BYTES / 1024), "K", 1024,
                 KB_MAX);
    print_number("VhostLimitProcesses", number(limits, LIMIT_nproc), "", 1, 4194304);
    print_number("VhostLimitIO", number(limits, LIMIT_io), "K", 1, KB_MAX);
    if (number(limits, LIMIT_iops))
        printf("    # iops %lld: no equivalent\n", number(limits, LIMIT_iops));
    if (number(limits, LIMIT_mem))
        printf("    # virtual memory of %lldK: no equivalent; VhostLimitMemory limits what is "
               "in use\n", number(limits, LIMIT_mem) * (PAGE_BYTES / 1024));
}

/* Returns a name that directives accept: other characters than letters, digits and . _ -
 * become '_'. */
static char *make_name(const char *text)
{
    char *name = ctl_printf("%.64s", *text ? text : "_"), *c;

    for (c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '_';
    }
    return name;
}

/* Returns a name for the plan that no plan has yet, in any case of letters. */
static char *plan_name(reader_t *reader, const char *text)
{
    char *before = reader->plans, *first = make_name(text), *name = ctl_printf("%s", first);
    char *line = ctl_printf("\n%s\n", name);
    int n;

    for (n = 2; before && strcasestr(before, line); n++) {
        free(name);
        free(line);
        name = ctl_printf("%.58s-%d", first, n);
        line = ctl_printf("\n%s\n", name);
    }
    ctl_append(&reader->plans, "%s", before ? line + 1 : line);
    free(first);
    free(line);
    return name;
}

static void print_package(reader_t *reader)
{
    limits_t all = reader->now;
    char *name = plan_name(reader, reader->name);
    int limit;

    for (limit = 0; limit < LIMIT_COUNT; limit++) {
        if (!*all.of[limit])
            memcpy(all.of[limit], reader->defaults.of[limit], sizeof(all.of[limit]));
    }
    printf("\n# Package ");
    ctl_put_plain(stdout, reader->name);
    printf("\n<VhostLimitPlan %s>\n", name);
    print_limits(&all, reader->processors);
    printf("</VhostLimitPlan>\n");
    free(name);
}

static void print_lve(const reader_t *reader)
{
    char *end;
    unsigned long id = strtoul(reader->name, &end, 10);
    const struct passwd *user = *reader->name && !*end ? getpwuid((uid_t)id) : NULL;
    char *name = user ? make_name(user->pw_name) : ctl_printf("uid-%lu", id);

    printf("\n# LVE %lu%s. Needs \"VhostLimitGroup %s\" in a virtual host of each site of the "
           "user.\n<VhostLimitSite \"@%s\">\n", id,
           user ? "" : ", a user that this machine does not have", name, name);
    print_limits(&reader->now, reader->processors);
    printf("</VhostLimitSite>\n");
    free(name);
}

/* --- XML ------------------------------------------------------------------ */

static const char *attribute(const XML_Char **attributes, const char *name)
{
    for (; *attributes; attributes += 2) {
        if (!strcmp(attributes[0], name))
            return attributes[1];
    }
    return NULL;
}

static void read_limit(reader_t *reader, const char *element, const XML_Char **attributes)
{
    static const struct {
        const char *element, *attribute;
    } names[LIMIT_COUNT] = {
        [LIMIT_cpu] = { "cpu", "limit" },
        [LIMIT_ncpu] = { "ncpu", "limit" },
        [LIMIT_io] = { "io", "limit" },
        [LIMIT_iops] = { "iops", "limit" },
        [LIMIT_pmem] = { "pmem", "limit" },
        [LIMIT_mem] = { "mem", "limit" },
        [LIMIT_nproc] = { "nproc", "limit" },
        [LIMIT_entries] = { "other", "maxentryprocs" }
    };
    int limit;

    for (limit = 0; limit < LIMIT_COUNT; limit++) {
        const char *value = attribute(attributes, names[limit].attribute);

        if (strcmp(names[limit].element, element) != 0 || !value)
            continue;
        if (isdigit((unsigned char)*value) && strlen(value) < sizeof(reader->now.of[limit])
            && !value[strspn(value, "0123456789abcdefghijklmnopqrstuvwxyzGHMz%")])
            strcpy(reader->now.of[limit], value);
        return;
    }
}

static void XMLCALL begin_element(void *data, const XML_Char *element,
                                  const XML_Char **attributes)
{
    reader_t *reader = data;
    const char *id = attribute(attributes, "id");

    if (!strcmp(element, "lveconfig")) {
        reader->is_lve_config = 1;
        return;
    }
    if (reader->is_inside) {
        read_limit(reader, element, attributes);
        return;
    }
    if (strcmp(element, "defaults") != 0 && strcmp(element, "package") != 0
        && strcmp(element, "lve") != 0)
        return;
    reader->is_inside = 1;
    memset(&reader->now, 0, sizeof(reader->now));
    free(reader->name);
    reader->name = ctl_printf("%s", id ? id : "");
}

static void XMLCALL end_element(void *data, const XML_Char *element)
{
    reader_t *reader = data;

    if (!strcmp(element, "defaults")) {
        reader->defaults = reader->now;
        free(plan_name(reader, "lve-default"));
        printf("\n# The defaults. A site with another plan does not have them.\n"
               "<VhostLimitPlan lve-default>\n");
        print_limits(&reader->defaults, reader->processors);
        printf("</VhostLimitPlan>\nVhostLimitPlan lve-default\n");
    }
    else if (!strcmp(element, "package"))
        print_package(reader);
    else if (!strcmp(element, "lve"))
        print_lve(reader);
    else
        return;
    reader->is_inside = 0;
}

ctl_exit_e ctl_import_lve(FILE *in, const char *path, ctl_error_t *error)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    reader_t reader = { .processors = processors > 0 ? processors : 1 };
    XML_Parser parser = XML_ParserCreate(NULL);
    enum XML_Status parsed = XML_STATUS_OK;
    char part[4096];
    size_t n;

    if (!parser)
        return ctl_error_set(error, CTL_REFUSED, "not enough memory");
    XML_SetUserData(parser, &reader);
    XML_SetElementHandler(parser, begin_element, end_element);
    printf("# From CloudLinux, %s. Check it, and put it at server level.\n"
           "VhostLimit On\nVhostLimitStatusCode 508\n", path);
    do {
        n = fread(part, 1, sizeof(part), in);
        parsed = XML_Parse(parser, part, (int)n, n == 0);
    } while (n && parsed == XML_STATUS_OK);
    if (parsed != XML_STATUS_OK)
        ctl_error_set(error, CTL_REFUSED, "%s:%lu: %s", path,
                      line_of(parser), XML_ErrorString(XML_GetErrorCode(parser)));
    else if (!reader.is_lve_config)
        ctl_error_set(error, CTL_REFUSED, "%s: no <lveconfig>: this is no ve.cfg of CloudLinux",
                      path);
    XML_ParserFree(parser);
    free(reader.name);
    free(reader.plans);
    return error->status;
}
