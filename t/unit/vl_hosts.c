/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of hosts: which name gets one, which account is reused, and what it costs. */
#include "segment.h"
#include "core/vl_hosts.h"

/* The time of the test: entries are made older instead of waiting. */
static void pass_time(vl_shm_t *shm, apr_uint32_t seconds)
{
    apr_uint32_t i;

    for (i = 0; i < shm->hosts->used; i++) {
        shm->host[i].last_s -= seconds;
        shm->host[i].since_s -= seconds;
    }
    for (i = 0; i < HOSTS_SEEN; i++) {
        if (shm->host_seen[i])
            shm->host_seen[i] -= seconds;
    }
    shm->hosts->contended_s = 0;
}

/* The name was in use for a minute. */
static void establish(vl_shm_t *shm, apr_uint32_t account)
{
    shm->host[account - shm->head->sites].since_s -= VL_HOSTS_ESTABLISHED_S;
}

static vl_shm_t *make_hosts(apr_uint32_t hosts)
{
    vl_shm_t *shm = make_with_hosts(4, hosts, 4);

    if (vl_shm_child_attach(shm, getpid(), 100) != APR_SUCCESS)
        abort();
    return shm;
}

static void names(void)
{
    char name[VL_HOST_SIZE];
    char longest[300];

    ok(vl_hosts_normalize("Shop.Example.COM.:8080", name) && !strcmp(name, "shop.example.com"),
       "a name is in lower case, without port and final dot");
    ok(vl_hosts_normalize("a_b-1", name) && !strcmp(name, "a_b-1"), "other characters stay");
    ok(!vl_hosts_normalize("", name) && !vl_hosts_normalize(NULL, name)
       && !vl_hosts_normalize(":80", name) && !vl_hosts_normalize(".", name),
       "no name has no account");
    ok(!vl_hosts_normalize("[::1]:80", name) && !vl_hosts_normalize("::1", name)
       && !vl_hosts_normalize("a/b", name) && !vl_hosts_normalize("a\xc3\xa4", name),
       "nor has an IPv6 address, or other characters");
    memset(longest, 'a', sizeof(longest));
    longest[254] = '\0';
    ok(!vl_hosts_normalize(longest, name), "nor has a name of 254 characters");
    longest[253] = '\0';
    ok(vl_hosts_normalize(longest, name) && strlen(name) == 253, "253 characters are a name");
}

static void accounts(void)
{
    vl_shm_t *shm = make_hosts(8);
    vl_limits_t limits = limits_of(VL_MODE_ON, 3, 7);
    apr_uint32_t site, other, a, b, found = NONE;
    vl_change_t change = { .set = VL_KEY_BIT(VL_KEY_weight), .until_us = 1000 };

    limits.weight = 250;
    site = account_with(shm, "hosting.test", limits);
    other = account(shm, "other.test", 0);
    a = vl_hosts_find(shm, site, "A.example:80");
    b = vl_hosts_find(shm, site, "b.example");
    ok(a != site && b != site && a != b && a >= shm->head->sites, "each host has an account");
    ok(vl_hosts_find(shm, site, "a.example.") == a, "it keeps it");
    ok(vl_hosts_find(shm, other, "a.example") != a, "at another site the name has another one");
    ok(vl_hosts_find(shm, site, "hosting.test") == site
       && vl_hosts_find(shm, site, NULL) == site && vl_hosts_find(shm, site, "[::1]") == site,
       "the ServerName, no name and an address have the site's");
    ok(vl_hosts_lookup(shm, site, "B.example", &found) && found == b
       && !vl_hosts_lookup(shm, site, "c.example", &found), "a lookup makes none");
    ok(!strcmp(snapshot(shm, a).name, "a.example") && snapshot(shm, a).limits.weight == 250
       && snapshot(shm, a).limits.concurrency == 3 && snapshot(shm, a).limits.queue == 7,
       "it has the name and the limits of its site");
    change.values.of[VL_KEY_weight] = 500;
    vl_shm_parent_change(shm, site, &change);
    ok(snapshot(shm, a).limits.weight == 500 && snapshot(shm, a).override.keys
       && snapshot(shm, b).limits.weight == 500, "a change of the site's limits reaches it");
    memset(&change, 0, sizeof(change));
    change.expire_us = 1000;
    vl_shm_parent_change(shm, site, &change);
    ok(snapshot(shm, a).limits.weight == 250 && !snapshot(shm, a).override.keys
       && snapshot(shm, b).limits.weight == 250, "the end of a timed change reaches it");
    memset(&change, 0, sizeof(change));
    change.configure = VL_KEY_BIT(VL_KEY_concurrency);
    change.values.of[VL_KEY_concurrency] = 2;
    vl_shm_parent_change(shm, site, &change);
    ok(snapshot(shm, a).limits.concurrency == 2
       && snapshot(shm, a).override.configured.of[VL_KEY_concurrency] == 2,
       "a change of the site's plan reaches it");
    ok(vl_hosts_count(shm).named == 3 && vl_hosts_count(shm).limit == 8
       && !vl_hosts_count(shm).beyond, "hosts are counted");
    ok(valid(shm), "the segment is valid");
}

