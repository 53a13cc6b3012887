/* What models say of themselves to devices, walked through with plain loops: the loss and the gradient must be the
 * model's own. */
#include "fixture.h"

enum { SAMPLES = 5 };

/* ---- one sample, layer by layer ------------------------------------------------------------------------- */

typedef struct {
    const fli_network *net;
    const double *x;
    double *g;
    double *h[FLI_NET_LAYERS_MAX + 1], *d[FLI_NET_LAYERS_MAX + 1]; /* values between layers, and derivatives by them */
} walk;

static size_t at(const size_t shape[3], size_t c, size_t i, size_t j) { return (c * shape[1] + i) * shape[2] + j; }

/* Calls `visit` for every product of a weight and an input that a CONV or FC layer consists of. */
typedef void visit_fn(walk *w, size_t l, size_t weight, size_t in, size_t out);

static void visit_window(walk *w, size_t l, const size_t o[3], visit_fn *visit)
{
    const fli_net_layer *a = &w->net->layer[l];
    size_t k = a->kernel;
    for (size_t c = 0; c < a->in[0]; c++)
        for (size_t p = 0; p < k; p++)
            for (size_t q = 0; q < k; q++) {
                size_t i = o[1] * a->stride + p, j = o[2] * a->stride + q;
                if (i < a->pad || j < a->pad || i - a->pad >= a->in[1] || j - a->pad >= a->in[2]) continue;
                visit(w, l, a->weight + ((o[0] * a->in[0] + c) * k + p) * k + q, at(a->in, c, i - a->pad, j - a->pad),
                      at(a->out, o[0], o[1], o[2]));
            }
}

static void visit_products(walk *w, size_t l, visit_fn *visit)
{
    const fli_net_layer *a = &w->net->layer[l];
    size_t in = fli_net_in(a), o[3];
    if (a->kind == FLI_NET_FC)
        for (size_t u = 0; u < a->out[0]; u++)
            for (size_t i = 0; i < in; i++) visit(w, l, a->weight + u * in + i, i, u);
    else
        for (o[0] = 0; o[0] < a->out[0]; o[0]++)
            for (o[1] = 0; o[1] < a->out[1]; o[1]++)
                for (o[2] = 0; o[2] < a->out[2]; o[2]++) visit_window(w, l, o, visit);
}

static void forward_product(walk *w, size_t l, size_t weight, size_t in, size_t out)
{
    w->h[l + 1][out] += w->x[weight] * w->h[l][in];
}

static void backward_product(walk *w, size_t l, size_t weight, size_t in, size_t out)
{
    w->g[weight] += w->d[l + 1][out] * w->h[l][in];
    w->d[l][in] += w->d[l + 1][out] * w->x[weight];
}

/* Pools: forward if `back` is 0. */
static void pool(walk *w, size_t l, int back)
{
    const fli_net_layer *a = &w->net->layer[l];
    double share = 1 / (double)(a->kernel * a->kernel);
    for (size_t c = 0; c < a->out[0]; c++)
        for (size_t i = 0; i < a->out[1]; i++)
            for (size_t j = 0; j < a->out[2]; j++) {
                size_t to = at(a->out, c, i, j), best = at(a->in, c, i * a->kernel, j * a->kernel);
                for (size_t p = 0; p < a->kernel * a->kernel; p++) {
                    size_t from = at(a->in, c, i * a->kernel + p / a->kernel, j * a->kernel + p % a->kernel);
                    if (w->h[l][from] > w->h[l][best]) best = from;
                    if (a->kind == FLI_NET_MAX_POOL) continue;
                    if (back)
                        w->d[l][from] += share * w->d[l + 1][to];
                    else
                        w->h[l + 1][to] += share * w->h[l][from];
                }
                if (a->kind != FLI_NET_MAX_POOL) continue;
                if (back)
                    w->d[l][best] += w->d[l + 1][to];
                else
                    w->h[l + 1][to] = w->h[l][best];
            }
}

static int pools(const fli_net_layer *a) { return a->kind == FLI_NET_MAX_POOL || a->kind == FLI_NET_MEAN_POOL; }

static void forward(walk *w, size_t l)
{
    const fli_net_layer *a = &w->net->layer[l];
    size_t pixels = a->out[1] * a->out[2];
    memset(w->h[l + 1], 0, fli_net_out(a) * sizeof *w->h[l + 1]);
    if (pools(a)) {
        pool(w, l, 0);
        return;
    }
    visit_products(w, l, forward_product);
    for (size_t i = 0; i < fli_net_out(a); i++) {
        if (a->biased) w->h[l + 1][i] += w->x[a->bias + i / pixels];
        if (a->relu) w->h[l + 1][i] = fmax(0, w->h[l + 1][i]);
    }
}

static void backward(walk *w, size_t l)
{
    const fli_net_layer *a = &w->net->layer[l];
    size_t pixels = a->out[1] * a->out[2];
    memset(w->d[l], 0, fli_net_in(a) * sizeof *w->d[l]);
    if (pools(a)) {
        pool(w, l, 1);
        return;
    }
    for (size_t i = 0; i < fli_net_out(a); i++) {
        if (a->relu && !(w->h[l + 1][i] > 0)) w->d[l + 1][i] = 0;
        if (a->biased) w->g[a->bias + i / pixels] += w->d[l + 1][i];
    }
    visit_products(w, l, backward_product);
}

