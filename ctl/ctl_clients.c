/* SPDX-License-Identifier: Apache-2.0 */
/* The command clients: the classes of a site and its clients that used most CPU time while
 * requests waited. */
#include "ctl_command.h"

#include <stdlib.h>
#include <string.h>

/* Clients in the text. */
#define CLIENTS_SHOWN 20

int ctl_clients_is_sound(json_t *answer)
{
    json_t *row;
    const char *text;
    json_int_t n;
    int flag;
    size_t i;

    if (json_unpack(answer, "{s:s, s:b, s:s, s:b, s:I, s:I, s:o, s:o, s:o}", "site", &text,
                    "clients_share", &flag, "known", &text, "contended", &flag, "waiting", &n,
                    "clients_waiting", &n, "most", &row, "classes", &row, "clients", &row))
        return 0;
    /* The address of a client may be null, and "most" too. */
    row = json_object_get(answer, "most");
    if (!json_is_null(row) && json_unpack(row, "{s:o, s:I}", "address", &row, "waiting", &n))
        return 0;
    json_array_foreach(json_object_get(answer, "classes"), i, row) {
        if (json_unpack(row, "{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", &text, "weight",
                        &n, "waiting", &n, "requests", &n, "cpu_us", &n, "known_requests", &n,
                        "known_cpu_us", &n))
            return 0;
    }
    json_array_foreach(json_object_get(answer, "clients"), i, row) {
        if (json_unpack(row, "{s:s, s:s, s:b, s:I, s:I, s:I}", "address", &text, "class",
                        &text, "known", &flag, "requests", &n, "cpu_us", &n, "idle_s", &n))
            return 0;
    }
    return json_is_array(json_object_get(answer, "classes"))
           && json_is_array(json_object_get(answer, "clients"));
}

static void put_word(const char *word, int width)
{
    char *text = ctl_plain(ctl_printf("%s", word));

    printf("%-*s", width, text);
    free(text);
}

static void print_classes(const json_t *classes, int known)
{
    json_t *row;
    size_t i;

    printf("%-32s %6s %8s %10s %12s%s\n", "CLASS", "WEIGHT", "WAITING", "REQUESTS", "CPU s",
           known ? "   of known clients" : "");
    json_array_foreach(classes, i, row) {
        put_word(ctl_text_of(row, "name"), 32);
        printf(" %6" JSON_INTEGER_FORMAT " %8" JSON_INTEGER_FORMAT " %10" JSON_INTEGER_FORMAT
               " %12.3f", ctl_number_of(row, "weight"), ctl_number_of(row, "waiting"),
               ctl_number_of(row, "requests"),
               (double)ctl_number_of(row, "cpu_us") / 1e6);
        if (known)
            printf(" %18.3f", (double)ctl_number_of(row, "known_cpu_us") / 1e6);
        putchar('\n');
    }
}

static void print_clients(const json_t *clients, int known)
{
    json_t *row;
    size_t i;

    printf("\n%-43s %-16s %10s %12s %8s%s\n", "CLIENT", "CLASS", "REQUESTS", "CPU s",
           "AGO s", known ? " KNOWN" : "");
    json_array_foreach(clients, i, row) {
        if (i == CLIENTS_SHOWN) {
            printf("and %zu more (--json)\n", json_array_size(clients) - i);
            break;
        }
        put_word(ctl_text_of(row, "address"), 43);
        putchar(' ');
        put_word(ctl_text_of(row, "class"), 16);
        printf(" %10" JSON_INTEGER_FORMAT " %12.3f %8" JSON_INTEGER_FORMAT "%s\n",
               ctl_number_of(row, "requests"), (double)ctl_number_of(row, "cpu_us") / 1e6,
               ctl_number_of(row, "idle_s"),
               !known ? "" : json_is_true(json_object_get(row, "known")) ? " yes" : " no");
    }
}

static void print_text(const json_t *answer)
{
    const json_t *clients = json_object_get(answer, "clients");
    const json_t *most = json_object_get(answer, "most");
    const char *address = ctl_text_of(most, "address");
    json_int_t waiting = ctl_number_of(answer, "waiting"), n = ctl_number_of(answer, "clients_waiting");
    int known = strcmp(ctl_text_of(answer, "known"), "off") != 0;

    ctl_put_plain(stdout, ctl_text_of(answer, "site"));
    printf(": %s. Only requests while others of the site were queued are counted.\n\n",
           json_is_true(json_object_get(answer, "contended"))
           ? "requests are queued, or were in the last second" : "no request is queued");
    /* How many clients wait, and how much the first of them has of the queue. */
    if (waiting && json_is_object(most))
        printf("%" JSON_INTEGER_FORMAT " request%s of %" JSON_INTEGER_FORMAT " client%s wait%s; "
               "one client%s%s%s has %" JSON_INTEGER_FORMAT " of them.\n\n", waiting,
               ctl_plural(waiting), n, ctl_plural(n), waiting == 1 ? "s" : "",
               *address ? " (" : "", address, *address ? ")" : "",
               ctl_number_of(most, "waiting"));
    print_classes(json_object_get(answer, "classes"), known);
    if (!json_is_true(json_object_get(answer, "clients_share")))
        puts("\nVhostLimitClients is Off: the clients are not counted.");
    else if (!json_array_size(clients))
        puts("\nNo client has been counted.");
    else
        print_clients(clients, known);
}

ctl_exit_e ctl_clients_ask(const ctl_call_t *call, const char *site,
                           ctl_answer_t *ret_answer, ctl_error_t *error)
{
    const char *words[] = { "clients", site, NULL };
    ctl_exit_e status = ctl_client_ask(call->socket, words, NULL, ret_answer, error);

    if (status == CTL_DONE && !ctl_clients_is_sound(ret_answer->json))
        status = ctl_error_set(error, CTL_UNAVAILABLE, "the answer is not a list of clients; "
                               "is the module older than this program?");
    return status;
}

ctl_exit_e ctl_clients(const ctl_call_t *call, ctl_error_t *error)
{
    ctl_answer_t answer = { 0 };
    ctl_exit_e status = ctl_clients_ask(call, call->args[0], &answer, error);

    if (status == CTL_DONE && call->json)
        printf("%s", answer.text);
    else if (status == CTL_DONE)
        print_text(answer.json);
    ctl_client_free(&answer);
    return status;
}
