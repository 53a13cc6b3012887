/* Two models on one client: the steps of both, and how `mix: auto` is chosen, by samples that nobody trains on. */
#include "fixture.h"

#include "model/semi.h"
#include "solve.h"

enum { DIM = 4, C = 4, P = DIM * C + C, MOST = 100 };

typedef struct {
    fl_ctx *ctx;
    fli_fed *fed;
    fli_view v;
    fli_model *m;
    solving pair;
    double x[P], own[P];
} client;

/* Sorted by class, which is the worst order for whoever holds out the last ones. */
static void client_init(client *c, fixture *f, size_t size, fli_sgd_spec spec)
{
    fli_partition part = {1, fli_alloc(f->ctx, 2, sizeof(size_t)), fli_alloc(f->ctx, size, sizeof(uint32_t))};
    fli_dataset *ds;
    fli_rng r;
    memset(c, 0, sizeof *c);
    c->ctx = f->ctx;
    fli_rng_init(&r, 4, FLI_RNG_TEST, 0, 0);
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, size, DIM, C, &ds));
    part.start[1] = size;
    for (size_t i = 0; i < size; i++) {
        part.index[i] = (uint32_t)i;
        ds->label[i] = (int32_t)(i * C / size);
        for (size_t j = 0; j < DIM; j++)
            ((double *)ds->x)[i * DIM + j] = fli_rng_normal(&r) + (j == (size_t)ds->label[i]);
    }
    assert_ok(f->ctx, fli_fed_take(f->ctx, ds, NULL, &part, &c->fed));
    assert_ok(f->ctx, fli_view_open(f->ctx, c->fed, 0, &c->v));
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("softmax"), NULL, &fli_ops_f64, DIM, C, 0.02, &c->m));
    assert_ok(f->ctx, solving_init(f->ctx, &fli_solver_pair, c->m, &spec, size, &c->pair));
    for (size_t j = 0; j < P; j++) {
        c->x[j] = 0.5 * fli_rng_normal(&r);
        c->own[j] = 0.5 * fli_rng_normal(&r);
    }
}

static void client_fini(client *c)
{
    solving_fini(&c->pair);
    fli_model_free(c->m);
    fli_view_close(&c->v);
    fli_fed_free(c->fed);
}

typedef struct {
    double z[P], own[P], mix;
} outcome;

static outcome solve_problem(client *c, fl_problem p, uint32_t stream)
{
    outcome o;
    fli_rng rng;
    fl_answer a;
    void *cache = NULL;
    fli_rng_init(&rng, 1, FLI_RNG_TEST, stream, 0);
    assert_ok(c->ctx, solving_solve(c->ctx, &c->pair, &c->v, &p, &rng, &cache, &a));
    assert_null(cache);
    memcpy(o.z, a.z, sizeof o.z);
    memcpy(o.own, a.pair.own, sizeof o.own);
    o.mix = a.pair.mix;
    return o;
}

static outcome solve(client *c, double mix, size_t steps, uint32_t stream)
{
    return solve_problem(c, (fl_problem){.start = c->x, .lr = 0.1, .steps = steps, .pair = {c->own, 0.3, mix}}, stream);
}

/* ---- by hand ------------------------------------------------------------------------------------------- */

static void probabilities(const client *c, const double *x, size_t i, double *p)
{
    const double *a = (const double *)c->v.ds->x + i * DIM;
    double sum = 0;
    for (size_t k = 0; k < C; k++) {
        p[k] = x[DIM * C + k];
        for (size_t j = 0; j < DIM; j++) p[k] += x[k * DIM + j] * a[j];
        sum += p[k] = exp(p[k]);
    }
    for (size_t k = 0; k < C; k++) p[k] /= sum;
}

