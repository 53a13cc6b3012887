/* The results table of the page with an explanation of its marks, and the verdict, a sentence on which method leads.
 * Both first test whether a difference is more than noise. */
#include "report/internal.h"

#include <math.h>
#include <string.h>

/* ==== is a difference more than noise ======================================================================= */

/* Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom. Beyond the last, the normal distribution is
 * accurate enough. */
static double student(size_t freedom)
{
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                               2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
    return freedom <= sizeof t / sizeof *t ? t[freedom - 1] : 1.96 + 2.46 / (double)freedom;
}

fli_paired fli_noise_paired(const double *a, const double *b, size_t seeds)
{
    fli_paired p = {.half = INFINITY};
    double squares = 0;
    for (size_t i = 0; i < seeds; i++) {
        double d = a[i] - b[i], before = d - p.mean;
        if (!isfinite(d)) continue;
        p.mean += before / (double)++p.n;
        squares += before * (d - p.mean);
    }
    if (p.n > 1) p.half = student(p.n - 1) * sqrt(squares / (double)(p.n - 1) / (double)p.n);
    return p;
}

int fli_noise_apart(const fli_paired *p) { return p->n > 1 && fabs(p->mean) > p->half; }

static const double *seed_values(const fli_grid *g, size_t row, size_t column)
{
    return g->values + (row * g->columns + column) * g->seeds;
}

/* Mean of a row's numbers over the seeds that have one; NaN if none has. */
static double mean_of(const fli_grid *g, size_t row, size_t column)
{
    const double *v = seed_values(g, row, column);
    double mean = 0;
    size_t n = 0;
    for (size_t i = 0; i < g->seeds; i++)
        if (isfinite(v[i])) mean += (v[i] - mean) / (double)++n;
    return n ? mean : NAN;
}

static int complete(const fli_grid *g, size_t row, size_t column)
{
    const double *v = seed_values(g, row, column);
    for (size_t i = 0; i < g->seeds; i++)
        if (!isfinite(v[i])) return 0;
    return 1;
}

/* 1: greater numbers are better, -1: smaller ones, 0: neither. */
static int direction(const fli_grid *g, size_t column)
{
    fl_better better = g->values && g->seeds && g->better ? g->better[column] : FL_BETTER_NEITHER;
    return better == FL_BETTER_HIGH ? 1 : better == FL_BETTER_LOW ? -1 : 0;
}

/* The row with the best mean among those with a number for every seed; SIZE_MAX: none. */
static size_t noise_first(const fli_grid *g, size_t column, const unsigned char *rows)
{
    size_t first = SIZE_MAX;
    int sign = direction(g, column);
    for (size_t i = 0; sign && i + 1 < g->rows; i++) {
        if ((rows && !rows[i]) || !complete(g, i, column)) continue;
        if (first == SIZE_MAX || sign * mean_of(g, i, column) > sign * mean_of(g, first, column)) first = i;
    }
    return first;
}

/* Ranks the rows below the header, numbered from 0; `rows` selects those to compare (NULL: all). ranks: one per row. */
static void noise_ranks(const fli_grid *g, size_t column, const unsigned char *rows, fli_rank *ranks)
{
    size_t first = noise_first(g, column, rows), tied = 0, others = 0;
    int sign = direction(g, column);
    for (size_t i = 0; i + 1 < g->rows; i++) {
        ranks[i] = FLI_RANK_NONE;
        if (first == SIZE_MAX || g->seeds < 2 || i == first || (rows && !rows[i]) || !complete(g, i, column)) continue;
        fli_paired p = fli_noise_paired(seed_values(g, first, column), seed_values(g, i, column), g->seeds);
        others++;
        int behind = fli_noise_apart(&p) && sign * p.mean > 0;
        ranks[i] = behind ? FLI_RANK_BEHIND : FLI_RANK_TIED;
        tied += !behind;
    }
    if (others) ranks[first] = tied ? FLI_RANK_TIED : FLI_RANK_BEST;
}

/* ==== the results table ===================================================================================== */

static const char *cell(const fli_grid *g, size_t row, size_t column) { return g->cells[row * g->columns + column]; }

/* True for columns set flush right: those with a number, or with "> 30" for a target that was not reached. */
static int is_numeric(const fli_grid *g, size_t column)
{
    for (size_t row = 1; row < g->rows; row++)
        if (cell(g, row, column)[0] && strchr("+-.0123456789>", cell(g, row, column)[0])) return column > 0;
    return 0;
}

