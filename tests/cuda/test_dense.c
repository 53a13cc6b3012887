/* Layers of units against plain loops in double precision. */
#include "cuda/kernels/kernels.h"
#include "device_memory.h"
#include "order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A case: what is computed, and for how many. Lane l has rows - l rows, but at least one. */
typedef struct {
    fli_cuda_type type;
    uint32_t lanes, idle; /* idle: lanes behind those that work */
    uint32_t rows, inputs, units, offset;
    int relu, unbiased;
    int term, rho, momentum, rates;
    int gradient, add;
} shape;

typedef struct {
    shape c;
    size_t parameters, room;
    fli_net_layer layer;
    double *z[8], *term[8], *buffer[8], *gradient[8]; /* as they begin */
    double *in, *error, *h;
    void *at[8][4];
    void *in_at, *error_at, *h_at, *out_at;
    fli_cuda_lane lane[8];
    fli_cuda_lane *lanes_at;
    fli_cuda_batch batch;
} bench;

static const double rates[] = {0.3, 0.02, 0.05, 0.004};
enum { STEP = 1 };

static uint64_t seed;
static double any(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 33) / 4294967296.0 - 0.25;
}
static size_t width(const shape *c) { return c->type == FLI_CUDA_F64 ? sizeof(double) : sizeof(float); }

/* Reals of the case's type there, and the same here. */
static void *reals(const shape *c, size_t n, double *x)
{
    float *f = malloc(n * sizeof *f);
    if (width(c) == sizeof(double))
        memcpy(f = realloc(f, n * sizeof *x), x, n * sizeof *x);
    else
        for (size_t i = 0; i < n; i++) x[i] = f[i] = (float)x[i];
    void *p = there(n * width(c), f);
    free(f);
    return p;
}
static double *some(size_t n)
{
    double *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = any();
    return x;
}
static double *read_back(const shape *c, size_t n, const void *at)
{
    double *x = malloc(n * sizeof *x);
    here(n * width(c), at, x);
    if (width(c) == sizeof(float))
        for (size_t i = n; i-- > 0;) {
            float f;
            memcpy(&f, (const char *)x + i * sizeof f, sizeof f);
            x[i] = f;
        }
    return x;
}

static uint32_t rows_of(const shape *c, uint32_t lane) { return c->rows > lane ? c->rows - lane : 1; }

/* Rows that nobody may look at are NaN. */
static double *rows(const bench *b, size_t wide)
{
    const shape *c = &b->c;
    double *x = some((c->lanes + c->idle) * b->room * wide);
    for (uint32_t l = 0; l < c->lanes + c->idle; l++)
        for (size_t i = rows_of(c, l) * wide; i < b->room * wide; i++) x[l * b->room * wide + i] = NAN;
    return x;
}

static void set_lane(bench *b, uint32_t l)
{
    const shape *c = &b->c;
    const int want[4] = {1, c->term, c->momentum, c->gradient};
    double **mine[4] = {&b->z[l], &b->term[l], &b->buffer[l], &b->gradient[l]};
    for (int v = 0; v < 4; v++) {
        *mine[v] = some(b->parameters);
        b->at[l][v] = want[v] ? reals(c, b->parameters, *mine[v]) : NULL;
    }
    b->lane[l] = (fli_cuda_lane){.z = b->at[l][0],
                                 .term = b->at[l][1],
                                 .buffer = b->at[l][2],
                                 .gradient = b->at[l][3],
                                 .lr = 0.1,
                                 .wd = 0.03,
                                 .times = -0.6,
                                 .rho = c->rho ? 0.7 : 0,
                                 .momentum = 0.9,
                                 .n = rows_of(c, l),
                                 .size = rows_of(c, l),
                                 .steps = 2};
    if (c->rates) b->lane[l].rates = there(sizeof rates, rates);
}

