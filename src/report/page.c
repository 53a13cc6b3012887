/* report.html: one file with everything in it. Its policy (Content-Security-Policy) forbids every request; a live page
 * may request the newest state from its own server.
 *
 * Results come first: the verdict and the table; then the problem, the curves, the clients, the settings. The page has
 * the charts against rounds, for readers without JavaScript; with it, the scripts (js/) redraw them against any axis.
 * All that changes during a comparison lies within <main>, which is replaced when a newer page is served. */
#include "report/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ==== the numbers behind the charts ========================================================================= */

/* The data from which the scripts draw:
 *
 *   {"axes": [{"name", "title", "unit"}, ...],           what can be on the x axis
 *    "units": {"bytes": [[from, divisor, "kB"], ...]}, "colours": n, "dashes": [...], "markers": [...],
 *    "series": [{"label", "seeds": [...]}, ...],
 *    "charts": {"test-accuracy": {"title", "unit", "scale", "series": [{"x": [[...], ...], "runs": [[...], ...]}]}},
 *    "heat": {"classes": n, "counts": [...]}}
 *
 * A chart's "x" has a list per axis, with null for points without a position there, or the name of an earlier chart
 * with the same lists. "runs" has a list per seed. A chart with an axis of its own has "axis": {"name", "title",
 * "unit"} and one list. */

/* Points kept per line: more than a chart has pixels, or fewer for many series, so that the page stays within a few
 * megabytes. */
enum { KEPT_MAX = 600, KEPT_MIN = 100, NUMBERS_MAX = 250000 };

/* Most x axes: rounds, and other metrics that some run measured. Determined once, for all series. */
enum { AXES_MAX = 8 };

typedef struct {
    const fli_report *r;
    const fl_metric *axes[AXES_MAX + 1];
    size_t axis_count, kept;
    const fl_metric **first; /* per series: the first chart that has all of the series' rows */
} writer;

/* Writes null for numbers that are not finite. */
static void add_json_number(fli_text *t, double v)
{
    if (isfinite(v))
        fli_text_addf(t, "%.6g", v);
    else
        fli_text_add(t, "null");
}

/* "title":...,"unit":...,"scale":... */
static void add_json_about(fli_text *t, const fl_metric *m)
{
    static const char *const units[] = {
        [FL_UNIT_NONE] = "none",   [FL_UNIT_SHARE] = "share", [FL_UNIT_SCORE] = "score",
        [FL_UNIT_COUNT] = "count", [FL_UNIT_BYTES] = "bytes", [FL_UNIT_SECONDS] = "seconds"};
    static const char *const scales[] = {
        [FL_SCALE_LINEAR] = "linear", [FL_SCALE_LOG] = "log", [FL_SCALE_WIDE] = "wide"};
    fli_text_add(t, "\"title\":");
    fli_markup_json(t, m->title);
    fli_text_addf(t, ",\"unit\":\"%s\",\"scale\":\"%s\"", units[m->unit], scales[m->scale]);
}

/* ---- thinning ------------------------------------------------------------------------------------------ */

/* Of every stretch of points, keeps the first, least, greatest and last, so that no peak is lost. Returns how many. */
static size_t thin(fli_curve_point *p, size_t count, size_t most)
{
    size_t n = 0, stretch = (count * 4 + most - 1) / most;
    if (count <= most) return count;
    for (size_t i = 0; i < count; i += stretch) {
        size_t end = i + stretch < count ? i + stretch : count, least = i, greatest = i;
        for (size_t j = i; j < end; j++) {
            if (p[j].mean < p[least].mean) least = j;
            if (p[j].mean > p[greatest].mean) greatest = j;
        }
        for (size_t j = i; j < end; j++)
            if (j == i || j == least || j == greatest || j + 1 == end) p[n++] = p[j];
    }
    return n;
}

/* ---- one line ------------------------------------------------------------------------------------------ */

