/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the versions of PHP-FPM that are installed. */
#include "ctl_unit.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl_facts.h"

/* Of Debian and Red Hat, of a build from source, and of the packages of Remi, cPanel, Plesk
 * and CloudLinux. */
static const char *const places[] = {
    "/usr/sbin/php-fpm*", "/usr/local/sbin/php-fpm*",
    "/opt/remi/php*/root/usr/sbin/php-fpm", "/opt/cpanel/ea-php*/root/usr/sbin/php-fpm",
    "/opt/plesk/php/*/sbin/php-fpm", "/opt/alt/php*/usr/sbin/php-fpm"
};

#define FOUND_MAX 64

typedef struct php_t {
    char *path;                 /* without symbolic links */
    char *version;              /* 8.2 */
} php_t;

typedef struct found_t {
    php_t php[FOUND_MAX];
    size_t n;
} found_t;

/* Returns the version that "php-fpm -v" prints; NULL: it is no PHP-FPM.  The caller frees it. */
static char *version_of(const char *path)
{
    const char *const argv[] = { path, "-v", NULL };
    char *text = ctl_facts_output(argv), *version = NULL;
    size_t major, minor;

    if (text && !strncmp(text, "PHP ", 4)) {
        major = strspn(text + 4, "0123456789");
        minor = text[4 + major] == '.' ? strspn(text + 5 + major, "0123456789") : 0;
        if (major && minor)
            version = ctl_printf("%.*s", (int)(major + 1 + minor), text + 4);
    }
    free(text);
    return version;
}

static void add(found_t *found, const char *name)
{
    char *path = realpath(name, NULL), *version;
    struct stat file;
    size_t i;

    for (i = 0; path && i < found->n; i++) {
        if (!strcmp(found->php[i].path, path))
            break;
    }
    version = path && i == found->n && i < FOUND_MAX && !stat(path, &file)
              && S_ISREG(file.st_mode) && !access(path, X_OK) ? version_of(path) : NULL;
    if (version)
        found->php[found->n++] = (php_t){ .path = path, .version = version };
    else
        free(path);
}

static void find_all(found_t *found)
{
    glob_t matches;
    size_t i;

    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        (void)glob(places[i], i ? GLOB_APPEND : 0, NULL, &matches);
    for (i = 0; i < matches.gl_pathc; i++)
        add(found, matches.gl_pathv[i]);
    globfree(&matches);
}

/* Returns the list "8.2 (PATH), 8.3 (PATH)", which the caller frees. */
static char *list_of(const found_t *found)
{
    char *text = NULL;
    size_t i;

    for (i = 0; i < found->n; i++)
        ctl_append(&text, "%s%s (%s)", i ? ", " : "", found->php[i].version, found->php[i].path);
    return text;
}

/* Returns the place of the one that is wanted; found->n: none, and *error is set. */
static size_t choose(const found_t *found, const char *wanted, ctl_error_t *error)
{
    size_t i, chosen = found->n, n = 0;
    char *list = list_of(found);

    for (i = 0; i < found->n; i++) {
        if (!wanted || !strcmp(found->php[i].version, wanted)) {
            chosen = i;
            n++;
        }
    }
    if (!found->n)
        ctl_error_set(error, CTL_REFUSED, "no PHP-FPM is installed: install one, on Debian with "
                      "\"apt install php-fpm\", or name its program with --php /PATH");
    else if (!n)
        ctl_error_set(error, CTL_REFUSED, "PHP-FPM %s is not installed: there is %s", wanted,
                      list);
    else if (n > 1)
        ctl_error_set(error, CTL_REFUSED, "there is more than one PHP-FPM: %s. Choose one with "
                      "--php VERSION or --php /PATH", list);
    free(list);
    return n == 1 ? chosen : found->n;
}

char *ctl_unit_find_php(const char *wanted, ctl_error_t *error)
{
    found_t found = { .n = 0 };
    char *path = NULL;
    size_t i, chosen;

    if (wanted && *wanted == '/') {
        add(&found, wanted);
        if (!found.n)
            ctl_error_set(error, CTL_REFUSED, "%s is not a program of PHP-FPM", wanted);
        chosen = 0;
    }
    else {
        find_all(&found);
        chosen = choose(&found, wanted, error);
    }
    if (chosen < found.n)
        path = ctl_printf("%s", found.php[chosen].path);
    for (i = 0; i < found.n; i++) {
        free(found.php[i].path);
        free(found.php[i].version);
    }
    return path;
}
