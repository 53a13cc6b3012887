/* Whole rounds, from pose to advance, on a device: FedAvg and FedVRA, batch 50, clients with 1000 random samples
 * (bytes) of their own, one epoch of 20 steps per round, metrics off. gpu.sh makes a table of the lines and those of
 * other tools:
 *
 *     case MODEL FLOP BYTES                                                   of a client-step
 *     fedloom MODEL PRECISION CLIENTS METHOD MICROSECONDS SECONDS            per client-step; of set-up and first round
 *     total fedloom pfl PRECISION SECONDS SECONDS                             all rounds with evaluation; set-up
 *
 *     bench_gpu [-w] [DEVICE [MODEL ...]]       (default: cuda, all models)
 *
 * -w adds to every row microseconds per round, how many of these the host waited for the GPU, and how often:
 *
 *     waits MODEL PRECISION CLIENTS METHOD ROUND WAITED TIMES
 *
 * FLOP: 2 per multiplication and addition; forward, gradient by weights and, except for the first layer, gradient by
 * inputs. BYTES that must move through memory: the samples once, and two reads (forward, step) and one write of every
 * parameter, in single precision. */
#include <fedloom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 50, EACH = 1000, CLASSES = 10, MOST_LAYERS = 8, MANY = 100 };

static const double patience = 0.4; /* seconds of a block of rounds; the fastest of three counts */

/* A product of a layer: results per sample, and terms of each. */
typedef struct {
    double outputs, terms;
} product;

typedef struct {
    const char *name, *model;
    size_t shape[3];
    double parameters;
    product layer[MOST_LAYERS];
} model_case;

#define CNN "{kind: cnn, layers: \"conv 64x5 same, pool 2, conv 64x5 same, pool 2, fc 384, fc 192\"}"
static const model_case cases[] = {
    {"60-32-10", "{kind: mlp, hidden: [32]}", {1, 1, 60}, 2282, {{32, 60}, {10, 32}}},
    {"784-200-10", "{kind: mlp, hidden: [200]}", {1, 28, 28}, 159010, {{200, 784}, {10, 200}}},
    {"784-200-200-10", "{kind: mlp, hidden: [200, 200]}", {1, 28, 28}, 199210, {{200, 784}, {200, 200}, {10, 200}}},
    {"cnn", CNN, {3, 24, 24}, 1068298, {{24 * 24 * 64, 75}, {12 * 12 * 64, 1600}, {384, 2304}, {192, 384}, {10, 192}}},
};
/* pfl-research's CIFAR-10: its CNN without dropout. */
static const model_case pfl = {
    "pfl", "{kind: cnn, layers: \"conv 32x3, conv 64x3, pool 2, fc 128\"}", {3, 32, 32}, 0, {{0, 0}}};

/* ---- samples ------------------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *x;
    int32_t *label;
    fl_samples samples;
} images;

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int make_images(const model_case *c, size_t n, uint64_t seed, images *out)
{
    size_t dim = c->shape[0] * c->shape[1] * c->shape[2];
    out->x = malloc(n * dim + 8);
    out->label = malloc(n * sizeof *out->label);
    if (!out->x || !out->label) return 0;
    for (size_t i = 0; i < n * dim; i += 8) {
        uint64_t bits = random_bits(&seed);
        memcpy(out->x + i, &bits, 8);
    }
    for (size_t i = 0; i < n; i++) out->label[i] = (int32_t)(random_bits(&seed) % CLASSES);
    out->samples = (fl_samples){
        .size = sizeof out->samples, .n = n, .dim = dim, .u8 = out->x, .label = out->label, .classes = CLASSES};
    if (c->shape[1] > 1) memcpy(out->samples.shape, c->shape, sizeof c->shape);
    return 1;
}

static void free_images(images *m)
{
    free(m->x);
    free(m->label);
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The linker redirects all calls of fli_cuda_wait to this file (CMakeLists.txt). */
static struct {
    int wanted;
    double seconds;
    size_t times;
} waits;

int __real_fli_cuda_wait(void *stream);
int __wrap_fli_cuda_wait(void *stream);
int __wrap_fli_cuda_wait(void *stream)
{
    double begin = now();
    int code = __real_fli_cuda_wait(stream);
    waits.seconds += now() - begin;
    waits.times++;
    return code;
}

/* Waits for delayed work by reading the model. Returns the time at its end. */
static double finished(const fl_run *run)
{
    double *x = malloc(fl_run_parameters(run) * sizeof *x);
    if (x) fl_run_model(run, x, fl_run_parameters(run));
    free(x);
    return now();
}

static fl_status step(fl_run *run, size_t rounds)
{
    fl_status s = FL_OK;
    for (size_t k = 0; !s && k < rounds; k++) s = fl_run_step(run, NULL);
    return s;
}

/* Seconds of a round: of blocks of rounds, minus the time of reading the model. */
static fl_status time_rounds(fl_run *run, double *out)
{
    double begin = now();
    fl_status s = step(run, 2);
    double once = (finished(run) - begin) / 2;
    size_t rounds = once < patience / 200 ? 200 : (size_t)(patience / once) + 1;
    *out = 1e300;
    for (int block = 0; !s && block < 3; block++) {
        begin = now();
        s = step(run, rounds);
        double end = finished(run), each = (end - begin - (finished(run) - end)) / (double)rounds;
        if (each < *out) *out = each;
    }
    return s;
}