/* Writes the positions of the points on an axis, in order; null for points without one. */
static fl_status add_places(fli_text *t, const fli_series *s, const fl_metric *x, const fl_metric *y,
                            const fli_curve_point *points, size_t count)
{
    fli_curve_point *there;
    size_t n, k = 0;
    fl_status status = fli_series_points(t->ctx, s, x, y, &there, &n);
    if (status) return status;
    fli_text_add(t, "[");
    for (size_t i = 0; i < count; i++) {
        while (k < n && there[k].row < points[i].row) k++;
        if (i) fli_text_add(t, ",");
        add_json_number(t, k < n && there[k].row == points[i].row ? there[k].x : NAN);
    }
    fli_text_add(t, "]");
    fli_free(there);
    return FL_OK;
}

static void add_run(fli_text *t, const fli_curve *c, const fl_metric *y, const fli_curve_point *points, size_t count)
{
    fli_text_add(t, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) fli_text_add(t, ",");
        add_json_number(t, points[i].row < c->count ? fl_row_value(&c->rows[points[i].row], y) : NAN);
    }
    fli_text_add(t, "]");
}

/* True if chart y has a point in every row; all such charts share their positions. */
static int has_all_rows(writer *w, size_t k, const fl_metric *y, size_t count)
{
    size_t rows = 0;
    const fli_series *s = &w->r->series[k];
    for (size_t c = 0; c < s->count; c++)
        if (s->curves[c].count > rows) rows = s->curves[c].count;
    if (count < rows || count > w->kept) return 0;
    if (!w->first[k]) w->first[k] = y;
    return 1;
}

static fl_status add_line(fli_text *t, writer *w, size_t k, const fl_metric *y)
{
    const fli_series *s = &w->r->series[k];
    fli_curve_point *points;
    size_t count;
    fl_status status = fli_series_points(t->ctx, s, w->axes[0], y, &points, &count);
    if (status) return status;
    fli_text_add(t, "{\"x\":");
    if (has_all_rows(w, k, y, count) && w->first[k] != y)
        fli_text_addf(t, "\"%s\"", fli_y_name(w->first[k]));
    else {
        count = thin(points, count, w->kept);
        for (size_t i = 0; w->axes[i] && !status; i++) {
            fli_text_add(t, i ? "," : "[");
            status = add_places(t, s, w->axes[i], y, points, count);
        }
        fli_text_add(t, "]");
    }
    fli_text_add(t, ",\"runs\":[");
    for (size_t c = 0; c < s->count; c++) {
        if (c) fli_text_add(t, ",");
        add_run(t, &s->curves[c], y, points, count);
    }
    fli_text_add(t, "]}");
    fli_free(points);
    return status;
}

/* ==== clients =============================================================================================== */

/* The section on clients at the end of a run: how accuracy is spread over them, and which gain or lose against FedAvg,
 * or against the first method if FedAvg is missing. A client is compared within a seed, because it has other samples in
 * another seed. So the section has the clients of all seeds. */

enum { POINTS_MAX = 101 }; /* per line: one for every percent */

/* Begins a figure around a chart, which the caller adds before end_figure; `id` is that of its plot. The scripts fill
 * in the tools (js/page.js). */
static void begin_figure(fli_text *t, const char *id, const fl_metric *x, const fl_metric *y)
{
    fli_text_addf(t, "<figure class=\"chart\" data-chart=\"%s\"><div class=\"head\"><h3 id=\"title-%s\">", id, id);
    fli_markup_text(t, y->title);
    fli_text_addf(
        t, "</h3><div class=\"tools\"></div></div>\n<div class=\"plot\" id=\"%s\" tabindex=\"0\" role=\"group\" ", id);
    fli_text_add(t, "aria-label=\"");
    fli_markup_text(t, y->title);
    fli_text_add(t, " against ");
    fli_markup_text(t, x->title);
    fli_text_add(t, "; left and right arrow keys read the values, plus and minus zoom\">\n");
}

static void end_figure(fli_text *t) { fli_text_add(t, "</div></figure>\n"); }

static const fl_metric share_axis = {.name = "share", .title = "clients, from the worst", .unit = FL_UNIT_SHARE};
static const fl_metric order_axis = {
    .name = "share", .title = "clients, from the greatest loss to the greatest gain", .unit = FL_UNIT_SHARE};
static const fl_metric accuracy = {.name = "accuracy", .title = "accuracy on own samples", .unit = FL_UNIT_SHARE};
static const fl_metric gain = {.name = "gain", .title = "change of accuracy", .unit = FL_UNIT_NONE};

/* One client's number in one seed. */
typedef struct {
    double v;
    uint32_t client;
    uint64_t seed;
} entry;

