/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_classify.h"

#include <errno.h>
#include <netinet/in.h>

#include "config/vl_conf.h"
#include "config/vl_exempt.h"
#include "accept/vl_peek.h"
#include "accept/vl_vhostmap.h"

/* Bytes of a head that are looked at. */
#define PEEK_SIZE 8192

static struct {
    server_rec *main_server;
    vl_vhostmap_t *map;
    apr_pool_t *scratch;
} looks;

void vl_classify_child_init(apr_pool_t *pchild, server_rec *main_server)
{
    looks.main_server = main_server;
    looks.map = vl_vhostmap_child_init(pchild);
    apr_pool_create(&looks.scratch, pchild);
}

static void address_of(apr_sockaddr_t *sa, const struct sockaddr_storage *ss,
                       socklen_t len)
{
    memset(sa, 0, sizeof(*sa));
    memcpy(&sa->sa, ss, len);
    sa->family = ss->ss_family;
    sa->salen = len;
    if (ss->ss_family == AF_INET) {
        sa->ipaddr_ptr = &sa->sa.sin.sin_addr;
        sa->ipaddr_len = sizeof(struct in_addr);
        sa->port = ntohs(sa->sa.sin.sin_port);
    }
    else {
        sa->ipaddr_ptr = &sa->sa.sin6.sin6_addr;
        sa->ipaddr_len = sizeof(struct in6_addr);
        sa->port = ntohs(sa->sa.sin6.sin6_port);
    }
}

static int is_exempt(server_rec *s, const char *bytes, apr_size_t len,
                     apr_sockaddr_t *local, apr_sockaddr_t *remote)
{
    if (!vl_conf_get(s)->exempt)
        return 0;
    apr_pool_clear(looks.scratch);
    return vl_exempt_early(looks.scratch, s, bytes, len, local, remote);
}

/* The connection is the default server's of its address, as it is Apache's as long
 * as its first bytes name no other. */
static void look_at_some(const struct sockaddr_storage *local,
                         socklen_t addr_len, const char *bytes, ssize_t n,
                         vl_classified_t *ret_look)
{
    apr_sockaddr_t here;

    address_of(&here, local, addr_len);
    ret_look->server = vl_vhostmap_find(looks.map, looks.main_server, &here,
                                        "");
    ret_look->tls = (n > 0 && *bytes == 0x16)
                    || vl_conf_get(ret_look->server)->head_time.tls;
    ret_look->bytes = n > 0 ? (apr_size_t)n : 0;
}

vl_classify_e vl_classify(int fd, const struct sockaddr_storage *local,
                  const struct sockaddr_storage *remote, socklen_t addr_len,
                  vl_classified_t *ret_look)
{
    char bytes[PEEK_SIZE];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    apr_sockaddr_t here, there;
    vl_peek_t peek;

    if (n < 0 && errno == EAGAIN) {
        look_at_some(local, addr_len, bytes, n, ret_look);
        return VL_CLASSIFY_NOTHING;
    }
    if (n <= 0)
        return VL_CLASSIFY_CLOSED;
    if (vl_peek(bytes, (apr_size_t)n, &peek) == VL_PEEK_MORE
        && n < (ssize_t)sizeof(bytes)) {
        look_at_some(local, addr_len, bytes, n, ret_look);
        return VL_CLASSIFY_SOME;
    }
    address_of(&here, local, addr_len);
    address_of(&there, remote, addr_len);
    ret_look->server = vl_vhostmap_find(looks.map, looks.main_server, &here,
                                        peek.host);
    ret_look->tls = peek.tls;
    ret_look->http2 = peek.http2;
    ret_look->head = peek.head;
    ret_look->http11 = peek.http11;
    ret_look->exempt = is_exempt((server_rec *)ret_look->server, bytes,
                                 (apr_size_t)n, &here, &there);
    return VL_CLASSIFY_ALL;
}
