/* SPDX-License-Identifier: Apache-2.0 */
/* Titles of PostgreSQL's processes, and a server that sends what MariaDB never does. t/594 has the
 * real servers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <apr_general.h>

#include "tap.h"
#include "cost/vl_database.h"
#include "cost/vl_mysql.h"

static int has_user(const char *title, const char *expected)
{
    char user[64];

    return vl_database_title_user(title, user, sizeof(user)) && !strcmp(user, expected);
}

static void titles(void)
{
    char user[64];

    ok(has_user("postgres: shop wordpress [local] SELECT", "shop"), "a Unix socket");
    ok(has_user("postgres: 15/main: shop wordpress 127.0.0.1(40312) idle in transaction", "shop"),
       "TCP, with the name of the cluster");
    ok(has_user("postgres: shop wordpress ::1(40312) idle", "shop"), "IPv6");
    ok(!vl_database_title_user("postgres: checkpointer ", user, sizeof(user)), "a background process");
    ok(!vl_database_title_user("postgres: autovacuum worker wordpress", user, sizeof(user)),
       "another one");
    ok(!vl_database_title_user("", user, sizeof(user)), "nothing");
}

static char folder[] = "/tmp/vl_database.XXXXXX";

/* Sends the packets, of which each has its length in front, and reads nothing. Returns the number
 * of rows of the first answer, and the state. */
static int answer_to(apr_pool_t *p, const char *data, size_t n, vl_mysql_e *ret_state)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), server, rows;
    vl_mysql_t *m = vl_mysql_create(p);
    const vl_mysql_row_t *row;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
    bind(listener, (struct sockaddr *)&address, sizeof(address));
    listen(listener, 1);
    ok(vl_mysql_open(m, address.sun_path, "root"), "it connects");
    server = accept(listener, NULL, NULL);
    if (write(server, data, n) != (ssize_t)n)
        abort();
    rows = vl_mysql_answer(m, 20, &row);
    vl_mysql_ask(m);
    if (rows < 0)
        rows = vl_mysql_answer(m, 20, &row);
    *ret_state = vl_mysql_state(m);
    if (rows > 0)
        ok(row[0].id == 7 && row[0].tid == 4711 && row[0].sleeps && !strcmp(row[0].user, "shop"),
           "the row");
    vl_mysql_close(m);
    close(server);
    close(listener);
    unlink(address.sun_path);
    return rows;
}

#define GREETING "\x0c\0\0\0" "\x0a" "10.11\0" "\x05\0\0\0" "x"
#define OK "\7\0\0\2" "\0\0\0\2\0\0\0"
#define COLUMNS "\1\0\0\1" "\4" "\1\0\0\2" "c" "\5\0\0\3" "\xfe\0\0\2\0"
#define END "\5\0\0\6" "\xfe\0\0\2\0"
#define ANSWER(text) answer_to(p, text, sizeof(text) - 1, &state)

static void servers(apr_pool_t *p)
{
    vl_mysql_e state;
    char noise[4096];
    unsigned seed;
    size_t i;

    ok(ANSWER(GREETING OK COLUMNS "\x0e\0\0\4" "\1" "7" "\4" "4711" "\1" "1" "\4" "shop"
              "\x09\0\0\5" "\1" "5" "\2" "99" "\1" "0" "\1" "r" END) == 1 && state == VL_MYSQL_READY,
       "a row, and the own one");
    ok(ANSWER(GREETING OK COLUMNS "\x0e\0\0\4" "\1" "7" "\4" "4711" "\1" "1" "\xfa" "shop" END) == 0,
       "a row that is longer than its packet is none");
    ok(ANSWER(GREETING OK COLUMNS "\2\0\0\4" "\xfb\xfb" END) == 0, "a row without values is none");
    ok(ANSWER(GREETING OK "\xff\xff\xff\1") < 0 && state == VL_MYSQL_DENIED, "a packet of 16 MB");
    ok(ANSWER("\2\0\0\0" "\x0a" "x") < 0 && state == VL_MYSQL_DENIED, "a greeting that ends");
    ok(ANSWER(GREETING "\3\0\0\2" "\xff\x15\x04") < 0 && state == VL_MYSQL_DENIED, "access denied");
    ok(ANSWER(GREETING "\3\0\0\2" "\xff\x10\x04") < 0 && state == VL_MYSQL_CLOSED,
       "too many connections: it may try again");
    ok(ANSWER("\0\0\0\0") < 0 && state != VL_MYSQL_READY, "an empty packet");
    for (seed = 1; seed < 50; seed++) {
        srand(seed);
        for (i = 0; i < sizeof(noise); i++)
            noise[i] = (char)(i % 4 && rand() % 2 ? 0 : rand());
        answer_to(p, noise, sizeof(noise), &state);
    }
}

int main(void)
{
    apr_pool_t *p;

    apr_initialize();
    apr_pool_create(&p, NULL);
    titles();
    if (mkdtemp(folder))
        servers(p);
    rmdir(folder);
    apr_terminate();
    return tap_done();
}
