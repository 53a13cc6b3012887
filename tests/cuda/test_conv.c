/* Convolutions of many lanes against plain loops in double precision. */
#include "cuda/kernels/kernels.h"
#include "device_memory.h"
#include "order.h"

#include "check.h"

#include <math.h>
#include <string.h>

enum { LANES = 3, ROOM = 8, PLACE = 7 }; /* the layer's parameters begin at PLACE */

typedef struct {
    size_t from, height, width, to, kernel, stride, pad, pool;
    int chw, relu, biased;
} conv_case;

static const conv_case cases[] = {
    {16, 6, 6, 64, 3, 1, 1, 2, 1, 1, 1},  /* as the CIFAR network's second, but smaller */
    {64, 4, 4, 64, 5, 1, 2, 2, 1, 1, 1},  /* and with its filters */
    {3, 8, 8, 64, 5, 1, 2, 2, 0, 1, 1},   /* as its first */
    {1, 10, 10, 6, 5, 1, 0, 2, 0, 1, 1},  /* LeNet */
    {6, 9, 9, 16, 5, 1, 0, 2, 1, 1, 1},   /* its second, and a row that the pool leaves out */
    {20, 5, 7, 17, 3, 1, 1, 0, 1, 0, 0},  /* no pool, odd sizes, channels that fill no tile */
    {3, 7, 6, 5, 2, 1, 3, 0, 0, 1, 1},    /* more margin than the kernel needs */
    {70, 3, 3, 66, 3, 1, 1, 0, 0, 1, 1},  /* several blocks of channels and filters */
    {18, 6, 6, 10, 1, 1, 0, 2, 0, 1, 1},  /* one tap */
    {3, 9, 8, 6, 3, 2, 1, 0, 0, 1, 1},    /* from here on: plain; a stride */
    {2, 9, 9, 4, 3, 1, 1, 3, 1, 1, 1},    /* a larger pool */
    {1, 12, 12, 3, 11, 1, 0, 2, 0, 1, 1}, /* a large kernel */
};

/* All in doubles here; `type` there. */
typedef struct {
    conv_case c;
    int number; /* of the case */
    fli_cuda_type type;
    fli_net_layer l, p;
    const fli_net_layer *pool;
    size_t weights, parameters, in_size, out_size, rows[LANES];
    double *z, *term, *buffer, *gradient; /* LANES x parameters */
    double *in, *out, *error, *below;     /* LANES x ROOM rows */
    unsigned char *which;
    void *there_z, *there_term, *there_buffer, *there_gradient;
    void *there_in, *there_out, *there_error, *there_below, *work;
    unsigned char *there_which;
    fli_cuda_lane lane[LANES], *there_lane;
    double rates[4], *there_rates;
    fli_cuda_batch batch;
} bench;

static uint32_t seed;
static double drawn(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 23) - 1;
}

static size_t real_size(fli_cuda_type type) { return type == FLI_CUDA_F64 ? 8 : 4; }

/* As reals of the type, so that both sides see the same numbers. */
static void *put(fli_cuda_type type, size_t n, double *x)
{
    void *p, *raw = malloc(n * 8 + 1);
    for (size_t i = 0; i < n; i++) {
        if (type == FLI_CUDA_F64)
            ((double *)raw)[i] = x[i];
        else
            x[i] = ((float *)raw)[i] = (float)x[i];
    }
    p = there(n * real_size(type), raw);
    free(raw);
    return p;
}

static void get(fli_cuda_type type, size_t n, const void *from, double *x)
{
    void *raw = malloc(n * 8 + 1);
    here(n * real_size(type), from, raw);
    for (size_t i = 0; i < n; i++) x[i] = type == FLI_CUDA_F64 ? ((double *)raw)[i] : (double)((float *)raw)[i];
    free(raw);
}

static double *random_reals(size_t n)
{
    double *x = malloc(n * sizeof *x + 1);
    for (size_t i = 0; i < n; i++) x[i] = drawn();
    return x;
}

