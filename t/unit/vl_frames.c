/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of HTTP/2 that pass or are held, and what the caller makes of it. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "vl_frames.h"

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6,
       WINDOW_UPDATE = 8, CONTINUATION = 9 };

#define END_STREAM 1

typedef struct side_t {
    vl_frames_t frames;
    int closed;
    char passed[4096], held[4096];
    size_t n_passed, n_held;
    size_t starts[64];              /* in held, of each stream */
    size_t streams;
} side_t;

static void begin(side_t *s)
{
    memset(s, 0, sizeof(*s));
    vl_frames_init(&s->frames);
}

static void release(side_t *s, size_t bytes)
{
    memcpy(s->passed + s->n_passed, s->held, bytes);
    s->n_passed += bytes;
    memmove(s->held, s->held + bytes, s->n_held - bytes);
    s->n_held -= bytes;
}

static int is_open(void *side)
{
    return !((const side_t *)side)->closed;
}

/* As vl_lease.c does it. */
static void say(side_t *s, const char *data, size_t length, size_t piece)
{
    while (length) {
        size_t part = length < piece ? length : piece, n;
        vl_frames_e verdict;
        vl_span_t span;

        n = vl_frames_next(&s->frames, is_open, s, data, part, &verdict, &span);
        data += n;
        length -= n;
        if (verdict == VL_FRAMES_RELEASE) {
            release(s, s->n_held);
            s->streams = 0;
        }
        if (verdict == VL_FRAMES_HOLD_NEW)
            s->starts[s->streams++] = s->n_held;
        if (verdict == VL_FRAMES_HOLD || verdict == VL_FRAMES_HOLD_NEW) {
            memcpy(s->held + s->n_held, span.data, span.length);
            s->n_held += span.length;
        }
        else {
            memcpy(s->passed + s->n_passed, span.data, span.length);
            s->n_passed += span.length;
        }
    }
}

static void release_one(side_t *s)
{
    size_t i, bytes = s->streams > 1 ? s->starts[1] : s->n_held;

    release(s, bytes);
    for (i = 1; i < s->streams; i++)
        s->starts[i - 1] = s->starts[i] - bytes;
    s->streams--;
    vl_frames_release_one(&s->frames);
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
    is(listed(s.passed, s.n_passed), "4:0 6:0 8:0", "control frames pass");
    is(listed(s.held, s.n_held), "1:1 1:3 9:3 0:5",
       "streams are held, in order, and what belongs to them");
    release_one(&s);
    is(listed(s.passed, s.n_passed), "4:0 6:0 8:0 1:1", "one is released");
    frame(&s, RST_STREAM, 0, 1, 4);
    frame(&s, RST_STREAM, 0, 3, 4);
    is(listed(s.passed, s.n_passed), "4:0 6:0 8:0 1:1 3:1",
       "the reset of a released stream passes, that of a held one waits");
    s.closed = 0;
    frame(&s, HEADERS, 5, 7, 1);
    is(listed(s.held, s.n_held), "1:3 9:3 0:5 3:3 1:7",
       "a stream that comes behind held ones is held, though the gate is open");
    release_one(&s);
    release_one(&s);
    frame(&s, HEADERS, 5, 9, 1);
    ok(!s.n_held && s.frames.last_stream == 9, "then it passes again");
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
    is(listed(s.held, s.n_held), "1:3", "another stream is held meanwhile");
    frame(&s, HEADERS, 4, 5, 10);
    is(listed(s.held, s.n_held), "1:3 1:5", "also one that is an upload");
    frame(&s, DATA, 0, 5, 70);
    is(listed(s.passed, s.n_passed), "1:1 0:1 1:3 1:5 0:5",
       "whose data releases all: it is in the way of the other upload");
    frame(&s, DATA, 1, 1, 5);
    frame(&s, DATA, 1, 5, 5);
    ok(s.frames.uploads == 0, "both uploads have ended");
    frame(&s, HEADERS, 4, 7, 10);
    frame(&s, DATA, 1, 7, 90);
    is(listed(s.held, s.n_held), "1:7 0:7",
       "an upload waits with its data when no other is under way");
    release_one(&s);
    ok(s.frames.uploads == 0, "and is known to be complete");
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
    ok(s.frames.uploads == 0, "and end the upload");
    frame(&s, HEADERS, 5, 3, 3);
    frame(&s, CONTINUATION, 4, 1, 3);
    is(listed(s.held, s.n_held), "1:3 9:1",
       "behind a held header block no other passes");
}

static void test_many(void)
{
    unsigned i;
    side_t *s = calloc(1, sizeof(*s));
    vl_frames_e verdict;
    vl_span_t span;
    char header[9];

    vl_frames_init(&s->frames);
    s->frames.preface = 0;
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
       "and pass themselves");
    free(s);
}

int main(void)
{
    test_open();
    test_closed();
    test_running();
    test_trailers();
    test_many();
    return tap_done();
}
