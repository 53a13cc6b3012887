/* The local solver: which samples a step uses, what the step does, and that long batches in pieces change nothing. */
#include "fixture.h"

#include "solver/minibatch.h"
#include "solve.h"

/* ---- a client whose gradient reveals the samples --------------------------------------------------------- */

enum { N = 23, STORED = 40 };

/* Sample s of the data set has the single feature s and target 1. At z = 0 a step over batch B of b samples moves
 * exactly the coordinates in B, each by lr/b. The client holds N of the STORED samples, in no particular order. */
typedef struct {
    fli_fed *fed;
    fli_model *model;
    fli_view view;
    fli_sgd_spec spec;
    solving sgd;
} revealing;

static const uint32_t held[N] = {39, 3, 17, 5, 0, 38, 2, 21, 22, 23, 9, 8, 7, 30, 31, 33, 1, 12, 14, 16, 28, 27, 6};

static void revealing_init(revealing *c, fl_ctx *ctx, const fli_sgd_spec *spec)
{
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = 1};
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F64, STORED, STORED, 0, &ds));
    for (size_t s = 0; s < STORED; s++) ((double *)ds->x)[s * STORED + s] = ds->target[s] = 1;
    part.start = fli_alloc(ctx, 2, sizeof *part.start);
    part.index = fli_alloc(ctx, N, sizeof *part.index);
    part.start[1] = N;
    memcpy(part.index, held, sizeof held);
    assert_ok(ctx, fli_fed_take(ctx, ds, NULL, &part, &c->fed));
    assert_ok(ctx, fli_model_new(ctx, model_named("least_squares"), NULL, &fli_ops_f64, STORED, 0, 0, &c->model));
    assert_ok(ctx, fli_view_open(ctx, c->fed, 0, &c->view));
    c->spec = *spec;
    assert_ok(ctx, solving_init(ctx, &fli_solver_sgd, c->model, spec, N, &c->sgd));
}

static void revealing_fini(revealing *c)
{
    solving_fini(&c->sgd);
    fli_view_close(&c->view);
    fli_model_free(c->model);
    fli_fed_free(c->fed);
}

/* z after this many steps from 0, always with the same random stream. */
static void walk(fl_ctx *ctx, revealing *c, size_t steps, double lr, uint32_t round, double *z)
{
    double zero[STORED] = {0};
    fli_rng rng;
    fl_answer a;
    fl_problem p = {.start = zero, .lr = lr, .steps = steps};
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, round, 0);
    assert_ok(ctx, solving_solve(ctx, &c->sgd, &c->view, &p, &rng, NULL, &a));
    memcpy(z, a.z, STORED * sizeof *z);
}

/* The samples that step k (from 0) uses, as flags; returns their number. */
static size_t batch_of(fl_ctx *ctx, revealing *c, size_t k, uint32_t round, int *used)
{
    double before[STORED] = {0}, after[STORED];
    size_t n = 0;
    if (k) walk(ctx, c, k, 0.5, round, before);
    walk(ctx, c, k + 1, 0.5, round, after);
    for (size_t s = 0; s < STORED; s++) n += (size_t)(used[s] = before[s] != after[s]);
    return n;
}

static int holds(size_t sample)
{
    for (size_t i = 0; i < N; i++)
        if (held[i] == sample) return 1;
    return 0;
}

static void epochs_use_every_sample_once(void **state)
{
    fixture *f = *state;
    static const size_t batches[] = {1, 4, 5, 12, 22};
    for (size_t b = 0; b < 5; b++) {
        revealing c;
        size_t per_epoch = (N + batches[b] - 1) / batches[b];
        revealing_init(&c, f->ctx, &(fli_sgd_spec){batches[b], 0});
        assert_int_equal(fli_epoch_steps(&c.spec, N), per_epoch);
        for (size_t epoch = 0; epoch < 3; epoch++) {
            int count[STORED] = {0}, used[STORED];
            for (size_t k = 0; k < per_epoch; k++) {
                size_t n = batch_of(f->ctx, &c, epoch * per_epoch + k, 0, used);
                assert_int_equal(n, k + 1 < per_epoch ? batches[b] : N - k * batches[b]); /* the last may be short */
                for (size_t s = 0; s < STORED; s++) count[s] += used[s];
            }
            for (size_t s = 0; s < STORED; s++) assert_int_equal(count[s], holds(s));
        }
        revealing_fini(&c);
    }
}

