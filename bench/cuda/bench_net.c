/* Turns of many clients on a GPU (src/cuda/host/train.c), without a method: microseconds per client-step of batch 50,
 * including drawing and the copies of the start models. Also the same with a linear term in every step (as in SCAFFOLD
 * or FedVRA), and with blocks of fewer lanes, whose weights may stay in the cache. Then an evaluation on 10,000
 * samples, in microseconds.
 *
 *     bench_net [words: only networks whose names have one of them] */
#include "base/os.h"
#include "cuda/host/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 50, SAMPLES = 600, CLIENTS = 100, CLASSES = 10, SAMPLES_EVALUATED = 10000, REPEATS = 5 };

typedef struct {
    const char *name, *layers;
    size_t shape[3];
    uint32_t steps;
} network;

static const network networks[] = {
    {"60-32-10", "fc 32", {1, 6, 10}, 60},
    {"784-200-10", "fc 200", {1, 28, 28}, 60},
    {"784-200-200-10", "fc 200, fc 200", {1, 28, 28}, 60},
    {"CNN", "conv 64x5 same, pool 2, conv 64x5 same, pool 2, fc 384, fc 192", {3, 24, 24}, 12},
};

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_model *model;
    fli_dataset *ds;
    fli_engine *engine;
    fli_engine_data *data;
    void *start, *shift, *z[CLIENTS];
    uint32_t *samples; /* of all clients, in order */
} bench;

static void check(fl_ctx *ctx, fl_status s)
{
    if (!s) return;
    fprintf(stderr, "bench_net: %s\n", fl_ctx_error(ctx));
    exit(1);
}

static void *vector_there(bench *b, double scale)
{
    size_t n = b->model->space.n;
    float *v = malloc(n * sizeof *v);
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < n; i++) v[i] = (float)(scale * fli_rng_normal(&r));
    void *at = b->engine->does->alloc(b->engine, b->ctx, n * sizeof *v);
    check(b->ctx, at ? FL_OK : FL_ENOMEM);
    b->engine->does->write(b->engine, n * sizeof *v, v, at);
    free(v);
    return at;
}

/* A network with layers of units alone is a `cnn` without convolutions. */
static void make_model(bench *b, const network *w)
{
    const fli_model_desc *const *d = fli_model_list;
    while (strcmp((*d)->name, "cnn")) d++;
    void *params = fli_arena_alloc(&b->arena, 1, (*d)->params_size);
    fli_node *map = fli_node_new(&b->arena, FLI_NODE_MAP, NULL, NULL);
    fli_node_append(map, fli_node_new(&b->arena, FLI_NODE_SCALAR, "layers", w->layers));
    check(b->ctx, fli_bind(b->ctx, &b->arena, "model", map, NULL, &(fli_table){(*d)->keys, params}, 1));
    check(b->ctx, fli_model_new_for(b->ctx, *d, params, &fli_ops_f32, w->shape, CLASSES, 0, &b->model));
}

static void make_data(bench *b, const network *w)
{
    size_t n = SAMPLES * CLIENTS, dim = w->shape[0] * w->shape[1] * w->shape[2];
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 1, 0);
    check(b->ctx, fli_dataset_new(b->ctx, FLI_X_U8, n, dim, CLASSES, &b->ds));
    memcpy(b->ds->shape, w->shape, sizeof b->ds->shape);
    b->ds->segments = 1;
    b->ds->scale = fli_alloc(b->ctx, 1, sizeof(double));
    b->ds->shift = fli_alloc(b->ctx, 1, sizeof(double));
    b->samples = fli_alloc(b->ctx, n, sizeof *b->samples);
    check(b->ctx, b->ds->scale && b->ds->shift && b->samples ? FL_OK : FL_ENOMEM);
    b->ds->scale[0] = 1.0 / 255;
    for (size_t i = 0; i < n * dim; i++) ((uint8_t *)b->ds->x)[i] = (uint8_t)fli_rng_u32(&r);
    for (size_t i = 0; i < n; i++) b->ds->label[i] = (int32_t)fli_rng_below(&r, CLASSES);
    fli_rng_permutation(&r, n, b->samples);
    check(b->ctx, b->engine->does->data_new(b->engine, b->ctx, b->ds, &b->data));
}

