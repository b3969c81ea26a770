/* SPDX-License-Identifier: Apache-2.0 */
/* Processor times from the text of /proc/stat. */
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "core/vl_cpu.h"

static int all(void *data, unsigned cpu)
{
    return 1;
}

static int only(void *data, unsigned cpu)
{
    return cpu == *(unsigned *)data;
}

static vl_cpu_t parse(const char *text)
{
    vl_cpu_t cpu = { 77, 77 };

    vl_cpu_parse(text, all, NULL, &cpu);
    return cpu;
}

static int is(vl_cpu_t got, apr_uint64_t busy, apr_uint64_t total)
{
    if (got.busy == busy && got.total == total)
        return 1;
    printf("# got %llu of %llu, want %llu of %llu\n",
           (unsigned long long)got.busy, (unsigned long long)got.total,
           (unsigned long long)busy, (unsigned long long)total);
    return 0;
}

static const char real[] =
    "cpu  300000 200 100 4000 50 6 7 8 0 0\n"
    "cpu0 1 20 300 4000 50000 600000 7000000 80000000 900000000 0\n"
    "cpu1 2 0 0 3 0 0 0 0 0 0\n"
    "cpu12 0 0 4 0 5 0 0 0 0 0\n"
    "intr 123456789 0 0 0 0 0 0 0 0 0 0\n"
    "ctxt 1234\nbtime 1600000000\nprocesses 9 9 9 9 9 9 9 9 9\n";

static void fields_are_summed(void)
{
    unsigned which;
    vl_cpu_t cpu;

    which = 0;
    vl_cpu_parse(real, only, &which, &cpu);
    ok(is(cpu, 87600321, 87654321), "idle and waiting for a disk are idle, the "
       "rest is busy, stolen time too; guests are in user already");
    which = 12;
    vl_cpu_parse(real, only, &which, &cpu);
    ok(is(cpu, 4, 9), "a number of two digits");
    which = 3;
    vl_cpu_parse(real, only, &which, &cpu);
    ok(is(cpu, 0, 0), "a missing processor");
    ok(is(parse("cpu0 1 1 1 1 1 1 1 1 0 0\n"
                "cpu1 2 2 2 2 2 2 2 2 0 0\n"), 18, 24),
       "selected processors are added up");
    ok(is(parse("cpu0 1 1 1 1 1 1 1 1"), 6, 8), "no end of line, no guests");
    ok(is(parse("cpu0 18446744073709551 0 0 18446744073709551 0 0 0 0\n"),
          18446744073709551ULL, 2 * 18446744073709551ULL),
       "numbers beyond 32 bits");
}

static void the_line_of_all_is_skipped(void)
{
    ok(is(parse("cpu  300000 1 1 1 1 1 1 1\n"), 0, 0),
       "the line of all processors is skipped");
    ok(is(parse("cpu  1 10 10 10 10 10 10 10 0 0\n"), 0, 0),
         "the line of all processors is not that of processor 1");
}

static void garbage_is_skipped(void)
{
    static const char *bad[] = {
        "", "\n", "\n\n\n", "cpu", "cpu0", "cpu0 ", "cpu0\n", "cpu0 1 2 3\n",
        "cpu0 1 2 3 4 5 6 7\n", "cpux 1 2 3 4 5 6 7 8\n",
        "cpu0 a b c d e f g h\n", "cpu0 1 2 3 4 5 6 7 x\n",
        "xcpu0 1 2 3 4 5 6 7 8\n", "\377\376\200\n", "CPU0 1 2 3 4 5 6 7 8\n"
    };
    apr_size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!is(parse(bad[i]), 0, 0))
            break;
    }
    ok(i == sizeof(bad) / sizeof(bad[0]),
       "invalid lines count nothing");
    ok(is(parse("cpu0 1 2 3\ncpu1 1 1 1 1 1 1 1 1 0 0\nxyz\n"
                "cpu2 1 1 1 1 1 1 1 1 0 0\n"), 12, 16),
       "lines with fields missing do not spoil the others");
    ok(is(parse("cpu0 1 2 3\n4 5 6 7 8\n"), 0, 0),
         "a line does not continue on the next one");
}

/* Tries every prefix of a valid text, as a short read would return it. */
static void cut_anywhere(void)
{
    char text[sizeof(real)];
    apr_size_t len, wrong = 0;
    vl_cpu_t whole = parse(real), cpu;

    for (len = 0; len < sizeof(real); len++) {
        memcpy(text, real, len);
        text[len] = '\0';
        cpu = parse(text);
        wrong += cpu.busy > whole.busy || cpu.total > whole.total
                 || cpu.busy > cpu.total;
    }
    ok(!wrong, "no prefix of a text gives more than the whole");
}

static apr_uint32_t permille(apr_uint64_t busy, apr_uint64_t total)
{
    vl_cpu_t from = { 1000, 5000 }, to = { 1000 + busy, 5000 + total };

    return vl_cpu_busy_permille(&from, &to);
}

static void permille_between_readings(void)
{
    vl_cpu_t early = { 100, 200 }, late = { 150, 300 }, less = { 90, 300 };

    ok(permille(0, 40) == 0 && permille(10, 40) == 250
       && permille(40, 40) == 1000 && permille(1, 3) == 333, "permille");
    ok(permille(0, 0) == 1000, "no time between readings: busy");
    ok(vl_cpu_busy_permille(&late, &early) == 1000, "readings in the wrong order: busy");
    ok(permille(5000000000000ULL, 10000000000000ULL) == 500,
       "readings far apart");
    ok(vl_cpu_busy_permille(&early, &less) <= 1000
         && permille(41, 40) <= 1000,
         "never more than 1000, also with decreasing values");
}

static void others_between_readings(void)
{
    apr_uint64_t tick_us = 1000000 / (apr_uint64_t)sysconf(_SC_CLK_TCK);
    vl_cpu_t from = { .work = 100 }, to = { .work = 120 };

    ok(vl_cpu_others_permille(&from, &to, 0, (apr_int64_t)(20 * tick_us)) == 1000,
       "other processes used one processor");
    ok(vl_cpu_others_permille(&from, &to, 15 * tick_us,
                              (apr_int64_t)(20 * tick_us)) == 250,
       "time of the children is subtracted");
    ok(vl_cpu_others_permille(&from, &to, 21 * tick_us, 1000) == 0,
       "never below 0, as ticks are coarse");
    ok(vl_cpu_others_permille(&to, &from, 0, 1000) == 0
       && vl_cpu_others_permille(&from, &to, 0, 0) == 0,
       "0 for invalid readings");
    ok(parse("cpu0 1 2 4 8 16 32 64 128 0 0\n").work == 7,
       "interrupts and stolen time belong to no process");
    ok(vl_cpu_of_process(getpid()) > 0 && !vl_cpu_of_process(0x7ffffffe),
       "the time of a process, and 0 if there is no such process");
}

static void this_machine(void)
{
    vl_cpu_t cpu;

    ok(vl_cpu_count() >= 1, "this machine has a processor");
    ok(vl_cpu_read(&cpu) == APR_SUCCESS && cpu.total >= cpu.busy,
       "its times can be read");
}

int main(void)
{
    fields_are_summed();
    the_line_of_all_is_skipped();
    garbage_is_skipped();
    cut_anywhere();
    permille_between_readings();
    others_between_readings();
    this_machine();
    return tap_done();
}