static void orders_are_fresh(void **state)
{
    fixture *f = *state;
    revealing c;
    int used[2][STORED];
    revealing_init(&c, f->ctx, &(fli_sgd_spec){5, 0});
    batch_of(f->ctx, &c, 0, 0, used[0]);
    batch_of(f->ctx, &c, 5, 0, used[1]); /* the first batch of the second epoch */
    assert_memory_not_equal(used[0], used[1], sizeof used[0]);
    batch_of(f->ctx, &c, 0, 1, used[1]); /* another round */
    assert_memory_not_equal(used[0], used[1], sizeof used[0]);
    batch_of(f->ctx, &c, 0, 0, used[1]); /* the same again */
    assert_memory_equal(used[0], used[1], sizeof used[0]);
    revealing_fini(&c);
}

static void full_batches_need_no_stream(void **state)
{
    fixture *f = *state;
    static const size_t batches[] = {0, N, N + 1, 1000};
    for (size_t b = 0; b < 4; b++) {
        revealing c;
        double zero[STORED] = {0};
        fl_answer a;
        fl_problem p = {.start = zero, .lr = 0.5, .steps = 3};
        revealing_init(&c, f->ctx, &(fli_sgd_spec){batches[b], 0});
        assert_int_equal(fli_epoch_steps(&c.spec, N), 1);
        assert_ok(f->ctx, solving_solve(f->ctx, &c.sgd, &c.view, &p, NULL, NULL, &a));
        /* e <- (1 - lr/N) e on each coordinate held */
        double want = 1 - pow(1 - 0.5 / N, 3);
        for (size_t s = 0; s < STORED; s++) assert_near(((const double *)a.z)[s], holds(s) ? want : 0, 1e-15);
        assert_true(a.weight == 3);
        revealing_fini(&c);
    }
}

/* A share of a client's samples instead of a number: rounded up, at least one, and never more by an error in the last
 * digit. */
