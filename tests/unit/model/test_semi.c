/* The semi-supervised losses of model/semi.h against plain loops in double: values, gradients by central differences,
 * pseudo labels by what makes them best, and predictions that are as sure as numbers allow. */
#include "fixture.h"

#include "model/model.h"
#include "model/semi.h"

enum { DIM = 4, C = 3, MOST = 9, PARAMETERS = 64 };

/* A model, one batch, parameters of two models and pseudo labels. */
typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_model *m;
    fli_semi semi;
    fli_dataset *ds;
    fli_batch b;
    void *scratch;
    size_t n, plain;
    double x[PARAMETERS], own[PARAMETERS], nu[MOST * C];
} bench;

static void random_simplex(fli_rng *r, double *nu)
{
    double sum = 0;
    for (size_t k = 0; k < C; k++) sum += nu[k] = fli_rng_gamma(r, 0.5) + 1e-9;
    for (size_t k = 0; k < C; k++) nu[k] /= sum;
}

/* `plain` labelled and `rest` unlabelled samples; parameters of the given size. */
static void bench_init(bench *t, fixture *f, const char *model, const fli_ops *ops, fli_semi semi, size_t plain,
                       size_t rest, double size)
{
    const fli_model_desc *d = model_named(model);
    uint32_t idx[MOST];
    fli_rng r;
    memset(t, 0, sizeof *t);
    t->ctx = f->ctx;
    t->semi = semi;
    t->plain = plain;
    t->n = plain + rest;
    fli_arena_init(&t->arena, f->ctx);
    const void *params = bound(f->ctx, &t->arena, d->keys, d->params_size, strcmp(model, "mlp") ? "" : "hidden=[5]");
    assert_ok(f->ctx, fli_model_new(f->ctx, d, params, ops, DIM, C, 0, &t->m));
    assert_ok(f->ctx, fli_model_use_semi(f->ctx, t->m, &t->semi));
    assert_true(t->m->space.n <= PARAMETERS);
    fli_rng_init(&r, 5, FLI_RNG_TEST, (uint32_t)plain, (uint32_t)rest);
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, t->n, DIM, C, &t->ds));
    for (size_t i = 0; i < t->n * DIM; i++) ((double *)t->ds->x)[i] = fli_rng_normal(&r);
    for (size_t i = 0; i < t->n; i++) t->ds->label[i] = i < plain ? (int32_t)fli_rng_below(&r, C) : -1;
    for (size_t i = 0; i < t->m->space.n; i++) {
        t->x[i] = size * fli_rng_normal(&r);
        t->own[i] = size * fli_rng_normal(&r);
    }
    for (size_t i = 0; i < rest; i++) random_simplex(&r, t->nu + i * C);
    for (size_t i = 0; i < t->n; i++) idx[i] = (uint32_t)i;
    assert_ok(f->ctx, fli_model_batch(f->ctx, t->m, t->n, &t->b));
    t->scratch = fli_alloc(f->ctx, fli_model_scratch(t->m, t->n), 1);
    fli_batch_gather(&t->b, t->ds, idx, t->n);
}

static void bench_fini(bench *t)
{
    fli_free(t->scratch);
    fli_batch_fini(&t->b);
    fli_dataset_free(t->ds);
    fli_model_free(t->m);
    fli_arena_fini(&t->arena);
}

/* A fresh vector of the model's reals with these values. */
static void *reals(const bench *t, size_t n, const double *v)
{
    void *out = malloc(n * t->m->space.ops->size + 1);
    t->m->space.ops->from_f64(n, v, out);
    return out;
}

/* ---- by hand ------------------------------------------------------------------------------------------- */

