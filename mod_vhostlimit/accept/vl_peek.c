/* SPDX-License-Identifier: Apache-2.0 */
#include "accept/vl_peek.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

typedef struct span_t {
    const unsigned char *at;
    apr_size_t len;
} span_t;

static int keep_host(vl_peek_t *peek, const void *host, apr_size_t len)
{
    if (!len || len >= VL_PEEK_HOST_SIZE || memchr(host, 0, len))
        return VL_PEEK_NO_HOST;
    memcpy(peek->host, host, len);
    peek->host[len] = '\0';
    return VL_PEEK_HOST;
}

/* "PROXY TCP4 192.0.2.1 ...": reads the client's address. end: the end of the line. */
static void read_client_v1(const unsigned char *at, const unsigned char *end, vl_peek_t *peek)
{
    char text[INET6_ADDRSTRLEN];
    const unsigned char *blank;
    int is_v4 = !memcmp(at, "PROXY TCP4 ", 11);

    if (end - at < 12 || (!is_v4 && memcmp(at, "PROXY TCP6 ", 11)))
        return;
    at += 11;
    blank = memchr(at, ' ', (apr_size_t)(end - at));
    if (!blank || (apr_size_t)(blank - at) >= sizeof(text))
        return;
    memcpy(text, at, (apr_size_t)(blank - at));
    text[blank - at] = '\0';
    if (inet_pton(is_v4 ? AF_INET : AF_INET6, text, peek->client) == 1)
        peek->client_length = is_v4 ? 4 : 16;
}

/* Returns 1 if it skipped a header, 0 if there is none, -1 if it is incomplete. */
static int skip_proxy_v1(span_t *in, vl_peek_t *peek)
{
    static const char word[] = "PROXY ";
    const unsigned char *end;
    apr_size_t n = in->len < 6 ? in->len : 6;

    if (memcmp(in->at, word, n))
        return 0;
    if (n < 6)
        return -1;
    /* At most 107 bytes with its CRLF (PROXY protocol, section 2.1). */
    end = memchr(in->at, '\n', in->len < 107 ? in->len : 107);
    if (!end)
        return in->len < 107 ? -1 : 0;
    if (end - in->at >= 12)
        read_client_v1(in->at, end, peek);
    in->len -= (apr_size_t)(end + 1 - in->at);
    in->at = end + 1;
    return 1;
}

static int skip_proxy_v2(span_t *in, vl_peek_t *peek)
{
    static const char signature[] = "\r\n\r\n\0\r\nQUIT\n";
    apr_size_t n = in->len < 12 ? in->len : 12, body;

    if (memcmp(in->at, signature, n))
        return 0;
    if (in->len < 16)
        return -1;
    body = (apr_size_t)in->at[14] << 8 | in->at[15];
    if (in->len < 16 + body)
        return -1;
    /* The command is PROXY, the address that of TCP over IPv4 or IPv6 (section 2.2). */
    if (in->at[12] == 0x21 && ((in->at[13] == 0x11 && body >= 12)
                               || (in->at[13] == 0x21 && body >= 36))) {
        peek->client_length = in->at[13] == 0x11 ? 4 : 16;
        memcpy(peek->client, in->at + 16, peek->client_length);
    }
    in->at += 16 + body;
    in->len -= 16 + body;
    return 1;
}

/* Returns 1 and the value of a "Host:" line without blanks around it, or 0. */
static int host_line(const unsigned char *line, apr_size_t len, span_t *ret)
{
    if (len < 5 || strncasecmp((const char *)line, "Host:", 5))
        return 0;
    line += 5;
    len -= 5;
    while (len && (*line == ' ' || *line == '\t')) {
        line++;
        len--;
    }
    while (len && (line[len - 1] == ' ' || line[len - 1] == '\t'
                   || line[len - 1] == '\r'))
        len--;
    ret->at = line;
    ret->len = len;
    return 1;
}

/* "GET http://host/path HTTP/1.1": returns the target's authority, which overrides the
 * Host line (RFC 9112, 3.2.2). */
static int absolute_target(const unsigned char *line, apr_size_t len,
                           span_t *ret)
{
    const unsigned char *end = line + len;
    const unsigned char *at = memchr(line, ' ', len);
    const unsigned char *host;

    if (!at || end - at < 9)
        return 0;
    at++;
    if (!strncasecmp((const char *)at, "http://", 7))
        at += 7;
    else if (!strncasecmp((const char *)at, "https://", 8))
        at += 8;
    else
        return 0;
    for (host = at; at < end && !strchr("/?# \r", *at); at++) {
        if (*at == '@')
            host = at + 1;
    }
    ret->at = host;
    ret->len = (apr_size_t)(at - host);
    return 1;
}

