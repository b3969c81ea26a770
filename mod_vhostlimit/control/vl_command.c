/* SPDX-License-Identifier: Apache-2.0 */
#include "control/vl_command.h"

#include <string.h>

#include "base/vl_value.h"

/* The words of a command. */
static const struct verb_t {
    const char *name;
    enum { NO_NAME, MAY_NAME, MUST_NAME } vhost;
    enum { NO_KEYS, KEYS, VALUES } keys;
} verbs[] = {
    [VL_COMMAND_STATUS] = { "status", MAY_NAME, NO_KEYS },
    [VL_COMMAND_SET] = { "set", MUST_NAME, VALUES },
    [VL_COMMAND_RESET] = { "reset", MUST_NAME, KEYS },
    [VL_COMMAND_CLIENTS] = { "clients", MUST_NAME, NO_KEYS },
    [VL_COMMAND_MODULES] = { "modules", NO_NAME, NO_KEYS },
    [VL_COMMAND_SETPLAN] = { "setplan", MUST_NAME, VALUES },
    [VL_COMMAND_RESETPLAN] = { "resetplan", MUST_NAME, KEYS },
    [VL_COMMAND_PLANS] = { "plans", NO_NAME, NO_KEYS },
    [VL_COMMAND_BULK] = { "bulk", MUST_NAME, NO_KEYS },
    [VL_COMMAND_SAVEFILE] = { "savefile", NO_NAME, NO_KEYS }
};

/* Returns the next word and moves *at behind it; NULL: there are no more words. */
static char *next_word(char **at)
{
    char *word = *at;
    char *tab;

    if (!word)
        return NULL;
    tab = strchr(word, '\t');
    if (tab)
        *tab++ = '\0';
    *at = tab;
    return word;
}

static const char *parse_verb(const char *word, vl_command_t *command)
{
    unsigned i;

    command->word = word;
    for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (!strcmp(word, verbs[i].name)) {
            command->verb = i;
            return NULL;
        }
    }
    return "no such command";
}

static const char *parse_vhost(const char *word, vl_command_t *command)
{
    command->word = command->text;
    if (!word)
        return verbs[command->verb].vhost == MUST_NAME ? "no site is named" : NULL;
    command->word = word;
    if (verbs[command->verb].vhost == NO_NAME)
        return "one word too many";
    if (command->verb == VL_COMMAND_BULK
        && !vl_value_number(word, '\0', 1, VL_COMMAND_BULK_MAX, &command->number))
        return "no number of bytes up to 16777216";
    if (!*word || strlen(word) >= VL_NAME_SIZE)
        return "no name of a site";
    command->vhost = word;
    return NULL;
}

/* Parses KEY of a reset command, or KEY=VALUE or for=SECONDS of a set command. */
static const char *parse_key(char *word, vl_command_t *command)
{
    int has_values = verbs[command->verb].keys == VALUES;
    char *equals = has_values ? strchr(word, '=') : NULL;
    vl_key_e key;

    command->word = word;
    if (verbs[command->verb].keys == NO_KEYS)
        return "one word too many";
    if (has_values && !equals)
        return "not of the form key=value";
    if (equals)
        *equals++ = '\0';
    if (equals && !strcmp(word, "for")) {
        command->word = equals;
        return vl_value_number(equals, '\0', 1, VL_COMMAND_FOR_MAX, &command->number)
               ? NULL : "no number of seconds from 1 to 31622400";
    }
    key = vl_override_key(word);
    if (key == VL_KEY_COUNT)
        return "no such key: there are weight, concurrency, queue, cpu, memory, processes "
               "and io";
    if (command->keys & VL_KEY_BIT(key))
        return "a key that is named twice";
    command->keys |= VL_KEY_BIT(key);
    command->values[key] = equals;
    return NULL;
}

static const char *parse_words(vl_command_t *command)
{
    char *at = command->text, *word;
    const char *wrong = parse_verb(next_word(&at), command);

    if (!wrong)
        wrong = parse_vhost(next_word(&at), command);
    while (!wrong && (word = next_word(&at)))
        wrong = parse_key(word, command);
    if (wrong)
        return wrong;
    command->word = command->text;
    if (verbs[command->verb].keys == VALUES && !command->keys)
        return "nothing to be set";
    return NULL;
}

/* Returns 0 if the line contains a zero byte or a line break.  All other bytes are allowed,
 * because a ServerName may contain them. */
static int is_text(const char *line, apr_size_t len)
{
    apr_size_t i;

    for (i = 0; i < len; i++) {
        if (!line[i] || line[i] == '\n' || line[i] == '\r')
            return 0;
    }
    return 1;
}

const char *vl_command_parse(const char *line, apr_size_t len,
                             vl_command_t *ret_command)
{
    memset(ret_command, 0, sizeof(*ret_command));
    ret_command->word = "";
    if (len >= VL_COMMAND_MAX)
        return "a command that is too long";
    if (!is_text(line, len))
        return "a command with a byte in it that is no text";
    memcpy(ret_command->text, line, len);
    return parse_words(ret_command);
}