static void layers_begin(bench *b)
{
    const conv_case *c = &b->c;
    size_t high = (c->height + 2 * c->pad - c->kernel) / c->stride + 1;
    size_t wide = (c->width + 2 * c->pad - c->kernel) / c->stride + 1;
    b->weights = c->to * c->from * c->kernel * c->kernel;
    b->parameters = PLACE + b->weights + c->to + 2;
    b->l = (fli_net_layer){.kind = FLI_NET_CONV,
                           .relu = c->relu,
                           .in = {c->from, c->height, c->width},
                           .out = {c->to, high, wide},
                           .kernel = c->kernel,
                           .stride = c->stride,
                           .pad = c->pad,
                           .weight = PLACE,
                           .bias = PLACE + b->weights + 1,
                           .biased = c->biased};
    if (c->pool) {
        b->p = (fli_net_layer){.kind = FLI_NET_MAX_POOL,
                               .in = {c->to, high, wide},
                               .out = {c->to, high / c->pool, wide / c->pool},
                               .kernel = c->pool,
                               .stride = c->pool};
        b->pool = &b->p;
    }
    b->in_size = fli_net_in(&b->l);
    b->out_size = fli_net_out(b->pool ? b->pool : &b->l);
}

/* Rows that no lane has are NaN. */
static double *random_rows(const bench *b, size_t size)
{
    double *x = random_reals(LANES * ROOM * size);
    for (size_t i = 0; i < LANES * ROOM * size; i++)
        if (i / size % ROOM >= b->rows[i / size / ROOM]) x[i] = NAN;
    return x;
}

static void lanes_begin(bench *b, int gradient)
{
    static const uint32_t n[LANES] = {5, 3, 6}, rest[LANES] = {0, 2, 0};
    size_t size = b->parameters * real_size(b->type);
    b->rates[0] = 9, b->rates[1] = 9, b->rates[2] = 0.25, b->rates[3] = 0.125;
    b->there_rates = there(sizeof b->rates, b->rates);
    for (size_t i = 0; i < LANES; i++) {
        fli_cuda_lane *l = &b->lane[i];
        *l = (fli_cuda_lane){.z = (char *)b->there_z + i * size, .lr = 0.5, .wd = 0.25, .n = n[i], .size = 3};
        if (rest[i]) l->rest_n = rest[i], l->rest_size = 2;
        if (i == 1) l->rates = b->there_rates, l->term = (char *)b->there_term + i * size, l->times = 1;
        if (i == 1) l->buffer = (char *)b->there_buffer + i * size, l->momentum = 0.75;
        if (i == 2) l->term = (char *)b->there_term + i * size, l->times = -0.375, l->rho = 0.375;
        if (gradient) l->gradient = (char *)b->there_gradient + i * size;
    }
    b->there_lane = there(sizeof b->lane, b->lane);
    b->batch = (fli_cuda_batch){.lane = b->there_lane, .lanes = LANES, .step = 1, .most = ROOM, .room = ROOM};
}

static void bench_begin(bench *b, fli_cuda_type type, const conv_case *c, int gradient)
{
    *b = (bench){.c = *c, .number = (int)(c - cases), .type = type, .rows = {2, 5, 3}}; /* of step 1 */
    seed = 19;
    layers_begin(b);
    size_t parameters = LANES * b->parameters, rows = LANES * ROOM;
    b->z = random_reals(parameters), b->term = random_reals(parameters);
    b->buffer = random_reals(parameters), b->gradient = random_reals(parameters);
    b->in = random_rows(b, b->in_size), b->error = random_rows(b, b->out_size);
    b->out = malloc(rows * b->out_size * sizeof(double)), b->below = malloc(rows * b->in_size * sizeof(double));
    b->which = malloc(rows * b->out_size);
    b->there_z = put(type, parameters, b->z), b->there_term = put(type, parameters, b->term);
    b->there_buffer = put(type, parameters, b->buffer);
    b->there_gradient = put(type, parameters, b->gradient);
    b->there_in = put(type, rows * b->in_size, b->in), b->there_error = put(type, rows * b->out_size, b->error);
    b->there_out = there(rows * b->out_size * real_size(type), NULL);
    b->there_below = there(rows * b->in_size * real_size(type), NULL);
    b->there_which = there(rows * b->out_size, NULL);
    b->work = there(fli_cuda_conv_work(type, &b->l, b->pool, LANES, ROOM) + 16, NULL);
    lanes_begin(b, gradient);
    fli_cuda_conv_forward(stream(), type, &b->l, b->pool, &b->batch, b->there_in, c->chw, b->there_which, b->there_out,
                          b->work);
    get(type, rows * b->out_size, b->there_out, b->out);
    here(rows * b->out_size, b->there_which, b->which);
}