/* The loss of the last layer's outputs; their derivatives, times share. */
static double loss_of(const fli_network *net, const double *z, int32_t label, double share, double *d)
{
    double sum = 0;
    if (net->loss == FLI_NET_LOGISTIC) {
        d[0] = share * (1 / (1 + exp(-z[0])) - label);
        return log1p(exp(z[0])) - label * z[0];
    }
    for (size_t k = 0; k < net->classes; k++) sum += exp(z[k]);
    for (size_t k = 0; k < net->classes; k++) d[k] = share * (exp(z[k]) / sum - ((size_t)label == k));
    return log(sum) - z[label];
}

static void walk_init(walk *w, const fli_network *net, const double *x)
{
    *w = (walk){.net = net, .x = x, .g = calloc(net->parameters, sizeof *w->g)};
    for (size_t l = 0; l <= net->depth; l++) {
        size_t n = l ? fli_net_out(&net->layer[l - 1]) : net->features;
        if (l < net->depth) assert_int_equal(fli_net_in(&net->layer[l]), n);
        w->h[l] = calloc(n, sizeof(double));
        w->d[l] = calloc(n, sizeof(double));
    }
}

static void walk_fini(walk *w)
{
    for (size_t l = 0; l <= w->net->depth; l++) {
        free(w->h[l]);
        free(w->d[l]);
    }
    free(w->g);
}

/* ---- against the model ---------------------------------------------------------------------------------- */

static void agree(fl_ctx *ctx, const fli_model *m, const fli_batch *b)
{
    fli_network net;
    walk w;
    size_t n = m->space.n, correct;
    double *x = calloc(n, sizeof *x), *g = calloc(n, sizeof *g), loss = 0;
    void *scratch = fli_alloc(ctx, fli_model_scratch(m, b->n), 1);
    fli_rng r;
    fli_rng_init(&r, 3, FLI_RNG_TEST, 1, 0);
    for (size_t i = 0; i < n; i++) x[i] = 0.3 * fli_rng_normal(&r);
    assert_non_null(m->desc->network);
    assert_int_equal(m->desc->network(m, &net), 1);
    assert_int_equal(net.parameters, n);
    walk_init(&w, &net, x);
    for (size_t i = 0; i < b->n; i++) {
        memcpy(w.h[0], (double *)b->x + i * b->dim, b->dim * sizeof(double));
        for (size_t l = 0; l < net.depth; l++) forward(&w, l);
        loss += loss_of(&net, w.h[net.depth], b->label[i], 1 / (double)b->n, w.d[net.depth]) / (double)b->n;
        for (size_t l = net.depth; l-- > 0;) backward(&w, l);
    }
    assert_near(m->desc->grad(m, x, b, g, &correct, scratch), loss, 1e-12 * (1 + fabs(loss)));
    for (size_t i = 0; i < n; i++) assert_near(g[i], w.g[i], 1e-12);
    walk_fini(&w);
    fli_free(scratch);
    free(x);
    free(g);
}

static void check_model(void **state, const char *name, const char *params, const size_t shape[3], size_t classes)
{
    fixture *f = *state;
    const fli_model_desc *d = model_named(name);
    fli_arena arena;
    fli_model *m;
    fli_batch b;
    fli_rng r;
    size_t dim = shape[0] * shape[1] * shape[2];
    fli_arena_init(&arena, f->ctx);
    const void *p = bound(f->ctx, &arena, d->keys, d->params_size, params);
    assert_ok(f->ctx, fli_model_new_for(f->ctx, d, p, &fli_ops_f64, shape, classes, 0, &m));
    assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f64, dim, SAMPLES, &b));
    fli_rng_init(&r, 3, FLI_RNG_TEST, 0, 0);
    b.n = SAMPLES;
    for (size_t i = 0; i < SAMPLES * dim; i++) ((double *)b.x)[i] = fli_rng_normal(&r);
    for (size_t i = 0; i < SAMPLES; i++) b.label[i] = (int32_t)(i % classes);
    agree(f->ctx, m, &b);
    fli_batch_fini(&b);
    fli_model_free(m);
    fli_arena_fini(&arena);
}

static const size_t flat[3] = {1, 1, 7}, image[3] = {3, 9, 8};

static void test_softmax_matches_its_network(void **state) { check_model(state, "softmax", "", flat, 4); }
static void test_logistic_matches_its_network(void **state) { check_model(state, "logistic", "", flat, 2); }
static void test_mlp_matches_its_network(void **state) { check_model(state, "mlp", "hidden=[6, 5]", flat, 3); }
static void test_cnn_matches_its_network(void **state)
{
    check_model(state, "cnn", "layers=conv 4x3 same, pool 2, conv 5x2 stride 2 pad 1, fc 6", image, 3);
    check_model(state, "cnn", "layers=pool 2, conv 4x3 pad 1, avgpool 2, fc 6, fc 4", image, 3);
    check_model(state, "cnn", "layers=avgpool 3", image, 3);
}

static void test_others_say_nothing(void **state)
{
    (void)state;
    assert_null(model_named("least_squares")->network);
    assert_null(model_named("factorization")->network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_softmax_matches_its_network), FIXTURE_TEST(test_logistic_matches_its_network),
        FIXTURE_TEST(test_mlp_matches_its_network),     FIXTURE_TEST(test_cnn_matches_its_network),
        cmocka_unit_test(test_others_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
