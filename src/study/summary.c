/* Statistics over seeds, and the tables made of them. */
#include "study/study.h"

#include <math.h>
#include <string.h>

/* ---- statistics ---------------------------------------------------------------------------------------- */

static void take(fli_stat *st, double v)
{
    if (!isfinite(v)) return;
    double delta = v - st->mean; /* Welford: std holds the sum of squares until finish() */
    st->mean += delta / (double)++st->n;
    st->std += delta * (v - st->mean);
}

static void finish(fli_stat *st) { st->std = st->n > 1 ? sqrt(st->std / (double)(st->n - 1)) : 0; }

static void summarise(const fl_study *s, fli_summary *row)
{
    for (size_t i = row->first; i < s->x.count; i += fli_study_stride(s)) {
        const fli_outcome *o = &s->outcomes[i];
        row->failed += o->state == FLI_TRIAL_FAILED;
        if (o->state != FLI_TRIAL_DONE || !o->count) continue;
        const fl_row *last = &o->rows[o->count - 1];
        row->seeds++;
        take(&row->accuracy, last->test_accuracy);
        take(&row->loss, last->train_loss);
        take(&row->seconds, last->seconds);
        take(&row->megabytes, last->bytes_up / 1e6);
        take(&row->rounds, (double)last->round);
        take(&row->local_accuracy, last->local_test_accuracy);
        take(&row->simulated, last->simulated_seconds);
        take(&row->local_worst, last->local_worst);
        take(&row->pseudo, last->pseudo_accuracy);
        take(&row->cluster_accuracy, last->cluster_accuracy);
        take(&row->cluster_nmi, last->cluster_nmi);
        take(&row->communications, last->communications);
    }
    finish(&row->accuracy);
    finish(&row->loss);
    finish(&row->seconds);
    finish(&row->megabytes);
    finish(&row->rounds);
    finish(&row->local_accuracy);
    finish(&row->simulated);
    finish(&row->local_worst);
    finish(&row->pseudo);
    finish(&row->cluster_accuracy);
    finish(&row->cluster_nmi);
    finish(&row->communications);
}

/* Higher accuracy, or lower loss where there is no accuracy. A setting without any result loses to one that has some, and one
 * with failed runs to one that has none. */
static int better(const fl_study *s, const fli_summary *a, const fli_summary *b)
{
    const fli_stat *first = s->local_goal ? &a->local_accuracy : &a->accuracy,
                   *second = s->local_goal ? &b->local_accuracy : &b->accuracy;
    if (!a->seeds != !b->seeds) return a->seeds > 0;
    if (a->failed != b->failed) return a->failed < b->failed;
    if (first->n && second->n) return first->mean > second->mean;
    if (a->loss.n && b->loss.n) return a->loss.mean < b->loss.mean;
    return a->seeds > b->seeds;
}

static void mark_best(const fl_study *s, fli_summary *rows, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t best = i, j = i;
        for (; j < count && rows[j].method == rows[i].method; j++)
            if (better(s, &rows[j], &rows[best])) best = j;
        rows[best].best = 1;
        i = j;
    }
}

fl_status fli_study_summaries(fl_study *s, fli_arena *a, fli_summary **out, size_t *count)
{
    size_t n = fli_study_stride(s); /* the first seed's trials stand for the rows */
    *out = fli_arena_alloc(a, n, sizeof **out);
    *count = n;
    if (!*out) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = (fli_summary){.method = s->x.trials[i].method, .setting = s->x.trials[i].setting, .first = i};
        summarise(s, &(*out)[i]);
    }
    mark_best(s, *out, n);
    return FL_OK;
}