static void shares(void)
{
    vl_shm_t *shm = make_hosts(8);
    apr_uint32_t site = account(shm, "hosting.test", 1);
    apr_uint32_t a = vl_hosts_find(shm, site, "a"), b = vl_hosts_find(shm, site, "b");
    vl_ticket_t one, two, three;

    ok(enter(shm, a, &one) && !enter(shm, a, &two) && enter(shm, b, &two)
       && enter(shm, site, &three), "each host has the concurrency of its site");
    end(shm, &one, 100);
    end(shm, &two, 100);
    end(shm, &three, 100);
    ok(metrics(shm, a).requests == 1 && metrics(shm, a).refused == 1
       && metrics(shm, b).requests == 1, "each host has its counters");
    ok(is_empty(shm), "nothing is left");
}

static void reuse(void)
{
    vl_shm_t *shm = make_hosts(2);
    apr_uint32_t site = account(shm, "hosting.test", 0), a, b, c, identity;
    vl_ticket_t ticket;

    a = vl_hosts_find(shm, site, "a");
    b = vl_hosts_find(shm, site, "b");
    identity = vl_hosts_identity(shm, a);
    ok(vl_hosts_find(shm, site, "c") == site && vl_hosts_count(shm).beyond == 1,
       "a name beyond the bound has the site's account");
    enter(shm, a, &ticket);
    pass_time(shm, VL_HOSTS_KEEP_S);
    ok(vl_hosts_find(shm, site, "b") == b && vl_hosts_find(shm, site, "c") == site,
       "a host with a request that runs is not replaced, nor one in use");
    end(shm, &ticket, 100);
    c = vl_hosts_find(shm, site, "c");
    ok(c == a && !strcmp(snapshot(shm, c).name, "c"), "an idle one is replaced");
    ok(!metrics(shm, c).requests && metrics(shm, site).requests == 1,
       "its counters are the site's now");
    ok(vl_hosts_identity(shm, c) != identity && vl_hosts_identity(shm, site) == site,
       "its clients are not those of the last name");
    ok(valid(shm), "the segment is valid");
    establish(shm, b);
    pass_time(shm, VL_HOSTS_IDLE_S);
    ok(vl_hosts_find(shm, site, "d") == c && vl_hosts_find(shm, site, "e") == site,
       "a name that was used once is replaced soon, an established one is not");
    enter(shm, c, &ticket);
    end(shm, &ticket, 60 * APR_USEC_PER_SEC);
    pass_time(shm, VL_HOSTS_IDLE_S);
    ok(vl_hosts_find(shm, site, "f") == site, "an unpaid one is not replaced soon");
    pass_time(shm, VL_HOSTS_KEEP_S);
    ok(vl_hosts_find(shm, site, "f") != site, "after ten minutes it is");
    ok(valid(shm), "the segment is valid");
}

static void memory_is_reused(void)
{
    vl_shm_t *shm = make_hosts(100);
    apr_uint32_t site = account(shm, "hosting.test", 0), a = vl_hosts_find(shm, site, "a");

    pass_time(shm, VL_HOSTS_IDLE_S);
    ok(vl_hosts_find(shm, site, "b") != a, "while there is room an idle host stays");
    pass_time(shm, VL_HOSTS_KEEP_S);
    ok(vl_hosts_find(shm, site, "c") == a && shm->hosts->used == 2,
       "after ten minutes it is replaced before new memory is used");
}

/* Asks for n names that nothing has asked for before. Returns how many got an account. */
static apr_uint32_t flood(vl_shm_t *shm, apr_uint32_t site, apr_uint32_t n)
{
    static apr_uint32_t next;
    apr_uint32_t got = 0;
    char name[20];

    for (; n; n--) {
        snprintf(name, sizeof(name), "r%u", next++);
        got += vl_hosts_find(shm, site, name) != site;
    }
    return got;
}

