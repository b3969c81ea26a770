/* SPDX-License-Identifier: Apache-2.0 */
/* Saves limits: writes FILE.new, tests the configuration with it, and renames it.  FILE is
 * either the old one or the new one at every moment, and the new one was tested. */
#include "ctl_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const directives[CTL_KEYS] = {
    "VhostLimitWeight", "VhostLimitConcurrency", "VhostLimitQueue", "VhostLimitCPU",
    "VhostLimitMemory", "VhostLimitProcesses", "VhostLimitIO"
};

#define OPENING "<VhostLimitSite \""
#define CLOSING "</VhostLimitSite>"
#define INDENT "    "

/* --- the text ------------------------------------------------------------- */

/* The saved limits of one site. */
typedef struct saved_t {
    char *site;
    char *values[CTL_KEYS];     /* as the directives take them; NULL: not saved */
    char *stamps[CTL_KEYS];     /* when the value was saved, and by which user */
    struct saved_t *next;
} saved_t;

static void free_site(saved_t *site)
{
    int key;

    for (key = 0; key < CTL_KEYS; key++) {
        free(site->values[key]);
        free(site->stamps[key]);
    }
    free(site->site);
    free(site);
}

/* Saves a limit; value NULL: removes it.  Sites without limits are removed. */
static void put_limit(saved_t **saved, const char *site, ctl_key_e key, const char *value,
                      const char *stamp)
{
    saved_t *found, **at = saved;
    int i;

    while (*at && strcasecmp((*at)->site, site) != 0)
        at = &(*at)->next;
    if (!*at && !value)
        return;
    if (!*at) {
        *at = ctl_alloc(sizeof(**at));
        (*at)->site = ctl_printf("%s", site);
    }
    found = *at;
    free(found->values[key]);
    free(found->stamps[key]);
    found->values[key] = value ? ctl_printf("%s", value) : NULL;
    found->stamps[key] = value ? ctl_printf("%s", stamp) : NULL;
    for (i = 0; i < CTL_KEYS; i++) {
        if (found->values[i])
            return;
    }
    *at = found->next;
    free_site(found);
}

static void print_saved(FILE *out, const saved_t *saved)
{
    int key;

    fprintf(out, "# Limits that were saved with \"" CTL_PROGRAM " set --save\".\n"
            "# They override those in the virtual hosts. Only " CTL_PROGRAM " writes this file:\n"
            "# remove a limit with \"" CTL_PROGRAM " reset --save SITE\".\n");
    for (; saved; saved = saved->next) {
        fprintf(out, OPENING "%s\">\n", saved->site);
        for (key = 0; key < CTL_KEYS; key++) {
            if (saved->values[key])
                fprintf(out, INDENT "# %s\n" INDENT "%s %s\n", saved->stamps[key],
                        directives[key], saved->values[key]);
        }
        fprintf(out, CLOSING "\n");
    }
}

/* Reads one line.  *site: the section that is open, or NULL; *stamp: the comment before.
 * Returns 0 if print_saved() does not write such a line. */
static int read_line(char *line, saved_t **saved, char **site, char **stamp)
{
    size_t len = strlen(line);
    char *value;
    int key;

    if (!*site && (!len || *line == '#'))
        return 1;
    if (!*site && !strncmp(line, OPENING, strlen(OPENING)) && len > strlen(OPENING) + 2
        && !strcmp(line + len - 2, "\">")) {
        line[len - 2] = '\0';
        *site = line + strlen(OPENING);
        return !strchr(*site, '"');
    }
    if (!*site)
        return 0;
    if (!strcmp(line, CLOSING)) {
        *site = NULL;
        return 1;
    }
    if (strncmp(line, INDENT, strlen(INDENT)) != 0)
        return 0;
    line += strlen(INDENT);
    if (!strncmp(line, "# ", 2)) {
        *stamp = line + 2;
        return 1;
    }
    value = strchr(line, ' ');
    if (!value)
        return 0;
    *value++ = '\0';
    for (key = 0; key < CTL_KEYS && strcmp(directives[key], line) != 0; key++)
        ;
    if (key == CTL_KEYS || strchr(value, ' '))
        return 0;
    put_limit(saved, *site, key, value, *stamp ? *stamp : "unknown");
    *stamp = NULL;
    return 1;
}

