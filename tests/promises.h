/* Random small problems as configurations, what `fedloom check` promises of them, and runs. */
#ifndef TESTS_PROMISES_H
#define TESTS_PROMISES_H

#include "brief.h"
#include "runs.h"
#include "twin.h"

#include "algo/theory.h"

/* ---- how many -------------------------------------------------------------------------------------------- */

/* FEDLOOM_PROBLEMS=N: N problems per theorem instead of `usual`. */
static size_t problems(size_t usual)
{
    const char *asked = getenv("FEDLOOM_PROBLEMS");
    if (asked && *asked) return (size_t)strtoul(asked, NULL, 10);
    return brief() ? 1 + usual / 20 : usual;
}

/* What became of the problems of one theorem. */
typedef struct {
    const char *theorem;
    size_t drawn, yes, mended; /* mended: of the yes, those after `check --fix` */
    size_t left;               /* those of which `check --fix` leaves conditions that fail */
    size_t runs, states;       /* that the promise was held against: runs, and states with all their cohorts */
    size_t untrue;             /* yes, but a condition is false with the true constants */
    size_t broken;             /* yes, but what is promised was not seen */
    double worst;              /* the largest rise, of the size of what rises */
    char first[3000];          /* of the untrue and the broken: which, and why */
} tally;

/* Those sections of a configuration in block style that say which problem it is. */
static size_t keep_sections(const char *set, char *out, size_t room)
{
    static const char *const wanted[] = {
        "seed", "weights", "model:", "semi:", "local:", "participation:", "algorithm:"};
    size_t used = 0;
    int keep = 0;
    for (const char *line = set, *end; *line && used + 1 < room; line = end) {
        end = line + strcspn(line, "\n") + (strchr(line, '\n') != NULL);
        if (*line != ' ') keep = 0;
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            keep |= !strncmp(line, wanted[i], strlen(wanted[i]));
        size_t n = keep ? (size_t)(end - line) : 0;
        if (n >= room - used) n = room - used - 1;
        memcpy(out + used, line, n);
        used += n;
    }
    out[used] = 0;
    return used;
}

static void tally_add(tally *t, size_t *what, size_t problem, const char *set, const char *why)
{
    if (!t->untrue && !t->broken) {
        int n = snprintf(t->first, sizeof t->first, "problem %zu: %s\n", problem, why);
        keep_sections(set, t->first + n, sizeof t->first - (size_t)n);
    }
    ++*what;
    if (getenv("FEDLOOM_EACH")) fprintf(stderr, "%s, problem %zu: %s\n", t->theorem, problem, why);
}

/* The rise from `before` to `after` counts where it is more than rounding. */
static int tally_rise(tally *t, double before, double after)
{
    double rise = (after - before) / fmax(fabs(before), 1e-12);
    if (!(rise <= t->worst)) t->worst = isnan(rise) ? INFINITY : rise;
    return !(rise <= 1e-9);
}

/* Prints the counts. Fails if something was promised that does not hold, or if `least` of 100 problems were not even
 * promised, of 50 or more: then nothing was tested. */
static void tally_end(const tally *t, size_t least)
{
    printf("%s: %zu problems, %zu yes (%zu after --fix, which leaves %zu), %zu runs, %zu states with all cohorts, "
           "%zu conditions untrue, %zu promises broken, largest rise %.2g\n",
           t->theorem, t->drawn, t->yes, t->mended, t->left, t->runs, t->states, t->untrue, t->broken,
           fmax(t->worst, 0));
    if (t->drawn >= 50 && t->yes * 100 < least * t->drawn)
        fail_msg("%s: only %zu of %zu are promised", t->theorem, t->yes, t->drawn);
    if (t->untrue || t->broken) fail_msg("%s, %s", t->theorem, t->first);
}

/* ---- numbers --------------------------------------------------------------------------------------------- */

static double between(fli_rng *r, double low, double high) { return low + (high - low) * fli_rng_uniform(r); }
static double spread(fli_rng *r, double low, double high) { return exp(between(r, log(low), log(high))); }
static size_t one_of(fli_rng *r, size_t n) { return (size_t)fli_rng_below(r, (uint32_t)n); }
static int chance(fli_rng *r, double p) { return fli_rng_uniform(r) < p; }