static void set(bench *b, shape c)
{
    memset(b, 0, sizeof *b);
    b->c = c;
    seed = c.rows + 1000 * c.units + 77 * c.inputs;
    b->room = (c.rows + 7) / 8 * 8;
    b->layer = (fli_net_layer){.kind = FLI_NET_FC,
                               .relu = c.relu,
                               .in = {c.inputs, 1, 1},
                               .out = {c.units, 1, 1},
                               .weight = c.offset,
                               .bias = c.offset + (size_t)c.inputs * c.units,
                               .biased = !c.unbiased};
    b->parameters = b->layer.bias + c.units + 3;
    uint32_t all = c.lanes + c.idle;
    for (uint32_t l = 0; l < all; l++) set_lane(b, l);
    b->in = rows(b, c.inputs);
    b->error = rows(b, c.units);
    b->h = rows(b, c.inputs);
    b->in_at = reals(&c, all * b->room * c.inputs, b->in);
    b->error_at = reals(&c, all * b->room * c.units, b->error);
    b->h_at = reals(&c, all * b->room * c.inputs, b->h);
    b->out_at = there(all * b->room * (c.inputs + c.units) * width(&c), NULL);
    b->lanes_at = there(all * sizeof *b->lane, b->lane);
    b->batch = (fli_cuda_batch){
        .lane = b->lanes_at, .lanes = c.lanes, .step = STEP, .most = c.rows, .room = (uint32_t)b->room};
}
static void unset(bench *b)
{
    for (uint32_t l = 0; l < b->c.lanes + b->c.idle; l++) {
        double *mine[4] = {b->z[l], b->term[l], b->buffer[l], b->gradient[l]};
        for (int v = 0; v < 4; v++) {
            free(mine[v]);
            fli_cuda_release(b->at[l][v]);
        }
        if (b->c.rates) fli_cuda_release((void *)b->lane[l].rates);
    }
    free(b->in);
    free(b->error);
    free(b->h);
    void *rest[] = {b->in_at, b->error_at, b->h_at, b->out_at, b->lanes_at};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) fli_cuda_release(rest[i]);
}

/* Against the sum of |products|, as sums may cancel. */
static double tolerance(fli_cuda_type t) { return t == FLI_CUDA_F32 ? 1e-6 : t == FLI_CUDA_TF32 ? 1e-3 : 1e-14; }
static void same(const shape *c, double got, double want, double size, const char *what)
{
    if (fabs(got - want) <= tolerance(c->type) * size) return;
    fail_msg("%s: %.17g instead of %.17g (type %d, %u lanes, %u rows, %u -> %u)", what, got, want, c->type, c->lanes,
             c->rows, c->inputs, c->units);
}

/* sum of a[i * da] b[i * db], and of their sizes */
static double product(size_t n, const double *a, size_t da, const double *b, size_t db, double *size)
{
    double sum = 0;
    *size = 0;
    for (size_t i = 0; i < n; i++) {
        double v = a[i * da] * b[i * db];
        sum += v;
        *size += fabs(v);
    }
    return sum;
}

static void check_forward(bench *b, fli_fc_cut cut)
{
    const shape *c = &b->c;
    fli_cuda_fc_forward_cut(stream(), c->type, &b->layer, &b->batch, b->in_at, b->out_at, cut);
    double *out = read_back(c, c->lanes * b->room * c->units, b->out_at), size;
    for (uint32_t l = 0; l < c->lanes; l++)
        for (uint32_t r = 0; r < rows_of(c, l); r++)
            for (uint32_t u = 0; u < c->units; u++) {
                const double *x = b->in + (l * b->room + r) * c->inputs;
                double v = product(c->inputs, x, 1, b->z[l] + b->layer.weight + (size_t)u * c->inputs, 1, &size);
                if (!c->unbiased) v += b->z[l][b->layer.bias + u];
                if (c->relu && v < 0) v = 0;
                same(c, out[(l * b->room + r) * c->units + u], v, size + 1, "forward");
            }
    free(out);
}

static void check_backward(bench *b, int masked)
{
    const shape *c = &b->c;
    fli_cuda_fc_backward(stream(), c->type, &b->layer, &b->batch, b->error_at, masked ? b->h_at : NULL, b->out_at);
    double *out = read_back(c, c->lanes * b->room * c->inputs, b->out_at), size;
    for (uint32_t l = 0; l < c->lanes; l++)
        for (uint32_t r = 0; r < rows_of(c, l); r++)
            for (uint32_t i = 0; i < c->inputs; i++) {
                size_t at = (l * b->room + r) * c->inputs + i;
                double v = product(c->units, b->error + (l * b->room + r) * c->units, 1, b->z[l] + b->layer.weight + i,
                                   c->inputs, &size);
                if (masked && b->h[at] <= 0) v = 0;
                same(c, out[at], v, size + 0.1, "backward");
            }
    free(out);
}