/* log of the class probabilities of sample i; layers as the model's tensors say, ReLU between them */
static void log_h(const bench *t, const double *x, size_t i, double *out)
{
    double in[16], z[16], top = -INFINITY, sum = 0;
    size_t width = DIM;
    memcpy(in, (const double *)t->ds->x + i * DIM, sizeof(double) * DIM);
    for (size_t l = 0; l < t->m->tensor_count; l += 2) {
        const fl_tensor *w = &t->m->tensors[l], *b = w + 1;
        for (size_t r = 0; r < w->shape[0]; r++) {
            z[r] = x[b->offset + r];
            for (size_t k = 0; k < width; k++) z[r] += x[w->offset + r * width + k] * in[k];
        }
        width = w->shape[0];
        for (size_t r = 0; r < width; r++) in[r] = fmax(z[r], 0);
    }
    for (size_t k = 0; k < C; k++) top = fmax(top, z[k]);
    for (size_t k = 0; k < C; k++) sum += exp(z[k] - top);
    for (size_t k = 0; k < C; k++) out[k] = z[k] - top - log(sum);
}

static double kl_uniform(const double *p)
{
    double sum = 0;
    for (size_t k = 0; k < C; k++)
        if (p[k] > 0) sum += p[k] * log(p[k] * C);
    return sum;
}

/* f_i of a mixture of two models; with own = x, of one. */
static double objective(const bench *t, const double *x, const double *own, double mix)
{
    double labelled = 0, cross = 0, entropies = 0;
    size_t rest = t->n - t->plain;
    for (size_t i = 0; i < t->n; i++) {
        double a[C], b[C], q[C];
        log_h(t, own, i, a);
        log_h(t, x, i, b);
        for (size_t k = 0; k < C; k++) q[k] = mix * exp(a[k]) + (1 - mix) * exp(b[k]);
        if (i < t->plain) {
            labelled -= log(q[t->ds->label[i]]);
            continue;
        }
        const double *nu = t->nu + (i - t->plain) * C;
        for (size_t k = 0; k < C; k++)
            if (nu[k] > 0) cross -= nu[k] * log(q[k]);
        entropies += kl_uniform(nu) + kl_uniform(q);
    }
    return (t->plain ? labelled / (double)t->plain : 0) +
           (rest ? (t->semi.alpha_p * cross + t->semi.alpha_r * entropies) / (double)rest : 0);
}

