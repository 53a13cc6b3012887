/* The convolutional network as a whole: the line that describes it, its function against one written out plainly,
 * products with directions within the last layer, and the changes to images while it is trained. Derivatives are in
 * tests/conform/test_models.c. */
#include "runs.h"

#include "model/cnn.h"
#include "model_file/model_file.h"

/* ---- the line ---------------------------------------------------------------------------------------------- */

static void reads(fl_ctx *ctx, const char *line, size_t count, size_t i, fli_layer want)
{
    fli_layer l[FLI_LAYERS_MAX];
    size_t got;
    assert_ok(ctx, fli_layers_read(ctx, line, l, &got));
    assert_int_equal(got, count);
    assert_int_equal(l[i].kind, want.kind);
    assert_int_equal(l[i].size, want.size);
    assert_int_equal(l[i].kernel, want.kernel);
    assert_int_equal(l[i].stride, want.stride);
    assert_int_equal(l[i].pad, want.pad);
}

static void test_a_line_describes_the_layers(void **state)
{
    fixture *f = *state;
    const char *all = " conv 64x5 ,pool 2, conv 32x3 stride 2 same,avgpool 3 , conv 8x4 pad 3,\n fc 384";
    reads(f->ctx, all, 6, 0, (fli_layer){FLI_LAYER_CONV, 64, 5, 1, 0, NULL, 0});
    reads(f->ctx, all, 6, 1, (fli_layer){FLI_LAYER_MAX_POOL, 2, 0, 0, 0, NULL, 0});
    reads(f->ctx, all, 6, 2, (fli_layer){FLI_LAYER_CONV, 32, 3, 2, 1, NULL, 0});
    reads(f->ctx, all, 6, 3, (fli_layer){FLI_LAYER_MEAN_POOL, 3, 0, 0, 0, NULL, 0});
    reads(f->ctx, all, 6, 4, (fli_layer){FLI_LAYER_CONV, 8, 4, 1, 3, NULL, 0});
    reads(f->ctx, all, 6, 5, (fli_layer){FLI_LAYER_FC, 384, 0, 0, 0, NULL, 0});
}

static void test_bad_lines(void **state)
{
    static const struct {
        const char *line, *complaint;
    } bad[] = {
        {"", "nothing where layer 1"},
        {"conv 6x5,", "nothing where layer 2"},
        {"conv 6x5,, fc 3", "nothing where layer 2"},
        {"fc 3, dense 4", "layer 2, \"dense 4\": a layer is conv, pool, avgpool or fc"},
        {"convolution 3x3", "a layer is"},
        {"conv 64", "layer 1, \"conv 64\": a convolution is given as filters x window"},
        {"conv x5", "filters x window"},
        {"conv 6x", "filters x window"},
        {"conv 0x5", "number of filters is 0"},
        {"conv 6x65", "window is 65, but must be 1 to 64"},
        {"conv 6x5 stride", "stride needs a number"},
        {"conv 6x5 stride 0", "stride is 0"},
        {"conv 6x5 pad 5", "padding is 5, but must be 0 to 4"},
        {"conv 6x5 pad", "pad needs a number"},
        {"conv 6x4 same", "odd size"},
        {"conv 6x5 dilation 2", "a convolution is conv CxK"},
        {"conv 6x5x3", "a convolution is conv CxK"},
        {"conv -6x5", "filters x window"},
        {"pool", "needs a number"},
        {"pool 17", "window is 17, but must be 1 to 16"},
        {"avgpool 0", "must be 1 to 16"},
        {"fc 10 20", "takes one number"},
        {"fc 1e3", "takes one number"},
        {"fc 65537", "must be 1 to 65536"},
        {"fc 12345678901234567890", "takes one number"},
    };
    fixture *f = *state;
    fli_layer l[FLI_LAYERS_MAX];
    char many[512] = "fc 1";
    size_t count;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(f->ctx, fli_layers_read(f->ctx, bad[i].line, l, &count), FL_ECONFIG, bad[i].complaint);
    for (size_t i = 1; i < FLI_LAYERS_MAX; i++) strcat(many, ",fc 1");
    assert_ok(f->ctx, fli_layers_read(f->ctx, many, l, &count));
    strcat(many, ",fc 1");
    assert_fails(f->ctx, fli_layers_read(f->ctx, many, l, &count), FL_ECONFIG, "more than 32 layers");
}

/* ---- models ------------------------------------------------------------------------------------------------ */

