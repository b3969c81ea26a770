/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

/* The commands of vhostlimitctl. */

#include "ctl_client.h"
#include "ctl_status.h"

/* What the command line says. */
typedef struct ctl_call_t {
    const char *socket;         /* of -s; NULL: it is searched */
    int json;                   /* --json */
    const char *plan;           /* --plan; NULL: none */
    const char *duration;       /* --for; NULL: a change lasts */
    int save;                   /* --save */
    int csv;                    /* --csv */
    const char *since;          /* of --since and the other options; NULL: not given */
    const char *site, *count, *file;
    const char *php, *user;     /* --php, --user; NULL: not given */
    int install, remove, force; /* --install, --remove, --force */
    const char *const *args;    /* arguments of the command, with NULL at the end */
    int nargs;
} ctl_call_t;

/* Executes the command and prints its result to stdout.  Returns the exit status of the
 * program; fills in *error, and prints nothing about it, if error->status is not CTL_DONE
 * afterwards. */
typedef ctl_exit_e (*ctl_command_fn)(const ctl_call_t *call, ctl_error_t *error);

ctl_exit_e ctl_show(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_set(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_reset(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_plans(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_import(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_clients(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_explain(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_mine(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_report(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_top(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_fleet(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_collect(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_history(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_watch(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_unit(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_enter(const ctl_call_t *call, ctl_error_t *error);
ctl_exit_e ctl_doctor(const ctl_call_t *call, ctl_error_t *error);

/* A status document with what it was read from. */
typedef struct ctl_state_t {
    ctl_answer_t answer;
    ctl_status_t status;
} ctl_state_t;

/* Asks for the status of one site, or of all (vhost NULL).  The server resolves a ServerName,
 * and the answer for one site has the name of the account. */
ctl_exit_e ctl_state_ask(const ctl_call_t *call, const char *vhost,
                         ctl_state_t *ret_state, ctl_error_t *error);
void ctl_state_free(ctl_state_t *state);

/* Returns 1 if the answer to the command clients has every member that is used. */
int ctl_clients_is_sound(json_t *answer);

/* Asks for the classes and clients of a site. The answer has every member that is used. */
ctl_exit_e ctl_clients_ask(const ctl_call_t *call, const char *site,
                           ctl_answer_t *ret_answer, ctl_error_t *error);

#endif