/* ---- data ------------------------------------------------------------------------------------------------ */

enum { MOST_ROWS = 3000 };

/* A problem's samples; `from` has clients + 1 places. What is dealt with them is in `twin`. */
typedef struct {
    fixture *f;
    twin t;
    size_t from[MOST_CLIENTS + 1];
    double row[MOST_ROWS * MOST_FEATURES], value[MOST_ROWS];
    int by_samples, decay_by_samples;
    char text[8000]; /* the configuration so far */
    size_t used;
} drawn;

__attribute__((format(printf, 2, 3))) static void say(drawn *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    d->used += (size_t)vsnprintf(d->text + d->used, sizeof d->text - d->used, format, args);
    va_end(args);
    assert_true(d->used < sizeof d->text);
}

/* `key: [v, v, ...]` */
static void say_list(drawn *d, const char *key, const double *v, size_t n)
{
    say(d, "  %s: [", key);
    for (size_t i = 0; i < n; i++) say(d, "%s%.17g", i ? ", " : "", v[i]);
    say(d, "]\n");
}

typedef struct {
    twin_kind kind;
    size_t clients, features, classes, most; /* most: samples per client */
    int late;                                /* one client has 600 samples, the last of which are large */
    int alike;                               /* of many classes, two that overlap */
    int equal;                               /* w_i = 1/N */
} wish;

static double draw_value(fli_rng *r, const wish *w, const double *row, const double *own, size_t client)
{
    double z = 0;
    for (size_t j = 0; j < w->features; j++) z += row[j] * own[j];
    if (w->kind == LEAST_SQUARES) return z + fli_rng_normal(r);
    if (w->kind == LOGISTIC) return z + fli_rng_normal(r) > 0;
    if (w->alike) return (double)one_of(r, 2);
    return (double)(chance(r, 0.6) ? client % w->classes : one_of(r, w->classes));
}

/* The samples of a client; scale: of its features. */
static void draw_client(drawn *d, fli_rng *r, const wish *w, size_t i, double scale)
{
    double own[MOST_FEATURES];
    size_t late = w->late && !i, n = late ? 560 : w->clients + one_of(r, w->most);
    for (size_t j = 0; j < w->features; j++) own[j] = fli_rng_normal(r) / scale;
    for (size_t s = d->from[i]; s < d->from[i] + n; s++) {
        double *row = d->row + s * w->features, more = late && s >= d->from[i] + 520 ? 20 : 1;
        for (size_t j = 0; j < w->features; j++) row[j] = scale * more * fli_rng_normal(r);
        d->value[s] = draw_value(r, w, row, own, i);
    }
    d->from[i + 1] = d->from[i] + n;
    assert_true(d->from[i + 1] <= MOST_ROWS);
}

static void write_samples(drawn *d)
{
    FILE *out = fopen(fixture_path(d->f, "data.csv"), "wb");
    assert_non_null(out);
    for (size_t i = 0; i < d->t.clients; i++)
        for (size_t s = d->from[i]; s < d->from[i + 1]; s++) {
            fprintf(out, "%zu", i);
            for (size_t j = 0; j < d->t.features; j++) fprintf(out, ",%.17g", d->row[s * d->t.features + j]);
            fprintf(out, ",%.17g\n", d->value[s]);
        }
    assert_int_equal(fclose(out), 0);
}

/* w_i, and the objective's numbers. */
static void deal(drawn *d, double decay, int decay_by_samples)
{
    twin *t = &d->t;
    for (size_t i = 0; i < t->clients; i++) {
        size_t n = d->from[i + 1] - d->from[i];
        double share = (double)n / (double)d->from[t->clients];
        t->at[i] = (twin_client){.plain = n,
                                 .row = d->row + d->from[i] * t->features,
                                 .value = d->value + d->from[i],
                                 .decay = decay_by_samples ? decay / (double)n : decay,
                                 .weight = d->by_samples ? share : 1 / (double)t->clients};
    }
}

