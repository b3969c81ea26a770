/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_FACTS_H
#define CTL_FACTS_H

/* What doctor has to know about the server and the machine. */

#include "ctl_command.h"

typedef enum {
    CTL_CONTROLLER_CPU,
    CTL_CONTROLLER_MEMORY,
    CTL_CONTROLLER_PIDS,
    CTL_CONTROLLER_IO,
    CTL_CONTROLLERS             /* number of controllers */
} ctl_controller_e;

extern const char *const ctl_controller_names[CTL_CONTROLLERS];

/* Limits that are not a number. */
#define CTL_FILES_UNLIMITED -1
#define CTL_FILES_UNKNOWN -2

typedef struct ctl_facts_t {
    const ctl_status_t *status;
    const json_t *modules;      /* answer to the command "modules" */
    pid_t pid;                  /* of the server's parent process */
    char *release;              /* of the kernel */
    char *unit;                 /* the server's service of systemd; NULL: none */
    int is_delegated;           /* the unit has Delegate=yes; -1: unknown */
    int has_controller[CTL_CONTROLLERS];
    json_int_t files;           /* open files that the parent process may have */
    json_int_t logs;            /* log files and pipes that it has, and so each child process */
    json_t *outside;            /* pools of PHP-FPM in no vhost's cgroup: "NAME in CGROUP" */
    json_int_t inside;          /* processes of pools in the cgroups of vhosts */
    const char *page_url;       /* address of the status page; NULL: check_vhostlimit's own */
    char *page;                 /* what check_vhostlimit --page says; NULL: it cannot be run */
    int page_status;            /* its exit status */
} ctl_facts_t;

/* Looks at the machine.  The caller has set status, modules, pid and page_url. */
void ctl_facts_gather(ctl_facts_t *facts);

void ctl_facts_free(ctl_facts_t *facts);

/* Returns the service of systemd in which the process runs; NULL: none.  The caller frees it. */
char *ctl_facts_unit_of(pid_t pid);
/* Runs the program without a shell.  Returns what it writes to stdout, which the caller
 * frees; NULL: it cannot be run or fails. */
char *ctl_facts_output(const char *const argv[]);

/* Parses the text of /proc/PID/cgroup.  The caller frees what is returned. */
/* Returns the innermost service of systemd; NULL: there is none. */
char *ctl_facts_unit(const char *cgroups);
/* Returns the cgroup in which CPU time is shared, of cgroup v1 or v2; NULL: none. */
char *ctl_facts_cpu_group(const char *cgroups);

/* Marks the controllers that the text names, with spaces, commas or line breaks between
 * the names.  blkio is the name of io in cgroup v1. */
void ctl_facts_add_controllers(ctl_facts_t *facts, const char *names);

/* Returns 1 if the cgroup is that of a vhost, in the tree at this path. */
int ctl_facts_is_inside(const char *group, const char *tree);

#endif
