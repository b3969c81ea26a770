/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of Apache to the daemon, read in place. */
#include <stdlib.h>
#include <string.h>

#include "fleet_answer.h"
#include "tap.h"

#define HEAD "{\"generation\":7,\"clock_us\":123456,\"processors\":2,\"sites\":["

static char *text;
static fleet_answer_t answer;
static fleet_reading_t row;

static int begin(const char *from)
{
    free(text);
    text = strdup(from);
    return fleet_answer_begin(text, &answer);
}

static void rejects(const char *from, const char *why)
{
    int rv = begin(from);

    while (!rv && (rv = fleet_answer_next(&answer, &row)) == 1)
        rv = 0;
    ok(rv == -1, "rejected: %s", why);
}

int main(void)
{
    ok(!begin(HEAD "\n[\"a.example\",0,100,0,20,300,40,5],\n[\"b \\\"x\\\" \\u00e4\",12,1,2,3,4,5,6]\n]}\n"),
       "the head is read");
    ok(answer.generation == 7 && answer.clock_us == 123456 && answer.processors == 2, "its numbers");
    ok(fleet_answer_next(&answer, &row) == 1, "a row is read");
    ok(!strcmp(row.name, "a.example") && row.account == 0 && row.weight == 100 && row.cpu == 0
       && row.concurrency == 20 && row.charged_us == 300 && row.backlog_us == 40
       && row.requests == 5, "its fields");
    ok(fleet_answer_next(&answer, &row) == 1, "another row is read");
    ok(!strcmp(row.name, "b \"x\" \xc3\xa4") && row.account == 12 && row.requests == 6,
       "a name with escapes");
    ok(fleet_answer_next(&answer, &row) == 0, "the end");
    ok(!begin(HEAD "\n]}\n") && fleet_answer_next(&answer, &row) == 0, "an answer without sites");
    rejects("", "nothing");
    rejects("{\"generation\":-1,\"clock_us\":1,\"processors\":2,\"sites\":[\n]}\n", "a negative number");
    rejects(HEAD, "a head alone");
    rejects(HEAD "\n[\"a\",1,2,3,4,5,6]\n]}\n", "a row with a number less");
    rejects(HEAD "\n[\"a\",1,2,3,4,5,6,7,8]\n]}\n", "a row with a number more");
    rejects(HEAD "\n[\"a", "a name without an end");
    rejects(HEAD "\n[\"a\\", "an escape without an end");
    rejects(HEAD "\n[\"a\\q\",1,2,3,4,5,6,7]\n]}\n", "an escape that does not exist");
    rejects(HEAD "\n[\"a\",1,2,3,4,5,6,99999999999999999999999]\n]}\n", "a number that is too large");
    free(text);
    return tap_done();
}
