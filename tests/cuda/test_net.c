/* Networks on the GPU beside the backend `twin`, which has the CPU's functions: turns, evaluations and outputs of every
 * kind of network, with few rows and lanes at a time as well, so that mini-batches and evaluations come in pieces, and
 * lanes in blocks. */
#include "fixture.h"

#include "cuda/host/net.h"
#include "device/engine.h"

enum { SAMPLES = 60, LANES = 4, MOST_STEPS = 5 };

typedef struct {
    const char *model, *params;
    size_t shape[3], classes;
    int semi;
    /* images of bytes, each by its own scale, as training changes them; crop: from larger ones */
    fli_augment augment;
    size_t crop;
} net_case;

static const net_case cases[] = {
    {"softmax", "", {1, 1, 7}, 3, 1},
    {"logistic", "", {1, 1, 6}, 2, 0},
    {"mlp", "hidden=[6]", {1, 1, 9}, 4, 1},
    {"mlp", "hidden=[5,4]", {1, 1, 8}, 40, 0},
    {"cnn", "layers=conv 3x3 same, pool 2, conv 4x3 pad 1, pool 2, fc 5", {2, 6, 6}, 3, 1},
    {"cnn", "layers=conv 2x3 stride 2 pad 1, conv 3x2", {2, 5, 6}, 3, 0},
    {"cnn", "layers=avgpool 2, conv 3x2, avgpool 2", {2, 7, 7}, 2, 0},
    {"cnn", "layers=conv 3x2, pool 2, pool 2, fc 4", {1, 6, 6}, 3, 0},
    {"softmax", "", {2, 5, 5}, 3, 1, FLI_AUGMENT_CIFAR, 0},
    {"cnn", "layers=conv 3x3 same, pool 2", {2, 4, 4}, 3, 0, FLI_AUGMENT_CROP, 2},
    {"mlp", "hidden=[8,12]", {1, 6, 6}, 3, 0, FLI_AUGMENT_CIFAR, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- a model and data on both ---------------------------------------------------------------------------- */

typedef struct {
    fli_engine *engine;
    fli_engine_net *net;
    fli_engine_data *data;
} side;

enum { TWIN, GPU, SIDES };

/* How it is computed: rows and lanes at a time, at most; 0: as many as it likes. */
typedef struct {
    const fli_ops *ops;
    int tf32;
    uint32_t piece;
    size_t block, many;
    int bytes;    /* samples are stored as bytes */
    int positive; /* vectors have no negative entries */
} way;

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_rng rng;
    const fli_ops *ops;
    double tolerance, small; /* small: vectors are smaller by this, so that wide layers do not run away */
    int positive;
    fli_semi semi;
    fli_model *m;
    fli_dataset *ds;
    side side[SIDES];
} stage;

static void make_bytes(stage *s, const net_case *c)
{
    size_t dim = c->shape[0] * c->shape[1] * c->shape[2];
    assert_ok(s->ctx, fli_dataset_new(s->ctx, FLI_X_U8, SAMPLES, dim, c->classes, &s->ds));
    memcpy(s->ds->shape, c->shape, sizeof s->ds->shape);
    for (size_t i = 0; i < SAMPLES; i++) s->ds->label[i] = (int32_t)fli_rng_below(&s->rng, c->classes);
    for (size_t i = 0; i < SAMPLES * dim; i++) ((uint8_t *)s->ds->x)[i] = (uint8_t)fli_rng_below(&s->rng, 3);
}

static void make_data(stage *s, const net_case *c)
{
    size_t dim = c->shape[0] * c->shape[1] * c->shape[2];
    fli_xkind kind = s->ops->size == 8 ? FLI_X_F64 : FLI_X_F32;
    double v;
    assert_ok(s->ctx, fli_dataset_new(s->ctx, kind, SAMPLES, dim, c->classes, &s->ds));
    memcpy(s->ds->shape, c->shape, sizeof s->ds->shape);
    for (size_t i = 0; i < SAMPLES; i++) {
        s->ds->label[i] = (int32_t)fli_rng_below(&s->rng, c->classes);
        for (size_t j = 0; j < dim; j++) {
            v = fli_rng_normal(&s->rng);
            s->ops->from_f64(1, &v, fli_at(s->ops, s->ds->x, i * dim + j));
        }
    }
}

/* Stored images are larger by `crop` pixels. */
static void make_images(stage *s, const net_case *c)
{
    size_t edge = c->shape[1] + c->crop, dim = c->shape[0] * edge * edge;
    assert_ok(s->ctx, fli_dataset_new(s->ctx, FLI_X_U8, SAMPLES, dim, c->classes, &s->ds));
    memcpy(s->ds->shape, (size_t[3]){c->shape[0], edge, edge}, sizeof s->ds->shape);
    for (size_t i = 0; i < SAMPLES; i++) s->ds->label[i] = (int32_t)fli_rng_below(&s->rng, c->classes);
    for (size_t i = 0; i < SAMPLES * dim; i++) ((uint8_t *)s->ds->x)[i] = (uint8_t)fli_rng_u32(&s->rng);
    s->ds->each = 1;
    if (c->crop) assert_ok(s->ctx, fli_dataset_crop(s->ctx, c->shape[1], s->ds));
    s->ds->augment = c->augment;
}

static void stage_up(stage *s, fl_ctx *ctx, const net_case *c, const way *w)
{
    static const fli_backend *const backends[SIDES] = {&fli_backend_cpu, &fli_backend_cuda};
    const fli_model_desc *d = model_named(c->model);
    *s = (stage){.ctx = ctx,
                 .ops = w->ops,
                 .small = w->positive ? 0.02
                          : w->many   ? 0.15
                                      : 1,
                 .positive = w->positive,
                 .tolerance = w->ops->size == 8 ? 1e-12
                              : w->tf32         ? 1e-2
                                                : 1e-5,
                 .semi = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = 0.7, .alpha_r = 0.3}};
    fli_arena_init(&s->arena, ctx);
    fli_rng_init(&s->rng, 1, FLI_RNG_TEST, 0, 0);
    (c->augment ? make_images : w->bytes ? make_bytes : make_data)(s, c);
    const void *params = bound(ctx, &s->arena, d->keys, d->params_size, c->params);
    assert_ok(ctx, fli_model_new_for(ctx, d, params, w->ops, c->shape, c->classes, 0, &s->m));
    if (c->semi) assert_ok(ctx, fli_model_use_semi(ctx, s->m, &s->semi));
    for (size_t i = 0; i < SIDES; i++) {
        side *t = &s->side[i];
        assert_ok(ctx, backends[i]->open(ctx, 0, &t->engine));
        assert_ok(ctx, backends[i]->net_new(t->engine, ctx, s->m, w->tf32, &t->net));
        assert_ok(ctx, backends[i]->data_new(t->engine, ctx, s->ds, &t->data));
    }
    if (w->piece) s->side[GPU].net->piece = w->piece;
    if (w->block) s->side[GPU].net->block = w->block;
    if (w->many) s->side[GPU].net->many = w->many;
}

