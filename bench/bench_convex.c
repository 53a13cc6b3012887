/* Convex problems: federated methods against second-order methods on the pooled data.
 *     bench_convex [--data DIR] [--seconds S]
 *
 * One rule for all: f(x) - f* <= 1e-9 (1 + |f*|), with f* from Newton to the end of double precision. The gradient rule
 * of [GiA], ||grad f||^2 <= n 1e-9, means a different distance from the optimum for every scaling of the data, so it
 * does not suit all problems. Testing the rule and loading the data are not timed.
 *
 * All clients have the same number of samples, so that the mean over clients is the mean over samples and all methods
 * minimise the same f. `alike`: samples are dealt at random. `skewed`: sorted by label (regression: by the size of the
 * features) and dealt in that order, so that nearly every client has one label only.
 *
 * Each federated method has a few settings (step sizes, penalties); a short run of each finds the best, which is timed,
 * for at most 2000 rounds or S seconds. One thread does all work, one client after another, and seconds are processor
 * time, which other work on the machine changes little. */
#include "pooled.h"
#include "config/config.h"
#include "run/state.h"
#include "solve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 64, ROUNDS = 2000, SCOUT_ROUNDS = 200, REPEATS = 5, MOST_STEPS = 8192, MOST_PROBLEMS = 8 };
static const double gap_asked = 1e-9, scout_share = 1.0 / 15, long_enough = 0.3;

typedef struct {
    const char *name, *data, *model; /* the settings of these names */
    double wd;
    int skewed;
} problem;

typedef struct {
    int reached;
    size_t rounds;
    double bytes, seconds, gap;
} result;

/* A problem that is loaded and solved. */
typedef struct {
    fl_ctx *ctx;
    const problem *p;
    fli_plan data;
    pooled all;
    double *x;
    double best, enough; /* f*, and the value to reach */
    double smoothness;
    result newton, federated; /* federated: the fastest that reached the value */
    const char *fastest;
} bench;

static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* ---- clients ------------------------------------------------------------------------------------------- */

