/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_OWN_H
#define VL_OWN_H

/* The addresses of this machine. A client that has one of them runs here, and may be a page of this
 * server. It need not be the address that it has connected to: the kernel connects to 127.0.1.1
 * from 127.0.0.1, and to a further address of an interface from the first one.
 *
 * Owns the table of addresses of this process. No lock: one thread calls vl_own_refresh(), any thread
 * vl_own_key(). */

#include <netinet/in.h>
#include <sys/socket.h>

#include <apr_pools.h>

/* Further addresses of clients on this machine, as those of containers. Of more, the last are known. In shared memory; one
 * process writes it. */
#define VL_OWN_MORE 16
typedef struct vl_own_more_t {
    apr_uint32_t n;                 /* that were noted; atomic */
    struct in6_addr address[VL_OWN_MORE];
} vl_own_more_t;
void vl_own_note(vl_own_more_t *more, const struct in6_addr *address);

/* Returns the port, and the address as one of IPv6: that of IPv4 is mapped. Returns 0 for another family. */
int vl_own_address(const struct sockaddr *sa, struct in6_addr *ret_address);

/* Child, before the others: makes an empty table that lives as long as the pool. */
void vl_own_child_init(apr_pool_t *pchild, const vl_own_more_t *more);
/* Reads the addresses, if that was not done in the last minute. Child: at its start, and the acceptor's
 * tick. */
void vl_own_refresh(apr_int64_t now_us);
/* Returns a key of the connection if the client is on this machine, else 0. The client's port alone would not do: the
 * kernel uses it for connections to other ports too. */
apr_uint32_t vl_own_key(const struct sockaddr *local, const struct sockaddr *remote);
/* Returns the same for a client at this address, as one of IPv6, and port. */
apr_uint32_t vl_own_key_of(const struct in6_addr *client, int client_port, int server_port);

#endif
