/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_import.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *name;
    ctl_exit_e (*run)(FILE *in, const char *path, ctl_error_t *error);
} formats[] = {
    { "lve", ctl_import_lve }, { "mod_qos", ctl_import_mod_qos }
};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

ctl_exit_e ctl_import(const ctl_call_t *call, ctl_error_t *error)
{
    const char *what = call->args[0], *path = call->args[1];
    ctl_exit_e status;
    size_t i;
    FILE *in;

    for (i = 0; i < FORMATS && strcmp(formats[i].name, what) != 0; i++)
        ;
    if (i == FORMATS)
        return ctl_error_set(error, CTL_USAGE, "import: '%s' is not lve or mod_qos", what);
    in = strcmp(path, "-") ? fopen(path, "re") : stdin;
    if (!in)
        return ctl_error_set(error, CTL_REFUSED, "%s cannot be read: %s", path,
                             strerror(errno));
    status = formats[i].run(in, path, error);
    if (status == CTL_DONE && ferror(in))
        status = ctl_error_set(error, CTL_REFUSED, "%s cannot be read", path);
    if (in != stdin)
        (void)fclose(in);           /* nothing was written */
    return status;
}
