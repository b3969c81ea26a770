/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/vl_usage.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/vl_cgroup_file.h"

#define NO_READING (~(apr_uint64_t)0)

typedef struct entry_t {
    apr_uint32_t account;
    const char *name;
    int fd, subtract_fd;        /* -1: closed, or there is none */
    apr_uint32_t idle;          /* calls since the reading last grew */
    apr_uint64_t us;            /* the last reading */
    apr_uint32_t readings;      /* that grew */
    long first_pid;             /* first process at the last check */
    int resident;               /* it was there at the check before, too */
    int has_memory;
    apr_uint32_t kill_checks;
    apr_uint64_t kills;         /* the last reading */
} entry_t;

struct vl_usage_t {
    const vl_cgroup_t *cg;
    apr_uint32_t n, most;
    apr_uint32_t next;          /* entry to be opened next, if closed */
    entry_t *entries;
};

apr_status_t vl_usage_parse(const char *text, apr_uint64_t *ret_us)
{
    static const char key[] = "usage_usec ";
    const char *number = strncmp(text, key, sizeof(key) - 1)
                         ? text : text + sizeof(key) - 1;
    char *end;
    apr_uint64_t n = strtoull(number, &end, 10);

    if (*number < '0' || *number > '9' || (*end && *end != '\n'))
        return APR_EINVAL;
    *ret_us = number == text ? n / 1000 : n;
    return APR_SUCCESS;
}

apr_uint64_t vl_usage_parse_kills(const char *text)
{
    static const char key[] = "\noom_kill ";
    const char *line = strstr(text, key);

    return line ? strtoull(line + sizeof(key) - 1, NULL, 10) : 0;
}

apr_uint64_t vl_usage_kills(const vl_cgroup_t *cg, apr_pool_t *p,
                            const char *name)
{
    const char *file = vl_cgroup_kills_file(cg, p, name);

    return file ? vl_usage_parse_kills(vl_cgroup_file_read(p, file)) : 0;
}

vl_usage_t *vl_usage_post_config_create(apr_pool_t *p, const vl_cgroup_t *cg,
                                        apr_uint32_t most)
{
    vl_usage_t *usage = apr_pcalloc(p, sizeof(*usage));

    usage->cg = cg;
    usage->most = most;
    usage->entries = apr_pcalloc(p, most * sizeof(entry_t));
    return usage;
}

void vl_usage_post_config_add(vl_usage_t *usage, apr_uint32_t account,
                              const char *name, int has_memory)
{
    entry_t *entry = &usage->entries[usage->n];

    if (usage->n == usage->most)
        return;
    usage->n++;
    entry->account = account;
    entry->name = name;
    entry->has_memory = has_memory;
    entry->kills = NO_READING;
    entry->fd = entry->subtract_fd = -1;
}

/* Writes nothing to a closed entry: the child shares its page with the parent. */
static void close_entry(entry_t *entry)
{
    if (entry->fd < 0)
        return;
    close(entry->fd);
    if (entry->subtract_fd >= 0)
        close(entry->subtract_fd);
    entry->fd = entry->subtract_fd = -1;
}

static int open_entry(const vl_usage_t *usage, entry_t *entry)
{
    const char *file, *subtract;
    apr_pool_t *p;

    apr_pool_create(&p, NULL);
    file = vl_cgroup_usage_file(usage->cg, p, entry->name, &subtract);
    if (file)
        entry->fd = open(file, O_RDONLY | O_CLOEXEC);
    if (entry->fd >= 0 && subtract)
        entry->subtract_fd = open(subtract, O_RDONLY | O_CLOEXEC);
    apr_pool_destroy(p);
    entry->idle = 0;
    return entry->fd >= 0;
}

static apr_status_t read_fd(int fd, apr_uint64_t *ret_us)
{
    char buf[64];
    ssize_t len = pread(fd, buf, sizeof(buf) - 1, 0);
    char *end;

    if (len <= 0)
        return APR_EOF;
    buf[len] = '\0';
    end = strchr(buf, '\n');
    if (end)
        *end = '\0';
    return vl_usage_parse(buf, ret_us);
}