/* The numbers of a series, ascending. */
typedef struct {
    entry *at;
    size_t n;
} entries;

typedef struct {
    const fli_report *r;
    size_t base;      /* the series that others are compared with */
    entries *reached; /* per series: accuracies */
    entries *changed; /* per series: changes against the base; empty for the base */
} view;

/* ---- gathering ----------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->v != y->v) return x->v > y->v ? 1 : -1;
    if (x->seed != y->seed) return x->seed > y->seed ? 1 : -1;
    return (x->client > y->client) - (x->client < y->client);
}

static size_t clients_of(const fli_series *s)
{
    size_t n = 0;
    for (size_t c = 0; c < s->count; c++) n += s->curves[c].client_count;
    return n;
}

static const fli_curve *of_seed(const fli_series *s, uint64_t seed)
{
    for (size_t c = 0; c < s->count; c++)
        if (s->curves[c].seed == seed) return &s->curves[c];
    return NULL;
}

/* The client's accuracy in another run. Runs of a seed measure the same clients in the same order. */
static double there(const fli_curve *c, size_t i, uint32_t client)
{
    if (!c || i >= c->client_count || c->clients[i].client != client) return NAN;
    return c->clients[i].accuracy;
}

/* Collects accuracies or, if `base`, their changes against the base. */
static fl_status gather(fl_ctx *ctx, const fli_series *s, const fli_series *base, entries *out)
{
    out->at = fli_alloc(ctx, clients_of(s), sizeof *out->at);
    if (!out->at) return FL_ENOMEM;
    for (size_t c = 0; c < s->count; c++) {
        const fli_curve *mine = &s->curves[c], *other = base ? of_seed(base, mine->seed) : NULL;
        for (size_t i = 0; i < mine->client_count; i++) {
            const fli_client_end *e = &mine->clients[i];
            double v = e->accuracy - (base ? there(other, i, e->client) : 0);
            if (isfinite(v)) out->at[out->n++] = (entry){v, e->client, mine->seed};
        }
    }
    if (out->n) qsort(out->at, out->n, sizeof *out->at, by_value);
    return FL_OK;
}

static size_t base_of(const fli_report *r)
{
    for (size_t k = 0; k < r->count; k++)
        if (!strncasecmp(r->series[k].label, "fedavg", 6) &&
            !strchr("abcdefghijklmnopqrstuvwxyz-", r->series[k].label[6]))
            return k;
    return 0;
}

static void drop(view *v)
{
    for (size_t k = 0; k < v->r->count; k++) {
        if (v->reached) fli_free(v->reached[k].at);
        if (v->changed) fli_free(v->changed[k].at);
    }
    fli_free(v->reached);
    fli_free(v->changed);
}

static fl_status take(fl_ctx *ctx, view *v)
{
    const fli_report *r = v->r;
    fl_status status = FL_OK;
    v->base = base_of(r);
    v->reached = fli_alloc(ctx, r->count, sizeof *v->reached);
    v->changed = fli_alloc(ctx, r->count, sizeof *v->changed);
    if (!v->reached || !v->changed) return FL_ENOMEM;
    for (size_t k = 0; k < r->count && !status; k++) {
        status = gather(ctx, &r->series[k], NULL, &v->reached[k]);
        if (!status && k != v->base) status = gather(ctx, &r->series[k], &r->series[v->base], &v->changed[k]);
    }
    return status;
}

static int some(const entries *all, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (all[k].n > 1) return 1;
    return 0;
}

/* ---- charts -------------------------------------------------------------------------------------------- */

/* The number below which this share of all numbers lies. */
static const entry *at_share(const entries *e, double share)
{
    return &e->at[(size_t)floor(share * (double)(e->n - 1) + 0.5)];
}

static fl_status make_line(fl_ctx *ctx, const entries *e, fli_chart_line *out)
{
    size_t n = e->n < POINTS_MAX ? e->n : POINTS_MAX;
    if (n < 2) return FL_OK;
    out->points = fli_alloc(ctx, n, sizeof *out->points);
    if (!out->points) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        double share = (double)i / (double)(n - 1), v = at_share(e, share)->v;
        out->points[i] =
            (fli_curve_point){.row = i, .x = share, .mean = v, .low = v, .high = v, .q10 = v, .q90 = v, .n = 1};
    }
    out->count = n;
    return FL_OK;
}

