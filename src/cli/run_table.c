/* Commands that end with a table on stdout: runs one after the other, tuning, comparisons. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ==== the table of `fedloom run` ================================================================================== */

/* One line per run; below it, a line for each group of metrics that only some runs measure. */

enum { TARGETS_MAX = 16, NAME_MAX_LEN = 64, OUTPUT_MAX_LEN = 4096 };

typedef struct {
    char name[NAME_MAX_LEN], algorithm[NAME_MAX_LEN];
    char output[OUTPUT_MAX_LEN]; /* "": not saved */
    fl_row row;
    fl_stop stopped_by;
    size_t rounds, planned, targets;
    double accuracy[TARGETS_MAX];
    size_t reached[TARGETS_MAX]; /* SIZE_MAX: never */
} run_table_row;

struct run_table {
    size_t n, capacity;
    run_table_row *lines;
};

run_table *run_table_new(void) { return calloc(1, sizeof(run_table)); }

void run_table_free(run_table *s)
{
    if (s) free(s->lines);
    free(s);
}

int run_table_add(run_table *s, const fl_run *run)
{
    const fl_row *row = fl_run_row(run);
    if (!row) return 1;
    if (s->n == s->capacity) {
        size_t more = s->capacity ? 2 * s->capacity : 8;
        run_table_row *lines = realloc(s->lines, more * sizeof *lines);
        if (!lines) return 0;
        s->lines = lines;
        s->capacity = more;
    }
    run_table_row *l = &s->lines[s->n++];
    memset(l, 0, sizeof *l);
    snprintf(l->name, sizeof l->name, "%s", fl_run_name(run));
    snprintf(l->algorithm, sizeof l->algorithm, "%s", fl_run_algorithm(run));
    snprintf(l->output, sizeof l->output, "%s", fl_run_output(run));
    l->row = *row;
    l->stopped_by = fl_run_stopped_by(run);
    l->rounds = fl_run_round(run);
    l->planned = fl_run_rounds(run);
    while (l->targets < TARGETS_MAX &&
           fl_run_target(run, l->targets, &l->accuracy[l->targets], &l->reached[l->targets]))
        l->targets++;
    return 1;
}

/* The targets of all runs, ascending, each once. */
static size_t all_targets(const run_table *s, double out[TARGETS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->lines[i].targets; k++) {
            double v = s->lines[i].accuracy[k];
            size_t at = 0;
            while (at < n && out[at] < v) at++;
            if (n == TARGETS_MAX || (at < n && out[at] == v)) continue;
            memmove(out + at + 1, out + at, (n - at) * sizeof *out);
            out[at] = v;
            n++;
        }
    return n;
}

static void add_measured(table *t, const fl_metric *m, double v)
{
    char text[VALUE_MAX_LEN];
    table_add(t, "%s", isnan(v) ? "-" : value_text(m, v, text));
}

static void add_target(table *t, const run_table_row *l, double accuracy)
{
    for (size_t k = 0; k < l->targets; k++)
        if (l->accuracy[k] == accuracy) {
            if (l->reached[k] == SIZE_MAX)
                table_add(t, "> %zu", fl_row_round(&l->row));
            else
                table_add(t, "%zu", l->reached[k]);
            return;
        }
    table_add(t, "-");
}

static void print_line(const run_table *s, const run_table_row *l, const char *text, FILE *out)
{
    char buf[512], label[2 * NAME_MAX_LEN + 8] = "";
    if (s->n > 1) snprintf(label, sizeof label, "%s (%s): ", l->name, l->algorithm);
    snprintf(buf, sizeof buf, "%s%s", label, text);
    fprintf(out, "%s\n", say_clean(buf));
}

static void print_stop(const run_table *s, const run_table_row *l, FILE *out)
{
    char text[128];
    if (l->stopped_by != FL_STOP_ASKED) return;
    snprintf(text, sizeof text, "stopped on request after round %zu of %zu", l->rounds, l->planned);
    print_line(s, l, text, out);
}

/* Whether a row has a value of this metric. */
static int tells(const fl_row *row, const fl_metric *m)
{
    double v = fl_row_value(row, m);
    return isfinite(v) && (!m->beyond_round || v != (double)fl_row_round(row));
}

/* "GROUP: LABEL VALUE", or ", LABEL VALUE" after another of its group. */
static void append_note(char *text, size_t size, const fl_metric *m, double v)
{
    static const char *const units[] = {[FL_UNIT_BYTES] = " MB", [FL_UNIT_SECONDS] = " s"};
    const char *label = m->shown[FL_VIEW_NOTE].label, *unit = m->unit >= FL_UNIT_BYTES ? units[m->unit] : "";
    const char *colon = strchr(label, ':');
    char value[VALUE_MAX_LEN];
    size_t n = strlen(text);
    if (n && colon) label = colon + 1;
    snprintf(text + n, size - n, "%s%s %s%s", n ? "," : "", label, value_text(m, v, value), unit);
}

