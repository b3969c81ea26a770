/* SPDX-License-Identifier: Apache-2.0 */
/* The command top: all sites, once a second.  The screen is made of ANSI sequences that
 * every terminal of Linux knows.  Signals that end or stop the program restore the terminal
 * first. */
#include "ctl_top.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "ctl_command.h"

#define REFRESH_MS 1000
/* No server has a higher rate; it is a whole number in a double. */
#define RATE_MAX 1e15
/* Lines above the first site. */
#define HEAD_LINES 4
/* A terminal that does not tell its size, or a wrong one. */
#define DEFAULT_LINES 24
#define DEFAULT_COLUMNS 80

/* Alternate screen and hidden cursor; and back. */
#define SCREEN_ON "\033[?1049h\033[?25l"
#define SCREEN_OFF "\033[?25h\033[?1049l"
#define CURSOR_HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

static const struct {
    const char *word;
    char letter;
} orders[CTL_ORDER_COUNT] = {
#define X(id, word, letter) { #word, (#letter)[0] },
    CTL_ORDERS(X)
#undef X
};

/* --- order ---------------------------------------------------------------- */

static json_int_t sort_value(const ctl_top_row_t *row, ctl_order_e order)
{
    switch (order) {
    case CTL_ORDER_CPU:
        return row->vhost->cpu_now_permille;
    case CTL_ORDER_RUNNING:
        return row->vhost->running;
    case CTL_ORDER_WAITING:
        return row->vhost->waiting;
    case CTL_ORDER_REFUSED:
        return row->vhost->refused;
    case CTL_ORDER_RATE:
        return row->rate > 0 ? row->rate : 0;
    default:
        return 0;
    }
}

/* Descending. */
static int compare_numbers(json_int_t a, json_int_t b)
{
    return a < b ? 1 : a > b ? -1 : 0;
}

static int compare_rows(const void *pa, const void *pb, void *order)
{
    const ctl_top_row_t *a = pa, *b = pb;
    ctl_order_e by = *(const ctl_order_e *)order;
    int rv = compare_numbers(sort_value(a, by), sort_value(b, by));

    if (by == CTL_ORDER_NAME)
        return strcmp(a->vhost->name, b->vhost->name);
    if (!rv)
        rv = compare_numbers(a->vhost->running, b->vhost->running);
    if (!rv)
        rv = compare_numbers(a->vhost->waiting, b->vhost->waiting);
    return rv ? rv : strcmp(a->vhost->name, b->vhost->name);
}

/* Moves the sites that have something to show to the front, without a change of their
 * order.  Returns their number. */
static size_t move_active(ctl_top_row_t *rows, size_t n, ctl_order_e order)
{
    ctl_top_row_t *idle = ctl_alloc(n * sizeof(*idle));
    size_t i, nactive = 0, nidle = 0;

    for (i = 0; i < n; i++) {
        if (sort_value(&rows[i], order) + rows[i].vhost->running + rows[i].vhost->waiting)
            rows[nactive++] = rows[i];
        else
            idle[nidle++] = rows[i];
    }
    if (nidle)
        memcpy(rows + nactive, idle, nidle * sizeof(*idle));
    free(idle);
    return nactive;
}

void ctl_top_sort(ctl_top_row_t *rows, size_t n, ctl_order_e order)
{
    if (order != CTL_ORDER_NAME)
        n = move_active(rows, n, order);
    qsort_r(rows, n, sizeof(*rows), compare_rows, &order);
}

/* --- rates ---------------------------------------------------------------- */

ctl_top_row_t *ctl_top_rows(const ctl_status_t *status, const ctl_status_t *before)
{
    ctl_top_row_t *rows = ctl_alloc(status->nvhosts * sizeof(*rows));
    json_t *requests = ctl_json_check(json_object());       /* before, by name */
    double seconds = before ? (double)(status->now_us - before->now_us) / 1e6 : 0;
    size_t i;

    for (i = 0; before && i < before->nvhosts; i++)
        json_object_set_new(requests, before->vhosts[i].name,
                            ctl_json_check(json_integer(before->vhosts[i].requests)));
    for (i = 0; i < status->nvhosts; i++) {
        const ctl_vhost_t *vhost = &status->vhosts[i];
        const json_t *was = json_object_get(requests, vhost->name);
        json_int_t n = vhost->requests - json_integer_value(was);

        rows[i].vhost = vhost;
        rows[i].rate = !was || seconds <= 0 || n < 0 ? CTL_RATE_UNKNOWN
                       : llround(fmin((double)n / seconds, RATE_MAX));
    }
    json_decref(requests);
    return rows;
}