typedef struct {
    double key;
    uint32_t index;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static fl_status sort_samples(fl_ctx *ctx, fli_fed *fed)
{
    keyed *k = fli_alloc(ctx, fed->samples, sizeof *k);
    double *row = fli_alloc(ctx, fed->dim, sizeof *row);
    for (size_t i = 0; k && row && i < fed->samples; i++) {
        k[i].index = fed->part.index[i];
        if (fed->train->label) {
            k[i].key = fed->train->label[k[i].index];
            continue;
        }
        fli_dataset_row(fed->train, k[i].index, row);
        for (size_t j = 0; j < fed->dim; j++) k[i].key += row[j] * row[j];
    }
    int done = k && row;
    if (done) qsort(k, fed->samples, sizeof *k, by_key);
    for (size_t i = 0; done && i < fed->samples; i++) fed->part.index[i] = k[i].index;
    fli_free(k);
    fli_free(row);
    return done ? FL_OK : FL_ENOMEM;
}

/* Reduces every client to the size of the smallest. */
static fl_status level(fl_ctx *ctx, fli_fed *fed, int skewed)
{
    fli_partition *part = &fed->part;
    size_t each = SIZE_MAX;
    for (size_t i = 0; i < part->clients; i++) {
        size_t n = part->start[i + 1] - part->start[i];
        each = n < each ? n : each;
    }
    for (size_t i = 0; i < part->clients; i++) {
        memmove(part->index + i * each, part->index + part->start[i], each * sizeof *part->index);
        part->start[i] = i * each;
    }
    part->start[part->clients] = fed->samples = part->clients * each;
    fed->largest = each;
    return skewed ? sort_samples(ctx, fed) : FL_OK;
}

/* ---- the pooled data ----------------------------------------------------------------------------------- */

static void time_newton(bench *b)
{
    double total = 0, value;
    b->newton = (result){.bytes = b->all.bytes, .seconds = INFINITY};
    for (size_t i = 0; i < REPEATS && total < long_enough; i++) {
        double begin = now(), took;
        b->newton.rounds = pooled_newton(&b->all, b->enough, b->x, &value);
        took = now() - begin;
        b->newton.seconds = fmin(b->newton.seconds, took);
        total += took;
    }
    b->newton.gap = value - b->best;
    b->newton.reached = value <= b->enough;
}

/* The library's L-BFGS for this many gradients, from zero; *value: f at the end. */
static fl_status descend(bench *b, solving *w, const fli_view *v, size_t gradients, double *value, double *seconds)
{
    fl_answer a;
    memset(b->x, 0, b->all.k * sizeof *b->x);
    fl_problem p = {.start = b->x, .stop.most_steps = gradients};
    double begin = now();
    fl_status s = solving_solve(b->ctx, w, v, &p, NULL, NULL, &a);
    *seconds = now() - begin;
    if (!s) *value = pooled_value(&b->all, a.z);
    return s;
}

/* The smallest sufficient number of gradients, by bisection, because the solver does not know f*. */
static fl_status time_descent(bench *b, solving *w, const fli_view *v, result *r)
{
    size_t low = 0, high = 16;
    double value = INFINITY, seconds = 0, total = 0;
    fl_status s = FL_OK;
    while (!s && !(s = descend(b, w, v, high, &value, &seconds)) && value > b->enough && high < MOST_STEPS) {
        low = high;
        high *= 2;
    }
    *r = (result){.reached = value <= b->enough, .bytes = b->all.bytes, .seconds = INFINITY};
    while (!s && r->reached && high - low > 1) {
        size_t middle = (low + high) / 2;
        if (!(s = descend(b, w, v, middle, &value, &seconds))) *(value <= b->enough ? &high : &low) = middle;
    }
    for (size_t i = 0; i < REPEATS && total < long_enough && !s; i++, total += seconds) {
        s = descend(b, w, v, high, &value, &seconds);
        r->seconds = fmin(r->seconds, seconds);
    }
    r->rounds = high;
    r->gap = value - b->best;
    return s;
}

static fl_status lbfgs(bench *b, result *r)
{
    const fli_model_desc *d = fli_model_list[0];
    for (size_t i = 0; strcmp(d->name, b->p->model); i++) d = fli_model_list[i];
    fli_fed *fed = b->data.fed;
    fli_view v = {.ds = fed->train, .train = fed->part.index, .n_train = fed->samples}; /* a client with all samples */
    fli_model *m = NULL;
    solving w = {0};
    fl_status s = fli_model_new(b->ctx, d, NULL, &fli_ops_f64, fed->dim, fed->classes, b->p->wd, &m);
    if (s) return s;
    fli_model_expect(m, fli_dataset_sparse(fed->train));
    s = solving_init(b->ctx, &fli_solver_accurate, m, &(fli_sgd_spec){0}, fed->samples, &w);
    if (!s) s = time_descent(b, &w, &v, r);
    solving_fini(&w);
    fli_model_free(m);
    return s;
}

/* ---- federations --------------------------------------------------------------------------------------- */

enum { SETTINGS = 6 };

typedef struct {
    const char *label;
    const char *model;    /* the only model it supports; NULL: any */
    const char *fixed[3]; /* NULL-terminated */
    int of_smoothness;    /* multiples: 1: of 1/L, L being the largest curvature of f; 0: of 1 */
    struct {
        const char *text; /* with a place for a number */
        double multiple;
    } setting[SETTINGS];
} method;

#define HALF     "participation={kind: uniform, fraction: 0.5}"
#define EVERYONE "participation=everyone"
#define GIA(variant)                                                                                                   \
    {                                                                                                                  \
        {"algorithm={kind: fedgia, variant: " variant ", k0: 5, t: %}", 0.05},                                         \
            {"algorithm={kind: fedgia, variant: " variant ", k0: 5, t: %}", 0.1},                                      \
            {"algorithm={kind: fedgia, variant: " variant ", k0: 5, t: %}", 0.2},                                      \
            {"algorithm={kind: fedgia, variant: " variant ", k0: 5, t: %}", 0.4},                                      \
            {"algorithm={kind: fedgia, variant: " variant ", k0: 5, t: %}", 0.8},                                      \
        {                                                                                                              \
            "algorithm={kind: fedgia, variant: " variant ", k0: 5, t: %}", 1.6                                         \
        }                                                                                                              \
    }
#define DR(rest)                                                                                                       \
    {                                                                                                                  \
        {"algorithm={kind: feddr, alpha: 1, " rest ", eta: %}", 3},                                                    \
            {"algorithm={kind: feddr, alpha: 1, " rest ", eta: %}", 30},                                               \
            {"algorithm={kind: feddr, alpha: 1, " rest ", eta: %}", 300},                                              \
            {"algorithm={kind: feddr, alpha: 1.95, " rest ", eta: %}", 3},                                             \
            {"algorithm={kind: feddr, alpha: 1.95, " rest ", eta: %}", 30},                                            \
        {                                                                                                              \
            "algorithm={kind: feddr, alpha: 1.95, " rest ", eta: %}", 300                                              \
        }                                                                                                              \
    }

static const method methods[] = {
    {"FedGiA gram", NULL, {HALF}, 0, GIA("gram")},
    {"FedGiA diagonal", NULL, {HALF}, 0, GIA("diagonal")},
    {"FedAvg",
     NULL,
     {EVERYONE, "algorithm=fedavg"},
     1,
     {{"local={batch: 0, steps: 1, lr: %}", 1},
      {"local={batch: 0, steps: 1, lr: %}", 1.5},
      {"local={batch: 0, steps: 1, lr: %}", 1.9},
      {"local={batch: 0, steps: 10, lr: %}", 0.1},
      {"local={batch: 0, steps: 10, lr: %}", 0.3},
      {"local={batch: 0, steps: 10, lr: %}", 1}}},
    {"SCAFFOLD",
     NULL,
     {EVERYONE, "algorithm=scaffold"},
     1,
     {{"local={batch: 0, steps: 10, lr: %}", 0.1},
      {"local={batch: 0, steps: 10, lr: %}", 0.3},
      {"local={batch: 0, steps: 10, lr: %}", 0.6},
      {"local={batch: 0, steps: 10, lr: %}", 1},
      {"local={batch: 0, steps: 30, lr: %}", 0.3},
      {"local={batch: 0, steps: 30, lr: %}", 1}}},
    {"FedDR exact", "least_squares", {EVERYONE}, 1, DR("solver: exact")},
    {"FedDR accurate", "logistic", {EVERYONE}, 1, DR("solver: accurate, relative: 0.1")},
};
enum { METHODS = sizeof methods / sizeof *methods };

/* The limits of a run, and whether its distance from f* is computed. */
typedef struct {
    size_t rounds;
    double seconds;
    int measured;
} effort;

/* The setting's own number in its place. */
static fl_status set_number(const bench *b, const method *m, size_t setting, fl_config *cfg)
{
    char text[256];
    double value = m->setting[setting].multiple / (m->of_smoothness ? b->smoothness : 1);
    const char *format = m->setting[setting].text, *place = strchr(format, '%');
    snprintf(text, sizeof text, "%.*s%.17g%s", (int)(place - format), format, value, place + 1);
    return fl_config_set(cfg, text);
}

static fl_status configure(const bench *b, const method *m, const effort *e, fl_config *cfg)
{
    char partition[64], model[128], rounds[64], metrics[128];
    snprintf(partition, sizeof partition, "partition={kind: iid, clients: %d}", CLIENTS);
    snprintf(model, sizeof model, "model={kind: %s, weight_decay: %.17g}", b->p->model, b->p->wd);
    snprintf(rounds, sizeof rounds, "rounds=%zu", e->rounds);
    snprintf(metrics, sizeof metrics, "metrics={every: 1, test: false, train: %s, clients: false}",
             e->measured ? "true" : "false");
    const char *const all[] = {"threads=1", "precision=f64", "weights=uniform", b->p->data, partition, model,
                               rounds,      metrics};
    fl_status s = FL_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !s; i++) s = fl_config_set(cfg, all[i]);
    for (size_t i = 0; m && m->fixed[i] && !s; i++) s = fl_config_set(cfg, m->fixed[i]);
    return s;
}