/* Reads the saved limits of a file that print_saved() has written; none if it does not exist.
 * Returns CTL_DONE, or fills in *error if the file has any other line. */
static ctl_exit_e read_saved(const char *path, saved_t **saved, ctl_error_t *error)
{
    FILE *in = fopen(path, "re");
    char *text, *next, *line, *site = NULL, *stamp = NULL;
    int number = 0;
    ctl_exit_e status = CTL_DONE;

    if (!in)
        return errno == ENOENT ? CTL_DONE
               : ctl_error_set(error, CTL_REFUSED, "nothing is changed, because %s cannot be "
                               "read: %s", path, strerror(errno));
    next = text = ctl_read(in, NULL);
    (void)fclose(in);               /* nothing was written */
    while (status == CTL_DONE && (line = strsep(&next, "\n"))) {
        number++;
        if (!read_line(line, saved, &site, &stamp))
            status = ctl_error_set(error, CTL_REFUSED, "%s:%d: " CTL_PROGRAM " has not written "
                                   "this line, and nothing is changed. Move it to another file "
                                   "of the configuration", path, number);
    }
    if (status == CTL_DONE && site)
        status = ctl_error_set(error, CTL_REFUSED, "%s: the last section has no end, and "
                               "nothing is changed", path);
    free(text);
    return status;
}

/* --- files and processes -------------------------------------------------- */

/* Returns the strings of /proc/PID/NAME, each ended by a zero byte, as an array with NULL at
 * its end and with `room` unused places.  The caller frees the array and *ret_bytes. */
static const char **read_strings(pid_t pid, const char *name, size_t room, char **ret_bytes,
                                 size_t *ret_n)
{
    char *path = ctl_printf("/proc/%d/%s", (int)pid, name);
    FILE *in = fopen(path, "re");
    size_t len = 0, n = 0, i;
    const char **strings;

    *ret_bytes = in ? ctl_read(in, &len) : NULL;
    if (in)
        (void)fclose(in);           /* nothing was written */
    free(path);
    for (i = 0; i < len; i++)
        n += !(*ret_bytes)[i];
    strings = ctl_alloc((n + room + 1) * sizeof(*strings));
    *ret_n = n;
    for (i = 0, n = 0; i < len && n < *ret_n; i += strlen(*ret_bytes + i) + 1)
        strings[n++] = *ret_bytes + i;
    return strings;
}

/* Removes the arguments of the running server that a test of its configuration must not
 * have: "-k start", -X and -DFOREGROUND.  Adds "-t" and the definition with which the module
 * reads FILE.new. */
static void make_test(const char **args, size_t n)
{
    size_t from, to = 1;

    for (from = 1; from < n; from++) {
        if (!strcmp(args[from], "-k"))
            from++;
        else if (strncmp(args[from], "-k", 2) != 0 && strcmp(args[from], "-X") != 0
                 && strcmp(args[from], "-DFOREGROUND") != 0)
            args[to++] = args[from];
    }
    args[to++] = "-t";
    args[to++] = "-DVHOSTLIMIT_SAVE_NEW";
    args[to] = NULL;
}

