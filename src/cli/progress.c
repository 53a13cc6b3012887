/* How a run is going, on stderr: a line rewritten in place on a terminal, else about twenty plain lines per run. */
#include "cli/cli.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

enum { PLAIN_LINES = 20, LINE_MAX_LEN = 512 };
static const double paint_every = 0.1; /* seconds */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void append(char *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append(char *line, const char *fmt, ...)
{
    size_t n = strlen(line);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + n, LINE_MAX_LEN - n, fmt, ap);
    va_end(ap);
}

/* What was measured last, the most telling first: one metric for each ten of the order. */
static void append_metrics(char *line, const fl_row *r)
{
    const fl_metric *m;
    int filled = 0;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_PROGRESS, k)); k++) {
        char text[VALUE_MAX_LEN];
        int ten = m->shown[FL_VIEW_PROGRESS].order / 10;
        if (isnan(fl_row_value(r, m)) || ten == filled) continue;
        append(line, "  %s %s", m->shown[FL_VIEW_PROGRESS].label, value_text(m, fl_row_value(r, m), text));
        filled = ten;
    }
}

static void paint(progress *p, const fl_run *run, size_t round)
{
    char line[LINE_MAX_LEN] = "";
    size_t rounds = fl_run_rounds(run), done = round - p->first;
    double spent = now() - p->begun, rate = done && spent > 0 ? (double)done / spent : 0;
    append(line, "%s  %zu/%zu", fl_run_name(run), round, rounds);
    append_metrics(line, &p->row);
    if (rate > 0) append(line, rate < 100 ? "  %.3g rounds/s" : "  %.0f rounds/s", rate);
    bar_paint((double)round / (double)rounds, rate > 0 ? (double)(rounds - round) / rate : NAN, line);
    p->drawn = 1;
    p->painted = now();
}

static void erase(progress *p)
{
    if (p->drawn) bar_erase();
    p->drawn = 0;
}

static void print_line(progress *p, const fl_run *run, const char *end)
{
    char line[LINE_MAX_LEN] = "";
    append(line, "%s  round %zu/%zu", fl_run_name(run), fl_row_round(&p->row), fl_run_rounds(run));
    append_metrics(line, &p->row);
    append(line, "  %.1f s%s", fl_row_get(&p->row, "seconds"), end);
    erase(p);
    fprintf(stderr, "%s\n", say_clean(line));
    p->last = fl_row_round(&p->row);
}

void progress_init(progress *p, int quiet)
{
    memset(p, 0, sizeof *p);
    p->quiet = quiet;
    p->live = terminal_moves(stderr);
}

void progress_begin(progress *p, const fl_run *run)
{
    char line[LINE_MAX_LEN] = "";
    for (size_t k = 0; k < FL_METRICS_MAX; k++) p->row.value[k] = NAN;
    p->begun = now();
    p->first = fl_run_round(run);
    p->painted = 0;
    p->next = 0;
    p->last = SIZE_MAX;
    if (p->quiet) return;
    append(line, "%s: %s, %zu clients, %zu parameters, at least %.0f MiB of memory", fl_run_name(run),
           fl_run_algorithm(run), fl_run_clients(run), fl_run_parameters(run), ceil(fl_run_memory(run) / 0x1p20));
    fprintf(stderr, "%s\n", say_clean(line));
}

void progress_step(progress *p, const fl_run *run, const fl_row *row, int measured)
{
    size_t round = fl_row_round(row);
    if (measured) p->row = *row;
    if (p->quiet) return;
    if (p->live) {
        if (now() - p->painted >= paint_every) paint(p, run, round);
    } else if (measured && round >= p->next) {
        print_line(p, run, "");
        p->next = round + (fl_run_rounds(run) + PLAIN_LINES - 1) / PLAIN_LINES;
    }
}

void progress_end(progress *p, const fl_run *run)
{
    static const char *const why[] = {
        [FL_STOP_NONE] = "",
        [FL_STOP_ROUNDS] = "",
        [FL_STOP_TARGET] = "  (target reached)",
        [FL_STOP_GRADIENT] = "  (gradient small enough)",
        [FL_STOP_TIME] = "  (time limit)",
        [FL_STOP_ASKED] = "  (stopped)",
    };
    const char *end = why[fl_run_stopped_by(run)];
    const fl_row *row = fl_run_row(run);
    if (!p->quiet && row) {
        p->row = *row;
        if (p->live || p->last != fl_row_round(row) || *end) print_line(p, run, end);
    }
    erase(p);
}

void progress_log(void *arg, fl_log_level level, const char *line)
{
    progress *p = arg;
    if (p->quiet && (level == FL_LOG_INFO || !ranks_first())) return;
    erase(p);
    say_log(NULL, level, line);
}