/* Adds a row's name, with the key of its series if it has one. */
static void add_name(fli_text *t, const fli_report *r, size_t row)
{
    const fli_grid *g = &r->table;
    fli_text_add(t, "<th scope=\"row\">");
    for (size_t k = 0; k < r->count; k++)
        if (r->series[k].row == row) fli_page_key(t, k);
    fli_markup_text(t, cell(g, row, 0));
    fli_text_add(t, g->chosen && g->chosen[row - 1] ? "&#160;*</th>" : "</th>");
}

/* The scripts turn these cells into buttons that sort the table. */
static void add_header(fli_text *t, const fli_grid *g, size_t column)
{
    fli_text_addf(t, "<th scope=\"col\" data-sort=\"%zu\"%s>", column,
                  is_numeric(g, column) ? " class=\"number\"" : "");
    fli_markup_text(t, cell(g, 0, column));
    fli_text_add(t, "</th>");
}

/* A line may break before a deviation, but not within it. */
static void add_text(fli_text *t, const char *s)
{
    const char *sign = strstr(s, "\xc2\xb1 ");
    if (!sign) {
        fli_markup_text(t, s);
        return;
    }
    fli_markup_some(t, s, (size_t)(sign - s));
    fli_text_add(t, "\xc2\xb1&#160;");
    fli_markup_text(t, sign + 3);
}

static void add_cell(fli_text *t, const fli_grid *g, size_t row, size_t column, fli_rank rank)
{
    double v = g->values ? mean_of(g, row - 1, column) : NAN;
    int tied = rank == FLI_RANK_TIED && column == g->goal; /* marking ties in all columns would be too much */
    const char *open = rank == FLI_RANK_BEST ? "<b>" : tied ? "<span class=\"tied\">" : "";
    const char *close = rank == FLI_RANK_BEST ? "</b>" : tied ? "</span>" : "";
    fli_text_addf(t, "<td%s", is_numeric(g, column) ? " class=\"number\"" : "");
    if (isfinite(v)) fli_text_addf(t, " data-value=\"%.10g\"", v);
    fli_text_add(t, " data-label=\"");
    fli_markup_text(t, cell(g, 0, column));
    fli_text_addf(t, "\">%s", open);
    add_text(t, cell(g, row, column));
    fli_text_addf(t, "%s</td>", close);
}

/* ---- explanation of the marks ---------------------------------------------------------------------------- */

static int any_cell(const fli_grid *g, const char *what)
{
    for (size_t i = g->columns; i < g->rows * g->columns; i++)
        if (strstr(g->cells[i], what)) return 1;
    return 0;
}

static int any_rank(const fli_rank *ranks, size_t n, fli_rank rank)
{
    for (size_t i = 0; i < n; i++)
        if (ranks[i] == rank) return 1;
    return 0;
}

static void explain_ranks(fli_text *t, const fli_grid *g, const fli_rank *ranks)
{
    size_t n = g->rows - 1;
    int best = any_rank(ranks, n * g->columns, FLI_RANK_BEST), tied = any_rank(ranks + n * g->goal, n, FLI_RANK_TIED);
    if (g->values && g->seeds < 2 && g->rows > 2)
        fli_text_add(t, "<li>There is one seed, so noise cannot be judged, and no number is set in bold.</li>\n");
    if (g->seeds < 2 || g->rows < 3) return;
    fli_text_addf(t, "<li><b>Bold</b>: the best of its column, better than every other row beyond noise%s. ",
                  best ? "" : "; here no number is");
    if (tied) {
        fli_text_add(t, "<span class=\"tied\">Underlined</span> in ");
        fli_markup_text(t, cell(g, 0, g->goal));
        fli_text_add(t, ": the best, and what cannot be told from it. ");
    }
    fli_text_addf(t,
                  "Noise is judged seed by seed, as all methods have the same data and clients in a seed: a difference "
                  "counts if its 95 %% interval over the %zu seeds (Student's t) leaves out 0. Rows that lack a number "
                  "for some seed are not compared.</li>\n",
                  g->seeds);
}