/* Entry i, its gradient g: what becomes of z, the buffer or the gradient. */
static void check_entry(const bench *b, uint32_t l, double *const now[4], size_t i, double g, double size)
{
    const shape *c = &b->c;
    double lr = c->rates ? rates[2 * STEP] : 0.1, wd = c->rates ? rates[2 * STEP + 1] : 0.03;
    if (c->gradient) {
        same(c, now[3][i], g + (c->add ? b->gradient[l][i] : 0), size + 1, "gradient");
        assert_true(now[0][i] == b->z[l][i]);
        return;
    }
    double d = g + (wd + (c->rho ? 0.7 : 0)) * b->z[l][i];
    if (c->term) d -= 0.6 * b->term[l][i];
    if (c->momentum) {
        d += 0.9 * b->buffer[l][i];
        same(c, now[2][i], d, size + 1, "momentum");
    }
    same(c, now[0][i], b->z[l][i] - lr * d, size + 1, "step");
}

static void check_lane_step(const bench *b, uint32_t l)
{
    const shape *c = &b->c;
    double *now[4] = {0}, size;
    for (int v = 0; v < 4; v++)
        if (b->at[l][v]) now[v] = read_back(c, b->parameters, b->at[l][v]);
    const double *e = b->error + l * b->room * c->units, *x = b->in + l * b->room * c->inputs, one = 1;
    size_t first = b->layer.weight, count = (size_t)c->inputs * c->units;
    uint32_t r = l < c->lanes ? rows_of(c, l) : 0;
    for (size_t i = 0; i < b->parameters; i++) {
        int weight = i >= first && i < first + count;
        int bias = !c->unbiased && i >= b->layer.bias && i < b->layer.bias + c->units;
        if (!r || (!weight && !bias)) {
            assert_true(now[0][i] == b->z[l][i]);
            continue;
        }
        size_t u = weight ? (i - first) / c->inputs : i - b->layer.bias;
        double g = weight ? product(r, e + u, c->units, x + (i - first) % c->inputs, c->inputs, &size)
                          : product(r, e + u, c->units, &one, 0, &size);
        check_entry(b, l, now, i, g, size);
    }
    for (int v = 0; v < 4; v++) free(now[v]);
}
static void check_step(bench *b)
{
    fli_cuda_fc_step(stream(), b->c.type, &b->layer, &b->batch, b->error_at, b->in_at, b->c.add);
    for (uint32_t l = 0; l < b->c.lanes + b->c.idle; l++) check_lane_step(b, l);
}

static void check(shape c, fli_fc_cut cut)
{
    bench b;
    set(&b, c);
    check_forward(&b, cut);
    check_backward(&b, 0);
    check_backward(&b, 1);
    check_step(&b);
    unset(&b);
}

/* ---- the step and the next outputs ---- */

enum { STORED = 97, BYTES_STEP = 2 };

/* Samples as bytes, of which mini-batches 2 and 3 of lane l have some; b->in and b->h become what they are. */
static void store_bytes(bench *b, fli_cuda_data *data, void **kept)
{
    const shape *c = &b->c;
    size_t all = (size_t)STORED * c->inputs;
    uint8_t *x = malloc(all);
    double scale = 1.0 / 128, shift = -0.75;
    for (size_t i = 0; i < all; i++) x[i] = (uint8_t)(i * 37 + i / 11 + i / 301);
    kept[0] = there(all, x), kept[1] = there(8, &scale), kept[2] = there(8, &shift);
    *data = (fli_cuda_data){.x = kept[0], .n = STORED, .dim = c->inputs, .length = c->inputs, .segments = 1};
    data->scale = kept[1], data->shift = kept[2];
    for (uint32_t l = 0; l < c->lanes; l++) {
        uint32_t rows = rows_of(c, l), order[4 * 64];
        for (uint32_t i = 0; i < 4 * rows; i++) order[i] = (i * 17 + 5 * l) % STORED;
        for (uint32_t i = 0; i < 2 * rows; i++) {
            double *row = (i < rows ? b->in : b->h) + (l * b->room + i % rows) * c->inputs;
            const uint8_t *from = x + (size_t)order[BYTES_STEP * rows + i] * c->inputs;
            for (uint32_t k = 0; k < c->inputs; k++) row[k] = scale * from[k] + shift;
        }
        b->lane[l].order = kept[3 + l] = there(4 * rows * sizeof *order, order);
        b->lane[l].stride = rows;
    }
    free(x);
}

