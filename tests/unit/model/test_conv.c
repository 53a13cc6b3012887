/* Convolutions of every kind against the definition, each with its adjoint and its gradient; and from many threads at
 * once. */
#include "check.h"

#include "base/rng.h"
#include "model/conv.h"

#include <pthread.h>

/* channels, height, width, kernel, stride, pad, outs */
static const size_t shapes[][7] = {
    {1, 5, 5, 3, 1, 0, 4},   {3, 8, 8, 5, 1, 0, 64},  {3, 7, 6, 3, 1, 1, 10},  {16, 6, 6, 3, 2, 1, 32},
    {5, 6, 9, 2, 3, 0, 7},   {32, 5, 5, 5, 1, 2, 48}, {2, 3, 3, 3, 1, 2, 1},   {6, 4, 4, 1, 1, 0, 20},
    {1, 28, 28, 5, 1, 0, 6}, {33, 4, 5, 4, 2, 3, 17}, {3, 24, 24, 5, 1, 2, 8},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = FLI_CONV_PIECE };

typedef struct {
    fl_ctx *ctx;
    const fli_conv_kind *kind;
    const fli_ops *ops;
    fli_conv_shape s;
    void *conv;
    size_t in, out, weights;            /* reals: of an image, of a filtered one, of the filter */
    double *x, *z, *w;                  /* MOST images, MOST errors, the filter: random */
    void *nx, *nz, *nw, *packed, *work; /* the same in the precision */
} fixture;

static double *random_reals(fl_ctx *ctx, fli_rng *r, size_t n)
{
    double *v = fli_alloc(ctx, n, sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) v[i] = (float)fli_rng_normal(r);
    return v;
}

static void *narrow(const fixture *f, size_t n, const double *x)
{
    void *p = fli_alloc(f->ctx, n, f->ops->size);
    assert_non_null(p);
    f->ops->from_f64(n, x, p);
    return p;
}

static void open_fixture(fixture *f, const fli_conv_kind *kind, const fli_ops *ops, const size_t *s)
{
    fli_rng r;
    fli_rng_init(&r, 9, FLI_RNG_TEST, (uint32_t)s[0], (uint32_t)s[6]);
    *f = (fixture){.ctx = fl_ctx_new(), .kind = kind, .ops = ops, .s = {.outs = s[6]}};
    fli_window_init(&f->s.in, s[0], s[1], s[2], s[3], s[4], s[5]);
    assert_ok(f->ctx, fli_blas_prepare(f->ctx));
    assert_ok(f->ctx, kind->make(f->ctx, &f->s, ops, &f->conv));
    f->in = s[0] * s[1] * s[2];
    f->out = s[6] * f->s.in.out_height * f->s.in.out_width;
    f->weights = s[6] * s[0] * s[3] * s[3];
    f->x = random_reals(f->ctx, &r, MOST * f->in);
    f->z = random_reals(f->ctx, &r, MOST * f->out);
    f->w = random_reals(f->ctx, &r, f->weights);
    f->nx = narrow(f, MOST * f->in, f->x);
    f->nz = narrow(f, MOST * f->out, f->z);
    f->nw = narrow(f, f->weights, f->w);
    f->packed = fli_alloc(f->ctx, kind->packed(f->conv), ops->size);
    f->work = fli_alloc(f->ctx, kind->work(f->conv), ops->size);
}

