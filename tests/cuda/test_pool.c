/* Pools and steps, against the CPU's: the same bits, but for steps, where a product and a sum may be rounded
 * once. */
#include "device_memory.h"

#include "cuda/kernels/kernels.h"
#include "vec/ops.h"

/* Lanes with 3, 2 and 1 rows, from a list with room for 4 each. */
enum { LANES = 3, ROOM = 4, ALL = LANES * ROOM };

static uint32_t rows_of(size_t lane) { return 3 - (uint32_t)lane; }

static fli_cuda_lane *lanes_there(const fli_cuda_lane *like)
{
    fli_cuda_lane l[LANES];
    for (size_t i = 0; i < LANES; i++) {
        l[i] = like ? like[i] : (fli_cuda_lane){0};
        l[i].n = 10;
        l[i].size = rows_of(i);
        l[i].steps = 5;
    }
    return there(sizeof l, l);
}

static fli_cuda_batch batch_of(const fli_cuda_lane *lane)
{
    return (fli_cuda_batch){.lane = lane, .lanes = LANES, .step = 1, .most = ROOM, .room = ROOM};
}

static fli_cuda_type type_of(const fli_ops *ops) { return ops == &fli_ops_f64 ? FLI_CUDA_F64 : FLI_CUDA_F32; }

/* n reals of both signs, in a few sizes, so that there are ties. */
static void *reals(const fli_ops *ops, size_t n, size_t salt)
{
    double *v = calloc(n, sizeof *v);
    void *out = malloc(n * ops->size);
    for (size_t i = 0; i < n; i++) v[i] = (double)((i * 7919 + salt * 31) % 23) / 7 - 1.5;
    ops->from_f64(n, v, out);
    free(v);
    return out;
}

static void *at(const fli_ops *ops, const void *x, size_t i) { return (char *)x + i * ops->size; }

/* ---- pools ------------------------------------------------------------------------------------------------ */

typedef struct {
    const fli_ops *ops;
    fli_net_layer layer;
    fli_window window;
    int chw;
} pool;

static pool pool_of(const fli_ops *ops, int max, size_t channels, size_t height, size_t width, size_t kernel, int chw)
{
    pool p = {.ops = ops, .chw = chw};
    fli_window_init(&p.window, channels, height, width, kernel, kernel, 0);
    p.layer = (fli_net_layer){.kind = max ? FLI_NET_MAX_POOL : FLI_NET_MEAN_POOL,
                              .in = {channels, height, width},
                              .out = {channels, p.window.out_height, p.window.out_width},
                              .kernel = kernel,
                              .stride = kernel};
    return p;
}

static int is_max(const pool *p) { return p->layer.kind == FLI_NET_MAX_POOL; }

/* Rows of outputs, or of places, with channels last become what the layer's are. */
static void arrange(const pool *p, size_t size, size_t rows, char *v)
{
    size_t outs = fli_net_out(&p->layer), channels = p->layer.out[0], pixels = outs / channels;
    char *row = malloc(outs * size);
    for (size_t r = 0; p->chw && r < rows; r++, v += outs * size) {
        memcpy(row, v, outs * size);
        for (size_t i = 0; i < outs; i++)
            memcpy(v + (i % channels * pixels + i / channels) * size, row + i * size, size);
    }
    free(row);
}

static void assert_rows(const fli_ops *ops, size_t width, const void *want, const void *device)
{
    char *got = malloc(ALL * width * ops->size);
    here(ALL * width * ops->size, device, got);
    for (size_t l = 0; l < LANES; l++)
        assert_memory_equal(at(ops, got, l * ROOM * width), at(ops, want, l * ROOM * width),
                            rows_of(l) * width * ops->size);
    free(got);
}

static void check_forward(const pool *p, const fli_cuda_batch *b, const void *x, uint8_t *which)
{
    size_t ins = fli_net_in(&p->layer), outs = fli_net_out(&p->layer);
    void *y = malloc(ALL * outs * p->ops->size);
    void *in = there(ALL * ins * p->ops->size, x), *out = there(ALL * outs * p->ops->size, NULL);
    unsigned char *places = there(ALL * outs, NULL);
    if (is_max(p))
        p->ops->image->max_pool(&p->window, ALL, x, which, y);
    else
        p->ops->image->mean_pool(&p->window, ALL, x, y);
    arrange(p, p->ops->size, ALL, y);
    fli_cuda_pool_forward(stream(), type_of(p->ops), &p->layer, b, in, p->chw, is_max(p) ? places : NULL, out);
    assert_rows(p->ops, outs, y, out);
    fli_cuda_release(in);
    fli_cuda_release(out);
    fli_cuda_release(places);
    free(y);
}