/* Central differences in `by`, which is x or own of the objective. */
static void check_gradient(bench *t, double *by, double mix, int pair, const double *g)
{
    double h = 1e-5, before;
    for (size_t j = 0; j < t->m->space.n; j++) {
        before = by[j];
        by[j] = before + h;
        double up = objective(t, t->x, pair ? t->own : t->x, mix);
        by[j] = before - h;
        double down = objective(t, t->x, pair ? t->own : t->x, mix);
        by[j] = before;
        assert_near(g[j], (up - down) / (2 * h), 2e-8 * (1 + fabs(g[j])));
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

static const size_t parts[][2] = {{4, 5}, {3, 0}, {0, 6}, {1, 1}};
static const char *const models[] = {"softmax", "mlp"};
static const double alphas[][2] = {{0.7, 0.3}, {0.01, 0.01}, {0.5, 0}, {0, 0.4}, {0, 0}};

/* Every model, kind of batch and weighting; some rows of nu without a label, some with one class alone. */
static void each_case(fixture *f, void (*check)(bench *t))
{
    for (size_t m = 0; m < 2; m++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
                bench t;
                fli_semi s = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = alphas[a][0], .alpha_r = alphas[a][1]};
                bench_init(&t, f, models[m], &fli_ops_f64, s, parts[p][0], parts[p][1], 0.8);
                if (parts[p][1] > 2) {
                    memset(t.nu, 0, C * sizeof *t.nu);
                    memcpy(t.nu + C, (double[C]){0, 1, 0}, C * sizeof *t.nu);
                }
                check(&t);
                bench_fini(&t);
            }
}

static void check_one(bench *t)
{
    double g[PARAMETERS];
    double f = t->m->latent->grad(t->m, t->x, &t->b, t->plain, t->nu, g, t->scratch);
    assert_near(f, objective(t, t->x, t->x, 1), 1e-13 * (1 + fabs(f)));
    check_gradient(t, t->x, 1, 0, g);
    assert_near(t->m->latent->grad(t->m, t->x, &t->b, t->plain, t->nu, NULL, t->scratch), f, 0);
}

static void one_model(void **state) { each_case(*state, check_one); }

/* Samples with a label and samples without one in the same batch, too: each kind has a mean of its own. */
static void check_pair(bench *t)
{
    static const double mixes[] = {0, 0.3, 1};
    double alone[PARAMETERS], g[PARAMETERS], own_g[PARAMETERS];
    t->m->latent->grad(t->m, t->x, &t->b, t->plain, t->nu, alone, t->scratch);
    for (size_t k = 0; k < 3; k++) {
        fli_pair_grad(t->m, t->x, t->own, mixes[k], &t->b, t->plain, t->nu, g, own_g, t->scratch);
        assert_memory_equal(g, alone, t->m->space.n * sizeof *g); /* the global model knows nothing of the own one */
        check_gradient(t, t->own, mixes[k], 1, own_g);
        for (size_t j = 0; k == 0 && j < t->m->space.n; j++) assert_near(own_g[j], 0, 0);
        size_t hits;
        double want = objective(t, t->x, t->own, mixes[k]),
               loss = fli_pair_loss(t->m, t->x, t->own, mixes[k], &t->b, t->plain, t->nu, &hits, t->scratch);
        assert_near(loss, want, 1e-13 * (1 + fabs(want)));
    }
}

static void a_pair_has_the_right_gradient(void **state) { each_case(*state, check_pair); }

/* Labelled samples alone, for a model without a second block: what APFL does. */
static void pair_without_labels_to_find(void **state)
{
    bench t;
    double g[PARAMETERS], own_g[PARAMETERS], want[PARAMETERS];
    bench_init(&t, *state, "mlp", &fli_ops_f64, (fli_semi){.labels = FLI_SEMI_NONE}, 5, 0, 0.8);
    assert_null(t.m->latent);
    fli_pair_grad(t.m, t.x, t.own, 0.6, &t.b, 5, NULL, g, own_g, t.scratch);
    check_gradient(&t, t.own, 0.6, 1, own_g);
    t.m->desc->grad(t.m, t.x, &t.b, want, NULL, t.scratch);
    assert_memory_equal(g, want, t.m->space.n * sizeof *g);
    bench_fini(&t);
}

static void pair_losses(void **state)
{
    static const double mixes[] = {0, 0.3, 0.75, 1};
    for (size_t m = 0; m < 2; m++) {
        bench t;
        bench_init(&t, *state, models[m], &fli_ops_f64, (fli_semi){.labels = FLI_SEMI_NONE}, MOST, 0, 1.5);
        for (size_t k = 0; k < 4; k++) {
            size_t hits = 0, want = 0;
            double loss = fli_pair_loss(t.m, t.x, t.own, mixes[k], &t.b, t.b.n, NULL, &hits, t.scratch);
            assert_near(loss, objective(&t, t.x, t.own, mixes[k]), 1e-13);
            for (size_t i = 0; i < MOST; i++) {
                double a[C], b[C];
                size_t best = 0;
                log_h(&t, t.own, i, a);
                log_h(&t, t.x, i, b);
                for (size_t c = 0; c < C; c++) a[c] = mixes[k] * exp(a[c]) + (1 - mixes[k]) * exp(b[c]);
                for (size_t c = 1; c < C; c++) best = a[c] > a[best] ? c : best;
                want += best == (size_t)t.ds->label[i];
            }
            assert_int_equal(hits, want);
        }
        bench_fini(&t);
    }
}

/* ---- as sure as numbers allow -------------------------------------------------------------------------- */

static void extreme_logits(void **state)
{
    static const double mixes[] = {0, 0.3, 1}, sizes[] = {30, 1e4, 1e8},
                        weights[][2] = {{1, 1}, {1e6, 0}, {1e6, 1e-3}, {1, 1e-300}};
    for (size_t k = 0; k < 2 * 2 * 3 * 4; k++) {
        const fli_ops *ops = k % 2 ? &fli_ops_f64 : &fli_ops_f32;
        const double *w = weights[k / 12];
        fli_semi s = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = w[0], .alpha_r = w[1]};
        bench t;
        bench_init(&t, *state, models[k / 2 % 2], ops, s, 4, 5, sizes[k / 4 % 3]);
        size_t n = t.m->space.n;
        void *x = reals(&t, n, t.x), *own = reals(&t, n, t.own), *nu = reals(&t, 5 * C, t.nu);
        void *g = reals(&t, n, t.x), *own_g = reals(&t, n, t.x);
        for (size_t j = 0; j < 3; j++) {
            size_t hits;
            assert_true(isfinite(t.m->latent->grad(t.m, x, &t.b, 4, nu, g, t.scratch)));
            assert_true(ops->finite(n, g));
            fli_pair_grad(t.m, x, own, mixes[j], &t.b, 4, nu, g, own_g, t.scratch);
            assert_true(ops->finite(n, g) && ops->finite(n, own_g));
            t.b.n = 4;
            assert_true(isfinite(fli_pair_loss(t.m, x, own, mixes[j], &t.b, t.b.n, NULL, &hits, t.scratch)));
            t.b.n = 9;
            /* pseudo labels by either way stay on the simplex */
            fli_batch rest = t.b;
            rest.n = 5;
            t.m->latent->improve(t.m, x, &rest, 5, nu, t.scratch);
            double row[5 * C];
            ops->to_f64(5 * C, nu, row);
            for (size_t i = 0; i < 5; i++) assert_near(row[i * C] + row[i * C + 1] + row[i * C + 2], 1, 1e-6);
            for (size_t i = 0; i < 5 * C; i++) assert_true(row[i] >= 0 && row[i] <= 1 + 1e-6);
        }
        free(x), free(own), free(nu), free(g), free(own_g);
        bench_fini(&t);
    }
}

