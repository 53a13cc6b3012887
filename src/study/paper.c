/* Our figures beside a paper's, which are data in the experiment:
 *
 *     paper:
 *       source: "[VRA] Table IV, MNIST, Non-IID"
 *       figures:
 *         FedAvg: {accuracy: 95.64 ± 0.12, "to 0.9": 63, "to 0.97": "> 500"}
 *
 * Methods are named by their labels. Quantities are texts as printed in the paper; ours are known for these: accuracy
 * (%), own accuracy (of the clients' own models, %), loss, rounds, seconds, and "to X" (rounds to test accuracy X). */
#include "study/study.h"
#include "base/number.h"

#include <string.h>

static const fli_node *figures_of(const fl_study *s) { return fli_node_find(s->x.paper, "figures"); }

/* Collects every quantity of any method, in order of appearance. */
static size_t quantities(const fli_node *figures, const char **out, size_t most)
{
    size_t n = 0;
    for (const fli_node *m = figures->first; m; m = m->next)
        for (const fli_node *q = m->type == FLI_NODE_MAP ? m->first : NULL; q; q = q->next) {
            size_t k = 0;
            while (k < n && strcmp(out[k], q->key)) k++;
            if (k == n && n < most) out[n++] = q->key;
        }
    return n;
}

/* With the digits of papers, which a table of many methods has no room for. */
static void add_stat(fli_text *t, const fl_metric *m, const fli_stat *st)
{
    static const int digits[] = {[FL_UNIT_NONE] = 3,  [FL_UNIT_SHARE] = 2, [FL_UNIT_SCORE] = 3,
                                 [FL_UNIT_COUNT] = 1, [FL_UNIT_BYTES] = 2, [FL_UNIT_SECONDS] = 2};
    fli_stat_text(t, st, m->unit == FL_UNIT_SHARE ? 100 : 1, digits[m->unit]);
}

/* "to 0.9" */
static int is_target(const char *quantity, double *target)
{
    char *end;
    if (strncmp(quantity, "to ", 3)) return 0;
    *target = fli_strtod(quantity + 3, &end);
    return end != quantity + 3 && !*end;
}

static void ours(fli_text *t, const fli_results *r, const fli_summary *row, const char *quantity)
{
    const fl_metric *m;
    double target;
    if (!row->seeds) return;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_PAPER, k)); k++)
        if (!strcmp(m->shown[FL_VIEW_PAPER].label, quantity)) add_stat(t, m, fli_summary_stat(row, m));
    if (is_target(quantity, &target)) fli_target_text(t, r, row, target, &fli_metric_round.is);
}

/* Lists methods of the paper that this comparison lacks: otherwise a mistyped label would be lost silently. */
static void add_others(fli_text *t, const fl_study *s, const fli_node *figures)
{
    size_t n = 0;
    for (const fli_node *f = figures->first; f; f = f->next) {
        size_t m = 0;
        while (m < s->x.method_count && strcmp(s->x.methods[m].label, f->key)) m++;
        if (m == s->x.method_count) fli_text_addf(t, "%s%s", n++ ? ", " : "in the paper, but no method here: ", f->key);
    }
    if (n) fli_text_add(t, "\n");
}

static const char *paper_cell(const fli_node *figures, const char *label, const char *quantity)
{
    const fli_node *n = fli_node_find(fli_node_find(figures, label), quantity);
    return n && n->type == FLI_NODE_SCALAR ? n->text : "";
}

static fl_status fill(fl_study *s, fli_arena *a, const fli_node *figures, fli_grid *g)
{
    enum { MOST = 16 };
    const char *name[MOST];
    size_t n = quantities(figures, name, MOST), count, at = 0;
    fli_summary *rows;
    const fli_results r = fli_study_results(s);
    fl_status status = fli_results_summaries(&r, a, &rows, &count);
    const char **cells = fli_arena_alloc(a, (count + 1) * (1 + 2 * n), sizeof *cells);
    if (status || !cells) return FL_ENOMEM;
    cells[at++] = "method";
    for (size_t k = 0; k < n; k++) {
        cells[at++] = name[k];
        cells[at++] = "paper";
    }
    g->rows = 1;
    for (size_t i = 0; i < count; i++) {
        const char *label = s->x.methods[rows[i].method].label;
        if (!rows[i].best) continue;
        cells[at++] = label;
        g->rows++;
        for (size_t k = 0; k < n; k++) {
            fli_text t;
            fli_text_init(&t, s->ctx);
            ours(&t, &r, &rows[i], name[k]);
            cells[at++] = fli_arena_strdup(a, fli_text_get(&t));
            cells[at++] = paper_cell(figures, label, name[k]);
            if (fli_text_ok(&t) || !cells[at - 2]) status = FL_ENOMEM;
            fli_text_fini(&t);
        }
    }
    g->cells = cells;
    g->columns = 1 + 2 * n;
    return status;
}

