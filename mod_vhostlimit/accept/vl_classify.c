/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_classify.h"

#include <errno.h>
#include <netinet/in.h>

#include "accept/vl_child.h"
#include "config/vl_conf.h"
#include "config/vl_exempt.h"
#include "accept/vl_peek.h"
#include "accept/vl_vhostmap.h"

/* Bytes of a head that are read. */
#define PEEK_SIZE 8192

static struct {
    vl_vhostmap_t *map;
    apr_pool_t *scratch;
} classifier;

void vl_classify_child_init(void)
{
    classifier.map = vl_vhostmap_child_init(vl_child.pool);
    apr_pool_create(&classifier.scratch, vl_child.pool);
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
    apr_pool_clear(classifier.scratch);
    return vl_exempt_early(classifier.scratch, s, bytes, len, local, remote);
}

/* Chooses the default server of the address, as Apache does until the first bytes name
 * another. */
static void set_default_server(const struct sockaddr_storage *local,
                               socklen_t addr_len, const char *bytes, ssize_t n,
                               vl_classified_t *ret_found)
{
    apr_sockaddr_t local_sa;

    address_of(&local_sa, local, addr_len);
    ret_found->server = vl_vhostmap_find(classifier.map, vl_child.main_server,
                                         &local_sa, "");
    ret_found->tls = (n > 0 && *bytes == 0x16)
                     || vl_conf_get(ret_found->server)->head_time.tls;
    ret_found->bytes = n > 0 ? (apr_size_t)n : 0;
}

vl_classify_e vl_classify(int fd, const struct sockaddr_storage *local,
                          const struct sockaddr_storage *remote, socklen_t addr_len,
                          vl_classified_t *ret_found)
{
    char bytes[PEEK_SIZE];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    apr_sockaddr_t local_sa, remote_sa;
    vl_peek_t peek;

    if (n < 0 && errno == EAGAIN) {
        set_default_server(local, addr_len, bytes, n, ret_found);
        return VL_CLASSIFY_NOTHING;
    }
    if (n <= 0)
        return VL_CLASSIFY_CLOSED;
    if (vl_peek(bytes, (apr_size_t)n, &peek) == VL_PEEK_MORE
        && n < (ssize_t)sizeof(bytes)) {
        set_default_server(local, addr_len, bytes, n, ret_found);
        return VL_CLASSIFY_SOME;
    }
    address_of(&local_sa, local, addr_len);
    address_of(&remote_sa, remote, addr_len);
    ret_found->server = vl_vhostmap_find(classifier.map, vl_child.main_server,
                                         &local_sa, peek.host);
    ret_found->tls = peek.tls;
    ret_found->http2 = peek.http2;
    ret_found->head = peek.head;
    ret_found->http11 = peek.http11;
    ret_found->exempt = is_exempt((server_rec *)ret_found->server, bytes,
                                  (apr_size_t)n, &local_sa, &remote_sa);
    return VL_CLASSIFY_ALL;
}
