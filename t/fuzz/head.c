/* SPDX-License-Identifier: Apache-2.0 */
/* The request head for which VhostLimitExempt is evaluated. */
#include "fuzz.h"
#include "base/vl_head.h"

static void see(void *data, const char *name, char *value)
{
    must(!strchr(name, ':') && !strpbrk(name, "\r\n"));
    must(!strpbrk(value, "\r\n") && !(*value && strchr(" \t", *value)));
    ++*(size_t *)data;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = malloc(size ? size : 1);
    char *copy;
    vl_head_t head;
    size_t fields = 0;

    memcpy(exact, data, size);
    copy = vl_head_copy(fuzz_pool(), exact, size);
    must(strlen(copy) <= size);
    if (vl_head_parse(copy, &head, see, &fields)) {
        must(*head.target == '/' && !strchr(head.target, ' '));
        must(!strchr(head.method, ' ') && fields * 2 < size);
    }
    free(exact);
    return 0;
}
