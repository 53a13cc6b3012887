/* What the engine's tests share: a context with a folder of its own, files, configurations, small federations in
 * memory, and an executor on top of them. */
#ifndef TESTS_FIXTURE_H
#define TESTS_FIXTURE_H

#include "check.h"

#include "data/federation/federation.h"
#include "engine/engine.h"
#include "message/exchange.h"
#include "model/semi.h"

#include <ftw.h>

#define UNUSED __attribute__((unused))

/* ---- a context and a folder per test ------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    char folder[64];
    char path[512]; /* of the last fixture_path */
} fixture;

UNUSED static int fixture_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const char *tmp = getenv("TMPDIR");
    f->ctx = fl_ctx_new();
    snprintf(f->folder, sizeof f->folder, "%s/fedloom-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    *state = f;
    return f->ctx && mkdtemp(f->folder) ? 0 : -1;
}

UNUSED static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

UNUSED static int fixture_down(void **state)
{
    fixture *f = *state;
    nftw(f->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    fl_ctx_free(f->ctx);
    free(f);
    return 0;
}

#define FIXTURE_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_up, fixture_down)

/* A name in the test's folder; valid until the next call. */
UNUSED static const char *fixture_path(fixture *f, const char *name)
{
    snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
    return f->path;
}

/* Writes a file and returns its path. */
UNUSED static const char *fixture_write(fixture *f, const char *name, const char *text)
{
    FILE *out = fopen(fixture_path(f, name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    assert_int_equal(fclose(out), 0);
    return f->path;
}

/* The whole file, terminated; to be freed. NULL if there is none. */
UNUSED static char *read_whole(const char *path, size_t *size)
{
    FILE *in = fopen(path, "rb");
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room);
    if (!in) {
        free(text);
        return NULL;
    }
    for (size_t got; (got = fread(text + n, 1, room - 1 - n, in));) {
        n += got;
        if (n + 1 == room) text = realloc(text, room *= 2);
    }
    fclose(in);
    text[n] = 0;
    if (size) *size = n;
    return text;
}

/* fl_text_fn: appends to a growing string; start with a zeroed one, free `s`. */
typedef struct {
    char *s;
    size_t n;
} collected;

UNUSED static void collect_text(void *arg, const char *text)
{
    collected *c = arg;
    size_t more = strlen(text);
    c->s = realloc(c->s, c->n + more + 1);
    memcpy(c->s + c->n, text, more + 1);
    c->n += more;
}

/* The same, in the place of what was there before. */
UNUSED static void keep_text(void *arg, const char *text)
{
    ((collected *)arg)->n = 0;
    collect_text(arg, text);
}

/* A configuration from YAML text, read from a file called `name`. */
UNUSED static fl_config *fixture_config_named(fixture *f, const char *name, const char *yaml)
{
    fl_config *cfg = fl_config_new(f->ctx);
    assert_non_null(cfg);
    assert_ok(f->ctx, fl_config_load(cfg, fixture_write(f, name, yaml)));
    return cfg;
}

UNUSED static fl_config *fixture_config(fixture *f, const char *yaml)
{
    return fixture_config_named(f, "config.yaml", yaml);
}

/* ---- parameters ---------------------------------------------------------------------------------------- */

/* Binds "key=value;key=value" through a table ("": all defaults; a list is written [a, b]). The struct lives in the
 * arena. */
UNUSED static const void *bound(fl_ctx *ctx, fli_arena *a, const fl_key *keys, size_t size, const char *settings)
{
    fli_node *map = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
        char *value = strchr(p, '=');
        assert_non_null(value);
        *value++ = 0;
        fli_node *n = fli_node_new(a, *value == '[' ? FLI_NODE_LIST : FLI_NODE_SCALAR, p, *value == '[' ? NULL : value);
        if (*value == '[') {
            char *in = NULL;
            for (char *q = strtok_r(value, "[,] ", &in); q; q = strtok_r(NULL, "[,] ", &in))
                fli_node_append(n, fli_node_new(a, FLI_NODE_SCALAR, NULL, q));
        }
        fli_node_append(map, n);
    }
    void *out = fli_arena_alloc(a, 1, size + 1);
    assert_non_null(out);
    assert_ok(ctx, fli_bind(ctx, a, "params", map, NULL, &(fli_table){keys, out}, 1));
    return out;
}

/* ---- federations in memory ----------------------------------------------------------------------------- */

/* Clients of the given sizes with normal features. Regression (classes 0): targets from a linear model of the client's
 * own, plus noise. Classification: labels from the largest of `classes` shifted features, so that clients differ in
 * their label mix. */
UNUSED static fli_fed *random_fed(fl_ctx *ctx, size_t clients, const size_t *size, size_t dim, size_t classes,
                                  uint64_t seed)
{
    fli_dataset *ds = NULL;
    fli_fed *fed = NULL;
    fli_partition part = {.clients = clients};
    fli_rng r;
    size_t n = 0, at = 0;
    for (size_t i = 0; i < clients; i++) n += size[i];
    part.start = fli_alloc(ctx, clients + 1, sizeof *part.start);
    part.index = fli_alloc(ctx, n, sizeof *part.index);
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F64, n, dim, classes, &ds));
    for (size_t i = 0; i < clients; i++) {
        double own[64];
        assert_true(dim <= 64 && classes <= dim);
        fli_rng_init(&r, seed, FLI_RNG_TEST, 0, (uint32_t)i);
        for (size_t j = 0; j < dim; j++) own[j] = fli_rng_normal(&r);
        part.start[i] = at;
        for (size_t k = 0; k < size[i]; k++, at++) {
            double *x = (double *)ds->x + at * dim, y = 0;
            size_t best = 0;
            for (size_t j = 0; j < dim; j++) {
                x[j] = fli_rng_normal(&r);
                y += x[j] * own[j];
                if (j < classes && x[j] + own[j] > x[best] + own[best]) best = j;
            }
            if (classes)
                ds->label[at] = (int32_t)best;
            else
                ds->target[at] = y + 0.1 * fli_rng_normal(&r);
            part.index[at] = (uint32_t)at;
        }
    }
    part.start[clients] = at;
    assert_ok(ctx, fli_fed_take(ctx, ds, NULL, &part, &fed));
    return fed;
}

