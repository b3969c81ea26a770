/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fleet_link.h"

struct fleet_store_t {
    fleet_store_options_t options;
    fleet_link_t link;
    int is_open;
    size_t next;                    /* index of the address, or sentinel, to use next */
    char *address;                  /* of the store in use, or NULL */
};

fleet_store_t *fleet_store_new(const fleet_store_options_t *options)
{
    static const fleet_link_t closed = FLEET_LINK_CLOSED;
    fleet_store_t *store = ctl_alloc(sizeof(*store));

    store->options = *options;
    store->link = closed;
    return store;
}

static void disconnect(fleet_store_t *store)
{
    fleet_link_close(&store->link);
    store->is_open = 0;
}

void fleet_store_free(fleet_store_t *store)
{
    disconnect(store);
    free(store->address);
    free(store);
}

const char *fleet_store_address(const fleet_store_t *store)
{
    return store->address ? store->address : store->options.addresses[store->next];
}

/* --- errors ----------------------------------------------------------------- */

/* Fills in *error, ends the connection, and goes on to the next address. */
static ctl_exit_e fail(fleet_store_t *store, const char *what, const char *address,
                       const char *why, ctl_error_t *error)
{
    ctl_error_set(error, CTL_UNAVAILABLE, "the %s %s: %s", what, address, why);
    disconnect(store);
    store->next = (store->next + 1) % store->options.naddresses;
    return error->status;
}

static ctl_exit_e fail_store(fleet_store_t *store, const char *why, ctl_error_t *error)
{
    return fail(store, "store", fleet_store_address(store), why, error);
}

/* Returns NULL, or what is wrong with a reply that should be of the type. */
static const char *wrong_reply(const fleet_link_t *link, const redisReply *reply, int type)
{
    if (!reply)
        return link->why;
    if (reply->type == REDIS_REPLY_ERROR)
        return reply->str;
    return reply->type == type ? NULL : "an answer of another type than expected";
}

/* Checks a reply. Frees it if it is not of the type. Returns CTL_DONE or fills in *error. */
static ctl_exit_e check(fleet_store_t *store, redisReply *reply, int type, ctl_error_t *error)
{
    const char *wrong = wrong_reply(&store->link, reply, type);

    if (!wrong)
        return CTL_DONE;
    fail_store(store, wrong, error);
    if (reply)
        freeReplyObject(reply);
    return error->status;
}

/* --- connecting ------------------------------------------------------------- */

/* Authenticates a link that has just been opened. Returns 0, or -1 and sets link->why. */
static int authenticate(fleet_link_t *link, const char *user, const char *password)
{
    redisReply *reply;
    const char *wrong;

    if (!password)
        return 0;
    if (user)
        fleet_link_add(link, "AUTH %s %s", user, password);
    else
        fleet_link_add(link, "AUTH %s", password);
    reply = fleet_link_reply(link);
    wrong = wrong_reply(link, reply, REDIS_REPLY_STATUS);
    if (wrong && wrong != link->why)
        snprintf(link->why, sizeof(link->why), "%s", wrong);
    if (reply)
        freeReplyObject(reply);
    return wrong ? -1 : 0;
}

/* Returns the address in a sentinel's answer, which the caller frees, or NULL. */
static char *master_in(const redisReply *reply)
{
    const redisReply *host, *port;
    char *address;

    if (reply->elements != 2)
        return NULL;
    host = reply->element[0];
    port = reply->element[1];
    if (host->type != REDIS_REPLY_STRING || port->type != REDIS_REPLY_STRING)
        return NULL;
    address = ctl_printf(strchr(host->str, ':') ? "[%s]:%s" : "%s:%s", host->str, port->str);
    if (!fleet_link_is_address(address) || !strncmp(address, "unix:", 5)) {
        free(address);
        return NULL;
    }
    return address;
}

/* Asks a sentinel for the address of the master. Returns NULL, or what is wrong. */
static const char *ask_sentinel(fleet_store_t *store, const char *sentinel)
{
    const fleet_store_options_t *options = &store->options;
    fleet_link_t *link = &store->link;
    const char *wrong = NULL;
    redisReply *reply;
    char *address;

    if (fleet_link_open(link, sentinel, options->tls)
        || authenticate(link, options->sentinel_user, options->sentinel_password))
        return link->why;
    fleet_link_add(link, "SENTINEL get-master-addr-by-name %s", options->master);
    reply = fleet_link_reply(link);
    if (reply && reply->type == REDIS_REPLY_NIL)
        wrong = "it knows no master of that name";
    else
        wrong = wrong_reply(link, reply, REDIS_REPLY_ARRAY);
    if (!wrong) {
        address = master_in(reply);
        if (address) {
            free(store->address);
            store->address = address;
        }
        else
            wrong = "its answer is no address";
    }
    if (wrong && wrong != link->why) {
        snprintf(link->why, sizeof(link->why), "%s", wrong);
        wrong = link->why;
    }
    if (reply)
        freeReplyObject(reply);
    fleet_link_close(link);
    return wrong;
}

/* Asks the sentinels for the master: the next one if one fails at once. One that does not
 * answer takes the time of this interval. */