static fl_status print(fl_study *s, fli_arena *a, const fli_node *figures, const char *source, fli_text *t)
{
    fli_grid g;
    fl_status status = fill(s, a, figures, &g);
    if (status) return status;
    fli_text_addf(t, "%s: ours, and the paper's beside it\n", source);
    fli_grid_text(t, &g);
    add_others(t, s, figures);
    return FL_OK;
}

/* ---- as JSON ------------------------------------------------------------------------------------------------- */

static void put_figure(fli_json *j, const fli_results *r, const fli_summary *row, const fli_node *figure)
{
    const fl_metric *m = NULL;
    fli_stat to[FL_METRICS_MAX];
    const fli_stat none = {0}, *stat = &none;
    double target;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_PAPER, k)); k++)
        if (!strcmp(m->shown[FL_VIEW_PAPER].label, figure->key)) stat = fli_summary_stat(row, m);
    if (is_target(figure->key, &target)) {
        fli_results_to_target(r, row, target, to);
        stat = &to[fl_metric_place(&fli_metric_round.is)];
    }
    fli_json_map(j, NULL);
    fli_json_text(j, "quantity", figure->key);
    fli_stat_json(j, "ours", stat);
    fli_json_text(j, "paper", figure->type == FLI_NODE_SCALAR ? figure->text : NULL);
    fli_json_end(j);
}

static fl_status put(fl_study *s, fli_arena *a, const fli_node *figures, const char *source, fli_text *t)
{
    fli_json j;
    fli_summary *rows;
    size_t count = 0;
    const fli_results r = fli_study_results(s);
    fl_status status = fli_results_summaries(&r, a, &rows, &count);
    fli_json_init(&j, t);
    fli_json_map(&j, NULL);
    fli_json_text(&j, "source", source);
    fli_json_list(&j, "methods");
    for (size_t i = 0; i < count && !status; i++) {
        const char *label = s->x.methods[rows[i].method].label;
        const fli_node *own = fli_node_find(figures, label);
        if (!rows[i].best) continue;
        fli_json_map(&j, NULL);
        fli_json_text(&j, "method", label);
        fli_json_list(&j, "figures");
        for (const fli_node *f = own && own->type == FLI_NODE_MAP ? own->first : NULL; f; f = f->next)
            put_figure(&j, &r, &rows[i], f);
        fli_json_end(&j);
        fli_json_end(&j);
    }
    fli_json_end(&j);
    fli_json_end(&j);
    return status;
}

/* ---- either ---------------------------------------------------------------------------------------------------- */

fl_status fl_study_paper(fl_study *s, fl_text_fn *out, void *arg)
{
    const fli_node *figures = figures_of(s), *source = fli_node_find(s->x.paper, "source");
    const char *from = source && source->type == FLI_NODE_SCALAR ? source->text : s->x.name;
    int json = fli_wants_json(s->ctx);
    fli_arena a;
    fli_text t;
    fli_clear(s->ctx);
    if (!figures || figures->type != FLI_NODE_MAP)
        return fli_fail(s->ctx, FL_ECONFIG, "%s has no paper.figures to compare with", s->x.name);
    if (!figures->first && !json) { /* only curves, which are in the report */
        out(arg, "the paper shows curves, no numbers; ours are in report.html\n");
        return FL_OK;
    }
    fli_arena_init(&a, s->ctx);
    fli_text_init(&t, s->ctx);
    fl_status status = (json ? put : print)(s, &a, figures, from, &t);
    if (!status) status = fli_text_ok(&t);
    if (!status) out(arg, fli_text_get(&t));
    fli_text_fini(&t);
    fli_arena_fini(&a);
    return status;
}