static void stage_down(stage *s)
{
    for (size_t i = 0; i < SIDES; i++) {
        side *t = &s->side[i];
        const fli_backend *does = t->engine->does;
        does->data_free(t->data);
        does->net_free(t->net);
        does->close(t->engine);
    }
    fli_model_free(s->m);
    fli_dataset_free(s->ds);
    fli_arena_fini(&s->arena);
}

/* The same reals on both sides. */
typedef struct {
    void *at[SIDES];
} vector;

static void *random_reals(stage *s, size_t n, double scale)
{
    void *v = fli_alloc(s->ctx, n, s->ops->size);
    for (size_t i = 0; i < n; i++) {
        double a = scale * fli_rng_normal(&s->rng);
        if (s->positive) a = fabs(a);
        s->ops->from_f64(1, &a, fli_at(s->ops, v, i));
    }
    return v;
}

static vector random_vector(stage *s, double scale)
{
    size_t bytes = fli_bytes(&s->m->space);
    void *plain = random_reals(s, s->m->space.n, scale * s->small);
    vector v;
    for (size_t i = 0; i < SIDES; i++) {
        fli_engine *e = s->side[i].engine;
        v.at[i] = e->does->alloc(e, s->ctx, bytes);
        assert_non_null(v.at[i]);
        e->does->write(e, bytes, plain, v.at[i]);
    }
    fli_free(plain);
    return v;
}