/* The next samples are h; lane l has one of them less than of the first, and the last lane has none. */
static void check_fused(shape c, fli_fc_fused_cut how, int bytes)
{
    bench b;
    double size;
    fli_cuda_data data;
    void *kept[3 + 8] = {0};
    set(&b, c);
    if (bytes) store_bytes(&b, &data, kept);
    for (uint32_t l = 0; l < c.lanes; l++) {
        b.lane[l].n = 2 * rows_of(&c, l) - 1; /* all of a mini-batch, then one less */
        b.lane[l].steps = 2;
    }
    fli_cuda_upload(stream(), b.lanes_at, b.lane, c.lanes * sizeof *b.lane);
    fli_cuda_batch now = b.batch, next = b.batch;
    now.step = BYTES_STEP, next.step = BYTES_STEP + 1, next.lanes = c.lanes - 1;
    assert_true(fli_cuda_fc_fused_step_fits(c.type, &b.layer, c.rows));
    if (bytes) {
        assert_true(fli_cuda_fc_fused_step_bytes_fits(c.type, &b.layer, &data, c.rows));
        fli_cuda_fc_fused_step_bytes_cut(stream(), c.type, &b.layer, &now, &next, &data, b.error_at, b.out_at, how);
    } else {
        fli_cuda_fc_fused_step_cut(stream(), c.type, &b.layer, &now, &next, b.error_at, b.in_at, b.h_at, b.out_at, how);
    }
    double *out = read_back(&c, c.lanes * b.room * c.units, b.out_at);
    for (uint32_t l = 0; l < c.lanes; l++) {
        double *z = read_back(&c, b.parameters, b.at[l][0]);
        check_lane_step(&b, l);
        for (uint32_t r = 0; r < b.room; r++)
            for (uint32_t u = 0; u < c.units; u++) {
                double got = out[(l * b.room + r) * c.units + u];
                if (l == c.lanes - 1 || r >= rows_of(&c, l) - 1) {
                    assert_true(isnan(got));
                    continue;
                }
                const double *x = b.h + (l * b.room + r) * c.inputs, *w = z + b.layer.weight + (size_t)u * c.inputs;
                double v = product(c.inputs, x, 1, w, 1, &size);
                if (!c.unbiased) v += z[b.layer.bias + u];
                same(&c, got, c.relu && v < 0 ? 0 : v, size + 1, "next outputs");
            }
        free(z);
    }
    free(out);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i]) fli_cuda_release(kept[i]);
    unset(&b);
}

/* A diverged model must not look like a dead one. */
static void test_relu_lets_nan_through(void **state)
{
    static const uint8_t nan[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    (void)state;
    for (int type = FLI_CUDA_F32; type <= FLI_CUDA_F64; type++) {
        const shape c = {
            .type = (fli_cuda_type)type, .lanes = 1, .rows = 3, .inputs = 20, .units = 12, .offset = 4, .relu = 1};
        bench b;
        set(&b, c);
        assert_int_equal(fli_cuda_upload(stream(), b.in_at, nan, type == FLI_CUDA_F64 ? 8 : 4), 0);
        fli_cuda_fc_forward(stream(), c.type, &b.layer, &b.batch, b.in_at, b.out_at);
        double *out = read_back(&c, b.room * c.units, b.out_at);
        for (uint32_t i = 0; i < c.rows * c.units; i++) assert_int_equal(isnan(out[i]) != 0, i < c.units);
        free(out);
        unset(&b);
    }
}

static void test_fused_layers_match_separate_ones(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        static const uint32_t lines[] = {50, 16, 20, 56, 9, 32};
        shape c = {.type = i % 3 == 1 ? FLI_CUDA_TF32 : FLI_CUDA_F32,
                   .lanes = 2,
                   .rows = lines[i % 6],
                   .inputs = 4 * (10 + 11 * (uint32_t)(i % 7)),
                   .units = 4 * (1 + 3 * (uint32_t)(i % 11)),
                   .offset = 4,
                   .relu = i % 2,
                   .unbiased = i % 5 == 4,
                   .term = i & 1,
                   .rho = i >> 1 & 1,
                   .momentum = i >> 2 & 1,
                   .rates = 0};
        check_fused(c, (fli_fc_fused_cut)(i % FLI_FC_FUSED_CUTS), 0);
        c.inputs = c.inputs / 4 * 16;
        check_fused(c, (fli_fc_fused_cut)(i % FLI_FC_FUSED_CUTS), 1);
    }
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        for (int how = 0; how < FLI_FC_FUSED_CUTS; how++)
            for (int bytes = 0; bytes < 2; bytes++)
                check_fused((shape){.type = FLI_CUDA_F32, .lanes = 2, .rows = 50, .inputs = 208, .units = 120},
                            (fli_fc_fused_cut)how, bytes);
    }
    fli_emulated_order(FLI_ORDER_FORWARD);
}