static void bench_end(bench *b)
{
    double *own[] = {b->z, b->term, b->buffer, b->gradient, b->in, b->out, b->error, b->below};
    void *far[] = {b->there_z,     b->there_term,  b->there_buffer, b->there_gradient, b->there_in,    b->there_out,
                   b->there_error, b->there_below, b->there_which,  b->there_lane,     b->there_rates, b->work};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) free(own[i]);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) fli_cuda_release(far[i]);
    free(b->which);
}

/* A sum and the sum of its terms' magnitudes, of which an error is a small part: products are rounded, and tensor cores
 * cut off what their sums have no room for. */
typedef struct {
    double is, size;
} sum;

static void sum_add(sum *s, double v)
{
    s->is += v;
    s->size += fabs(v);
}

static double tolerance(const bench *b, sum s)
{
    return (b->type == FLI_CUDA_F64 ? 1e-15 : b->type == FLI_CUDA_F32 ? 1e-6 : 1e-3) * (2 + s.size);
}

#define assert_sum(b, a, sum, expected, ...)                                                                           \
    do {                                                                                                               \
        double is_ = (a), should_ = (expected), most_ = tolerance(b, sum);                                             \
        if (fabs(is_ - should_) <= most_) break;                                                                       \
        print_error("case %d, type %d: ", (b)->number, (int)(b)->type);                                                \
        print_error(__VA_ARGS__);                                                                                      \
        fail_msg("%s = %.9g, expected %.9g +- %.2g", #a, is_, should_, most_);                                         \
    } while (0)

/* ---- the same in plain loops ---- */

static sum filtered(const bench *b, const double *z, const double *image, size_t o, size_t y, size_t x)
{
    const conv_case *c = &b->c;
    sum s = {0, 0};
    for (size_t k = 0; k < c->kernel * c->kernel; k++) {
        size_t sy = y * c->stride + k / c->kernel - c->pad, sx = x * c->stride + k % c->kernel - c->pad;
        if (sy >= c->height || sx >= c->width) continue;
        for (size_t i = 0; i < c->from; i++)
            sum_add(&s, image[(sy * c->width + sx) * c->from + i] *
                            z[PLACE + (o * c->from + i) * c->kernel * c->kernel + k]);
    }
    return s;
}

static size_t out_at(const bench *b, size_t window, size_t o)
{
    return b->c.chw ? o * (b->out_size / b->c.to) + window : window * b->c.to + o;
}

static void check_output(const bench *b, const double *z, size_t row, size_t window, size_t o)
{
    const conv_case *c = &b->c;
    size_t pool = c->pool ? c->pool : 1, columns = (b->pool ? b->pool : &b->l)->out[2];
    size_t place = c->pool ? b->which[row * b->out_size + window * c->to + o] : 0;
    sum most = {-INFINITY, 0}, there_most = {0, 0};
    for (size_t k = 0; k < pool * pool; k++) {
        sum v = filtered(b, z, b->in + row * b->in_size, o, window / columns * pool + k / pool,
                         window % columns * pool + k % pool);
        if (v.is > most.is) most = v;
        if (k == place) there_most = v;
    }
    assert_true(place < pool * pool);
    assert_sum(b, there_most.is, there_most, most.is, "row %zu, window %zu, filter %zu, place %zu: ", row, window, o,
               place);
    if (c->biased) most.is += z[b->l.bias + o];
    if (c->relu && most.is < 0) most.is = 0;
    assert_sum(b, b->out[row * b->out_size + out_at(b, window, o)], most, most.is,
               "row %zu, window %zu, filter %zu: ", row, window, o);
}

static void check_forward(const bench *b)
{
    for (size_t lane = 0; lane < LANES; lane++)
        for (size_t r = 0; r < b->rows[lane]; r++)
            for (size_t i = 0; i < b->out_size; i++)
                check_output(b, b->z + lane * b->parameters, lane * ROOM + r, i / b->c.to, i % b->c.to);
}

/* The error before the pool at (y, x) of filter o. */
static double error_at(const bench *b, size_t row, size_t y, size_t x, size_t o)
{
    size_t pool = b->c.pool ? b->c.pool : 1;
    const size_t *out = (b->pool ? b->pool : &b->l)->out;
    if (y / pool >= out[1] || x / pool >= out[2]) return 0;
    size_t window = y / pool * out[2] + x / pool;
    if (b->pool && b->which[row * b->out_size + window * b->c.to + o] != y % pool * pool + x % pool) return 0;
    return b->error[row * b->out_size + out_at(b, window, o)];
}

/* Adds what row `row` gives to its lane's gradient and to the error below. */
static void spread(const bench *b, const double *z, size_t row, sum *gradient, sum *below)
{
    const conv_case *c = &b->c;
    const double *image = b->in + row * b->in_size;
    for (size_t o = 0; o < c->to; o++)
        for (size_t at = 0; at < b->l.out[1] * b->l.out[2]; at++) {
            size_t y = at / b->l.out[2], x = at % b->l.out[2];
            double d = error_at(b, row, y, x, o);
            if (d == 0) continue;
            sum_add(&gradient[b->l.bias + o], d);
            for (size_t k = 0; k < c->kernel * c->kernel; k++) {
                size_t sy = y * c->stride + k / c->kernel - c->pad, sx = x * c->stride + k % c->kernel - c->pad;
                if (sy >= c->height || sx >= c->width) continue;
                for (size_t i = 0; i < c->from; i++) {
                    size_t w = PLACE + (o * c->from + i) * c->kernel * c->kernel + k,
                           p = (sy * c->width + sx) * c->from;
                    sum_add(&gradient[w], d * image[p + i]);
                    sum_add(&below[p + i], d * z[w]);
                }
            }
        }
}

static void check_lane(const bench *b, size_t lane, const sum *gradient, const double *now, const double *buffer,
                       int wanted, int add)
{
    const fli_cuda_lane *l = &b->lane[lane];
    size_t end = b->l.bias + (b->c.biased ? b->c.to : 0);
    double lr = l->rates ? b->rates[2] : l->lr;
    for (size_t i = 0; i < b->parameters; i++) {
        size_t at = lane * b->parameters + i;
        int ours = (i >= PLACE && i < PLACE + b->weights) || (i >= b->l.bias && i < end);
        double d = gradient[i].is + (l->rates ? b->rates[3] : l->wd) * b->z[at], m = b->buffer[at];
        if (l->term) d += l->times * b->term[at] + l->rho * b->z[at];
        if (l->buffer) m = d = l->momentum * m + d;
        double z = ours && !wanted ? b->z[at] - lr * d : b->z[at];
        if (wanted) z = b->gradient[at] * (!ours || add) + (ours ? gradient[i].is : 0);
        assert_sum(b, now[i], gradient[i], z, "lane %zu, parameter %zu: ", lane, i);
        assert_sum(b, buffer[i], gradient[i], ours && !wanted ? m : b->buffer[at], "lane %zu, parameter %zu: ", lane,
                   i);
    }
}

static void check_backward(const bench *b, int masked, int wanted, int add)
{
    size_t parameters = b->parameters;
    double *now = malloc(LANES * parameters * sizeof *now), *buffer = malloc(LANES * parameters * sizeof *buffer);
    sum *gradient = malloc(parameters * sizeof *gradient), *below = malloc(b->in_size * sizeof *below);
    get(b->type, LANES * parameters, wanted ? b->there_gradient : b->there_z, now);
    get(b->type, LANES * parameters, b->there_buffer, buffer);
    for (size_t lane = 0; lane < LANES; lane++) {
        for (size_t i = 0; i < parameters; i++) gradient[i] = (sum){0, 0};
        for (size_t r = 0; r < b->rows[lane]; r++) {
            size_t row = lane * ROOM + r;
            for (size_t i = 0; i < b->in_size; i++) below[i] = (sum){0, 0};
            spread(b, b->z + lane * parameters, row, gradient, below);
            for (size_t i = 0; i < b->in_size; i++) {
                double d = masked && b->in[row * b->in_size + i] <= 0 ? 0 : below[i].is;
                assert_sum(b, b->below[row * b->in_size + i], below[i], d, "row %zu, input %zu: ", row, i);
            }
        }
        check_lane(b, lane, gradient, now + lane * parameters, buffer + lane * parameters, wanted, add);
    }
    free(now), free(buffer), free(gradient), free(below);
}

static void run_case(fli_cuda_type type, const conv_case *c, int masked, int wanted, int add)
{
    bench b;
    bench_begin(&b, type, c, wanted);
    check_forward(&b);
    fli_cuda_conv_backward(stream(), type, &b.l, b.pool, &b.batch, b.there_error, c->chw, b.there_which,
                           masked ? b.there_in : NULL, b.there_below, b.work);
    fli_cuda_conv_step(stream(), type, &b.l, b.pool, &b.batch, b.there_error, c->chw, b.there_which, b.there_in, add,
                       b.work);
    get(type, LANES * ROOM * b.in_size, b.there_below, b.below);
    check_backward(&b, masked, wanted, add);
    bench_end(&b);
}

static void run_cases(fli_cuda_type type)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_emulated_order((fli_order)(i % FLI_ORDERS));
        run_case(type, &cases[i], i % 2 == 0, 0, 0);
    }
    fli_emulated_order(FLI_ORDER_FORWARD);
}

