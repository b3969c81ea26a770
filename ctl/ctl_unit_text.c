/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a unit and of a pool file. */
#include "ctl_unit.h"

#include <ctype.h>
#include <string.h>

/* What both modes of the sandbox have.  Full has the lines of `alone` too. */
static const char common[] =
    "NoNewPrivileges=yes\n"
    "CapabilityBoundingSet=\n"
    "# The root is an empty folder, and the paths below are all that is in it. ProtectSystem=strict\n"
    "# would take the place of the empty root.\n"
    "TemporaryFileSystem=/:ro\n"
    "MountAPIVFS=yes\n"
    "ProtectSystem=full\n"
    "ProtectHome=read-only\n"
    "PrivateDevices=yes\n"
    "ProtectKernelTunables=yes\n"
    "ProtectKernelModules=yes\n"
    "ProtectKernelLogs=yes\n"
    "# The same as ProtectControlGroups=, with which systemd 257 and newer cannot run ExecReload=+ in\n"
    "# an empty root (status 226/NAMESPACE).\n"
    "ReadOnlyPaths=-/sys/fs/cgroup\n"
    "ProtectClock=yes\n"
    "ProtectHostname=yes\n"
    "RestrictNamespaces=yes\n"
    "RestrictRealtime=yes\n"
    "RestrictSUIDSGID=yes\n"
    "LockPersonality=yes\n"
    "LimitCORE=0\n"
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n"
    "SystemCallArchitectures=native\n"
    "SystemCallFilter=@system-service\n"
    "SystemCallFilter=~@privileged @keyring io_uring_enter io_uring_register io_uring_setup\n"
    "SystemCallErrorNumber=EPERM\n"
    "# MemoryDenyWriteExecute= would stop the JIT compilers of PCRE and PHP.\n";

static const char alone[] =
    "PrivateTmp=yes\n"
    "PrivateIPC=yes\n"
    "ProtectProc=invisible\n";

int ctl_unit_is_writable(const char *text)
{
    const char *at;

    for (at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f || strchr("\"\\$", *at))
            return 0;
    }
    return *text != '\0';
}

char *ctl_unit_instance(const char *site)
{
    char *name = ctl_printf("%s", site), *at;

    for (at = name; *at; at++) {
        *at = (char)tolower((unsigned char)*at);
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789.-_:", *at))
            *at = '_';
    }
    return name;
}

/* Prints text as systemd reads it: it expands what follows a per cent sign. */
static void put(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '%')
            fputc('%', out);
        fputc(*text, out);
    }
}

static void put_path(FILE *out, const char *name, const char *before, const char *path,
                     const char *after)
{
    fprintf(out, "%s=\"%s", name, before);
    put(out, path);
    fprintf(out, "%s\"\n", after);
}

int ctl_unit_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return !strncmp(path, folder, n) && (path[n] == '/' || !path[n]);
}

/* The unit has /proc, /sys and /dev from systemd. */
static int is_api(const char *access, const char *path)
{
    return !strcmp(access, "device") || !strcmp(access, "proc") || ctl_unit_is_below(path, "/sys")
           || ctl_unit_is_below(path, "/proc") || (ctl_unit_is_below(path, "/dev") && strcmp(access, "tmp") != 0);
}

/* A path that is not there is left out, as in the module, unless the configuration names
 * it. */
static void put_rule(FILE *out, const ctl_unit_t *unit, const json_t *rule)
{
    const char *access = ctl_text_of(rule, "access"), *path = ctl_text_of(rule, "path");
    int is_needed = json_is_true(json_object_get(rule, "configured"));
    int is_files = !strcmp(unit->mode, "files");
    int is_tmp = !strcmp(path, "/tmp") || !strcmp(path, "/var/tmp");

    if (is_api(access, path))
        return;
    if (!strcmp(access, "ro"))
        put_path(out, "BindReadOnlyPaths", is_needed ? "" : "-", path, "");
    else if (!strcmp(access, "rw"))
        put_path(out, "BindPaths", is_needed ? "" : "-", path, "");
    else if (!strcmp(access, "hide"))
        put_path(out, "InaccessiblePaths", "-", path, "");
    else if (is_files)                          /* Files leaves /tmp as it is */
        put_path(out, "BindPaths", "-", path, "");
    else if (!is_tmp)                           /* for these there is PrivateTmp= */
        put_path(out, "TemporaryFileSystem", "", path,
                 ":rw,nosuid,nodev,mode=1777,size=256m,nr_inodes=100k");
}

