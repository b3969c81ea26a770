/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_classify.h"

#include <errno.h>
#include <netinet/in.h>

#include <apr_buckets.h>
#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <http_config.h>           /* before http_vhost.h */
#include <http_core.h>
#include <http_protocol.h>
#include <http_vhost.h>

#include "accept/vl_child.h"
#include "base/vl_clock.h"
#include "config/vl_accounts.h"
#include "config/vl_conf.h"
#include "config/vl_seen.h"
#include "config/vl_remoteip.h"
#include "accept/vl_peek.h"
#include "config/vl_scratch.h"
#include "config/vl_sharing.h"

/* Bytes of a head that are read at first, and of one that is longer. */
#define PEEK_SIZE 8192
#define PEEK_MAX 32768
/* Clients can send names that are not configured, so the cache is bounded. A full
 * cache is cleared. */
#define CACHE_MAX 32768
/* Validations of ACME that do not wait, in a second and a child process. */
#define ACME_MAX 10

static struct {
    apr_hash_t *cache;              /* map_key_t -> server_rec * */
    apr_pool_t *cache_pool;
    apr_pool_t *scratch;            /* cleared after or before each use */
    apr_bucket_alloc_t *buckets;
    apr_int64_t acme_since_us;      /* begin of a second, and ... */
    int acme;                       /* ... validations of ACME in it */
    int has_paths;                  /* some server has a ServerPath */
    int has_remoteip;               /* mod_remoteip may take an address from a header line */
    char *bytes;                    /* PEEK_MAX */
} classifier;

typedef struct map_key_t {
    apr_size_t len;
    char bytes[16 + 2 + VL_PEEK_HOST_SIZE];     /* address, port, host */
} map_key_t;

void vl_classify_child_init(void)
{
    const server_rec *s;

    apr_pool_create(&classifier.cache_pool, vl_child.pool);
    classifier.cache = apr_hash_make(classifier.cache_pool);
    apr_pool_create(&classifier.scratch, vl_child.pool);
    classifier.bytes = apr_palloc(vl_child.pool, PEEK_MAX);
    classifier.buckets = apr_bucket_alloc_create(vl_child.pool);
    classifier.has_remoteip = vl_remoteip_is_used();
    for (s = vl_child.main_server; s; s = s->next)
        classifier.has_paths |= s->path != NULL;
}

/* --- the server of an address and a name ----------------------------------- */

/* Maps the name as Apache does, with a request that has only a Host line. */
static const server_rec *map_by_httpd(apr_pool_t *p, apr_sockaddr_t *local,
                                      const char *host)
{
    request_rec *r = vl_scratch_request(p, vl_child.main_server, local, local);

    ap_update_vhost_given_ip(r->connection);
    r->server = r->connection->base_server;
    r->per_dir_config = r->server->lookup_defaults;
    r->uri = apr_pstrdup(p, "/");
    if (*host) {
        apr_table_setn(r->headers_in, "Host", host);
        ap_update_vhost_from_headers(r);
    }
    return r->server;
}

/* Returns the server that Apache would map a request to. host "": the default server of
 * the address. */
static const server_rec *find_server(apr_sockaddr_t *local, const char *host)
{
    const char *from = host;
    const server_rec *found;
    map_key_t key;
    char *to = key.bytes;

    memcpy(to, local->ipaddr_ptr, (apr_size_t)local->ipaddr_len);
    to += local->ipaddr_len;
    memcpy(to, &local->port, 2);
    to += 2;
    for (; *from; from++)
        *to++ = (char)apr_tolower(*from);
    key.len = (apr_size_t)(to - key.bytes);
    found = apr_hash_get(classifier.cache, key.bytes, (apr_ssize_t)key.len);
    if (!found) {
        if (apr_hash_count(classifier.cache) >= CACHE_MAX) {
            apr_pool_clear(classifier.cache_pool);
            classifier.cache = apr_hash_make(classifier.cache_pool);
        }
        found = map_by_httpd(classifier.scratch, local, host);
        apr_pool_clear(classifier.scratch);
        apr_hash_set(classifier.cache,
                     apr_pmemdup(classifier.cache_pool, key.bytes, key.len),
                     (apr_ssize_t)key.len, found);
    }
    return found;
}

/* --- the first bytes -------------------------------------------------------- */

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
        sa->addr_str_len = INET_ADDRSTRLEN;
        sa->port = ntohs(sa->sa.sin.sin_port);
    }
    else {
        sa->ipaddr_ptr = &sa->sa.sin6.sin6_addr;
        sa->ipaddr_len = sizeof(struct in6_addr);
        sa->addr_str_len = INET6_ADDRSTRLEN;
        sa->port = ntohs(sa->sa.sin6.sin6_port);
    }
}

