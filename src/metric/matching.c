/* The Hungarian method by shortest augmenting paths, O(n^3). Rows join one at a time. With prices u of rows and v of
 * columns such that cost - u - v >= 0, and 0 where matched, a shortest path (Dijkstra) from the new row to a free
 * column says how to rematch those on the way; the prices are then moved so that this remains true. Row and column
 * numbers are shifted by one: column 0 holds the row that is looking.
 *
 * Jonker, Volgenant: A shortest augmenting path algorithm for dense and sparse linear assignment problems, Computing
 * 38, 1987. */
#include "metric/matching.h"

#include <math.h>
#include <string.h>

typedef struct {
    size_t n;
    const double *gain; /* cost is its negative */
    double *u, *v;      /* n + 1: prices */
    double *way;        /* n + 1: shortest distance to a column so far */
    size_t *row, *from; /* n + 1: row matched with a column (0: none); the column before it on its shortest path */
    char *done;         /* n + 1: the distance is final */
} matching;

static double reduced(const matching *m, size_t row, size_t column)
{
    return -m->gain[(row - 1) * m->n + column - 1] - m->u[row] - m->v[column];
}

/* The next column whose distance becomes final, `at` being the last. Prices move by its distance. */
static size_t advance(matching *m, size_t at)
{
    size_t next = 0;
    double step = INFINITY;
    m->done[at] = 1;
    for (size_t j = 1; j <= m->n; j++) {
        if (m->done[j]) continue;
        double d = reduced(m, m->row[at], j);
        if (d < m->way[j]) {
            m->way[j] = d;
            m->from[j] = at;
        }
        if (m->way[j] < step) {
            step = m->way[j];
            next = j;
        }
    }
    for (size_t j = 0; j <= m->n; j++) {
        if (m->done[j]) {
            m->u[m->row[j]] += step;
            m->v[j] -= step;
        } else {
            m->way[j] -= step;
        }
    }
    return next;
}

static void add_row(matching *m, size_t row)
{
    size_t at = 0;
    m->row[0] = row;
    for (size_t j = 0; j <= m->n; j++) m->way[j] = INFINITY;
    memset(m->done, 0, m->n + 1);
    do at = advance(m, at);
    while (m->row[at]);
    for (; at; at = m->from[at]) m->row[at] = m->row[m->from[at]];
}

fl_status fli_matching_best(fl_ctx *ctx, size_t n, const double *gain, double *total)
{
    matching m = {.n = n, .gain = gain};
    double *reals = fli_alloc(ctx, 3 * (n + 1), sizeof *reals);
    size_t *whole = fli_alloc(ctx, 2 * (n + 1), sizeof *whole);
    m.done = fli_alloc(ctx, n + 1, 1);
    fl_status s = reals && whole && m.done ? FL_OK : FL_ENOMEM;
    if (s) goto done;
    m.u = reals;
    m.v = reals + n + 1;
    m.way = reals + 2 * (n + 1);
    m.row = whole;
    m.from = whole + n + 1;
    for (size_t i = 1; i <= n; i++) add_row(&m, i);
    *total = 0;
    for (size_t j = 1; j <= n; j++) *total += gain[(m.row[j] - 1) * n + j - 1];
done:
    fli_free(reals);
    fli_free(whole);
    fli_free(m.done);
    return s;
}