/* One of the two charts of this section. */
typedef struct {
    const char *id;
    const fl_metric *x, *y;
} picture;
static const picture spread_picture = {"client-spread", &share_axis, &accuracy},
                     change_picture = {"client-change", &order_axis, &gain};

typedef fl_status draw_fn(fli_text *t, const fli_report *r, const picture *p, const fli_chart_line *lines);

static fl_status with_lines(fli_text *t, const fli_report *r, const picture *p, const entries *all, draw_fn *draw)
{
    fl_status status = FL_OK;
    fli_chart_line *lines = fli_alloc(t->ctx, r->count, sizeof *lines);
    if (!lines) return FL_ENOMEM;
    for (size_t k = 0; k < r->count && !status; k++) status = make_line(t->ctx, &all[k], &lines[k]);
    if (!status) status = draw(t, r, p, lines);
    for (size_t k = 0; k < r->count; k++) fli_free(lines[k].points);
    fli_free(lines);
    return status;
}

static fl_status draw_figure(fli_text *t, const fli_report *r, const picture *p, const fli_chart_line *lines)
{
    begin_figure(t, p->id, p->x, p->y);
    fl_status status = fli_chart_lines(t, r, p->x, p->y, lines, 1);
    end_figure(t);
    return status;
}

static fl_status draw_data(fli_text *t, const fli_report *r, const picture *p, const fli_chart_line *lines)
{
    fli_text_addf(t, "\n\"%s\":{", p->id);
    add_json_about(t, p->y);
    fli_text_add(t, ",\"axis\":{\"name\":\"share\",");
    add_json_about(t, p->x);
    fli_text_add(t, "},\"series\":[");
    for (size_t k = 0; k < r->count; k++) {
        fli_text_add(t, k ? ",\n{\"x\":[" : "{\"x\":[");
        for (int y = 0; y < 2; y++) {
            fli_text_add(t, y ? "],\"runs\":[[" : "[");
            for (size_t i = 0; i < lines[k].count; i++) {
                if (i) fli_text_add(t, ",");
                add_json_number(t, y ? lines[k].points[i].mean : lines[k].points[i].x);
            }
            fli_text_add(t, "]");
        }
        fli_text_add(t, "]}");
    }
    fli_text_add(t, "]}");
    return FL_OK;
}

/* Writes the charts of this section as members of "charts"; `after`: a comma comes first. */
static fl_status add_clients_data(fli_text *t, const fli_report *r, int after)
{
    view v = {.r = r};
    fl_status status = take(t->ctx, &v);
    if (!status && some(v.reached, r->count)) {
        if (after) fli_text_add(t, ",");
        status = with_lines(t, r, &spread_picture, v.reached, draw_data);
        after = 1;
    }
    if (!status && some(v.changed, r->count)) {
        if (after) fli_text_add(t, ",");
        status = with_lines(t, r, &change_picture, v.changed, draw_data);
    }
    drop(&v);
    return status;
}

/* ---- table --------------------------------------------------------------------------------------------- */

static void add_percent(fli_text *t, const char *label, double v)
{
    fli_text_addf(t, "<td class=\"number\" data-label=\"%s\" data-value=\"%.6g\">%.1f</td>", label, 100 * v, 100 * v);
}

/* Writes for example "+12.5 (client 7, seed 1)". */
static void add_extreme(fli_text *t, const char *label, const entry *e, int seeds)
{
    fli_text_addf(t, "<td class=\"number\" data-label=\"%s\" data-value=\"%.6g\">%+.1f (client %u", label, 100 * e->v,
                  100 * e->v, (unsigned)e->client);
    if (seeds) fli_text_addf(t, ", seed %llu", (unsigned long long)e->seed);
    fli_text_add(t, ")</td>");
}

