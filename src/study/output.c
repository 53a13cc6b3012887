/* The files of a comparison: tables, the report, plots; and for the report, which client has which labels. */
#include "base/number.h"
#include "study/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ==== which client has which labels ========================================================================= */

/* Label counts for the heat map, and how uneven the clients are. */

/* Limits on clients: with labels counted (fewer if samples are made on demand, which costs more), shown in the heat
 * map, and with sizes read, which is cheap but not for a hundred million. */
enum { COUNTED_MAX = 1000, COUNTED_ON_DEMAND = 100, SHOWN_MAX = 100, CLASSES_MAX = 100, SIZES_MAX = 1000000 };

static void take_sizes(const fli_fed *f, fli_histogram *h)
{
    h->least = SIZE_MAX;
    h->most = 0;
    for (size_t i = 0; i < f->clients && i < SIZES_MAX; i++) {
        size_t n = fli_fed_size(f, i);
        if (n < h->least) h->least = n;
        if (n > h->most) h->most = n;
    }
}

static fl_status count_labels(fl_ctx *ctx, const fli_fed *f, fli_histogram *h)
{
    fl_status status = FL_OK;
    h->count = fli_alloc(ctx, h->counted * h->classes, sizeof *h->count);
    if (!h->count) return FL_ENOMEM;
    for (size_t i = 0; i < h->counted && !status; i++) {
        fli_view v;
        if ((status = fli_view_open(ctx, f, i, &v))) break;
        for (size_t k = 0; k < v.n_train; k++) h->count[i * h->classes + (size_t)v.ds->label[v.train[k]]]++;
        fli_view_close(&v);
    }
    return status;
}

static double sum_of(const size_t *count, size_t classes)
{
    size_t sum = 0;
    for (size_t c = 0; c < classes; c++) sum += count[c];
    return (double)sum;
}

static double distance(const size_t *a, const size_t *b, size_t classes)
{
    double d = 0, of_a = sum_of(a, classes), of_b = sum_of(b, classes);
    for (size_t c = 0; c < classes; c++) d += fabs((double)a[c] / of_a - (double)b[c] / of_b);
    return d / 2;
}

static fl_status take_distance(fl_ctx *ctx, fli_histogram *h)
{
    size_t n = 0;
    double mean = 0;
    size_t *all = fli_alloc(ctx, h->classes, sizeof *all);
    if (!all) return FL_ENOMEM;
    for (size_t i = 0; i < h->counted * h->classes; i++) all[i % h->classes] += h->count[i];
    for (size_t i = 0; i < h->counted; i++) {
        const size_t *mine = h->count + i * h->classes;
        if (sum_of(mine, h->classes) > 0) mean += (distance(mine, all, h->classes) - mean) / (double)++n;
    }
    if (n > 1) h->distance = mean;
    fli_free(all);
    return FL_OK;
}

/* Counts the labels of the test samples; *n: their number, 0 if the samples are elsewhere or there are too many
 * clients. */
static fl_status count_tests(fl_ctx *ctx, const fli_fed *f, const fli_histogram *h, size_t *count, size_t *n)
{
    fl_status status = FL_OK;
    *n = 0;
    if (f->test) {
        if (f->test->n < f->tests || !f->test->label) return FL_OK;
        for (*n = 0; *n < f->test->n; ++*n) count[f->test->label[*n]]++; /* test samples keep their labels */
        return FL_OK;
    }
    for (size_t i = 0; i < f->clients && h->counted == f->clients && f->here == f->clients && !status; i++) {
        fli_view v;
        if ((status = fli_view_open(ctx, f, i, &v))) break;
        for (size_t k = 0; k < v.n_test; k++) count[v.ds->label[v.test[k]]]++;
        *n += v.n_test;
        fli_view_close(&v);
    }
    return status;
}