/* ---- the last layer ---- */

/* Sample i has label (7 i) % units; row r of lane l is sample 3 r + l of step 1. */
static void check_last(shape c, int masked)
{
    bench b;
    set(&b, c);
    int32_t label[1000];
    uint32_t order[2 * 70];
    for (int i = 0; i < 1000; i++) label[i] = 7 * i % (int32_t)c.units;
    for (uint32_t l = 0; l < c.lanes; l++) {
        for (uint32_t r = 0; r < 2 * 70; r++) order[r] = r < 70 ? 999 : 3 * (r - 70) + l;
        b.lane[l].order = there(sizeof order, order);
        b.lane[l].stride = 70;
    }
    fli_cuda_loss loss = {.loss = FLI_NET_SOFTMAX, .classes = c.units, .label = there(sizeof label, label)};
    assert_true(fli_cuda_fc_last_fits(c.type, &b.layer, &loss, c.rows));
    fli_cuda_upload(stream(), b.lanes_at, b.lane, c.lanes * sizeof *b.lane);
    fli_cuda_fc_last(stream(), &b.layer, &loss, &b.batch, b.in_at, masked, b.out_at, c.add);
    double *out = read_back(&c, c.lanes * b.room * c.inputs, b.out_at), size;
    for (uint32_t l = 0; l < c.lanes; l++) {
        for (uint32_t r = 0; r < rows_of(&c, l); r++) {
            double *e = b.error + (l * b.room + r) * c.units, sum = 0;
            const double *x = b.in + (l * b.room + r) * c.inputs, *w = b.z[l] + b.layer.weight;
            for (uint32_t u = 0; u < c.units; u++) {
                e[u] = product(c.inputs, x, 1, w + (size_t)u * c.inputs, 1, &size);
                if (!c.unbiased) e[u] += b.z[l][b.layer.bias + u];
                sum += e[u] = exp(e[u]);
            }
            for (uint32_t u = 0; u < c.units; u++)
                e[u] = (e[u] / sum - (u == (uint32_t)label[3 * r + l])) / rows_of(&c, l);
            for (uint32_t i = 0; i < c.inputs; i++) {
                double v = product(c.units, e, 1, w + i, c.inputs, &size);
                if (masked && x[i] <= 0) v = 0;
                same(&c, out[(l * b.room + r) * c.inputs + i], v, 1, "error below");
            }
        }
        check_lane_step(&b, l);
        fli_cuda_release((void *)b.lane[l].order);
    }
    free(out);
    fli_cuda_release((void *)loss.label);
    unset(&b);
}

static void test_last_layers_match_plain_loops(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        shape c = {.type = i % 3 == 1 ? FLI_CUDA_TF32 : FLI_CUDA_F32,
                   .lanes = 2,
                   .rows = i % 2 ? 50 : 67 - (uint32_t)i,
                   .inputs = i % 4 ? 40u + (uint32_t)i : 120,
                   .units = i % 8 ? 2u + (uint32_t)i : 64,
                   .offset = i % 3,
                   .unbiased = i % 5 == 4,
                   .term = i & 1,
                   .rho = i >> 1 & 1,
                   .momentum = i >> 2 & 1,
                   .rates = i >> 3 & 1,
                   .gradient = i >> 4,
                   .add = i & 1};
        check_last(c, i % 2);
    }
}
/* ---- the last two layers at once ---- */

typedef struct {
    fli_cuda_type type;
    uint32_t rows, inputs, units, classes;
    int terms, masked, gradient;
} pair;

enum { PAIR_LANES = 2, PAIR_VECTORS = 4 };

/* Lanes of a pair of layers, and what comes out: the same numbers whenever it is made. */
typedef struct {
    fli_net_layer m, l;
    size_t parameters;
    float *v[PAIR_LANES][PAIR_VECTORS], *in, *h, *error, *below;
    fli_cuda_lane *lanes;
    fli_cuda_batch batch;
} pair_run;

