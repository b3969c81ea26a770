/* SPDX-License-Identifier: Apache-2.0 */
/* The command unit: prints, installs and removes the unit of systemd for the PHP-FPM pool of
 * a site. */
#include "ctl_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl_facts.h"

#define UNITS "/etc/systemd/system"

/* --- what the unit has to know -------------------------------------------- */

/* Returns 1 if the answer to the command sandbox has every member that is used. */
static int is_sound(json_t *answer)
{
    const char *text;
    json_int_t n;
    json_t *rules, *rule;
    int flag;
    size_t i;

    if (json_unpack(answer, "{s:s, s:s, s:I, s:o}", "site", &text, "mode", &text, "user", &n,
                    "rules", &rules) || !json_is_array(rules))
        return 0;
    json_array_foreach(rules, i, rule) {
        if (json_unpack(rule, "{s:s, s:b, s:s}", "access", &text, "configured", &flag, "path",
                        &text))
            return 0;
    }
    return 1;
}

/* Returns 1 if a rule gives the same access to the path or a folder above it. */
static int has_rule(const json_t *rules, const char *access, const char *path)
{
    const json_t *rule;
    size_t i;

    json_array_foreach(rules, i, rule) {
        if (!strcmp(ctl_text_of(rule, "access"), access)
            && ctl_unit_is_below(path, ctl_text_of(rule, "path")))
            return 1;
    }
    return 0;
}

/* Adds the rules of the paths without symbolic links: programs use both.  The server does not
 * look at a file while it runs, because the file system may not answer. */
static void add_real_paths(json_t *rules)
{
    size_t i, n = json_array_size(rules);

    for (i = 0; i < n; i++) {
        json_t *rule = json_array_get(rules, i), *copy;
        char *real = realpath(ctl_text_of(rule, "path"), NULL);

        if (real && strcmp(real, "/") != 0 && !has_rule(rules, ctl_text_of(rule, "access"), real)) {
            copy = json_copy(rule);
            json_object_set_new(copy, "path", json_string(real));
            json_array_append_new(rules, copy);
        }
        free(real);
    }
}

/* Returns the owner of the site's documents; 0: root, or there are none. */
static uid_t owner_of(const json_t *rules)
{
    const json_t *rule;
    struct stat folder;
    size_t i;

    json_array_foreach(rules, i, rule) {
        if (!strcmp(ctl_text_of(rule, "access"), "rw")
            && !json_is_true(json_object_get(rule, "configured"))
            && !stat(ctl_text_of(rule, "path"), &folder) && folder.st_uid)
            return folder.st_uid;
    }
    return 0;
}

static ctl_exit_e set_user(const ctl_call_t *call, ctl_unit_t *unit, uid_t server_user,
                           ctl_error_t *error)
{
    const struct passwd *user = getpwuid(server_user);
    const struct group *group;
    uid_t owner = owner_of(unit->rules);

    if (!user)
        return ctl_error_set(error, CTL_REFUSED, "the server's user %lu has no name",
                             (unsigned long)server_user);
    unit->server_user = ctl_printf("%s", user->pw_name);
    user = call->user ? getpwnam(call->user) : getpwuid(owner ? owner : server_user);
    if (!user && call->user)
        return ctl_error_set(error, CTL_REFUSED, "there is no user %s", call->user);
    if (!user)
        return ctl_error_set(error, CTL_REFUSED, "the owner of the site's documents, user %lu, "
                             "has no name: name the pool's user with --user",
                             (unsigned long)owner);
    if (!user->pw_uid)
        return ctl_error_set(error, CTL_REFUSED, "a pool does not run as root: name its user "
                             "with --user");
    unit->user = ctl_printf("%s", user->pw_name);
    group = getgrgid(user->pw_gid);
    if (!group)
        return ctl_error_set(error, CTL_REFUSED, "the group of user %s has no name",
                             unit->user);
    unit->group = ctl_printf("%s", group->gr_name);
    return CTL_DONE;
}

/* Returns this program with its option -s, as a command of a unit. */
static char *this_program(const ctl_call_t *call)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    path[n > 0 ? n : 0] = '\0';
    return ctl_printf("%s%s%s%s", *path ? path : "/usr/sbin/" CTL_PROGRAM,
                      call->socket ? " -s \"" : "", call->socket ? call->socket : "",
                      call->socket ? "\"" : "");
}