/* Momentum on both models, all samples, straight from the formulas. */
static void both_steps(void **state)
{
    static const double gammas[] = {0, 0.7};
    for (size_t k = 0; k < 2; k++) {
        client c;
        double z[P], own[P], mu[P] = {0}, mu_own[P] = {0}, gam = gammas[k], mix = 0.35;
        client_init(&c, *state, 30, (fli_sgd_spec){.momentum = gam});
        outcome o = solve(&c, mix, 5, 0);
        memcpy(z, c.x, sizeof z);
        memcpy(own, c.own, sizeof own);
        for (size_t step = 0; step < 5; step++) {
            double g[P], own_g[P];
            for (size_t j = 0; j < P; j++) g[j] = 0.02 * z[j], own_g[j] = 0.02 * own[j];
            for (size_t i = 0; i < 30; i++) {
                double h[C], p[C];
                size_t label = (size_t)c.v.ds->label[i];
                probabilities(&c, z, i, h);
                probabilities(&c, own, i, p);
                double q = mix * p[label] + (1 - mix) * h[label];
                for (size_t r = 0; r < C; r++) {
                    double d = (h[r] - (r == label)) / 30, e = mix * p[label] / q * (p[r] - (r == label)) / 30;
                    for (size_t j = 0; j < DIM; j++) {
                        double a = ((const double *)c.v.ds->x)[i * DIM + j];
                        g[r * DIM + j] += d * a;
                        own_g[r * DIM + j] += e * a;
                    }
                    g[DIM * C + r] += d;
                    own_g[DIM * C + r] += e;
                }
            }
            for (size_t j = 0; j < P; j++) {
                z[j] -= 0.1 * (mu[j] = gam * mu[j] + g[j]);
                own[j] -= 0.3 * (mu_own[j] = gam * mu_own[j] + own_g[j]);
            }
        }
        assert_near(o.mix, mix, 0);
        for (size_t j = 0; j < P; j++) {
            assert_near(o.z[j], z[j], 1e-14);
            assert_near(o.own[j], own[j], 1e-14);
        }
        client_fini(&c);
    }
}

/* The problem's other terms are about z alone: an own model that does not depend on z is the same without them. */
static void terms_of_the_problem(void **state)
{
    client c;
    double shift[P], anchor[P];
    client_init(&c, *state, 30, (fli_sgd_spec){.batch = 7, .momentum = 0.5});
    for (size_t j = 0; j < P; j++) shift[j] = 0.1 * (double)j, anchor[j] = 1 - 0.1 * (double)j;
    fl_problem p = {.start = c.x, .lr = 0.1, .steps = 5, .pair = {c.own, 0.3, 1}};
    outcome plain = solve_problem(&c, p, 0);
    p.shift = shift;
    p.anchor = anchor;
    p.rho = 0.5;
    outcome more = solve_problem(&c, p, 0);
    assert_memory_not_equal(more.z, plain.z, sizeof more.z);
    assert_memory_equal(more.own, plain.own, sizeof more.own);
    client_fini(&c);
}

/* ---- mix: auto ----------------------------------------------------------------------------------------- */

/* Those whose features do not matter to z. The mix may differ then, and with it the own model. */
static size_t held_out(client *c, size_t steps, uint32_t stream, unsigned char *out)
{
    outcome before = solve(c, NAN, steps, stream);
    size_t count = 0;
    for (size_t i = 0; i < c->v.n_train; i++) {
        double *a = (double *)c->fed->train->x + i * DIM, was = *a;
        *a += 0.5;
        outcome after = solve(c, NAN, steps, stream);
        *a = was;
        out[i] = !memcmp(before.z, after.z, sizeof before.z);
        count += out[i];
    }
    return count;
}

static void nobody_trains_on_them(void **state)
{
    client c;
    unsigned char full[MOST], batches[MOST], classes[C] = {0};
    size_t different = 0;
    client_init(&c, *state, MOST, (fli_sgd_spec){0});
    assert_int_equal(held_out(&c, 2, 0, full), MOST / 5);
    for (size_t i = 0; i < MOST; i++) classes[c.v.ds->label[i]] |= full[i];
    for (size_t k = 0; k < C; k++) different += classes[k];
    assert_true(different >= 3); /* drawn at random, although the list is sorted */
    client_fini(&c);
    client_init(&c, *state, MOST, (fli_sgd_spec){.batch = 7});
    assert_int_equal(held_out(&c, 12, 5, batches), MOST / 5); /* 80 samples are 12 batches */
    assert_memory_equal(full, batches, MOST);                 /* the same ones in every turn */
    client_fini(&c);
}

