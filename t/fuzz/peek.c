/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a connection: request head, PROXY header, TLS record and ClientHello.
 * A result for a part of the bytes must be the result for all. */
#include "fuzz.h"
#include "accept/vl_peek.h"

static vl_peek_e peek(const uint8_t *data, size_t size, vl_peek_t *ret_peek)
{
    char *exact = malloc(size ? size : 1);
    vl_peek_e result;

    memcpy(exact, data, size);
    memset(ret_peek, 'x', sizeof(*ret_peek));
    result = vl_peek(exact, size, ret_peek);
    free(exact);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t part = size ? data[size - 1] * size / 256 : 0;
    vl_peek_t some, all;
    vl_peek_e early = peek(data, part, &some);
    vl_peek_e late = peek(data, size, &all);

    must(memchr(all.host, 0, sizeof(all.host)));
    must(late == VL_PEEK_MORE
         || (late == VL_PEEK_HOST) == (all.host[0] != '\0'));
    must(early == VL_PEEK_MORE
         || (early == late && !strcmp(some.host, all.host)
             && some.tls == all.tls && some.http2 == all.http2));
    /* The host of an incomplete head. */
    must(!some.host[0] || late != VL_PEEK_HOST
         || !strcmp(some.host, all.host));
    return 0;
}