static fl_status open_run(fl_ctx *ctx, const char *text, const images *train, const images *test, size_t clients,
                          fl_run **run)
{
    fl_config *cfg = fl_config_new(ctx);
    size_t *start = malloc((clients + 1) * sizeof *start);
    if (!cfg || !start) return FL_ENOMEM;
    for (size_t k = 0; k <= clients; k++) start[k] = train->samples.n / clients * k;
    fl_holding who = {.size = sizeof who, .clients = clients, .start = start};
    fl_status s = fl_config_text(cfg, text, "bench");
    if (!s) s = fl_config_data(cfg, &train->samples, test ? &test->samples : NULL, &who);
    if (!s) s = fl_run_new(cfg, run);
    fl_config_free(cfg);
    free(start);
    return s;
}

static fl_status one_row(fl_ctx *ctx, const char *device, const model_case *c, const char *precision, size_t clients,
                         const char *method, const images *train)
{
    char text[1024];
    fl_run *run = NULL;
    double begin = now(), first = 0, round = 0;
    snprintf(text, sizeof text,
             "algorithm: %s\ndevice: %s\nprecision: %s\nmodel: %s\nrounds: 1000000\nparticipation: {kind: everyone}\n"
             "local: {lr: 0.01, batch: %d, epochs: 1}\nmetrics: {every: 1000000, test: false, train: false}\n",
             method, device, precision, c->model, BATCH);
    fl_status s = open_run(ctx, text, train, NULL, clients, &run);
    if (!s) s = step(run, 1);
    if (!s) first = finished(run) - begin;
    if (!s) s = time_rounds(run, &round);
    if (!s)
        printf("fedloom %s %s %zu %s %.4f %.3f\n", c->name, precision, clients, method,
               round / (double)(clients * EACH / BATCH) * 1e6, first);
    if (!s && waits.wanted) {
        waits.seconds = 0;
        waits.times = 0;
        s = step(run, MANY);
        printf("waits %s %s %zu %s %.1f %.1f %.2f\n", c->name, precision, clients, method, round * 1e6,
               waits.seconds / MANY * 1e6, (double)waits.times / MANY);
    }
    fl_run_free(run);
    return s;
}

/* Prints the error; the other cases continue. */
static int failed(fl_ctx *ctx, fl_status s, const char *name, const char *precision)
{
    if (s) fprintf(stderr, "bench_gpu: %s, %s: %s\n", name, precision, fl_ctx_error(ctx));
    fflush(stdout);
    return s != FL_OK;
}

static void print_case(const model_case *c)
{
    double terms = 0;
    for (size_t k = 0; k < MOST_LAYERS; k++) terms += (k ? 3 : 2) * c->layer[k].outputs * c->layer[k].terms;
    printf("case %s %.0f %.0f\n", c->name, 2 * BATCH * terms,
           (double)(BATCH * c->shape[0] * c->shape[1] * c->shape[2]) + 3 * 4 * c->parameters);
}

static int one_case(fl_ctx *ctx, const char *device, const model_case *c)
{
    static const char *const precision[] = {"f32", "tf32", "f64"}, *const method[] = {"fedavg", "fedvra"};
    static const size_t clients[] = {100, 10};
    int wrong = 0, wide = !strcmp(c->name, "784-200-10");
    print_case(c);
    for (size_t k = 0; k < 2; k++) {
        images train = {0};
        if (!make_images(c, clients[k] * EACH, 1, &train)) return 1;
        for (size_t p = 0; p < (wide && !k ? 3u : 2u); p++)
            for (size_t m = 0; m < 2; m++)
                wrong |= failed(ctx, one_row(ctx, device, c, precision[p], clients[k], method[m], &train), c->name,
                                precision[p]);
        free_images(&train);
    }
    return wrong;
}

/* 1000 users with 50 images each, 50 of them a round, batch 10, one epoch; 1500 rounds, with an evaluation on 10,000
 * images every 10 rounds. Random images take the same time as real ones. */
static fl_status pfl_run(fl_ctx *ctx, const char *device, const char *precision, const images *train,
                         const images *test)
{
    char text[1024];
    fl_run *run = NULL;
    double begin = now(), ready = 0;
    snprintf(text, sizeof text,
             "algorithm: fedavg\ndevice: %s\nprecision: %s\nmodel: %s\nrounds: 1500\n"
             "participation: {kind: uniform, count: 50}\nlocal: {lr: 0.01, batch: 10, epochs: 1}\n"
             "metrics: {every: 10, test: true, train: false}\n",
             device, precision, pfl.model);
    fl_status s = open_run(ctx, text, train, test, 1000, &run);
    ready = now();
    if (!s) s = fl_run_go(run, NULL, NULL);
    if (!s) printf("total fedloom pfl %s %.2f %.3f\n", precision, finished(run) - ready, ready - begin);
    fl_run_free(run);
    return s;
}

static int pfl_case(fl_ctx *ctx, const char *device)
{
    images train = {0}, test = {0};
    int wrong = !make_images(&pfl, 50000, 1, &train) || !make_images(&pfl, 10000, 2, &test);
    if (!wrong) {
        wrong |= failed(ctx, pfl_run(ctx, device, "f32", &train, &test), pfl.name, "f32");
        wrong |= failed(ctx, pfl_run(ctx, device, "tf32", &train, &test), pfl.name, "tf32");
    }
    free_images(&train);
    free_images(&test);
    return wrong;
}

static int asked_for(int argc, char **argv, const char *name)
{
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], name)) return 1;
    return argc <= 2;
}

int main(int argc, char **argv)
{
    fl_ctx *ctx = fl_ctx_new();
    waits.wanted = argc > 1 && !strcmp(argv[1], "-w");
    argc -= waits.wanted;
    argv += waits.wanted;
    const char *device = argc > 1 ? argv[1] : "cuda";
    int wrong = 0;
    if (!ctx) return 1;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        if (asked_for(argc, argv, cases[k].name)) wrong |= one_case(ctx, device, &cases[k]);
    if (asked_for(argc, argv, pfl.name)) wrong |= pfl_case(ctx, device);
    fl_ctx_free(ctx);
    return wrong;
}
