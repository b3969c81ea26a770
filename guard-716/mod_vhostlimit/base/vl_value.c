/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_value.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>

int vl_value_number(const char *text, char unit, apr_int64_t min,
                    apr_int64_t max, apr_int64_t *ret_number)
{
    const char *c;

    for (c = text; apr_isdigit(*c); c++)
        ;
    errno = 0;
    *ret_number = apr_strtoi64(text, NULL, 10);
    if (c == text || errno || (unit && *c++ != unit))
        return 0;
    return !*c && *ret_number >= min && *ret_number <= max;
}

apr_int64_t vl_value_size(const char *text, apr_int64_t max)
{
    static const char units[] = "kmg";
    apr_int64_t n;
    const char *unit;
    char *end;

    if (!strcasecmp(text, "none") || !strcmp(text, "0"))
        return 0;
    errno = 0;
    n = apr_strtoi64(text, &end, 10);
    if (!apr_isdigit(*text) || errno || n > max)
        return -1;
    unit = *end ? strchr(units, apr_tolower(*end)) : NULL;
    if (*end && (!unit || end[1]))
        return -1;
    for (; unit && unit >= units; unit--) {
        if (n > max / 1024)
            return -1;
        n *= 1024;
    }
    return n ? n : -1;
}

int vl_value_is_name(const char *text, apr_size_t max)
{
    const char *c;

    for (c = text; apr_isalnum(*c) || (*c && strchr("._-", *c)); c++)
        ;
    return !*c && c != text && (apr_size_t)(c - text) <= max;
}

int vl_value_is_path(const char *text)
{
    apr_size_t len = strlen(text);

    return *text == '/' && len > 1 && text[len - 1] != '/'
           && !strstr(text, "/.") && !strstr(text, "//");
}
