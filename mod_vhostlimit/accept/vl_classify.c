/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_classify.h"

#include <errno.h>
#include <netinet/in.h>

#include "config/vl_conf.h"
#include "config/vl_exempt.h"
#include "accept/vl_peek.h"
#include "accept/vl_vhostmap.h"

/* Bytes of a head that are read. */
#define PEEK_SIZE 8192

static struct {
    server_rec *main_server;
    vl_vhostmap_t *map;
    vl_shm_t *shm;
    apr_pool_t *scratch;
} classifier;

void vl_classify_child_init(apr_pool_t *pchild, server_rec *main_server, vl_shm_t *shm)
{
    classifier.shm = shm;
    classifier.main_server = main_server;
    classifier.map = vl_vhostmap_child_init(pchild);
    apr_pool_create(&classifier.scratch, pchild);
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

/* Evaluates the site's expressions, and identifies the client. */
static void evaluate(server_rec *s, const char *bytes, apr_size_t len,
                     apr_sockaddr_t *local, apr_sockaddr_t *remote,
                     vl_classified_t *ret_found)
{
    const vl_conf_t *conf = vl_conf_get(s);
    request_rec *r = NULL;

    if (conf->exempt || vl_visitor_needs_request(&conf->visitors)) {
        apr_pool_clear(classifier.scratch);
        r = vl_exempt_scratch(classifier.scratch, s, bytes, len, local, remote);
    }
    ret_found->exempt = r && vl_exempt(r);
    if (conf->mode == VL_MODE_ON)
        vl_visitor_identify(classifier.shm, s, r, remote, &ret_found->client);
}

/* Chooses the default server of the address, as Apache does until the first bytes name
 * another. */
static void set_default_server(const struct sockaddr_storage *local,
                               socklen_t addr_len, const char *bytes, ssize_t n,
                               vl_classified_t *ret_found)
{
    apr_sockaddr_t local_sa;

    address_of(&local_sa, local, addr_len);
    ret_found->server = vl_vhostmap_find(classifier.map, classifier.main_server,
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
    ret_found->server = vl_vhostmap_find(classifier.map, classifier.main_server,
                                         &local_sa, peek.host);
    ret_found->tls = peek.tls;
    ret_found->http2 = peek.http2;
    ret_found->head = peek.head;
    ret_found->http11 = peek.http11;
    evaluate((server_rec *)ret_found->server, bytes, (apr_size_t)n, &local_sa, &remote_sa,
             ret_found);
    return VL_CLASSIFY_ALL;
}
