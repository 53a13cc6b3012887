/* report.html: one file with everything in it. Its policy (Content-Security-Policy) forbids every request; a page
 * served live may ask its own server for the newest state.
 *
 * All charts are in the page, for every x axis that was measured; without JavaScript those against rounds show. page.js
 * shows and hides, reads values under the pointer and swaps <main> when a newer one is served. Hence all that changes
 * while a comparison runs lies within <main>. */
#include "report/page.h"

#include "report/series_style.h"
#include "report/markup.h"

#include <string.h>

void fli_page_key(fli_text *t, size_t k)
{
    fli_text_addf(t, "<svg class=\"key c%zu\" viewBox=\"0 0 26 12\" width=\"26\" height=\"12\" aria-hidden=\"true\">",
                  fli_style_colour(k));
    fli_style_key(t, k, 0, 6, 1);
    fli_text_add(t, "</svg>");
}

/* ---- head ---------------------------------------------------------------------------------------------- */

static void add_palette(fli_text *t)
{
    for (int dark = 0; dark < 2; dark++) {
        fli_text_add(t, dark ? "@media screen and (prefers-color-scheme: dark) {\n  :root {" : ":root {");
        for (size_t i = 0; i < FLI_COLOURS; i++)
            fli_text_addf(t, " --c%zu: %s;", i, dark ? fli_colours[i].dark : fli_colours[i].light);
        fli_text_add(t, dark ? " }\n}\n" : " }\n");
    }
    for (size_t i = 0; i < FLI_COLOURS; i++) fli_text_addf(t, ".c%zu { --c: var(--c%zu); }\n", i, i);
    for (size_t i = 1; i < FLI_DASHES; i++) fli_text_addf(t, ".d%zu { stroke-dasharray: %s; }\n", i, fli_dashes[i]);
}

static void add_head(fli_text *t, const fli_report *r)
{
    fli_text_addf(
        t,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'%s\">\n",
        r->live ? "; connect-src 'self'" : "");
    fli_text_add(t, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n"
                    "<link rel=\"icon\" href=\"data:,\">\n<title>");
    fli_markup_text(t, r->title[0] ? r->title : "fedloom");
    fli_text_add(t, "</title>\n<style>\n");
    fli_text_add(t, fli_page_css);
    add_palette(t);
    fli_text_add(t, "</style>\n</head>\n");
}

/* ---- what ran ------------------------------------------------------------------------------------------ */

static int seen_before(const fli_report *r, size_t series, size_t curve)
{
    for (size_t k = 0; k <= series; k++)
        for (size_t c = 0; c < (k == series ? curve : r->series[k].count); c++)
            if (r->series[k].curves[c].seed == r->series[series].curves[curve].seed) return 1;
    return 0;
}

/* The distinct seeds: listed, or counted when there are many. */
static void add_seeds(fli_text *t, const fli_report *r)
{
    enum { LISTED_MAX = 12 };
    size_t count = 0;
    fli_text list;
    fli_text_init(&list, t->ctx);
    for (size_t k = 0; k < r->count; k++)
        for (size_t c = 0; c < r->series[k].count; c++) {
            if (seen_before(r, k, c)) continue;
            fli_text_addf(&list, "%s%llu", count ? ", " : "", (unsigned long long)r->series[k].curves[c].seed);
            count++;
        }
    if (count > LISTED_MAX)
        fli_text_addf(t, "<span>%zu seeds</span>\n", count);
    else if (count > 0)
        fli_text_addf(t, "<span>%s %s</span>\n", count == 1 ? "seed" : "seeds", fli_text_get(&list));
    t->failed |= list.failed;
    fli_text_fini(&list);
}

static void add_status(fli_text *t, const fli_report *r)
{
    fli_text_addf(t, "<span id=\"status\" role=\"status\"%s>", r->live ? " class=\"running\"" : "");
    if (r->live)
        fli_text_addf(t, "running, %zu of %zu runs", r->runs_done, r->runs_planned);
    else if (r->runs_done < r->runs_planned)
        fli_text_addf(t, "%zu of %zu runs", r->runs_done, r->runs_planned);
    else
        fli_text_addf(t, "%zu %s", r->runs_done, r->runs_done == 1 ? "run" : "runs");
    fli_text_add(t, "</span>\n");
}

static void add_header(fli_text *t, const fli_report *r)
{
    fli_text_add(t, "<header>\n<h1>");
    fli_markup_text(t, r->title[0] ? r->title : "fedloom");
    fli_text_add(t, "</h1>\n");
    if (r->description[0]) {
        fli_text_add(t, "<p class=\"lead\">");
        fli_markup_text(t, r->description);
        fli_text_add(t, "</p>\n");
    }
    fli_text_add(t, "<p class=\"facts\">");
    add_status(t, r);
    fli_text_addf(t, "<span>%zu %s</span>\n", r->count, r->count == 1 ? "configuration" : "configurations");
    add_seeds(t, r);
    fli_text_add(t, "</p>\n</header>\n");
}

/* ---- curves -------------------------------------------------------------------------------------------- */

static void add_controls(fli_text *t, const fli_report *r)
{
    const fl_metric *x, *y;
    fli_text_add(t, "<div class=\"controls\">\n<fieldset><legend>x axis</legend>");
    for (size_t k = 0; (x = fl_metric_shown(FL_VIEW_AXIS, k)); k++) {
        if (!fli_report_has(r, x)) continue;
        const char *name = fli_x_name(x);
        fli_text_addf(t,
                      "<label><input type=\"radio\" name=\"x\" id=\"x-%s\" value=\"%s\" "
                      "autocomplete=\"off\"%s><span>%s</span></label>",
                      name, name, k ? "" : " checked", name);
    }
    fli_text_add(t, "</fieldset>\n<label class=\"metric\">metric <select id=\"y\" autocomplete=\"off\"><option "
                    "value=\"all\">all</option>");
    for (size_t k = 0; (y = fl_metric_shown(FL_VIEW_CHART, k)); k++)
        if (fli_report_has(r, y)) fli_text_addf(t, "<option value=\"%s\">%s</option>", fli_y_name(y), y->title);
    fli_text_add(t, "</select></label>\n</div>\n");
}

