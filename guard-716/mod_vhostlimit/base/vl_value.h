/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_VALUE_H
#define VL_VALUE_H

/* Parses values of the configuration file.  The functions have no side effects and need no
 * lock; any thread may call them. */

#include <apr.h>

/* Parses digits followed by the character `unit` (0: by nothing), without sign and spaces.
 * Returns 0 if the text is not such a number or the number is not from min to max. */
int vl_value_number(const char *text, char unit, apr_int64_t min,
                    apr_int64_t max, apr_int64_t *ret_number);
/* Parses a number of bytes up to `max`, followed by K, M, G or nothing.  Returns 0 for
 * "0" and "none", -1 for an invalid text. */
apr_int64_t vl_value_size(const char *text, apr_int64_t max);
/* Returns 1 if the text is a name of 1 to `max` letters, digits and . _ - */
int vl_value_is_name(const char *text, apr_size_t max);
/* Returns 1 if the text is an absolute path other than "/", without "//", without a
 * component that begins with a dot, and without a slash at the end. */
int vl_value_is_path(const char *text);

#endif
