/* Carrying out a comparison: progress on stderr, the table on stdout, files in the output folder. */
#include "cli/cli.h"
#include "cli/json_out.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* "FedProx (mu=0.1), seed 3" */
static void name_run(const fl_study_progress *p, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s%s, seed %llu", p->label, *p->setting ? " (" : "", p->setting, *p->setting ? ")" : "",
             (unsigned long long)p->seed);
}

/* The most telling metric. */
static void describe_row(const fl_row *row, char *out, size_t size)
{
    const fl_metric *m = NULL;
    char text[VALUE_MAX_LEN];
    for (size_t k = 0; row && (m = fl_metric_shown(FL_VIEW_PROGRESS, k)) && isnan(fl_row_value(row, m)); k++) continue;
    out[0] = 0;
    if (m) snprintf(out, size, "  %s %s", m->shown[FL_VIEW_PROGRESS].label, value_text(m, fl_row_value(row, m), text));
}

/* How far it is: a bar on a terminal, elsewhere a line. */
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

/* One line per run that has ended. */
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

/* Seconds between two pictures of the bar, and between two lines where there is none. */
static const double BAR = 0.1, LINE = 10;

void watcher_observe(void *arg, const fl_study_progress *p)
{
    watcher *w = arg;
    if (interrupt_seen()) w->stop(w->what);
    w->unwritten |= p->ended && p->error && p->row; /* one that failed has no metrics */
    if (!p->label || (w->quiet && !p->error)) return;
    if (p->ended) {
        report_run(w, p);
        if (!w->live) w->painted = p->seconds; /* a line */
    } else if (!w->quiet &&
               (w->live ? w->painted == 0 || p->seconds - w->painted > BAR : p->seconds - w->painted > LINE))
        paint(w, p);
}

watcher watcher_new(void (*stop)(void *what), void *what, int quiet)
{
    return (watcher){.stop = stop, .what = what, .quiet = quiet, .live = terminal_moves(stderr)};
}

void watcher_end(const watcher *w)
{
    if (!w->quiet && w->live) bar_erase();
}

static void stop_study(void *study) { fl_study_stop(study); }

static fl_status start_watching(fl_study *study, const study_request *req)
{
    uint16_t port = req->port;
    fl_status s = fl_study_watch(study, &port);
    if (!s) say("watch it at http://127.0.0.1:%u/", (unsigned)port);
    return s;
}

/* The table, and with `paper` what the paper has beside it. No figures to compare with: the runs are fine all the
 * same. */
static fl_status print_tables(fl_ctx *ctx, fl_study *study, int paper)
{
    fl_status s = fl_study_table(study, say_table, NULL);
    if (s || !paper) return s;
    putchar('\n');
    s = fl_study_paper(study, say_table, NULL);
    if (s == FL_ECONFIG) say_error(ctx);
    return s == FL_ECONFIG ? FL_OK : s;
}

/* All of that as one document. */
static fl_status print_document(fl_ctx *ctx, fl_study *study, int paper)
{
    json_t *all = NULL, *figures = NULL;
    fl_status s = fl_study_table(study, json_take, &all);
    if (!s && paper) s = fl_study_paper(study, json_take, &figures);
    if (s == FL_ECONFIG) say_error(ctx);
    if (figures) json_object_set_new(all, "paper", figures);
    if (s && s != FL_ECONFIG) return json_decref(all), s;
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
    if (!s) s = (req->json ? print_document : print_tables)(ctx, study, req->paper);
    if (s) {
        say_error(ctx);
        return settings_exit(s);
    }
    fl_study_runs(study, &done);
    if (!req->quiet) say("%zu of %zu runs; the table and report.html are in %s", done, total, fl_study_output(study));
    return interrupt_seen() ? CLI_INTERRUPTED : done == total && !w.unwritten ? CLI_OK : CLI_FAILED;
}

/* A method's own keys lie over the common ones, which is what --set changes. */
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
