/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_own.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/vl_pages.h"

#define REFRESH_US (60 * (apr_int64_t)1000000)
/* More addresses are not known. Then a call from one of these waits its turn. */
#define ADDRESSES 4096

typedef struct table_t {
    size_t n;
    struct in6_addr address[ADDRESSES];     /* sorted */
} table_t;

static struct {
    table_t *tables;                /* two: a thread may still read one while the other is filled */
    table_t *table;                 /* the one in use; atomic. NULL: none */
    apr_int64_t read_us;
    const vl_own_more_t *more;
} own;

int vl_own_address(const struct sockaddr *sa, struct in6_addr *ret_address)
{
    const struct sockaddr_in *sin = (const void *)sa;
    const struct sockaddr_in6 *sin6 = (const void *)sa;

    if (sa->sa_family == AF_INET6) {
        *ret_address = sin6->sin6_addr;
        return ntohs(sin6->sin6_port);
    }
    if (sa->sa_family != AF_INET)
        return 0;
    memset(ret_address, 0, sizeof(*ret_address));
    memset(ret_address->s6_addr + 10, 0xff, 2);
    memcpy(ret_address->s6_addr + 12, &sin->sin_addr, 4);
    return ntohs(sin->sin_port);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct in6_addr));
}

static int is_in(const vl_own_more_t *more, const struct in6_addr *address)
{
    apr_uint32_t i, n = __atomic_load_n(&more->n, __ATOMIC_ACQUIRE);

    for (i = 0; i < n && i < VL_OWN_MORE; i++) {
        if (!compare(&more->address[i], address))
            return 1;
    }
    return 0;
}

void vl_own_note(vl_own_more_t *more, const struct in6_addr *address)
{
    if (is_in(more, address))
        return;
    more->address[more->n % VL_OWN_MORE] = *address;
    __atomic_store_n(&more->n, more->n + 1, __ATOMIC_RELEASE);
}

void vl_own_child_init(apr_pool_t *pchild, const vl_own_more_t *more)
{
    own.more = more;
    own.tables = vl_pages_make(pchild, 2, sizeof(*own.tables));
    own.table = NULL;
}

void vl_own_refresh(apr_int64_t now_us)
{
    struct ifaddrs *all, *each;
    table_t *table;

    if (!own.tables || (own.table && now_us - own.read_us < REFRESH_US) || getifaddrs(&all))
        return;
    own.read_us = now_us;
    table = own.table == own.tables ? own.tables + 1 : own.tables;
    table->n = 0;
    for (each = all; each && table->n < ADDRESSES; each = each->ifa_next) {
        if (each->ifa_addr && (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6))
            (void)vl_own_address(each->ifa_addr, &table->address[table->n++]);
    }
    freeifaddrs(all);
    qsort(table->address, table->n, sizeof(table->address[0]), compare);
    __atomic_store_n(&own.table, table, __ATOMIC_RELEASE);
}

apr_uint32_t vl_own_key_of(const struct in6_addr *client, int client_port, int server_port)
{
    apr_uint32_t hash = (apr_uint32_t)client_port << 16 | (apr_uint32_t)server_port;
    int i;

    for (i = 0; i < 4; i++)
        hash = (hash ^ client->s6_addr32[i]) * 0x9e3779b1;      /* Knuth's multiplicative hash */
    return hash ? hash : 1;
}

apr_uint32_t vl_own_key(const struct sockaddr *local, const struct sockaddr *remote)
{
    const table_t *table = __atomic_load_n(&own.table, __ATOMIC_ACQUIRE);
    struct in6_addr to, from;
    int port = vl_own_address(remote, &from), server = vl_own_address(local, &to);

    if (!port)
        return 0;
    if ((server && !compare(&to, &from)) || IN6_IS_ADDR_LOOPBACK(&from)
        || (IN6_IS_ADDR_V4MAPPED(&from) && from.s6_addr[12] == 127)
        || (table && bsearch(&from, table->address, table->n, sizeof(from), compare))
        || (own.more && is_in(own.more, &from)))
        return vl_own_key_of(&from, port, server);
    return 0;
}
