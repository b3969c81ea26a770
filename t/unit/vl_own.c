/* SPDX-License-Identifier: Apache-2.0 */
/* Is a client on this machine? */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>

#include <apr_general.h>

#include "tap.h"
#include "base/vl_own.h"

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage ss = { 0 };
    struct sockaddr_in *sin = (void *)&ss;
    struct sockaddr_in6 *sin6 = (void *)&ss;

    if (strchr(text, ':')) {
        ss.ss_family = AF_INET6;
        inet_pton(AF_INET6, text, &sin6->sin6_addr);
        sin6->sin6_port = htons(4000);
    }
    else {
        ss.ss_family = AF_INET;
        inet_pton(AF_INET, text, &sin->sin_addr);
        sin->sin_port = htons(4000);
    }
    return ss;
}

static apr_uint32_t key(const char *local, const char *remote)
{
    struct sockaddr_storage to = address(local), from = address(remote);

    return vl_own_key((struct sockaddr *)&to, (struct sockaddr *)&from);
}

/* Returns 1 if the table has each address of this machine. */
static int knows_all(void)
{
    struct sockaddr_storage to = address("192.0.2.1"), from;
    struct ifaddrs *all, *each;
    char text[INET6_ADDRSTRLEN];
    int knows = 1;

    if (getifaddrs(&all))
        return 0;
    for (each = all; each; each = each->ifa_next) {
        if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET)
            continue;
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr, text, sizeof(text));
        from = address(text);
        knows = knows && vl_own_key((struct sockaddr *)&to, (struct sockaddr *)&from);
    }
    freeifaddrs(all);
    return knows;
}

int main(void)
{
    struct sockaddr_storage other = { .ss_family = AF_UNIX };
    vl_own_more_t more = { 0 };
    struct in6_addr noted;
    apr_pool_t *p;
    int i;

    apr_initialize();
    apr_pool_create(&p, NULL);
    vl_own_child_init(p, &more);

    ok(key("192.0.2.1", "192.0.2.1") && key("2001:db8::1", "2001:db8::1"), "the same address");
    ok(key("127.0.1.1", "127.0.0.1") && key("192.0.2.1", "127.0.0.1"), "from 127.0.0.1 to another address");
    ok(key("2001:db8::1", "::1") && key("::ffff:192.0.2.1", "::ffff:127.0.0.1")
       && key("::ffff:192.0.2.1", "192.0.2.1"), "over IPv6");
    ok(key("::ffff:127.0.0.1", "::ffff:127.0.0.1") == key("127.0.0.1", "127.0.0.1")
       && key("127.0.0.1", "127.0.0.1") != key("127.0.0.1", "127.0.0.2"), "the key names the client");
    ok(!key("192.0.2.1", "198.51.100.77") && !key("2001:db8::1", "2001:db8::ffff"), "another address is not known yet");
    ok(vl_own_key_of(&in6addr_loopback, 4000, 80) != vl_own_key_of(&in6addr_loopback, 4000, 8081), "and the server's port");
    vl_own_refresh(1);
    vl_own_refresh(61000001);
    vl_own_refresh(122000002);
    ok(knows_all(), "each address of this machine");
    ok(!key("192.0.2.1", "198.51.100.77") && !key("2001:db8::1", "2001:db8::ffff"), "no other address");
    for (i = 0; i < VL_OWN_MORE + 3; i++) {
        inet_pton(AF_INET6, "::ffff:198.51.100.60", &noted);
        noted.s6_addr[15] = (unsigned char)(60 + i);
        vl_own_note(&more, &noted);
        vl_own_note(&more, &noted);
    }
    ok(key("192.0.2.1", "198.51.100.77") && !key("192.0.2.1", "198.51.100.60") && more.n == VL_OWN_MORE + 3,
       "the last addresses that were noted");
    ok(!vl_own_key((struct sockaddr *)&other, (struct sockaddr *)&other), "no other family");
    return tap_done();
}
