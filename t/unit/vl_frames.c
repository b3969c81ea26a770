/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 frames that pass the gate or are held, and how the caller uses them. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "lease/vl_frames.h"
#include "lease/vl_held.h"

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6,
       WINDOW_UPDATE = 8, CONTINUATION = 9 };

#define END_STREAM 1

typedef struct side_t {
    vl_frames_t frames;
    vl_held_t held;
    int closed;
    char passed[8192];
    size_t n_passed;
} side_t;

static void begin(side_t *s)
{
    memset(s, 0, sizeof(*s));
}

static int is_open(void *side)
{
    return !((const side_t *)side)->closed;
}

static void pass(side_t *s, const char *bytes, size_t length)
{
    memcpy(s->passed + s->n_passed, bytes, length);
    s->n_passed += length;
}

static void pass_pieces(side_t *s, apr_uint32_t stream)
{
    vl_piece_t *piece;

    while ((piece = vl_held_take(&s->held, stream))) {
        pass(s, piece->bytes, piece->length);
        vl_held_free_bytes(piece->bytes);
    }
}

/* The same as in vl_lease_http2.c. */
static void say(side_t *s, const char *data, size_t length, size_t piece)
{
    while (length) {
        size_t part = length < piece ? length : piece, n;
        vl_frames_e verdict;
        vl_span_t span;

        n = vl_frames_next(&s->frames, is_open, s, data, part, &verdict, &span);
        data += n;
        length -= n;
        if (verdict == VL_FRAMES_RELEASE)
            pass_pieces(s, 0);
        if (verdict == VL_FRAMES_HOLD_NEW)
            vl_held_begin(&s->held, s->frames.id, s->frames.is_block,
                          VL_FRAMES_HEADER + s->frames.payload);
        if (verdict == VL_FRAMES_HOLD || verdict == VL_FRAMES_HOLD_NEW)
            vl_held_add(&s->held, span.data, span.length);
        else
            pass(s, span.data, span.length);
    }
}

static void release_one(side_t *s)
{
    apr_uint32_t stream = s->frames.stream[0].id;

    if (!vl_held_is_free(&s->held, stream)) {
        vl_frames_release_all(&s->frames);
        pass_pieces(s, 0);
        return;
    }
    pass_pieces(s, stream);
    vl_frames_release_one(&s->frames);
    if (!s->frames.streams)
        pass_pieces(s, 0);
}

static size_t put(char *to, int type, int flags, unsigned stream,
                  size_t payload)
{
    const unsigned char h[9] = { 0, (unsigned char)(payload >> 8),
                                 (unsigned char)payload, (unsigned char)type,
                                 (unsigned char)flags, 0, 0,
                                 (unsigned char)(stream >> 8),
                                 (unsigned char)stream };

    memcpy(to, h, 9);
    memset(to + 9, 'a' + type, payload);
    return 9 + payload;
}

/* The frames of a brigade, as "type:stream type:stream". */
static const char *listed(const char *data, size_t length)
{
    static char text[1024];
    size_t at = 0, n = 0;

    text[0] = '\0';
    while (at + 9 <= length) {
        const unsigned char *h = (const unsigned char *)data + at;

        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u:%u",
                              n ? " " : "", h[3], h[7] << 8 | h[8]);
        at += 9 + ((size_t)h[1] << 8 | h[2]);
    }
    return text;
}

static const char *held_by(const side_t *s)
{
    static char bytes[8192];
    const vl_piece_t *piece;
    size_t length = 0;

    for (piece = s->held.first; piece; piece = piece->next) {
        memcpy(bytes + length, piece->bytes, piece->length);
        length += piece->length;
    }
    return listed(bytes, length);
}

static void is(const char *got, const char *want, const char *what)
{
    ok(!strcmp(got, want), "%s", what);
    if (strcmp(got, want))
        printf("# got  %s\n# want %s\n", got, want);
}

static void frame(side_t *s, int type, int flags, unsigned stream, size_t n)
{
    char bytes[4096];

    say(s, bytes, put(bytes, type, flags, stream, n), sizeof(bytes));
}

static void preface(side_t *s)
{
    say(s, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 24);
    ok(s->n_passed == 24, "the preface passes");
    s->n_passed = 0;
}