/* Reads the usage: fd minus subtract_fd. Returns APR_ENOENT if the cgroup is gone. */
static apr_status_t read_entry(entry_t *entry, apr_uint64_t *ret_us)
{
    apr_uint64_t us, subtract = 0;

    if (read_fd(entry->fd, &us) != APR_SUCCESS)
        return APR_ENOENT;
    if (entry->subtract_fd >= 0)
        read_fd(entry->subtract_fd, &subtract);
    *ret_us = us > subtract ? us - subtract : 0;
    return APR_SUCCESS;
}

/* Returns the pid of the first process in the cgroup, 0 if there is none. */
static long first_process(const vl_usage_t *usage, const entry_t *entry)
{
    char buf[32];
    const char *file;
    ssize_t len = 0;
    apr_pool_t *p;
    int fd;

    apr_pool_create(&p, NULL);
    file = vl_cgroup_process_file(usage->cg, p, entry->name, 0);
    fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    apr_pool_destroy(p);
    if (fd >= 0) {
        len = read(fd, buf, sizeof(buf) - 1);
        close(fd);
    }
    buf[len > 0 ? len : 0] = '\0';
    return strtol(buf, NULL, 10);
}

static void check_processes(const vl_usage_t *usage, entry_t *entry)
{
    long first;

    if (entry->readings++ % VL_USAGE_INSIDE)
        return;
    first = first_process(usage, entry);
    entry->resident = first && first == entry->first_pid;
    entry->first_pid = first;
}

/* The arguments of vl_usage_child_read(). */
typedef struct reading_t {
    const vl_usage_t *usage;
    vl_usage_grown_fn *grown;
    vl_usage_killed_fn *killed;
    void *data;
} reading_t;

static void check_kills(const reading_t *reading, entry_t *entry)
{
    apr_uint64_t kills;
    apr_pool_t *p;

    if (!entry->has_memory || entry->kill_checks++ % VL_USAGE_INSIDE)
        return;
    apr_pool_create(&p, NULL);
    kills = vl_usage_kills(reading->usage->cg, p, entry->name);
    apr_pool_destroy(p);
    if (kills != entry->kills)
        reading->killed(reading->data, entry->account, kills);
    entry->kills = kills;
}

/* Reads an open entry. Closes it when its cgroup is gone, or when its reading has not
 * grown for more than max_idle calls. */
static void read_account(const reading_t *reading, entry_t *entry,
                         apr_uint32_t max_idle)
{
    apr_uint64_t us;

    if (read_entry(entry, &us) != APR_SUCCESS) {
        close_entry(entry);
        return;
    }
    check_kills(reading, entry);
    if (us != entry->us) {
        entry->us = us;
        entry->idle = 0;
        check_processes(reading->usage, entry);
        reading->grown(reading->data, entry->account, us, entry->resident);
    }
    else if (++entry->idle > max_idle) {
        close_entry(entry);
    }
}

void vl_usage_child_read(vl_usage_t *usage, vl_usage_grown_fn *grown,
                         vl_usage_killed_fn *killed, void *data)
{
    const reading_t reading = { usage, grown, killed, data };
    apr_uint32_t i, looks = usage->n < VL_USAGE_LOOKS ? usage->n
                                                      : VL_USAGE_LOOKS;

    for (i = 0; i < usage->n; i++) {
        if (usage->entries[i].fd >= 0)
            read_account(&reading, &usage->entries[i], VL_USAGE_IDLE);
    }
    for (i = 0; i < looks; i++) {
        entry_t *entry = &usage->entries[usage->next];

        usage->next = (usage->next + 1) % usage->n;
        if (entry->fd < 0 && open_entry(usage, entry))
            read_account(&reading, entry, 0);
    }
}

void vl_usage_child_close(vl_usage_t *usage)
{
    apr_uint32_t i;

    for (i = 0; i < usage->n; i++)
        close_entry(&usage->entries[i]);
}