static void put_head(FILE *out, const ctl_unit_t *unit)
{
    fprintf(out, CTL_UNIT_MARK " for site %s. It replaces this file when it is run again:\n"
            "# write changes into /etc/systemd/system/vhostlimit-fpm@%s.service.d/.\n"
            "[Unit]\nDescription=PHP-FPM of ", unit->site, unit->instance);
    put(out, unit->site);
    fprintf(out, "\nDocumentation=man:vhostlimitctl(8)\n"
            "After=%s mariadb.service mysql.service postgresql.service\n"
            "Wants=%s\n"
            "# On cgroup v2 the site's cgroup ends with Apache.\n"
            "PartOf=%s\n", unit->server, unit->server, unit->server);
    if (unit->has_group)
        fprintf(out, "# --install writes this unit too. It moves the pool into the site's cgroup.\n"
                "Wants=vhostlimit-enter@%s.service\n", unit->instance);
    else
        fprintf(out, "# VhostLimitCgroup is off: the pool stays in the cgroup of this unit.\n");
}

void ctl_unit_print(FILE *out, const ctl_unit_t *unit)
{
    int is_files = !strcmp(unit->mode, "files");
    const json_t *rule;
    size_t i;

    put_head(out, unit);
    fprintf(out, "\n[Service]\nType=notify\nUser=");
    put(out, unit->user);
    fprintf(out, "\nGroup=");
    put(out, unit->group);
    fprintf(out, "\nRuntimeDirectory=vhostlimit-fpm/%s\n"
            "ExecStart=%s --nodaemonize --fpm-config " CTL_UNIT_POOLS "/%s.conf\n"
            "ExecReload=+/bin/kill -USR2 $MAINPID\nKillMode=mixed\nRestart=on-failure\n",
            unit->instance, unit->fpm, unit->instance);
    fprintf(out, "\n# VhostLimitSandbox is %s. %s\n%s", unit->mode, !strcmp(unit->mode, "off")
            ? "The rules are those of Full." : "The rules are those of the site's CGI programs.",
            common);
    if (!is_files) {
        fprintf(out, "%s", alone);
        if (unit->systemd >= CTL_UNIT_PRIVATE_PIDS)
            fprintf(out, "PrivatePIDs=yes\n");
    }
    fprintf(out, "# systemd hears that the pool has started, and the journal what it logs.\n"
            "BindReadOnlyPaths=-/run/systemd/notify -/run/systemd/journal/dev-log\n");
    put_path(out, "BindPaths", "", CTL_UNIT_SOCKETS "/", unit->instance);
    json_array_foreach(unit->rules, i, rule) {
        put_rule(out, unit, rule);
    }
    fprintf(out, "\n[Install]\n# PartOf= stops the pool with Apache. Only this starts it with Apache again.\n"
            "WantedBy=multi-user.target %s\n", unit->server);
}

void ctl_unit_print_enter(FILE *out, const ctl_unit_t *unit)
{
    fprintf(out, CTL_UNIT_MARK " for site %s.\n"
            "# The site's cgroup is Apache's, not systemd's, so Slice= cannot name it. No command\n"
            "# of the pool's own unit finds it: ExecStartPost=+ has the same paths as the pool.\n"
            "[Unit]\nDescription=Site's cgroup for PHP-FPM of ", unit->site);
    put(out, unit->site);
    fprintf(out, "\nDocumentation=man:vhostlimitctl(8)\n"
            "After=vhostlimit-fpm@%s.service\n"
            "# A pool that restarts while this unit runs restarts it too: systemd would drop the\n"
            "# second start, and leave the new pool outside.\n"
            "PartOf=vhostlimit-fpm@%s.service\n\n"
            "[Service]\nType=oneshot\nExecStart=", unit->instance, unit->instance);
    put(out, unit->ctl);
    fprintf(out, " enter \"");
    put(out, unit->site);
    fprintf(out, "\" vhostlimit-fpm@%s.service\n", unit->instance);
}

void ctl_unit_print_pool(FILE *out, const ctl_unit_t *unit)
{
    fprintf(out, "; The PHP-FPM pool of %s, which vhostlimit-fpm@%s.service runs as %s.\n"
            "; \"" CTL_PROGRAM " unit\" made this file and does not change it any more.\n"
            "[global]\n"
            "error_log = syslog\n"
            "syslog.ident = vhostlimit-fpm@%s\n"
            "\n"
            "[%s]\n"
            "listen = " CTL_UNIT_SOCKETS "/%s/fpm.sock\n"
            "listen.mode = 0600\n", unit->site, unit->instance, unit->user, unit->instance,
            unit->instance, unit->instance);
    if (strcmp(unit->user, unit->server_user) != 0)
        fprintf(out, "listen.acl_users = %s\n", unit->server_user);
    fprintf(out, "pm = ondemand\n"
            "pm.max_children = 20\n"
            "; The folder of sessions is the pool's own, so no timer of the system cleans it.\n"
            "php_value[session.gc_probability] = 1\n");
}