static fl_status make(fixture *f, fli_arena *a, const char *layers, const fli_ops *ops, const size_t shape[3],
                      size_t classes, fli_model **out)
{
    const fli_model_desc *d = model_named("cnn");
    fli_node *map = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    fli_node_append(map, fli_node_new(a, FLI_NODE_SCALAR, "layers", layers));
    void *params = fli_arena_alloc(a, 1, d->params_size);
    assert_ok(f->ctx, fli_bind(f->ctx, a, "model", map, NULL, &(fli_table){d->keys, params}, 1));
    return fli_model_new_for(f->ctx, d, params, ops, shape, classes, 0, out);
}

static void test_misfitting_layers_are_named(void **state)
{
    fixture *f = *state;
    fli_arena a;
    fli_model *m = NULL;
    const size_t shape[3] = {1, 8, 6}, row[3] = {1, 1, 48};
    fli_arena_init(&a, f->ctx);
    assert_fails(f->ctx, make(f, &a, "conv 3x7", &fli_ops_f32, shape, 3, &m), FL_ECONFIG,
                 "layer 1, \"conv 3x7\": a window of 7 x 7 does not fit into an image of 8 x 6");
    assert_fails(f->ctx, make(f, &a, "conv 3x5, pool 2, pool 2", &fli_ops_f32, shape, 3, &m), FL_ECONFIG,
                 "layer 3, \"pool 2\": a window of 2 x 2 does not fit into an image of 2 x 1");
    assert_fails(f->ctx, make(f, &a, "fc 4, conv 3x3", &fli_ops_f32, shape, 3, &m), FL_ECONFIG, "before the first fc");
    assert_fails(f->ctx, make(f, &a, "conv 3x3", &fli_ops_f32, row, 3, &m), FL_ECONFIG,
                 "model cnn needs images, but the data has samples of 48 features in a row");
    fli_arena_fini(&a);
}

/* What the papers say of their networks. */
static void test_sizes_are_those_of_papers(void **state)
{
    static const struct {
        const char *layers;
        size_t shape[3], parameters;
    } known[] = {
        {"conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192", {3, 32, 32}, 797962},
        {"conv 32x5 same, pool 2, conv 64x5 same, pool 2, fc 512", {1, 28, 28}, 1663370}, /* McMahan et al. 2017 */
        {"conv 6x5, pool 2, conv 16x5, pool 2, fc 120, fc 84", {3, 32, 32}, 62006},
    };
    fixture *f = *state;
    fli_arena a;
    fli_arena_init(&a, f->ctx);
    for (size_t i = 0; i < 3; i++) {
        fli_model *m = NULL;
        assert_ok(f->ctx, make(f, &a, known[i].layers, &fli_ops_f64, known[i].shape, 10, &m));
        assert_int_equal(m->space.n, known[i].parameters);
        fli_model_free(m);
    }
    fli_arena_fini(&a);
}

static double relu(double x) { return x > 0 ? x : 0; }

/* conv 3x3 stride 2 pad 1, pool 2, fc 4 on 2 x 7 x 9 images, 3 classes; channels first throughout, as the parameters
 * are defined. */
static void plain_logits(const double *p, const double *x, double *out)
{
    enum { C = 2, H = 7, W = 9, O = 3, K = 3, OH = 4, OW = 5, PH = 2, PW = 2, U = 4, CLASSES = 3 };
    const double *w1 = p, *b1 = w1 + O * C * K * K, *w2 = b1 + O, *b2 = w2 + U * O * PH * PW;
    const double *w3 = b2 + U, *b3 = w3 + CLASSES * U;
    double z[O][OH][OW], flat[O * PH * PW], h[U];
    for (int o = 0; o < O; o++)
        for (int y = 0; y < OH; y++)
            for (int c = 0; c < OW; c++) {
                z[o][y][c] = b1[o];
                for (int k = 0; k < C * K * K; k++) {
                    int row = 2 * y - 1 + k / K % K, column = 2 * c - 1 + k % K;
                    if (row < 0 || row >= H || column < 0 || column >= W) continue;
                    z[o][y][c] += w1[o * C * K * K + k] * x[(k / (K * K) * H + row) * W + column];
                }
                z[o][y][c] = relu(z[o][y][c]);
            }
    for (int i = 0; i < O * PH * PW; i++) {
        int o = i / (PH * PW), y = i / PW % PH * 2, c = i % PW * 2;
        flat[i] = fmax(fmax(z[o][y][c], z[o][y][c + 1]), fmax(z[o][y + 1][c], z[o][y + 1][c + 1]));
    }
    for (int u = 0; u < U; u++) {
        h[u] = b2[u];
        for (int i = 0; i < O * PH * PW; i++) h[u] += w2[u * O * PH * PW + i] * flat[i];
    }
    for (int k = 0; k < CLASSES; k++) {
        out[k] = b3[k];
        for (int u = 0; u < U; u++) out[k] += w3[k * U + u] * relu(h[u]);
    }
}