static void release(stage *s, vector v)
{
    for (size_t i = 0; i < SIDES; i++) s->side[i].engine->does->release(s->side[i].engine, v.at[i]);
}

/* ||difference|| <= tolerance ||v||; the vector must have changed from what `from` is, if that is given. */
static void assert_same_vector(stage *s, vector v, const vector *from, const char *what)
{
    size_t n = s->m->space.n, bytes = fli_bytes(&s->m->space);
    char *a[SIDES + 1];
    double worst = 0, norm = 0, moved = 0;
    for (size_t i = 0; i <= SIDES; i++) {
        fli_engine *e = s->side[i % SIDES].engine;
        a[i] = fli_alloc(s->ctx, bytes, 1);
        if (i < SIDES || from) e->does->read(e, bytes, i < SIDES ? v.at[i] : from->at[TWIN], a[i]);
    }
    for (size_t i = 0; i < n; i++) {
        double d[SIDES + 1];
        for (size_t k = 0; k <= SIDES; k++) s->ops->to_f64(1, fli_at(s->ops, a[k], i), &d[k]);
        worst += (d[TWIN] - d[GPU]) * (d[TWIN] - d[GPU]);
        norm += d[TWIN] * d[TWIN];
        moved += (d[TWIN] - d[SIDES]) * (d[TWIN] - d[SIDES]);
    }
    for (size_t i = 0; i <= SIDES; i++) fli_free(a[i]);
    if (!(sqrt(worst) <= s->tolerance * sqrt(norm)))
        fail_msg("%s of %s: off by %g of %g", what, s->m->desc->name, sqrt(worst), sqrt(norm));
    if (from) assert_true(moved > 1e-8 * norm);
}

/* Rows of y: points of the simplex, and now and then no label. */
static void *random_labels(stage *s, size_t rows)
{
    size_t classes = s->m->classes;
    char *y = fli_alloc(s->ctx, rows * classes, s->ops->size);
    double *row = fli_alloc(s->ctx, classes, sizeof *row);
    for (size_t i = 0; i < rows; i++) {
        if (i % 5 == 3)
            memset(row, 0, classes * sizeof *row);
        else
            fli_rng_dirichlet(&s->rng, 1, classes, row);
        s->ops->from_f64(classes, row, fli_at(s->ops, y, i * classes));
    }
    fli_free(row);
    return y;
}

/* ---- turns ------------------------------------------------------------------------------------------------ */

/* Lanes that differ in everything. */
typedef struct {
    uint32_t plain[LANES][SAMPLES], rest[LANES][SAMPLES];
    double rates[2 * MOST_STEPS], own_rates[2 * MOST_STEPS];
    void *y[LANES];
    vector start[LANES], z[LANES], shift, anchor, own_start[LANES], own_z[LANES];
} turns_of;

static void draw_samples(stage *s, uint32_t *out)
{
    for (size_t i = 0; i < SAMPLES; i++) out[i] = (uint32_t)fli_rng_below(&s->rng, SAMPLES);
}

static void make_turns(stage *s, turns_of *t)
{
    t->shift = random_vector(s, 0.1);
    t->anchor = random_vector(s, 0.5);
    for (size_t i = 0; i < 2 * MOST_STEPS; i++) {
        t->rates[i] = 0.1 * fli_rng_uniform(&s->rng);
        t->own_rates[i] = 0.1 * fli_rng_uniform(&s->rng);
    }
    for (size_t i = 0; i < LANES; i++) {
        draw_samples(s, t->plain[i]);
        draw_samples(s, t->rest[i]);
        t->y[i] = random_labels(s, SAMPLES);
        t->start[i] = random_vector(s, 0.5);
        t->z[i] = random_vector(s, 0.5);
        t->own_start[i] = random_vector(s, 0.5);
        t->own_z[i] = random_vector(s, 0.5);
    }
}

static void free_turns(stage *s, turns_of *t)
{
    release(s, t->shift);
    release(s, t->anchor);
    for (size_t i = 0; i < LANES; i++) {
        fli_free(t->y[i]);
        release(s, t->start[i]);
        release(s, t->z[i]);
        release(s, t->own_start[i]);
        release(s, t->own_z[i]);
    }
}