static void add_legend(fli_text *t, const fli_report *r)
{
    fli_text_add(t, "<div class=\"legend\" role=\"group\" aria-label=\"curves shown\">\n");
    for (size_t k = 0; k < r->count; k++) {
        fli_text_addf(t, "<button type=\"button\" id=\"series-%zu\" data-toggle=\"%zu\" aria-pressed=\"true\">", k, k);
        fli_page_key(t, k);
        fli_text_add(t, "<span>");
        fli_markup_text(t, r->series[k].label);
        fli_text_add(t, "</span></button>\n");
    }
    if (r->count > 2)
        fli_text_add(t,
                     "<button type=\"button\" id=\"series-all\" class=\"plain\" data-toggle=\"all\">all</button>\n"
                     "<button type=\"button\" id=\"series-none\" class=\"plain\" data-toggle=\"none\">none</button>\n");
    fli_text_add(t, "</div>\n");
}

static fl_status add_chart(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y, int shown)
{
    const char *x_name = fli_x_name(x), *y_name = fli_y_name(y);
    fli_text_addf(t,
                  "<figure class=\"chart%s\" data-x=\"%s\" data-y=\"%s\"><div class=\"plot\" id=\"%s-%s\" "
                  "tabindex=\"0\" role=\"group\" ",
                  shown ? "" : " other-x", x_name, y_name, y_name, x_name);
    fli_text_addf(t, "aria-label=\"%s against %s; left and right arrow keys read the values\">\n", y->title, x->title);
    fl_status status = fli_chart_svg(t, r, x, y, 1);
    fli_text_add(t, "</div></figure>\n");
    return status;
}

static int has_spread(const fli_report *r)
{
    for (size_t k = 0; k < r->count; k++)
        if (r->series[k].count > 1) return 1;
    return 0;
}

static fl_status add_curves(fli_text *t, const fli_report *r)
{
    int some = 0;
    const fl_metric *x, *y;
    for (size_t k = 0; (y = fl_metric_shown(FL_VIEW_CHART, k)); k++) some |= fli_report_has(r, y);
    fli_text_add(t, "<section aria-labelledby=\"curves\">\n<h2 id=\"curves\">Curves</h2>\n");
    if (!some) {
        fli_text_add(t, "<p>Nothing has been measured yet.</p>\n</section>\n");
        return FL_OK;
    }
    fli_text_addf(t, "<div class=\"bar%s\">\n", r->count <= 10 ? " sticky" : "");
    add_controls(t, r);
    add_legend(t, r);
    fli_text_add(t, "</div>\n<div class=\"charts\">\n");
    for (size_t k = 0; (y = fl_metric_shown(FL_VIEW_CHART, k)); k++) {
        if (!fli_report_has(r, y)) continue;
        for (size_t i = 0; (x = fl_metric_shown(FL_VIEW_AXIS, i)); i++) {
            fl_status status = fli_report_has(r, x) ? add_chart(t, r, x, y, i == 0) : FL_OK;
            if (status) return status;
        }
    }
    fli_text_add(t, "</div>\n");
    if (has_spread(r))
        fli_text_add(
            t, "<p class=\"note\">Lines are means over the seeds, bands one standard deviation to either side.</p>\n");
    fli_text_add(t, "</section>\n");
    return FL_OK;
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

static void add_configs(fli_text *t, const fli_report *r)
{
    int some = 0;
    for (size_t k = 0; k < r->count; k++) {
        const char *config = r->series[k].config;
        if (!config || !config[0]) continue;
        if (!some)
            fli_text_add(t, "<section class=\"configs\" aria-labelledby=\"configurations\">\n<h2 "
                            "id=\"configurations\">Configurations</h2>\n");
        some = 1;
        fli_text_addf(t, "<details data-key=\"%zu\"><summary id=\"config-%zu\">", k, k);
        fli_markup_text(t, r->series[k].label);
        fli_text_add(t, "</summary><pre tabindex=\"0\">");
        fli_markup_text(t, config);
        fli_text_add(t, "</pre></details>\n");
    }
    if (some) fli_text_add(t, "</section>\n");
}

static void add_footer(fli_text *t, const fli_report *r)
{
    fli_text_add(t, "<footer>fedloom " FL_VERSION);
    if (r->machine && r->machine[0]) {
        fli_text_add(t, " \xc2\xb7 ");
        fli_markup_text(t, r->machine);
    }
    fli_text_add(t, "</footer>\n");
}

fl_status fli_page_html(fli_text *t, const fli_report *r)
{
    add_head(t, r);
    fli_text_addf(t, "<body>\n<main id=\"report\" data-live=\"%d\">\n", r->live ? 1 : 0);
    add_header(t, r);
    fl_status status = add_curves(t, r);
    if (status) return status;
    fli_table_html(t, r);
    fli_heatmap_svg(t, r);
    add_configs(t, r);
    add_footer(t, r);
    fli_text_add(t, "<script type=\"application/json\" id=\"data\">\n");
    status = fli_page_data(t, r);
    if (status) return status;
    fli_text_add(t, "</script>\n</main>\n<script>\n");
    fli_text_add(t, fli_page_js);
    fli_text_add(t, "</script>\n</body>\n</html>\n");
    return fli_text_ok(t);
}
