/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of directives. */
#include "fuzz.h"
#include "base/vl_value.h"

#define MOST APR_INT64_C(0x4000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    apr_int64_t n = -1, bytes = vl_value_size(text, MOST);

    must(bytes >= -1 && bytes <= MOST);
    if (vl_value_number(text, '\0', 1, 100000, &n))
        must(n >= 1 && n <= 100000 && strspn(text, "0123456789")
             == strlen(text));
    if (vl_value_number(text, '%', 1, 100000, &n))
        must(n >= 1 && n <= 100000 && text[strlen(text) - 1] == '%');
    if (vl_value_is_name(text, 64))
        must(*text && strlen(text) <= 64 && !strpbrk(text, "/@ \n"));
    if (vl_value_is_path(text))
        must(*text == '/' && !strstr(text, "/../") && !strstr(text, "//"));
    free(text);
    return 0;
}
