/* The table at the end of `fedloom run`: one line per run; below it, a line each for what only some runs measure. */
#include "cli/cli.h"
#include "cli/json_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TARGETS_MAX = 16, NAME_MAX_LEN = 64, OUTPUT_MAX_LEN = 4096 };

typedef struct {
    char name[NAME_MAX_LEN], algorithm[NAME_MAX_LEN];
    char output[OUTPUT_MAX_LEN]; /* "": nothing was saved */
    fl_row row;
    fl_stop stopped_by;
    size_t rounds, planned, targets;
    double accuracy[TARGETS_MAX];
    size_t reached[TARGETS_MAX]; /* SIZE_MAX: never */
} summary_line;

struct summary {
    size_t n, capacity;
    summary_line *lines;
};

summary *summary_new(void) { return calloc(1, sizeof(summary)); }

void summary_free(summary *s)
{
    if (s) free(s->lines);
    free(s);
}

int summary_add(summary *s, const fl_run *run)
{
    const fl_row *row = fl_run_row(run);
    if (!row) return 1;
    if (s->n == s->capacity) {
        size_t more = s->capacity ? 2 * s->capacity : 8;
        summary_line *lines = realloc(s->lines, more * sizeof *lines);
        if (!lines) return 0;
        s->lines = lines;
        s->capacity = more;
    }
    summary_line *l = &s->lines[s->n++];
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
static size_t all_targets(const summary *s, double out[TARGETS_MAX])
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

static void add_target(table *t, const summary_line *l, double accuracy)
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

static void print_line(const summary *s, const summary_line *l, const char *text, FILE *out)
{
    char buf[512], label[2 * NAME_MAX_LEN + 8] = "";
    if (s->n > 1) snprintf(label, sizeof label, "%s (%s): ", l->name, l->algorithm);
    snprintf(buf, sizeof buf, "%s%s", label, text);
    fprintf(out, "%s\n", say_clean(buf));
}

static void print_stop(const summary *s, const summary_line *l, FILE *out)
{
    char text[128];
    if (l->stopped_by != FL_STOP_ASKED) return;
    snprintf(text, sizeof text, "stopped on request after round %zu of %zu", l->rounds, l->planned);
    print_line(s, l, text, out);
}

/* Whether a row says something by this metric. */
static int tells(const fl_row *row, const fl_metric *m)
{
    double v = fl_row_value(row, m);
    return isfinite(v) && (!m->beyond_round || v != (double)fl_row_round(row));
}

/* "GROUP: LABEL VALUE", or ", LABEL VALUE" behind another of its group. */
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

/* A line for each group of metrics of which some were measured. */
static void print_notes(const summary *s, const summary_line *l, FILE *out)
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

/* The metrics of the table that come before what a target cost, or after it; their heads where there is no row. */
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

void summary_print(const summary *s, FILE *out)
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
    for (const summary_line *l = s->lines; l < s->lines + s->n; l++) {
        table_add(&t, "%s%s", l->name, l->stopped_by == FL_STOP_ASKED ? " (stopped)" : "");
        table_add(&t, "%s", l->algorithm);
        add_metrics(&t, 0, &l->row);
        for (size_t i = 0; i < n; i++) add_target(&t, l, targets[i]);
        add_metrics(&t, 1, &l->row);
    }
    table_print(&t, 2, out);
    table_free(&t);
    for (const summary_line *l = s->lines; l < s->lines + s->n; l++) {
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

static json_t *targets_json(const summary_line *l)
{
    json_t *all = json_array();
    for (size_t k = 0; k < l->targets; k++) {
        json_t *round = l->reached[k] == SIZE_MAX ? json_null() : json_integer((json_int_t)l->reached[k]);
        json_array_append_new(all, json_pack("{s:f, s:o}", "test_accuracy", l->accuracy[k], "round", round));
    }
    return all;
}

int summary_json(const summary *s)
{
    json_t *runs = json_array();
    for (const summary_line *l = s->lines; l < s->lines + s->n; l++)
        json_array_append_new(runs,
                              json_pack("{s:o, s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "name", json_out_text(l->name),
                                        "algorithm", l->algorithm, "stopped_by", fl_stop_text(l->stopped_by), "rounds",
                                        (json_int_t)l->rounds, "planned_rounds", (json_int_t)l->planned, "output",
                                        *l->output ? json_out_text(l->output) : json_null(), "metrics",
                                        metrics_json(&l->row), "targets", targets_json(l)));
    return json_out(json_pack("{s:o}", "runs", runs));
}