typedef struct {
    const bench *b;
    fl_run *run;
    double until;
    result r;
} watch;

static void look(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    watch *w = arg;
    (void)run;
    if (!measured || w->r.reached) return;
    w->r.gap = fl_row_get(row, "train_loss") - w->b->best;
    w->r.rounds = fl_row_round(row);
    w->r.bytes = fl_row_get(row, "bytes_up") + fl_row_get(row, "bytes_down");
    w->r.reached = fl_row_get(row, "train_loss") <= w->b->enough;
    if (w->r.reached || now() > w->until) fl_run_stop(w->run);
}

/* A diverged run is a result, too. */
static fl_status federate(bench *b, const method *m, size_t setting, const effort *e, result *r)
{
    fl_config *cfg = fl_config_new(b->ctx);
    watch w = {.b = b};
    fl_status s = cfg ? configure(b, m, e, cfg) : FL_ENOMEM;
    if (!s) s = set_number(b, m, setting, cfg);
    if (!s) s = fli_run_new(cfg, &b->data, &w.run);
    double begin = now();
    w.until = begin + e->seconds;
    if (!s) s = fl_run_go(w.run, e->measured ? look : NULL, &w);
    w.r.seconds = now() - begin;
    fl_run_free(w.run);
    fl_config_free(cfg);
    if (s == FL_EDIVERGED) w.r.gap = INFINITY;
    *r = w.r;
    return s == FL_EDIVERGED ? FL_OK : s;
}

