/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_FRAMES_H
#define VL_FRAMES_H

/*
 * Splits the bytes that an HTTP/2 client sends into frames (RFC 9113, section 4.1), and
 * decides for each frame whether it passes to mod_http2 or is held until the connection
 * has a lease. HEADERS that open a new stream are held unless the caller lets the stream
 * begin. Frames of a held stream are held, and every later HEADERS or CONTINUATION frame,
 * because HPACK needs the header blocks in the order in which they were sent. All other
 * frames pass, so that flow control, PING, SETTINGS and RST_STREAM of running streams work.
 * vl_frames.c says why uploads of running streams do not stop.
 * Pure: no memory, no lock, no clock. The caller owns the bytes, and one thread at a time
 * uses a vl_frames_t.
 */

#include <apr.h>

#define VL_FRAMES_PREFACE 24        /* bytes of the client connection preface */
#define VL_FRAMES_HEADER 9          /* bytes of a frame header */
/* Upper bound for held streams. mod_http2 allows 100 for each connection unless
 * H2MaxSessionStreams changes it. One more releases all. */
#define VL_FRAMES_STREAMS 256

typedef enum {
    VL_FRAMES_NONE,         /* a part of a frame header, kept in `header` */
    VL_FRAMES_PASS,         /* these bytes go to mod_http2 */
    VL_FRAMES_PASS_NEW,     /* the same, and a new stream begins with them */
    VL_FRAMES_HOLD,         /* append these bytes to the held ones */
    VL_FRAMES_HOLD_NEW,     /* the same, and a frame begins with them */
    VL_FRAMES_RELEASE       /* all held bytes go to mod_http2, then these */
} vl_frames_e;

/* All zero: the preface of the connection has not come yet. */
typedef struct vl_frames_t {
    apr_uint32_t preface;           /* bytes of the preface that have arrived */
    apr_uint32_t header_length;     /* bytes of `header` that have arrived */
    unsigned char header[VL_FRAMES_HEADER];
    apr_uint32_t payload;           /* bytes of the frame still to come */
    apr_uint32_t id;                /* the frame's stream */
    int is_block;                   /* the frame is HEADERS or CONTINUATION */
    int holding;                    /* the frame is held */
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

/* Returns 1 if a new stream may begin. Called when no stream is held. */
typedef int (*vl_frames_may_begin_fn)(void *context);

/* Consumes the first bytes of data (length > 0) and returns how many. *ret_span is the
 * bytes that the verdict applies to, empty with VL_FRAMES_NONE. It is valid until the
 * next call. */
apr_size_t vl_frames_next(vl_frames_t *frames, vl_frames_may_begin_fn may_begin,
                          void *context, const char *data, apr_size_t length,
                          vl_frames_e *ret_verdict, vl_span_t *ret_span);

/* Returns 1 if held frames may be passed now: no frame has passed in part. */
int vl_frames_is_between(const vl_frames_t *frames);
/* The caller passes the oldest held stream with all of its frames (vl_held.h). */
void vl_frames_release_one(vl_frames_t *frames);
/* The caller passes all held bytes. */
void vl_frames_release_all(vl_frames_t *frames);

#endif