static fl_status take_chance(fl_ctx *ctx, const fli_fed *f, fli_histogram *h)
{
    size_t n, most = 0, *count = f->classes ? fli_alloc(ctx, f->classes, sizeof *count) : NULL;
    if (!count) return f->classes ? FL_ENOMEM : FL_OK;
    fl_status status = count_tests(ctx, f, h, count, &n);
    for (size_t c = 0; c < f->classes; c++)
        if (count[c] > most) most = count[c];
    if (!status && n) {
        h->chance = (double)most / (double)n;
        h->tested = n;
    }
    fli_free(count);
    return status;
}

fl_status fli_label_counts_take(fl_ctx *ctx, const fli_fed *f, fli_histogram *h)
{
    size_t most = f->train ? COUNTED_MAX : COUNTED_ON_DEMAND;
    *h = (fli_histogram){.all_clients = f->clients,
                         .classes = f->classes,
                         .samples = f->samples,
                         .features = f->dim,
                         .tests = f->tests,
                         .distance = NAN};
    h->counted = f->clients < most ? f->clients : most;
    h->clients = h->counted < SHOWN_MAX ? h->counted : SHOWN_MAX;
    take_sizes(f, h);
    fl_status status = take_chance(ctx, f, h);
    if (status) return status;
    if (!f->classes || f->classes > CLASSES_MAX || f->here < f->clients) return FL_OK;
    status = count_labels(ctx, f, h);
    return status ? status : take_distance(ctx, h);
}

/* ==== tables, report, plots ================================================================================= */

/* If all runs of a comparison were finished before, loads the data once for the histogram. */
static void need_histogram(fl_study *s)
{
    fli_plan plan;
    if (s->histogram.all_clients || !s->x.count || !s->x.trials[0].cfg) return;
    if (!fli_plan_data(s->x.trials[0].cfg, NULL, &plan)) fli_label_counts_take(s->ctx, plan.fed, &s->histogram);
    fli_plan_fini(&plan);
    fli_clear(s->ctx); /* the report can do without it */
}

static const char *machine(fli_arena *a)
{
    char model[256] = "unknown processor", line[512];
    FILE *f = fli_file_open("/proc/cpuinfo", O_RDONLY);
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            const char *from = strchr(line, ':') + 1;
            fli_snprintf(model, sizeof model, "%.*s", (int)strcspn(from + 1, "\n"), from + 1);
            break;
        }
    if (f) fclose(f);
    fli_snprintf(line, sizeof line, "%s, %ld processors", model, sysconf(_SC_NPROCESSORS_ONLN));
    return fli_arena_strdup(a, line);
}

/* A series of the report: the curves of one method at one setting. */
static fl_status make_series(const fli_results *r, fli_arena *a, const fli_summary *row, fli_series *out)
{
    const fli_trial *first = &r->trials[row->first];
    const char *label = r->methods[row->method].label;
    fli_curve *curves = fli_arena_alloc(a, r->seeds, sizeof *curves);
    char *full =
        *first->setting_text ? fli_strf(r->ctx, "%s (%s)", label, first->setting_text) : fli_strdup(r->ctx, label);
    if (!curves || !full) {
        fli_free(full);
        return FL_ENOMEM;
    }
    *out = (fli_series){fli_arena_strdup(a, full), curves, 0, first->config, .row = row->first + 1};
    fli_free(full);
    for (size_t i = row->first; i < r->count; i += fli_results_stride(r)) {
        const fli_trial *t = &r->trials[i];
        fli_outcome *o = &r->outcomes[i];
        if (!o->count) continue;
        fli_result_end_load(r->ctx, t, o);
        fl_row *rows = fli_arena_alloc(a, o->count, sizeof *rows);
        if (!rows) return FL_ENOMEM;
        memcpy(rows, o->rows, o->count * sizeof *rows);
        curves[out->count++] = (fli_curve){t->seed, rows, o->count, 0, o->clients, o->client_count};
    }
    return out->label ? FL_OK : FL_ENOMEM;
}

static size_t runs_done(const fli_results *r)
{
    size_t done = 0;
    for (size_t i = 0; i < r->count; i++) done += r->outcomes[i].state == FLI_TRIAL_DONE;
    return done;
}