/* Runs that reach the value come before those that do not; then fewer rounds; then the smaller distance. */
static int better(const result *a, const result *b)
{
    if (a->reached != b->reached) return a->reached;
    return a->reached ? a->rounds < b->rounds : a->gap < b->gap;
}

/* Finds the best setting by short runs, then its number of rounds, and then times these rounds without computing f. */
static fl_status best_of(bench *b, const method *m, double seconds, result *r)
{
    effort brief = {SCOUT_ROUNDS, seconds * scout_share, 1}, whole = {ROUNDS, seconds, 1},
           timed = {.seconds = INFINITY};
    result one, leader = {.gap = INFINITY};
    size_t chosen = 0;
    double total = 0;
    fl_status s = FL_OK;
    for (size_t i = 0; i < SETTINGS && !s; i++) {
        s = federate(b, m, i, &brief, &one);
        if (s || !better(&one, &leader)) continue;
        leader = one;
        chosen = i;
    }
    *r = leader;
    if (!s && !leader.reached) s = federate(b, m, chosen, &whole, r);
    timed.rounds = r->rounds;
    if (!r->reached) return s;
    for (size_t i = 0; i < REPEATS && total < long_enough && !s; i++, total += one.seconds) {
        s = federate(b, m, chosen, &timed, &one);
        r->seconds = i ? fmin(r->seconds, one.seconds) : one.seconds;
    }
    return s;
}

/* ---- a problem ----------------------------------------------------------------------------------------- */

static void print(const bench *b, const char *label, const result *r)
{
    printf("  %-17s %6zu %9.2f %9.4f %8.1f   ", label, r->rounds, r->bytes / 1e6, r->seconds,
           r->seconds / b->newton.seconds);
    if (r->reached)
        printf("yes\n");
    else
        printf("no, %.0e off\n", r->gap / (1 + fabs(b->best)));
    fflush(stdout);
}