static ctl_exit_e find_master(fleet_store_t *store, ctl_error_t *error)
{
    long long deadline = ctl_now_ms() + FLEET_LINK_MS;
    size_t i;

    for (i = 0; i < store->options.naddresses && ctl_now_ms() < deadline; i++) {
        const char *sentinel = store->options.addresses[store->next];
        const char *wrong = ask_sentinel(store, sentinel);

        if (!wrong) {
            error->status = CTL_DONE;
            return CTL_DONE;
        }
        fail(store, "sentinel", sentinel, wrong, error);
    }
    return error->status;
}

static ctl_exit_e ensure_connected(fleet_store_t *store, ctl_error_t *error)
{
    const fleet_store_options_t *options = &store->options;

    if (store->is_open)
        return CTL_DONE;
    if (options->master) {
        if (find_master(store, error) != CTL_DONE)
            return error->status;
    }
    else {
        free(store->address);
        store->address = ctl_printf("%s", options->addresses[store->next]);
    }
    if (fleet_link_open(&store->link, store->address, options->tls)
        || authenticate(&store->link, options->user, options->password))
        return fail_store(store, store->link.why, error);
    store->is_open = 1;
    return CTL_DONE;
}

/* --- an interval ------------------------------------------------------------ */

/* Writes the report and reads the list of servers into *ret_servers, in one round trip. */
static ctl_exit_e announce(fleet_store_t *store, const char *report, size_t len,
                           fleet_store_fn take, void *data, redisReply **ret_servers,
                           ctl_error_t *error)
{
    static const int types[] = {
        REDIS_REPLY_STRING, REDIS_REPLY_STATUS, REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY
    };
    const fleet_store_options_t *options = &store->options;
    fleet_link_t *link = &store->link;
    redisReply *reply = NULL;
    int i;

    fleet_link_add(link, "GETRANGE vhostlimit:{%s}:report:%s 0 %d", options->fleet,
                   options->server, FLEET_REPORT_HEAD - 1);
    fleet_link_add(link, "SET vhostlimit:{%s}:report:%s %b PX %d", options->fleet,
                   options->server, report, len, FLEET_EXPIRE_MS);
    fleet_link_add(link, "SADD vhostlimit:{%s}:servers %s", options->fleet, options->server);
    fleet_link_add(link, "SMEMBERS vhostlimit:{%s}:servers", options->fleet);
    for (i = 0; i < 4; i++) {
        reply = fleet_link_reply(link);
        if (check(store, reply, types[i], error) != CTL_DONE)
            return error->status;
        if (!i)                     /* the first line of the report that is replaced */
            take(data, options->server, reply->len ? reply->str : NULL, (size_t)reply->len);
        if (i < 3)
            freeReplyObject(reply);
    }
    *ret_servers = reply;
    return CTL_DONE;
}

/* Reads the reports of the servers in one round trip. */
static ctl_exit_e read_reports(fleet_store_t *store, const char *const names[], size_t n,
                               fleet_store_fn take, void *data, ctl_error_t *error)
{
    char **words = ctl_alloc((n + 1) * sizeof(*words));
    redisReply *reply;
    size_t i;

    words[0] = ctl_printf("MGET");
    for (i = 0; i < n; i++)
        words[i + 1] = ctl_printf("vhostlimit:{%s}:report:%s", store->options.fleet, names[i]);
    fleet_link_add_words(&store->link, n + 1, (const char **)words);
    reply = fleet_link_reply(&store->link);
    for (i = 0; i <= n; i++)
        free(words[i]);
    free(words);
    if (check(store, reply, REDIS_REPLY_ARRAY, error) != CTL_DONE)
        return error->status;
    for (i = 0; i < n && i < reply->elements; i++) {
        const redisReply *report = reply->element[i];
        int is_there = report->type == REDIS_REPLY_STRING;

        take(data, names[i], is_there ? report->str : NULL,
             is_there ? (size_t)report->len : 0);
    }
    freeReplyObject(reply);
    return CTL_DONE;
}

ctl_exit_e fleet_store_exchange(fleet_store_t *store, const char *report, size_t len,
                                fleet_store_fn take, void *data, ctl_error_t *error)
{
    redisReply *servers = NULL;
    const char **names;
    ctl_exit_e status = ensure_connected(store, error);
    size_t i, n = 0;

    if (status == CTL_DONE)
        status = announce(store, report, len, take, data, &servers, error);
    if (status != CTL_DONE)
        return status;
    names = ctl_alloc((servers->elements + 1) * sizeof(*names));
    /* Those of the other servers. What is no name is ignored. */
    for (i = 0; i < servers->elements && n < FLEET_SERVERS_MAX; i++) {
        const redisReply *name = servers->element[i];

        if (name->type == REDIS_REPLY_STRING && strlen(name->str) == (size_t)name->len
            && strcmp(name->str, store->options.server)
            && fleet_report_is_server(name->str))
            names[n++] = name->str;
    }
    if (n)
        status = read_reports(store, names, n, take, data, error);
    free(names);
    freeReplyObject(servers);
    return status;
}

void fleet_store_remove(fleet_store_t *store, const char *server)
{
    redisReply *reply;

    if (!store->is_open)
        return;
    fleet_link_add(&store->link, "SREM vhostlimit:{%s}:servers %s", store->options.fleet,
                   server);
    reply = fleet_link_reply(&store->link);
    if (reply)
        freeReplyObject(reply);
    else
        disconnect(store);
}