static void test_f32_convolutions_match_plain_loops(void **state)
{
    (void)state;
    run_cases(FLI_CUDA_F32);
}

static void test_tf32_convolutions_match_plain_loops(void **state)
{
    (void)state;
    fli_cuda_conv_quads = 2;
    run_cases(FLI_CUDA_TF32);
    fli_cuda_conv_quads = 0;
}

static void test_large_pieces(void **state)
{
    (void)state;
    for (fli_cuda_conv_quads = 3; fli_cuda_conv_quads <= 4; fli_cuda_conv_quads++) {
        run_case(FLI_CUDA_TF32, &cases[0], 1, 0, 0);
        run_case(FLI_CUDA_TF32, &cases[5], 0, 0, 0);
        run_case(FLI_CUDA_TF32, &cases[7], 1, 0, 0);
    }
    fli_cuda_conv_quads = 0;
}

static void test_f64_convolutions_match_plain_loops(void **state)
{
    (void)state;
    run_cases(FLI_CUDA_F64);
}

static void test_gradient_wanted(void **state)
{
    (void)state;
    for (int add = 0; add < 2; add++) {
        run_case(FLI_CUDA_F32, &cases[4], 1, 1, add);
        run_case(FLI_CUDA_F64, &cases[9], 1, 1, add);
    }
}