static void check_backward(const pool *p, const fli_cuda_batch *b, uint8_t *which, int masked)
{
    size_t ins = fli_net_in(&p->layer), outs = fli_net_out(&p->layer);
    char *e = reals(p->ops, ALL * outs, 3), *h = reals(p->ops, ALL * ins, 4), *x = malloc(ALL * ins * p->ops->size);
    if (is_max(p))
        p->ops->image->max_put(&p->window, ALL, e, which, x);
    else
        p->ops->image->mean_put(&p->window, ALL, e, x);
    if (masked) p->ops->relu_mask(ALL * ins, h, x);
    arrange(p, p->ops->size, ALL, e);
    arrange(p, 1, ALL, (char *)which);
    void *error = there(ALL * outs * p->ops->size, e), *input = there(ALL * ins * p->ops->size, h);
    void *below = there(ALL * ins * p->ops->size, NULL), *places = there(ALL * outs, which);
    fli_cuda_pool_backward(stream(), type_of(p->ops), &p->layer, b, error, p->chw, is_max(p) ? places : NULL,
                           masked ? input : NULL, below);
    assert_rows(p->ops, ins, x, below);
    fli_cuda_release(error);
    fli_cuda_release(input);
    fli_cuda_release(below);
    fli_cuda_release(places);
    free(e);
    free(h);
    free(x);
}

static void check_pool(const pool *p, const fli_cuda_batch *b)
{
    size_t ins = fli_net_in(&p->layer), outs = fli_net_out(&p->layer);
    uint8_t *which = calloc(ALL, outs);
    void *x = reals(p->ops, ALL * ins, 1);
    for (size_t i = 0; i < ALL * ins; i += 31) /* a mean that is NaN may have any bits of one */
        p->ops->fill(1, i % 2 && is_max(p) ? NAN : -INFINITY, at(p->ops, x, i));
    check_forward(p, b, x, which);
    check_backward(p, b, which, 1);
    free(which);
    free(x);
}

static void test_pools_match_the_cpus(void **state)
{
    (void)state;
    fli_cuda_lane *lane = lanes_there(NULL);
    fli_cuda_batch b = batch_of(lane);
    for (int k = 0; k < 8; k++) {
        const fli_ops *ops = k & 1 ? &fli_ops_f64 : &fli_ops_f32;
        pool even = pool_of(ops, k & 2, 5, 6, 4, 2, k & 4), odd = pool_of(ops, k & 2, 3, 8, 7, 3, k & 4);
        check_pool(&even, &b);
        check_pool(&odd, &b);
        uint8_t which[ALL * 3 * 2 * 2] = {0};
        check_backward(&odd, &b, which, 0);
    }
    fli_cuda_release(lane);
}

/* The places that a forward pass notes are those that a backward pass needs. */
static void test_there_and_back(void **state)
{
    (void)state;
    fli_cuda_lane *lane = lanes_there(NULL);
    fli_cuda_batch b = batch_of(lane);
    for (int chw = 0; chw < 2; chw++) {
        pool p = pool_of(&fli_ops_f32, 1, 4, 6, 6, 3, chw);
        enum { INS = 4 * 36, OUTS = 4 * 4 };
        float *x = reals(p.ops, ALL * INS, 2), y[ALL * OUTS], back[ALL * INS], want[ALL * INS];
        uint8_t which[ALL * OUTS];
        void *in = there(ALL * INS * sizeof *x, x), *out = there(sizeof y, NULL), *places = there(sizeof which, NULL);
        void *below = there(sizeof back, NULL);
        fli_cuda_pool_forward(stream(), FLI_CUDA_F32, &p.layer, &b, in, chw, places, out);
        fli_cuda_pool_backward(stream(), FLI_CUDA_F32, &p.layer, &b, out, chw, places, NULL, below);
        p.ops->image->max_pool(&p.window, ALL, x, which, y);
        p.ops->image->max_put(&p.window, ALL, y, which, want);
        assert_rows(p.ops, INS, want, below);
        fli_cuda_release(in);
        fli_cuda_release(out);
        fli_cuda_release(places);
        fli_cuda_release(below);
        free(x);
    }
    fli_cuda_release(lane);
}