static void draw_data(drawn *d, fixture *f, fli_rng *r, const wish *w)
{
    static const char *const names[] = {"least_squares", "logistic", "softmax"};
    double range = chance(r, 0.5) ? 1 : spread(r, 1, 30), decay = chance(r, 0.5) ? spread(r, 1e-3, 1) : 0;
    int decay_by = decay > 0 && chance(r, 0.3);
    memset(d, 0, sizeof *d);
    d->f = f;
    d->by_samples = !w->equal && chance(r, 0.5);
    d->t = (twin){.kind = w->kind, .clients = w->clients, .features = w->features, .classes = w->classes};
    d->t.n = w->kind == SOFTMAX ? w->classes * (w->features + 1) : w->features;
    assert_true(d->t.n <= MOST_X && w->features <= MOST_FEATURES && w->clients <= MOST_CLIENTS);
    for (size_t i = 0; i < w->clients; i++) draw_client(d, r, w, i, spread(r, 1, range));
    d->decay_by_samples = decay_by;
    deal(d, decay, decay_by);
    write_samples(d);
    say(d, "precision: f64\nthreads: 1\nseed: %u\nrounds: 12\nweights: %s\npartition: natural\n",
        (unsigned)one_of(r, 1000), d->by_samples ? "samples" : "uniform");
    say(d, "data:\n  kind: csv\n  train: %s\n  group_column: 0\n  storage: f64\n  task: %s\n",
        fixture_path(f, "data.csv"), w->kind == LEAST_SQUARES ? "regression" : "classification");
    if (w->kind != LEAST_SQUARES) say(d, "  classes: %zu\n", w->classes);
    say(d, "model:\n  kind: %s\n  weight_decay: %.17g\n  weight_decay_by: %s\n", names[w->kind], decay,
        decay_by ? "samples" : "nothing");
    say(d, "metrics:\n  test: false\n  clients: false\n  gradient: true\n");
}

/* A problem for a method without pseudo labels. */
UNUSED static wish draw_wish(fli_rng *r)
{
    wish w = {.kind = (twin_kind)one_of(r, 3), .clients = 2 + one_of(r, 4), .features = 1 + one_of(r, 4), .most = 12};
    if (w.kind == LOGISTIC) w.classes = 2;
    if (w.kind == SOFTMAX) w.classes = 2 + one_of(r, 4);
    if (w.kind == SOFTMAX && chance(r, 0.3)) w.classes = 10, w.alike = 1;
    w.late = chance(r, 0.1);
    if (chance(r, 0.1)) w.most = 100; /* unequal sizes, so unequal w_i */
    return w;
}

/* Who takes part, as a section; UNIFORM's count and everybody's p_i, with BERNOULLI from low to high. */
UNUSED static sampling draw_sampling_from(drawn *d, fli_rng *r, double low, double high, size_t *count, double *p)
{
    size_t n = d->t.clients;
    sampling how = (sampling)one_of(r, 3);
    *count = how == UNIFORM ? 1 + one_of(r, n - 1) : n;
    for (size_t i = 0; i < n; i++) p[i] = how == BERNOULLI ? between(r, low, high) : (double)*count / (double)n;
    if (how == EVERYONE) say(d, "participation:\n  kind: everyone\n");
    if (how == UNIFORM) say(d, "participation:\n  kind: uniform\n  count: %zu\n", *count);
    if (how == BERNOULLI) say(d, "participation:\n  kind: bernoulli\n");
    if (how == BERNOULLI) say_list(d, "probability", p, n);
    return how;
}

UNUSED static sampling draw_sampling(drawn *d, fli_rng *r, size_t *count, double *p)
{
    return draw_sampling_from(d, r, 0.3, 1, count, p);
}

/* ---- what check says ------------------------------------------------------------------------------------- */

typedef struct {
    int applies;
    double smoothness;
    char *json; /* to be freed */
} verdict;

/* The text behind "key": in a document; NULL: no such key. */
static const char *behind(const char *json, const char *key)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr(json, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " :\n") : NULL;
}