/* Runs the program in the child process of fork(). */
static void run_test(const char *program, const char **args, const char **environment, int out)
{
    int fd = open("/dev/null", O_RDONLY);

    if (fd >= 0)
        dup2(fd, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    if (chdir("/") == 0)
        execve(program, (char *const *)args, (char *const *)environment);
    _exit(127);
}

/* Runs "httpd -t" as the server was started: its program, arguments and environment. */
static ctl_exit_e test_configuration(pid_t pid, ctl_error_t *error)
{
    char program[4096], *output, *at, *arg_bytes, *env_bytes;
    char *link = ctl_printf("/proc/%d/exe", (int)pid);
    ssize_t len = readlink(link, program, sizeof(program) - 1);
    const char **args, **environment;
    size_t nargs, nenv;
    int fds[2], status = -1;
    pid_t child;
    FILE *in;

    free(link);
    if (len <= 0 || pipe2(fds, O_CLOEXEC))
        return ctl_error_set(error, CTL_REFUSED, "nothing is changed, because httpd cannot be "
                             "asked to test the configuration: %s", strerror(errno));
    program[len] = '\0';
    /* So the kernel names a program that was replaced by an update. */
    if (len > 10 && !strcmp(program + len - 10, " (deleted)"))
        program[len - 10] = '\0';
    args = read_strings(pid, "cmdline", 2, &arg_bytes, &nargs);
    environment = read_strings(pid, "environ", 0, &env_bytes, &nenv);
    make_test(args, nargs);
    child = fork();
    if (!child)
        run_test(program, args, environment, fds[1]);
    close(fds[1]);
    in = fdopen(fds[0], "r");
    output = in ? ctl_read(in, NULL) : ctl_printf("%s", "");
    if (in)
        (void)fclose(in);
    /* The message is one line. */
    for (at = output + strlen(output); at > output && at[-1] == '\n'; at--)
        at[-1] = '\0';
    while ((at = strchr(output, '\n')))
        *at = ' ';
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    free(args);
    free(environment);
    free(arg_bytes);
    free(env_bytes);
    if (status)
        ctl_error_set(error, CTL_REFUSED, "nothing is changed, because the configuration with the "
                      "new limits is not valid: %.800s", *output ? output : "httpd -t fails");
    free(output);
    return error->status;
}

/* Returns time and user for the comment. */
static char *make_stamp(void)
{
    const struct passwd *user = getpwuid(getuid());
    const char *sudo = getenv("SUDO_USER");
    time_t now = time(NULL);
    struct tm utc;
    char text[32];

    gmtime_r(&now, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return ctl_plain(ctl_printf("%s, %s%s%s", text, user ? user->pw_name : "unknown",
                                sudo ? " for " : "", sudo ? sudo : ""));
}

/* --- a change ------------------------------------------------------------- */

/* Asks the server for the path of the file.  *ret_pid: the server. */
static char *ask_path(const ctl_call_t *call, pid_t *ret_pid, ctl_error_t *error)
{
    const char *words[] = { "savefile", NULL };
    const char *path;
    char *copy = NULL;
    ctl_answer_t answer;

    if (ctl_client_ask(call->socket, words, NULL, &answer, error) != CTL_DONE)
        return NULL;
    path = ctl_text_of(answer.json, "save_file");
    *ret_pid = answer.pid;
    /* The program of that process is run with the rights of the caller. */
    if (!answer.pid || answer.uid != geteuid())
        ctl_error_set(error, CTL_REFUSED, "the server runs as another user, so its "
                      "program is not run to test the configuration");
    else if (*path)
        copy = ctl_printf("%s", path);
    else
        ctl_error_set(error, CTL_REFUSED, "the configuration names no file to save limits in: "
                      "write a line such as \"VhostLimitSaveFile "
                      "/etc/apache2/vhostlimit-saved.conf\" at server level, and restart "
                      "Apache");
    ctl_client_free(&answer);
    return copy;
}

/* Returns the name of the site as the server has it.  A site that it does not know can be
 * reset only. */
static char *ask_site(const ctl_call_t *call, int is_set, ctl_error_t *error)
{
    const char *words[] = { "status", call->args[0], NULL };
    const char *name;
    char *copy = NULL;
    ctl_answer_t answer;

    if (ctl_client_ask(call->socket, words, NULL, &answer, error) != CTL_DONE) {
        if (is_set || error->status != CTL_REFUSED)
            return NULL;
        error->status = CTL_DONE;
        return ctl_printf("%s", call->args[0]);
    }
    name = ctl_text_of(json_array_get(json_object_get(answer.json, "vhosts"), 0), "name");
    if (*name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789.-_:@*#[]")])
        copy = ctl_printf("%s", name);
    else
        ctl_error_set(error, CTL_REFUSED, "a site with this name cannot be saved: write its "
                      "limits into the configuration");
    ctl_client_free(&answer);
    return copy;
}

/* Applies the words of the command line to the saved limits. */
static ctl_exit_e apply_words(const ctl_call_t *call, const char *site, int is_set,
                              saved_t **saved, ctl_error_t *error)
{
    char *stamp = make_stamp();
    ctl_exit_e status = CTL_DONE;
    int i, key;

    for (key = 0; !is_set && call->nargs == 1 && key < CTL_KEYS; key++)
        put_limit(saved, site, key, NULL, NULL);
    for (i = 1; i < call->nargs && status == CTL_DONE; i++) {
        size_t len = strcspn(call->args[i], "=");
        const char *value = is_set && call->args[i][len] ? call->args[i] + len + 1 : NULL;

        for (key = 0; key < CTL_KEYS; key++) {
            if (strlen(ctl_key_names[key]) == len
                && !strncmp(ctl_key_names[key], call->args[i], len))
                break;
        }
        if (key == CTL_KEYS || (is_set && !value))
            status = ctl_error_set(error, CTL_REFUSED, "'%s' is not a key with a value",
                                   call->args[i]);
        else if (value && (!*value || value[strspn(value, "0123456789KMGkmg%none")]))
            status = ctl_error_set(error, CTL_REFUSED, "'%s' is not a value of %s", value,
                                   ctl_key_names[key]);
        else
            put_limit(saved, site, key, value, stamp);
    }
    free(stamp);
    return status;
}

/* Writes FILE.new and makes sure that it is on the disk. */
static ctl_exit_e write_new(const ctl_save_t *save, const saved_t *saved,
                            ctl_error_t *error)
{
    int fd = open(save->new_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    int failed = 1;

    if (out) {
        print_saved(out, saved);
        failed = fflush(out) || fsync(fd);
        failed |= fclose(out);
    }
    if (failed)
        return ctl_error_set(error, CTL_REFUSED, "nothing is changed, because %s cannot be "
                             "written: %s", save->new_path, strerror(errno));
    return CTL_DONE;
}

/* Locks the file against another vhostlimitctl.  The lock is on a file of its own, because a
 * rename replaces FILE. */
static ctl_exit_e lock_file(ctl_save_t *save, ctl_error_t *error)
{
    char *path = ctl_printf("%s.lock", save->path);

    save->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (save->lock < 0 || flock(save->lock, LOCK_EX))
        ctl_error_set(error, CTL_REFUSED, "nothing is changed, because %s cannot be locked: "
                      "%s", path, strerror(errno));
    free(path);
    return error->status;
}

ctl_exit_e ctl_save_prepare(const ctl_call_t *call, int is_set, ctl_save_t *ret_save,
                            ctl_error_t *error)
{
    saved_t *saved = NULL, *next;
    pid_t pid = 0;
    char *site = NULL;

    memset(ret_save, 0, sizeof(*ret_save));
    ret_save->lock = -1;
    error->status = CTL_DONE;
    ret_save->path = ask_path(call, &pid, error);
    if (ret_save->path)
        site = ask_site(call, is_set, error);
    if (site) {
        ret_save->new_path = ctl_printf("%s.new", ret_save->path);
        if (lock_file(ret_save, error) == CTL_DONE
            && read_saved(ret_save->path, &saved, error) == CTL_DONE
            && apply_words(call, site, is_set, &saved, error) == CTL_DONE
            && write_new(ret_save, saved, error) == CTL_DONE)
            test_configuration(pid, error);
    }
    for (; saved; saved = next) {
        next = saved->next;
        free_site(saved);
    }
    free(site);
    if (error->status != CTL_DONE)
        ctl_save_end(ret_save);
    return error->status;
}

ctl_exit_e ctl_save_commit(const ctl_save_t *save, ctl_error_t *error)
{
    char *folder = ctl_printf("%s", save->path);
    char *slash = strrchr(folder, '/');
    int fd;

    if (rename(save->new_path, save->path)) {
        free(folder);
        return ctl_error_set(error, CTL_REFUSED, "%s cannot be written: %s. The limits are "
                             "changed until the server stops, but not saved", save->path,
                             strerror(errno));
    }
    /* The new name has to be on the disk too. */
    if (slash)
        *slash = '\0';
    fd = open(*folder ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);            /* some file systems cannot */
        close(fd);
    }
    free(folder);
    return CTL_DONE;
}

void ctl_save_end(ctl_save_t *save)
{
    if (save->new_path && save->lock >= 0)
        unlink(save->new_path);
    if (save->lock >= 0)
        close(save->lock);
    free(save->new_path);
    free(save->path);
    memset(save, 0, sizeof(*save));
    save->lock = -1;
}
