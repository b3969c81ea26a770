/* SPDX-License-Identifier: Apache-2.0 */
/* The command fleet: what vhostlimit-fleet beside this server knows of the fleet. The daemon
 * answers over a socket of its own, in the way that the server does. */
#include "ctl_command.h"

/* Where the daemon's socket is unless its configuration says otherwise. */
#define SOCKET "/run/vhostlimit-fleet.sock"

/* Microseconds of CPU time in a second as per cent of a processor. */
static double percent_of(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key)) / 1e4;
}

/* Prints a label and a text from the answer. */
static void put_text(const char *label, const json_t *json, const char *key)
{
    printf("%s", label);
    ctl_put_plain(stdout, ctl_text_of(json, key));
}

static void print_head(const json_t *json)
{
    put_text("fleet ", json, "fleet");
    put_text(", server ", json, "server");
    put_text(", store ", json, "store");
    put_text(": ", json, "state");
    printf("\n%zu servers, %" JSON_INTEGER_FORMAT " active sites; %" JSON_INTEGER_FORMAT
           " servers have less CPU time than their sites want\n",
           json_array_size(json_object_get(json, "servers")), ctl_number_of(json, "fleet_sites"),
           ctl_number_of(json, "contended"));
    if (*ctl_text_of(json, "reason")) {
        put_text("PROBLEM: ", json, "reason");
        putchar('\n');
    }
    if (ctl_number_of(json, "rejected")) {
        printf("PROBLEM: %" JSON_INTEGER_FORMAT " reports were not valid, the last one of ",
               ctl_number_of(json, "rejected"));
        put_text("", json, "rejected_why");
        putchar('\n');
    }
}

static void print_servers(const json_t *servers)
{
    size_t i;
    json_t *server;

    printf("\n%9s %9s %7s %7s  SERVER\n", "CAPACITY", "USED", "SITES", "AGE");
    json_array_foreach(servers, i, server) {
        printf("%8.1f%% %8.1f%% %7" JSON_INTEGER_FORMAT " %5.1f s  ",
               percent_of(server, "capacity_us"), percent_of(server, "used_us"),
               ctl_number_of(server, "sites"), (double)ctl_number_of(server, "age_ms") / 1000);
        put_text("", server, "name");
        putchar('\n');
    }
}

static void print_sites(const json_t *sites)
{
    size_t i;
    json_t *site;

    printf("\nSites of this server; CPU time in per cent of a processor:\n"
           "%9s %9s %9s %9s %9s %7s  SITE\n", "WEIGHT", "USED", "ALLOCATED", "FLEET",
           "ALLOCATED", "SERVERS");
    json_array_foreach(sites, i, site) {
        printf("%9.1f %8.1f%% %8.1f%% %8.1f%% %8.1f%% %7" JSON_INTEGER_FORMAT "  ",
               json_number_value(json_object_get(site, "weight")),
               percent_of(site, "used_us"), percent_of(site, "allocated_us"),
               percent_of(site, "fleet_used_us"), percent_of(site, "fleet_allocated_us"),
               ctl_number_of(site, "servers"));
        put_text("", site, "name");
        if (ctl_number_of(site, "cpu_us"))
            printf(" (CPU limit here: %.1f%%)", percent_of(site, "cpu_us"));
        if (ctl_number_of(site, "concurrency"))
            printf(" (concurrency here: %" JSON_INTEGER_FORMAT ")",
                   ctl_number_of(site, "concurrency"));
        putchar('\n');
    }
}

ctl_exit_e ctl_fleet(const ctl_call_t *call, ctl_error_t *error)
{
    static const char *const words[] = { "fleet", NULL };
    ctl_answer_t answer;
    ctl_exit_e status = ctl_client_ask(call->socket ? call->socket : SOCKET, words, NULL, &answer,
                                       error);

    if (status != CTL_DONE)
        return status;
    if (!json_is_array(json_object_get(answer.json, "servers")))
        status = ctl_error_set(error, CTL_UNAVAILABLE, "this is not the socket of "
                               "vhostlimit-fleet");
    else if (call->json)
        printf("%s", answer.text);
    else {
        print_head(answer.json);
        print_servers(json_object_get(answer.json, "servers"));
        print_sites(json_object_get(answer.json, "sites"));
    }
    ctl_client_free(&answer);
    return status;
}