static verdict check_text(fixture *f, const char *text)
{
    collected c = {0};
    verdict v = {0};
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_text(cfg, text, "the problem"));
    fl_ctx_format(f->ctx, FL_FORMAT_JSON);
    fl_status s = fl_check(cfg, collect_text, &c);
    fl_ctx_format(f->ctx, FL_FORMAT_TEXT);
    if (s) fail_msg("%s\n%s", fl_ctx_error(f->ctx), text);
    fl_config_free(cfg);
    const char *applies = behind(c.s, "applies"), *l = behind(c.s, "smoothness");
    assert_true(applies && l);
    v.applies = !strncmp(applies, "true", 4);
    v.smoothness = strtod(l, NULL);
    v.json = c.s;
    return v;
}

/* What is said of the condition of this name: 'h'olds, 'f'ails, 'a'ssumed; 0: there is none. */
UNUSED static char condition(const verdict *v, const char *name)
{
    char quoted[100];
    snprintf(quoted, sizeof quoted, "\"name\": \"%s\"", name);
    const char *at = strstr(v->json, quoted), *said = at ? behind(at, "verdict") : NULL;
    return said ? said[1] : 0;
}

/* The file that check --fix writes, to be freed. */
static char *mended(fixture *f, const char *text)
{
    collected file = {0}, report = {0};
    size_t left = 0;
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_text(cfg, text, "the problem"));
    if (fl_check_fix(cfg, collect_text, &report, collect_text, &file, &left))
        fail_msg("%s\n%s", fl_ctx_error(f->ctx), text);
    fl_config_free(cfg);
    free(report.s);
    assert_non_null(file.s);
    return file.s;
}

/* A condition that holds or fails, and how many times too large its left side is: at most 1 where it holds. */
typedef struct {
    char name[80];
    double excess;
} judged;

/* The first one from `at` on; NULL: there is none. */
static const char *next_judged(const char *at, judged *out)
{
    static const char key[] = "\"name\": \"";
    while ((at = strstr(at, key))) {
        at += sizeof key - 1;
        const char *next = strstr(at, key), *said = behind(at, "verdict"), *have = behind(at, "have");
        if (!said || (said[1] != 'h' && said[1] != 'f')) continue;
        snprintf(out->name, sizeof out->name, "%.*s", (int)strcspn(at, "\""), at);
        out->excess = said[1] == 'h' ? 1 : INFINITY;
        if (said[1] == 'f' && have && (!next || have < next) && *have != 'n')
            out->excess = fli_condition_excess(strtod(have, NULL), strtod(behind(at, "most"), NULL));
        return at;
    }
    return NULL;
}

/* Whether a problem is farther from a condition after `check --fix` than before, and from which. Conditions that are
 * asked for only before or only after it are not compared: others take their place. */
static int farther(const char *before, const char *after, judged *worse)
{
    for (const char *at = after; (at = next_judged(at, worse));) {
        judged was;
        const char *from = before;
        do from = next_judged(from, &was);
        while (from && strcmp(was.name, worse->name));
        if (from && worse->excess > fmax(was.excess, 1) * (1 + 1e-9)) return 1;
    }
    return 0;
}

/* Checks a problem, and again once it is mended if `mend`. Returns the text that is promised, to be freed; NULL: there
 * is no promise. */
static char *promised(tally *t, fixture *f, const char *text, int mend, verdict *v)
{
    t->drawn++;
    *v = check_text(f, text);
    char *is = strdup(text);
    if (!v->applies && mend) {
        judged worse;
        char *before = v->json;
        free(is);
        is = mended(f, text);
        *v = check_text(f, is);
        t->mended += v->applies;
        t->left += !v->applies;
        if (farther(before, v->json, &worse)) tally_add(t, &t->untrue, t->drawn, is, worse.name);
        free(before);
    }
    t->yes += v->applies;
    if (v->applies) return is;
    free(is);
    return NULL;
}

/* Numbers of `key` in a section of a text in block style, at most n; one number stands for all. Returns whether there
 * are any. */