/* "with 3 of 12 runs done"; NULL if all runs are done. */
static fl_status stopped_text(const fli_results *r, fli_arena *a, const char **out)
{
    size_t open = 0;
    *out = r->stopped;
    for (size_t i = 0; i < r->count; i++) open += r->outcomes[i].state == FLI_TRIAL_OPEN;
    if (!open || r->stopped) return FL_OK;
    char *text = fli_strf(r->ctx, "with %zu of %zu runs done", runs_done(r), r->count);
    *out = text ? fli_arena_strdup(a, text) : NULL;
    fli_free(text);
    return *out ? FL_OK : FL_ENOMEM;
}

fl_status fli_results_report(const fli_results *r, fli_arena *a, fli_report *out)
{
    fli_summary *rows;
    size_t count;
    const fli_histogram *h = r->histogram;
    fl_status status = fli_results_summaries(r, a, &rows, &count);
    *out = (fli_report){.title = r->title, .description = r->description};
    fli_series *series = status ? NULL : fli_arena_alloc(a, count, sizeof *series);
    if (!status && !series) status = FL_ENOMEM;
    for (size_t i = 0; i < count && !status; i++)
        if (rows[i].best) status = make_series(r, a, &rows[i], &series[out->count++]);
    if (!status) status = fli_results_grid(r, a, &out->table);
    if (!status) status = stopped_text(r, a, &out->stopped);
    out->series = series;
    out->histogram = h->count;
    out->clients = h->clients;
    out->classes = h->classes;
    out->all_clients = h->all_clients;
    out->claims = h->claims;
    out->claim_count = h->claims ? h->all_clients : 0;
    out->machine = machine(a);
    out->runs_planned = r->count;
    out->runs_done = runs_done(r);
    if (!status && !out->machine) status = FL_ENOMEM;
    return status ? status : fli_problem_facts(r, a, out);
}

/* A line below the table of a comparison that was stopped. */
static fl_status add_stopped(const fli_results *r, fli_arena *a, fli_text *t)
{
    const char *stopped;
    fl_status status = stopped_text(r, a, &stopped);
    if (!status && stopped) fli_text_addf(t, "\nstopped %s; the same command continues\n", stopped);
    return status;
}

/* Two cells of results.csv; st NULL: the names of their columns. */
static void csv_stat(fli_text *t, const char *name, const char *to, const fli_stat *st)
{
    if (st)
        fli_stat_csv(t, st);
    else
        fli_text_addf(t, ",%s%s_mean,%s%s_std", name, to, name, to);
}

/* The metrics of both files: all that are shown there; users' own only if some run has measured them. */
typedef struct {
    const fl_metric *at[FL_METRICS_MAX];
    size_t n;
} file_columns;

static int in_files(const fl_metric *m, const fli_summary *rows, size_t count)
{
    int measured = fl_metric_place(m) < fli_metrics_count();
    for (size_t i = 0; !measured && i < count; i++) measured = fli_summary_stat(&rows[i], m)->n > 0;
    return measured;
}

static file_columns columns_of(const fli_summary *rows, size_t count)
{
    file_columns c = {.n = 0};
    const fl_metric *m;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_STUDY_FILES, k)); k++)
        if (in_files(m, rows, count)) c.at[c.n++] = m;
    return c;
}

