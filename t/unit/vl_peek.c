/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a connection. Every call gets its bytes in memory of exactly their
 * size, so that a memory checker detects a read beyond them. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "accept/vl_peek.h"

static vl_peek_t found;

static vl_peek_e peek(const void *bytes, apr_size_t len)
{
    char *exact = malloc(len ? len : 1);
    vl_peek_e result;

    memcpy(exact, bytes, len);
    memset(&found, 'x', sizeof(found));
    result = vl_peek(exact, len, &found);
    free(exact);
    return result;
}

/* text asks for host; NULL: for none. */
static int asks(const char *text, const char *host)
{
    vl_peek_e result = peek(text, strlen(text));

    if (host ? result == VL_PEEK_HOST && !strcmp(found.host, host) && !found.tls
             : result == VL_PEEK_NO_HOST)
        return 1;
    printf("# result %d, host %.40s\n", result, found.host);
    return 0;
}

static int wants_more(const char *text)
{
    return peek(text, strlen(text)) == VL_PEEK_MORE;
}

/* Every proper prefix of a complete message is incomplete. */
static int grows(const void *bytes, apr_size_t len)
{
    apr_size_t n;

    for (n = 0; n < len && peek(bytes, n) == VL_PEEK_MORE; n++)
        continue;
    if (n < len)
        printf("# told already after %u of %u\n", (unsigned)n, (unsigned)len);
    return n == len && peek(bytes, len) != VL_PEEK_MORE;
}

#define GET "GET / HTTP/1.1\r\n"

static void request_lines(void)
{
    ok(asks("GET / HTTP/1.1\r\nvia: 1.1 proxy\r\n\r\n", NULL) && found.forwarded
       && asks("GET / HTTP/1.1\r\nX-Forwarded-For:\t::1\r\n\r\n", NULL) && found.forwarded, "a proxy says that it is one");
    ok(asks("GET /Via: HTTP/1.1\r\nX-Via: a\r\nVia\r\n\r\n", NULL) && !found.forwarded, "a client does not");
    ok(asks("GET /.well-known/acme-challenge/x HTTP/1.1\r\n\r\n", NULL) && found.acme,
       "a validation of ACME");
    ok(asks("GET /.well-known/acme-challenge HTTP/1.1\r\n\r\n", NULL) && !found.acme,
       "the folder of validations");
    ok(asks("GET / HTTP/1.1\n\n", NULL) && found.http11,
       "without a carriage return");
    ok(asks("HEADER / HTTP/1.0\r\n\r\n", NULL) && !found.http11, "HTTP/1.0");
    ok(asks("GET /?HTTP/1.1\r\n\r\n", NULL) && !found.http11, "HTTP/0.9");
}

static void host_lines(void)
{
    ok(asks(GET "Host: a.example\r\n\r\n", "a.example"), "a host");
    ok(asks(GET "hOsT: a.example\r\n\r\n", "a.example"), "in any case");
    ok(asks(GET "Host:a.example\r\n\r\n", "a.example")
       && asks(GET "Host: \t a.example \t\r\n\r\n", "a.example"),
       "blanks or none around it");
    ok(asks(GET "Host: a.example:8080\r\n\r\n", "a.example:8080"),
       "a port is left on");
    ok(asks(GET "Host: [2001:db8::1]:80\r\n\r\n", "[2001:db8::1]:80"),
       "an IPv6 address");
    ok(asks(GET "Accept: */*\r\nX-Host: b\r\nHosts: c\r\nHost : d\r\n"
            "Host: a.example\r\nVia: e\r\n\r\n", "a.example"),
       "among other fields");
    ok(asks(GET "Host: a.example\nX: y\n\n", "a.example"),
       "lines that end in LF only");
    ok(asks("\r\n\r\n\n" GET "Host: a.example\r\n\r\n", "a.example"),
       "after empty lines");
    ok(asks(GET "Host: A.Example\r\n\r\n", "A.Example"), "as it was sent");
    ok(asks(GET "Host: a.example\r\nHost: b.example\r\n\r\n", "a.example"),
       "the first of two Host lines");
    ok(asks(GET "Host: a.example\r\n\r\nGET / HTTP/1.1\r\nHost: b.example\r\n"
            "\r\n", "a.example"), "not the Host of the next request");
    ok(asks("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9\r\n\r\nHo",
            "a.example"), "a body need not be complete");
}

