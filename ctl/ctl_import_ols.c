/* SPDX-License-Identifier: Apache-2.0 */
/* Namespace templates of OpenLiteSpeed.  A line is "PATH", "PATH,OPTION" or "SOURCE
 * DESTINATION,OPTION", with commas or white space between words, "!PATH", or "$PASSWD" and
 * "$GROUP" with names.  Options are those of bubblewrap.  A sandbox of this module has a path
 * where the machine has it, so only lines with one path are translated. */
#include "ctl_import.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 8
#define SEPARATORS " \t\r\\,"

/* What an option becomes: a right of VhostLimitSandboxPath, or a comment.  The first row
 * whose name is a prefix counts. */
static const struct {
    const char *prefix, *right, *text;
} options[] = {
    { "bind", "rw", NULL },
    { "ro-bind", "ro", NULL },
    { "tmpfs", "tmp", NULL },
    { "tmp", "tmp", NULL },
    { "proc", NULL, "every sandbox has a /proc of its own" },
    { "dev-bind", NULL, "no equivalent: a sandbox has /dev/null, zero, full, random and "
      "urandom" },
    { "dev", NULL, "every sandbox has a /dev of its own" },
    { "dir", NULL, "folders above the paths of a sandbox are made without a line" },
    { "mqueue", NULL, "no equivalent" },
    { "symlink", NULL, "no equivalent: a sandbox has the links of its paths only" },
    { "copy", NULL, "no equivalent: write the file where the site has access" },
    { "remount-ro", NULL, "the root of a sandbox is read-only" },
    { "hostname", NULL, "no equivalent: a sandbox has the machine's name" },
    { "no-unshare-user", NULL, "no equivalent" },
    { "unshare", NULL, "not needed: Full has its own mounts, users, processes and IPC" },
    { "cap-", NULL, "not needed: programs in a sandbox have no capabilities" },
    { "share-net", NULL, "not needed: a sandbox has the machine's network" },
    { "die-with-parent", NULL, "not needed: programs end with the server" }
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

static size_t find_option(const char *word)
{
    size_t i;

    for (i = 0; i < OPTIONS && strncmp(options[i].prefix, word, strlen(options[i].prefix)) != 0;
         i++)
        ;
    return i;
}

/* Returns the number of words.  A word that begins with '#' ends the line. */
static int cut(char *line, char *words[WORDS_MAX])
{
    int n = ctl_import_words(line, SEPARATORS, words, WORDS_MAX), i;

    for (i = 1; i < n && *words[i] != '#'; i++)
        ;
    return i < n ? i : n;
}

static void put_comment(const char *original, const char *text)
{
    char *line = ctl_plain(ctl_printf("# %s: %s", original, text));

    puts(line);
    free(line);
}

/* Returns NULL if VhostLimitSandboxPath takes the path, else why not. */
static const char *wrong_path(const char *path)
{
    const char *c;

    if (strchr(path, '$'))
        return "differs between sites: write VhostLimitSandboxPath with the path into each "
               "virtual host; the DocumentRoot is there without a line";
    if (*path != '/' || !path[strspn(path, "/")] || strstr(path, "/.."))
        return "is no absolute path below /";
    for (c = path; *c && *c >= ' ' && *c <= '~' && !strchr("\"\\", *c); c++)
        ;
    if (*c)
        return "has a character that this command does not write into a line of the configuration";
    return NULL;
}

/* Prints the directive for one path, or why there is none.  Apache does not start with a path
 * that does not exist. */
static void put_path(const char *original, const char *right, char *path)
{
    const char *wrong = wrong_path(path), *quote = strchr(path, ' ') ? "\"" : "";
    size_t n = strlen(path);
    char *line;

    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    if (wrong)
        put_comment(original, wrong);
    else if (!strcmp(right, "tmp") && (!strcmp(path, "/tmp") || !strcmp(path, "/var/tmp")))
        put_comment(original, "Full has it without a line, in memory");
    else if (*right == 'r' && access(path, F_OK))
        put_comment(original, "does not exist on this machine");
    else {
        line = ctl_plain(ctl_printf("VhostLimitSandboxPath %s %s%s%s", right, quote, path,
                                    quote));
        puts(line);
        free(line);
    }
}

/* Translates the words of a line with an option. */
static void translate(char *words[WORDS_MAX], int n, size_t option, const char *original)
{
    if (!options[option].right)
        put_comment(original, options[option].text);
    else if (!strcmp(options[option].right, "tmp"))
        put_path(original, "tmp", words[n - 2]);
    else if (n == 3 && strcmp(words[0], words[1]) != 0)
        put_comment(original, "no equivalent: a sandbox has a path where the machine has it");
    else
        put_path(original, options[option].right, words[0]);
}

static void read_line(char *line)
{
    char *original = ctl_printf("%s", line), *words[WORDS_MAX];
    int n = cut(line, words);
    size_t option = n > 0 ? find_option(words[n - 1]) : OPTIONS;

    if (!strncmp(words[0], "$PASSWD", 7) || !strncmp(words[0], "$GROUP", 6))
        put_comment(original, "no equivalent: a sandbox has the machine's /etc");
    else if (*words[0] == '!')
        put_path(original, "hide", words[0] + 1);
    else if (n == 1 && option < OPTIONS)
        put_comment(original, options[option].text ? options[option].text : "has no path");
    else if (n == 1)
        put_path(original, "ro", words[0]);
    else if (n <= 3 && option < OPTIONS)
        translate(words, n, option, original);
    else if (n == 2)
        put_comment(original, "no equivalent: a sandbox has a path where the machine has it");
    else
        put_comment(original, "not understood");
    free(original);
}

ctl_exit_e ctl_import_ols(FILE *in, const char *path, ctl_error_t *error)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    int n = 0;

    while ((len = getline(&line, &size, in)) >= 0) {
        char *from = line;

        while (len && strchr("\r\n \t", line[len - 1]))
            line[--len] = '\0';
        from += strspn(from, SEPARATORS);
        if (!*from || *from == '#')
            continue;
        if (!n++)
            printf("# From OpenLiteSpeed, %s. Check it, and put it into the virtual hosts, or at "
                   "server level for all.\nVhostLimitSandbox Full\n", path);
        read_line(from);
    }
    free(line);
    if (!n)
        ctl_error_set(error, CTL_REFUSED, "%s has no line of a namespace template", path);
    return error->status;
}
