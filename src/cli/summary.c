/* The table at the end of `fedloom run`: one line per run; below it, a line each for what only some runs measure. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TARGETS_MAX = 16, NAME_MAX_LEN = 64 };

typedef struct {
    char name[NAME_MAX_LEN], algorithm[NAME_MAX_LEN];
    fl_row row;
    size_t targets;
    double accuracy[TARGETS_MAX];
    size_t reached[TARGETS_MAX]; /* SIZE_MAX: never */
} line;

struct summary {
    size_t n, capacity;
    line *lines;
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
        line *lines = realloc(s->lines, more * sizeof *lines);
        if (!lines) return 0;
        s->lines = lines;
        s->capacity = more;
    }
    line *l = &s->lines[s->n++];
    memset(l, 0, sizeof *l);
    snprintf(l->name, sizeof l->name, "%s", fl_run_name(run));
    snprintf(l->algorithm, sizeof l->algorithm, "%s", fl_run_algorithm(run));
    l->row = *row;
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

static void add_measured(table *t, const char *fmt, double v)
{
    char buf[32];
    snprintf(buf, sizeof buf, fmt, v);
    table_add(t, "%s", isnan(v) ? "-" : buf);
}

static void add_target(table *t, const line *l, double accuracy)
{
    for (size_t k = 0; k < l->targets; k++)
        if (l->accuracy[k] == accuracy) {
            if (l->reached[k] == SIZE_MAX)
                table_add(t, "> %zu", l->row.round);
            else
                table_add(t, "%zu", l->reached[k]);
            return;
        }
    table_add(t, "-");
}

static void print_line(const summary *s, const line *l, const char *text, FILE *out)
{
    char buf[512], label[2 * NAME_MAX_LEN + 8] = "";
    if (s->n > 1) snprintf(label, sizeof label, "%s (%s): ", l->name, l->algorithm);
    snprintf(buf, sizeof buf, "%s%s", label, text);
    fprintf(out, "%s\n", say_clean(buf));
}

static void append_measured(char *text, size_t size, const char *fmt, double v)
{
    size_t n = strlen(text);
    if (isfinite(v)) snprintf(text + n, size - n, fmt, v);
}

static void print_local(const summary *s, const line *l, FILE *out)
{
    const fl_row *r = &l->row;
    char text[256] = "the clients' own models: ";
    if (!isfinite(r->local_train_loss)) return;
    append_measured(text, sizeof text, "train loss %.5g", r->local_train_loss);
    append_measured(text, sizeof text, ", train acc. %.4f", r->local_train_accuracy);
    append_measured(text, sizeof text, ", test loss %.5g", r->local_test_loss);
    append_measured(text, sizeof text, ", test acc. %.4f", r->local_test_accuracy);
    print_line(s, l, text, out);
}

static void print_clusters(const summary *s, const line *l, FILE *out)
{
    char text[128];
    if (!isfinite(l->row.cluster_accuracy)) return;
    snprintf(text, sizeof text, "clusters against classes: accuracy %.4f, NMI %.4f", l->row.cluster_accuracy,
             l->row.cluster_nmi);
    print_line(s, l, text, out);
}

/* Where rounds are not what communication costs. */
static void print_communications(const summary *s, const line *l, FILE *out)
{
    char text[128];
    double v = l->row.communications;
    if (!isfinite(v) || v == (double)l->row.round) return;
    snprintf(text, sizeof text, "communications: %.0f", v);
    print_line(s, l, text, out);
}

static void print_simulated(const summary *s, const line *l, FILE *out)
{
    char text[128];
    double v = l->row.simulated_seconds;
    if (!isfinite(v)) return;
    snprintf(text, sizeof text, "simulated time: %.*f s", v >= 9.95 ? 1 : 4, v);
    print_line(s, l, text, out);
}

static void print_staleness(const summary *s, const line *l, FILE *out)
{
    char text[128];
    if (!isfinite(l->row.staleness)) return;
    snprintf(text, sizeof text, "age of the newest uploads, in server updates: %.3g on average, %g at most",
             l->row.staleness, l->row.staleness_max);
    print_line(s, l, text, out);
}

void summary_print(const summary *s, FILE *out)
{
    static const char *const before[] = {"run", "algorithm", "rounds", "train loss", "test acc."};
    static const char *const after[] = {"MB up", "seconds"};
    enum { BEFORE = sizeof before / sizeof *before, AFTER = sizeof after / sizeof *after };
    double targets[TARGETS_MAX];
    size_t n = all_targets(s, targets);
    table t;
    if (!s->n) return;
    table_init(&t, BEFORE + n + AFTER);
    for (size_t i = 0; i < BEFORE; i++) table_add(&t, "%s", before[i]);
    for (size_t i = 0; i < n; i++) table_add(&t, "to %g", targets[i]);
    for (size_t i = 0; i < AFTER; i++) table_add(&t, "%s", after[i]);
    for (const line *l = s->lines; l < s->lines + s->n; l++) {
        table_add(&t, "%s", l->name);
        table_add(&t, "%s", l->algorithm);
        table_add(&t, "%zu", l->row.round);
        add_measured(&t, "%.5g", l->row.train_loss);
        add_measured(&t, "%.4f", l->row.test_accuracy);
        for (size_t i = 0; i < n; i++) add_target(&t, l, targets[i]);
        add_measured(&t, "%.1f", l->row.bytes_up / 1e6);
        add_measured(&t, "%.1f", l->row.seconds);
    }
    table_print(&t, 2, out);
    table_free(&t);
    for (const line *l = s->lines; l < s->lines + s->n; l++) {
        print_local(s, l, out);
        print_communications(s, l, out);
        print_simulated(s, l, out);
        print_staleness(s, l, out);
        print_clusters(s, l, out);
    }
}
