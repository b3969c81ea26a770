/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the control socket. Every call gets its bytes in memory of exactly their
 * size, so that a memory checker detects a read beyond them. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "control/vl_command.h"

static vl_command_t command;

static const char *parse_bytes(const char *bytes, apr_size_t len)
{
    char *exact = malloc(len ? len : 1);
    const char *wrong;

    memcpy(exact, bytes, len);
    memset(&command, 'x', sizeof(command));
    wrong = vl_command_parse(exact, len, &command);
    free(exact);
    return wrong;
}

static const char *parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static int is_wrong(const char *text, const char *why, const char *word)
{
    const char *wrong = parse(text);

    if (wrong && strstr(wrong, why) && !strcmp(command.word, word))
        return 1;
    printf("# %s, '%s'\n", wrong ? wrong : "nothing wrong", command.word);
    return 0;
}

static int value_is(vl_key_e key, const char *value)
{
    return command.values[key] && !strcmp(command.values[key], value);
}

static void commands(void)
{
    ok(!parse("status") && command.verb == VL_COMMAND_STATUS && !command.vhost,
       "status of all");
    ok(!parse("status\ta.test:80") && !strcmp(command.vhost, "a.test:80"),
       "status of one");
    ok(!parse("set\ta b\"<\xff\tweight=3\tcpu=50%")
       && command.verb == VL_COMMAND_SET
       && !strcmp(command.vhost, "a b\"<\xff")
       && command.keys == (VL_KEY_BIT(VL_KEY_weight) | VL_KEY_BIT(VL_KEY_cpu))
       && value_is(VL_KEY_weight, "3") && value_is(VL_KEY_cpu, "50%"),
       "set, of a name with any bytes");
    ok(!parse("set\ta\tqueue=") && value_is(VL_KEY_queue, ""),
       "an empty value is accepted here");
    ok(!parse("set\ta\tqueue=a=b") && value_is(VL_KEY_queue, "a=b"),
       "the first = separates key and value");
    ok(!parse("reset\ta") && command.verb == VL_COMMAND_RESET && !command.keys,
       "reset of all keys");
    ok(!parse("reset\ta\tqueue\tconcurrency")
       && command.keys == (VL_KEY_BIT(VL_KEY_queue)
                           | VL_KEY_BIT(VL_KEY_concurrency))
       && !command.values[VL_KEY_queue], "reset of two");
    ok(!parse("modules") && command.verb == VL_COMMAND_MODULES
       && !command.vhost, "modules");
    ok(!parse("set\ta\tmemory=1G\tfor=7200") && command.number == 7200
       && command.keys == VL_KEY_BIT(VL_KEY_memory), "set for a time");
    ok(!parse("setplan\tgold\tweight=3") && command.verb == VL_COMMAND_SETPLAN
       && !strcmp(command.vhost, "gold"), "a plan");
    ok(!parse("resetplan\tgold\tio") && command.keys == VL_KEY_BIT(VL_KEY_io),
       "reset of a plan");
    ok(!parse("plans") && !command.vhost, "plans");
    ok(!parse("bulk\t16777216") && command.number == 16777216, "bulk");
    ok(!parse("figures") && command.verb == VL_COMMAND_FIGURES
       && !command.vhost, "figures");
    ok(!parse("sandbox\ta.test") && command.verb == VL_COMMAND_SANDBOX
       && !strcmp(command.vhost, "a.test"), "sandbox");
}

