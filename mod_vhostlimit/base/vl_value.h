/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_VALUE_H
#define VL_VALUE_H

/* Values as a configuration file writes them.  Pure. */

#include <apr.h>

/* Digits, and behind them `unit`, a character or 0 for nothing: no sign, no
 * blank.  0: it is not such a number, or not from min to max. */
int vl_value_number(const char *text, char unit, apr_int64_t min,
                    apr_int64_t max, apr_int64_t *ret_number);
/* Bytes: a number up to `most`, with K, M, G or nothing behind it; 0 is none,
 * also written so.  -1: it is no size. */
apr_int64_t vl_value_size(const char *text, apr_int64_t most);
/* A name of letters, digits and . _ - */
int vl_value_is_name(const char *text, apr_size_t most);
/* An absolute path that is plain: not "/", no "//", nothing in it begins with a
 * dot, and no slash at its end. */
int vl_value_is_path(const char *text);

#endif
