/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_remoteip.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include <ap_listen.h>
#include <apr_strings.h>
#include <http_config.h>
#include <http_connection.h>
#include <http_protocol.h>

static struct {
    ap_HOOK_post_read_request_t *hook;  /* NULL: mod_remoteip is not loaded */
    ap_HOOK_pre_connection_t *connection_hook;
    int proxy_header;
    apr_array_header_t *names;          /* const char *, of RemoteIPHeader */
    apr_array_header_t *ports;          /* apr_port_t, of all listeners */
    pthread_mutex_t lock;               /* the address of the only listener: call_connection_hook() */
} remoteip = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Returns 1 if the directive is On anywhere in the tree. */
static int is_on(const ap_directive_t *node, const char *name)
{
    for (; node; node = node->next) {
        if ((!ap_cstr_casecmp(node->directive, name) && !ap_cstr_casecmp(node->args, "on"))
            || is_on(node->first_child, name))
            return 1;
    }
    return 0;
}

static void collect_names(apr_pool_t *pconf, const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if (!ap_cstr_casecmp(node->directive, "RemoteIPHeader")) {
            const char *args = node->args;

            APR_ARRAY_PUSH(remoteip.names, const char *) = ap_getword_conf(pconf, &args);
        }
        collect_names(pconf, node->first_child);
    }
}

#define FIND_LINK(name, ret_link)                                                       \
    do {                                                                                \
        const apr_array_header_t *hooks = ap_hook_get_##name();                         \
        int i;                                                                          \
                                                                                        \
        *(ret_link) = NULL;                                                             \
        for (i = 0; hooks && i < hooks->nelts; i++) {                                   \
            ap_LINK_##name##_t *entry = &APR_ARRAY_IDX(hooks, i, ap_LINK_##name##_t);   \
                                                                                        \
            if (entry->szName && !strcmp(entry->szName, "mod_remoteip.c"))              \
                *(ret_link) = entry;                                                    \
        }                                                                               \
    } while (0)

static int is_port_of_server(apr_port_t port)
{
    int i;

    for (i = 0; i < remoteip.ports->nelts; i++) {
        if (APR_ARRAY_IDX(remoteip.ports, i, apr_port_t) == port)
            return 1;
    }
    return 0;
}

/* mod_remoteip's hook, which also expects a PROXY header only if a listener of ap_listeners has
 * the connection's port (remoteip_is_server_port()).  Under worker and prefork a child process
 * has one listener left (vl_listener.h, vl_prefork.h), which gets the address meanwhile. */
static int call_connection_hook(conn_rec *c, void *csd)
{
    apr_sockaddr_t *kept;
    int rc;

    if (!ap_listeners || ap_listeners->next || !is_port_of_server(c->local_addr->port))
        return remoteip.connection_hook(c, csd);
    pthread_mutex_lock(&remoteip.lock);
    kept = ap_listeners->bind_addr;
    ap_listeners->bind_addr = c->local_addr;
    rc = remoteip.connection_hook(c, csd);
    ap_listeners->bind_addr = kept;
    pthread_mutex_unlock(&remoteip.lock);
    return rc;
}

void vl_remoteip_post_config(apr_pool_t *pconf)
{
    ap_LINK_post_read_request_t *link;
    ap_LINK_pre_connection_t *connection_link;
    const ap_listen_rec *lr;

    FIND_LINK(post_read_request, &link);
    remoteip.hook = link ? link->pFunc : NULL;
    FIND_LINK(pre_connection, &connection_link);
    remoteip.proxy_header = connection_link && is_on(ap_conftree, "RemoteIPProxyProtocol");
    if (remoteip.proxy_header) {
        remoteip.ports = apr_array_make(pconf, 4, sizeof(apr_port_t));
        for (lr = ap_listeners; lr; lr = lr->next)
            APR_ARRAY_PUSH(remoteip.ports, apr_port_t) = lr->bind_addr->port;
        remoteip.connection_hook = connection_link->pFunc;
        connection_link->pFunc = call_connection_hook;
    }
    remoteip.names = apr_array_make(pconf, 1, sizeof(const char *));
    if (remoteip.hook)
        collect_names(pconf, ap_conftree);
}

int vl_remoteip_is_used(void)
{
    return remoteip.hook && remoteip.names->nelts;
}

int vl_remoteip_expects_proxy_header(conn_rec *c)
{
    return remoteip.proxy_header && call_connection_hook(c, NULL) == OK;
}

/* Returns 1 for an address in any notation for which apr_sockaddr_info_get(), which mod_remoteip
 * calls, does not look up a name. */
static int is_address(apr_pool_t *p, const char *text, apr_size_t length)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    char *word = apr_pstrmemdup(p, text, length);
    struct in6_addr address;

    if (inet_pton(AF_INET, word, &address) == 1 || inet_pton(AF_INET6, word, &address) == 1)
        return 1;
    if (!length || getaddrinfo(word, NULL, &hints, &found))
        return 0;
    freeaddrinfo(found);
    return 1;
}

/* Returns the addresses at the end of the list, from where mod_remoteip reads it up to the first
 * word that is none, or NULL. */
static const char *addresses_at_end(apr_pool_t *p, const char *list)
{
    const char *end = list + strlen(list), *found = NULL;

    for (;;) {
        const char *word = end, *last = end;

        while (word > list && word[-1] != ',')
            word--;
        end = word - 1;                 /* the comma before the word */
        while (word < last && *word == ' ')
            word++;
        while (last > word && last[-1] == ' ')
            last--;
        if (!is_address(p, word, (apr_size_t)(last - word)))
            return found;
        found = word;
        if (end < list)
            return found;
    }
}

void vl_remoteip_apply(request_rec *r)
{
    apr_table_t *all = r->headers_in, *addresses = apr_table_make(r->pool, 2);
    int i;

    for (i = 0; i < remoteip.names->nelts; i++) {
        const char *name = APR_ARRAY_IDX(remoteip.names, i, const char *);
        const char *list = apr_table_get(all, name);

        if (list && (list = addresses_at_end(r->pool, list)))
            apr_table_setn(addresses, name, list);
    }
    if (!apr_is_empty_table(addresses)) {
        r->headers_in = addresses;
        remoteip.hook(r);
        r->headers_in = all;
    }
}
