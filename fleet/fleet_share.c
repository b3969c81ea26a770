/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_share.h"

#include <math.h>

/* The search for a level ends after this many steps at the latest. Most searches need fewer
 * than five. */
#define LEVEL_STEPS 100

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* --- one server ------------------------------------------------------------- */

/* What the row's site gets on the other servers. */
static double elsewhere_of(const fleet_problem_t *problem, const fleet_row_t *row)
{
    return fmax(0, problem->sites[row->site].total - row->given);
}

/* What the row gets at a level: so much that its site's total is level * weight, if that is
 * possible. */
static double at_level(const fleet_problem_t *problem, const fleet_row_t *row, double level)
{
    return clamp(level * problem->sites[row->site].weight - elsewhere_of(problem, row), 0,
                 row->wanted);
}

/* Returns the sum of the server's rows at a level. *ret_slope: the sum of the weights of the
 * rows that grow with the level. */
static double sum_at(const fleet_problem_t *problem, const fleet_server_t *server,
                     double level, double *ret_slope)
{
    double sum = 0, slope = 0;
    size_t i;

    for (i = server->first; i < server->end; i++) {
        const fleet_row_t *row = &problem->rows[i];
        double given = at_level(problem, row, level);

        sum += given;
        if (given > 0 && given < row->wanted)
            slope += problem->sites[row->site].weight;
    }
    *ret_slope = slope;
    return sum;
}

/* Returns the level at which the rows use the server's capacity. The sum is piecewise linear
 * in the level, so Newton's method finds it in few steps. A step that leaves the interval
 * of possible levels is replaced by its middle. start: a guess. */
static double find_level(const fleet_problem_t *problem, const fleet_server_t *server,
                         double start)
{
    double low = 0, high = 0, level;
    unsigned step;
    size_t i;

    /* The highest level at which a row still grows. */
    for (i = server->first; i < server->end; i++) {
        const fleet_row_t *row = &problem->rows[i];

        high = fmax(high, (elsewhere_of(problem, row) + row->wanted)
                          / problem->sites[row->site].weight);
    }
    level = start > low && start < high ? start : high / 2;
    for (step = 0; step < LEVEL_STEPS; step++) {
        double slope, over = sum_at(problem, server, level, &slope) - server->capacity;

        if (fabs(over) <= server->capacity * 1e-12)
            break;
        if (over > 0)
            high = level;
        else
            low = level;
        level = slope > 0 ? level - over / slope : low;
        if (level <= low || level >= high)
            level = low + (high - low) / 2;
    }
    return level;
}

/* Sets the server's rows to what is best with what their sites get elsewhere. Returns the
 * largest change of a row. */
static double fill_server(fleet_problem_t *problem, fleet_server_t *server)
{
    double level = find_level(problem, server, server->level), largest = 0;
    size_t i;

    server->level = level;
    for (i = server->first; i < server->end; i++) {
        fleet_row_t *row = &problem->rows[i];
        double given = at_level(problem, row, level);

        largest = fmax(largest, fabs(given - row->given));
        problem->sites[row->site].total += given - row->given;
        row->given = given;
    }
    return largest;
}

/* --- all servers ------------------------------------------------------------ */

/* Starts with all that is wanted on servers without contention, and with parts in proportion
 * to what is wanted on the others. */
static void begin(fleet_problem_t *problem)
{
    size_t s, i;

    for (i = 0; i < problem->nsites; i++)
        problem->sites[i].total = 0;
    for (s = 0; s < problem->nservers; s++) {
        fleet_server_t *server = &problem->servers[s];
        double wanted = 0;
        int is_contended;

        for (i = server->first; i < server->end; i++)
            wanted += problem->rows[i].wanted;
        is_contended = wanted > server->capacity;
        server->level = is_contended ? 0 : INFINITY;
        for (i = server->first; i < server->end; i++) {
            fleet_row_t *row = &problem->rows[i];

            row->given = is_contended ? row->wanted * server->capacity / wanted
                                      : row->wanted;
            problem->sites[row->site].total += row->given;
        }
    }
}

unsigned fleet_share_solve(fleet_problem_t *problem, double precision)
{
    unsigned pass;

    begin(problem);
    for (pass = 0; pass < FLEET_SHARE_PASSES; pass++) {
        int stands = 1;
        size_t n;

        for (n = 0; n < problem->nservers; n++) {
            /* Every second pass goes back, which carries changes along chains of servers. */
            size_t s = pass % 2 ? problem->nservers - 1 - n : n;
            fleet_server_t *server = &problem->servers[s];

            if (isinf(server->level))
                continue;
            if (fill_server(problem, server) > precision * server->capacity)
                stands = 0;
        }
        if (stands)
            break;
    }
    return pass + 1;
}

double fleet_share_weight(double weight, double elsewhere, double level, double floor)
{
    if (isinf(level) || elsewhere <= 0)
        return weight;
    if (level <= 0)
        return weight * floor;
    return clamp(weight - elsewhere / level, weight * floor, weight);
}

/* --- parts of a limit ------------------------------------------------------- */

void fleet_share_divide(double amount, const double wanted[], size_t n, double ret_parts[])
{
    double left = amount;
    size_t i, open = n, before;

    for (i = 0; i < n; i++)
        ret_parts[i] = -1;
    /* A party that wants less than an equal part gets what it wants; the others' equal part
     * grows. */
    do {
        double equal = open ? left / (double)open : 0;

        before = open;
        for (i = 0; i < n; i++) {
            if (ret_parts[i] >= 0 || wanted[i] > equal)
                continue;
            ret_parts[i] = fmax(0, wanted[i]);
            left -= ret_parts[i];
            open--;
        }
    } while (open && open < before);
    for (i = 0; i < n; i++) {
        if (ret_parts[i] < 0)
            ret_parts[i] = left / (double)open;
        else if (!open)
            ret_parts[i] += left / (double)n;
    }
}

/* Returns the party that is next to get one more: the one with the fewest, first among those
 * that want more. */
static size_t next_party(const unsigned wanted[], size_t n, const unsigned parts[])
{
    size_t i, best = n;
    int best_wants = 0;

    for (i = 0; i < n; i++) {
        int wants = parts[i] < wanted[i];

        if (best == n || wants > best_wants
            || (wants == best_wants && parts[i] < parts[best])) {
            best = i;
            best_wants = wants;
        }
    }
    return best;
}

void fleet_share_divide_whole(unsigned amount, const unsigned wanted[], size_t n,
                              unsigned ret_parts[])
{
    size_t i, left;

    if (!n)
        return;
    for (i = 0; i < n; i++)
        ret_parts[i] = 1;
    for (left = amount > n ? amount - n : 0; left; left--)
        ret_parts[next_party(wanted, n, ret_parts)]++;
}