void fli_study_to_target(const fl_study *s, const fli_summary *row, double target, fli_stat out[FLI_COSTS])
{
    memset(out, 0, FLI_COSTS * sizeof *out);
    for (size_t i = row->first; i < s->x.count; i += fli_study_stride(s)) {
        const fli_outcome *o = &s->outcomes[i];
        if (o->state != FLI_TRIAL_DONE) continue;
        for (size_t k = 0; k < o->count; k++)
            if ((s->local_goal ? o->rows[k].local_test_accuracy : o->rows[k].test_accuracy) >= target) {
                take(&out[FLI_COST_ROUNDS], (double)o->rows[k].round);
                take(&out[FLI_COST_MEGABYTES], o->rows[k].bytes_up / 1e6);
                take(&out[FLI_COST_SIMULATED], o->rows[k].simulated_seconds);
                take(&out[FLI_COST_COMMUNICATIONS], o->rows[k].communications);
                break;
            }
    }
    for (size_t c = 0; c < FLI_COSTS; c++) finish(&out[c]);
}

const fli_reals *fli_study_targets(const fl_study *s, fli_arena *a)
{
    fli_settings *settings = fli_arena_alloc(a, 1, sizeof *settings);
    if (!settings || fli_settings_bind(s->ctx, a, s->x.trials[0].cfg->root, settings)) return NULL;
    return &settings->metrics.targets;
}

/* ---- the table for a reader ---------------------------------------------------------------------------- */

/* Small models exchange kilobytes, fast devices need milliseconds: three digits that count. */
static int cost_digits(double v) { return v >= 99.5 ? 0 : v >= 9.95 ? 1 : v >= 0.995 ? 2 : 4; }

void fli_target_text(fli_text *t, const fl_study *s, const fli_summary *row, double target, fli_cost cost)
{
    const fli_stat *const end[FLI_COSTS] = {&row->rounds, &row->megabytes, &row->simulated, &row->communications};
    fli_stat to[FLI_COSTS];
    fli_study_to_target(s, row, target, to);
    size_t reached = to[FLI_COST_ROUNDS].n;
    const fli_stat *st = reached ? &to[cost] : end[cost];
    if (!st->n) return;
    if (!reached) fli_text_add(t, "> ");
    fli_text_addf(t, "%.*f", cost == FLI_COST_ROUNDS || cost == FLI_COST_COMMUNICATIONS ? 0 : cost_digits(st->mean),
                  st->mean);
    if (reached && reached < row->seeds) fli_text_addf(t, " (%zu/%zu)", reached, row->seeds);
}

void fli_stat_text(fli_text *t, const fli_stat *st, double factor, int digits)
{
    if (!st->n) return;
    fli_text_addf(t, "%.*f", digits, st->mean * factor);
    if (st->n > 1) fli_text_addf(t, " ± %.*f", digits, st->std * factor);
}

/* Losses span orders of magnitude. */
static void add_loss(fli_text *t, const fli_stat *st)
{
    if (!st->n) return;
    fli_text_addf(t, "%.4g", st->mean);
    if (st->n > 1) fli_text_addf(t, " ± %.2g", st->std);
}

/* The cells of a table under construction. */
typedef struct {
    fli_arena *arena;
    const char **cells;
    size_t n;
    fli_text text; /* the cell being written */
    int failed;
} builder;

static void end_cell(builder *b)
{
    b->cells[b->n] = fli_arena_strdup(b->arena, fli_text_get(&b->text));
    b->failed |= !b->cells[b->n] || b->text.failed;
    b->n++;
    b->text.n = 0;
    if (b->text.s) b->text.s[0] = 0;
}

static void cell(builder *b, const char *text)
{
    fli_text_add(&b->text, text);
    end_cell(b);
}

/* Which columns there are. */
typedef struct {
    int settings, accuracy, local, loss, simulated, clusters, talks;
    const fli_reals *targets;
} shape;

/* What is told of each target: simulated time, too, where there is a clock, and communications where they are not the rounds. */
static int shows(const shape *h, size_t cost)
{
    if (cost == FLI_COST_SIMULATED) return h->simulated;
    return cost != FLI_COST_COMMUNICATIONS || h->talks;
}

static size_t costs_of(const shape *h)
{
    size_t n = 0;
    for (size_t c = 0; c < FLI_COSTS; c++) n += shows(h, c) != 0;
    return n;
}