/* Lanes behind the first `lanes` are left alone, and so are those whose mini-batch has no rows in this piece. */
static void test_others_left_alone(void **state)
{
    (void)state;
    bench b;
    bench_begin(&b, FLI_CUDA_F32, &cases[4], 0);
    double *now = malloc(LANES * b.parameters * sizeof *now);
    b.batch.lanes = 2;
    b.batch.first = 2; /* lane 0 has two rows */
    fli_cuda_conv_step(stream(), b.type, &b.l, b.pool, &b.batch, b.there_error, b.c.chw, b.there_which, b.there_in, 0,
                       b.work);
    get(b.type, LANES * b.parameters, b.there_z, now);
    for (size_t lane = 0; lane < LANES; lane++) {
        size_t size = b.parameters * sizeof *now;
        int same = memcmp(now + lane * b.parameters, b.z + lane * b.parameters, size) == 0;
        assert_int_equal(same, lane != 1);
    }
    free(now);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_convolutions_match_plain_loops),
        cmocka_unit_test(test_tf32_convolutions_match_plain_loops),
        cmocka_unit_test(test_large_pieces),
        cmocka_unit_test(test_f64_convolutions_match_plain_loops),
        cmocka_unit_test(test_gradient_wanted),
        cmocka_unit_test(test_others_left_alone),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