static fl_status prepare(bench *b)
{
    fl_config *cfg = fl_config_new(b->ctx);
    fl_status s = cfg ? configure(b, NULL, &(effort){.rounds = 1}, cfg) : FL_ENOMEM;
    if (!s) s = fli_plan_data(cfg, NULL, &b->data);
    if (!s) s = level(b->ctx, b->data.fed, b->p->skewed);
    if (!s) s = pooled_init(b->ctx, b->data.fed, b->p->wd, &b->all);
    if (!s && !(b->x = fli_alloc(b->ctx, b->all.k, sizeof *b->x))) s = FL_ENOMEM;
    fl_config_free(cfg);
    return s;
}

static fl_status solve(bench *b, double seconds)
{
    result r;
    fl_status s = prepare(b);
    if (s) return s;
    pooled_newton(&b->all, -INFINITY, b->x, &b->best);
    b->enough = b->best + gap_asked * (1 + fabs(b->best));
    b->smoothness = pooled_smoothness(&b->all);
    printf("%s, %s: %d clients of %zu samples, %zu features%s; f* = %.4f, L = %.3g, weight decay %g\n", b->p->name,
           b->p->skewed ? "skewed" : "alike", CLIENTS, b->data.fed->largest, b->all.k, b->all.col ? ", sparse" : "",
           b->best, b->smoothness, b->p->wd);
    printf("  method            rounds        MB   seconds  x Newton  reached\n");
    time_newton(b);
    print(b, "pooled Newton", &b->newton);
    if ((s = lbfgs(b, &r))) return s;
    print(b, "pooled L-BFGS", &r);
    for (size_t i = 0; i < METHODS && !s; i++) {
        if (methods[i].model && strcmp(methods[i].model, b->p->model)) continue;
        if ((s = best_of(b, &methods[i], seconds, &r))) break;
        print(b, methods[i].label, &r);
        if (!r.reached || (b->fastest && r.seconds >= b->federated.seconds)) continue;
        b->federated = r;
        b->fastest = methods[i].label;
    }
    printf("\n");
    return s;
}

/* ---- the summary --------------------------------------------------------------------------------------- */

/* Names of the problems for which `holds` is set, as a list. */
static void name_them(const bench *b, size_t n, const int *holds)
{
    const char *between = "";
    for (size_t i = 0; i < n; i++) {
        if (!holds[i]) continue;
        printf("%s%s %s", between, b[i].p->name, b[i].p->skewed ? "skewed" : "alike");
        between = ", ";
    }
    if (!*between) printf("none");
}

static void conclude(const bench *b, size_t n)
{
    int cheap[MOST_PROBLEMS], dear[MOST_PROBLEMS], never[MOST_PROBLEMS], light[MOST_PROBLEMS];
    double most = 1;
    for (size_t i = 0; i < n; i++) {
        double ratio = b[i].fastest ? b[i].federated.seconds / b[i].newton.seconds : INFINITY;
        never[i] = !b[i].fastest;
        cheap[i] = ratio <= 2;
        dear[i] = !never[i] && !cheap[i];
        light[i] = b[i].fastest && b[i].federated.bytes <= b[i].newton.bytes;
        if (dear[i]) most = fmax(most, ratio);
    }
    printf("Leaving the data where they are costs at most twice the work of Newton on the pooled data for: ");
    name_them(b, n, cheap);
    printf(". It costs more, up to %.0f times as much, for: ", most);
    name_them(b, n, dear);
    printf("; and no federated method arrives for: ");
    name_them(b, n, never);
    printf(".\nThe fastest federated method moves less than the samples themselves weigh for: ");
    name_them(b, n, light);
    printf(".\nSkewed clients change the fastest method's rounds:");
    for (size_t i = 0; i + 1 < n; i += 2)
        printf("%s %s from %.0f (%s) to %.0f (%s)", i ? ";" : "", b[i].p->name,
               b[i].fastest ? (double)b[i].federated.rounds : INFINITY, b[i].fastest ? b[i].fastest : "none",
               b[i + 1].fastest ? (double)b[i + 1].federated.rounds : INFINITY,
               b[i + 1].fastest ? b[i + 1].fastest : "none");
    printf(".\n");
}