/* A line of results.csv; row NULL: the first line, with the names of the columns. */
static void csv_line(fli_text *t, const fli_results *r, const fli_summary *row, const file_columns *columns)
{
    const fl_metric *m;
    if (row) {
        fli_csv_text(t, r->methods[row->method].label);
        fli_text_add(t, ",");
        fli_csv_text(t, r->trials[row->first].setting_text);
        fli_text_addf(t, ",%d,%zu,%zu", row->best, row->seeds, row->failed);
    } else
        fli_text_add(t, "method,setting,best,seeds,failed");
    for (size_t k = 0; k < columns->n; k++) {
        m = columns->at[k];
        csv_stat(t, m->shown[FL_VIEW_STUDY_FILES].label, "", row ? fli_summary_stat(row, m) : NULL);
    }
    for (size_t k = 0; k < r->targets->n; k++) {
        char to[32];
        double target = r->targets->v[k];
        fli_stat reached[FL_METRICS_MAX];
        fli_snprintf(to, sizeof to, "_to_%g", target);
        if (row)
            fli_text_addf(t, ",%zu", fli_results_to_target(r, row, target, reached));
        else
            fli_text_addf(t, ",reached_%g", target);
        for (size_t c = 0; (m = fl_metric_shown(FL_VIEW_TARGET_FILES, c)); c++)
            csv_stat(t, m->shown[FL_VIEW_TARGET_FILES].label, to, row ? &reached[fl_metric_place(m)] : NULL);
    }
    fli_text_add(t, "\n");
}

static fl_status make_csv(const fli_results *r, fli_arena *a, fli_text *t)
{
    fli_summary *rows;
    size_t count;
    fl_status status = fli_results_summaries(r, a, &rows, &count);
    if (status) return status;
    file_columns columns = columns_of(rows, count);
    csv_line(t, r, NULL, &columns);
    for (size_t i = 0; i < count; i++) csv_line(t, r, &rows[i], &columns);
    return FL_OK;
}

static void json_stat(fli_text *t, const fli_stat *st)
{
    if (st->n)
        fli_text_addf(t, "{\"mean\": %.17g, \"std\": %.17g, \"n\": %zu}", st->mean, st->std, st->n);
    else
        fli_text_add(t, "null");
}

static void json_row(fli_text *t, const fli_results *r, const fli_summary *row, const file_columns *columns)
{
    const fl_metric *m;
    const fl_reals *targets = r->targets;
    fli_text_add(t, "    {\"method\": ");
    fli_text_json(t, r->methods[row->method].label);
    fli_text_add(t, ", \"setting\": ");
    fli_text_json(t, r->trials[row->first].setting_text);
    fli_text_addf(t, ", \"best\": %s, \"seeds\": %zu, \"failed\": %zu", row->best ? "true" : "false", row->seeds,
                  row->failed);
    for (size_t k = 0; k < columns->n; k++) {
        fli_text_addf(t, ",\n     \"%s\": ", columns->at[k]->shown[FL_VIEW_STUDY_FILES].label);
        json_stat(t, fli_summary_stat(row, columns->at[k]));
    }
    fli_text_add(t, ",\n     \"targets\": [");
    for (size_t k = 0; k < targets->n; k++) {
        fli_stat to[FL_METRICS_MAX];
        fli_results_to_target(r, row, targets->v[k], to);
        fli_text_addf(t, "%s{\"test_accuracy\": %.17g", k ? ", " : "", targets->v[k]);
        for (size_t c = 0; (m = fl_metric_shown(FL_VIEW_TARGET_FILES, c)); c++) {
            fli_text_addf(t, ", \"%s\": ", m->shown[FL_VIEW_STUDY_FILES].label);
            json_stat(t, &to[fl_metric_place(m)]);
        }
        fli_text_add(t, "}");
    }
    fli_text_add(t, "]}");
}

/* Why the comparison ended, as for a run: "runs" if all are done, else the text of a stop. */
static const char *stopped_by(const fli_results *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->outcomes[i].state == FLI_TRIAL_OPEN) return fl_stop_text(r->was_stopped ? FL_STOP_ASKED : FL_STOP_NONE);
    return "runs";
}

static fl_status make_json(const fli_results *r, fli_arena *a, fli_text *t)
{
    fli_summary *rows;
    size_t count;
    fl_status status = fli_results_summaries(r, a, &rows, &count);
    if (status) return status;
    fli_text_addf(t, "{\n  \"fedloom\": \"%s\",\n  \"name\": ", FL_VERSION);
    fli_text_json(t, r->title);
    fli_text_addf(t, ",\n  \"stopped_by\": \"%s\",\n  \"runs_planned\": %zu,\n  \"runs_done\": %zu,\n  \"rows\": [\n",
                  stopped_by(r), r->count, runs_done(r));
    file_columns columns = columns_of(rows, count);
    for (size_t i = 0; i < count; i++) {
        json_row(t, r, &rows[i], &columns);
        fli_text_add(t, i + 1 < count ? ",\n" : "\n");
    }
    fli_text_add(t, "  ]\n}\n");
    return FL_OK;
}