UNUSED static const fli_model_desc *model_named(const char *name)
{
    for (const fli_model_desc *const *d = fli_model_list; *d; d++)
        if (!strcmp((*d)->name, name)) return *d;
    fail_msg("there is no model %s", name);
    return NULL;
}

UNUSED static const fl_method *algo_named(const char *name)
{
    for (const fl_method *const *a = fli_algo_list; *a; a++)
        if (!strcmp((*a)->name, name)) return *a;
    fail_msg("there is no algorithm %s", name);
    return NULL;
}

/* What a configuration with that model needs on top for methods of two levels: an assignment after ';', or nothing. */
UNUSED static const char *levels_for(const fl_method *a, const char *model)
{
    if (!(a->traits & FL_METHOD_BILEVEL)) return "";
    return strstr(model, "mlp") ? ";bilevel=hyper_representation;model.weight_decay=0;local.momentum=0"
                                : ";bilevel={kind: regularization, validation: 0};model.weight_decay=0";
}

/* ---- a federation with an executor --------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_fed *fed;
    fli_model *model;
    fli_semi semi;
    fli_setup setup;
    fli_exec *exec;
    uint32_t *everyone;
    size_t *steps; /* one per client */
    size_t round;
} engine;

/* With uniform weights, and a seed; what else there is may be added. */
UNUSED static fli_setup setup_of(const fli_model *model, const fli_fed *fed, const fl_method *algo, const void *params)
{
    return (fli_setup){.model = model,
                       .algo = algo,
                       .params = params,
                       .solvers = fli_algo_solvers(algo, params, model, NULL),
                       .fed = fed,
                       .clients = fed->clients,
                       .classes = fed->classes,
                       .seed = 7,
                       .uniform = 1};
}

/* In the place of the method's own; without any, those. */
UNUSED static fli_solvers engine_solvers;

/* Takes the federation. Uniform client weights if the method or `uniform` asks for them. With pseudo labels as `semi`
 * says. */