enum { WITH_REST = 1, WITH_OWN = 2, WITH_MOMENTUM = 4 };

static fli_engine_lane make_lane(const turns_of *t, size_t i, int side_, int kinds)
{
    static const uint32_t n[LANES] = {20, 13, 9, 6}, rest[LANES] = {11, 0, 7, 17}, steps[LANES] = {5, 4, 2, 0};
    fli_engine_lane l = {.start = t->start[i].at[side_],
                         .z = t->z[i].at[side_],
                         .lr = 0.1,
                         .wd = 0.01,
                         .steps = steps[i],
                         .plain = {t->plain[i], n[i], i == 2 ? 9 : 6}};
    fli_rng_init(&l.rng, 5, FLI_RNG_BATCH, 3, (uint32_t)i);
    if (i == 0) l.shift = t->shift.at[side_];
    if (i < 2) {
        l.anchor = t->anchor.at[side_];
        l.rho = 0.4;
    }
    if (i == 1) {
        l.rates = t->rates;
        l.own_rates = t->own_rates;
    }
    if (kinds & WITH_REST) {
        l.rest = (fli_engine_pass){t->rest[i], rest[i], 5};
        l.y = t->y[i];
        if (i == 3) l.plain.n = 0;
    }
    if (kinds & WITH_OWN) {
        l.own_start = t->own_start[i].at[side_];
        l.own_z = t->own_z[i].at[side_];
        l.own_lr = 0.2;
        l.own_wd = 0.02;
        l.mix = 0.3 + 0.1 * (double)i;
    }
    return l;
}

static void check_turns(stage *s, int kinds)
{
    turns_of *t = calloc(1, sizeof *t);
    make_turns(s, t);
    for (size_t i = 0; i < SIDES; i++) {
        fli_engine_lane lane[LANES];
        side *d = &s->side[i];
        for (size_t k = 0; k < LANES; k++) lane[k] = make_lane(t, k, (int)i, kinds);
        fli_engine_turns turns = {.data = d->data,
                                  .lane = lane,
                                  .lanes = LANES,
                                  .momentum = kinds & WITH_MOMENTUM ? 0.8 : 0,
                                  .semi = kinds & WITH_REST ? &s->semi : NULL};
        assert_ok(s->ctx, d->engine->does->train(s->ctx, d->net, &turns));
    }
    for (size_t k = 0; k < LANES; k++) {
        int steps = k + 1 < LANES; /* the last takes none */
        assert_same_vector(s, t->z[k], steps ? &t->start[k] : NULL, "z");
        if (kinds & WITH_OWN) assert_same_vector(s, t->own_z[k], steps ? &t->own_start[k] : NULL, "the own model");
    }
    free_turns(s, t);
    free(t);
}

/* ---- evaluations ------------------------------------------------------------------------------------------------ */

enum { EVALS = 7, LONG = 700 };

/* Labelled, with and without gradient, one that is long; with a y; mixtures. Kinds are not in an order. */
static void make_evals(const stage *s, int i, const vector *x, const vector *g, const uint32_t *samples, const void *y,
                       fli_engine_eval *out)
{
    int semi = s->m->latent != NULL, pair = s->m->desc->logits != NULL;
    const void *own = pair ? x[2].at[i] : NULL;
    y = semi ? y : NULL;
    out[0] = (fli_engine_eval){.x = x[0].at[i], .samples = samples, .n = 40, .gradient = g[0].at[i]};
    out[1] =
        (fli_engine_eval){.x = x[0].at[i], .samples = samples + 40, .n = 12, .y = y, .gradient = g[0].at[i], .add = 1};
    out[2] = (fli_engine_eval){.x = x[1].at[i], .samples = samples, .n = LONG};
    out[3] = (fli_engine_eval){.x = x[1].at[i], .own = own, .mix = 0.3, .samples = samples + 9, .n = 50};
    out[4] = (fli_engine_eval){.x = x[0].at[i], .own = own, .mix = 0.9, .samples = samples + 3, .n = 10, .y = y};
    out[5] = (fli_engine_eval){.x = x[2].at[i], .samples = samples, .n = 0, .gradient = g[1].at[i]};
    out[6] = (fli_engine_eval){.x = x[2].at[i], .samples = samples + 5, .n = 300, .y = y};
}