/* Checks that every text from outside can be written into the files. */
static ctl_exit_e check_texts(const ctl_call_t *call, const ctl_unit_t *unit,
                              ctl_error_t *error)
{
    const char *texts[] = { unit->site, unit->fpm, unit->user, unit->group, unit->server,
                            call->socket ? call->socket : "-" };
    const struct sockaddr_un *address = NULL;
    const json_t *rule;
    size_t i;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!ctl_unit_is_writable(texts[i]))
            return ctl_error_set(error, CTL_REFUSED, "a unit cannot contain '%s'", texts[i]);
    }
    json_array_foreach(unit->rules, i, rule) {
        const char *path = ctl_text_of(rule, "path");

        if (!ctl_unit_is_writable(path) || *path != '/')
            return ctl_error_set(error, CTL_REFUSED, "a unit cannot contain the path '%s'",
                                 path);
    }
    if (strchr(unit->fpm, ' ') || strchr(unit->fpm, '%'))
        return ctl_error_set(error, CTL_REFUSED, "a unit cannot run '%s'", unit->fpm);
    if (strlen(CTL_UNIT_SOCKETS "//fpm.sock") + strlen(unit->instance)
        >= sizeof(address->sun_path))
        return ctl_error_set(error, CTL_REFUSED, "the name of the site is too long for a "
                             "socket");
    return CTL_DONE;
}

static ctl_exit_e fill(const ctl_call_t *call, ctl_unit_t *unit, const ctl_answer_t *answer,
                       ctl_error_t *error)
{
    const char *const argv[] = { "systemctl", "--version", NULL };
    ctl_state_t state;
    char *said;

    if (!is_sound(answer->json))
        return ctl_error_set_missing(error, "member", "rules");
    unit->site = ctl_printf("%s", ctl_text_of(answer->json, "site"));
    unit->instance = ctl_unit_instance(unit->site);
    unit->mode = ctl_text_of(answer->json, "mode");
    add_real_paths(json_object_get(answer->json, "rules"));
    unit->rules = json_object_get(answer->json, "rules");
    if (ctl_state_ask(call, unit->site, &state, error) != CTL_DONE)
        return error->status;
    unit->has_group = *ctl_text_of(state.status.vhosts[0].json, "cgroup") != '\0';
    ctl_state_free(&state);
    /* Its usual name, if it does not run in one. */
    unit->server = answer->pid ? ctl_facts_unit_of(answer->pid) : NULL;
    if (!unit->server)
        unit->server = ctl_printf("%s", access("/usr/lib/systemd/system/httpd.service", F_OK)
                                        ? "apache2.service" : "httpd.service");
    unit->ctl = this_program(call);
    said = ctl_facts_output(argv);
    if (said && !strncmp(said, "systemd ", 8))
        unit->systemd = (int)strtol(said + 8, NULL, 10);
    free(said);
    if (set_user(call, unit, (uid_t)json_integer_value(json_object_get(answer->json, "user")),
                 error) != CTL_DONE)
        return error->status;
    unit->fpm = ctl_unit_find_php(call->php, error);
    return unit->fpm ? check_texts(call, unit, error) : error->status;
}

/* --- files ---------------------------------------------------------------- */

/* Returns 1 if there is nothing, or a unit that this program has made. */
static int is_ours(const char *path)
{
    char mark[sizeof(CTL_UNIT_MARK)] = "";
    struct stat file;
    FILE *in;

    if (lstat(path, &file))
        return errno == ENOENT;
    in = S_ISREG(file.st_mode) ? fopen(path, "re") : NULL;
    if (!in)
        return 0;
    if (!fgets(mark, sizeof(mark), in))
        mark[0] = '\0';
    (void)fclose(in);               /* nothing was written */
    return !strcmp(mark, CTL_UNIT_MARK);
}

static ctl_exit_e check_ours(const ctl_call_t *call, const char *path, ctl_error_t *error)
{
    if (call->force || is_ours(path))
        return CTL_DONE;
    return ctl_error_set(error, CTL_REFUSED, "%s was not made by " CTL_PROGRAM " and stays as it "
                         "is; --force overrides this", path);
}

/* Makes the folder and those above it. */
static void make_folder(const char *folder)
{
    char *path = ctl_printf("%s/", folder), *slash;

    for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);          /* the file reports what is missing */
        *slash = '/';
    }
    free(path);
}

/* Writes the file under another name and renames it, so that it is never half written. */
static ctl_exit_e write_file(const char *folder, const char *path,
                             void (*print)(FILE *out, const ctl_unit_t *unit),
                             const ctl_unit_t *unit, ctl_error_t *error)
{
    char *new_path = ctl_printf("%s.new", path);
    FILE *out = NULL;
    int fd, failed = 1;

    make_folder(folder);
    unlink(new_path);               /* of a run that was ended */
    fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    out = fd < 0 ? NULL : fdopen(fd, "w");
    if (out) {
        print(out, unit);
        failed = fflush(out) || fsync(fd);
        failed |= fclose(out);
        failed = failed || rename(new_path, path);
    }
    if (failed) {
        ctl_error_set(error, CTL_REFUSED, "%s cannot be written: %s", path, strerror(errno));
        unlink(new_path);
    }
    free(new_path);
    return error->status;
}

