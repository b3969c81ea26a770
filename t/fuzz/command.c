/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the control socket. */
#include "fuzz.h"
#include "control/vl_command.h"

static int is_inside(const vl_command_t *command, const char *text)
{
    return text >= command->text
           && text + strlen(text) < command->text + sizeof(command->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + !size);
    vl_command_t command;
    const char *wrong;
    int key;

    memcpy(line, data, size);
    wrong = vl_command_parse(line, size, &command);
    must(wrong || command.verb == VL_COMMAND_STATUS
         || command.verb == VL_COMMAND_MODULES || command.verb == VL_COMMAND_PLANS
         || command.verb == VL_COMMAND_FIGURES
         || command.verb == VL_COMMAND_SAVEFILE || command.verb == VL_COMMAND_FLEET
         || command.verb == VL_COMMAND_LEASE || command.verb == VL_COMMAND_MINE || command.vhost);
    must(wrong || command.nleases <= VL_COMMAND_LEASES);
    must(!wrong || !*command.word || strlen(command.word) < VL_COMMAND_MAX);
    if (!wrong && command.vhost)
        must(is_inside(&command, command.vhost)
             && strlen(command.vhost) < VL_NAME_SIZE);
    for (key = 0; !wrong && key < VL_KEY_COUNT; key++) {
        if (command.verb == VL_COMMAND_SET && command.keys & VL_KEY_BIT(key))
            must(is_inside(&command, command.values[key]));
    }
    free(line);
    return 0;
}