static int is_http_11(const unsigned char *line, apr_size_t len)
{
    if (len && line[len - 1] == '\r')
        len--;
    return len > 9 && !memcmp(line + len - 9, " HTTP/1.1", 9);
}

/* An HTTP/0.9 request consists of its first line. */
static int is_http_09(const unsigned char *line, apr_size_t len)
{
    const unsigned char *end = line + len;
    int blanks = 0;

    for (; line < end; line++)
        blanks += *line == ' ' && line + 1 < end && line[1] != '\r';
    return blanks < 2;
}

/* Returns 1 if the target begins with "/". */
static int is_path(const unsigned char *line, apr_size_t len)
{
    const unsigned char *blank = memchr(line, ' ', len);

    return blank && blank + 1 < line + len && blank[1] == '/';
}

static int is_challenge(const unsigned char *line, apr_size_t len)
{
    static const char path[] = "GET /.well-known/acme-challenge/";

    return len >= sizeof(path) - 1 && !memcmp(line, path, sizeof(path) - 1);
}

/* Returns 1 for lines from which httpd may read another host than host_line(): one that continues
 * the line before, and a blank before the colon (HttpProtocolOptions Unsafe). */
static int is_odd(const unsigned char *line, apr_size_t len)
{
    return *line == ' ' || *line == '\t'
           || (len > 4 && (line[4] == ' ' || line[4] == '\t')
               && !strncasecmp((const char *)line, "Host", 4));
}

/* Returns 1 for a line that a proxy adds. */
static int is_forwarded(const unsigned char *line, apr_size_t len)
{
    static const char *const names[] = { "X-Forwarded-For:", "Forwarded:", "Via:" };
    apr_size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (len > strlen(names[i]) && !strncasecmp((const char *)line, names[i], strlen(names[i])))
            return 1;
    }
    return 0;
}

static vl_peek_e end_of_head(vl_peek_t *peek, const span_t *host, int is_plain)
{
    vl_peek_e result = host->at ? keep_host(peek, host->at, host->len) : VL_PEEK_NO_HOST;

    peek->is_plain = is_plain && (result == VL_PEEK_HOST || !host->len);
    return result;
}

static vl_peek_e peek_http(span_t in, vl_peek_t *peek)
{
    span_t host = { NULL, 0 }, line;
    int lines = 0, absolute = 0, hosts = 0, has_path = 0, odd = 0;

    while (in.len) {
        const unsigned char *end = memchr(in.at, '\n', in.len);
        apr_size_t len;

        if (!end)
            break;
        len = (apr_size_t)(end - in.at);
        if (!len || (len == 1 && *in.at == '\r')) {
            /* Empty lines before the request line are skipped. */
            if (lines)
                return end_of_head(peek, &host, has_path && hosts < 2 && !odd);
        }
        else if (!lines++) {
            peek->http2 = len >= 14 && !memcmp(in.at, "PRI * HTTP/2.0", 14);
            peek->http11 = is_http_11(in.at, len);
            peek->acme = is_challenge(in.at, len);
            if (is_http_09(in.at, len))
                return VL_PEEK_NO_HOST;
            has_path = is_path(in.at, len);
            absolute = !has_path && absolute_target(in.at, len, &host);
        }
        else if ((*in.at | 0x20) == 'h' && host_line(in.at, len, &line) && !hosts++
                 && !absolute) {
            host = line;
        }
        else {
            odd |= is_odd(in.at, len);
            peek->forwarded |= is_forwarded(in.at, len);
        }
        in.len -= len + 1;
        in.at = end + 1;
    }
    /* For callers that do not wait for the rest. */
    end_of_head(peek, &host, has_path && hosts < 2 && !odd);
    return VL_PEEK_MORE;
}

/* Takes a big-endian number of n bytes off the front. Returns 0 if they are not there;
 * `in` is then empty. */
static apr_size_t take(span_t *in, int n)
{
    apr_size_t value = 0;

    while (n--) {
        if (!in->len)
            return 0;
        value = value << 8 | *in->at++;
        in->len--;
    }
    return value;
}