static void errors(void)
{
    ok(is_wrong("", "no such command", ""), "an empty line");
    ok(is_wrong("sets\ta\tweight=1", "no such command", "sets"), "an unknown verb");
    ok(is_wrong("status ", "no such command", "status "), "a blank is not a tab");
    ok(is_wrong("modules\ta", "one word too many", "a"), "modules with an argument");
    ok(is_wrong("figures\ta", "one word too many", "a"), "figures with an argument");
    ok(is_wrong("set", "no site", "set"), "set without a site");
    ok(is_wrong("set\t\tweight=1", "no name", ""), "an empty vhost");
    ok(is_wrong("set\ta", "nothing to be set", "set"), "nothing to set");
    ok(is_wrong("set\ta\tweight", "key=value", "weight"), "no value");
    ok(is_wrong("set\ta\twieght=1", "no such key", "wieght"), "an unknown key");
    ok(is_wrong("set\ta\tmode=on", "no such key", "mode"),
       "a limit that cannot be changed");
    ok(is_wrong("set\ta\t", "key=value", ""), "an empty word");
    ok(is_wrong("set\ta\tcpu=1\tcpu=2", "twice", "cpu"), "a key twice");
    ok(is_wrong("reset\ta\tweight=1", "no such key", "weight=1"),
       "a value for reset");
    ok(is_wrong("set\ta\tfor=5", "nothing to be set", "set"), "a time alone");
    ok(is_wrong("set\ta\tweight=1\tfor=0", "no number of seconds", "0"), "no time");
    ok(is_wrong("set\ta\tweight=1\tfor=2h", "no number of seconds", "2h"), "a unit");
    ok(is_wrong("reset\ta\tfor", "no such key", "for"), "a time for reset");
    ok(is_wrong("bulk\t16777217", "no number of bytes", "16777217"), "too much");
    ok(is_wrong("bulk\t0", "no number of bytes", "0"), "nothing in bulk");
    ok(is_wrong("plans\tgold", "one word too many", "gold"), "one of the plans");
    ok(is_wrong("status\ta\tb", "too many", "b"), "a word too many");
}

static void bytes(void)
{
    char line[VL_COMMAND_MAX + 1];

    ok(parse_bytes("status\0\ta", 9) != NULL, "a NUL");
    ok(parse("status\nset") != NULL && parse("status\r") != NULL, "line ends");
    memset(line, 'a', sizeof(line));
    memcpy(line, "status\t", 7);
    ok(parse_bytes(line, VL_COMMAND_MAX - 1) != NULL, "a vhost too long");
    ok(parse_bytes(line, VL_COMMAND_MAX) != NULL, "a line too long");
    ok(!parse_bytes(line, 7 + VL_NAME_SIZE - 1), "the longest name");
    memset(line, '\t', sizeof(line));
    ok(parse_bytes(line, VL_COMMAND_MAX - 1) != NULL, "tabs alone");
}

static void of_the_fleet(void)
{
    ok(!parse("fleet") && command.verb == VL_COMMAND_FLEET && !command.all, "active sites");
    ok(!parse("fleet\tall") && command.all, "all sites");
    ok(is_wrong("fleet\tsome", "one word too many", "some"), "no other word");
    ok(!parse("lease\t7\t3000") && command.verb == VL_COMMAND_LEASE
       && command.generation == 7 && command.milliseconds == 3000 && !command.nleases,
       "leases are renewed");
    ok(!parse("lease\t7\t3000\t0=1000,0,0\t12=99500,333,4") && command.nleases == 2
       && command.leases[1].account == 12 && command.leases[1].part.weight_milli == 99500
       && command.leases[1].part.cpu_permille == 333
       && command.leases[1].part.concurrency == 4, "and made");
    ok(is_wrong("lease", "no number of a configuration", "lease"), "for a configuration");
    ok(is_wrong("lease\t7\t10001", "no time", "10001"), "for ten seconds at most");
    ok(is_wrong("lease\t7\t1\t1=1,1", "not of the form", "1=1,1"), "of three numbers");
    ok(is_wrong("lease\t7\t1\t1=10000001,1,1", "not of the form", "1=10000001,1,1"),
       "with a weight that a site may have");
    ok(is_wrong("lease\t7\t1\t1=1,1,-1", "not of the form", "1=1,1,-1"), "none below 0");
    ok(is_wrong("lease\t99999999999\t1", "no number of a configuration", "99999999999"),
       "and without overflow");
}

int main(void)
{
    commands();
    errors();
    bytes();
    of_the_fleet();
    return tap_done();
}