static void contended(void)
{
    vl_shm_t *shm = make_hosts(65536);
    apr_uint32_t site = account(shm, "hosting.test", 0), a, i, got = 0;
    char name[20];

    a = vl_hosts_find(shm, site, "a");
    vl_slot_set(shm, 1);
    queue_one(shm, site, 1);
    queue_one(shm, a, 1);
    queue_one(shm, site, 1);
    ok(vl_slot_contended(shm), "requests wait");
    ok(!flood(shm, site, 50000), "50000 names that come once get no account then");
    ok(vl_hosts_find(shm, site, "a") == a, "a host that has one keeps it");
    ok(vl_hosts_find(shm, site, "new") == site, "a new host waits in the site's account");
    pass_time(shm, 1);
    ok(vl_hosts_find(shm, site, "new") != site, "a second later it gets its own");
    for (i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "again%u", i);
        vl_hosts_find(shm, site, name);
    }
    pass_time(shm, 1);
    for (i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "again%u", i);
        got += vl_hosts_find(shm, site, name) != site;
    }
    /* The second may end meanwhile. */
    ok(got >= VL_HOSTS_BEGIN_RATE - 1 && got <= 2 * VL_HOSTS_BEGIN_RATE,
       "so do ten names a second, not all (%u)", got);
    ok(shm->hosts->used == 2 + got, "the others used no memory");
    ok(valid(shm), "the segment is valid");
}

/* Dies with the lock, while the table is broken. */
static void break_table(vl_shm_t *shm)
{
    pid_t pid = fork();

    if (!pid) {
        vl_segment_lock(shm);
        memset(shm->host_buckets, 0, sizeof(apr_uint32_t) * shm->hosts->buckets);
        shm->host[1].key = 0;
        shm->hosts->named = 100;
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void recovery(void)
{
    vl_shm_t *shm = make_hosts(8);
    apr_uint32_t site = account(shm, "hosting.test", 0);
    apr_uint32_t a = vl_hosts_find(shm, site, "a"), b = vl_hosts_find(shm, site, "b");

    break_table(shm);
    ok(valid(shm) && vl_hosts_count(shm).named == 1, "the table is made again after a death");
    ok(vl_hosts_find(shm, site, "a") == a && vl_hosts_find(shm, site, "b") == b,
       "its names are found");
    ok(valid(shm), "the segment is valid");
}

static void sites_that_end(void)
{
    vl_shm_t *shm = make_with_hosts(1, 4, 4);
    apr_uint32_t site = account(shm, "old.test", 0), a;
    vl_ticket_t ticket;

    vl_shm_child_attach(shm, getpid(), 100);
    a = vl_hosts_find(shm, site, "a");
    enter(shm, a, &ticket);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "new.test", 0) == NONE, "a site whose host has a request is needed");
    end(shm, &ticket, 100);
    vl_shm_post_config_begin(shm);
    ok(account(shm, "new.test", 0) == site && !vl_hosts_count(shm).named,
       "without, its account and those of its hosts are reused");
    ok(valid(shm), "the segment is valid");
}

/* A host costs so much memory when it has come, and each child that has served it 72 bytes. */
static void sizes(void)
{
    apr_size_t bytes = sizeof(account_t) + sizeof(vl_fair_account_t) + sizeof(apr_uint32_t)
                       + sizeof(vl_inner_t) + sizeof(vl_host_t) + sizeof(apr_uint32_t);

    printf("# bytes for each host: %zu, and %zu in each child: account %zu, fair %zu, "
           "shares %zu, entry %zu\n", bytes, sizeof(cell_t), sizeof(account_t),
           sizeof(vl_fair_account_t), sizeof(vl_inner_t), sizeof(vl_host_t));
    ok(bytes < 4096 && sizeof(cell_t) <= 72, "a host takes less than a page");
}

static void speed(void)
{
    vl_shm_t *shm = make_hosts(65536);
    apr_uint32_t site = account(shm, "hosting.test", 0), got;
    apr_int64_t since_us = vl_clock_us(), begun_us;

    got = flood(shm, site, 65536);
    begun_us = vl_clock_us() - since_us;
    since_us = vl_clock_us();
    flood(shm, site, 65536);
    printf("# %.2f us for each new host, %.2f us for each beyond the bound\n",
           (double)begun_us / 65536, (double)(vl_clock_us() - since_us) / 65536);
    ok(got == 65536 && vl_hosts_count(shm).beyond == 65536, "65536 hosts have an account");
}

int main(void)
{
    segment_init();
    names();
    accounts();
    shares();
    reuse();
    memory_is_reused();
    contended();
    recovery();
    sites_that_end();
    sizes();
    speed();
    return tap_done();
}