static double seconds_of(bench *b, fli_engine_net *net, const fli_engine_turns *turns)
{
    double begin = 0;
    for (int i = 0; i <= REPEATS; i++) {
        if (i == 1) begin = fli_clock_now(); /* the first call allocates */
        check(b->ctx, b->engine->does->train(b->ctx, net, turns));
        if (i % REPEATS == 0) fli_cuda_wait(fli_cuda_engine_stream(b->engine));
    }
    check(b->ctx, b->engine->does->status(b->engine, b->ctx));
    return (fli_clock_now() - begin) / REPEATS;
}

/* Microseconds per client-step. */
static double train(bench *b, fli_engine_net *net, const network *w, size_t clients, const void *shift, size_t block)
{
    fli_engine_lane lane[CLIENTS];
    net->block = block;
    for (size_t i = 0; i < clients; i++) {
        lane[i] = (fli_engine_lane){.start = b->start,
                                    .z = b->z[i],
                                    .shift = shift,
                                    .lr = 0.01,
                                    .steps = w->steps,
                                    .plain = {b->samples + i * SAMPLES, SAMPLES, BATCH}};
        fli_rng_init(&lane[i].rng, 1, FLI_RNG_BATCH, 1, (uint32_t)i);
    }
    double seconds = seconds_of(b, net, &(fli_engine_turns){.data = b->data, .lane = lane, .lanes = clients});
    return seconds * 1e6 / ((double)clients * w->steps);
}

static double evaluate(bench *b, fli_engine_net *net)
{
    fli_engine_eval l = {.x = b->start, .samples = b->samples, .n = SAMPLES_EVALUATED};
    double begin = 0;
    for (int i = 0; i <= REPEATS; i++) {
        if (i == 1) begin = fli_clock_now();
        check(b->ctx, b->engine->does->evaluate(b->ctx, net, b->data, &l, 1));
    }
    return (fli_clock_now() - begin) * 1e6 / REPEATS;
}

static void bench_type(bench *b, const network *w, int tf32)
{
    static const size_t clients[] = {CLIENTS, CLIENTS / 10};
    fli_engine_net *net;
    check(b->ctx, b->engine->does->net_new(b->engine, b->ctx, b->model, tf32, &net));
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        size_t n = clients[i];
        printf("%-15s %s %4zu clients %8.3f us  with a linear term %8.3f  lanes by halves %8.3f, quarters %8.3f\n",
               w->name, tf32 ? "tf32" : "fp32", n, train(b, net, w, n, NULL, n), train(b, net, w, n, b->shift, n),
               train(b, net, w, n, NULL, (n + 1) / 2), train(b, net, w, n, NULL, (n + 3) / 4));
    }
    printf("%-15s %s evaluation of %d samples %8.1f us\n", w->name, tf32 ? "tf32" : "fp32", SAMPLES_EVALUATED,
           evaluate(b, net));
    fflush(stdout);
    b->engine->does->net_free(net);
}

static void bench_network(const network *w)
{
    bench b = {.ctx = fl_ctx_new()};
    fli_arena_init(&b.arena, b.ctx);
    check(b.ctx, fli_backend_cuda.open(b.ctx, 0, &b.engine));
    make_model(&b, w);
    make_data(&b, w);
    b.start = vector_there(&b, 0.03);
    b.shift = vector_there(&b, 1e-4);
    for (size_t i = 0; i < CLIENTS; i++) b.z[i] = vector_there(&b, 0);
    for (int tf32 = 0; tf32 < 2; tf32++) bench_type(&b, w, tf32);
    for (size_t i = 0; i < CLIENTS; i++) b.engine->does->release(b.engine, b.z[i]);
    b.engine->does->release(b.engine, b.start);
    b.engine->does->release(b.engine, b.shift);
    b.engine->does->data_free(b.data);
    b.engine->does->close(b.engine);
    fli_dataset_free(b.ds);
    fli_free(b.samples);
    fli_model_free(b.model);
    fli_arena_fini(&b.arena);
    fl_ctx_free(b.ctx);
}

static int wanted(const network *w, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(w->name, argv[i])) return 1;
    return argc < 2;
}

int main(int argc, char **argv)
{
    char why[256] = "";
    if (!fli_backend_cuda.count(why, sizeof why)) {
        printf("bench_net: skipped, %s\n", why);
        return 0;
    }
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (wanted(&networks[i], argc, argv)) bench_network(&networks[i]);
    return 0;
}