static void test_logits_match_plain_loops(void **state)
{
    enum { N = 21, DIM = 2 * 7 * 9 };
    fixture *f = *state;
    const size_t shape[3] = {2, 7, 9};
    fli_arena a;
    fli_rng r;
    double x[N * DIM], want[3];
    fli_arena_init(&a, f->ctx);
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < N * DIM; i++) x[i] = (float)fli_rng_normal(&r);
    for (const fli_ops *const *ops = fli_ops_list; *ops; ops++) {
        fli_model *m = NULL;
        fli_batch b;
        double got[N * 3], p[256];
        assert_ok(f->ctx, make(f, &a, "conv 3x3 stride 2 pad 1, pool 2, fc 4", *ops, shape, 3, &m));
        assert_ok(f->ctx, fli_model_batch(f->ctx, m, N, &b));
        assert_true(m->space.n <= 256);
        for (size_t i = 0; i < m->space.n; i++) p[i] = (float)fli_rng_normal(&r);
        void *np = fli_alloc(f->ctx, m->space.n, (*ops)->size),
             *scratch = fli_alloc(f->ctx, fli_model_scratch(m, N), 1);
        (*ops)->from_f64(m->space.n, p, np);
        (*ops)->from_f64(N * DIM, x, b.x);
        b.n = N;
        (*ops)->to_f64(N * 3, m->desc->logits(m, np, &b, scratch), got);
        for (size_t i = 0; i < N; i++) {
            plain_logits(p, x + i * DIM, want);
            for (size_t k = 0; k < 3; k++)
                assert_near(got[i * 3 + k], want[k], ((*ops)->size == 4 ? 2e-5 : 1e-12) * (1 + fabs(want[k])));
        }
        fli_free(np);
        fli_free(scratch);
        fli_batch_fini(&b);
        fli_model_free(m);
    }
    fli_arena_fini(&a);
}

/* H v for v within the last layer, within the others, and for their sum: where v is zero, much is left out. */
static void test_head_directions(void **state)
{
    enum { N = 18, DIM = 2 * 6 * 6 };
    fixture *f = *state;
    const size_t shape[3] = {2, 6, 6};
    fli_arena a;
    fli_rng r;
    fli_model *m = NULL;
    fli_batch b;
    double *v[3], *h[3], *x;
    fli_arena_init(&a, f->ctx);
    fli_rng_init(&r, 2, FLI_RNG_TEST, 0, 0);
    assert_ok(f->ctx, make(f, &a, "conv 4x3 same, pool 2, conv 5x2, fc 6", &fli_ops_f64, shape, 3, &m));
    assert_ok(f->ctx, fli_model_batch(f->ctx, m, N, &b));
    b.n = N;
    for (size_t i = 0; i < N * DIM; i++) ((double *)b.x)[i] = fli_rng_normal(&r);
    for (size_t i = 0; i < N; i++) b.label[i] = (int32_t)fli_rng_below(&r, 3);
    void *scratch = fli_alloc(f->ctx, fli_model_scratch(m, N), 1);
    x = fli_alloc(f->ctx, m->space.n, sizeof *x);
    for (size_t k = 0; k < 3; k++) v[k] = fli_alloc(f->ctx, m->space.n, sizeof(double));
    for (size_t k = 0; k < 3; k++) h[k] = fli_alloc(f->ctx, m->space.n, sizeof(double));
    size_t head = m->tensors[m->tensor_count - 2].offset, second = m->tensors[2].offset;
    for (size_t i = 0; i < m->space.n; i++) {
        x[i] = 0.5 * fli_rng_normal(&r);
        v[0][i] = i >= head ? fli_rng_normal(&r) : 0;
        v[1][i] = i < second ? fli_rng_normal(&r) : 0; /* the first filter alone */
        v[2][i] = v[0][i] + v[1][i];
    }
    for (size_t k = 0; k < 3; k++) {
        memset(scratch, 0xFF, fli_model_scratch(m, N));
        m->desc->hvp(m, x, &b, v[k], h[k], scratch);
    }
    double size = 0, cross = 0;
    for (size_t i = 0; i < m->space.n; i++) size = fmax(size, fabs(h[2][i]));
    for (size_t i = 0; i < head; i++) cross = fmax(cross, fabs(h[0][i]));
    assert_true(cross > 1e-3 * size); /* the mixed derivatives are there */
    for (size_t i = 0; i < m->space.n; i++) assert_near(h[0][i] + h[1][i], h[2][i], 1e-12 * size);
    memset(v[0], 0, m->space.n * sizeof(double));
    m->desc->hvp(m, x, &b, v[0], h[0], scratch);
    for (size_t i = 0; i < m->space.n; i++) assert_true(h[0][i] == 0);
    for (size_t k = 0; k < 3; k++) {
        fli_free(v[k]);
        fli_free(h[k]);
    }
    fli_free(x);
    fli_free(scratch);
    fli_batch_fini(&b);
    fli_model_free(m);
    fli_arena_fini(&a);
}

