/* The page's part on clients at the end: how accuracy is spread over them, and who gains and who loses against FedAvg,
 * or the first method where there is none. A client is followed within a seed: in another seed it has other samples. So
 * all seeds' clients stand side by side. */
#include "report/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { POINTS_MAX = 101 }; /* of a line: every percent */

static const fl_metric share_axis = {.name = "share", .title = "clients, from the worst", .unit = FL_UNIT_SHARE};
static const fl_metric order_axis = {
    .name = "share", .title = "clients, from the greatest loss to the greatest gain", .unit = FL_UNIT_SHARE};
static const fl_metric accuracy = {.name = "accuracy", .title = "accuracy on own samples", .unit = FL_UNIT_SHARE};
static const fl_metric gain = {.name = "gain", .title = "change of accuracy", .unit = FL_UNIT_NONE};

/* A number of a client of a seed. */
typedef struct {
    double v;
    uint32_t client;
    uint64_t seed;
} entry;

/* Of a series, in ascending order. */
typedef struct {
    entry *at;
    size_t n;
} entries;

typedef struct {
    const fli_report *r;
    size_t base;      /* the series that others are held against */
    entries *reached; /* per series: accuracies */
    entries *changed; /* per series: against the base, none for the base itself */
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

/* The same client elsewhere; runs of a seed measure the same clients in the same order. */
static double there(const fli_curve *c, size_t i, uint32_t client)
{
    if (!c || i >= c->client_count || c->clients[i].client != client) return NAN;
    return c->clients[i].accuracy;
}

/* Accuracies, or their changes against the base. */
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

/* The entry below which a share of all lies. */
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

/* One of the two charts. */
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
    fli_figure_begin(t, p->id, p->x, p->y);
    fl_status status = fli_chart_lines(t, r, p->x, p->y, lines, 1);
    fli_figure_end(t);
    return status;
}

static fl_status draw_data(fli_text *t, const fli_report *r, const picture *p, const fli_chart_line *lines)
{
    fli_text_addf(t, "\n\"%s\":{", p->id);
    fli_data_about(t, p->y);
    fli_text_add(t, ",\"axis\":{\"name\":\"share\",");
    fli_data_about(t, p->x);
    fli_text_add(t, "},\"series\":[");
    for (size_t k = 0; k < r->count; k++) {
        fli_text_add(t, k ? ",\n{\"x\":[" : "{\"x\":[");
        for (int y = 0; y < 2; y++) {
            fli_text_add(t, y ? "],\"runs\":[[" : "[");
            for (size_t i = 0; i < lines[k].count; i++) {
                if (i) fli_text_add(t, ",");
                fli_data_number(t, y ? lines[k].points[i].mean : lines[k].points[i].x);
            }
            fli_text_add(t, "]");
        }
        fli_text_add(t, "]}");
    }
    fli_text_add(t, "]}");
    return FL_OK;
}

fl_status fli_clients_data(fli_text *t, const fli_report *r, int after)
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

/* "+12.5 (client 7, seed 1)" */
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

enum { CLAIMS_MAX = 100 }; /* rows of their table */

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

/* Who has how many samples, if clients say so themselves: a method may weigh them by that. */
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

fl_status fli_clients_html(fli_text *t, const fli_report *r)
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