static void add_changes(fli_text *t, const view *v, size_t k)
{
    const entries *e = &v->changed[k];
    size_t up = 0, down = 0;
    for (size_t i = 0; i < e->n; i++) {
        up += e->at[i].v > 0;
        down += e->at[i].v < 0;
    }
    if (!e->n) {
        fli_text_add(t, "<td></td><td></td><td></td><td></td>");
        return;
    }
    fli_text_addf(t, "<td class=\"number\" data-label=\"gain\" data-value=\"%zu\">%zu</td>", up, up);
    fli_text_addf(t, "<td class=\"number\" data-label=\"lose\" data-value=\"%zu\">%zu</td>", down, down);
    add_extreme(t, "greatest gain", &e->at[e->n - 1], v->r->series[k].count > 1);
    add_extreme(t, "greatest loss", &e->at[0], v->r->series[k].count > 1);
}

static void add_table(fli_text *t, const view *v, int changes)
{
    static const struct {
        const char *name;
        double share;
    } columns[] = {{"worst", 0}, {"10 %", 0.1}, {"median", 0.5}, {"90 %", 0.9}, {"best", 1}};
    static const char *const heads[] = {"gain", "lose", "greatest gain", "greatest loss"};
    fli_text_add(t, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                    "aria-labelledby=\"clients\"><table>\n<thead><tr><th scope=\"col\">method</th>");
    for (size_t i = 0; i < 5; i++) fli_text_addf(t, "<th scope=\"col\" class=\"number\">%s</th>", columns[i].name);
    for (size_t i = 0; changes && i < 4; i++) fli_text_addf(t, "<th scope=\"col\" class=\"number\">%s</th>", heads[i]);
    fli_text_add(t, "</tr></thead>\n<tbody>\n");
    for (size_t k = 0; k < v->r->count; k++) {
        if (!v->reached[k].n) continue;
        fli_text_add(t, "<tr><th scope=\"row\">");
        fli_page_key(t, k);
        fli_markup_text(t, v->r->series[k].label);
        fli_text_add(t, "</th>");
        for (size_t i = 0; i < 5; i++) add_percent(t, columns[i].name, at_share(&v->reached[k], columns[i].share)->v);
        if (changes) add_changes(t, v, k);
        fli_text_add(t, "</tr>\n");
    }
    fli_text_add(t, "</tbody></table></div>\n");
}

/* ---- claims -------------------------------------------------------------------------------------------- */

enum { CLAIMS_MAX = 100 }; /* rows of the table of claims */

typedef struct {
    size_t samples, client;
} claim;

static int largest_first(const void *a, const void *b)
{
    const claim *x = a, *y = b;
    if (x->samples != y->samples) return x->samples < y->samples ? 1 : -1;
    return (x->client > y->client) - (x->client < y->client);
}

static void add_claim(fli_text *t, const claim *c, double all)
{
    double share = all > 0 ? 100 * (double)c->samples / all : 0;
    fli_text_addf(t, "<tr><th scope=\"row\">client %zu</th>", c->client);
    fli_text_addf(t, "<td class=\"number\" data-label=\"samples (claimed)\" data-value=\"%zu\">%zu</td>", c->samples,
                  c->samples);
    fli_text_addf(t, "<td class=\"number\" data-label=\"share %%\" data-value=\"%.6g\">%.1f</td></tr>\n", share, share);
}

/* Lists the numbers of samples that clients claim, because a method may weigh clients by them. */
static fl_status add_claims(fli_text *t, const fli_report *r)
{
    size_t n = r->claim_count, shown = n < CLAIMS_MAX ? n : CLAIMS_MAX;
    double all = 0;
    claim *list = fli_alloc(t->ctx, n, sizeof *list);
    if (!list) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        list[i] = (claim){r->claims[i], i};
        all += (double)r->claims[i];
    }
    qsort(list, n, sizeof *list, largest_first);
    fli_text_addf(t,
                  "<p class=\"note\" id=\"claims\">Training samples as the clients claim them: the server cannot count "
                  "them. The largest claim is client %zu&#39;s: %zu of %.0f, %.1f %%.",
                  list[0].client, list[0].samples, all, all > 0 ? 100 * (double)list[0].samples / all : 0);
    if (shown < n) fli_text_addf(t, " The table has the %zu largest of %zu.", shown, n);
    fli_text_add(t, "</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"claims\"><table>\n"
                    "<thead><tr><th scope=\"col\">client</th><th scope=\"col\" class=\"number\">samples (claimed)</th>"
                    "<th scope=\"col\" class=\"number\">share %</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < shown; i++) add_claim(t, &list[i], all);
    fli_text_add(t, "</tbody></table></div>\n");
    fli_free(list);
    return FL_OK;
}