/* With mix 1 the mixture is the own model, so the slopes are those of plain cross-entropy: however wrong it is, and
 * however sure. */
static void wrong_and_sure(void **state)
{
    static const double sizes[] = {1, 300, 3000};
    for (size_t k = 0; k < 3; k++) {
        bench t;
        double g[PARAMETERS], own_g[PARAMETERS], want[PARAMETERS], largest = 0;
        bench_init(&t, *state, "softmax", &fli_ops_f64, (fli_semi){.labels = FLI_SEMI_NONE}, 6, 0, sizes[k]);
        fli_pair_grad(t.m, t.x, t.own, 1, &t.b, 6, NULL, g, own_g, t.scratch);
        t.m->desc->grad(t.m, t.own, &t.b, want, NULL, t.scratch);
        for (size_t j = 0; j < t.m->space.n; j++) {
            assert_near(own_g[j], want[j], 1e-12);
            largest = fmax(largest, fabs(want[j]));
        }
        assert_true(largest > 0.1);
        bench_fini(&t);
    }
}

/* ---- pseudo labels ------------------------------------------------------------------------------------- */

/* The part of f_i that a sample's nu is in, times the number of samples. */
static double label_cost(const fli_semi *s, const double *lh, const double *nu)
{
    double sum = s->alpha_r * kl_uniform(nu);
    for (size_t k = 0; k < C; k++)
        if (nu[k] > 0) sum -= s->alpha_p * nu[k] * lh[k];
    return sum;
}

/* No other point of the simplex is better, and the slope is the same in all coordinates. */
static void check_best(const fli_semi *s, const double *lh, const double *nu, fli_rng *r)
{
    double least = label_cost(s, lh, nu), sum = nu[0] + nu[1] + nu[2];
    assert_near(sum, 1, 1e-14);
    for (size_t trial = 0; trial < 2000; trial++) {
        double other[C];
        random_simplex(r, other);
        if (trial % 2) /* near by */
            for (size_t k = 0; k < C; k++) other[k] = nu[k] + 0.01 * (other[k] - nu[k]);
        assert_true(label_cost(s, lh, other) >= least - 1e-14);
    }
    for (size_t k = 1; k < C; k++) {
        double here = s->alpha_r * log(nu[k]) - s->alpha_p * lh[k],
               first = s->alpha_r * log(nu[0]) - s->alpha_p * lh[0];
        assert_near(here, first, 1e-13);
    }
}