static void test_open(void)
{
    char bytes[1024];
    size_t length = 0, piece;
    side_t s;

    memcpy(bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    length = 24;
    length += put(bytes + length, SETTINGS, 0, 0, 6);
    length += put(bytes + length, HEADERS, 5, 1, 30);
    length += put(bytes + length, HEADERS, 4, 3, 30);
    length += put(bytes + length, DATA, 1, 3, 100);
    for (piece = 1; piece <= length; piece++) {
        begin(&s);
        say(&s, bytes, length, piece);
        if (s.n_passed != length || memcmp(s.passed, bytes, length))
            break;
    }
    ok(piece > length, "an open gate passes every byte, however it is cut");
}

static void test_closed(void)
{
    side_t s;

    begin(&s);
    s.closed = 1;
    preface(&s);
    frame(&s, SETTINGS, 0, 0, 6);
    frame(&s, HEADERS, 5, 1, 30);
    frame(&s, PING, 0, 0, 8);
    frame(&s, WINDOW_UPDATE, 0, 0, 4);
    frame(&s, HEADERS, 1, 3, 10);
    frame(&s, CONTINUATION, 4, 3, 10);
    frame(&s, DATA, 0, 5, 3);
    is(listed(s.passed, s.n_passed), "4:0 6:0 8:0", "control frames pass a closed gate");
    is(held_by(&s), "1:1 1:3 9:3 0:5",
       "streams are held in order, with their further frames");
    release_one(&s);
    is(listed(s.passed, s.n_passed), "4:0 6:0 8:0 1:1", "one stream is released");
    frame(&s, RST_STREAM, 0, 1, 4);
    frame(&s, RST_STREAM, 0, 3, 4);
    is(listed(s.passed, s.n_passed), "4:0 6:0 8:0 1:1 3:1",
       "the reset of a released stream passes, that of a held one waits");
    s.closed = 0;
    frame(&s, HEADERS, 5, 7, 1);
    is(held_by(&s), "1:3 9:3 0:5 3:3 1:7",
       "a stream behind held ones is held, although the gate is open");
    release_one(&s);
    release_one(&s);
    frame(&s, HEADERS, 5, 9, 1);
    ok(!s.held.bytes && s.frames.last_stream == 9, "without held streams frames pass again");
}

static void test_running(void)
{
    side_t s;

    begin(&s);
    preface(&s);
    frame(&s, HEADERS, 4, 1, 10);
    ok(s.frames.uploads == 1, "an upload is under way");
    s.closed = 1;
    frame(&s, DATA, 0, 1, 50);
    frame(&s, HEADERS, 5, 3, 10);
    is(held_by(&s), "1:3", "another stream is held meanwhile");
    frame(&s, HEADERS, 4, 5, 10);
    is(held_by(&s), "1:3 1:5", "another upload is held meanwhile");
    frame(&s, DATA, 0, 5, 70);
    is(listed(s.passed, s.n_passed), "1:1 0:1", "data of the running upload passes");
    frame(&s, DATA, 1, 1, 5);
    is(listed(s.passed, s.n_passed), "1:1 0:1 0:1",
       "the data of the running upload passes them");
    frame(&s, DATA, 1, 5, 5);
    is(held_by(&s), "1:3 1:5 0:5 0:5", "frames are held in order of arrival");
    release_one(&s);
    release_one(&s);
    is(listed(s.passed, s.n_passed), "1:1 0:1 0:1 1:3 1:5 0:5 0:5",
       "an upload that is released takes its data along");
    ok(s.frames.uploads == 0, "the released upload is complete");
}

/* Two uploads with alternating data. */
static void test_order(void)
{
    side_t s;

    begin(&s);
    s.closed = 1;
    preface(&s);
    frame(&s, HEADERS, 4, 1, 10);
    frame(&s, HEADERS, 4, 3, 10);
    frame(&s, DATA, 0, 1, 20);
    frame(&s, DATA, 0, 3, 20);
    frame(&s, DATA, 1, 1, 30);
    release_one(&s);
    is(listed(s.passed, s.n_passed), "1:1 0:1 0:1",
       "data passes that of an upload that is still held");
    is(held_by(&s), "1:3 0:3", "the held upload stays held");
    frame(&s, HEADERS, 4, 5, 10);
    frame(&s, HEADERS, 5, 3, 4);
    frame(&s, HEADERS, 5, 7, 4);
    release_one(&s);
    is(listed(s.passed, s.n_passed), "1:1 0:1 0:1 1:3 0:3 1:5 1:3 1:7",
       "trailers cannot pass a header block: all are released");
    ok(!s.frames.streams && !s.held.bytes && s.frames.uploads == 1,
       "one upload is running");
}

/* A frame that arrives in two parts, and its stream is released in between. */
static void test_parts(void)
{
    char bytes[128];
    size_t length;
    side_t s;

    begin(&s);
    s.closed = 1;
    preface(&s);
    frame(&s, HEADERS, 4, 1, 10);
    frame(&s, HEADERS, 5, 3, 10);
    length = put(bytes, DATA, 1, 1, 50);
    say(&s, bytes, 30, 30);
    ok(vl_frames_is_between(&s.frames), "a frame that is held in part does not block others");
    release_one(&s);
    ok(!vl_frames_is_between(&s.frames), "a frame that has passed in part blocks others");
    say(&s, bytes + 30, length - 30, 7);
    is(listed(s.passed, s.n_passed), "1:1 0:1", "its rest passes");
    ok(vl_frames_is_between(&s.frames) && s.n_passed == 19 + 59, "it passes to its end");
    release_one(&s);
    is(listed(s.passed, s.n_passed), "1:1 0:1 1:3", "then the next stream is released");
    ok(!s.held.bytes, "the segment is empty");
}

/* The length that a client announces is not trusted. */
static void test_long(void)
{
    char bytes[1000] = "", header[9];
    int i;
    side_t s;
    vl_piece_t *piece;
    size_t n = 0, pieces = 0;

    begin(&s);
    s.frames.preface = VL_FRAMES_PREFACE;
    s.closed = 1;
    put(header, HEADERS, 5, 1, 0);
    header[0] = 1;                          /* 65536 bytes */
    say(&s, header, 9, 9);
    ok(s.held.bytes < 20000, "no more memory than for a frame of 16 KB");
    for (i = 0; i < 65; i++)
        say(&s, bytes, sizeof(bytes), sizeof(bytes));
    say(&s, bytes, 536, 536);
    while ((piece = vl_held_take(&s.held, 1))) {
        n += piece->length;
        pieces++;
        vl_held_free_bytes(piece->bytes);
    }
    ok(n == 9 + 65536 && pieces == 4, "the frame is held completely");
    ok(!s.held.bytes, "its memory was counted");
}

static void test_trailers(void)
{
    side_t s;

    begin(&s);
    preface(&s);
    frame(&s, HEADERS, 4, 1, 10);
    s.closed = 1;
    frame(&s, HEADERS, 5, 1, 3);
    is(listed(s.passed, s.n_passed), "1:1 1:1", "trailers pass");
    ok(s.frames.uploads == 0, "trailers end the upload");
    frame(&s, HEADERS, 5, 3, 3);
    frame(&s, CONTINUATION, 4, 1, 3);
    is(held_by(&s), "1:3 9:1",
       "behind a held header block no other passes");
}

static void test_many(void)
{
    unsigned i;
    side_t *s = calloc(1, sizeof(*s));
    vl_frames_e verdict;
    vl_span_t span;
    char header[9];

    s->frames.preface = VL_FRAMES_PREFACE;
    s->closed = 1;
    for (i = 0; i <= VL_FRAMES_STREAMS; i++) {
        put(header, HEADERS, 5, 2 * i + 1, 0);
        vl_frames_next(&s->frames, is_open, s, header, 9, &verdict, &span);
        if (verdict != VL_FRAMES_HOLD_NEW)
            break;
    }
    ok(i == VL_FRAMES_STREAMS && verdict == VL_FRAMES_RELEASE,
       "more streams than can be remembered release all");
    ok(!s->frames.streams && s->frames.last_stream == 2 * i + 1,
       "further streams pass");
    free(s);
}

/* Releases `streams` held uploads with `frames` empty DATA frames in all, which take turns,
 * and returns the comparisons that this took. A further stream, which is never released,
 * has as many frames. */
static apr_uint64_t steps_for(unsigned streams, unsigned frames)
{
    vl_held_t held = { 0 };
    vl_piece_t *piece;
    unsigned i, taken = 0;
    apr_uint64_t steps;

    for (i = 0; i < streams; i++)
        vl_held_begin(&held, 2 * i + 1, 1, 9);
    for (i = 0; i < frames; i++) {
        vl_held_begin(&held, 2 * (i % streams) + 1, 0, 9);
        vl_held_begin(&held, 99999, 0, 9);
    }
    for (i = 0; i < streams; i++) {
        if (!vl_held_is_free(&held, 2 * i + 1))
            break;
        while ((piece = vl_held_take(&held, 2 * i + 1))) {
            free(piece);
            taken++;
        }
    }
    ok(i == streams && taken == streams + frames, "%u streams take their frames", streams);
    steps = held.steps;
    vl_held_free(&held);
    ok(!held.bytes && !held.streams, "no memory is left");
    return steps;
}

/* A client chooses how many frames are held, and of how many streams. */
static void test_work(void)
{
    apr_uint64_t few = steps_for(2, 10000), many = steps_for(2, 80000);

    ok(many < 9 * few, "eight times the held frames are nine times the work at most");
    ok(many < 10 * 80000, "a held frame costs a few comparisons");
    ok(steps_for(200, 80000) < 60 * 80000, "with two hundred streams too");
}

int main(void)
{
    test_open();
    test_closed();
    test_running();
    test_order();
    test_parts();
    test_long();
    test_trailers();
    test_many();
    test_work();
    return tap_done();
}
