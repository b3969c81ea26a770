/* SPDX-License-Identifier: Apache-2.0 */
#include "config/vl_remoteip.h"

#include <arpa/inet.h>

#include <apr_strings.h>
#include <http_config.h>
#include <http_protocol.h>

static struct {
    ap_HOOK_post_read_request_t *hook;  /* NULL: mod_remoteip is not loaded */
    int proxy_header;
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

void vl_remoteip_post_config(void)
{
    const apr_array_header_t *hooks = ap_hook_get_post_read_request();
    int i;

    remoteip.hook = NULL;
    for (i = 0; hooks && i < hooks->nelts; i++) {
        const ap_LINK_post_read_request_t *link = &APR_ARRAY_IDX(hooks, i,
                                                                 ap_LINK_post_read_request_t);

        if (link->szName && !strcmp(link->szName, "mod_remoteip.c"))
            remoteip.hook = link->pFunc;
    }
    remoteip.proxy_header = remoteip.hook && is_on(ap_conftree, "RemoteIPProxyProtocol");
}

int vl_remoteip_is_used(void)
{
    return remoteip.hook != NULL;
}

int vl_remoteip_expects_proxy_header(void)
{
    return remoteip.proxy_header;
}

/* Returns 1 if the value is a list of addresses. */
static int is_addresses(apr_pool_t *p, const char *value)
{
    char *rest = apr_pstrdup(p, value), *word, *last;
    struct in6_addr address;
    int n = 0;

    for (word = apr_strtok(rest, ", \t", &last); word;
         word = apr_strtok(NULL, ", \t", &last), n++) {
        if (inet_pton(AF_INET, word, &address) != 1
            && inet_pton(AF_INET6, word, &address) != 1)
            return 0;
    }
    return n > 0;
}

void vl_remoteip_apply(request_rec *r)
{
    apr_table_t *all = r->headers_in, *addresses;
    const apr_array_header_t *fields = apr_table_elts(all);
    int i;

    if (!remoteip.hook)
        return;
    addresses = apr_table_make(r->pool, 2);
    for (i = 0; i < fields->nelts; i++) {
        const apr_table_entry_t *field = &APR_ARRAY_IDX(fields, i, apr_table_entry_t);

        if (is_addresses(r->pool, field->val))
            apr_table_addn(addresses, field->key, field->val);
    }
    if (!apr_is_empty_table(addresses)) {
        r->headers_in = addresses;
        remoteip.hook(r);
        r->headers_in = all;
    }
}
