/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_RULE_H
#define VL_RULE_H

/* What the programs of a site may do with a path and everything below it.  The rule of the
 * longest path counts.  Without a rule a path is hidden. */

#include <apr_tables.h>

typedef enum {
    VL_RULE_HIDE,               /* the path does not exist, or is empty */
    VL_RULE_TMP,                /* an empty folder of the site's own, in memory */
    VL_RULE_RO,                 /* read and execute */
    VL_RULE_RW,                 /* everything that the file's owner and mode allow */
    VL_RULE_DEVICE,             /* read and write the device, create nothing */
    VL_RULE_PROC                /* the kernel's /proc */
} vl_rule_e;

typedef struct vl_rule_t {
    vl_rule_e access;
    const char *path;           /* absolute */
    const char *real;           /* what is opened for it: a path without symbolic links.  NULL
                                 * for paths of the system, which root alone can change */
    int is_configured;          /* by VhostLimitSandboxPath */
    int has_sockets;            /* of servers, which programs connect to.  Rules that have it by
                                 * default do not count if connections are limited */
} vl_rule_t;

/* What the programs of a site may connect to (VhostLimitSandboxConnect). */
typedef struct vl_connect_t {
    int is_limited;             /* 0: to everything */
    int has_unix;               /* sockets of the rules with has_sockets */
    int has_udp;                /* UDP, to everything */
    const apr_array_header_t *ports;    /* of int: TCP, at any address */
} vl_connect_t;

#endif