UNUSED static void engine_init_semi(engine *e, fl_ctx *ctx, fli_fed *fed, const char *model, const fli_ops *ops,
                                    double weight_decay, const fli_semi *semi, const fl_method *algo,
                                    const char *params, int uniform, fli_sgd_spec sgd, size_t threads)
{
    const fli_model_desc *d = model_named(model);
    memset(e, 0, sizeof *e);
    e->ctx = ctx;
    e->fed = fed;
    e->semi = *semi;
    fli_arena_init(&e->arena, ctx);
    const void *mp = bound(ctx, &e->arena, d->keys, d->params_size, strcmp(model, "mlp") ? "" : "hidden=[5]");
    assert_ok(ctx, fli_model_new(ctx, d, mp, ops, fed->dim, fed->classes, weight_decay, &e->model));
    assert_ok(ctx, fli_model_use_semi(ctx, e->model, &e->semi));
    e->setup = setup_of(e->model, fed, algo, bound(ctx, &e->arena, algo->keys, algo->params_size, params));
    e->setup.uniform = uniform || algo->traits & FL_METHOD_UNIFORM;
    e->setup.sgd = sgd;
    if (engine_solvers.count) e->setup.solvers = engine_solvers;
    e->setup.measure_potential = algo->theory.potential.name != NULL;
    fli_exec_spec spec = {.setup = &e->setup, .threads = threads};
    assert_ok(ctx, fli_exec_new(ctx, &spec, &e->exec));
    assert_ok(ctx, fli_model_start(ctx, e->model, 7, fli_exec_server(e->exec)[0]));
    e->everyone = fli_alloc(ctx, fed->clients, sizeof *e->everyone);
    e->steps = fli_alloc(ctx, fed->clients, sizeof *e->steps);
    for (size_t i = 0; i < fed->clients; i++) e->everyone[i] = (uint32_t)i;
    for (size_t i = 0; i < fed->clients; i++) e->steps[i] = 1;
}

UNUSED static void engine_init(engine *e, fl_ctx *ctx, fli_fed *fed, const char *model, const fli_ops *ops,
                               double weight_decay, const fl_method *algo, const char *params, int uniform,
                               fli_sgd_spec sgd, size_t threads)
{
    fli_semi none = {.labels = FLI_SEMI_NONE};
    engine_init_semi(e, ctx, fed, model, ops, weight_decay, &none, algo, params, uniform, sgd, threads);
}

UNUSED static void engine_fini(engine *e)
{
    fli_free(e->everyone);
    fli_free(e->steps);
    fli_exec_free(e->exec);
    fli_model_free(e->model);
    fli_fed_free(e->fed);
    fli_arena_fini(&e->arena);
}

/* What a round asks of the given cohort, every client taking its number of steps. */
UNUSED static void engine_ask(engine *e, size_t round, const uint32_t *clients, size_t count, double lr, size_t phases,
                              int warm_up, uint32_t flags)
{
    fl_ask asks[256];
    assert_true(count <= 256);
    for (size_t i = 0; i < count; i++)
        asks[i] = (fl_ask){.client = clients[i],
                           .stream = round,
                           .steps = e->steps[clients[i]],
                           .lr = lr,
                           .probability = (double)count / (double)e->fed->clients};
    fli_round r = {.round = round, .flags = flags, .warm_up = warm_up, .asks = asks, .count = count, .phases = phases};
    assert_ok(e->ctx, fli_exec_round(e->exec, &r));
}

/* One round in which everything is exchanged. */
UNUSED static void engine_round(engine *e, const uint32_t *clients, size_t count, double lr)
{
    const fli_setup *s = fli_exec_setup(e->exec);
    size_t phases = fli_algo_phases(s->algo, s->params, 0);
    engine_ask(e, e->round++, clients, count, lr, phases, 0, FLI_ASK_HAS_BODY | FLI_ASK_REPLY);
}

/* The turns before the first round, where the method wants them. */
UNUSED static void engine_warm_up(engine *e, double lr)
{
    if (!fli_exec_warms_up(e->exec)) return;
    engine_ask(e, 0, e->everyone, e->fed->clients, lr, 1, 1, FLI_ASK_HAS_BODY | FLI_ASK_REPLY);
}