static void closed_form(void **state)
{
    static const double w[][2] = {{0.01, 0.01}, {1, 0.3}, {0.2, 1}, {0, 1}};
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 8; k++) {
        bench t;
        fli_semi s = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = w[k / 2][0], .alpha_r = w[k / 2][1]};
        bench_init(&t, *state, models[k % 2], &fli_ops_f64, s, 0, MOST, 0.8);
        assert_false(t.m->latent->kept);
        assert_int_equal(t.m->latent->size(t.m), C);
        t.m->latent->improve(t.m, t.x, &t.b, 1000, t.nu, t.scratch); /* the number of samples does not matter */
        for (size_t i = 0; i < MOST; i++) {
            double lh[C];
            log_h(&t, t.x, i, lh);
            check_best(&s, lh, t.nu + i * C, &r);
        }
        bench_fini(&t);
    }
}

static void likeliest_class(void **state)
{
    static const double w[][2] = {{0.3, 0}, {1e10, 1e-300}}; /* the second overflows on division */
    for (size_t k = 0; k < 2; k++) {
        bench t;
        fli_semi s = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = w[k][0], .alpha_r = w[k][1]};
        bench_init(&t, *state, "softmax", &fli_ops_f64, s, 0, MOST, 0.8);
        t.m->latent->improve(t.m, t.x, &t.b, MOST, t.nu, t.scratch);
        for (size_t i = 0; i < MOST; i++) {
            double lh[C];
            size_t best = 0;
            log_h(&t, t.x, i, lh);
            for (size_t c = 1; c < C; c++) best = lh[c] > lh[best] ? c : best;
            for (size_t c = 0; c < C; c++) assert_near(t.nu[i * C + c], c == best, 0);
        }
        bench_fini(&t);
    }
}

static void only_confident_labels_count(void **state)
{
    size_t with = 0, without = 0;
    bench t;
    fli_semi s = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = 1, .alpha_r = 0.5, .confidence = 0.6};
    bench_init(&t, *state, "softmax", &fli_ops_f64, s, 0, MOST, 0.8);
    t.m->latent->improve(t.m, t.x, &t.b, MOST, t.nu, t.scratch);
    for (size_t i = 0; i < MOST; i++) {
        double lh[C], sum = 0, best = -INFINITY;
        log_h(&t, t.x, i, lh);
        for (size_t c = 0; c < C; c++) best = fmax(best, lh[c]), sum += t.nu[i * C + c];
        assert_near(sum, exp(best) >= 0.6, 1e-14);
        *(exp(best) >= 0.6 ? &with : &without) += 1;
    }
    assert_true(with && without);
    bench_fini(&t);
}

/* The nearest point of the simplex: max(v - tau, 0) with tau by bisection. */
static void nearest(double *v)
{
    double low = -1e3, high = 1e3;
    for (int i = 0; i < 200; i++) {
        double tau = (low + high) / 2, sum = 0;
        for (size_t k = 0; k < C; k++) sum += fmax(v[k] - tau, 0);
        *(sum > 1 ? &low : &high) = tau;
    }
    for (size_t k = 0; k < C; k++) v[k] = fmax(v[k] - low, 0);
}

