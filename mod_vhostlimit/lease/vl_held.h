/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HELD_H
#define VL_HELD_H

/*
 * Frames of HTTP/2 that are held until their streams may begin (vl_frames.h).
 *
 * A stream that begins takes all of its frames with it, so that an upload finds
 * its data, past frames of streams that came earlier and are still held. Only header
 * blocks cannot change places (HPACK).
 *
 * The memory is malloc()ed, so that it is free when a frame has passed, however
 * long the connection lives. No lock.
 */

#include <apr.h>

/* Bytes of one held frame, or of a part of it. */
typedef struct vl_piece_t {
    struct vl_piece_t *next;
    apr_uint32_t stream;
    int is_block;                   /* of HEADERS or CONTINUATION */
    apr_size_t length, size;        /* there are, and there may be */
    char bytes[];
} vl_piece_t;

typedef struct vl_held_t {
    vl_piece_t *first, *last;       /* in the order of arrival */
    apr_size_t bytes;               /* memory of all of them */
} vl_held_t;

void vl_held_init(vl_held_t *held);
void vl_held_free(vl_held_t *held);

/* A frame begins; its first bytes come with vl_held_add(). length: of all of it. */
void vl_held_begin(vl_held_t *held, apr_uint32_t stream, int is_block,
                   apr_size_t length);
/* Bytes of the frame that began last. */
void vl_held_add(vl_held_t *held, const char *data, apr_size_t length);

/* Returns 1 if all frames of the stream can be passed before those that are held
 * besides. It is 0 if the stream has trailers behind header blocks of others. */
int vl_held_is_free(const vl_held_t *held, apr_uint32_t stream);
/* The next piece of the stream, or, with 0, of any. NULL: there is none. It is the
 * caller's: vl_held_free_bytes() or free(). */
vl_piece_t *vl_held_take(vl_held_t *held, apr_uint32_t stream);
/* Frees a piece, given its bytes (apr_bucket_heap_create). */
void vl_held_free_bytes(void *bytes);

#endif
