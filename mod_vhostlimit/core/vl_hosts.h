/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HOSTS_H
#define VL_HOSTS_H

/* Accounts by host (VhostLimitAccounts Host): each host name that clients use at a site gets
 * an account of its own while it is in use, with the limits of the site. The accounts are
 * those behind the accounts of sites in the segment. docs/design/012-accounts-by-host.md has
 * the rules: which name gets an account, and which account is reused.
 *
 * This file owns the table of names. An entry with key 0 is free. An entry is in the chain of
 * its bucket if and only if its key is not 0. A host's account number belongs to another name
 * at the earliest VL_HOSTS_IDLE_S after it was last looked up, and never while a cell counts
 * something of it. So a number that was looked up may be used until then without a reference.
 *
 * Lock: the segment lock. Readers of chains take none: an entry that moves to another chain
 * meanwhile only ends their search, which is then repeated under the lock. */

#include "core/vl_metrics.h"
#include "core/vl_shm.h"

/* Bound of max= of VhostLimitAccounts. */
#define VL_HOSTS_MAX 1000000
/* An account that was idle for so long may be reused if no other one is free ... */
#define VL_HOSTS_IDLE_S 10
/* ... unless its name was in use for so long. Then it has to be idle for VL_HOSTS_KEEP_S. */
#define VL_HOSTS_ESTABLISHED_S 60
#define VL_HOSTS_KEEP_S 600
/* New accounts per second while requests wait. */
#define VL_HOSTS_BEGIN_RATE 10
/* Size of the longest DNS name with its terminating NUL. */
#define VL_HOST_SIZE 254

typedef struct vl_host_t {
    apr_uint64_t key;               /* of the name and its site; 0: free. Atomic */
    apr_uint32_t next;              /* 1 + next entry of the chain, or of the free ones; 0:
                                     * none. Atomic */
    apr_uint32_t site;              /* account of its site */
    apr_uint32_t serial;            /* see vl_hosts_identity() */
    apr_uint32_t since_s, last_s;   /* first and last use, vl_clock_us(). last_s is atomic */
} vl_host_t;

/* In shared memory, beside the entries. */
typedef struct vl_hosts_t {
    unsigned char secret[16];       /* of the keys */
    apr_uint32_t max;               /* entries */
    apr_uint32_t limit;             /* most names at once, at most max */
    apr_uint32_t buckets;           /* a power of 2 */
    apr_uint32_t used;              /* entries 0 ... used-1 were ever used */
    apr_uint32_t named;             /* entries in use */
    apr_uint32_t free;              /* 1 + first free entry below used; 0: none */
    apr_uint32_t hand;              /* entry to check next for reuse */
    apr_uint32_t next_serial;
    apr_uint32_t capped;            /* 1: hosts may have a CPU cap */
    apr_uint32_t contended_s;       /* when requests were last seen to wait; atomic */
    apr_uint32_t second, begun;     /* accounts that began in that second */
    apr_uint64_t beyond;            /* lookups of names that got no account; atomic */
} vl_hosts_t;

/* Copies the host name in the form that httpd gives it: lower case, without port and final
 * dot. Returns 0 if it is empty, too long, or has other characters than letters, digits and
 * . _ - */
int vl_hosts_normalize(const char *host, char ret_name[VL_HOST_SIZE]);

/* Returns the account of requests for the host at the site: that of the host, which begins
 * now if there is none, or the site's own. host may be NULL. Children; any thread. Usually
 * takes no lock. */
apr_uint32_t vl_hosts_find(vl_shm_t *shm, apr_uint32_t site, const char *host);
/* Returns 1 and the account if the host has one at the site, and uses it for nothing. Takes
 * no lock. Any process. */
int vl_hosts_lookup(const vl_shm_t *shm, apr_uint32_t site, const char *host,
                    apr_uint32_t *ret_account);
/* Returns a number that tells the users of an account apart for vl_clients.h:
 * the account of a site, or a number that no other host has had. Takes no lock. */
apr_uint32_t vl_hosts_identity(const vl_shm_t *shm, apr_uint32_t account);

/* Calls fn for each host that has an account, without a lock: counters may change meanwhile.
 * Used by the status page. */
typedef void (*vl_hosts_each_fn)(void *data, apr_uint32_t account, apr_uint32_t site,
                                 const vl_metrics_t *metrics);
void vl_hosts_each(const vl_shm_t *shm, vl_hosts_each_fn fn, void *data);
/* Sums over the hosts of a site, for vhostlimit-fleet. With the numbers of the site's own
 * account the first two never fall: an account that is reused adds them there. */
typedef struct vl_hosts_sum_t {
    apr_uint64_t charged_us, backlog_us;
    apr_uint32_t requests;
    apr_int64_t newest;             /* the last interval of vl_rate.h with a charge */
} vl_hosts_sum_t;
/* Looks at all entries, without a lock: counters may change meanwhile. */
void vl_hosts_sum(const vl_shm_t *shm, apr_uint32_t site, apr_int64_t now_us,
                  vl_hosts_sum_t *ret_sum);

/* Numbers of the status page. max: entries that the segment was made for. */
typedef struct vl_hosts_count_t {
    apr_uint32_t max, limit, named;
    apr_uint64_t beyond;
} vl_hosts_count_t;
vl_hosts_count_t vl_hosts_count(const vl_shm_t *shm);

/* Sets up the table. Parent, before any child exists. */
void vl_hosts_post_config_init(vl_shm_t *shm, apr_uint32_t max, apr_uint32_t buckets);
/* Sets the number of names at once, at most the number that the segment was made
 * for. */
void vl_hosts_post_config_limit(vl_shm_t *shm, apr_uint32_t limit);
/* Copies the limits, leases and classes of the site to its hosts. Parent; takes the lock for
 * a batch of hosts at a time. */
void vl_hosts_refresh(vl_shm_t *shm, apr_uint32_t site);
/* Releases the accounts of the site's hosts that are idle. Requires the segment lock. Returns
 * the number of the others. Parent. */
apr_uint32_t vl_hosts_forget_locked(vl_shm_t *shm, apr_uint32_t site);

#endif