static float *random_floats(size_t n)
{
    float *here_ = malloc(n * sizeof *here_), *p;
    for (size_t i = 0; i < n; i++) here_[i] = (float)any();
    p = there(n * sizeof *here_, here_);
    free(here_);
    return p;
}

static void pair_set(const pair *c, const uint32_t *order, pair_run *r)
{
    const uint32_t room = (c->rows + 7) / 8 * 8;
    fli_cuda_lane lane[PAIR_LANES];
    *r = (pair_run){.m = {.kind = FLI_NET_FC, .relu = c->masked, .weight = 4, .biased = 1}, .l = {.kind = FLI_NET_FC}};
    r->m.in[0] = c->inputs, r->m.out[0] = r->l.in[0] = c->units, r->l.out[0] = c->classes;
    r->m.in[1] = r->m.in[2] = r->m.out[1] = r->m.out[2] = 1;
    r->l.in[1] = r->l.in[2] = r->l.out[1] = r->l.out[2] = 1;
    r->m.bias = 4 + (size_t)c->inputs * c->units;
    r->l.weight = r->m.bias + c->units, r->l.biased = c->terms;
    r->l.bias = r->l.weight + (size_t)c->units * c->classes;
    r->parameters = r->l.bias + c->classes;
    seed = 17;
    for (uint32_t l = 0; l < PAIR_LANES; l++) {
        for (int v = 0; v < PAIR_VECTORS; v++) r->v[l][v] = random_floats(r->parameters);
        lane[l] = (fli_cuda_lane){.z = r->v[l][0], .lr = 0.1, .wd = 0.03, .rho = 0.7, .momentum = 0.9, .steps = 2};
        if (c->terms) lane[l].term = r->v[l][1], lane[l].times = -0.6, lane[l].buffer = r->v[l][2];
        if (c->gradient) lane[l].gradient = r->v[l][3];
        lane[l].n = lane[l].size = c->rows - l;
        lane[l].order = order;
    }
    r->in = random_floats(PAIR_LANES * room * c->inputs);
    r->h = random_floats(PAIR_LANES * room * c->units);
    r->error = random_floats(PAIR_LANES * room * c->units);
    r->below = random_floats(PAIR_LANES * room * c->inputs);
    r->lanes = there(sizeof lane, lane);
    r->batch = (fli_cuda_batch){.lane = r->lanes, .lanes = PAIR_LANES, .most = c->rows, .room = room};
}
static void pair_unset(pair_run *r)
{
    for (uint32_t l = 0; l < PAIR_LANES; l++)
        for (int v = 0; v < PAIR_VECTORS; v++) fli_cuda_release(r->v[l][v]);
    void *all[] = {r->in, r->h, r->error, r->below, r->lanes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fli_cuda_release(all[i]);
}

static void alike(const pair *c, const float *a, const float *b, size_t n, const char *what)
{
    float *x = malloc(2 * n * sizeof *x), *y = x + n;
    here(n * sizeof *x, a, x);
    here(n * sizeof *y, b, y);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(x[i] - y[i]) <= (c->type == FLI_CUDA_TF32 ? 4e-3 : 2e-6) * (1 + fabs(y[i]))))
            fail_msg("%s %zu of %u-%u-%u: %g, not %g", what, i, c->inputs, c->units, c->classes, x[i], y[i]);
    free(x);
}

/* Against the same one by one. */
static void check_pair(pair c)
{
    int32_t label[64];
    uint32_t order[64];
    pair_run a, b;
    for (uint32_t i = 0; i < 64; i++) label[i] = (int32_t)(i * 5 % c.classes), order[i] = 63 - i;
    void *order_at = there(sizeof order, order), *label_at = there(sizeof label, label);
    fli_cuda_loss loss = {.loss = FLI_NET_SOFTMAX, .classes = c.classes, .label = label_at};
    pair_set(&c, order_at, &a);
    pair_set(&c, order_at, &b);
    assert_true(fli_cuda_fc_last_two_fits(c.type, &a.m, &a.l, &loss, c.rows));
    fli_cuda_fc_last_two(stream(), c.type, &a.m, &a.l, &loss, &a.batch, a.in, c.masked, a.below, c.gradient);
    fli_cuda_fc_forward(stream(), c.type, &b.m, &b.batch, b.in, b.h);
    fli_cuda_fc_last(stream(), &b.l, &loss, &b.batch, b.h, c.masked, b.error, c.gradient);
    fli_cuda_fc_backward(stream(), c.type, &b.m, &b.batch, b.error, c.masked ? b.in : NULL, b.below);
    fli_cuda_fc_step(stream(), c.type, &b.m, &b.batch, b.error, b.in, c.gradient);
    for (uint32_t l = 0; l < PAIR_LANES; l++)
        for (int v = 0; v < PAIR_VECTORS; v++) alike(&c, a.v[l][v], b.v[l][v], a.parameters, "vector");
    alike(&c, a.below, b.below, PAIR_LANES * a.batch.room * c.inputs, "error below");
    pair_unset(&a);
    pair_unset(&b);
    fli_cuda_release(order_at);
    fli_cuda_release(label_at);
}

