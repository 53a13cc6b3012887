#include "report/page.h"
#include "base/number.h"

#include "report/markup.h"

#include <math.h>
#include <string.h>

static const char *cell(const fli_grid *g, size_t row, size_t column) { return g->cells[row * g->columns + column]; }

/* The number a cell begins with ("0.91 +- 0.02", "12.4 MB"), NaN if none: what was not reached ("> 30") takes no
 * part. */
static double number(const char *s)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
    char *end;
    if (!strchr("+-.0123456789", s[0])) return NAN; /* strtod knows other numbers */
    double v = fli_strtod(s, &end);
    if (end == s) return NAN;
    while (*end == ' ') end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strncmp(end, units[i].name, 2)) v *= units[i].factor;
    return v;
}

/* The best number of a column; NaN if there is nothing to choose from. */
static double best(const fli_grid *g, size_t column)
{
    fl_better better = g->better ? g->better[column] : FL_BETTER_NEITHER;
    int sign = better == FL_BETTER_HIGH ? 1 : better == FL_BETTER_LOW ? -1 : 0, differ = 0;
    double found = NAN;
    for (size_t row = 1; sign && row < g->rows; row++) {
        double v = number(cell(g, row, column));
        if (isnan(v)) continue;
        if (!isnan(found) && v != found) differ = 1;
        if (isnan(found) || sign * v > sign * found) found = v;
    }
    return differ ? found : NAN;
}

/* Set flush right: columns with a number in them, or with "> 30" for one that was not reached. */
static int is_numeric(const fli_grid *g, size_t column)
{
    for (size_t row = 1; row < g->rows; row++)
        if (!isnan(number(cell(g, row, column))) || cell(g, row, column)[0] == '>') return column > 0;
    return 0;
}

/* A row's name, with the key of its series if it is one's label. */
static void add_name(fli_text *t, const fli_report *r, const char *name)
{
    fli_text_add(t, "<th scope=\"row\">");
    for (size_t k = 0; k < r->count; k++)
        if (!strcmp(r->series[k].label, name)) {
            fli_page_key(t, k);
            break;
        }
    fli_markup_text(t, name);
    fli_text_add(t, "</th>");
}

/* What a whole column says about each of its cells. */
typedef struct {
    double best;
    int numeric;
} column_look;

static void add_column_header(fli_text *t, const fli_grid *g, const column_look *looks, size_t column)
{
    fli_text_addf(t, "<th scope=\"col\"%s>", looks[column].numeric ? " class=\"number\"" : "");
    fli_markup_text(t, cell(g, 0, column));
    fli_text_add(t, "</th>");
}

static void add_cell(fli_text *t, const char *s, const column_look *look)
{
    int bold = number(s) == look->best;
    fli_text_addf(t, "<td%s>%s", look->numeric ? " class=\"number\"" : "", bold ? "<b>" : "");
    fli_markup_text(t, s);
    fli_text_addf(t, "%s</td>", bold ? "</b>" : "");
}

void fli_table_html(fli_text *t, const fli_report *r)
{
    const fli_grid *g = &r->table;
    if (g->rows == 0 || g->columns == 0) return;
    column_look *looks = fli_alloc(t->ctx, g->columns, sizeof *looks);
    if (!looks) {
        t->failed = 1;
        return;
    }
    for (size_t k = 0; k < g->columns; k++) looks[k] = (column_look){best(g, k), is_numeric(g, k)};
    fli_text_add(
        t, "<section aria-labelledby=\"results\">\n<h2 id=\"results\">Results</h2>\n"
           "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"results\"><table>\n<thead><tr>");
    for (size_t column = 0; column < g->columns; column++) add_column_header(t, g, looks, column);
    fli_text_add(t, "</tr></thead>\n<tbody>\n");
    for (size_t row = 1; row < g->rows; row++) {
        fli_text_add(t, "<tr>");
        add_name(t, r, cell(g, row, 0));
        for (size_t column = 1; column < g->columns; column++) add_cell(t, cell(g, row, column), &looks[column]);
        fli_text_add(t, "</tr>\n");
    }
    fli_text_add(t, "</tbody>\n</table></div>\n</section>\n");
    fli_free(looks);
}
