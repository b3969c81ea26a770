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
    ok(!parse("figures") && command.verb == VL_COMMAND_FIGURES
       && !command.vhost, "figures");
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

int main(void)
{
    commands();
    errors();
    bytes();
    return tap_done();
}