static void test_last_two(void **state)
{
    (void)state;
    static const pair cases[] = {{FLI_CUDA_F32, 50, 200, 200, 10, 0, 1, 0}, {FLI_CUDA_TF32, 50, 200, 200, 10, 1, 1, 0},
                                 {FLI_CUDA_F32, 10, 36, 23, 3, 1, 1, 0},    {FLI_CUDA_F32, 33, 240, 40, 24, 1, 0, 0},
                                 {FLI_CUDA_TF32, 56, 44, 240, 17, 0, 1, 0}, {FLI_CUDA_F32, 32, 100, 61, 10, 0, 1, 1},
                                 {FLI_CUDA_F32, 20, 132, 129, 20, 1, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_pair(cases[i]);
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        check_pair(cases[2]);
        check_pair(cases[3]);
    }
    fli_emulated_order(FLI_ORDER_FORWARD);
}

/* A weight that is no number: what comes of it is none, behind a ReLU as well. */
static void test_nan_stays(void **state)
{
    static const uint8_t nan[4] = {0xff, 0xff, 0xff, 0xff};
    (void)state;
    const shape c = {.type = FLI_CUDA_F32, .lanes = 1, .rows = 3, .inputs = 32, .units = 12, .offset = 4, .relu = 1};
    bench b;
    fli_cuda_data data;
    void *kept[3 + 8] = {0};
    set(&b, c);
    store_bytes(&b, &data, kept);
    fli_cuda_upload(stream(), b.lanes_at, b.lane, sizeof *b.lane);
    fli_cuda_upload(stream(), (float *)b.at[0][0] + c.offset, nan, sizeof nan);
    fli_cuda_batch now = b.batch, next = b.batch;
    now.step = BYTES_STEP, next.step = BYTES_STEP + 1;
    fli_cuda_fc_fused_step_bytes(stream(), c.type, &b.layer, &now, &next, &data, b.error_at, b.out_at);
    double *out = read_back(&c, c.rows * c.units, b.out_at);
    for (uint32_t i = 0; i < c.rows * c.units; i++) assert_int_equal(isnan(out[i]) != 0, i % c.units == 0);
    free(out);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i]) fli_cuda_release(kept[i]);
    unset(&b);
}
static void test_nan_stays_in_last_layer(void **state)
{
    static const uint8_t nan[4] = {0xff, 0xff, 0xff, 0xff};
    (void)state;
    const pair c = {FLI_CUDA_F32, 10, 36, 23, 3, 0, 1, 0};
    uint32_t order[64] = {0};
    int32_t label[64] = {0};
    pair_run r;
    float top;
    void *order_at = there(sizeof order, order), *label_at = there(sizeof label, label);
    fli_cuda_loss loss = {.loss = FLI_NET_SOFTMAX, .classes = c.classes, .label = label_at};
    pair_set(&c, order_at, &r);
    fli_cuda_upload(stream(), r.v[0][0] + r.m.weight, nan, sizeof nan);
    fli_cuda_fc_last_two(stream(), c.type, &r.m, &r.l, &loss, &r.batch, r.in, 1, r.below, 0);
    for (uint32_t l = 0; l < PAIR_LANES; l++) {
        here(sizeof top, r.v[l][0] + r.l.weight, &top);
        assert_int_equal(isnan(top) != 0, l == 0);
    }
    pair_unset(&r);
    fli_cuda_release(order_at);
    fli_cuda_release(label_at);
}