static int same_group(const fl_metric *a, const fl_metric *b)
{
    const char *first = a->shown[FL_VIEW_NOTE].label, *second = b->shown[FL_VIEW_NOTE].label;
    size_t n = strcspn(first, ":");
    return n == strcspn(second, ":") && !strncmp(first, second, n);
}

/* Prints a line for each group of metrics with a measured one. */
static void print_notes(const run_table *s, const run_table_row *l, FILE *out)
{
    const fl_metric *m, *before = NULL;
    char text[256] = "";
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_NOTE, k)); before = m, k++) {
        if (before && !same_group(before, m)) {
            if (*text) print_line(s, l, text, out);
            text[0] = 0;
        }
        if (tells(&l->row, m)) append_note(text, sizeof text, m, fl_row_value(&l->row, m));
    }
    if (*text) print_line(s, l, text, out);
}

/* Adds the metrics before the costs of targets or, with `late`, those after; row NULL: their headings. */
static void add_metrics(table *t, int late, const fl_row *row)
{
    const fl_metric *m;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_RUN, k)); k++) {
        if ((m->shown[FL_VIEW_RUN].order > FL_ORDER_MIDDLE) != late) continue;
        if (row)
            add_measured(t, m, fl_row_value(row, m));
        else
            table_add(t, "%s", m->shown[FL_VIEW_RUN].label);
    }
}

void run_table_print(const run_table *s, FILE *out)
{
    double targets[TARGETS_MAX];
    size_t n = all_targets(s, targets), columns = 0;
    table t;
    if (!s->n) return;
    while (fl_metric_shown(FL_VIEW_RUN, columns)) columns++;
    table_init(&t, 2 + columns + n);
    table_add(&t, "run");
    table_add(&t, "algorithm");
    add_metrics(&t, 0, NULL);
    for (size_t i = 0; i < n; i++) table_add(&t, "to %g", targets[i]);
    add_metrics(&t, 1, NULL);
    for (const run_table_row *l = s->lines; l < s->lines + s->n; l++) {
        table_add(&t, "%s%s", l->name, l->stopped_by == FL_STOP_ASKED ? " (stopped)" : "");
        table_add(&t, "%s", l->algorithm);
        add_metrics(&t, 0, &l->row);
        for (size_t i = 0; i < n; i++) add_target(&t, l, targets[i]);
        add_metrics(&t, 1, &l->row);
    }
    table_print(&t, 2, out);
    table_free(&t);
    for (const run_table_row *l = s->lines; l < s->lines + s->n; l++) {
        print_stop(s, l, out);
        print_notes(s, l, out);
    }
}

/* ---- as JSON ----------------------------------------------------------------------------------------------- */

static json_t *metrics_json(const fl_row *row)
{
    const fl_metric *m;
    json_t *all = json_object();
    for (size_t k = 0; (m = fl_metric_at(k)); k++)
        if (isfinite(fl_row_value(row, m))) json_object_set_new(all, m->name, json_out_number(fl_row_value(row, m)));
    return all;
}

static json_t *targets_json(const run_table_row *l)
{
    json_t *all = json_array();
    for (size_t k = 0; k < l->targets; k++) {
        json_t *round = l->reached[k] == SIZE_MAX ? json_null() : json_integer((json_int_t)l->reached[k]);
        json_array_append_new(all, json_pack("{s:f, s:o}", "test_accuracy", l->accuracy[k], "round", round));
    }
    return all;
}

int run_table_json(const run_table *s)
{
    json_t *runs = json_array();
    for (const run_table_row *l = s->lines; l < s->lines + s->n; l++)
        json_array_append_new(runs,
                              json_pack("{s:o, s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "name", json_out_text(l->name),
                                        "algorithm", l->algorithm, "stopped_by", fl_stop_text(l->stopped_by), "rounds",
                                        (json_int_t)l->rounds, "planned_rounds", (json_int_t)l->planned, "output",
                                        *l->output ? json_out_text(l->output) : json_null(), "metrics",
                                        metrics_json(&l->row), "targets", targets_json(l)));
    return json_out(json_pack("{s:o}", "runs", runs));
}

/* ==== following a comparison or a tuning ========================================================================== */

/* Carrying out a comparison: progress on stderr, the table on stdout, files in the output folder. */

/* "FedProx (mu=0.1), seed 3" */
static void name_run(const fl_study_progress *p, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s%s, seed %llu", p->label, *p->setting ? " (" : "", p->setting, *p->setting ? ")" : "",
             (unsigned long long)p->seed);
}