static void batch_fractions(void **state)
{
    fixture *f = *state;
    static const struct {
        double fraction;
        size_t n, batch, steps;
    } cases[] = {
        {0.05, 20, 1, 20},    {0.05, 21, 2, 11}, {0.07, 100, 7, 15}, {0.55, 100, 55, 2}, {0.1, 3, 1, 3},
        {0.29, 1000, 290, 4}, {1e-300, 5, 1, 5}, {1, 7, 7, 1},       {0.999, 7, 7, 1},   {0.5, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_sgd_spec spec = {.batch = 3, .fraction = cases[i].fraction};
        assert_int_equal(fli_batch_size(&spec, cases[i].n), cases[i].batch);
        assert_int_equal(fli_epoch_steps(&spec, cases[i].n), cases[i].steps);
    }
    assert_int_equal(fli_epoch_steps(&(fli_sgd_spec){.fraction = 0.5}, 0),
                     1); /* as with a number: never a division by zero */
    revealing c;
    double one[STORED], other[STORED];
    int used[STORED];
    revealing_init(&c, f->ctx, &(fli_sgd_spec){.fraction = 0.2}); /* 0.2 * 23 = 4.6 */
    size_t sizes[] = {5, 5, 5, 5, 3};
    for (size_t k = 0; k < 10; k++) assert_int_equal(batch_of(f->ctx, &c, k, 0, used), sizes[k % 5]);
    walk(f->ctx, &c, 12, 0.5, 0, one);
    revealing_fini(&c);
    revealing_init(&c, f->ctx, &(fli_sgd_spec){.batch = 5});
    walk(f->ctx, &c, 12, 0.5, 0, other);
    assert_memory_equal(one, other, sizeof one); /* the same batches, step by step */
    revealing_fini(&c);
}

/* ---- momentum ------------------------------------------------------------------------------------------ */

/* Weight of all gradients in the displacement: sum over t < Q of sum over k = t .. Q-1 of gam^(k-t). */
static double explicit_weight(double gam, size_t q)
{
    double sum = 0;
    for (size_t t = 0; t < q; t++)
        for (size_t k = t; k < q; k++) sum += pow(gam, (double)(k - t));
    return sum;
}

/* With features that are 0 the gradient is the shift alone, so (start - z)/lr = weight * shift. */
static void momentum_weight(void **state)
{
    fixture *f = *state;
    static const double momentum[] = {0, 0.1, 0.5, 0.9, 0.99};
    static const size_t steps[] = {1, 2, 7, 40};
    for (size_t g = 0; g < 5; g++)
        for (size_t q = 0; q < 4; q++) {
            revealing c;
            fli_rng rng;
            fl_answer a;
            double start[STORED], shift[STORED];
            revealing_init(&c, f->ctx, &(fli_sgd_spec){4, momentum[g]});
            memset(c.fed->train->x, 0, STORED * STORED * sizeof(double));
            for (size_t i = 0; i < STORED; i++) start[i] = 1 + (double)i, shift[i] = 0.25 * (double)i - 3;
            fl_problem p = {.start = start, .shift = shift, .lr = 0.125, .steps = steps[q]};
            fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
            assert_ok(f->ctx, solving_solve(f->ctx, &c.sgd, &c.view, &p, &rng, NULL, &a));
            double want = explicit_weight(momentum[g], steps[q]);
            assert_near(a.weight, want, 1e-12 * want);
            for (size_t i = 0; i < STORED; i++)
                assert_near((start[i] - ((const double *)a.z)[i]) / 0.125, want * shift[i], 1e-10 * want);
            revealing_fini(&c);
        }
}

/* ---- the steps, by hand ---------------------------------------------------------------------------------- */

/* The gradient of 1/(2n) ||Ax - b||^2 over given samples. */
static void by_hand_gradient(const fli_dataset *ds, const uint32_t *idx, size_t n, const double *x, double *g)
{
    memset(g, 0, ds->dim * sizeof *g);
    for (size_t s = 0; s < n; s++) {
        const double *row = (const double *)ds->x + idx[s] * ds->dim;
        double residual = -ds->target[idx[s]];
        for (size_t j = 0; j < ds->dim; j++) residual += row[j] * x[j];
        for (size_t j = 0; j < ds->dim; j++) g[j] += residual * row[j] / (double)n;
    }
}

/* Momentum SGD in plain double: the batches come from shuffling the client's samples at every epoch's start. */
static void by_hand_solve(const fli_view *v, const fli_sgd_spec *spec, double wd, const fl_problem *p, fli_rng *rng,
                          double *z)
{
    size_t dim = v->ds->dim, at = 0, n = v->n_train;
    const double *shift = p->shift, *anchor = p->anchor;
    double m[64] = {0}, g[64];
    uint32_t *order = malloc(n * sizeof *order);
    memcpy(order, v->train, n * sizeof *order);
    memcpy(z, p->start, dim * sizeof *z);
    for (size_t k = 0; k < p->steps; k++) {
        size_t size = spec->batch && spec->batch < n ? spec->batch : n;
        if (at >= n) at = 0;
        if (at == 0 && size < n) fli_rng_shuffle(rng, n, order);
        if (at + size > n) size = n - at;
        by_hand_gradient(v->ds, order + at, size, z, g);
        at += size;
        for (size_t j = 0; j < dim; j++) {
            double d = g[j] + wd * z[j];
            if (shift) d += shift[j];
            if (anchor) d += p->rho * (z[j] - anchor[j]);
            m[j] = spec->momentum * m[j] + d;
            z[j] -= p->lr * m[j];
        }
    }
    free(order);
}

static void solve_case(fixture *f, const fli_ops *ops, size_t n, fli_sgd_spec spec, double wd, int which, size_t steps)
{
    enum { DIM = 6 };
    fli_fed *fed = random_fed(f->ctx, 2, (size_t[]){5, n}, DIM, 0, 3);
    fli_model *model = NULL;
    solving sgd;
    fli_view v;
    fli_rng rng;
    fl_answer a;
    double start[DIM], shift[DIM], anchor[DIM], want[DIM], got[DIM];
    double rstart[DIM], rshift[DIM], ranchor[DIM]; /* room for reals of either size */
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("least_squares"), NULL, ops, DIM, 0, wd, &model));
    assert_ok(f->ctx, solving_init(f->ctx, &fli_solver_sgd, model, &spec, fed->largest, &sgd));
    assert_ok(f->ctx, fli_view_open(f->ctx, fed, 1, &v));
    for (size_t i = 0; i < DIM; i++)
        start[i] = 0.5 * (double)i, shift[i] = 1 - 0.25 * (double)i, anchor[i] = 0.75 - 0.5 * (double)i;
    ops->from_f64(DIM, start, rstart);
    ops->from_f64(DIM, shift, rshift);
    ops->from_f64(DIM, anchor, ranchor);
    fl_problem p = {.start = start, .lr = 0.05, .rho = 0.3, .steps = steps};
    p.shift = which & 1 ? shift : NULL;
    p.anchor = which & 2 ? anchor : NULL;
    fli_rng_init(&rng, 9, FLI_RNG_BATCH, 2, 1);
    by_hand_solve(&v, &spec, wd, &p, &rng, want);
    p.start = rstart;
    p.shift = which & 1 ? rshift : NULL;
    p.anchor = which & 2 ? ranchor : NULL;
    fli_rng_init(&rng, 9, FLI_RNG_BATCH, 2, 1);
    assert_ok(f->ctx, solving_solve(f->ctx, &sgd, &v, &p, &rng, NULL, &a));
    ops->to_f64(DIM, a.z, got);
    for (size_t i = 0; i < DIM; i++) assert_near(got[i], want[i], ops->size == 4 ? 2e-5 : 1e-13);
    fli_view_close(&v);
    solving_fini(&sgd);
    fli_model_free(model);
    fli_fed_free(fed);
}