static size_t columns_of(const shape *h)
{
    size_t marked = (size_t)(h->settings + h->accuracy + h->local + h->loss + h->simulated + h->talks);
    return 4 + marked + 2 * (size_t)h->clusters + costs_of(h) * h->targets->n;
}

static void header(builder *b, const shape *h)
{
    static const char *const cost[FLI_COSTS] = {"rounds", "MB", "sim. s", "comm."};
    cell(b, "method");
    if (h->settings) cell(b, "setting");
    cell(b, "seeds");
    if (h->accuracy) cell(b, "test accuracy %");
    if (h->local) cell(b, "own models acc. %");
    if (h->loss) cell(b, "train loss");
    if (h->clusters) cell(b, "cluster acc. %");
    if (h->clusters) cell(b, "NMI");
    for (size_t k = 0; k < h->targets->n; k++)
        for (size_t c = 0; c < FLI_COSTS; c++) {
            if (!shows(h, c)) continue;
            fli_text_addf(&b->text, "%s to %g", cost[c], h->targets->v[k]);
            end_cell(b);
        }
    cell(b, "MB up");
    if (h->simulated) cell(b, "sim. s");
    if (h->talks) cell(b, "comm.");
    cell(b, "seconds");
}

static void add_cost(builder *b, const fli_stat *st)
{
    if (st->n) fli_text_addf(&b->text, "%.*f", cost_digits(st->mean), st->mean);
    end_cell(b);
}

static void body(builder *b, const fl_study *s, const shape *h, const fli_summary *row)
{
    fli_text_addf(&b->text, "%s%s", s->x.methods[row->method].label, h->settings && row->best ? " *" : "");
    end_cell(b);
    if (h->settings) cell(b, s->x.trials[row->first].setting_text);
    fli_text_addf(&b->text, row->failed ? "%zu, %zu failed" : "%zu", row->seeds, row->failed);
    end_cell(b);
    if (h->accuracy) {
        fli_stat_text(&b->text, &row->accuracy, 100, 2);
        end_cell(b);
    }
    if (h->local) {
        fli_stat_text(&b->text, &row->local_accuracy, 100, 2);
        end_cell(b);
    }
    if (h->loss) {
        add_loss(&b->text, &row->loss);
        end_cell(b);
    }
    if (h->clusters) {
        fli_stat_text(&b->text, &row->cluster_accuracy, 100, 2);
        end_cell(b);
        fli_stat_text(&b->text, &row->cluster_nmi, 1, 3);
        end_cell(b);
    }
    for (size_t k = 0; k < FLI_COSTS * h->targets->n; k++) {
        if (!shows(h, k % FLI_COSTS)) continue;
        fli_target_text(&b->text, s, row, h->targets->v[k / FLI_COSTS], (fli_cost)(k % FLI_COSTS));
        end_cell(b);
    }
    add_cost(b, &row->megabytes);
    if (h->simulated) add_cost(b, &row->simulated);
    if (h->talks) {
        fli_stat_text(&b->text, &row->communications, 1, 0);
        end_cell(b);
    }
    fli_stat_text(&b->text, &row->seconds, 1, 1);
    end_cell(b);
}

fl_status fli_study_grid(fl_study *s, fli_arena *a, fli_grid *out)
{
    fli_summary *rows;
    size_t count;
    shape h = {0};
    fl_status status = fli_study_summaries(s, a, &rows, &count);
    if (status) return status;
    if (!(h.targets = fli_study_targets(s, a))) return FL_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        h.settings |= s->x.methods[rows[i].method].settings > 1;
        h.accuracy |= rows[i].accuracy.n > 0;
        h.local |= rows[i].local_accuracy.n > 0;
        h.loss |= rows[i].loss.n > 0;
        h.simulated |= rows[i].simulated.n > 0;
        h.clusters |= rows[i].cluster_accuracy.n > 0;
        h.talks |= rows[i].communications.n > 0 && rows[i].communications.mean > rows[i].rounds.mean;
    }
    builder b = {.arena = a, .cells = fli_arena_alloc(a, (count + 1) * columns_of(&h), sizeof *b.cells)};
    if (!b.cells) return FL_ENOMEM;
    fli_text_init(&b.text, s->ctx);
    header(&b, &h);
    for (size_t i = 0; i < count; i++) body(&b, s, &h, &rows[i]);
    fli_text_fini(&b.text);
    *out = (fli_grid){b.cells, count + 1, columns_of(&h)};
    return b.failed ? FL_ENOMEM : FL_OK;
}