/* The most important metric of a row. */
static void describe_row(const fl_row *row, char *out, size_t size)
{
    const fl_metric *m = NULL;
    char text[VALUE_MAX_LEN];
    for (size_t k = 0; row && (m = fl_metric_shown(FL_VIEW_PROGRESS, k)) && isnan(fl_row_value(row, m)); k++) continue;
    out[0] = 0;
    if (m) snprintf(out, size, "  %s %s", m->shown[FL_VIEW_PROGRESS].label, value_text(m, fl_row_value(row, m), text));
}

/* Prints the progress: a bar on a terminal, elsewhere a line. */
static void paint(watcher *w, const fl_study_progress *p)
{
    char run[128], row[64], line[400];
    name_run(p, run, sizeof run);
    describe_row(p->row, row, sizeof row);
    snprintf(line, sizeof line, "%zu of %zu runs  %s  %zu/%zu%s", p->done, p->total, run, p->round, p->rounds, row);
    if (w->live)
        bar_paint(p->fraction, p->fraction > 0.001 ? p->seconds * (1 - p->fraction) / p->fraction : NAN, line);
    else
        fprintf(stderr, "%3.0f%%  %s\n", 100 * p->fraction, say_clean(line));
    w->painted = p->seconds;
}

/* Prints a line for a run that has ended. */
static void report_run(watcher *w, const fl_study_progress *p)
{
    char run[256], row[64], line[2048];
    name_run(p, run, sizeof run);
    describe_row(p->row, row, sizeof row);
    if (p->error && p->row)
        snprintf(line, sizeof line, "[%zu/%zu] %s is done, but %s", p->done + p->failed, p->total, run, p->error);
    else if (p->error)
        snprintf(line, sizeof line, "[%zu/%zu] %s failed: %s", p->done + p->failed, p->total, run, p->error);
    else
        snprintf(line, sizeof line, "[%zu/%zu] %s%s  %.1f s", p->done + p->failed, p->total, run, row,
                 p->row ? fl_row_get(p->row, "seconds") : 0.0);
    if (w->live && !w->quiet) bar_erase();
    say_joined(stderr, line);
}

/* Seconds between two updates of the bar, and between two lines if there is no bar. */
static const double BAR = 0.1, LINE = 10;

/* fl_study_fn */
static void watcher_observe(void *arg, const fl_study_progress *p)
{
    watcher *w = arg;
    if (interrupt_seen()) w->stop(w->what);
    w->unwritten |= p->ended && p->error && p->row; /* a failed run has no metrics */
    if (!p->label || (w->quiet && !p->error)) return;
    if (p->ended) {
        report_run(w, p);
        if (!w->live) w->painted = p->seconds; /* a line */
    } else if (!w->quiet &&
               (w->live ? w->painted == 0 || p->seconds - w->painted > BAR : p->seconds - w->painted > LINE))
        paint(w, p);
}

static watcher watcher_new(void (*stop)(void *what), void *what, int quiet)
{
    return (watcher){.stop = stop, .what = what, .quiet = quiet, .live = terminal_moves(stderr)};
}

static void watcher_end(const watcher *w)
{
    if (!w->quiet && w->live) bar_erase();
}

/* ==== a tuning ==================================================================================================== */

/* Carrying out a tuning: progress on stderr, the table on stdout, files in the output folder. */

static void stop_tune(void *tune) { fl_tune_stop(tune); }

/* Prints and writes a completed tuning. */
static fl_status finish(fl_tune *tune, fl_text_fn *out, int quiet, fl_config **winners)
{
    fl_status s = fl_tune_write(tune);
    if (!s && out) s = fl_tune_table(tune, out, NULL);
    if (!s) s = fl_tune_verdict(tune);
    if ((!s || s == FL_EDIVERGED) && !quiet)
        say("%s has what was tried (tried.csv, tried.svg) and the winners (best.yaml, and a file for each)",
            fl_tune_output(tune));
    return s || !winners ? s : fl_tune_winners(tune, winners);
}

int tuning_run(fl_ctx *ctx, fl_config *cfg, const fl_tune_options *options, fl_text_fn *out, int quiet,
               fl_config **winners)
{
    fl_tune *tune = NULL;
    int done = 0;
    fl_status s = fl_tune_new(cfg, options, &tune);
    if (!s) {
        watcher w = watcher_new(stop_tune, tune, quiet);
        s = fl_tune_go(tune, watcher_observe, &w);
        watcher_end(&w);
        done = !s && fl_tune_done(tune);
    }
    if (done) s = finish(tune, out, quiet, winners);
    if (s) say_error(ctx);
    if (!s && !done && !quiet) say("stopped; the same command continues in %s", fl_tune_output(tune));
    fl_tune_free(tune);
    return s ? settings_exit(s) : done ? CLI_OK : CLI_INTERRUPTED;
}