static void steps_follow_the_formula(void **state)
{
    fixture *f = *state;
    for (const fli_ops *const *o = fli_ops_list; *o; o++)
        for (int which = 0; which < 4; which++)
            for (int momentum = 0; momentum < 2; momentum++)
                for (int wd = 0; wd < 2; wd++) {
                    solve_case(f, *o, 17, (fli_sgd_spec){5, momentum ? 0.8 : 0}, wd ? 0.1 : 0, which, 11);
                    solve_case(f, *o, 17, (fli_sgd_spec){0, momentum ? 0.8 : 0}, wd ? 0.1 : 0, which, 5);
                }
}

/* Batches of more than 256 samples are computed in pieces: full ones, long mini-batches, and at the border. */
static void long_batches(void **state)
{
    fixture *f = *state;
    static const size_t size[] = {255, 256, 257, 512, 1300};
    for (size_t i = 0; i < 5; i++) solve_case(f, &fli_ops_f64, size[i], (fli_sgd_spec){0, 0}, 0.1, 3, 4);
    solve_case(f, &fli_ops_f64, 1300, (fli_sgd_spec){700, 0.5}, 0, 3, 5);
    solve_case(f, &fli_ops_f64, 1300, (fli_sgd_spec){256, 0}, 0, 0, 4);
    solve_case(f, &fli_ops_f32, 1300, (fli_sgd_spec){600, 0}, 0, 0, 4);
}

/* ---- evaluation ---------------------------------------------------------------------------------------- */

/* Pieces of at most `most` samples: the whole list once, in its order, each piece in the batch; shares add up to 1. */
static void pieces_of(fixture *f, size_t asked, size_t most, size_t n)
{
    enum { DIM = 6, CLASSES = 3 };
    size_t size = n ? n : 1, seen = 0, count = 0;
    double shares = 0;
    fli_fed *fed = random_fed(f->ctx, 1, &size, DIM, CLASSES, 4);
    fli_model *model = NULL;
    fli_eval e;
    fli_view v;
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("softmax"), NULL, &fli_ops_f64, DIM, CLASSES, 0, &model));
    model->piece = asked;
    assert_ok(f->ctx, fli_eval_init(f->ctx, model, &e));
    assert_ok(f->ctx, fli_view_open(f->ctx, fed, 0, &v));
    fli_pieces p = fli_pieces_of(&e, v.ds, v.train, n);
    for (; fli_pieces_next(&p); seen += p.n, count++) {
        assert_int_equal(p.at, seen);
        assert_int_equal(p.n, n - seen < most ? n - seen : most);
        assert_int_equal(e.batch.n, p.n);
        for (size_t i = 0; i < p.n; i++) {
            double row[DIM];
            fli_dataset_row(v.ds, v.train[seen + i], row);
            assert_memory_equal((double *)e.batch.x + i * DIM, row, sizeof row);
        }
        shares += fli_pieces_share(&p);
    }
    assert_int_equal(seen, n);
    assert_int_equal(count, (n + most - 1) / most);
    assert_near(shares, n > 0, 1e-14);
    assert_false(fli_pieces_advance(&p)); /* and it stays there */
    fli_view_close(&v);
    fli_eval_fini(&e);
    fli_model_free(model);
    fli_fed_free(fed);
}

static void pieces_have_every_sample_once(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 255, 256, 257, 512, 1300};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pieces_of(*state, 0, FLI_PIECE_MOST, sizes[i]);
        pieces_of(*state, 64, 64, sizes[i]);
        pieces_of(*state, 10000, FLI_PIECE_MOST, sizes[i]); /* a model may ask for fewer, not for more */
    }
}