static void test_last_fits(void **state)
{
    (void)state;
    fli_net_layer l = {.kind = FLI_NET_FC, .in = {200, 1, 1}, .out = {10, 1, 1}};
    fli_cuda_loss loss = {.loss = FLI_NET_SOFTMAX, .classes = 10};
    assert_true(fli_cuda_fc_last_fits(FLI_CUDA_F32, &l, &loss, 50));
    assert_false(fli_cuda_fc_last_fits(FLI_CUDA_F32, &l, &loss, 1000));
    assert_false(fli_cuda_fc_last_fits(FLI_CUDA_F64, &l, &loss, 50));
    l.out[0] = 65, loss.classes = 65;
    assert_false(fli_cuda_fc_last_fits(FLI_CUDA_F32, &l, &loss, 50));
    l.out[0] = 1, loss = (fli_cuda_loss){.loss = FLI_NET_LOGISTIC, .classes = 2};
    assert_false(fli_cuda_fc_last_fits(FLI_CUDA_F32, &l, &loss, 50));
}

static void test_all_shapes_match_plain_loops(void **state)
{
    (void)state;
    const shape c[] = {
        {.lanes = 1, .rows = 1, .inputs = 1, .units = 1},
        {.lanes = 2, .rows = 3, .inputs = 7, .units = 10, .offset = 1, .relu = 1},
        {.lanes = 3, .idle = 1, .rows = 10, .inputs = 33, .units = 7, .relu = 1, .unbiased = 1},
        {.lanes = 2, .rows = 20, .inputs = 36, .units = 33, .offset = 4},
        {.lanes = 2, .rows = 50, .inputs = 100, .units = 20, .offset = 8, .relu = 1},
        {.lanes = 1, .rows = 64, .inputs = 40, .units = 72},
        {.lanes = 1, .rows = 70, .inputs = 33, .units = 10},
        {.lanes = 1, .rows = 120, .inputs = 68, .units = 36},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int type = FLI_CUDA_F32; type <= FLI_CUDA_F64; type++) {
            shape s = c[i];
            s.type = (fli_cuda_type)type;
            check(s, (fli_fc_cut)(i % FLI_FC_CUTS));
        }
}

/* The sizes that matter, every way to cut them. */
static void test_all_cuts_match_plain_loops(void **state)
{
    (void)state;
    for (int cut = 0; cut < FLI_FC_CUTS; cut++)
        check((shape){.type = FLI_CUDA_F32, .lanes = 1, .rows = 50, .inputs = 784, .units = 200, .relu = 1},
              (fli_fc_cut)cut);
}

static void test_all_terms_match_plain_loops(void **state)
{
    (void)state;
    for (int i = 0; i < 32; i++)
        for (int type = FLI_CUDA_F32; type <= FLI_CUDA_F64; type++) {
            if (type == FLI_CUDA_TF32 && i % 8) continue;
            shape c = {.type = (fli_cuda_type)type,
                       .lanes = 2,
                       .idle = 1,
                       .rows = 5,
                       .inputs = 12u + i % 2,
                       .units = 8u + i % 3,
                       .offset = 4,
                       .term = i & 1,
                       .rho = i >> 1 & 1,
                       .momentum = i >> 2 & 1,
                       .rates = i >> 3 & 1,
                       .gradient = i >> 4,
                       .add = i & 1};
            bench b;
            set(&b, c);
            check_step(&b);
            unset(&b);
        }
}

/* No thread reads what another is about to write. */
static void test_thread_order_does_not_matter(void **state)
{
    (void)state;
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        check((shape){.type = FLI_CUDA_F32, .lanes = 2, .rows = 18, .inputs = 200, .units = 44}, FLI_FC_32);
        check((shape){.type = FLI_CUDA_F64, .lanes = 2, .rows = 18, .inputs = 40, .units = 44}, FLI_FC_32);
        check_last((shape){.type = FLI_CUDA_F32, .lanes = 2, .rows = 50, .inputs = 200, .units = 10}, 1);
    }
    fli_emulated_order(FLI_ORDER_FORWARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_shapes_match_plain_loops),
        cmocka_unit_test(test_all_cuts_match_plain_loops),
        cmocka_unit_test(test_all_terms_match_plain_loops),
        cmocka_unit_test(test_relu_lets_nan_through),
        cmocka_unit_test(test_fused_layers_match_separate_ones),
        cmocka_unit_test(test_thread_order_does_not_matter),
        cmocka_unit_test(test_last_layers_match_plain_loops),
        cmocka_unit_test(test_last_two),
        cmocka_unit_test(test_last_fits),
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_nan_stays_in_last_layer),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