UNUSED static void engine_rounds(engine *e, size_t rounds, size_t steps, double lr)
{
    for (size_t i = 0; i < e->fed->clients && steps; i++) e->steps[i] = steps;
    for (size_t r = 0; r < rounds; r++) engine_round(e, e->everyone, e->fed->clients, lr);
}

/* The method's potential, if everyone takes part with this step size. */
UNUSED static double engine_potential(engine *e, double lr)
{
    double sum[FL_POTENTIAL_TERMS] = {0}, num[FLI_FIGURES_CLUSTERS_AT];
    fli_server_state *server = fli_exec_server_state(e->exec);
    void *x = fli_exec_server(e->exec)[0];
    fli_server_state_start(server);
    const fli_message *now = fli_server_state_broadcast(server);
    fli_message down = {.vec = &x, .num = now->num, .start = now->start};
    for (uint32_t i = 0; i < e->fed->clients; i++) {
        fli_exchange one = {.ask = {.kind = FLI_ASK_FIGURES,
                                    .client = i,
                                    .round = e->round,
                                    .steps = e->steps[i],
                                    .lr = lr,
                                    .probability = 1,
                                    .flags = FLI_FIGURES_POTENTIAL | FLI_ASK_HAS_BODY | FLI_ASK_REPLY},
                            .down = &down,
                            .up = {.num = num}};
        fli_server_state_address(server, &one.ask);
        fli_exec_run(e->exec, &(fli_exchange *){&one}, 1);
        assert_ok(e->ctx, one.status);
        for (size_t k = 0; k < FL_POTENTIAL_TERMS; k++) sum[k] += one.ask.weight * num[FLI_FIGURES_POTENTIAL_AT + k];
    }
    return fli_server_state_potential(server, sum);
}

/* The server's vector v as doubles; to be freed. */
UNUSED static double *engine_vector(engine *e, size_t v)
{
    double *x = malloc((e->model->space.n + 1) * sizeof *x);
    e->model->space.ops->to_f64(e->model->space.n, fli_exec_server(e->exec)[v], x);
    return x;
}

UNUSED static double distance(size_t n, const double *x, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sqrt(sum);
}

/* ---- small linear algebra, independent of the library's ------------------------------------------------- */

/* Solves the n x n system a x = b in place by elimination with pivoting; the solution is in b. */
UNUSED static void solve_linear(size_t n, double *a, double *b)
{
    for (size_t k = 0; k < n; k++) {
        size_t p = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[p * n + k])) p = i;
        for (size_t j = 0; j < n; j++) {
            double t = a[k * n + j];
            a[k * n + j] = a[p * n + j];
            a[p * n + j] = t;
        }
        double t = b[k];
        b[k] = b[p];
        b[p] = t;
        assert_true(fabs(a[k * n + k]) > 1e-12);
        for (size_t i = 0; i < n; i++) {
            double f = i == k ? 0 : a[i * n + k] / a[k * n + k];
            for (size_t j = k; j < n && f != 0; j++) a[i * n + j] -= f * a[k * n + j];
            b[i] -= f * b[k];
        }
    }
    for (size_t k = 0; k < n; k++) b[k] /= a[k * n + k];
}

/* Hessian h = A'A/d + l2 I (n x n) and q = A'b/d of a client's least squares, so that the gradient is h x - q. */
UNUSED static void client_quadratic(fl_ctx *ctx, const fli_fed *fed, size_t client, double l2, double *h, double *q)
{
    size_t n = fed->dim;
    fli_view v;
    assert_ok(ctx, fli_view_open(ctx, fed, client, &v));
    memset(h, 0, n * n * sizeof *h);
    memset(q, 0, n * sizeof *q);
    for (size_t s = 0; s < v.n_train; s++) {
        double row[64];
        fli_dataset_row(v.ds, v.train[s], row);
        for (size_t i = 0; i < n; i++) {
            q[i] += row[i] * v.ds->target[v.train[s]] / (double)v.n_train;
            for (size_t j = 0; j < n; j++) h[i * n + j] += row[i] * row[j] / (double)v.n_train;
        }
    }
    for (size_t i = 0; i < n; i++) h[i * n + i] += l2;
    fli_view_close(&v);
}

#endif
