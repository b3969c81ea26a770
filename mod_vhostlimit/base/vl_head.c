/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vl_head.h"

#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

char *vl_head_copy(apr_pool_t *p, const char *bytes, apr_size_t len)
{
    char *head = apr_pstrmemdup(p, bytes, len);
    char *end = strstr(head, "\r\n\r\n");

    if (!end)
        end = strstr(head, "\n\n");
    if (end)
        *end = '\0';
    return head;
}

static int parse_request_line(char *line, vl_head_t *ret_head)
{
    char *target = strchr(line, ' ');
    char *protocol = target ? strchr(target + 1, ' ') : NULL;

    if (!protocol || target[1] != '/')
        return 0;
    *target++ = *protocol++ = '\0';
    ret_head->method = line;
    ret_head->target = target;
    ret_head->protocol = protocol;
    return 1;
}

static void parse_field(char *line, vl_head_field_fn *field, void *data)
{
    char *value = strchr(line, ':');

    if (!value)
        return;
    *value++ = '\0';
    while (apr_isspace(*value))
        value++;
    field(data, line, value);
}

int vl_head_parse(char *head, vl_head_t *ret_head, vl_head_field_fn *field,
                  void *data)
{
    char *line, *last = NULL;

    line = apr_strtok(head, "\r\n", &last);
    if (!line || !parse_request_line(line, ret_head))
        return 0;
    while ((line = apr_strtok(NULL, "\r\n", &last)))
        parse_field(line, field, data);
    return 1;
}
