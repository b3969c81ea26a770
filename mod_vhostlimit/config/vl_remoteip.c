/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_remoteip.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include <apr_strings.h>
#include <http_config.h>
#include <http_connection.h>
#include <http_protocol.h>

static struct {
    ap_HOOK_post_read_request_t *hook;  /* NULL: mod_remoteip is not loaded */
    ap_HOOK_pre_connection_t *connection_hook;
    int proxy_header;
    apr_array_header_t *names;          /* const char *, of RemoteIPHeader */
} remoteip;

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

#define FIND_HOOK(name, ret_hook)                                                       \
    do {                                                                                \
        const apr_array_header_t *hooks = ap_hook_get_##name();                         \
        int i;                                                                          \
                                                                                        \
        *(ret_hook) = NULL;                                                             \
        for (i = 0; hooks && i < hooks->nelts; i++) {                                   \
            const ap_LINK_##name##_t *link = &APR_ARRAY_IDX(hooks, i, ap_LINK_##name##_t); \
                                                                                        \
            if (link->szName && !strcmp(link->szName, "mod_remoteip.c"))                \
                *(ret_hook) = link->pFunc;                                              \
        }                                                                               \
    } while (0)

void vl_remoteip_post_config(apr_pool_t *pconf)
{
    FIND_HOOK(post_read_request, &remoteip.hook);
    FIND_HOOK(pre_connection, &remoteip.connection_hook);
    remoteip.proxy_header = remoteip.connection_hook
                            && is_on(ap_conftree, "RemoteIPProxyProtocol");
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
    return remoteip.proxy_header && remoteip.connection_hook(c, NULL) == OK;
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