/* Runs systemctl if systemd runs. A failure is ignored: the files of the unit are written or
 * removed all the same. */
static void systemctl(const char *command, const char *option, const char *unit)
{
    const char *const argv[] = { "systemctl", command, option, unit, NULL };
    char *text = access("/run/systemd/system", F_OK) ? NULL : ctl_facts_output(argv);

    free(text);
}

/* --- the command ---------------------------------------------------------- */

/* The files of a site's pool. */
typedef struct paths_t {
    char *unit, *enter, *pool;
} paths_t;

static paths_t paths_of(const char *instance)
{
    return (paths_t){
        .unit = ctl_printf(UNITS "/vhostlimit-fpm@%s.service", instance),
        .enter = ctl_printf(UNITS "/vhostlimit-enter@%s.service", instance),
        .pool = ctl_printf(CTL_UNIT_POOLS "/%s.conf", instance)
    };
}

static void free_paths(paths_t *paths)
{
    free(paths->unit);
    free(paths->enter);
    free(paths->pool);
}

static ctl_exit_e install(const ctl_call_t *call, const ctl_unit_t *unit, ctl_error_t *error)
{
    paths_t paths = paths_of(unit->instance);
    int has_pool = !access(paths.pool, F_OK);

    if (check_ours(call, paths.unit, error) == CTL_DONE
        && check_ours(call, paths.enter, error) == CTL_DONE
        && (has_pool || write_file(CTL_UNIT_POOLS, paths.pool, ctl_unit_print_pool, unit, error)
                        == CTL_DONE)
        && (!unit->has_group || write_file(UNITS, paths.enter, ctl_unit_print_enter, unit, error)
                                == CTL_DONE)
        && write_file(UNITS, paths.unit, ctl_unit_print, unit, error) == CTL_DONE) {
        systemctl("daemon-reload", "--quiet", NULL);
        printf("%s: written\n", paths.unit);
        if (unit->has_group)
            printf("%s: written\n", paths.enter);
        printf("%s: %s\nNext:\n"
               "  systemctl enable --now vhostlimit-fpm@%s\n"
               "and in the virtual host, with mod_proxy_fcgi:\n"
               "  <FilesMatch \"\\.php$\">\n"
               "    SetHandler \"proxy:unix:" CTL_UNIT_SOCKETS "/%s/fpm.sock|fcgi://%s/\"\n"
               "  </FilesMatch>\n", paths.pool, has_pool ? "was there and stays as it is"
                                                         : "written", unit->instance,
               unit->instance, unit->instance);
    }
    free_paths(&paths);
    return error->status;
}

static void remove_file(const char *path, ctl_error_t *error)
{
    if (!unlink(path))
        printf("%s: removed\n", path);
    else if (errno != ENOENT)
        ctl_error_set(error, CTL_REFUSED, "%s cannot be removed: %s", path, strerror(errno));
}

/* The site may be gone from the configuration, so no server is asked. */
static ctl_exit_e remove_unit(const ctl_call_t *call, ctl_error_t *error)
{
    char *instance = ctl_unit_instance(call->args[0]);
    char *unit = ctl_printf("vhostlimit-fpm@%s.service", instance);
    paths_t paths = paths_of(instance);
    struct stat file;

    if (lstat(paths.unit, &file))
        ctl_error_set(error, CTL_REFUSED, "there is no %s", paths.unit);
    else if (check_ours(call, paths.unit, error) == CTL_DONE
             && check_ours(call, paths.enter, error) == CTL_DONE) {
        systemctl("disable", "--now", unit);
        remove_file(paths.unit, error);
        remove_file(paths.enter, error);
        systemctl("daemon-reload", "--quiet", NULL);
        if (!access(paths.pool, F_OK))
            printf("%s: stays\n", paths.pool);
    }
    free_paths(&paths);
    free(unit);
    free(instance);
    return error->status;
}

ctl_exit_e ctl_unit(const ctl_call_t *call, ctl_error_t *error)
{
    const char *words[] = { "sandbox", call->args[0], NULL };
    ctl_unit_t unit = { .site = NULL };
    ctl_answer_t answer;

    if (call->install && call->remove)
        return ctl_error_set(error, CTL_USAGE, "unit: --install and --remove exclude each other");
    if (call->remove)
        return remove_unit(call, error);
    if (ctl_client_ask(call->socket, words, NULL, &answer, error) != CTL_DONE)
        return error->status;
    if (fill(call, &unit, &answer, error) == CTL_DONE) {
        if (call->install)
            install(call, &unit, error);
        else
            ctl_unit_print(stdout, &unit);
    }
    free(unit.site);
    free(unit.instance);
    free(unit.server);
    free(unit.server_user);
    free(unit.user);
    free(unit.group);
    free(unit.fpm);
    free(unit.ctl);
    ctl_client_free(&answer);
    return error->status;
}
