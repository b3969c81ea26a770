/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_vhostmap.h"

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>
#include <apr_thread_mutex.h>
#include <http_config.h>           /* before http_vhost.h */
#include <http_vhost.h>

#include "accept/vl_peek.h"
#include "config/vl_scratch.h"

/* Clients can send names that are not configured, so the cache is bounded. A full
 * cache is cleared. */
#define CACHE_MAX 32768

struct vl_vhostmap_t {
    apr_thread_mutex_t *lock;
    apr_pool_t *pool;           /* of the cache */
    apr_hash_t *cache;          /* map_key_t -> server_rec * */
};

typedef struct map_key_t {
    apr_size_t len;
    char bytes[16 + 2 + VL_PEEK_HOST_SIZE];     /* address, port, host */
} map_key_t;

vl_vhostmap_t *vl_vhostmap_child_init(apr_pool_t *pchild)
{
    vl_vhostmap_t *map = apr_palloc(pchild, sizeof(*map));

    apr_thread_mutex_create(&map->lock, APR_THREAD_MUTEX_DEFAULT, pchild);
    apr_pool_create(&map->pool, pchild);
    map->cache = apr_hash_make(map->pool);
    return map;
}

static void make_key(map_key_t *key, const apr_sockaddr_t *local,
                     const char *host)
{
    char *to = key->bytes;

    memcpy(to, local->ipaddr_ptr, (apr_size_t)local->ipaddr_len);
    to += local->ipaddr_len;
    memcpy(to, &local->port, 2);
    to += 2;
    for (; *host; host++)
        *to++ = (char)apr_tolower(*host);
    key->len = (apr_size_t)(to - key->bytes);
}

/* Maps the name as Apache does, with a request that has only a Host line. */
static const server_rec *map_by_httpd(apr_pool_t *p, server_rec *main_server,
                                    apr_sockaddr_t *local, const char *host)
{
    request_rec *r = vl_scratch_request(p, main_server, local, local);

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

const server_rec *vl_vhostmap_find(vl_vhostmap_t *map, server_rec *main_server,
                                   apr_sockaddr_t *local, const char *host)
{
    const server_rec *found;
    map_key_t key;

    make_key(&key, local, host);
    apr_thread_mutex_lock(map->lock);
    found = apr_hash_get(map->cache, key.bytes, (apr_ssize_t)key.len);
    if (!found) {
        apr_pool_t *scratch;

        if (apr_hash_count(map->cache) >= CACHE_MAX) {
            apr_pool_clear(map->pool);
            map->cache = apr_hash_make(map->pool);
        }
        apr_pool_create(&scratch, map->pool);
        found = map_by_httpd(scratch, main_server, local, host);
        apr_pool_destroy(scratch);
        apr_hash_set(map->cache, apr_pmemdup(map->pool, key.bytes, key.len),
                     (apr_ssize_t)key.len, found);
    }
    apr_thread_mutex_unlock(map->lock);
    return found;
}