/* --- the table ------------------------------------------------------------ */

#define N "%" JSON_INTEGER_FORMAT

enum {
    COLUMN_NAME, COLUMN_STATE, COLUMN_MODE, COLUMN_RUNNING, COLUMN_SLOTS, COLUMN_DUTY,
    COLUMN_WAITING, COLUMN_REQUESTS, COLUMN_QUEUED, COLUMN_REFUSED, COLUMN_CPU,
    COLUMN_DATABASE, COLUMN_WAIT, COLUMN_LIMITS,
    COLUMNS = COLUMN_LIMITS + CTL_LIMITS
};

static const char *const headings[COLUMNS] = {
    "SITE", "STATE", "MODE", "RUN", "SLOTS", "DUTY%", "WAIT", "REQUESTS", "QUEUED",
    "REFUSED", "CPU%", "DB%", "P99ms", "WEIGHT", "CONC", "QUEUE", "CAP%"
};

static char *number_cell(json_int_t n)
{
    return ctl_printf(N, n);
}

static char *word_cell(const char *word)
{
    return ctl_plain(ctl_printf("%s", word));
}

static void fill_row(char *cells[COLUMNS], const ctl_top_row_t *row, int has_rates)
{
    const ctl_vhost_t *vhost = row->vhost;
    int i;

    cells[COLUMN_NAME] = word_cell(vhost->name);
    cells[COLUMN_STATE] = word_cell(vhost->limited_s > 0 ? "limited" : vhost->state);
    cells[COLUMN_MODE] = word_cell(vhost->mode);
    cells[COLUMN_RUNNING] = number_cell(vhost->running);
    cells[COLUMN_SLOTS] = word_cell(ctl_slots(vhost->runnable_permille).text);
    cells[COLUMN_DUTY] = word_cell(vhost->duty_permille
                                   ? ctl_tenths(vhost->duty_permille).text : "-");
    cells[COLUMN_WAITING] = number_cell(vhost->waiting);
    cells[COLUMN_REQUESTS] = has_rates && row->rate == CTL_RATE_UNKNOWN ? word_cell("-")
                             : number_cell(has_rates ? row->rate : vhost->requests);
    cells[COLUMN_QUEUED] = number_cell(vhost->queued);
    cells[COLUMN_REFUSED] = number_cell(vhost->refused);
    cells[COLUMN_CPU] = word_cell(ctl_tenths(vhost->cpu_now_permille).text);
    cells[COLUMN_DATABASE] = word_cell(ctl_tenths(vhost->database_now_permille).text);
    cells[COLUMN_WAIT] = word_cell(ctl_ms((double)vhost->wait_p99_us).text);
    /* A star marks a limit that is not as configured. */
    for (i = 0; i < CTL_LIMITS; i++)
        cells[COLUMN_LIMITS + i] = ctl_printf(N "%s", vhost->limits[i],
                                              vhost->configured[i] >= 0 ? "*" : "");
}

void ctl_top_print(FILE *out, const ctl_top_row_t *rows, size_t n, int has_rates)
{
    char *(*cells)[COLUMNS] = ctl_alloc((n + 1) * sizeof(*cells));
    size_t i;

    for (i = 0; i < COLUMNS; i++)
        cells[0][i] = word_cell(i == COLUMN_REQUESTS && has_rates ? "REQ/s" : headings[i]);
    for (i = 0; i < n; i++)
        fill_row(cells[i + 1], &rows[i], has_rates);
    ctl_put_table(out, cells[0], n + 1, COLUMNS, COLUMN_RUNNING);
    free(cells);
}

/* --- text ----------------------------------------------------------------- */

