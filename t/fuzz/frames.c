/* SPDX-License-Identifier: Apache-2.0 */
/* What an HTTP/2 client sends, while its connection is granted and loses leases.
 * The first byte says how the input is cut and when the gate closes. */
#include "fuzz.h"
#include "vl_frames.h"

typedef struct out_t {
    size_t passed, held, starts[VL_FRAMES_STREAMS + 1], streams;
} out_t;

static void release_one(vl_frames_t *frames, out_t *out)
{
    size_t i, bytes = out->streams > 1 ? out->starts[1] : out->held;

    for (i = 1; i < out->streams; i++)
        out->starts[i - 1] = out->starts[i] - bytes;
    out->streams--;
    out->passed += bytes;
    out->held -= bytes;
    vl_frames_release_one(frames);
}

static int is_open(void *closed)
{
    return !*(const int *)closed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vl_frames_t frames;
    out_t out = { 0 };
    size_t at = 1, kept = 0, piece, turn = 0;

    if (!size)
        return 0;
    vl_frames_init(&frames);
    piece = 1 + (data[0] & 31);
    while (at < size) {
        size_t part = size - at < piece ? size - at : piece;
        uint8_t *exact = malloc(part);
        int closed = data[0] >> (5 + turn++ % 3) & 1;
        vl_frames_e verdict;
        vl_span_t span;
        size_t n;

        memcpy(exact, data + at, part);
        n = vl_frames_next(&frames, is_open, &closed, (char *)exact, part,
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
            must(out.streams < VL_FRAMES_STREAMS);
            out.starts[out.streams++] = out.held;
            out.held += span.length;
            break;
        case VL_FRAMES_HOLD:
            must(out.streams);
            out.held += span.length;
            break;
        case VL_FRAMES_RELEASE:
            out.passed += out.held;
            out.held = out.streams = 0;
            out.passed += span.length;
            break;
        case VL_FRAMES_PASS_NEW:
            must(!out.streams && !closed);
            out.passed += span.length;
            break;
        case VL_FRAMES_PASS:
            out.passed += span.length;
            break;
        }
        must(frames.streams == out.streams);
        if (!closed && out.streams)
            release_one(&frames, &out);
        free(exact);
    }
    while (out.streams)
        release_one(&frames, &out);
    must(!out.held && out.passed + kept == size - 1);
    return 0;
}
