/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Held DATA does not stop uploads of running streams. mod_http2 opens the connection's
 * window to its maximum (h2_session_start), and a held stream can use up only its own
 * window. A caller that stops reading because too much is held has to release all while an
 * upload runs, because the upload's next bytes may follow held ones.
 */
#include "lease/vl_frames.h"

#include <string.h>

#define TYPE_DATA 0x0
#define TYPE_HEADERS 0x1
#define TYPE_CONTINUATION 0x9
#define FLAG_END_STREAM 0x1

void vl_frames_release_one(vl_frames_t *frames)
{
    if (!frames->streams)
        return;
    /* The caller passes the first part of the frame, so its rest has to pass too. */
    if (frames->stream[0].id == frames->id)
        frames->holding = 0;
    frames->last_stream = frames->stream[0].id;
    frames->uploads += (apr_uint32_t)frames->stream[0].uploads;
    frames->streams--;
    memmove(frames->stream, frames->stream + 1,
            sizeof(frames->stream[0]) * frames->streams);
    if (!frames->streams)
        frames->holding = 0;
}

int vl_frames_is_between(const vl_frames_t *frames)
{
    return !frames->payload || frames->holding;
}

void vl_frames_release_all(vl_frames_t *frames)
{
    while (frames->streams)
        vl_frames_release_one(frames);
}

/* A frame passes. opens: it opens a stream; ends: it has END_STREAM. */
static vl_frames_e pass(vl_frames_t *frames, apr_uint32_t stream, int opens,
                        int ends)
{
    frames->holding = 0;
    if (opens) {
        frames->last_stream = stream;
        frames->uploads += !ends;
        return VL_FRAMES_PASS_NEW;
    }
    if (ends && frames->uploads)
        frames->uploads--;
    return VL_FRAMES_PASS;
}

static vl_frames_e hold_new(vl_frames_t *frames, apr_uint32_t stream, int ends)
{
    if (frames->streams == VL_FRAMES_STREAMS) {
        vl_frames_release_all(frames);
        pass(frames, stream, 1, ends);
        return VL_FRAMES_RELEASE;
    }
    frames->holding = 1;
    frames->stream[frames->streams].id = stream;
    frames->stream[frames->streams].uploads = !ends;
    frames->streams++;
    return VL_FRAMES_HOLD_NEW;
}

/* Decides about a frame when its header is complete. Client streams have increasing
 * numbers (RFC 9113, section 5.1.1); mod_http2 treats any other order as an error. */
static vl_frames_e decide(vl_frames_t *frames, vl_frames_may_begin_fn may_begin,
                          void *context)
{
    const unsigned char *h = frames->header;
    apr_uint32_t stream = (apr_uint32_t)(h[5] & 0x7f) << 24
                          | (apr_uint32_t)h[6] << 16 | (apr_uint32_t)h[7] << 8
                          | h[8];
    apr_uint32_t newest = frames->streams
                          ? frames->stream[frames->streams - 1].id
                          : frames->last_stream;
    int type = h[3];
    int ends = (type == TYPE_DATA || type == TYPE_HEADERS)
               && h[4] & FLAG_END_STREAM;
    int opens = type == TYPE_HEADERS && stream > newest;
    apr_uint32_t i;

    frames->id = stream;
    frames->is_block = type == TYPE_HEADERS || type == TYPE_CONTINUATION;
    frames->payload = (apr_uint32_t)h[0] << 16 | (apr_uint32_t)h[1] << 8 | h[2];
    if (opens && (frames->streams || !may_begin(context)))
        return hold_new(frames, stream, ends);
    if (!frames->streams || !(frames->is_block || stream > frames->last_stream))
        return pass(frames, stream, opens, ends);
    for (i = 0; ends && i < frames->streams; i++) {
        if (frames->stream[i].id == stream)
            frames->stream[i].uploads = 0;
    }
    frames->holding = 1;
    return VL_FRAMES_HOLD_NEW;
}

apr_size_t vl_frames_next(vl_frames_t *frames, vl_frames_may_begin_fn may_begin,
                          void *context, const char *data, apr_size_t length,
                          vl_frames_e *ret_verdict, vl_span_t *ret_span)
{
    apr_size_t n;

    *ret_verdict = VL_FRAMES_NONE;
    ret_span->data = data;
    ret_span->length = 0;
    if (frames->preface < VL_FRAMES_PREFACE) {
        n = VL_FRAMES_PREFACE - frames->preface;
        if (n > length)
            n = length;
        frames->preface += (apr_uint32_t)n;
        *ret_verdict = VL_FRAMES_PASS;
        ret_span->length = n;
        return n;
    }
    if (frames->payload) {
        n = length < frames->payload ? length : frames->payload;
        frames->payload -= (apr_uint32_t)n;
        *ret_verdict = frames->holding ? VL_FRAMES_HOLD : VL_FRAMES_PASS;
        ret_span->length = n;
        return n;
    }
    n = VL_FRAMES_HEADER - frames->header_length;
    if (n > length)
        n = length;
    memcpy(frames->header + frames->header_length, data, n);
    frames->header_length += (apr_uint32_t)n;
    if (frames->header_length < VL_FRAMES_HEADER)
        return n;
    frames->header_length = 0;
    *ret_verdict = decide(frames, may_begin, context);
    ret_span->data = (const char *)frames->header;
    ret_span->length = VL_FRAMES_HEADER;
    return n;
}
