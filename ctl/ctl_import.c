/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_import.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

ctl_exit_e ctl_import(const ctl_call_t *call, ctl_error_t *error)
{
    const char *what = call->args[0], *path = call->args[1];
    int is_lve = !strcmp(what, "lve");
    ctl_exit_e status;
    FILE *in;

    if (!is_lve && strcmp(what, "mod_qos") != 0)
        return ctl_error_set(error, CTL_USAGE, "import: '%s' is neither lve nor mod_qos", what);
    in = strcmp(path, "-") ? fopen(path, "re") : stdin;
    if (!in)
        return ctl_error_set(error, CTL_REFUSED, "%s cannot be read: %s", path,
                             strerror(errno));
    status = is_lve ? ctl_import_lve(in, path, sysconf(_SC_NPROCESSORS_ONLN), error)
                    : ctl_import_mod_qos(in, path, error);
    if (status == CTL_DONE && ferror(in))
        status = ctl_error_set(error, CTL_REFUSED, "%s cannot be read", path);
    if (in != stdin)
        (void)fclose(in);           /* nothing was written */
    return status;
}
