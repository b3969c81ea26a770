/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_store.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

struct fleet_store_t {
    fleet_store_options_t options;
    redisContext *context;          /* NULL: not connected */
    size_t address;                 /* index of the address in use */
};

fleet_store_t *fleet_store_new(const fleet_store_options_t *options)
{
    fleet_store_t *store = ctl_alloc(sizeof(*store));

    store->options = *options;
    return store;
}

static void disconnect(fleet_store_t *store)
{
    if (store->context)
        redisFree(store->context);
    store->context = NULL;
}

void fleet_store_free(fleet_store_t *store)
{
    disconnect(store);
    free(store);
}

const char *fleet_store_address(const fleet_store_t *store)
{
    return store->options.addresses[store->address];
}

/* --- errors ----------------------------------------------------------------- */

/* Fills in *error, ends the connection, and goes on to the next address. */
static ctl_exit_e fail(fleet_store_t *store, const char *why, ctl_error_t *error)
{
    ctl_error_set(error, CTL_UNAVAILABLE, "the store %s: %s", fleet_store_address(store), why);
    disconnect(store);
    store->address = (store->address + 1) % store->options.naddresses;
    return error->status;
}

/* Checks a reply. Frees it if it is not of the type. Returns CTL_DONE or fills in *error. */
static ctl_exit_e check(fleet_store_t *store, redisReply *reply, int type, ctl_error_t *error)
{
    ctl_exit_e status = CTL_DONE;

    if (!reply)
        return fail(store, store->context->errstr, error);
    if (reply->type == REDIS_REPLY_ERROR)
        status = fail(store, reply->str, error);
    else if (reply->type != type)
        status = fail(store, "an answer of another type than expected", error);
    if (status != CTL_DONE)
        freeReplyObject(reply);
    return status;
}

/* --- connecting ------------------------------------------------------------- */

/* Splits "HOST:PORT" or "[ADDRESS]:PORT". Returns the port; the caller frees *ret_host. */
static int split_address(const char *address, char **ret_host)
{
    const char *colon = strrchr(address, ':');
    char *host = ctl_printf("%.*s", (int)(colon - address), address);
    size_t len = strlen(host);

    if (*host == '[' && host[len - 1] == ']') {
        memmove(host, host + 1, len - 2);
        host[len - 2] = '\0';
    }
    *ret_host = host;
    return (int)strtol(colon + 1, NULL, 10);
}

static redisContext *connect_to(const char *address)
{
    const struct timeval limit = { FLEET_STORE_MS / 1000, FLEET_STORE_MS % 1000 * 1000 };
    redisContext *context;
    char *host;
    int port;

    if (!strncmp(address, "unix:", 5)) {
        context = redisConnectUnixWithTimeout(address + 5, limit);
    }
    else {
        port = split_address(address, &host);
        context = redisConnectWithTimeout(host, port, limit);
        free(host);
    }
    if (context && !context->err)
        redisSetTimeout(context, limit);
    return context;
}

static ctl_exit_e authenticate(fleet_store_t *store, ctl_error_t *error)
{
    const char *user = store->options.user, *password = store->options.password;
    redisReply *reply;
    ctl_exit_e status;

    if (!password)
        return CTL_DONE;
    reply = user ? redisCommand(store->context, "AUTH %s %s", user, password)
                 : redisCommand(store->context, "AUTH %s", password);
    status = check(store, reply, REDIS_REPLY_STATUS, error);
    if (status == CTL_DONE)
        freeReplyObject(reply);
    return status;
}

static ctl_exit_e ensure_connected(fleet_store_t *store, ctl_error_t *error)
{
    if (store->context)
        return CTL_DONE;
    store->context = connect_to(fleet_store_address(store));
    if (!store->context)
        return fail(store, "not enough memory", error);
    if (store->context->err)
        return fail(store, store->context->errstr, error);
    return authenticate(store, error);
}

/* --- an interval ------------------------------------------------------------ */

/* Takes over the report that is replaced. */
static ctl_exit_e read_own(fleet_store_t *store, fleet_store_fn take, void *data,
                           ctl_error_t *error)
{
    redisReply *reply = NULL;
    int is_there;

    redisGetReply(store->context, (void **)&reply);
    is_there = reply && reply->type == REDIS_REPLY_STRING;
    if (check(store, reply, is_there ? REDIS_REPLY_STRING : REDIS_REPLY_NIL, error)
        != CTL_DONE)
        return error->status;
    take(data, store->options.server, is_there ? reply->str : NULL,
         is_there ? (size_t)reply->len : 0);
    freeReplyObject(reply);
    return CTL_DONE;
}

/* Writes the report and reads the list of servers into *ret_servers, in one round trip. */
static ctl_exit_e announce(fleet_store_t *store, const char *report, size_t len,
                           fleet_store_fn take, void *data, redisReply **ret_servers,
                           ctl_error_t *error)
{
    static const int types[] = { REDIS_REPLY_STATUS, REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY };
    const fleet_store_options_t *options = &store->options;
    redisContext *context = store->context;
    redisReply *reply = NULL;
    int i;

    redisAppendCommand(context, "GET vhostlimit:{%s}:report:%s", options->fleet,
                       options->server);
    redisAppendCommand(context, "SET vhostlimit:{%s}:report:%s %b PX %d", options->fleet,
                       options->server, report, len, FLEET_EXPIRE_MS);
    redisAppendCommand(context, "SADD vhostlimit:{%s}:servers %s", options->fleet,
                       options->server);
    redisAppendCommand(context, "SMEMBERS vhostlimit:{%s}:servers", options->fleet);
    if (read_own(store, take, data, error) != CTL_DONE)
        return error->status;
    for (i = 0; i < 3; i++) {
        reply = NULL;
        redisGetReply(context, (void **)&reply);
        if (check(store, reply, types[i], error) != CTL_DONE)
            return error->status;
        if (i < 2)
            freeReplyObject(reply);
    }
    *ret_servers = reply;
    return CTL_DONE;
}

/* Returns the number of the other servers' names, which it copies to `names`. What is no name
 * is ignored. */
static size_t read_names(const fleet_store_t *store, const redisReply *servers,
                         const char *names[])
{
    size_t i, n = 0;

    for (i = 0; i < servers->elements && n < FLEET_SERVERS_MAX; i++) {
        const redisReply *name = servers->element[i];

        if (name->type == REDIS_REPLY_STRING && strlen(name->str) == (size_t)name->len
            && strcmp(name->str, store->options.server)
            && fleet_report_is_server(name->str))
            names[n++] = name->str;
    }
    return n;
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
    reply = redisCommandArgv(store->context, (int)n + 1, (const char **)words, NULL);
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
    size_t n;

    if (status == CTL_DONE)
        status = announce(store, report, len, take, data, &servers, error);
    if (status != CTL_DONE)
        return status;
    names = ctl_alloc((servers->elements + 1) * sizeof(*names));
    n = read_names(store, servers, names);
    if (n)
        status = read_reports(store, names, n, take, data, error);
    free(names);
    freeReplyObject(servers);
    return status;
}

void fleet_store_remove(fleet_store_t *store, const char *server)
{
    redisReply *reply;

    if (!store->context)
        return;
    reply = redisCommand(store->context, "SREM vhostlimit:{%s}:servers %s",
                         store->options.fleet, server);
    if (reply)
        freeReplyObject(reply);
}