/* For a comparison: tunes below its folder, and replaces the configuration with the winners. */
static int tune_first(fl_ctx *ctx, fl_config **cfg, const study_request *req)
{
    fl_config *winners = NULL;
    fl_study_options study = req->options;
    fl_tune_options o = {.size = sizeof o, .study = &study, .budget = req->budget, .compare_next = 1};
    study.seeds = 0; /* use the file's tuning seeds, not the comparison's */
    /* a document has room for one table, which is the comparison's */
    int code = tuning_run(ctx, *cfg, &o, req->json ? NULL : say_table, req->quiet, &winners);
    if (code) return code;
    fl_config_free(*cfg);
    *cfg = winners;
    return CLI_OK;
}

/* ==== a comparison ================================================================================================ */

static void stop_study(void *study) { fl_study_stop(study); }

static fl_status start_watching(fl_study *study, const study_request *req)
{
    uint16_t port = req->port;
    fl_status s = fl_study_watch(study, &port);
    if (!s) say("watch it at http://127.0.0.1:%u/", (unsigned)port);
    return s;
}

/* Prints the paper's figures beside ours, if the file has any. A failure is only a note, because the runs do not need
 * them. */
static fl_status add_paper(fl_ctx *ctx, fl_study *study, const study_request *req, fl_text_fn *out, void *arg)
{
    fl_status s = req->paper ? fl_study_paper(study, out, arg) : FL_OK;
    if (s == FL_ECONFIG && !req->quiet) say_log(NULL, FL_LOG_INFO, fl_ctx_error(ctx));
    return s == FL_ECONFIG ? FL_OK : s;
}

/* fl_text_fn: a further table. */
static void say_next_table(void *unused, const char *text)
{
    putchar('\n');
    say_table(unused, text);
}

static fl_status print_tables(fl_ctx *ctx, fl_study *study, const study_request *req)
{
    fl_status s = fl_study_table(study, say_table, NULL);
    return s ? s : add_paper(ctx, study, req, say_next_table, NULL);
}

/* Prints all tables as one document. */
static fl_status print_document(fl_ctx *ctx, fl_study *study, const study_request *req)
{
    json_t *all = NULL, *figures = NULL;
    fl_status s = fl_study_table(study, json_take, &all);
    if (!s) s = add_paper(ctx, study, req, json_take, &figures);
    if (figures) json_object_set_new(all, "paper", figures);
    if (s) return json_decref(all), s;
    return json_out(all) ? FL_ENOMEM : FL_OK;
}

static int carry_out(fl_ctx *ctx, fl_study *study, const study_request *req)
{
    size_t done, total = fl_study_runs(study, &done);
    watcher w = watcher_new(stop_study, study, req->quiet);
    if (!req->quiet && done) say("%zu of %zu runs are already in %s", done, total, fl_study_output(study));
    fl_status s = req->watch ? start_watching(study, req) : FL_OK;
    if (!s) s = fl_study_go(study, watcher_observe, &w);
    watcher_end(&w);
    if (!s) s = fl_study_write(study);
    if (!s) s = (req->json ? print_document : print_tables)(ctx, study, req);
    if (s) {
        say_error(ctx);
        return settings_exit(s);
    }
    fl_study_runs(study, &done);
    if (!req->quiet) say("%zu of %zu runs; the table and report.html are in %s", done, total, fl_study_output(study));
    return interrupt_seen() ? CLI_INTERRUPTED : done == total && !w.unwritten ? CLI_OK : CLI_FAILED;
}

/* Warns that a method's own keys override the common ones, which --set changes. */
static void warn_of_methods(const words *sets)
{
    for (size_t i = 0; i < sets->n; i++)
        if (!strncmp(sets->v[i], "algorithm", 9) && (sets->v[i][9] == '=' || sets->v[i][9] == '.'))
            say("warning: --set %s is common to all methods; a method that names its own algorithm keeps it",
                sets->v[i]);
}

int study_run(fl_ctx *ctx, const char *file, const study_request *req)
{
    fl_config *cfg = NULL;
    fl_study *study = NULL;
    int code = events_check(req->options.tensorboard, "runs"); /* before anything has run */
    fl_ctx_format(ctx, req->json ? FL_FORMAT_JSON : FL_FORMAT_TEXT);
    if (!code) code = settings_open(ctx, file, &req->sets, &cfg);
    if (code) return code;
    if (!req->quiet) warn_of_methods(&req->sets);
    if (req->budget) code = tune_first(ctx, &cfg, req);
    if (code) {
        fl_config_free(cfg);
        return code;
    }
    fl_status s = fl_study_new(cfg, &req->options, &study);
    if (s) {
        say_error(ctx);
        code = settings_exit(s);
    } else
        code = carry_out(ctx, study, req);
    fl_study_free(study);
    fl_config_free(cfg);
    return code;
}