/* Takes n bytes off the front, or as many as there are. */
static span_t take_span(span_t *in, apr_size_t n)
{
    span_t out = { in->at, n < in->len ? n : in->len };

    in->at += out.len;
    in->len -= out.len;
    return out;
}

/* server_name extension: list of type, length, name; type 0 is a host. */
static vl_peek_e sni_name(span_t ext, vl_peek_t *peek)
{
    span_t list = take_span(&ext, take(&ext, 2));

    while (list.len) {
        apr_size_t type = take(&list, 1);
        span_t name = take_span(&list, take(&list, 2));

        if (type == 0)
            return keep_host(peek, name.at, name.len);
    }
    return VL_PEEK_NO_HOST;
}

/* application_layer_protocol_negotiation extension: list of length, name. A validation of ACME
 * names this protocol and no other (RFC 8737, 3). */
static int is_acme(span_t ext)
{
    static const char acme[] = "\0\013\012acme-tls/1";

    return ext.len == sizeof(acme) - 1 && !memcmp(ext.at, acme, sizeof(acme) - 1);
}

/* body: a complete ClientHello. */
static vl_peek_e hello_sni(span_t body, vl_peek_t *peek)
{
    vl_peek_e result = VL_PEEK_NO_HOST;
    span_t exts;

    take_span(&body, 2 + 32);               /* version, random */
    take_span(&body, take(&body, 1));       /* session id */
    take_span(&body, take(&body, 2));       /* cipher suites */
    take_span(&body, take(&body, 1));       /* compression methods */
    exts = take_span(&body, take(&body, 2));
    while (exts.len >= 4) {
        apr_size_t type = take(&exts, 2);
        span_t ext = take_span(&exts, take(&exts, 2));

        if (type == 0 && result == VL_PEEK_NO_HOST)
            result = sni_name(ext, peek);
        else if (type == 16)
            peek->acme = is_acme(ext);
    }
    return result;
}

/* A ClientHello may span several records; `flat` gets their contents. */
static vl_peek_e peek_tls(span_t in, vl_peek_t *peek)
{
    unsigned char flat[8192];
    span_t handshake = { flat, 0 };
    apr_size_t want = 4;

    while (in.len) {
        apr_size_t type = take(&in, 1), size;
        span_t part;

        if (type != 0x16)
            return VL_PEEK_NO_HOST;
        if (in.len < 4)
            return VL_PEEK_MORE;
        take(&in, 2);                       /* record version */
        size = take(&in, 2);
        part = take_span(&in, size);
        if (!size || handshake.len + part.len > sizeof(flat))
            return VL_PEEK_NO_HOST;
        memcpy(flat + handshake.len, part.at, part.len);
        handshake.len += part.len;
        if (handshake.len >= 1 && flat[0] != 1) /* not a ClientHello */
            return VL_PEEK_NO_HOST;
        if (handshake.len >= 4)
            want = 4 + ((apr_size_t)flat[1] << 16 | (apr_size_t)flat[2] << 8
                        | flat[3]);
        if (want > sizeof(flat))
            return VL_PEEK_NO_HOST;
        if (handshake.len >= want) {
            handshake.at += 4;
            handshake.len = want - 4;
            peek->tls = 1;
            return hello_sni(handshake, peek);
        }
        if (part.len < size)
            return VL_PEEK_MORE;
    }
    return VL_PEEK_MORE;
}

vl_peek_e vl_peek(const char *bytes, apr_size_t len, vl_peek_t *ret_peek)
{
    span_t in = { (const unsigned char *)bytes, len };
    int skipped;

    ret_peek->host[0] = '\0';
    ret_peek->http2 = 0;
    ret_peek->tls = ret_peek->acme = 0;
    ret_peek->http11 = ret_peek->is_plain = ret_peek->forwarded = 0;
    ret_peek->client_length = ret_peek->proxy_length = 0;
    if (!in.len)
        return VL_PEEK_MORE;
    skipped = skip_proxy_v1(&in, ret_peek);
    if (!skipped)
        skipped = skip_proxy_v2(&in, ret_peek);
    ret_peek->proxy_length = skipped > 0 ? len - in.len : 0;
    if (skipped < 0 || !in.len)
        return VL_PEEK_MORE;
    if (*in.at == 0x16)
        return peek_tls(in, ret_peek);
    return peek_http(in, ret_peek);
}