/* Mean log-likelihood of the held-out samples under a mixture. */
static double likelihood(const client *c, const unsigned char *out, double mix)
{
    double sum = 0;
    for (size_t i = 0; i < c->v.n_train; i++) {
        double a[C], b[C];
        if (!out[i]) continue;
        probabilities(c, c->own, i, a);
        probabilities(c, c->x, i, b);
        sum += log(mix * a[c->v.ds->label[i]] + (1 - mix) * b[c->v.ds->label[i]]);
    }
    return sum;
}

static void likeliest_mix(void **state)
{
    size_t inside = 0;
    for (uint32_t trial = 0; trial < 25; trial++) {
        client c;
        unsigned char out[MOST];
        fli_rng r;
        double best = 0, most = -INFINITY;
        client_init(&c, *state, 60, (fli_sgd_spec){0});
        assert_int_equal(held_out(&c, 1, 0, out), 12);
        fli_rng_init(&r, 7, FLI_RNG_TEST, trial, 0);
        for (size_t j = 0; j < P; j++) {
            c.x[j] = fli_rng_normal(&r);
            c.own[j] = fli_rng_normal(&r);
        }
        for (size_t k = 1000; k <= 9000; k++) {
            double mix = (double)k / 10000, l = likelihood(&c, out, mix);
            if (l > most) most = l, best = mix;
        }
        outcome o = solve(&c, NAN, 1, 0);
        assert_near(o.mix, best, 1e-4);
        assert_true(likelihood(&c, out, o.mix) >= most - 1e-12);
        inside += o.mix > 0.11 && o.mix < 0.89;
        client_fini(&c);
    }
    assert_true(inside >= 5);
}

/* A model that always knows against one that never does; while the mix stays where it is, so does all of the
 * outcome. */
static void the_mix_stays_within_bounds(void **state)
{
    client c;
    unsigned char out[MOST];
    client_init(&c, *state, 50, (fli_sgd_spec){0});
    held_out(&c, 1, 0, out);
    memset(c.x, 0, sizeof c.x);
    for (size_t k = 0; k < C; k++)
        for (size_t j = 0; j < DIM; j++) c.own[k * DIM + j] = k == j ? 1 : 0;
    outcome o[2];
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 50; i++)
            if (out[i]) ((double *)c.fed->train->x)[i * DIM + (size_t)c.v.ds->label[i]] += 3;
        o[k] = solve(&c, NAN, 3, 0);
        assert_near(o[k].mix, 0.9, 0);
    }
    assert_memory_equal(&o[0], &o[1], sizeof o[0]);
    for (size_t j = 0; j < P; j++) {
        double swap = c.x[j];
        c.x[j] = c.own[j];
        c.own[j] = swap;
    }
    assert_near(solve(&c, NAN, 3, 0).mix, 0.1, 0);
    client_fini(&c);
}

/* Nothing to choose by: two equal models, or too few samples to hold any out. */
static void first_mix(void **state)
{
    client c;
    client_init(&c, *state, 50, (fli_sgd_spec){0});
    memcpy(c.own, c.x, sizeof c.own);
    assert_near(solve(&c, NAN, 2, 0).mix, 0.75, 0);
    client_fini(&c);
    for (size_t n = 1; n <= 5; n++) {
        client_init(&c, *state, n, (fli_sgd_spec){0});
        outcome o = solve(&c, NAN, 2, 0);
        assert_true((o.mix == 0.75) == (n < 5));
        outcome given = solve(&c, 0.75, 2, 0);
        for (size_t j = 0; n < 5 && j < P; j++) assert_near(o.own[j], given.own[j], 1e-15);
        client_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(both_steps),    FIXTURE_TEST(nobody_trains_on_them),       FIXTURE_TEST(terms_of_the_problem),
        FIXTURE_TEST(likeliest_mix), FIXTURE_TEST(the_mix_stays_within_bounds), FIXTURE_TEST(first_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