/* Returns 1 if the PROXY header names a client, and sets *ret_client to its address. */
static int address_in_header(apr_sockaddr_t *ret_client, const vl_peek_t *peek)
{
    int is_v4 = peek->client_length == 4;
    struct sockaddr_storage ss = { .ss_family = is_v4 ? AF_INET : AF_INET6 };

    if (!peek->client_length)
        return 0;
    memcpy(is_v4 ? (void *)&((struct sockaddr_in *)&ss)->sin_addr
                 : (void *)&((struct sockaddr_in6 *)&ss)->sin6_addr, peek->client, peek->client_length);
    address_of(ret_client, &ss, is_v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return 1;
}

static void set_client(request_rec *r, apr_sockaddr_t *client)
{
    client->pool = r->pool;
    r->useragent_addr = client;
    apr_sockaddr_ip_get(&r->useragent_ip, client);
}

/* Returns 1 if mod_remoteip expects the PROXY header that the bytes begin with. Otherwise httpd
 * refuses them. */
static int is_proxy_header_expected(apr_sockaddr_t *local, apr_sockaddr_t *remote,
                                    const vl_peek_t *peek)
{
    request_rec *r;

    if (!peek->proxy_length)
        return 0;
    apr_pool_clear(classifier.scratch);
    r = vl_scratch_request(classifier.scratch, vl_child.main_server, local, remote);
    return vl_remoteip_expects_proxy_header(r->connection);
}

/* Returns 1 if mod_remoteip has to find the address: for an expression, or because the order of
 * clients matters now. */
static int must_ask_remoteip(const vl_conf_t *conf, apr_uint32_t account)
{
    return classifier.has_remoteip && conf->mode == VL_MODE_ON
           && (conf->exempt || conf->sharing.classes
               || conf->sharing.known == VL_KNOWN_ADDRESS
               || (conf->sharing.clients && vl_shm_is_contended(vl_child.shm, account)));
}

static void set_server(const server_rec *s, const char *host, vl_classified_t *ret_found)
{
    ret_found->server = s;
    ret_found->account = vl_accounts_find(vl_child.shm, vl_conf_get(s), host);
}

/* Returns the scratch request of the head, or NULL if httpd would refuse it. */
static request_rec *read_head(server_rec *s, const char *bytes, apr_size_t len,
                              apr_sockaddr_t *local, apr_sockaddr_t *remote)
{
    request_rec *r;

    apr_pool_clear(classifier.scratch);
    r = vl_scratch_request(classifier.scratch, vl_child.main_server, local, remote);
    return vl_scratch_read(r, s, bytes, len, classifier.buckets) ? r : NULL;
}

/* Returns 1 if the connection is a validation of ACME, and few of them have come in this second: it
 * must not be a way past the queue for a flood. */
static int is_validation(const vl_peek_t *peek)
{
    apr_int64_t now_us;

    if (!peek->acme)
        return 0;
    now_us = vl_clock_us();
    if (now_us - classifier.acme_since_us >= APR_USEC_PER_SEC) {
        classifier.acme_since_us = now_us;
        classifier.acme = 0;
    }
    return classifier.acme++ < ACME_MAX;
}

/* Finds the site, the client and the exemption of a connection as httpd and the admission of
 * its request (vl_hooks.c) will find them. A head that httpd would refuse, or that is too long to
 * be read here, waits in the class "other" of the site that it names, as the client of its address. */
static void identify(const char *bytes, apr_size_t len, int is_complete, apr_sockaddr_t *local,
                     apr_sockaddr_t *remote, const vl_peek_t *peek, vl_classified_t *ret_found)
{
    const vl_conf_t *conf;
    request_rec *r = NULL;
    apr_sockaddr_t in_header, *client = remote;
    int has_head = is_complete && !peek->tls && !peek->http2, has_header, asks_remoteip;
    int is_plain = !has_head || (peek->is_plain && (*peek->host || !classifier.has_paths));

    has_header = is_proxy_header_expected(local, remote, peek);
    if (has_header && address_in_header(&in_header, peek))
        client = &in_header;
    if (has_header) {
        bytes += peek->proxy_length;
        len -= peek->proxy_length;
    }
    if (!is_plain)
        r = read_head(NULL, bytes, len, local, remote);
    if (r)
        set_server(r->server, r->hostname, ret_found);
    else
        set_server(find_server(local, peek->host), peek->host, ret_found);
    conf = vl_conf_get(ret_found->server);
    asks_remoteip = has_head && must_ask_remoteip(conf, ret_found->account);
    if (has_head && is_plain
        && (conf->needs_head || asks_remoteip))
        r = read_head((server_rec *)ret_found->server, bytes, len, local, remote);
    if (r)
        set_client(r, client);
    if (r && asks_remoteip && !has_header)
        vl_remoteip_apply(r);
    ret_found->exempt = r && vl_seen_is_exempt(r, r->headers_in);
    ret_found->acme = is_validation(peek);
    if (conf->mode == VL_MODE_ON)
        vl_sharing_identify(vl_child.shm, ret_found->account, ret_found->server, r,
                            r ? r->headers_in : NULL, client, &ret_found->client);
}

/* Chooses the default server of the address, as Apache does until the first bytes name
 * another. */
static void set_default_server(const struct sockaddr_storage *local,
                               socklen_t addr_len, const char *bytes, ssize_t n,
                               vl_classified_t *ret_found)
{
    apr_sockaddr_t local_sa;

    address_of(&local_sa, local, addr_len);
    ret_found->server = find_server(&local_sa, "");
    ret_found->tls = (n > 0 && *bytes == 0x16)
                     || vl_conf_get(ret_found->server)->head_time.tls;
    ret_found->bytes = ret_found->in_lines = n > 0 ? (apr_size_t)n : 0;
    while (!ret_found->tls && ret_found->in_lines && bytes[ret_found->in_lines - 1] != '\n')
        ret_found->in_lines--;
}

vl_classify_e vl_classify(int fd, const struct sockaddr_storage *local,
                          const struct sockaddr_storage *remote, socklen_t addr_len,
                          vl_classified_t *ret_found)
{
    char *bytes = classifier.bytes;
    int room = 0;
    socklen_t length = sizeof(room);
    size_t size = PEEK_SIZE;
    ssize_t n = recv(fd, bytes, size, MSG_PEEK | MSG_DONTWAIT);
    apr_sockaddr_t local_sa, remote_sa;
    vl_peek_e result;
    vl_peek_t peek;

    if (n < 0 && errno == EAGAIN) {
        set_default_server(local, addr_len, bytes, n, ret_found);
        return VL_CLASSIFY_NOTHING;
    }
    if (n <= 0)
        return VL_CLASSIFY_CLOSED;
    result = vl_peek(bytes, (apr_size_t)n, &peek);
    /* Of a longer head never more bytes are read than the socket can hold. */
    if (result == VL_PEEK_MORE && n == PEEK_SIZE
        && !getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &length) && room / 4 >= PEEK_MAX) {
        size = PEEK_MAX;
        n = recv(fd, bytes, size, MSG_PEEK | MSG_DONTWAIT);
        if (n <= 0)
            return VL_CLASSIFY_CLOSED;
        result = vl_peek(bytes, (apr_size_t)n, &peek);
    }
    if (result == VL_PEEK_MORE && n < (ssize_t)size) {
        set_default_server(local, addr_len, bytes, n, ret_found);
        return VL_CLASSIFY_SOME;
    }
    address_of(&local_sa, local, addr_len);
    address_of(&remote_sa, remote, addr_len);
    ret_found->tls = peek.tls;
    ret_found->http11 = peek.http11;
    ret_found->forwarded = peek.forwarded || peek.proxy_length;
    identify(bytes, (apr_size_t)n, result != VL_PEEK_MORE, &local_sa, &remote_sa, &peek,
             ret_found);
    /* Where it is not allowed, httpd answers the preface as a wrong request. */
    ret_found->http2 = peek.http2
                       && ap_is_allowed_protocol(NULL, NULL, (server_rec *)ret_found->server, "h2c");
    return VL_CLASSIFY_ALL;
}

request_rec *vl_classify_hello(conn_rec *c)
{
    char bytes[PEEK_SIZE];
    apr_sockaddr_t *in_header = apr_palloc(c->pool, sizeof(*in_header));
    request_rec *r;
    vl_peek_t peek;
    ssize_t n;
    int fd;

    if (apr_os_sock_get(&fd, ap_get_conn_socket(c)) != APR_SUCCESS
        || (n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT)) <= 0)
        return NULL;
    vl_peek(bytes, (apr_size_t)n, &peek);
    r = vl_scratch_request(c->pool, c->base_server, c->local_addr, c->client_addr);
    if (peek.proxy_length && vl_remoteip_expects_proxy_header(r->connection)
        && address_in_header(in_header, &peek))
        set_client(r, in_header);
    r->connection = c;
    r->request_time = apr_time_now();
    r->method = "-";
    r->uri = apr_pstrdup(c->pool, "-");
    r->protocol = apr_pstrdup(c->pool, "HTTP/1.0");     /* as of a request that httpd has not read */
    if (*peek.host) {
        apr_table_set(r->headers_in, "Host", peek.host);
        ap_update_vhost_from_headers(r);
    }
    return r;
}