/* Filters are saved with four dimensions, and the tensors cover all. */
static void test_saved_shapes(void **state)
{
    fixture *f = *state;
    const size_t shape[3] = {2, 6, 6};
    fli_arena a;
    fli_model *m = NULL;
    char head[1024] = "";
    fli_arena_init(&a, f->ctx);
    assert_ok(f->ctx, make(f, &a, "conv 4x3, fc 6", &fli_ops_f32, shape, 3, &m));
    float *x = fli_alloc(f->ctx, m->space.n, sizeof *x);
    const char *path = fixture_path(f, "m.safetensors");
    assert_ok(f->ctx, fli_model_file_write(f->ctx, path, m, x, &(fli_tensor_list){0}));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_true(!fseek(file, 8, SEEK_SET) && fread(head, 1, sizeof head - 1, file) > 100);
    fclose(file);
    assert_non_null(strstr(head, "\"conv1.weight\":{\"dtype\":\"F32\",\"shape\":[4,2,3,3],\"data_offsets\":[0,288]}"));
    assert_non_null(strstr(head, "\"conv1.bias\":{\"dtype\":\"F32\",\"shape\":[4]"));
    assert_non_null(strstr(head, "\"fc1.weight\":{\"dtype\":\"F32\",\"shape\":[6,64]"));
    assert_non_null(strstr(head, "\"fc2.bias\":{\"dtype\":\"F32\",\"shape\":[3]"));
    fli_free(x);
    fli_model_free(m);
    fli_arena_fini(&a);
}

/* ---- whole runs -------------------------------------------------------------------------------------------- */

#define LEARNS                                                                                                         \
    "rounds: 6\ndata: {kind: digits, samples: 300, test_samples: 60}\n"                                                \
    "partition: {kind: iid, clients: 5}\nlocal: {batch: 12, lr: 0.2, epochs: 3}\n"                                     \
    "model: {kind: cnn, layers: \"conv 6x5, pool 3, fc 20\"}\n"

/* It learns, with and without changes, and evaluation does not see them: the losses at the start are the same. */
static void test_a_cnn_learns_with_augmentation(void **state)
{
    fixture *f = *state;
    double start, augmented_start;
    double plain = final_loss(f, LEARNS, "data.augment=none", &start);
    double augmented = final_loss(f, LEARNS, "data.augment=cifar", &augmented_start);
    assert_true(plain < 0.7 * start);
    assert_true(start == augmented_start && augmented != plain && augmented < start);
}

static void test_refused_runs(void **state)
{
    fixture *f = *state;
    refuse(f, "data: {kind: blobs, augment: cifar}\npartition: {kind: iid, clients: 4}\nmodel: softmax\n",
           "data.augment is for images");
    refuse(f, "data: {kind: blobs}\npartition: {kind: iid, clients: 4}\nmodel: cnn\n", "model cnn needs images");
    refuse(f, "data: {kind: digits}\npartition: {kind: iid, clients: 4}\nmodel: {kind: cnn, layers: conv 3}\n",
           "filters x window");
    refuse(f, "data: {kind: synthetic, on_demand: true, augment: cifar}\nmodel: softmax\n", "images that are stored");
    refuse(f,
           "data: {kind: digits, augment: cifar}\npartition: {kind: iid, clients: 4}\nmodel: softmax\nalgorithm: "
           "{kind: feddr, solver: accurate}\n",
           "data.augment");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_a_line_describes_the_layers),
        FIXTURE_TEST(test_bad_lines),
        FIXTURE_TEST(test_misfitting_layers_are_named),
        FIXTURE_TEST(test_sizes_are_those_of_papers),
        FIXTURE_TEST(test_logits_match_plain_loops),
        FIXTURE_TEST(test_head_directions),
        FIXTURE_TEST(test_saved_shapes),
        FIXTURE_TEST(test_a_cnn_learns_with_augmentation),
        FIXTURE_TEST(test_refused_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
