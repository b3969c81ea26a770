/* SPDX-License-Identifier: Apache-2.0 */
/* Input of an HTTP/2 client while its connection is granted and loses leases. The first
 * byte determines how the input is cut and when the gate closes. */
#include "fuzz.h"
#include "lease/vl_frames.h"
#include "lease/vl_held.h"

typedef struct out_t {
    vl_frames_t frames;
    vl_held_t held;
    size_t passed, added;
} out_t;

static void pass_pieces(out_t *out, apr_uint32_t stream)
{
    vl_piece_t *piece;

    while ((piece = vl_held_take(&out->held, stream))) {
        must(piece->length <= piece->size);
        out->passed += piece->length;
        out->added -= piece->length;
        vl_held_free_bytes(piece->bytes);
    }
}

/* The same as in vl_lease_http2.c. */
static void release_one(out_t *out)
{
    apr_uint32_t stream = out->frames.stream[0].id, streams = out->frames.streams;

    if (!vl_held_is_free(&out->held, stream)) {
        vl_frames_release_all(&out->frames);
        pass_pieces(out, 0);
        return;
    }
    pass_pieces(out, stream);
    vl_frames_release_one(&out->frames);
    must(out->frames.streams == streams - 1);
    if (!out->frames.streams)
        pass_pieces(out, 0);
}

static int is_open(void *closed)
{
    return !*(const int *)closed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    out_t out = { .passed = 0 };
    size_t at = 1, kept = 0, piece, reads = 0;

    if (!size)
        return 0;
    piece = 1 + (data[0] & 31);
    while (at < size) {
        size_t part = size - at < piece ? size - at : piece;
        uint8_t *exact = malloc(part);
        int closed = data[0] >> (5 + reads++ % 3) & 1;
        vl_frames_e verdict;
        vl_span_t span;
        size_t n;

        memcpy(exact, data + at, part);
        n = vl_frames_next(&out.frames, is_open, &closed, (char *)exact, part,
                           &verdict, &span);
        must(n > 0 && n <= part);
        at += n;
        kept += n;
        must(kept >= span.length);
        kept -= span.length;
        switch (verdict) {
        case VL_FRAMES_NONE:
            must(!span.length && kept < VL_FRAMES_HEADER);
            break;
        case VL_FRAMES_HOLD_NEW:
            vl_held_begin(&out.held, out.frames.id, out.frames.is_block,
                          VL_FRAMES_HEADER + out.frames.payload);
            /* fall through */
        case VL_FRAMES_HOLD:
            must(out.frames.streams);
            vl_held_add(&out.held, span.data, span.length);
            out.added += span.length;
            break;
        case VL_FRAMES_RELEASE:
            pass_pieces(&out, 0);
            out.passed += span.length;
            break;
        case VL_FRAMES_PASS_NEW:
            must(!out.frames.streams && !closed);
            out.passed += span.length;
            break;
        case VL_FRAMES_PASS:
            out.passed += span.length;
            break;
        }
        must(out.held.bytes >= out.added);
        if (!closed && out.frames.streams && vl_frames_is_between(&out.frames))
            release_one(&out);
        free(exact);
    }
    while (out.frames.streams)
        release_one(&out);
    must(!out.held.bytes && !out.added && out.passed + kept == size - 1);
    vl_held_free(&out.held);
    return 0;
}