/* ---- renderings ---------------------------------------------------------------------------------------- */

/* Characters on the screen, not bytes: "±" is one. */
static size_t width(const char *s)
{
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

void fli_grid_text(fli_text *t, const fli_grid *g)
{
    size_t *most = fli_alloc(t->ctx, g->columns, sizeof *most);
    if (!most) t->failed = 1;
    for (size_t k = 0; most && k < g->rows * g->columns; k++)
        if (width(g->cells[k]) > most[k % g->columns]) most[k % g->columns] = width(g->cells[k]);
    for (size_t r = 0; most && r < g->rows; r++) {
        for (size_t c = 0; c < g->columns; c++) {
            const char *text = g->cells[r * g->columns + c];
            int pad = (int)(most[c] - width(text));
            if (c == 0)
                fli_text_addf(t, "%s%*s", text, pad, "");
            else
                fli_text_addf(t, "  %*s%s", pad, "", text);
        }
        fli_text_add(t, "\n");
    }
    fli_free(most);
}

/* A label is text: it may neither end its cell nor be read as Markdown or HTML. */
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

void fli_grid_markdown(fli_text *t, const fli_grid *g)
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

/* A column of numbers for machines: name and where it is in a summary. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"test_accuracy", offsetof(fli_summary, accuracy)},
    {"train_loss", offsetof(fli_summary, loss)},
    {"rounds", offsetof(fli_summary, rounds)},
    {"megabytes_up", offsetof(fli_summary, megabytes)},
    {"seconds", offsetof(fli_summary, seconds)},
    {"local_test_accuracy", offsetof(fli_summary, local_accuracy)},
    {"simulated_seconds", offsetof(fli_summary, simulated)},
    {"local_worst", offsetof(fli_summary, local_worst)},
    {"pseudo_accuracy", offsetof(fli_summary, pseudo)},
    {"cluster_accuracy", offsetof(fli_summary, cluster_accuracy)},
    {"cluster_nmi", offsetof(fli_summary, cluster_nmi)},
    {"communications", offsetof(fli_summary, communications)},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static const char *const costs[FLI_COSTS] = {"rounds", "megabytes", "simulated", "communications"};

static const fli_stat *number(const fli_summary *row, size_t k)
{
    return (const fli_stat *)(const void *)((const char *)row + numbers[k].offset);
}

/* Quoted; a spreadsheet takes what begins like this for a formula, quotes or not, unless an apostrophe stands before it. */
static void csv_text(fli_text *t, const char *s)
{
    fli_text_add(t, *s && strchr("=+-@\t\r", *s) ? "\"'" : "\"");
    for (; *s; s++) fli_text_addf(t, *s == '"' ? "\"%c" : "%c", *s);
    fli_text_add(t, "\"");
}

static void csv_stat(fli_text *t, const fli_stat *st)
{
    if (st->n)
        fli_text_addf(t, ",%.10g,%.10g", st->mean, st->std);
    else
        fli_text_add(t, ",,");
}

void fli_study_csv(fli_text *t, fl_study *s, fli_arena *a)
{
    fli_summary *rows;
    size_t count;
    const fli_reals *targets = fli_study_targets(s, a);
    if (!targets || fli_study_summaries(s, a, &rows, &count)) {
        t->failed = 1;
        return;
    }
    fli_text_add(t, "method,setting,best,seeds,failed");
    for (size_t k = 0; k < NUMBERS; k++) fli_text_addf(t, ",%s_mean,%s_std", numbers[k].name, numbers[k].name);
    for (size_t k = 0; k < targets->n; k++) {
        fli_text_addf(t, ",reached_%g", targets->v[k]);
        for (size_t c = 0; c < FLI_COSTS; c++)
            fli_text_addf(t, ",%s_to_%g_mean,%s_to_%g_std", costs[c], targets->v[k], costs[c], targets->v[k]);
    }
    fli_text_add(t, "\n");
    for (size_t i = 0; i < count; i++) {
        csv_text(t, s->x.methods[rows[i].method].label);
        fli_text_add(t, ",");
        csv_text(t, s->x.trials[rows[i].first].setting_text);
        fli_text_addf(t, ",%d,%zu,%zu", rows[i].best, rows[i].seeds, rows[i].failed);
        for (size_t k = 0; k < NUMBERS; k++) csv_stat(t, number(&rows[i], k));
        for (size_t k = 0; k < targets->n; k++) {
            fli_stat to[FLI_COSTS];
            fli_study_to_target(s, &rows[i], targets->v[k], to);
            fli_text_addf(t, ",%zu", to[FLI_COST_ROUNDS].n);
            for (size_t c = 0; c < FLI_COSTS; c++) csv_stat(t, &to[c]);
        }
        fli_text_add(t, "\n");
    }
}

static void json_stat(fli_text *t, const fli_stat *st)
{
    if (st->n)
        fli_text_addf(t, "{\"mean\": %.17g, \"std\": %.17g, \"n\": %zu}", st->mean, st->std, st->n);
    else
        fli_text_add(t, "null");
}

static void json_row(fli_text *t, const fl_study *s, const fli_summary *row, const fli_reals *targets)
{
    fli_text_add(t, "    {\"method\": ");
    fli_text_json(t, s->x.methods[row->method].label);
    fli_text_add(t, ", \"setting\": ");
    fli_text_json(t, s->x.trials[row->first].setting_text);
    fli_text_addf(t, ", \"best\": %s, \"seeds\": %zu, \"failed\": %zu", row->best ? "true" : "false", row->seeds,
                  row->failed);
    for (size_t k = 0; k < NUMBERS; k++) {
        fli_text_addf(t, ",\n     \"%s\": ", numbers[k].name);
        json_stat(t, number(row, k));
    }
    fli_text_add(t, ",\n     \"targets\": [");
    for (size_t k = 0; k < targets->n; k++) {
        static const char *const names[FLI_COSTS] = {"rounds", "megabytes_up", "simulated_seconds", "communications"};
        fli_stat to[FLI_COSTS];
        fli_study_to_target(s, row, targets->v[k], to);
        fli_text_addf(t, "%s{\"test_accuracy\": %.17g", k ? ", " : "", targets->v[k]);
        for (size_t c = 0; c < FLI_COSTS; c++) {
            fli_text_addf(t, ", \"%s\": ", names[c]);
            json_stat(t, &to[c]);
        }
        fli_text_add(t, "}");
    }
    fli_text_add(t, "]}");
}

void fli_study_json(fli_text *t, fl_study *s, fli_arena *a)
{
    fli_summary *rows;
    size_t count;
    const fli_reals *targets = fli_study_targets(s, a);
    if (!targets || fli_study_summaries(s, a, &rows, &count)) {
        t->failed = 1;
        return;
    }
    fli_text_addf(t, "{\n  \"fedloom\": \"%s\",\n  \"name\": ", FL_VERSION);
    fli_text_json(t, s->x.name);
    fli_text_add(t, ",\n  \"rows\": [\n");
    for (size_t i = 0; i < count; i++) {
        json_row(t, s, &rows[i], targets);
        fli_text_add(t, i + 1 < count ? ",\n" : "\n");
    }
    fli_text_add(t, "  ]\n}\n");
}