static void print_summary(FILE *out, const ctl_status_t *status)
{
    json_int_t up = status->uptime_s, limited = 0;
    size_t i;

    for (i = 0; i < status->nvhosts; i++)
        limited += status->vhosts[i].limited_s > 0;
    ctl_put_plain(out, status->module);
    fprintf(out, ", ");
    ctl_put_plain(out, status->mpm);
    fprintf(out, " MPM, up " N " d %02d:%02d:%02d, " N " child process%s, " N
            " workers, cgroup ", up / 86400, (int)(up / 3600 % 24), (int)(up / 60 % 60),
            (int)(up % 60), status->children, status->children == 1 ? "" : "es",
            status->workers);
    ctl_put_plain(out, status->cgroup.backend);
    fprintf(out, "\n%zu site%s, " N " limited; " N " running, %s of " N " slots, "
            N " waiting; CPU %s %% of " N " %%\n\n", status->nvhosts,
            ctl_plural((json_int_t)status->nvhosts), limited, CTL_SUM(status, running),
            ctl_slots(CTL_SUM(status, runnable_permille)).text, status->slots,
            CTL_SUM(status, waiting),
            ctl_tenths(CTL_SUM(status, cpu_now_permille)).text, status->processors * 100);
}

/* Prints the summary and at most `most` sites. */
static void print_top(FILE *out, const ctl_status_t *status, const ctl_status_t *before,
                      ctl_order_e order, size_t most)
{
    ctl_top_row_t *rows = ctl_top_rows(status, before);

    ctl_top_sort(rows, status->nvhosts, order);
    print_summary(out, status);
    ctl_top_print(out, rows, status->nvhosts < most ? status->nvhosts : most, before != NULL);
    free(rows);
}

/* Prints the document with the sites in this order. */
static void print_json(const ctl_state_t *state, ctl_order_e order)
{
    ctl_top_row_t *rows = ctl_top_rows(&state->status, NULL);
    json_t *vhosts = ctl_json_check(json_array());
    size_t i;

    ctl_top_sort(rows, state->status.nvhosts, order);
    for (i = 0; i < state->status.nvhosts; i++)
        json_array_append(vhosts, rows[i].vhost->json);
    json_object_set_new(state->answer.json, "vhosts", vhosts);
    ctl_json_print(state->answer.json);
    free(rows);
}

/* --- the terminal --------------------------------------------------------- */

static struct {
    int is_on;                      /* the screen is ours */
    struct termios before;
    volatile sig_atomic_t is_resized;
} terminal;

/* Both are called by signal handlers too, and use async-signal-safe functions only. */
static void screen_off(void)
{
    int failed = errno;

    if (terminal.is_on) {
        terminal.is_on = 0;
        if (write(STDOUT_FILENO, SCREEN_OFF, sizeof(SCREEN_OFF) - 1) < 0)
            errno = 0;              /* the terminal has gone */
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
    }
    errno = failed;
}

static void screen_on(void)
{
    struct termios raw = terminal.before;
    int failed = errno;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    if (write(STDOUT_FILENO, SCREEN_ON, sizeof(SCREEN_ON) - 1) < 0)
        errno = 0;
    terminal.is_on = 1;
    errno = failed;
}

/* SIGINT, SIGTERM, SIGHUP: the handler is reset (SA_RESETHAND), and the signal then ends the
 * program when the handler returns. */
static void on_end(int number)
{
    screen_off();
    raise(number);
}

static void on_resize(int number)
{
    terminal.is_resized = 1;
}

/* Ctrl-Z: the shell gets its terminal, and top takes it again when it continues. */
static void on_stop(int number)
{
    screen_off();
    raise(SIGSTOP);
    screen_on();
    terminal.is_resized = 1;
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

    sigfillset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void terminal_begin(void)
{
    tcgetattr(STDIN_FILENO, &terminal.before);
    handle(SIGINT, on_end, (int)SA_RESETHAND);
    handle(SIGTERM, on_end, (int)SA_RESETHAND);
    handle(SIGHUP, on_end, (int)SA_RESETHAND);
    handle(SIGQUIT, on_end, (int)SA_RESETHAND);
    handle(SIGTSTP, on_stop, 0);
    handle(SIGWINCH, on_resize, 0);
    screen_on();
}

/* Writes the lines of the text, cut to the size of the terminal.  The last line of the
 * terminal stays empty, because a line break there would scroll. */
static void write_screen(char *text, unsigned lines, int columns)
{
    char *line, *next = text;
    unsigned n;

    printf("%s", CURSOR_HOME);
    for (n = 1; n < lines && (line = strsep(&next, "\n")) && (next || *line); n++)
        printf("%.*s" CLEAR_LINE "\n", columns, line);
    printf("%s", CLEAR_BELOW);
    fflush(stdout);
}

static void draw(const ctl_status_t *status, const ctl_status_t *before, ctl_order_e order)
{
    struct winsize terminal_size = { 0 };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal_size) || terminal_size.ws_row <= HEAD_LINES
        || terminal_size.ws_col <= 10) {
        terminal_size.ws_row = DEFAULT_LINES;
        terminal_size.ws_col = DEFAULT_COLUMNS;
    }
    print_top(out, status, before, order, terminal_size.ws_row - HEAD_LINES);
    if (!fclose(out))
        write_screen(text, terminal_size.ws_row, terminal_size.ws_col);
    free(text);
}