/* ---- the section --------------------------------------------------------------------------------------- */

static fl_status add_accuracies(fli_text *t, const view *v)
{
    const fli_report *r = v->r;
    int changes = some(v->changed, r->count);
    fli_text_add(t, "<p class=\"note\">Accuracy at the end, in percent, of the model a client would use, on its own "
                    "samples.");
    if (changes) {
        fli_text_add(t, " Gains and losses are against ");
        fli_markup_text(t, r->series[v->base].label);
        fli_text_add(t, ", for the same client in the same seed.");
    }
    fli_text_add(t, "</p>\n");
    add_table(t, v, changes);
    fli_text_add(t, "<div class=\"charts\">\n");
    fl_status status = with_lines(t, r, &spread_picture, v->reached, draw_figure);
    if (!status && changes) status = with_lines(t, r, &change_picture, v->changed, draw_figure);
    fli_text_add(t, "</div>\n");
    return status;
}

/* Writes the section: spread of accuracy, gains and losses, and claimed numbers of samples. Nothing if clients are not
 * known. */
static fl_status add_clients(fli_text *t, const fli_report *r)
{
    view v = {.r = r};
    fl_status status = take(t->ctx, &v);
    int accuracies = !status && some(v.reached, r->count);
    if (accuracies || (!status && r->claim_count)) {
        fli_text_add(t, "<section aria-labelledby=\"clients\">\n<h2 id=\"clients\">Clients</h2>\n");
        if (accuracies) status = add_accuracies(t, &v);
        if (!status && r->claim_count) status = add_claims(t, r);
        fli_text_add(t, "</section>\n");
    }
    drop(&v);
    return status;
}

/* ==== all numbers =========================================================================================== */

static fl_status add_charts(fli_text *t, writer *w)
{
    int some = 0;
    const fl_metric *y;
    for (size_t at = 0; (y = fl_metric_shown(FL_VIEW_CHART, at)); at++) {
        if (!fli_report_has(w->r, y)) continue;
        fli_text_addf(t, "%s\n\"%s\":{", some++ ? "," : "", fli_y_name(y));
        add_json_about(t, y);
        fli_text_add(t, ",\"series\":[");
        for (size_t k = 0; k < w->r->count; k++) {
            if (k > 0) fli_text_add(t, ",\n");
            fl_status status = add_line(t, w, k, y);
            if (status) return status;
        }
        fli_text_add(t, "]}");
    }
    return add_clients_data(t, w->r, some);
}

static void add_axes(fli_text *t, const writer *w)
{
    fli_text_add(t, "\"axes\":[");
    for (size_t i = 0; w->axes[i]; i++) {
        fli_text_addf(t, "%s{\"name\":\"%s\",", i ? "," : "", fli_x_name(w->axes[i]));
        add_json_about(t, w->axes[i]);
        fli_text_add(t, "}");
    }
    fli_text_add(t, "]");
}

static void add_words(fli_text *t, const char *name, const char *const *words, size_t n)
{
    fli_text_addf(t, ",\n\"%s\":[", name);
    for (size_t i = 0; i < n; i++) fli_text_addf(t, "%s\"%s\"", i ? "," : "", words[i]);
    fli_text_add(t, "]");
}

static void add_series(fli_text *t, const fli_report *r)
{
    fli_text_add(t, ",\n\"series\":[");
    for (size_t k = 0; k < r->count; k++) {
        fli_text_add(t, k ? ",{\"label\":" : "{\"label\":");
        fli_markup_json(t, r->series[k].label);
        fli_text_add(t, ",\"seeds\":[");
        for (size_t c = 0; c < r->series[k].count; c++) /* as text: a JavaScript number has fewer digits */
            fli_text_addf(t, "%s\"%llu\"", c ? "," : "", (unsigned long long)r->series[k].curves[c].seed);
        fli_text_add(t, "]}");
    }
    fli_text_add(t, "]");
}

static void add_heat(fli_text *t, const fli_report *r)
{
    fli_text_addf(t, ",\n\"heat\":{\"classes\":%zu,\"counts\":[", r->histogram ? r->classes : 0);
    for (size_t i = 0; r->histogram && i < r->clients * r->classes; i++)
        fli_text_addf(t, "%s%zu", i ? "," : "", r->histogram[i]);
    fli_text_add(t, "]}");
}

