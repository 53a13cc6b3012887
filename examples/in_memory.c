/* Data that a program has in arrays, a run round by round, and a look at what a method keeps: three clients with
 * different mixes of classes, SCAFFOLD, its control variates.
 *
 *     cc in_memory.c $(pkg-config --cflags --libs fedloom) -lm -o in_memory && ./in_memory */
#include <fedloom.h>

#include <math.h>
#include <stdio.h>

enum { CLIENTS = 3, CLASSES = 3, DIM = 4, EACH = 100, TRAIN = CLIENTS * EACH, TEST = 150 };

/* Numbers in [-1, 1), the same on every machine. */
static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

/* A sample is noise around the corner of its class. */
static void make_sample(uint64_t *state, int32_t label, float *x)
{
    for (int j = 0; j < DIM; j++) x[j] = (float)(1.2 * noise(state)) + (j == label ? 1.5f : 0);
}

static double norm(const fl_vector *v)
{
    double sum = 0;
    for (size_t i = 0; i < v->n; i++) {
        double x = v->real == 4 ? (double)((const float *)v->data)[i] : ((const double *)v->data)[i];
        sum += x * x;
    }
    return sqrt(sum);
}

static fl_status federate(fl_config *cfg, fl_run **run)
{
    static float x[(TRAIN + TEST) * DIM]; /* all of it is used where it lies, and must live as long as the run */
    static int32_t label[TRAIN + TEST];
    static const size_t start[CLIENTS + 1] = {0, EACH, 2 * EACH, TRAIN};
    uint64_t state = 1;
    for (int i = 0; i < TRAIN + TEST; i++) {
        int own = i < TRAIN && i % 5 != 0; /* four samples of five are of the client's own class */
        label[i] = own ? i / EACH : i % CLASSES;
        make_sample(&state, label[i], x + (size_t)i * DIM);
    }
    fl_samples train = {.size = sizeof train, .n = TRAIN, .dim = DIM, .f32 = x, .label = label, .classes = CLASSES};
    fl_samples test = train;
    test.n = TEST;
    test.f32 = x + TRAIN * DIM;
    test.label = label + TRAIN;
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = start};
    fl_status s = fl_config_text(cfg,
                                 "model: {kind: mlp, hidden: [16]}\n"
                                 "algorithm: scaffold\n"
                                 "participation: everyone\n"
                                 "rounds: 10\n"
                                 "local: {epochs: 1, batch: 20, lr: 0.05}\n",
                                 NULL);
    if (!s) s = fl_config_data(cfg, &train, &test, &who);
    return s ? s : fl_run_new(cfg, run);
}

int main(void)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = ctx ? fl_config_new(ctx) : NULL;
    fl_run *run = NULL;
    fl_vector c, c_i;
    int more = 1;
    fl_status s = cfg ? federate(cfg, &run) : FL_ENOMEM;
    while (!s && more) {
        s = fl_run_step(run, &more);
        if (!s)
            printf("round %2zu: test accuracy %.3f\n", fl_run_round(run), fl_row_get(fl_run_row(run), "test_accuracy"));
    }
    if (!s && fl_run_vector(run, 1, &c) && fl_run_client_vector(run, 2, 0, &c_i) == 1)
        printf("|%s| = %.4f, |%s| = %.4f of client 2\n", c.name, norm(&c), c_i.name, norm(&c_i));
    if (s && ctx) fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return s != FL_OK;
}
