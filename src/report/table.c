/* The results table. What its numbers, stars and bold print mean stands below it. */
#include "report/page.h"

#include "report/markup.h"
#include "report/noise.h"

#include <math.h>
#include <string.h>

static const char *cell(const fli_grid *g, size_t row, size_t column) { return g->cells[row * g->columns + column]; }

/* Set flush right: columns with a number in them, or with "> 30" for one that was not reached. */
static int is_numeric(const fli_grid *g, size_t column)
{
    for (size_t row = 1; row < g->rows; row++)
        if (cell(g, row, column)[0] && strchr("+-.0123456789>", cell(g, row, column)[0])) return column > 0;
    return 0;
}

/* A row's name, with the key of its series if it has one. */
static void add_name(fli_text *t, const fli_report *r, size_t row)
{
    const fli_grid *g = &r->table;
    fli_text_add(t, "<th scope=\"row\">");
    for (size_t k = 0; k < r->count; k++)
        if (r->series[k].row == row) fli_page_key(t, k);
    fli_markup_text(t, cell(g, row, 0));
    fli_text_add(t, g->chosen && g->chosen[row - 1] ? "&#160;*</th>" : "</th>");
}

/* The scripts make buttons of these, to sort by. */
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
    double v = g->values ? fli_grid_mean(g, row - 1, column) : NAN;
    int tied = rank == FLI_RANK_TIED && column == g->goal; /* in all columns it would be too much of it */
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

/* ---- what it means ------------------------------------------------------------------------------------- */

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
    for (size_t k = 0; k < g->columns; k++) fli_noise_ranks(g, k, NULL, ranks + k * (g->rows - 1));
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