static void close_fixture(fixture *f)
{
    void *all[] = {f->x, f->z, f->w, f->nx, f->nz, f->nw, f->packed, f->work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fli_free(all[i]);
    f->kind->free(f->conv);
    f->kind->free(NULL);
    fl_ctx_free(f->ctx);
}

/* ---- the definition --------------------------------------------------------------------------------------- */

typedef void visit(void *arg, size_t x, size_t w, size_t z);

/* Every product x[.] w[.] of the sum that makes z[.], for n images. */
static void each_product(const fixture *f, size_t n, visit *v, void *arg)
{
    const fli_window *in = &f->s.in;
    size_t k2 = in->kernel * in->kernel, places = in->out_height * in->out_width;
    for (size_t i = 0; i < n * places * in->channels * k2; i++) {
        size_t image = i / (places * in->channels * k2), place = i / (in->channels * k2) % places;
        size_t c = i / k2 % in->channels, k = i % k2;
        size_t row = place / in->out_width * in->stride + k / in->kernel;
        size_t column = place % in->out_width * in->stride + k % in->kernel;
        if (row < in->pad || column < in->pad || row - in->pad >= in->height || column - in->pad >= in->width) continue;
        size_t x = image * f->in + ((row - in->pad) * in->width + column - in->pad) * in->channels + c;
        for (size_t o = 0; o < f->s.outs; o++)
            v(arg, x, (o * in->channels + c) * k2 + k, image * f->out + place * f->s.outs + o);
    }
}

typedef struct {
    const fixture *f;
    double *out;
} sums;

static void add_z(void *arg, size_t x, size_t w, size_t z)
{
    sums *s = arg;
    s->out[z] += s->f->x[x] * s->f->w[w];
}
static void add_x(void *arg, size_t x, size_t w, size_t z)
{
    sums *s = arg;
    s->out[x] += s->f->z[z] * s->f->w[w];
}
static void add_w(void *arg, size_t x, size_t w, size_t z)
{
    sums *s = arg;
    s->out[w] += s->f->x[x] * s->f->z[z];
}

static void compare(const fixture *f, const char *what, size_t images, size_t n, visit *v, const void *got_)
{
    double *want = fli_alloc(f->ctx, n, sizeof *want), *got = fli_alloc(f->ctx, n, sizeof *got), far = 0, size = 0;
    each_product(f, images, v, &(sums){f, want});
    f->ops->to_f64(n, got_, got);
    for (size_t i = 0; i < n; i++) {
        far = fmax(far, fabs(got[i] - want[i]));
        size = fmax(size, fabs(want[i]));
        if (isnan(got[i])) far = INFINITY;
    }
    if (!(far <= (f->ops->size == 4 ? 3e-6 : 1e-14) * size))
        fail_msg("%s, %s, %zux%zux%zu, window %zu stride %zu pad %zu, %zu filters, %zu images: off by %g of %g",
                 f->kind->name, what, f->s.in.channels, f->s.in.height, f->s.in.width, f->s.in.kernel, f->s.in.stride,
                 f->s.in.pad, f->s.outs, images, far, size);
    fli_free(want);
    fli_free(got);
}

/* ---- tests ------------------------------------------------------------------------------------------------ */

static void check_images(fixture *f, size_t n)
{
    void *z = fli_alloc(f->ctx, MOST * f->out, f->ops->size), *x = fli_alloc(f->ctx, MOST * f->in, f->ops->size);
    void *g = fli_alloc(f->ctx, f->weights, f->ops->size);
    f->ops->fill(MOST * f->out, NAN, z);
    f->ops->fill(MOST * f->in, NAN, x);
    f->ops->fill(f->kind->packed(f->conv), NAN, f->packed);
    f->kind->pack(f->conv, FLI_CONV_FORWARD, f->nw, f->packed, f->work);
    f->kind->forward(f->conv, n, f->packed, f->nx, z, f->work);
    compare(f, "forward", n, n * f->out, add_z, z);
    f->kind->pack(f->conv, FLI_CONV_BACKWARD, f->nw, f->packed, f->work);
    f->kind->backward(f->conv, n, f->packed, f->nz, x, f->work);
    compare(f, "backward", n, n * f->in, add_x, x);
    f->ops->fill(f->kind->packed(f->conv), NAN, f->packed);
    f->kind->gradient(f->conv, n, f->nx, f->nz, 0, f->packed, f->work);
    f->kind->unpack(f->conv, f->packed, g, f->work);
    compare(f, "gradient", n, f->weights, add_w, g);
    /* and once more on top */
    f->kind->gradient(f->conv, n, f->nx, f->nz, 1, f->packed, f->work);
    f->kind->unpack(f->conv, f->packed, g, f->work);
    f->ops->scale(f->weights, 0.5, g);
    compare(f, "sum of gradients", n, f->weights, add_w, g);
    fli_free(x);
    fli_free(z);
    fli_free(g);
}

static void check_kind(const fli_conv_kind *kind, const fli_ops *ops)
{
    static const size_t images[] = {1, 7, MOST};
    for (size_t i = 0; i < SHAPES; i++) {
        fixture f;
        open_fixture(&f, kind, ops, shapes[i]);
        for (size_t k = 0; k < 3; k++) check_images(&f, images[k]);
        close_fixture(&f);
    }
}

static void test_plain_convolutions_match_the_definition(void **state)
{
    (void)state;
    check_kind(&fli_conv_plain, &fli_ops_f64);
    check_kind(&fli_conv_plain, &fli_ops_f32);
}

static void test_onednn_convolutions_match_the_definition(void **state)
{
    (void)state;
    assert_true(!fli_conv_onednn == !fli_conv_library());
    if (!fli_conv_onednn) skip();
    check_kind(fli_conv_onednn, &fli_ops_f32);
}

typedef struct {
    const fixture *f;
    void *z, *work;
} job;

static void *forward_often(void *arg)
{
    job *j = arg;
    for (int i = 0; i < 40; i++) j->f->kind->forward(j->f->conv, MOST, j->f->packed, j->f->nx, j->z, j->work);
    return NULL;
}

/* More threads than there were slots before: same bits in each. */
static void test_threads_get_the_same_bits(void **state)
{
    (void)state;
    enum { THREADS = 6 };
    const fli_conv_kind *kind = fli_conv_onednn ? fli_conv_onednn : &fli_conv_plain;
    pthread_t thread[THREADS];
    job jobs[THREADS];
    fixture f;
    open_fixture(&f, kind, &fli_ops_f32, shapes[1]);
    kind->pack(f.conv, FLI_CONV_FORWARD, f.nw, f.packed, f.work);
    for (size_t i = 0; i < THREADS; i++) {
        jobs[i] = (job){&f, fli_alloc(f.ctx, MOST * f.out, 4), fli_alloc(f.ctx, kind->work(f.conv), 4)};
        assert_int_equal(pthread_create(&thread[i], NULL, forward_often, &jobs[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (size_t i = 0; i < THREADS; i++) {
        assert_memory_equal(jobs[i].z, jobs[0].z, MOST * f.out * 4);
        if (!i) compare(&f, "forward", MOST, MOST * f.out, add_z, jobs[0].z);
    }
    for (size_t i = 0; i < THREADS; i++) {
        fli_free(jobs[i].z);
        fli_free(jobs[i].work);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_convolutions_match_the_definition),
        cmocka_unit_test(test_onednn_convolutions_match_the_definition),
        cmocka_unit_test(test_threads_get_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