/* The grid with a * after every method's best setting, for tables without a style sheet. */
static fl_status starred_grid(const fli_results *r, fli_arena *a, fli_grid *out)
{
    fl_status status = fli_results_grid(r, a, out);
    if (status || !out->chosen) return status;
    const char **cells = fli_arena_alloc(a, out->rows * out->columns, sizeof *cells);
    if (!cells) return FL_ENOMEM;
    memcpy(cells, out->cells, out->rows * out->columns * sizeof *cells);
    for (size_t row = 1; row < out->rows; row++) {
        if (!out->chosen[row - 1]) continue;
        char *starred = fli_strf(r->ctx, "%s *", cells[row * out->columns]);
        cells[row * out->columns] = starred ? fli_arena_strdup(a, starred) : NULL;
        fli_free(starred);
        if (!cells[row * out->columns]) return FL_ENOMEM;
    }
    out->cells = cells;
    return FL_OK;
}

/* Escapes a label: it must not end its cell, or be read as Markdown or HTML. */
static void add_markdown(fli_text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '&')
            fli_text_add(t, "&amp;");
        else if (*s == '<')
            fli_text_add(t, "&lt;");
        else {
            if (strchr("\\`*_[]|~!", *s)) fli_text_add(t, "\\");
            fli_text_addn(t, s, 1);
        }
    }
}

static void grid_markdown(fli_text *t, const fli_grid *g)
{
    for (size_t r = 0; r < g->rows; r++) {
        for (size_t c = 0; c < g->columns; c++) {
            fli_text_add(t, c ? " | " : "| ");
            add_markdown(t, g->cells[r * g->columns + c]);
        }
        fli_text_add(t, " |\n");
        for (size_t c = 0; r == 0 && c < g->columns; c++) fli_text_add(t, c ? "|---:" : "|---");
        if (r == 0) fli_text_add(t, "|\n");
    }
}

static fl_status make_markdown(const fli_results *r, fli_arena *a, fli_text *t)
{
    fli_grid g;
    fl_status status = starred_grid(r, a, &g);
    if (status) return status;
    grid_markdown(t, &g);
    return add_stopped(r, a, t);
}

fl_status fli_results_page(const fli_results *r, fli_arena *a, fli_text *t)
{
    fli_report report;
    fl_status status = fli_results_report(r, a, &report);
    return status ? status : fli_page_html(t, &report);
}

const char *const fli_study_files[] = {"results.csv", "results.md", "results.json", "report.html", NULL};
enum { FILES = sizeof fli_study_files / sizeof *fli_study_files - 1 };
typedef fl_status maker(const fli_results *r, fli_arena *a, fli_text *t);
static maker *const makers[FILES] = {make_csv, make_markdown, make_json, fli_results_page};

fl_status fl_study_write(fl_study *s)
{
    fli_text texts[FILES];
    fli_clear(s->ctx);
    fl_status status = fli_output_claim_take(&s->claim);
    if (!status) need_histogram(s);
    const fli_results r = fli_study_results(s);
    for (size_t i = 0; i < FILES; i++) {
        fli_arena a;
        fli_arena_init(&a, s->ctx);
        fli_text_init(&texts[i], s->ctx);
        if (!status) status = makers[i](&r, &a, &texts[i]);
        if (!status) status = fli_text_ok(&texts[i]);
        fli_arena_fini(&a);
    }
    if (!status) status = fli_output_claim_write(&s->claim, fli_study_files, texts);
    for (size_t i = 0; i < FILES; i++) fli_text_fini(&texts[i]);
    return status;
}