static void no_host(void)
{
    ok(asks(GET "\r\n", NULL) && asks("GET / HTTP/1.0\r\nA: b\r\n\r\n", NULL),
       "no Host line");
    ok(asks(GET "Host:\r\n\r\n", NULL) && asks(GET "Host: \t \r\n\r\n", NULL),
       "an empty Host line");
    ok(asks(GET "Host:\r\nHost: b.example\r\n\r\n", NULL),
       "an empty Host line before another");
    ok(asks(GET " Host: a.example\r\n\r\n", NULL),
       "a folded Host line");
    ok(asks("GET /\r\n", NULL) && asks("GET /\n", NULL)
       && asks("GET / \r\n", NULL), "HTTP/0.9 is complete with its line");
    ok(asks("GET\r\n", NULL) && asks("\r\nx\r\n", NULL), "no request at all");
    ok(wants_more("") && wants_more("\r\n\r\n") && wants_more("\n"),
       "empty lines alone have no host");
}

static void absolute_targets(void)
{
    ok(asks("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
            "a.example"), "the host of an absolute target wins");
    ok(asks("GET HTTPS://A.example:81?q HTTP/1.1\r\n\r\n", "A.example:81"),
       "with no Host line, in any case, with a port and no path");
    ok(asks("GET http://me:pw@a.example#x HTTP/1.1\r\n\r\n", "a.example"),
       "a user and a password are not part of the host");
    ok(asks("GET http://a.example/@b HTTP/1.1\r\n\r\n", "a.example"),
       "a host in the path is ignored");
    ok(asks("GET http:/// HTTP/1.1\r\nHost: b.example\r\n\r\n", NULL),
       "an empty host in the target wins too");
    ok(asks("GET /http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
            "b.example")
       && asks("GET ftp://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
               "b.example")
       && asks("OPTIONS * HTTP/1.1\r\nHost: b.example\r\n\r\n", "b.example"),
       "other targets name no host");
}

static int is_plain(const char *text)
{
    peek(text, strlen(text));
    return found.is_plain;
}

