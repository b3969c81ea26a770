/* SPDX-License-Identifier: Apache-2.0 */
#include "control/vl_command.h"

#include <string.h>

static const char *const verbs[] = { "status", "set", "reset", "clients", "modules",
                                    "figures" };

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
        if (!strcmp(word, verbs[i])) {
            command->verb = i;
            return NULL;
        }
    }
    return "no such command";
}

/* Returns 1 if the command is about the whole server. */
static int takes_no_site(const vl_command_t *command)
{
    return command->verb == VL_COMMAND_MODULES || command->verb == VL_COMMAND_FIGURES;
}

static const char *parse_vhost(const char *word, vl_command_t *command)
{
    command->word = command->text;
    if (!word)
        return command->verb == VL_COMMAND_STATUS || takes_no_site(command)
               ? NULL : "no site is named";
    command->word = word;
    if (takes_no_site(command))
        return "one word too many";
    if (!*word || strlen(word) >= VL_NAME_SIZE)
        return "no name of a site";
    command->vhost = word;
    return NULL;
}

/* Parses KEY of a reset command or KEY=VALUE of a set command. */
static const char *parse_key(char *word, vl_command_t *command)
{
    char *equals = command->verb == VL_COMMAND_SET ? strchr(word, '=') : NULL;
    vl_key_e key;

    command->word = word;
    if (command->verb == VL_COMMAND_STATUS || command->verb == VL_COMMAND_CLIENTS)
        return "one word too many";
    if (command->verb == VL_COMMAND_SET && !equals)
        return "not of the form key=value";
    if (equals)
        *equals++ = '\0';
    key = vl_override_key(word);
    if (key == VL_KEY_COUNT)
        return "no such key: there are weight, concurrency, queue and cpu";
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
    if (command->verb == VL_COMMAND_SET && !command->keys)
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
