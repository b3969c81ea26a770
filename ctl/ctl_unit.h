/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_UNIT_H
#define CTL_UNIT_H

/* The unit of systemd for the PHP-FPM pool of a site, and its pool file.  The reasons are in
 * docs/design/013-sandbox.md. */

#include "ctl_command.h"

/* The first systemd with PrivatePIDs=. */
#define CTL_UNIT_PRIVATE_PIDS 257

/* What the texts have to know.  Strings are checked with ctl_unit_is_writable(). */
typedef struct ctl_unit_t {
    char *site;                 /* name of the site */
    char *instance;             /* the same as a part of file names */
    char *server;               /* service of Apache */
    char *server_user;          /* user of Apache's child processes */
    char *user, *group;         /* of the pool */
    char *fpm;                  /* program of PHP-FPM */
    char *ctl;                  /* this program, with its option -s if it was given */
    const char *mode;           /* VhostLimitSandbox: off, files or full */
    int has_group;              /* the site has a cgroup */
    int systemd;                /* version of systemd; 0: unknown */
    const json_t *rules;        /* of the server's answer to "sandbox" */
} ctl_unit_t;

/* The first bytes of each unit that this program has made. */
#define CTL_UNIT_MARK "# Made by \"" CTL_PROGRAM " unit\""

#define CTL_UNIT_POOLS "/etc/php/vhosts"
#define CTL_UNIT_SOCKETS "/run/vhostlimit-fpm"

/* Returns 1 if a unit can have the text between quotation marks. */
int ctl_unit_is_writable(const char *text);

/* Returns 1 if the path is the folder, or in it. */
int ctl_unit_is_below(const char *path, const char *folder);

/* Returns the site's name as a part of file names: the name of its cgroup. */
char *ctl_unit_instance(const char *site);

void ctl_unit_print(FILE *out, const ctl_unit_t *unit);
/* The unit that moves the pool into the site's cgroup. */
void ctl_unit_print_enter(FILE *out, const ctl_unit_t *unit);
void ctl_unit_print_pool(FILE *out, const ctl_unit_t *unit);

/* Finds the program of PHP-FPM.  wanted: a version such as 8.2, a path, or NULL for the only
 * one that is installed.  Returns a path that the caller frees; NULL: *error is set. */
char *ctl_unit_find_php(const char *wanted, ctl_error_t *error);

#endif
