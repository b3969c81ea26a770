/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_FRAMES_H
#define VL_FRAMES_H

/*
 * Splits the bytes that an HTTP/2 client sends into frames and decides for each
 * frame whether it passes to mod_http2 or is held until the connection has a
 * lease (RFC 9113, section 4.1 for the frame header).
 *
 * HEADERS that open a new stream are held unless the caller lets the stream
 * begin. With them is held everything that belongs to a held stream, and every later HEADERS or
 * CONTINUATION frame of the connection: header compression (HPACK) needs header
 * blocks in the order in which they were sent. All other frames pass, so that
 * flow control, PING, SETTINGS and RST_STREAM of running streams work.
 *
 * Held DATA does not keep uploads of running streams from going on: mod_http2 opens
 * the window of the connection as far as it goes (h2_session_start), and a held
 * stream can use up no more than its own. A caller that reads no further because too
 * much is held has to release all while an upload is under way, because its next
 * bytes may be behind held ones.
 *
 * Pure: no memory, no lock, no clock. The caller owns the bytes.
 */

#include <apr.h>

#define VL_FRAMES_PREFACE 24        /* bytes of the client connection preface */
#define VL_FRAMES_HEADER 9          /* bytes of a frame header */
/* Streams that are held at most; mod_http2 allows 100 for each connection
 * unless H2MaxSessionStreams says otherwise. One more releases all. */
#define VL_FRAMES_STREAMS 256

typedef enum {
    VL_FRAMES_NONE,         /* a part of a frame header: kept here for now */
    VL_FRAMES_PASS,         /* these bytes go to mod_http2 */
    VL_FRAMES_PASS_NEW,     /* the same; a new stream begins with them */
    VL_FRAMES_HOLD,         /* append these bytes to the held ones */
    VL_FRAMES_HOLD_NEW,     /* the same; a frame begins with them */
    VL_FRAMES_RELEASE       /* all that is held goes to mod_http2, then these */
} vl_frames_e;

typedef struct vl_frames_t {
    apr_uint32_t preface;           /* bytes of the preface still to come */
    apr_uint32_t header_length;     /* bytes of `header` that have arrived */
    unsigned char header[VL_FRAMES_HEADER];
    apr_uint32_t payload;           /* bytes of the frame still to come */
    apr_uint32_t id;                /* the frame's stream */
    int is_block;                   /* it is HEADERS or CONTINUATION */
    int holding;                    /* it is held */
    apr_uint32_t last_stream;       /* highest client stream that has passed */
    apr_uint32_t uploads;           /* passed streams without END_STREAM yet */
    apr_uint32_t streams;           /* held streams, oldest first */
    struct {
        apr_uint32_t id;
        int uploads;                /* its END_STREAM has not been seen */
    } stream[VL_FRAMES_STREAMS];
} vl_frames_t;

typedef struct vl_span_t {
    const char *data;               /* into the caller's bytes, or into `header` */
    apr_size_t length;
} vl_span_t;

/* Starts before the connection preface. */
void vl_frames_init(vl_frames_t *frames);

/* Returns 1 if a new stream may begin. Called when no stream is held. */
typedef int (*vl_frames_may_begin_fn)(void *context);

/* Takes the first bytes of data (length > 0) and returns how many. *ret_span
 * says which bytes the verdict is about; with VL_FRAMES_NONE it is empty. It is
 * valid until the next call. */
apr_size_t vl_frames_next(vl_frames_t *frames, vl_frames_may_begin_fn may_begin,
                          void *context, const char *data, apr_size_t length,
                          vl_frames_e *ret_verdict, vl_span_t *ret_span);

/* Returns 1 if held frames may be passed now: no frame has passed in part. */
int vl_frames_is_between(const vl_frames_t *frames);
/* The caller passes the oldest held stream, with all of its frames (vl_held.h). */
void vl_frames_release_one(vl_frames_t *frames);
/* The caller passes all that is held. */
void vl_frames_release_all(vl_frames_t *frames);

#endif