static void prepare(writer *w)
{
    const fl_metric *m;
    size_t charts = 0, seeds = 1, numbers;
    w->axes[w->axis_count++] = fl_metric_shown(FL_VIEW_AXIS, 0);
    for (size_t k = 1; w->axis_count < AXES_MAX && (m = fl_metric_shown(FL_VIEW_AXIS, k)); k++)
        if (fli_report_has(w->r, m)) w->axes[w->axis_count++] = m;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_CHART, k)); k++) charts += fli_report_has(w->r, m) != 0;
    for (size_t k = 0; k < w->r->count; k++)
        if (w->r->series[k].count > seeds) seeds = w->r->series[k].count;
    numbers = (charts + 1) * (w->r->count + 1) * (w->axis_count + seeds);
    w->kept = NUMBERS_MAX / numbers < KEPT_MIN   ? KEPT_MIN
              : NUMBERS_MAX / numbers > KEPT_MAX ? KEPT_MAX
                                                 : NUMBERS_MAX / numbers;
}

/* Writes the values behind the charts and the heat map, as JSON that is safe within <script>. */
static fl_status page_data(fli_text *t, const fli_report *r)
{
    writer w = {.r = r, .first = fli_alloc(t->ctx, r->count, sizeof *w.first)};
    if (!w.first) return FL_ENOMEM;
    prepare(&w);
    fli_text_add(t, "{");
    add_axes(t, &w);
    fli_text_add(t, ",\n\"units\":");
    fli_axis_units(t);
    fli_text_addf(t, ",\n\"colours\":%d", FLI_COLOURS);
    add_words(t, "dashes", fli_dashes, FLI_DASHES);
    add_words(t, "markers", fli_markers, FLI_MARKERS);
    add_series(t, r);
    fli_text_add(t, ",\n\"charts\":{");
    fl_status status = add_charts(t, &w);
    fli_text_add(t, "}");
    add_heat(t, r);
    fli_text_add(t, "}\n");
    fli_free(w.first);
    return status ? status : fli_text_ok(t);
}

/* ==== the page ============================================================================================== */

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

/* Lists the distinct seeds, or counts them if they are many. */
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
    else if (r->stopped)
        fli_text_addf(t, "stopped %s", r->stopped);
    else if (r->runs_done < r->runs_planned)
        fli_text_addf(t, "%zu of %zu runs", r->runs_done, r->runs_planned);
    else
        fli_text_addf(t, "%zu %s", r->runs_done, r->runs_done == 1 ? "run" : "runs");
    fli_text_add(t, "</span>\n");
}

/* The table has a row per method and setting; the curves show one setting per method. */
static void add_counts(fli_text *t, const fli_report *r)
{
    size_t settings = r->table.rows > 1 ? r->table.rows - 1 : r->count;
    fli_text_addf(t, "<span>%zu %s", r->count, r->count == 1 ? "method" : "methods");
    if (settings > r->count) fli_text_addf(t, " in %zu settings", settings);
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
    add_counts(t, r);
    add_seeds(t, r);
    fli_text_add(t, "</p>\n</header>\n");
}

/* Facts about the problem: data, clients, model, ... */
static void add_card(fli_text *t, const fli_report *r)
{
    if (!r->fact_count) return;
    fli_text_add(t,
                 "<section aria-labelledby=\"problem\">\n<h2 id=\"problem\">The problem</h2>\n<dl class=\"card\">\n");
    for (size_t i = 0; i < r->fact_count; i++) {
        fli_text_add(t, "<div><dt>");
        fli_markup_text(t, r->facts[i].name);
        fli_text_add(t, "</dt><dd>");
        fli_markup_text(t, r->facts[i].value);
        fli_text_add(t, "</dd></div>\n");
    }
    fli_text_add(t, "</dl>\n</section>\n");
}

/* ---- curves -------------------------------------------------------------------------------------------- */

static void add_option(fli_text *t, const char *value, const char *title)
{
    fli_text_addf(t, "<option value=\"%s\">", value);
    fli_markup_text(t, title);
    fli_text_add(t, "</option>");
}