UNUSED static int numbers(const char *text, const char *section, const char *key, double *out, size_t n)
{
    char want[80];
    snprintf(want, sizeof want, "\n%s:", section);
    const char *at = strstr(text, want), *end;
    if (!at) return 0;
    for (end = at + 1; (end = strchr(end, '\n')) && (end[1] == ' ' || end[1] == '#'); end++) {
    }
    snprintf(want, sizeof want, "\n  %s: ", key);
    const char *line = strstr(at, want);
    if (!line || (end && line > end)) return 0;
    line += strlen(want) + strspn(line + strlen(want), "[\"");
    for (size_t i = 0; i < n; i++) {
        char *next;
        out[i] = strtod(line, &next);
        if (next == line) {
            if (!i) return 0;
            out[i] = out[i - 1];
        } else
            line = next + strspn(next, ", ");
    }
    return 1;
}

UNUSED static double number(const char *text, const char *section, const char *key, double otherwise)
{
    double v;
    return numbers(text, section, key, &v, 1) ? v : otherwise;
}

/* Clients per round of a text whose participation is everyone or uniform. */
UNUSED static size_t cohort_of(const char *text, size_t clients)
{
    double count = number(text, "participation", "count", 0), share = number(text, "participation", "fraction", 0.1);
    if (strstr(text, "kind: everyone")) return clients;
    return count > 0 ? (size_t)count : (size_t)fmax(1, floor(share * (double)clients + 0.5));
}

/* ---- runs ------------------------------------------------------------------------------------------------ */

/* A run of the text with more settings, separated by ';'. NULL: it diverged. */
static fl_run *run_text(fixture *f, const char *text, const char *more)
{
    char copy[2000], *save = NULL;
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_text(cfg, text, "the problem"));
    snprintf(copy, sizeof copy, "%s", more);
    for (char *a = strtok_r(copy, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    if (fl_run_new(cfg, &run)) fail_msg("%s\n%s\n%s", fl_ctx_error(f->ctx), more, text);
    fl_config_free(cfg);
    fl_status s = fl_run_go(run, NULL, NULL);
    if (s && s != FL_EDIVERGED) fail_msg("%s\n%s", fl_ctx_error(f->ctx), text);
    fli_clear(f->ctx);
    if (!s) return run;
    fl_run_free(run);
    return NULL;
}

/* What a run is held to: its potential never rises from row `after` on, and where `gap` is a column, the sum of that
 * from there to the end, or of its squares, is at most `factor` times what the potential has lost. */
typedef struct {
    size_t after;
    const char *gap;
    int squared;
    double factor;
} promise;

/* The first row that breaks the promise; 0: none does. */
static size_t broken_at(tally *t, const fl_row *rows, size_t n, const promise *p)
{
    double sum = 0, first = fl_row_get(&rows[p->after], "potential");
    for (size_t i = p->after + 1; i < n; i++) {
        double gap = p->gap ? fl_row_get(&rows[i - 1], p->gap) : 0, now = fl_row_get(&rows[i], "potential");
        sum += p->squared ? gap * gap : gap;
        if (tally_rise(t, fl_row_get(&rows[i - 1], "potential"), now)) return i;
        if (p->gap && !(sum <= p->factor * (first - now + 1e-9 * fabs(first)))) return i;
    }
    return 0;
}

/* Runs a text and holds it to that. `more` settings are separated by ';'. */
UNUSED static void hold(tally *t, fixture *f, size_t problem, const char *text, const char *more, const promise *p)
{
    const fl_row *rows;
    char why[300];
    snprintf(why, sizeof why, "metrics.potential=true;%s", more);
    fl_run *run = run_text(f, text, why);
    t->runs++;
    if (!run) {
        tally_add(t, &t->broken, problem, text, "the run diverges");
        return;
    }
    size_t n = fl_run_rows(run, &rows), at = broken_at(t, rows, n, p);
    if (at) {
        snprintf(why, sizeof why, "the potential rises, or falls less than promised, in round %zu, from %.10g to %.10g",
                 at, fl_row_get(&rows[at - 1], "potential"), fl_row_get(&rows[at], "potential"));
        tally_add(t, &t->broken, problem, text, why);
    }
    fl_run_free(run);
}

#endif