/* ---- steps ----------------------------------------------------------------------------------------- */

enum { PARAMETERS = 2051, VECTORS = 4 }; /* z, gradient, term, buffer */

typedef struct {
    void *here[VECTORS], *there[VECTORS];
} point;

static point point_begin(const fli_ops *ops, size_t lane)
{
    point p;
    for (size_t v = 0; v < VECTORS; v++) {
        p.here[v] = reals(ops, PARAMETERS, lane * VECTORS + v);
        p.there[v] = there(PARAMETERS * ops->size, p.here[v]);
    }
    return p;
}

static void assert_close(const fli_ops *ops, const void *want, const void *device)
{
    char got[PARAMETERS * sizeof(double)];
    double a[PARAMETERS], b[PARAMETERS];
    here(PARAMETERS * ops->size, device, got);
    ops->to_f64(PARAMETERS, want, a);
    ops->to_f64(PARAMETERS, got, b);
    for (size_t i = 0; i < PARAMETERS; i++) assert_near(b[i], a[i], ops == &fli_ops_f64 ? 1e-15 : 1e-6);
}

static void point_check(const fli_ops *ops, point *p, const fli_sgd_step *like)
{
    fli_sgd_step s = *like;
    s.grad = p->here[1];
    s.shift = like->shift ? p->here[2] : NULL;
    s.anchor = like->anchor ? p->here[2] : NULL;
    s.buffer = like->buffer ? p->here[3] : NULL;
    ops->sgd(PARAMETERS, &s, p->here[0]);
    for (size_t v = 0; v < VECTORS; v++) {
        assert_close(ops, p->here[v], p->there[v]);
        fli_cuda_release(p->there[v]);
        free(p->here[v]);
    }
}

/* Lane l has a shift or else an anchor, and a buffer, if `terms` has the bit l + 0, 1, 2; the last one rates of its
 * own. */
static void check_steps(const fli_ops *ops, unsigned terms)
{
    fli_cuda_lane lane[LANES];
    fli_sgd_step s[LANES];
    point p[LANES];
    const double rates[4] = {9, 9, 0.25, 0.125};
    double *table = there(sizeof rates, rates);
    for (size_t l = 0; l < LANES; l++) {
        unsigned bits = terms >> l;
        p[l] = point_begin(ops, l);
        s[l] = (fli_sgd_step){.lr = 0.1 + 0.1 * (double)l, .wd = 0.01, .rho = 0.5, .momentum = 0.75};
        s[l].shift = bits & 1 ? p : NULL;
        s[l].anchor = (bits & 3) == 2 ? p : NULL;
        s[l].buffer = bits & 4 ? p : NULL;
        lane[l] = (fli_cuda_lane){.z = p[l].there[0],
                                  .gradient = p[l].there[1],
                                  .term = bits & 3 ? p[l].there[2] : NULL,
                                  .times = bits & 1 ? 1 : -s[l].rho,
                                  .buffer = bits & 4 ? p[l].there[3] : NULL,
                                  .lr = s[l].lr,
                                  .wd = s[l].wd,
                                  .rho = s[l].anchor ? s[l].rho : 0,
                                  .momentum = s[l].momentum,
                                  .rates = l == 2 ? table : NULL};
        if (l == 2) s[l].lr = rates[2], s[l].wd = rates[3];
    }
    fli_cuda_lane *lanes = lanes_there(lane);
    fli_cuda_batch b = batch_of(lanes);
    fli_cuda_sgd(stream(), type_of(ops), &b, PARAMETERS);
    for (size_t l = 0; l < LANES; l++) point_check(ops, &p[l], &s[l]);
    fli_cuda_release(lanes);
    fli_cuda_release(table);
}

static void test_steps_match_the_cpus(void **state)
{
    (void)state;
    for (unsigned terms = 0; terms < 32; terms += 5) {
        check_steps(&fli_ops_f32, terms);
        check_steps(&fli_ops_f64, terms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools_match_the_cpus),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_steps_match_the_cpus),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