static void evaluation_matches_a_plain_loop(void **state)
{
    fixture *f = *state;
    enum { DIM = 6, CLASSES = 3, P = CLASSES * DIM + CLASSES };
    static const size_t sizes[] = {1, 511, 512, 513, 1300};
    for (size_t k = 0; k < 5; k++) {
        size_t n = sizes[k], hits = 0, got = 999;
        fli_fed *fed = random_fed(f->ctx, 1, &n, DIM, CLASSES, 4);
        fli_model *model = NULL;
        fli_eval e;
        fli_view v;
        double x[P], g[P], want[P] = {0}, loss = 0;
        assert_ok(f->ctx, fli_model_new(f->ctx, model_named("softmax"), NULL, &fli_ops_f64, DIM, CLASSES, 0.2, &model));
        assert_ok(f->ctx, fli_eval_init(f->ctx, model, &e));
        assert_ok(f->ctx, fli_view_open(f->ctx, fed, 0, &v));
        for (size_t i = 0; i < P; i++) x[i] = sin((double)(i + 1));
        for (size_t s = 0; s < n; s++) {
            double z[CLASSES], sum = 0, row[DIM];
            size_t best = 0, label = (size_t)v.ds->label[v.train[s]];
            fli_dataset_row(v.ds, v.train[s], row);
            for (size_t c = 0; c < CLASSES; c++) {
                z[c] = x[CLASSES * DIM + c];
                for (size_t j = 0; j < DIM; j++) z[c] += x[c * DIM + j] * row[j];
                sum += exp(z[c]);
                if (z[c] > z[best]) best = c;
            }
            hits += best == label;
            loss += (log(sum) - z[label]) / (double)n;
            for (size_t c = 0; c < CLASSES; c++) {
                double d = (exp(z[c]) / sum - (c == label)) / (double)n;
                want[CLASSES * DIM + c] += d;
                for (size_t j = 0; j < DIM; j++) want[c * DIM + j] += d * row[j];
            }
        }
        /* weight decay is the caller's business */
        assert_near(fli_eval_loss(&e, v.ds, v.train, n, x, g, &got), loss, 1e-12);
        assert_int_equal(got, hits);
        for (size_t i = 0; i < P; i++) assert_near(g[i], want[i], 1e-12);
        assert_near(fli_eval_loss(&e, v.ds, v.train, n, x, NULL, NULL), loss, 1e-12);
        fli_view_close(&v);
        fli_eval_fini(&e);
        fli_model_free(model);
        fli_fed_free(fed);
    }
}

/* Bytes of an instance, as they are foreseen before it is opened: two vectors, one more with momentum, those of the
 * solver itself, and an index for each of a client's samples. */
static void bytes_are_foreseen(void **state)
{
    fixture *f = *state;
    fli_model *model = NULL;
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("softmax"), NULL, &fli_ops_f64, 3, 2, 0, &model));
    const fli_open plain = {.model = model, .largest = 10},
                   momentum = {.model = model, .sgd = {.momentum = 0.5}, .largest = 10};
    const double vector = 8 * sizeof(double), own = (double)fli_solver_sgd.vectors;
    assert_true(fli_bytes(&model->space) == 8 * sizeof(double));
    assert_near(fli_solver_bytes(&fli_solver_sgd, &plain), (2 + own) * vector + 10 * sizeof(uint32_t), 0);
    assert_near(fli_solver_bytes(&fli_solver_sgd, &momentum), (3 + own) * vector + 10 * sizeof(uint32_t), 0);
    fli_model_free(model);
}

static void solving_out_of_memory(void **state)
{
    fixture *f = *state;
    fli_model *model = NULL;
    solving solver;
    fl_status s = FL_ENOMEM;
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("softmax"), NULL, &fli_ops_f64, 3, 2, 0, &model));
    for (size_t k = 1; s; k++) {
        assert_true(k < 50);
        fli_clear(f->ctx);
        fli_ctx_fail_alloc(f->ctx, k);
        s = solving_init(f->ctx, &fli_solver_pair, model, &(fli_sgd_spec){2, 0.5}, 10, &solver);
        fli_ctx_fail_alloc(f->ctx, 0);
        if (s) assert_int_equal(s, FL_ENOMEM);
        if (s) assert_non_null(strstr(fl_ctx_error(f->ctx), "out of memory"));
    }
    solving_fini(&solver);
    fli_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(epochs_use_every_sample_once),
        FIXTURE_TEST(orders_are_fresh),
        FIXTURE_TEST(full_batches_need_no_stream),
        FIXTURE_TEST(batch_fractions),
        FIXTURE_TEST(momentum_weight),
        FIXTURE_TEST(steps_follow_the_formula),
        FIXTURE_TEST(long_batches),
        FIXTURE_TEST(pieces_have_every_sample_once),
        FIXTURE_TEST(evaluation_matches_a_plain_loop),
        FIXTURE_TEST(bytes_are_foreseen),
        FIXTURE_TEST(solving_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
