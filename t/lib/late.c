/* SPDX-License-Identifier: Apache-2.0 */
/* A module with hooks at wrong positions: before mod_vhostlimit where that should be first,
 * behind it where that should be last. */
#include <httpd.h>
#include <http_config.h>
#include <http_protocol.h>
#include <http_request.h>

static int decline(request_rec *r)
{
    return DECLINED;
}

static int decline_lookup(request_rec *r, int lookup)
{
    return DECLINED;
}

static void register_hooks(apr_pool_t *p)
{
    static const char *const ours[] = { "mod_vhostlimit.c", NULL };

    ap_hook_post_read_request(decline, ours, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_quick_handler(decline_lookup, NULL, ours, APR_HOOK_REALLY_FIRST);
    ap_hook_log_transaction(decline, NULL, ours, APR_HOOK_REALLY_FIRST);
}

module AP_MODULE_DECLARE_DATA late_module = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks
};
