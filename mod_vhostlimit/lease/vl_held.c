/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/vl_held.h"

#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Upper bound for the bytes of one piece: the longest frame that mod_http2 accepts (RFC
 * 9113, section 4.2) and its header. A longer frame, as its header says, gets further
 * pieces as its bytes arrive. */
#define PIECE_MAX (16384 + 9)

struct vl_held_stream_t {
    vl_held_t *held;
    apr_uint32_t id;
    apr_uint32_t blocks;            /* its pieces of header blocks */
    apr_uint32_t last_block;        /* which of blocks_begun the last of them is */
    vl_piece_t *first, *last;
};

/* A stream and its node of the tree: glibc's node has three pointers. */
#define STREAM_BYTES (sizeof(vl_held_stream_t) + 3 * sizeof(void *))

void vl_held_free(vl_held_t *held)
{
    vl_piece_t *piece;

    while ((piece = vl_held_take(held, 0)))
        free(piece);
}

static int compare_streams(const void *a, const void *b)
{
    const vl_held_stream_t *one = a, *other = b;

    one->held->steps++;
    return (one->id > other->id) - (one->id < other->id);
}

/* Returns NULL if the stream has no held frames. */
static vl_held_stream_t *find_stream(const vl_held_t *held, apr_uint32_t id)
{
    const vl_held_stream_t key = { .held = (vl_held_t *)held, .id = id };
    void *node = tfind(&key, &held->streams, compare_streams);

    return node ? *(vl_held_stream_t **)node : NULL;
}

static void begin_piece(vl_held_t *held, vl_held_stream_t *stream, int is_block,
                        apr_size_t length)
{
    apr_size_t size = length < PIECE_MAX ? length : PIECE_MAX;
    vl_piece_t *piece = malloc(sizeof(*piece) + size);

    if (!piece)
        abort();
    piece->stream = stream;
    piece->is_block = is_block != 0;
    piece->length = 0;
    piece->size = (apr_uint16_t)size;
    piece->next = piece->next_of_stream = NULL;
    piece->before = held->last;
    if (held->last)
        held->last->next = piece;
    else
        held->first = piece;
    held->last = piece;
    if (stream->last)
        stream->last->next_of_stream = piece;
    else
        stream->first = piece;
    stream->last = piece;
    if (is_block) {
        stream->blocks++;
        stream->last_block = ++held->blocks_begun;
    }
    held->bytes += sizeof(*piece) + size;
}

void vl_held_begin(vl_held_t *held, apr_uint32_t id, int is_block, apr_size_t length)
{
    vl_held_stream_t *stream = find_stream(held, id);

    if (!stream) {
        stream = calloc(1, sizeof(*stream));
        if (!stream)
            abort();                /* as httpd does (ap_abort_on_oom) */
        stream->held = held;
        stream->id = id;
        if (!tsearch(stream, &held->streams, compare_streams))
            abort();
        held->bytes += STREAM_BYTES;
    }
    begin_piece(held, stream, is_block, length);
}

void vl_held_add(vl_held_t *held, const char *data, apr_size_t length)
{
    while (length) {
        vl_piece_t *piece = held->last;
        apr_size_t n = (apr_size_t)(piece->size - piece->length);

        if (!n) {
            begin_piece(held, piece->stream, piece->is_block, PIECE_MAX);
            continue;
        }
        if (n > length)
            n = length;
        memcpy(piece->bytes + piece->length, data, n);
        piece->length = (apr_uint16_t)(piece->length + n);
        data += n;
        length -= n;
    }
}

/* Header blocks leave in the order in which they arrived. So the stream's blocks are the
 * oldest ones if the last of them is as far from the first that is held as they are many. */
int vl_held_is_free(const vl_held_t *held, apr_uint32_t id)
{
    const vl_held_stream_t *stream = find_stream(held, id);

    return !stream || !stream->blocks
           || stream->last_block - held->blocks_taken == stream->blocks;
}

vl_piece_t *vl_held_take(vl_held_t *held, apr_uint32_t id)
{
    vl_held_stream_t *stream = id ? find_stream(held, id)
                               : held->first ? held->first->stream : NULL;
    vl_piece_t *piece;

    if (!stream)
        return NULL;
    piece = stream->first;
    stream->first = piece->next_of_stream;
    stream->blocks -= piece->is_block;
    held->blocks_taken += piece->is_block;
    *(piece->before ? &piece->before->next : &held->first) = piece->next;
    *(piece->next ? &piece->next->before : &held->last) = piece->before;
    held->bytes -= sizeof(*piece) + piece->size;
    if (!stream->first) {
        tdelete(stream, &held->streams, compare_streams);
        held->bytes -= STREAM_BYTES;
        free(stream);
    }
    return piece;
}

void vl_held_free_bytes(void *bytes)
{
    free((char *)bytes - offsetof(vl_piece_t, bytes));
}
