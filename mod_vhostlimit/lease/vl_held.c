/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/vl_held.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Upper bound for the bytes of one piece: the longest frame that mod_http2 accepts (RFC
 * 9113, section 4.2) and its header. A longer frame, as its header says, gets further
 * pieces as its bytes arrive. */
#define PIECE_MAX (16384 + 9)

void vl_held_init(vl_held_t *held)
{
    held->first = held->last = NULL;
    held->bytes = 0;
}

void vl_held_free(vl_held_t *held)
{
    vl_piece_t *piece;

    while ((piece = vl_held_take(held, 0)))
        free(piece);
}

void vl_held_begin(vl_held_t *held, apr_uint32_t stream, int is_block,
                   apr_size_t length)
{
    apr_size_t size = length < PIECE_MAX ? length : PIECE_MAX;
    vl_piece_t *piece = malloc(sizeof(*piece) + size);

    if (!piece)
        abort();                    /* as httpd does (ap_abort_on_oom) */
    piece->stream = stream;
    piece->is_block = is_block;
    piece->length = 0;
    piece->size = size;
    piece->next = NULL;
    if (held->last)
        held->last->next = piece;
    else
        held->first = piece;
    held->last = piece;
    held->bytes += sizeof(*piece) + size;
}

void vl_held_add(vl_held_t *held, const char *data, apr_size_t length)
{
    while (length) {
        vl_piece_t *piece = held->last;
        apr_size_t n = piece->size - piece->length;

        if (!n) {
            vl_held_begin(held, piece->stream, piece->is_block, PIECE_MAX);
            continue;
        }
        if (n > length)
            n = length;
        memcpy(piece->bytes + piece->length, data, n);
        piece->length += n;
        data += n;
        length -= n;
    }
}

int vl_held_is_free(const vl_held_t *held, apr_uint32_t stream)
{
    const vl_piece_t *piece;
    int others = 0;

    for (piece = held->first; piece; piece = piece->next) {
        if (piece->is_block && piece->stream == stream && others)
            return 0;
        others |= piece->is_block && piece->stream != stream;
    }
    return 1;
}

vl_piece_t *vl_held_take(vl_held_t *held, apr_uint32_t stream)
{
    vl_piece_t *piece, *before = NULL;

    for (piece = held->first; piece; before = piece, piece = piece->next) {
        if (!stream || piece->stream == stream)
            break;
    }
    if (!piece)
        return NULL;
    if (before)
        before->next = piece->next;
    else
        held->first = piece->next;
    if (held->last == piece)
        held->last = before;
    held->bytes -= sizeof(*piece) + piece->size;
    return piece;
}

void vl_held_free_bytes(void *bytes)
{
    free((char *)bytes - offsetof(vl_piece_t, bytes));
}
