/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_HELD_H
#define VL_HELD_H

/*
 * Owns the HTTP/2 frames that are held until their streams may begin (vl_frames.h).
 * A stream that begins takes all of its frames with it, past frames of earlier streams
 * that are still held, so that an upload has its data. Only header blocks keep their order
 * (HPACK). The pieces are malloc()ed, so that memory is freed when a frame has passed, and
 * not when the connection ends.
 * Invariant: each piece is in the list of all pieces and in the list of its stream, both in
 * order of arrival, and a stream is in the tree while it has pieces. So no function walks
 * over pieces of other streams: the client chooses how many pieces and streams there are.
 * There is no lock: the thread that runs the connection calls these functions.
 */

#include <apr.h>

/* One stream that has held frames. */
typedef struct vl_held_stream_t vl_held_stream_t;

/* One held frame, or a part of one. */
typedef struct vl_piece_t {
    struct vl_piece_t *next, *before;   /* in the list of all pieces */
    struct vl_piece_t *next_of_stream;
    vl_held_stream_t *stream;
    apr_uint16_t is_block;          /* of HEADERS or CONTINUATION */
    apr_uint16_t length, size;      /* bytes used, and allocated */
    char bytes[];
} vl_piece_t;

/* All zero: nothing is held. */
typedef struct vl_held_t {
    vl_piece_t *first, *last;       /* in order of arrival */
    void *streams;                  /* tree of tsearch() */
    apr_uint32_t blocks_begun, blocks_taken;    /* pieces of header blocks so far */
    apr_uint64_t steps;             /* comparisons of streams so far, for the unit test */
    apr_size_t bytes;               /* memory of all pieces and streams */
} vl_held_t;

void vl_held_free(vl_held_t *held);

/* Begins a frame; vl_held_add() adds its bytes. length: the whole frame with its header.
 * Aborts without memory, as httpd does. */
void vl_held_begin(vl_held_t *held, apr_uint32_t stream, int is_block,
                   apr_size_t length);
/* Adds bytes to the frame that began last. */
void vl_held_add(vl_held_t *held, const char *data, apr_size_t length);

/* Returns 1 if all frames of the stream can pass before the other held ones. Returns 0
 * if the stream has trailers behind header blocks of other streams. */
int vl_held_is_free(const vl_held_t *held, apr_uint32_t stream);
/* Takes out the oldest piece of the stream, or of any stream if it is 0. Returns NULL if
 * there is none. A stream for which vl_held_is_free() returns 0 must not be taken before
 * the other ones. The caller frees the piece with vl_held_free_bytes() or free(). */
vl_piece_t *vl_held_take(vl_held_t *held, apr_uint32_t stream);
/* Frees a piece, given its bytes (for apr_bucket_heap_create). */
void vl_held_free_bytes(void *bytes);

#endif