static void explain(fli_text *t, const fli_grid *g, const fli_rank *ranks)
{
    fli_text_add(t, "<ul class=\"note\">\n");
    if (any_cell(g, "\xc2\xb1"))
        fli_text_add(t, "<li>Numbers are means over the seeds, \xc2\xb1 one standard deviation.</li>\n");
    if (g->chosen)
        fli_text_add(t, "<li>* marks the best setting of each method; the verdict and the curves are of these.</li>\n");
    explain_ranks(t, g, ranks);
    if (any_cell(g, "> ")) fli_text_add(t, "<li>&gt; means that the target was not reached by then.</li>\n");
    if (g->seeds > 1 && any_cell(g, "/"))
        fli_text_add(t, "<li>(2/3) means that two of three seeds reached the target; the number is of these.</li>\n");
    fli_text_add(t, "</ul>\n");
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static void add_body(fli_text *t, const fli_report *r, const fli_rank *ranks)
{
    const fli_grid *g = &r->table;
    fli_text_add(t, "<tbody>\n");
    for (size_t row = 1; row < g->rows; row++) {
        fli_text_addf(t, "<tr%s>", g->chosen && g->chosen[row - 1] ? " class=\"chosen\"" : "");
        add_name(t, r, row);
        for (size_t column = 1; column < g->columns; column++)
            add_cell(t, g, row, column, ranks[column * (g->rows - 1) + row - 1]);
        fli_text_add(t, "</tr>\n");
    }
    fli_text_add(t, "</tbody>\n");
}

void fli_table_html(fli_text *t, const fli_report *r)
{
    const fli_grid *g = &r->table;
    if (g->rows == 0 || g->columns == 0) return;
    fli_rank *ranks = fli_alloc(t->ctx, g->rows * g->columns, sizeof *ranks); /* column by column */
    if (!ranks) {
        t->failed = 1;
        return;
    }
    for (size_t k = 0; k < g->columns; k++) noise_ranks(g, k, NULL, ranks + k * (g->rows - 1));
    fli_text_add(t, "<section aria-labelledby=\"results\">\n<h2 id=\"results\">Results</h2>\n"
                    "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                    "aria-labelledby=\"results\"><table class=\"results\">\n<thead><tr>");
    for (size_t column = 0; column < g->columns; column++) add_header(t, g, column);
    fli_text_add(t, "</tr></thead>\n");
    add_body(t, r, ranks);
    fli_text_add(t, "</table></div>\n");
    explain(t, g, ranks);
    fli_text_add(t, "</section>\n");
    fli_free(ranks);
}

/* ==== the verdict =========================================================================================== */

/* A sentence: which method leads in the goal's column, and whether it leads by more than noise. */

static const char *data_cell(const fli_grid *g, size_t row, size_t column)
{
    return g->cells[(row + 1) * g->columns + column];
}

static void add_row_name(fli_text *t, const fli_grid *g, size_t row)
{
    fli_text_add(t, "<b>");
    fli_markup_text(t, data_cell(g, row, 0));
    fli_text_add(t, "</b>");
}

static void add_value(fli_text *t, const fli_grid *g, size_t row)
{
    fli_text_add(t, " (");
    fli_markup_text(t, data_cell(g, row, g->goal));
    fli_text_add(t, ")");
}

/* The best chosen row of this rank (NONE: any) whose mean comes after that of `before`; SIZE_MAX: none. Rows that lack
 * a number for some seed are not compared; with one seed there are no ranks. */
static size_t next_of(const fli_grid *g, const fli_rank *ranks, fli_rank rank, size_t before)
{
    size_t next = SIZE_MAX;
    int sign = g->better[g->goal] == FL_BETTER_HIGH ? 1 : -1;
    double bound = sign * mean_of(g, before, g->goal);
    for (size_t i = 0; i + 1 < g->rows; i++) {
        double v = sign * mean_of(g, i, g->goal);
        if (i == before || isnan(v) || (g->chosen && !g->chosen[i]) || (rank && ranks[i] != rank)) continue;
        if (g->seeds > 1 && ranks[i] == FLI_RANK_NONE) continue;
        if (v > bound || (v == bound && i < before)) continue;
        if (next == SIZE_MAX || v > sign * mean_of(g, next, g->goal)) next = i;
    }
    return next;
}

static void add_alone(fli_text *t, const fli_grid *g, size_t first)
{
    add_row_name(t, g, first);
    fli_text_add(t, " ends at ");
    fli_markup_text(t, data_cell(g, first, g->goal));
    fli_text_add(t, " (");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ").");
}

/* True if both rows show the same number; for a single seed. */
static int are_alike(const fli_grid *g, size_t a, size_t b)
{
    return !strcmp(data_cell(g, a, g->goal), data_cell(g, b, g->goal));
}

