/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_CONF_H
#define FLEET_CONF_H

/* The configuration file of vhostlimit-fleet: a keyword and its values on each line, "#"
 * begins a comment. docs/guides/fleet.md and the program's --help list the keywords. */

#include "fleet_plan.h"
#include "fleet_store.h"

#define FLEET_CONF_FILE "/etc/vhostlimit-fleet.conf"
#define FLEET_SOCKET "/run/vhostlimit-fleet.sock"

typedef struct fleet_conf_t {
    fleet_store_options_t store;    /* its tls is made of `tls`, if that is on */
    int is_tls;
    fleet_tls_options_t tls;
    fleet_limits_t limits;
    char *control;                  /* Apache's control socket; NULL: it is searched */
    char *socket;                   /* for vhostlimitctl fleet */
    double capacity;                /* us per second; 0: the processors */
} fleet_conf_t;

/* Reads the file. Returns CTL_DONE or fills in *error, which names the line. What *ret_conf
 * holds lives as long as the program. */
ctl_exit_e fleet_conf_read(const char *path, fleet_conf_t *ret_conf, ctl_error_t *error);

#endif