static void check_evals(stage *s)
{
    vector x[3], g[2];
    uint32_t samples[LONG];
    void *y = random_labels(s, 300);
    fli_engine_eval evals[SIDES][EVALS];
    for (size_t i = 0; i < 3; i++) x[i] = random_vector(s, 0.7);
    for (size_t i = 0; i < 2; i++) g[i] = random_vector(s, 0.7);
    for (size_t i = 0; i < LONG; i++) samples[i] = (uint32_t)fli_rng_below(&s->rng, SAMPLES);
    for (size_t i = 0; i < SIDES; i++) {
        side *d = &s->side[i];
        make_evals(s, (int)i, x, g, samples, y, evals[i]);
        assert_ok(s->ctx, d->engine->does->evaluate(s->ctx, d->net, d->data, evals[i], EVALS));
    }
    for (size_t k = 0; k < EVALS; k++) {
        assert_near(evals[GPU][k].loss, evals[TWIN][k].loss, s->tolerance * fmax(1, fabs(evals[TWIN][k].loss)));
        /* rounded products may turn a close decision */
        if (s->tolerance < 1e-4) assert_int_equal(evals[GPU][k].correct, evals[TWIN][k].correct);
    }
    assert_true(evals[TWIN][2].correct > 0);
    for (size_t i = 0; i < 2; i++) assert_same_vector(s, g[i], NULL, "the gradient of an evaluation");
    for (size_t i = 0; i < 3; i++) release(s, x[i]);
    for (size_t i = 0; i < 2; i++) release(s, g[i]);
    fli_free(y);
}

static void check_outputs(stage *s)
{
    enum { FIRST = 270, SECOND = 11 };
    size_t classes = s->m->classes, all = (FIRST + SECOND) * classes;
    int logits = s->m->desc->logits != NULL;
    vector x = random_vector(s, 0.7);
    uint32_t samples[FIRST];
    double *out[SIDES];
    for (size_t i = 0; i < FIRST; i++) samples[i] = (uint32_t)fli_rng_below(&s->rng, SAMPLES);
    for (size_t i = 0; i < SIDES; i++) {
        side *d = &s->side[i];
        out[i] = fli_alloc(s->ctx, all, sizeof **out);
        fli_engine_outputs o[] = {
            {.x = x.at[i], .samples = samples, .n = FIRST, .out = out[i]},
            {.x = x.at[i], .samples = samples + 7, .n = SECOND, .logits = logits, .out = out[i] + FIRST * classes}};
        assert_ok(s->ctx, d->engine->does->outputs(s->ctx, d->net, d->data, o, 2));
    }
    for (size_t i = 0; i < all; i++) assert_near(out[GPU][i], out[TWIN][i], s->tolerance * fmax(1, fabs(out[TWIN][i])));
    for (size_t i = 0; i < SIDES; i++) fli_free(out[i]);
    release(s, x);
}

/* ---- all of them ------------------------------------------------------------------------------------------ */

static void check_case(fl_ctx *ctx, const net_case *c, way w)
{
    stage s;
    stage_up(&s, ctx, c, &w);
    check_turns(&s, 0);
    check_turns(&s, WITH_MOMENTUM);
    if (c->semi) {
        check_turns(&s, WITH_REST);
        check_turns(&s, WITH_REST | WITH_OWN | WITH_MOMENTUM);
    }
    if (s.m->desc->logits) check_turns(&s, WITH_OWN);
    check_evals(&s);
    check_outputs(&s);
    stage_down(&s);
}

static void f64_is_the_same(void **state)
{
    for (size_t i = 0; i < CASES; i++) check_case(((fixture *)*state)->ctx, &cases[i], (way){&fli_ops_f64});
}

static void f32_is_the_same(void **state)
{
    for (size_t i = 0; i < CASES; i++) check_case(((fixture *)*state)->ctx, &cases[i], (way){&fli_ops_f32});
}