static void add_controls(fli_text *t, const fli_report *r, int seeds)
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
        if (fli_report_has(r, y)) add_option(t, fli_y_name(y), y->title);
    fli_text_add(t, "</select></label>\n");
    if (seeds)
        fli_text_add(t,
                     "<label class=\"metric\"><input type=\"checkbox\" id=\"seeds\" autocomplete=\"off\"> a line per "
                     "seed</label>\n");
    fli_text_add(t, "</div>\n");
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

static int has_spread(const fli_report *r)
{
    for (size_t k = 0; k < r->count; k++)
        if (r->series[k].count > 1) return 1;
    return 0;
}

static fl_status add_figures(fli_text *t, const fli_report *r)
{
    const fl_metric *x = fl_metric_shown(FL_VIEW_AXIS, 0), *y;
    fl_status status = FL_OK;
    fli_text_add(t, "<div class=\"charts\">\n");
    for (size_t k = 0; !status && (y = fl_metric_shown(FL_VIEW_CHART, k)); k++) {
        if (!fli_report_has(r, y)) continue;
        begin_figure(t, fli_y_name(y), x, y);
        status = fli_chart_svg(t, r, x, y, 1);
        end_figure(t);
    }
    fli_text_add(t, "</div>\n");
    return status;
}

static fl_status add_curves(fli_text *t, const fli_report *r)
{
    int some = 0;
    const fl_metric *y;
    for (size_t k = 0; (y = fl_metric_shown(FL_VIEW_CHART, k)); k++) some |= fli_report_has(r, y);
    fli_text_add(t, "<section class=\"curves\" aria-labelledby=\"curves\">\n<h2 id=\"curves\">Curves</h2>\n");
    if (!some) {
        fli_text_add(t, "<p>Nothing has been measured yet.</p>\n</section>\n");
        return FL_OK;
    }
    fli_text_addf(t, "<div class=\"bar%s\">\n", r->count <= 10 ? " sticky" : "");
    add_controls(t, r, has_spread(r));
    add_legend(t, r);
    fli_text_add(t, "</div>\n");
    fl_status status = add_figures(t, r);
    if (has_spread(r))
        fli_text_add(t, "<p class=\"note\">Lines are means over the seeds. Bands are one standard deviation to either "
                        "side; on a logarithmic axis they reach from the 10 % to the 90 % quantile.</p>\n");
    if (r->table.chosen)
        fli_text_add(t,
                     "<p class=\"note\">Of every method the best setting is shown, marked with * in the table.</p>\n");
    fli_text_add(t, "<p class=\"note hint\">Drag across a chart to zoom; a double click goes back.</p>\n</section>\n");
    return status;
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

static void add_footer(fli_text *t, const fli_report *r)
{
    fli_text_add(t, "<footer>fedloom " FL_VERSION);
    if (r->machine && r->machine[0]) {
        fli_text_add(t, " \xc2\xb7 ");
        fli_markup_text(t, r->machine);
    }
    fli_text_add(t, "</footer>\n");
}

static void add_scripts(fli_text *t)
{
    const char *const parts[] = {fli_js_axis, fli_js_chart, fli_js_read, fli_js_save, fli_js_page, fli_js_live};
    fli_text_add(t, "<script>\n(function () {\n'use strict';\n");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) fli_text_add(t, parts[i]);
    fli_text_add(t, "})();\n</script>\n");
}

fl_status fli_page_html(fli_text *t, const fli_report *r)
{
    add_head(t, r);
    fli_text_addf(t, "<body>\n<main id=\"report\" data-live=\"%d\">\n", r->live ? 1 : 0);
    add_header(t, r);
    fli_verdict_html(t, r);
    fli_table_html(t, r);
    add_card(t, r);
    fl_status status = add_curves(t, r);
    if (!status) status = add_clients(t, r);
    fli_heatmap_svg(t, r);
    if (!status) status = fli_differences_html(t, r);
    add_footer(t, r);
    fli_text_add(t, "<script type=\"application/json\" id=\"data\">\n");
    if (!status) status = page_data(t, r);
    fli_text_add(t, "</script>\n</main>\n");
    add_scripts(t);
    fli_text_add(t, "</body>\n</html>\n");
    return status ? status : fli_text_ok(t);
}