/* A binary problem in LIBSVM's format: ten of 200 features a sample, some far more common than others, labels from a
 * logistic model. */
static int write_sparse(FILE *f)
{
    enum { FEATURES = 200, SAMPLES = 100 * CLIENTS };
    double weight[FEATURES];
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t j = 0; j < FEATURES; j++) weight[j] = fli_rng_normal(&r);
    for (size_t i = 0; i < SAMPLES; i++) {
        unsigned char has[FEATURES] = {0};
        double z = 0;
        for (size_t e = 0; e < 10; e++) {
            double u = fli_rng_uniform(&r);
            has[(size_t)(u * u * FEATURES)] = 1;
        }
        for (size_t j = 0; j < FEATURES; j++) z += has[j] * weight[j];
        fprintf(f, "%d", fli_rng_uniform(&r) < 1 / (1 + exp(-z)));
        for (size_t j = 0; j < FEATURES; j++)
            if (has[j]) fprintf(f, " %zu:1", j + 1);
        fprintf(f, "\n");
    }
    return fclose(f) ? -1 : 0;
}

static int run_all(const problem *p, size_t n, double seconds)
{
    static bench b[MOST_PROBLEMS];
    fl_status s = FL_OK;
    for (size_t i = 0; i < n && !s; i++) {
        b[i] = (bench){.ctx = fl_ctx_new(), .p = &p[i]};
        s = b[i].ctx ? solve(&b[i], seconds) : FL_ENOMEM;
        if (s) fprintf(stderr, "bench: %s\n", b[i].ctx ? fl_ctx_error(b[i].ctx) : fl_status_text(s));
        pooled_fini(&b[i].all);
        fli_plan_fini(&b[i].data);
        fli_free(b[i].x);
        fl_ctx_free(b[i].ctx);
    }
    if (!s) conclude(b, n);
    return s != FL_OK;
}

int main(int argc, char **argv)
{
    char sparse[64] = "/tmp/bench_convex.XXXXXX", text[3][512];
    const char *dir = getenv("FEDLOOM_DATA");
    double seconds = 15;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--data")) dir = argv[i + 1];
        if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
    }
    int fd = mkstemp(sparse);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f || write_sparse(f)) return perror("bench"), 1;
    snprintf(text[0], sizeof text[0], "data={kind: libsvm, train: '%s'}", sparse);
    snprintf(text[1], sizeof text[1], "data={kind: libsvm, train: '%s/libsvm/a9a'}", dir ? dir : "");
    snprintf(text[2], sizeof text[2], "data={kind: csv, separator: semicolon, train: '%s/qsar/qsar_oral_toxicity.zip'}",
             dir ? dir : "");
    problem p[MOST_PROBLEMS];
    static const char linear[] = "data={kind: linreg, clients: 64, features: 100, min_size: 100, max_size: 100}";
    for (int k = 0; k < MOST_PROBLEMS; k++) {
        p[k] = k < 2   ? (problem){"[GiA] Example V.1", linear, "least_squares", 0, k % 2}
               : k < 4 ? (problem){"sparse logistic", text[0], "logistic", 1e-3, k % 2}
               : k < 6 ? (problem){"a9a", text[1], "logistic", 1e-3, k % 2}
                       : (problem){"QSAR", text[2], "logistic", 1e-3, k % 2};
    }
    int failed = run_all(p, dir ? MOST_PROBLEMS : 4, seconds);
    unlink(sparse);
    return failed;
}