static void tf32_is_close(void **state)
{
    check_case(((fixture *)*state)->ctx, &cases[2], (way){&fli_ops_f32, .tf32 = 1});
    check_case(((fixture *)*state)->ctx, &cases[5], (way){&fli_ops_f32, .tf32 = 1});
}

/* Too large for whole turns in one kernel; as if there were many lanes, by whose number kernels are chosen. */
static void many_are_the_same(void **state)
{
    static const net_case deep = {"mlp", "hidden=[64,200,180]", {1, 1, 160}, 4, 0};
    for (int bytes = 0; bytes < 2; bytes++)
        check_case(((fixture *)*state)->ctx, &deep, (way){&fli_ops_f32, .many = 1, .bytes = bytes});
    /* in tf32 some of so many units are at the other side of their kink, and one alone changes a gradient by a percent:
       so that there are no kinks, nothing is negative */
    check_case(((fixture *)*state)->ctx, &deep, (way){&fli_ops_f32, .tf32 = 1, .many = 1, .bytes = 1, .positive = 1});
}

/* Eight rows at a time: one kind ends, and the other begins, within a piece. Three lanes: some are done before others
 * begin. */
static void pieces_are_the_same(void **state)
{
    check_case(((fixture *)*state)->ctx, &cases[2], (way){&fli_ops_f64, .piece = 8, .block = 3});
    check_case(((fixture *)*state)->ctx, &cases[4], (way){&fli_ops_f64, .piece = 8, .block = 3});
}

/* A lane's bits do not depend on how many others are in its block, which is a question of free memory. Pairs take the
 * way through all layers. */
static void blocks_have_the_same_bits(void **state)
{
    static const net_case wide = {"mlp", "hidden=[20]", {1, 1, 100}, 4, 0, 0, 0};
    const net_case *const list[] = {&wide, &cases[4]};
    for (size_t k = 0; k < 2; k++) {
        stage s;
        char z[2][LANES][20000];
        turns_of *t = calloc(1, sizeof *t);
        stage_up(&s, ((fixture *)*state)->ctx, list[k], &(way){&fli_ops_f32});
        size_t bytes = fli_bytes(&s.m->space);
        assert_true(bytes <= sizeof z[0][0]);
        make_turns(&s, t);
        for (size_t i = 0; i < 2; i++) {
            fli_engine_lane lane[LANES];
            fli_engine *e = s.side[GPU].engine;
            s.side[GPU].net->block = i ? 1 : LANES;
            for (size_t j = 0; j < LANES; j++) lane[j] = make_lane(t, j, GPU, WITH_OWN);
            fli_engine_turns turns = {.data = s.side[GPU].data, .lane = lane, .lanes = LANES};
            assert_ok(s.ctx, e->does->train(s.ctx, s.side[GPU].net, &turns));
            for (size_t j = 0; j < LANES; j++) e->does->read(e, bytes, lane[j].z, z[i][j]);
        }
        for (size_t j = 0; j < LANES; j++) assert_memory_equal(z[0][j], z[1][j], bytes);
        free_turns(&s, t);
        free(t);
        stage_down(&s);
    }
}

static void unknown_models_are_refused(void **state)
{
    fixture *f = *state;
    fli_engine *e;
    fli_engine_net *n;
    fli_model *m;
    fli_arena a;
    const fli_model_desc *d = model_named("least_squares");
    fli_arena_init(&a, f->ctx);
    assert_ok(f->ctx,
              fli_model_new(f->ctx, d, bound(f->ctx, &a, d->keys, d->params_size, ""), &fli_ops_f64, 4, 0, 0, &m));
    assert_ok(f->ctx, fli_backend_cuda.open(f->ctx, 0, &e));
    assert_fails(f->ctx, fli_backend_cuda.net_new(e, f->ctx, m, 0, &n), FL_ECONFIG, "least_squares does not run on a");
    assert_null(n);
    fli_backend_cuda.close(e);
    fli_model_free(m);
    fli_arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(f64_is_the_same),
        FIXTURE_TEST(f32_is_the_same),
        FIXTURE_TEST(tf32_is_close),
        FIXTURE_TEST(many_are_the_same),
        FIXTURE_TEST(pieces_are_the_same),
        FIXTURE_TEST(blocks_have_the_same_bits),
        FIXTURE_TEST(unknown_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