static void add_alike(fli_text *t, const fli_grid *g, size_t first, size_t next)
{
    add_row_name(t, g, first);
    fli_text_add(t, " and ");
    add_row_name(t, g, next);
    add_value(t, g, next);
    fli_text_add(t, " come out alike in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ".");
}

static void add_unjudged(fli_text *t, const fli_grid *g, size_t first, size_t next)
{
    add_row_name(t, g, first);
    add_value(t, g, first);
    fli_text_add(t, " comes out first in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ", before ");
    add_row_name(t, g, next);
    add_value(t, g, next);
    fli_text_add(t, ". With one seed it cannot be judged whether that is more than noise; <code>--seeds 5</code> "
                    "would tell.");
}

static void add_leader(fli_text *t, const fli_grid *g, size_t first, size_t next)
{
    fli_paired p = fli_noise_paired(seed_values(g, first, g->goal), seed_values(g, next, g->goal), g->seeds);
    add_row_name(t, g, first);
    add_value(t, g, first);
    fli_text_add(t, " leads in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ", ahead of ");
    add_row_name(t, g, next);
    add_value(t, g, next);
    fli_text_addf(t, " by %.3g \xc2\xb1 %.2g, which is more than noise.", fabs(p.mean), p.half);
}

static size_t count_rank(const fli_grid *g, const fli_rank *ranks, fli_rank rank)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < g->rows; i++) n += ranks[i] == rank;
    return n;
}

/* Names the methods that cannot be told from the first, best first. */
static void add_ties(fli_text *t, const fli_grid *g, const fli_rank *ranks, size_t first)
{
    enum { NAMED_MAX = 4 };
    size_t tied = count_rank(g, ranks, FLI_RANK_TIED) - 1, behind = count_rank(g, ranks, FLI_RANK_BEHIND), at = first;
    size_t named = tied > NAMED_MAX ? NAMED_MAX - 1 : tied;
    add_row_name(t, g, first);
    add_value(t, g, first);
    fli_text_add(t, " comes out first in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ", but not beyond noise: ");
    for (size_t i = 0; i < named; i++) {
        at = next_of(g, ranks, FLI_RANK_TIED, at);
        if (at == SIZE_MAX) break;
        fli_text_add(t, i == 0 ? "" : i + 1 == tied ? " and " : ", ");
        add_row_name(t, g, at);
        add_value(t, g, at);
    }
    if (named < tied) fli_text_addf(t, " and %zu others", tied - named);
    fli_text_addf(t, " cannot be told from it with %zu seeds.", g->seeds);
    if (behind) fli_text_addf(t, " %s behind.", behind == 1 ? "One is" : "The others are");
}

/* The best method does not beat a model that ignores all features. */
static void add_chance(fli_text *t, const fli_grid *g, size_t first)
{
    int above = mean_of(g, first, g->goal) > g->chance, alone = g->rows == 2;
    fli_text_add(t, above ? "It cannot be told whether anything was learnt: " : "Nothing was learnt: ");
    if (!alone) fli_text_add(t, "the best, ");
    add_row_name(t, g, first);
    fli_text_add(t, alone ? " ends at " : ", ends at ");
    fli_markup_text(t, data_cell(g, first, g->goal));
    fli_text_add(t, " (");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_addf(t, "), not above %.4g, which a model has that always answers the largest class of the test samples",
                  g->chance);
    if (above) fli_text_addf(t, ", by more than noise (%.2g with this number of test samples)", g->chance_noise);
    fli_text_add(t, ".");
}

static void add_judgement(fli_text *t, const fli_grid *g, fli_rank *ranks)
{
    size_t first = noise_first(g, g->goal, g->chosen);
    noise_ranks(g, g->goal, g->chosen, ranks);
    size_t next = next_of(g, ranks, FLI_RANK_NONE, first);
    if (g->chance > 0 && mean_of(g, first, g->goal) <= g->chance + g->chance_noise)
        add_chance(t, g, first);
    else if (next == SIZE_MAX)
        add_alone(t, g, first);
    else if (ranks[first] == FLI_RANK_BEST)
        add_leader(t, g, first, next);
    else if (ranks[first] == FLI_RANK_TIED)
        add_ties(t, g, ranks, first);
    else if (are_alike(g, first, next))
        add_alike(t, g, first, next);
    else
        add_unjudged(t, g, first, next);
}

void fli_verdict_html(fli_text *t, const fli_report *r)
{
    const fli_grid *g = &r->table;
    if (!g->goal || !g->values || noise_first(g, g->goal, g->chosen) == SIZE_MAX) return;
    fli_rank *ranks = fli_alloc(t->ctx, g->rows, sizeof *ranks);
    if (!ranks) {
        t->failed = 1;
        return;
    }
    fli_text_add(t, "<p class=\"verdict\" id=\"verdict\">");
    if (r->stopped && !r->live)
        fli_text_addf(t, "Stopped on request %s. ", r->stopped);
    else if (r->runs_done < r->runs_planned)
        fli_text_add(t, "So far: ");
    add_judgement(t, g, ranks);
    fli_text_add(t, "</p>\n");
    fli_free(ranks);
}