static void projected_step(void **state)
{
    static const double lrs[] = {0.1, 3, 400};
    for (size_t k = 0; k < 3; k++) {
        bench t;
        double before[MOST * C];
        fli_semi s = {
            .labels = FLI_SEMI_PROJECTED, .alpha_p = 0.9, .alpha_r = 0.2, .label_lr = lrs[k], .label_steps = 1};
        bench_init(&t, *state, "softmax", &fli_ops_f64, s, 0, MOST, 0.8);
        assert_true(t.m->latent->kept);
        memcpy(t.nu, (double[C]){0, 1, 0}, C * sizeof *t.nu); /* the border, where log nu has no value */
        memcpy(before, t.nu, sizeof before);
        t.m->latent->improve(t.m, t.x, &t.b, 40, t.nu, t.scratch);
        for (size_t i = 0; i < MOST; i++) {
            double lh[C], want[C];
            log_h(&t, t.x, i, lh);
            for (size_t c = 0; c < C; c++) {
                double nu = before[i * C + c];
                want[c] = nu - lrs[k] / 40 * (-0.9 * lh[c] + 0.2 * (log(fmax(nu, 1e-12)) + 1 + log(C)));
            }
            nearest(want);
            for (size_t c = 0; c < C; c++) assert_near(t.nu[i * C + c], want[c], 1e-12);
        }
        bench_fini(&t);
    }
}

/* Small steps never make f_i larger, and many of them end at the closed form. */
static void projected_steps(void **state)
{
    bench t;
    fli_semi s = {.labels = FLI_SEMI_PROJECTED, .alpha_p = 0.5, .alpha_r = 0.5, .label_lr = 0.2, .label_steps = 1};
    bench_init(&t, *state, "mlp", &fli_ops_f64, s, 2, 7, 0.6);
    uint32_t idx[7];
    for (uint32_t i = 0; i < 7; i++) idx[i] = i + 2;
    fli_batch_gather(&t.b, t.ds, idx, 7);
    for (size_t i = 0; i < 7 * C; i++) t.nu[i] = 1.0 / C;
    double last = objective(&t, t.x, t.x, 1), first = last;
    for (size_t step = 0; step < 400; step++) {
        t.m->latent->improve(t.m, t.x, &t.b, 7, t.nu, t.scratch);
        double now = objective(&t, t.x, t.x, 1);
        assert_true(now <= last + 1e-15);
        last = now;
        for (size_t i = 0; i < 7; i++) assert_near(t.nu[i * C] + t.nu[i * C + 1] + t.nu[i * C + 2], 1, 1e-14);
        for (size_t i = 0; i < 7 * C; i++) assert_true(t.nu[i] >= 0);
    }
    assert_true(last < first - 1e-3);
    t.semi.label_steps = 20000;
    t.m->latent->improve(t.m, t.x, &t.b, 7, t.nu, t.scratch);
    for (size_t i = 0; i < 7; i++) {
        double lh[C];
        log_h(&t, t.x, i + 2, lh);
        for (size_t c = 0; c < C; c++) assert_near(t.nu[i * C + c], exp(lh[c]), 1e-9); /* alpha_p = alpha_r */
    }
    bench_fini(&t);
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void other_models(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *name;
        size_t classes;
    } cases[] = {{"least_squares", 0}, {"logistic", 2}};
    for (size_t i = 0; i < 2; i++) {
        fli_semi s = {.labels = FLI_SEMI_CLOSED_FORM};
        fli_model *m;
        assert_ok(f->ctx,
                  fli_model_new(f->ctx, model_named(cases[i].name), NULL, &fli_ops_f64, DIM, cases[i].classes, 0, &m));
        assert_fails(f->ctx, fli_model_use_semi(f->ctx, m, &s), FL_ECONFIG,
                     "a classifier that gives class probabilities");
        assert_fails(f->ctx, fli_solver_fits(f->ctx, &fli_solver_pair, m), FL_ECONFIG,
                     "classifiers that give class probabilities");
        assert_null(m->latent);
        fli_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(one_model),
        FIXTURE_TEST(a_pair_has_the_right_gradient),
        FIXTURE_TEST(pair_without_labels_to_find),
        FIXTURE_TEST(pair_losses),
        FIXTURE_TEST(extreme_logits),
        FIXTURE_TEST(wrong_and_sure),
        FIXTURE_TEST(closed_form),
        FIXTURE_TEST(likeliest_class),
        FIXTURE_TEST(only_confident_labels_count),
        FIXTURE_TEST(projected_step),
        FIXTURE_TEST(projected_steps),
        FIXTURE_TEST(other_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