/* --- keys ----------------------------------------------------------------- */

/* Waits until the deadline for a key.  Returns the key; 0: none was pressed, or the
 * terminal has another size; 'q' at the end of input. */
static char wait_for_key(long long deadline)
{
    struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLIN };
    long long left = deadline - ctl_now_ms();
    char key = 0;
    ssize_t n;

    if (terminal.is_resized || left <= 0 || poll(&pfd, 1, (int)left) <= 0)
        return 0;
    n = read(STDIN_FILENO, &key, 1);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n != 1)
        key = 'q';              /* the terminal has gone */
    return key;
}

/* Handles keys until it is time for the next document.  Returns 1 at 'q'. */
static int handle_keys(const ctl_status_t *status, const ctl_status_t *before,
                       ctl_order_e *order)
{
    long long deadline = ctl_now_ms() + REFRESH_MS;
    int i;

    while (ctl_now_ms() < deadline) {
        char key = wait_for_key(deadline);

        if (key == 'q')
            return 1;
        for (i = 0; i < CTL_ORDER_COUNT; i++) {
            if (key == orders[i].letter)
                *order = (ctl_order_e)i;
        }
        if (key || terminal.is_resized) {
            terminal.is_resized = 0;
            draw(status, before, *order);
        }
    }
    return 0;
}

/* --- the command ---------------------------------------------------------- */

/* Runs until the user ends it, or until the server gives no answer. */
static ctl_exit_e run(const ctl_call_t *call, ctl_order_e order, ctl_error_t *error)
{
    ctl_state_t states[2];          /* this document and the one before */
    int n = 0, ended = 0;
    ctl_exit_e status = ctl_state_ask(call, NULL, &states[0], error);

    if (status != CTL_DONE)
        return status;
    memset(&states[1], 0, sizeof(states[1]));
    terminal_begin();
    while (!ended && status == CTL_DONE) {
        ctl_state_t *now = &states[n % 2], *other = &states[(n + 1) % 2];

        draw(&now->status, n ? &other->status : NULL, order);
        ended = handle_keys(&now->status, n ? &other->status : NULL, &order);
        ctl_state_free(other);
        if (!ended)
            status = ctl_state_ask(call, NULL, other, error);
        n++;
    }
    screen_off();
    ctl_state_free(&states[0]);
    ctl_state_free(&states[1]);
    return status;
}

static ctl_exit_e print_once(const ctl_call_t *call, ctl_order_e order, ctl_error_t *error)
{
    ctl_state_t state;
    ctl_exit_e status = ctl_state_ask(call, NULL, &state, error);

    if (status != CTL_DONE)
        return status;
    if (call->json)
        print_json(&state, order);
    else
        print_top(stdout, &state.status, NULL, order, state.status.nvhosts);
    ctl_state_free(&state);
    return CTL_DONE;
}

ctl_exit_e ctl_top(const ctl_call_t *call, ctl_error_t *error)
{
    const char *word = call->nargs ? call->args[0] : orders[0].word;
    int i;

    for (i = 0; i < CTL_ORDER_COUNT; i++) {
        if (!strcmp(word, orders[i].word))
            break;
    }
    if (i == CTL_ORDER_COUNT)
        return ctl_error_set(error, CTL_USAGE, "top: '%s' is not one of cpu, running, "
                             "waiting, refused, rate and name", word);
    if (!call->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        return run(call, (ctl_order_e)i, error);
    return print_once(call, (ctl_order_e)i, error);
}
