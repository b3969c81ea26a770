/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_COMMAND_H
#define VL_COMMAND_H

/* The commands of the control socket.  A command is one line; tabs separate its words:
 *
 *   status [VHOST]
 *   set VHOST KEY=VALUE... [for=SECONDS]
 *   reset VHOST [KEY...]
 *   setplan PLAN KEY=VALUE... [for=SECONDS]
 *   resetplan PLAN [KEY...]
 *   clients VHOST
 *   sandbox VHOST
 *   mine [VHOST on|off]
 *   modules
 *   figures
 *   plans
 *   savefile
 *   bulk BYTES
 *   fleet [all]
 *   lease GENERATION MILLISECONDS [ACCOUNT=WEIGHT,CPU,CONCURRENCY]...
 *
 * After the line of "bulk" so many bytes follow: lines of set and reset, all of which are
 * executed or none.  A KEY is one of VL_KEYS.  The parser does not check a VALUE;
 * vl_conf_read_limit() does.  The parser has no side effects and needs no lock; any thread
 * may call it. */

#include "core/vl_fleet.h"
#include "core/vl_override.h"

/* Maximum length of a line in bytes, including its newline. */
#define VL_COMMAND_MAX 16384
/* Maximum number of sites in a lease command. */
#define VL_COMMAND_LEASES 1000

typedef enum {
    VL_COMMAND_STATUS,
    VL_COMMAND_SET,
    VL_COMMAND_RESET,
    VL_COMMAND_CLIENTS,
    VL_COMMAND_MODULES,
    VL_COMMAND_FIGURES,
    VL_COMMAND_SETPLAN,
    VL_COMMAND_RESETPLAN,
    VL_COMMAND_PLANS,
    VL_COMMAND_BULK,
    VL_COMMAND_SAVEFILE,
    VL_COMMAND_FLEET,
    VL_COMMAND_LEASE,
    VL_COMMAND_SANDBOX,
    VL_COMMAND_MINE
} vl_command_e;

/* Most bytes that may follow "bulk": about 100 000 lines. */
#define VL_COMMAND_BULK_MAX (16 * 1024 * 1024)

/* Longest time of a change, in seconds: a year. */
#define VL_COMMAND_FOR_MAX (366 * 24 * 3600)

typedef struct vl_command_t {
    vl_command_e verb;
    const char *vhost;          /* the site or the plan; NULL: the command has none */
    apr_int64_t number;         /* seconds of for=, or bytes of bulk; 0: none */
    unsigned keys;              /* VL_KEY_BIT() of the keys in the command */
    const char *values[VL_KEY_COUNT];   /* values of these keys; NULL for reset */
    int all;                    /* fleet: 1: all sites, not only active ones */
    int is_on;                  /* mine VHOST: 1: on */
    apr_uint32_t generation;    /* lease: of the configuration */
    apr_uint32_t milliseconds;
    apr_size_t nleases;
    vl_fleet_lease_t leases[VL_COMMAND_LEASES];     /* nleases of them are valid */
    const char *word;           /* the word that is in error, or "" */
    char text[VL_COMMAND_MAX];  /* memory of the words above */
} vl_command_t;

/* Parses a line without its newline.  Returns NULL, or an error message about
 * ret_command->word. */
const char *vl_command_parse(const char *line, apr_size_t len,
                             vl_command_t *ret_command);

#endif
