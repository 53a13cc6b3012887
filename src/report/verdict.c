/* What came out, in a sentence: who leads by what the comparison is about, and whether that is more than noise. */
#include "report/page.h"

#include "report/markup.h"
#include "report/noise.h"

#include <math.h>
#include <string.h>

static const char *cell(const fli_grid *g, size_t row, size_t column)
{
    return g->cells[(row + 1) * g->columns + column];
}

static void add_name(fli_text *t, const fli_grid *g, size_t row)
{
    fli_text_add(t, "<b>");
    fli_markup_text(t, cell(g, row, 0));
    fli_text_add(t, "</b>");
}

static void add_value(fli_text *t, const fli_grid *g, size_t row)
{
    fli_text_add(t, " (");
    fli_markup_text(t, cell(g, row, g->goal));
    fli_text_add(t, ")");
}

/* The best of the chosen rows with this rank (NONE: any) that come after `before` by their means; SIZE_MAX: none. A row
 * that lacks a number for some seed is not compared; with one seed there are no ranks. */
static size_t next_of(const fli_grid *g, const fli_rank *ranks, fli_rank rank, size_t before)
{
    size_t next = SIZE_MAX;
    int sign = g->better[g->goal] == FL_BETTER_HIGH ? 1 : -1;
    double bound = sign * fli_grid_mean(g, before, g->goal);
    for (size_t i = 0; i + 1 < g->rows; i++) {
        double v = sign * fli_grid_mean(g, i, g->goal);
        if (i == before || isnan(v) || (g->chosen && !g->chosen[i]) || (rank && ranks[i] != rank)) continue;
        if (g->seeds > 1 && ranks[i] == FLI_RANK_NONE) continue;
        if (v > bound || (v == bound && i < before)) continue;
        if (next == SIZE_MAX || v > sign * fli_grid_mean(g, next, g->goal)) next = i;
    }
    return next;
}

static void add_alone(fli_text *t, const fli_grid *g, size_t first)
{
    add_name(t, g, first);
    fli_text_add(t, " ends at ");
    fli_markup_text(t, cell(g, first, g->goal));
    fli_text_add(t, " (");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ").");
}

/* One seed, and the same number for both as far as it is shown. */
static int are_alike(const fli_grid *g, size_t a, size_t b)
{
    return !strcmp(cell(g, a, g->goal), cell(g, b, g->goal));
}

static void add_alike(fli_text *t, const fli_grid *g, size_t first, size_t next)
{
    add_name(t, g, first);
    fli_text_add(t, " and ");
    add_name(t, g, next);
    add_value(t, g, next);
    fli_text_add(t, " come out alike in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ".");
}

static void add_unjudged(fli_text *t, const fli_grid *g, size_t first, size_t next)
{
    add_name(t, g, first);
    add_value(t, g, first);
    fli_text_add(t, " comes out first in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ", before ");
    add_name(t, g, next);
    add_value(t, g, next);
    fli_text_add(t, ". With one seed it cannot be judged whether that is more than noise; <code>--seeds 5</code> "
                    "would tell.");
}

static void add_leader(fli_text *t, const fli_grid *g, size_t first, size_t next)
{
    fli_paired p = fli_noise_paired(fli_grid_values(g, first, g->goal), fli_grid_values(g, next, g->goal), g->seeds);
    add_name(t, g, first);
    add_value(t, g, first);
    fli_text_add(t, " leads in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ", ahead of ");
    add_name(t, g, next);
    add_value(t, g, next);
    fli_text_addf(t, " by %.3g \xc2\xb1 %.2g, which is more than noise.", fabs(p.mean), p.half);
}

static size_t count_rank(const fli_grid *g, const fli_rank *ranks, fli_rank rank)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < g->rows; i++) n += ranks[i] == rank;
    return n;
}

/* Those that cannot be told from the first, from the best on. */
static void add_ties(fli_text *t, const fli_grid *g, const fli_rank *ranks, size_t first)
{
    enum { NAMED_MAX = 4 };
    size_t tied = count_rank(g, ranks, FLI_RANK_TIED) - 1, behind = count_rank(g, ranks, FLI_RANK_BEHIND), at = first;
    size_t named = tied > NAMED_MAX ? NAMED_MAX - 1 : tied;
    add_name(t, g, first);
    add_value(t, g, first);
    fli_text_add(t, " comes out first in ");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_add(t, ", but not beyond noise: ");
    for (size_t i = 0; i < named; i++) {
        at = next_of(g, ranks, FLI_RANK_TIED, at);
        if (at == SIZE_MAX) break;
        fli_text_add(t, i == 0 ? "" : i + 1 == tied ? " and " : ", ");
        add_name(t, g, at);
        add_value(t, g, at);
    }
    if (named < tied) fli_text_addf(t, " and %zu others", tied - named);
    fli_text_addf(t, " cannot be told from it with %zu seeds.", g->seeds);
    if (behind) fli_text_addf(t, " %s behind.", behind == 1 ? "One is" : "The others are");
}

/* The best is no better than a model that looks at no features. */
static void add_chance(fli_text *t, const fli_grid *g, size_t first)
{
    int above = fli_grid_mean(g, first, g->goal) > g->chance, alone = g->rows == 2;
    fli_text_add(t, above ? "It cannot be told whether anything was learnt: " : "Nothing was learnt: ");
    if (!alone) fli_text_add(t, "the best, ");
    add_name(t, g, first);
    fli_text_add(t, alone ? " ends at " : ", ends at ");
    fli_markup_text(t, cell(g, first, g->goal));
    fli_text_add(t, " (");
    fli_markup_text(t, g->cells[g->goal]);
    fli_text_addf(t, "), not above %.4g, which a model has that always answers the largest class of the test samples",
                  g->chance);
    if (above) fli_text_addf(t, ", by more than noise (%.2g with this number of test samples)", g->chance_noise);
    fli_text_add(t, ".");
}

static void add_judgement(fli_text *t, const fli_grid *g, fli_rank *ranks)
{
    size_t first = fli_noise_first(g, g->goal, g->chosen);
    fli_noise_ranks(g, g->goal, g->chosen, ranks);
    size_t next = next_of(g, ranks, FLI_RANK_NONE, first);
    if (g->chance > 0 && fli_grid_mean(g, first, g->goal) <= g->chance + g->chance_noise)
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
    if (!g->goal || !g->values || fli_noise_first(g, g->goal, g->chosen) == SIZE_MAX) return;
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
