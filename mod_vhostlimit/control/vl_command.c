/* SPDX-License-Identifier: Apache-2.0 */
#include "control/vl_command.h"

#include <stddef.h>
#include <string.h>

#include "base/vl_value.h"
#include "core/vl_fair.h"

/* The words of a command.  parse_words() parses those of "fleet", and parse_leases() those of
 * "lease". */
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
    [VL_COMMAND_FIGURES] = { "figures", NO_NAME, NO_KEYS },
    [VL_COMMAND_SETPLAN] = { "setplan", MUST_NAME, VALUES },
    [VL_COMMAND_RESETPLAN] = { "resetplan", MUST_NAME, KEYS },
    [VL_COMMAND_PLANS] = { "plans", NO_NAME, NO_KEYS },
    [VL_COMMAND_BULK] = { "bulk", MUST_NAME, NO_KEYS },
    [VL_COMMAND_SAVEFILE] = { "savefile", NO_NAME, NO_KEYS },
    [VL_COMMAND_FLEET] = { "fleet", NO_NAME, NO_KEYS },
    [VL_COMMAND_LEASE] = { "lease", NO_NAME, NO_KEYS },
    [VL_COMMAND_SANDBOX] = { "sandbox", MUST_NAME, NO_KEYS },
    [VL_COMMAND_MINE] = { "mine", MAY_NAME, NO_KEYS }
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

/* --- vhostlimit-fleet ------------------------------------------------------- */

/* Reads a whole number up to most and the byte behind it. Returns 0, or -1 if there is no
 * such number. */
static int read_number(const char **at, char end, apr_uint32_t most,
                       apr_uint32_t *ret_number)
{
    const char *digit = *at;
    apr_uint64_t number = 0;

    for (; *digit >= '0' && *digit <= '9' && number <= most; digit++)
        number = number * 10 + (apr_uint64_t)(*digit - '0');
    if (digit == *at || *digit != end || number > most)
        return -1;
    *at = digit + 1;
    *ret_number = (apr_uint32_t)number;
    return 0;
}

/* Parses ACCOUNT=WEIGHT,CPU,CONCURRENCY. */
static const char *parse_lease(const char *word, vl_command_t *command)
{
    vl_fleet_lease_t *lease = &command->leases[command->nleases];

    command->word = word;
    if (command->nleases == VL_COMMAND_LEASES)
        return "one site too many";
    if (read_number(&word, '=', APR_INT32_MAX, &lease->account)
        || read_number(&word, ',', VL_WEIGHT_MAX * 1000, &lease->part.weight_milli)
        || read_number(&word, ',', APR_INT32_MAX, &lease->part.cpu_permille)
        || read_number(&word, '\0', APR_INT32_MAX, &lease->part.concurrency))
        return "not of the form account=weight,cpu,concurrency";
    command->nleases++;
    return NULL;
}

static const char *parse_leases(char *at, vl_command_t *command)
{
    const char *word = next_word(&at), *wrong = NULL;

    command->word = word ? word : "lease";
    if (!word || read_number(&word, '\0', APR_UINT32_MAX, &command->generation))
        return "no number of a configuration";
    word = next_word(&at);
    command->word = word ? word : "lease";
    if (!word || read_number(&word, '\0', VL_FLEET_LEASE_MAX_US / 1000,
                             &command->milliseconds))
        return "no time of a lease in milliseconds";
    while (!wrong && (word = next_word(&at)))
        wrong = parse_lease(word, command);
    return wrong;
}

/* --- all commands ----------------------------------------------------------- */

static const char *parse_words(vl_command_t *command)
{
    char *at = command->text, *word;
    const char *wrong;

    command->word = next_word(&at);
    while (strcmp(command->word, verbs[command->verb].name)) {
        if (++command->verb == sizeof(verbs) / sizeof(verbs[0]))
            return "no such command";
    }
    if (command->verb == VL_COMMAND_LEASE)
        return parse_leases(at, command);
    if (command->verb == VL_COMMAND_FLEET) {
        command->word = word = next_word(&at);
        command->all = word != NULL;
        return (word && strcmp(word, "all")) || at ? "one word too many" : NULL;
    }
    wrong = parse_vhost(next_word(&at), command);
    if (!wrong && command->verb == VL_COMMAND_MINE && command->vhost) {
        /* on or off follows the site. */
        word = next_word(&at);
        command->word = word ? word : command->vhost;
        command->is_on = word && !strcmp(word, "on");
        if (!word)
            wrong = "a site without on or off";
        else if (!command->is_on && strcmp(word, "off"))
            wrong = "neither on nor off";
    }
    while (!wrong && (word = next_word(&at)))
        wrong = parse_key(word, command);
    if (wrong)
        return wrong;
    command->word = command->text;
    if (verbs[command->verb].keys == VALUES && !command->keys)
        return "nothing to be set";
    return NULL;
}

const char *vl_command_parse(const char *line, apr_size_t len,
                             vl_command_t *ret_command)
{
    /* Not the memory of leases and words: "bulk" has up to 100 000 lines. */
    memset(ret_command, 0, offsetof(vl_command_t, leases));
    ret_command->word = "";
    ret_command->text[0] = '\0';
    if (len >= VL_COMMAND_MAX)
        return "a command that is too long";
    memcpy(ret_command->text, line, len);
    ret_command->text[len] = '\0';
    /* Not a zero byte nor a line break.  All other bytes are allowed, because a ServerName may contain
     * them. */
    if (strcspn(ret_command->text, "\r\n") != len)
        return "a command with a byte in it that is no text";
    return parse_words(ret_command);
}