static void plain_heads(void)
{
    ok(is_plain(GET "Host: a.example\r\n\r\n") && is_plain(GET "Host:\r\n\r\n")
       && is_plain("GET / HTTP/1.0\r\nA: b\r\n\r\n"), "a path, and one Host line or none, are plain");
    ok(!is_plain(GET "Host:\r\n a\r\n\r\n") && !is_plain(GET "Host: a\r\n\tb\r\n\r\n")
       && !is_plain(GET "Host : a\r\n\r\n"), "folded lines, and a blank before the colon, are not");
    ok(!is_plain(GET "Host: a\r\nHost: a\r\n\r\n") && !is_plain("GET  / HTTP/1.1\r\nHost: a\r\n\r\n")
       && !is_plain("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
       && !is_plain("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n")
       && !is_plain("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n") && !is_plain("GET /\r\n"),
       "other targets, and two Host lines, are not");
}

/* A head whose host is n times c; text has room for n + 40. */
static apr_size_t long_head(char *text, apr_size_t n, int c)
{
    apr_size_t len = strlen(GET "Host: ");

    memcpy(text, GET "Host: ", len);
    memset(text + len, c, n);
    memcpy(text + len + n, "\r\n\r\n", 4);
    return len + n + 4;
}

static void odd_hosts(void)
{
    static const char nul[] = GET "Host: a\0b\r\n\r\n";
    static const char early[] = "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n";
    char text[9000];
    apr_size_t len = long_head(text, 255, 'a');

    ok(peek(text, len) == VL_PEEK_HOST && strlen(found.host) == 255,
       "255 bytes fit");
    len = long_head(text, 256, 'a');
    ok(peek(text, len) == VL_PEEK_NO_HOST && !found.is_plain, "256 bytes do not fit");
    len = long_head(text, 300, 'a');
    ok(peek(text, len) == VL_PEEK_NO_HOST, "300 bytes do not fit");
    len = long_head(text, 8192, 'a');
    ok(peek(text, len) == VL_PEEK_NO_HOST, "8 KB do not fit");
    ok(asks(GET "Host: \303\244.\377\200\r\n\r\n", "\303\244.\377\200"),
       "bytes above 127 are kept");
    ok(peek(nul, sizeof(nul) - 1) == VL_PEEK_NO_HOST, "a host with a NUL is rejected");
    ok(peek(early, sizeof(early) - 1) == VL_PEEK_HOST
       && !strcmp(found.host, "a"), "a NUL elsewhere is ignored");
}

static int text_grows(const char *text)
{
    return grows(text, strlen(text));
}

static void cut_anywhere(void)
{
    ok(text_grows(GET "Host: a.example\r\nAccept: */*\r\n\r\n"),
       "every prefix of a head needs more bytes");
    ok(text_grows(GET "Host: a.example\n\n"), "every prefix of a head with LF only");
    ok(text_grows("POST http://a.example/ HTTP/1.1\r\nB: c\r\n\r\n"),
       "every prefix of a head with an absolute target");
    ok(text_grows("\r\nPROPFIND / HTTP/1.1\r\n\r\n"),
       "every prefix of a head that begins like PROXY");
    ok(text_grows("GET /x\r\n"), "HTTP/0.9");
}

static void proxy_v1(void)
{
    char text[300];

    ok(asks("PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n" GET
            "Host: a.example\r\n\r\n", "a.example")
       && asks("PROXY UNKNOWN\r\n" GET "Host: a.example\r\n\r\n", "a.example"),
       "PROXY v1 is skipped");
    ok(asks("PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n" GET "Host: a\r\n\r\n", "a")
       && found.client_length == 4 && !memcmp(found.client, "\300\0\2\1", 4)
       && found.proxy_length == strlen("PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n"),
       "PROXY v1: its length and the client's address");
    ok(asks("PROXY TCP6 2001:db8::1 ::1 1234 80\r\n" GET "Host: a\r\n\r\n", "a")
       && found.client_length == 16 && found.client[15] == 1,
       "PROXY v1: the client's IPv6 address");
    ok(asks("PROXY TCP4 300.0.2.1 192.0.2.2 1234 80\r\n" GET "Host: a\r\n\r\n", "a")
       && !found.client_length
       && asks("PROXY UNKNOWN\r\n" GET "Host: a\r\n\r\n", "a") && !found.client_length
       && asks(GET "Host: a\r\n\r\n", "a") && !found.client_length && !found.proxy_length,
       "PROXY v1: no address");
    ok(text_grows("PROXY TCP6 2001:db8::1 2001:db8::2 1234 80\r\n" GET
                  "Host: a.example\r\n\r\n"), "PROXY v1: every prefix needs more bytes");
    memset(text, 'x', sizeof(text));
    memcpy(text, "PROXY ", 6);
    strcpy(text + 105, "\r\n" GET "Host: a.example\r\n\r\n");
    ok(asks(text, "a.example"), "PROXY v1 may have 107 bytes");
    memset(text + 105, 'x', 10);
    strcpy(text + 106, "\r\n" GET "Host: a.example\r\n\r\n");
    ok(asks(text, NULL), "PROXY v1 may not have 108 bytes");
    ok(asks("PROXIED / HTTP/1.1\r\nHost: a\r\n\r\n", "a"),
       "a method that begins like PROXY");
}

/* Writes a PROXY v2 header with so many bytes of addresses in front of a text. */
static apr_size_t proxy_v2(unsigned char *out, apr_size_t body,
                           const char *what)
{
    memcpy(out, "\r\n\r\n\0\r\nQUIT\n\x21\x11", 14);
    out[14] = (unsigned char)(body >> 8);
    out[15] = (unsigned char)body;
    memset(out + 16, '\n', body);
    memcpy(out + 16 + body, what, strlen(what));
    return 16 + body + strlen(what);
}

static void proxy_v2_is_skipped(void)
{
    static const char head[] = GET "Host: a.example\r\n\r\n";
    unsigned char text[2000];
    apr_size_t len = proxy_v2(text, 12, head);

    ok(peek(text, len) == VL_PEEK_HOST && !strcmp(found.host, "a.example"),
       "PROXY v2 is skipped");
    ok(found.client_length == 4 && !memcmp(found.client, "\n\n\n\n", 4)
       && found.proxy_length == 28, "PROXY v2: its length and the client's address");
    ok(grows(text, len), "PROXY v2: every prefix needs more bytes");
    len = proxy_v2(text, 0, head);
    ok(grows(text, len) && peek(text, len) == VL_PEEK_HOST,
       "PROXY v2 without addresses");
    len = proxy_v2(text, 1000, head);
    ok(grows(text, len) && peek(text, len) == VL_PEEK_HOST,
       "PROXY v2 with more than 255 bytes of addresses");
    text[11] = 'x';
    ok(peek(text, len) != VL_PEEK_HOST, "PROXY v2 with a wrong signature");
}

/* A message is built from its end: a length is written in front of the bytes that it
 * counts. */
static unsigned char room[20000];
static unsigned char *at;

static void put(const void *bytes, apr_size_t len)
{
    at -= len;
    memcpy(at, bytes, len);
}

static void put_number(apr_size_t n, int bytes)
{
    while (bytes--) {
        *--at = (unsigned char)n;
        n >>= 8;
    }
}

/* Writes the length of the bytes from here to `end` in front of them. */
static void put_length(const unsigned char *end, int bytes)
{
    put_number((apr_size_t)(end - at), bytes);
}

#define FROM_HERE(name) const unsigned char *name = at

static void put_extension(int type, const char *bytes, apr_size_t len)
{
    put(bytes, len);
    put_number(len, 2);
    put_number((apr_size_t)type, 2);
}

static void put_sni(const char *host)
{
    FROM_HERE(end);

    put(host, strlen(host));
    put_length(end, 2);
    put_number(0, 1);                   /* host_name */
    put_length(end, 2);
    put_length(end, 2);
    put_number(0, 2);                   /* server_name */
}

/* A ClientHello message as TLS 1.2 or 1.3 has it.  host NULL: no SNI;
 * padding: bytes of an extension behind it. */
static const char *alpn = "";       /* contents of the list of protocols */

static apr_size_t client_hello(const char *host, int tls13, apr_size_t padding)
{
    static const char zeros[9000], session[32] = "session";
    unsigned char *end = at = room + sizeof(room);
    const unsigned char *part = at;

    if (padding)
        put_extension(21, zeros, padding);
    if (*alpn) {
        FROM_HERE(list);

        put(alpn, strlen(alpn));
        put_length(list, 2);
        put_length(list, 2);
        put_number(16, 2);
    }
    if (tls13)
        put_extension(43, "\2\3\4", 3); /* supported_versions: 1.3 */
    if (host)
        put_sni(host);
    put_extension(10, "\0\2\0\35", 4);  /* supported_groups */
    put_length(part, 2);
    put("\1\0", 2);                     /* compression: null */
    part = at;
    put(tls13 ? "\23\1\23\2" : "\300\57\0\57", 4);
    put_length(part, 2);                /* cipher suites */
    part = at;
    put(session, tls13 ? 32 : 0);
    put_length(part, 1);
    put(zeros, 32);                     /* random */
    put("\3\3", 2);
    put_length(end, 3);
    put_number(1, 1);                   /* ClientHello */
    return (apr_size_t)(end - at);
}

/* The message at `at` in records of `size` bytes.  Returns the length of all
 * in wire. */
static unsigned char wire[60000];

static apr_size_t records(apr_size_t len, apr_size_t size)
{
    apr_size_t i, n = 0;

    for (i = 0; i < len; i += size) {
        apr_size_t part = len - i < size ? len - i : size;

        memcpy(wire + n, "\26\3\1", 3);
        wire[n + 3] = (unsigned char)(part >> 8);
        wire[n + 4] = (unsigned char)part;
        memcpy(wire + n + 5, at + i, part);
        n += 5 + part;
    }
    return n;
}

static int asks_tls(apr_size_t len, const char *host)
{
    return peek(wire, len) == VL_PEEK_HOST && !strcmp(found.host, host)
           && found.tls;
}

static void client_hellos(void)
{
    char name[300] = { 0 };
    apr_size_t len;
    int tls13;

    for (tls13 = 0; tls13 < 2; tls13++) {
        const char *which = tls13 ? "1.3" : "1.2";

        len = records(client_hello("a.example", tls13, 0), 16384);
        ok(asks_tls(len, "a.example"), "TLS %s: SNI is found", which);
        ok(grows(wire, len), "TLS %s: every prefix needs more bytes", which);
        len = records(client_hello("a.example", tls13, 0), 1);
        ok(asks_tls(len, "a.example") && grows(wire, len),
           "TLS %s: records of one byte, and every prefix", which);
        len = records(client_hello("a.example", tls13, 1700), 600);
        ok(asks_tls(len, "a.example") && grows(wire, len),
           "TLS %s: with a large key, in records of 600", which);
        len = records(client_hello(NULL, tls13, 0), 16384);
        ok(peek(wire, len) == VL_PEEK_NO_HOST && grows(wire, len),
           "TLS %s: without SNI", which);
    }
    len = records(client_hello("", 1, 0), 16384);
    ok(peek(wire, len) == VL_PEEK_NO_HOST, "an empty name");
    memset(name, 'a', 255);
    len = records(client_hello(name, 1, 0), 16384);
    ok(asks_tls(len, name), "255 bytes fit");
    name[255] = 'a';
    len = records(client_hello(name, 1, 0), 16384);
    ok(peek(wire, len) == VL_PEEK_NO_HOST, "256 do not");
}

static void acme_hellos(void)
{
    static const struct { const char *protocols; int acme; } each[] = {
        { "\012acme-tls/1", 1 }, { "\012acme-tls/2", 0 }, { "\002h2\012acme-tls/1", 0 },
        { "\010http/1.1", 0 }
    };
    apr_size_t len;
    unsigned i;

    for (i = 0; i < sizeof(each) / sizeof(*each); i++) {
        alpn = each[i].protocols;
        len = records(client_hello("a.example", 1, 0), 16384);
        ok(asks_tls(len, "a.example") && found.acme == each[i].acme, "ALPN %s: acme %d",
           alpn + 1, each[i].acme);
    }
    alpn = "";
}

static void tls_behind_proxy(void)
{
    unsigned char text[2000];
    apr_size_t front, len = records(client_hello("a.example", 1, 0), 16384);

    front = proxy_v2(text, 12, "");
    memcpy(text + front, wire, len);
    ok(peek(text, front + len) == VL_PEEK_HOST && found.tls
       && !strcmp(found.host, "a.example") && grows(text, front + len),
       "a ClientHello after PROXY v2");
    front = strlen("PROXY UNKNOWN\r\n");
    memcpy(text, "PROXY UNKNOWN\r\n", front);
    memcpy(text + front, wire, len);
    ok(peek(text, front + len) == VL_PEEK_HOST && found.tls
       && grows(text, front + len), "a ClientHello after PROXY v1");
}

static void odd_hellos(void)
{
    apr_size_t len, size;

    size = client_hello("a.example", 1, 0);
    at[0] = 2;
    len = records(size, 16384);
    ok(peek(wire, len) == VL_PEEK_NO_HOST && peek(wire, 6) == VL_PEEK_NO_HOST,
       "another message than a ClientHello, known by its first byte");
    len = records(client_hello("a.example", 1, 0), 16384);
    wire[0] = 0x15;
    ok(peek(wire, len) != VL_PEEK_HOST, "an alert");
    len = records(client_hello("a.example", 1, 0), 40);
    wire[45] = 0x17;
    ok(peek(wire, len) == VL_PEEK_NO_HOST, "a second record of another type");
    memcpy(wire, "\26\3\1\0\0", 5);
    ok(peek(wire, 5) == VL_PEEK_NO_HOST, "an empty record");
    len = records(client_hello("a.example", 1, 8100), 16384);
    ok(peek(wire, len) == VL_PEEK_NO_HOST, "a ClientHello above the maximum size");
    ok(peek(wire, 9) == VL_PEEK_NO_HOST, "the maximum is detected from the length");
    len = records(client_hello("a.example", 1, 7900), 16384);
    ok(asks_tls(len, "a.example"), "a ClientHello below the maximum size");
    memcpy(wire, "\26\3\1\0\4\1\0\0\0", 9);
    ok(peek(wire, 9) == VL_PEEK_NO_HOST, "an empty ClientHello");
}

/* Each byte of a valid hello is set to 0, to 255 and to its value plus one: wrong lengths,
 * and lists that end early. A prefix of the name may be found, but no other name. */
static void lengths_that_lie(void)
{
    static const unsigned char values[] = { 0, 1, 127, 255 };
    apr_size_t len = records(client_hello("a.example", 1, 0), 16384), i, v;
    unsigned found_odd = 0, undecided = 0;

    for (i = 9; i < len; i++) {
        unsigned char was = wire[i];

        for (v = 0; v < sizeof(values); v++) {
            vl_peek_e result;

            wire[i] = values[v];
            result = peek(wire, len);
            undecided += result == VL_PEEK_MORE;
            found_odd += result == VL_PEEK_HOST
                         && strlen(found.host) > strlen("a.example") + 60;
        }
        wire[i] = was;
    }
    ok(!undecided, "a complete hello gets a result, whatever its bytes");
    ok(!found_odd, "no name extends beyond its extension");
    ok(asks_tls(len, "a.example"), "the valid hello is still valid");
}

static void hello_cut_short(void)
{
    apr_size_t whole = client_hello("a.example", 0, 0), n;
    unsigned odd = 0;

    /* The message's length ends it early, at any position. */
    for (n = 0; n < whole - 4; n++) {
        client_hello("a.example", 0, 0);
        at[2] = (unsigned char)(n >> 8);
        at[3] = (unsigned char)n;
        odd += peek(wire, records(4 + n, 16384)) == VL_PEEK_MORE;
    }
    ok(!odd, "a hello that ends at any position gets a result");
}

/* Valid first bytes, so that random bytes pass the first checks. */
static apr_size_t begin_well(unsigned char *bytes, int how)
{
    static const struct { const char *at; apr_size_t len; } begins[] = {
        { "", 0 }, { "GET / HTTP/1.1\r\nHost:", 21 }, { "PROXY ", 6 },
        { "\r\n\r\n\0\r\nQUIT\n\x21\x11\0", 15 }, { "\26\3\1\0", 4 },
        { "\26\3\1\1\0\1\0\0\374\3\3", 11 }, { "GET http://", 11 },
        { "\26\3\1\0\1\1\26\3\1\0", 10 }
    };
    int i = how % (int)(sizeof(begins) / sizeof(begins[0]));

    memcpy(bytes, begins[i].at, begins[i].len);
    return begins[i].len;
}

static void random_bytes(void)
{
    static const char likely[] = "\r\n\0\1\3\26 :/@";
    unsigned char bytes[512];
    unsigned odd = 0;
    int i;

    for (i = 0; i < 100000; i++) {
        apr_size_t len = begin_well(bytes, i), size = (apr_size_t)rand() % 400;
        vl_peek_e result;

        while (len < size) {
            int r = rand();

            bytes[len++] = r & 0x300 ? (unsigned char)r
                                     : (unsigned char)likely[(r >> 10) % 10];
        }
        result = peek(bytes, len);
        if (result == VL_PEEK_HOST)
            odd += !memchr(found.host, 0, sizeof(found.host))
                   || !found.host[0];
        else
            odd += result != VL_PEEK_MORE && result != VL_PEEK_NO_HOST;
    }
    ok(!odd, "100000 random inputs: a result, and never an empty host");
}

/* A valid hello with one random byte in ten wrong. */
static void damaged_hellos(void)
{
    apr_size_t len = records(client_hello("a.example", 1, 50), 1 + 16384), i;
    unsigned char good[sizeof(wire)];
    int n, odd = 0;

    memcpy(good, wire, len);
    for (n = 0; n < 20000; n++) {
        for (i = 0; i < len; i++)
            wire[i] = rand() % 10 || i < 6 ? good[i] : (unsigned char)rand();
        if (peek(wire, len) == VL_PEEK_HOST)
            odd += !memchr(found.host, 0, sizeof(found.host));
    }
    ok(!odd, "20000 damaged hellos get a result");
}

int main(void)
{
    srand(20261121);
    request_lines();
    host_lines();
    no_host();
    absolute_targets();
    plain_heads();
    odd_hosts();
    cut_anywhere();
    proxy_v1();
    proxy_v2_is_skipped();
    client_hellos();
    acme_hellos();
    tls_behind_proxy();
    odd_hellos();
    lengths_that_lie();
    hello_cut_short();
    random_bytes();
    damaged_hellos();
    return tap_done();
}