fl_status fl_study_table(fl_study *s, fl_text_fn *out, void *arg)
{
    fli_arena a;
    fli_text t;
    fli_grid g;
    fli_clear(s->ctx);
    fli_arena_init(&a, s->ctx);
    fli_text_init(&t, s->ctx);
    int json = fli_wants_json(s->ctx);
    const fli_results r = fli_study_results(s);
    fl_status status = json ? make_json(&r, &a, &t) : starred_grid(&r, &a, &g);
    if (!status && !json) {
        fli_grid_text(&t, &g);
        status = add_stopped(&r, &a, &t);
    }
    if (!status) status = fli_text_ok(&t);
    if (!status) out(arg, fli_text_get(&t));
    fli_text_fini(&t);
    fli_arena_fini(&a);
    return status;
}

static int was_measured(const fli_results *r, const fl_metric *m)
{
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->outcomes[i].count; k++)
            if (isfinite(fl_row_value(&r->outcomes[i].rows[k], m))) return 1;
    return 0;
}

static fl_view view_of(int axis) { return axis ? FL_VIEW_CHART : FL_VIEW_AXIS; }

const char *fli_results_quantity(const fli_results *r, int axis, size_t k)
{
    const fl_metric *m;
    for (size_t i = 0; (m = fl_metric_shown(view_of(axis), i)); i++)
        if (was_measured(r, m) && k-- == 0) return m->shown[view_of(axis)].label;
    return NULL;
}

/* fl_name_fn over a view. */
static const char *quantity_name(const void *view, size_t i)
{
    const fl_metric *m = fl_metric_shown(*(const fl_view *)view, i);
    return m ? m->shown[*(const fl_view *)view].label : NULL;
}

static const fl_metric *quantity(fl_ctx *ctx, int axis, const char *name)
{
    char meant[FLI_MEANT_LEN];
    fl_view view = view_of(axis);
    const fl_metric *m;
    fli_text all;
    for (size_t i = 0; (m = fl_metric_shown(view, i)); i++)
        if (!strcmp(m->shown[view].label, name)) return m;
    fli_text_init(&all, ctx);
    for (size_t i = 0; (m = fl_metric_shown(view, i)); i++)
        fli_text_addf(&all, "%s%s", i ? ", " : "", m->shown[view].label);
    fli_fail(ctx, FL_ECONFIG, "%s cannot be on the %c axis%s; these can: %s", name, axis ? 'y' : 'x',
             fli_meant(fl_nearest(name, quantity_name, &view), meant), fli_text_get(&all));
    fli_text_fini(&all);
    return NULL;
}

fl_status fli_results_plot(const fli_results *r, const char *x_name, const char *y_name, fl_text_fn *out, void *arg)
{
    fli_arena a;
    fli_text t;
    fli_report report;
    fli_clear(r->ctx);
    const fl_metric *x = quantity(r->ctx, 0, x_name), *y = x ? quantity(r->ctx, 1, y_name) : NULL;
    if (!y) return FL_ECONFIG;
    fli_arena_init(&a, r->ctx);
    fli_text_init(&t, r->ctx);
    fl_status status = fli_results_report(r, &a, &report);
    for (int axis = 0; axis < 2 && !status; axis++)
        if (!fli_report_has(&report, axis ? y : x))
            status = fli_fail(r->ctx, FL_ECONFIG, "%s was not measured in this comparison", axis ? y_name : x_name);
    if (!status) status = fli_chart_svg(&t, &report, x, y, 0);
    if (!status) status = fli_text_ok(&t);
    if (!status) out(arg, fli_text_get(&t));
    fli_text_fini(&t);
    fli_arena_fini(&a);
    return status;
}

const char *fl_study_quantity(const fl_study *s, int axis, size_t k)
{
    const fli_results r = fli_study_results(s);
    return fli_results_quantity(&r, axis, k);
}

fl_status fl_study_plot(fl_study *s, const char *x, const char *y, fl_text_fn *out, void *arg)
{
    const fli_results r = fli_study_results(s);
    return fli_results_plot(&r, x, y, out, arg);
}
