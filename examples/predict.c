/* Trains a small network on generated digits, saves it, loads it again without any configuration, and asks it from two
 * threads what some drawn digits are.
 *     cc predict.c $(pkg-config --cflags --libs fedloom) -lm -pthread && ./a.out */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include <fedloom.h>

#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, DRAWN = 4, THREADS = 2 };

/* ---- four digits, as strokes: from, to -------------------------------------------------------------------- */

static const struct {
    int digit;
    double stroke[9][4];
} drawing[DRAWN] = {
    {1, {{14, 4, 14, 24}, {9, 9, 14, 4}}},
    {7, {{7, 5, 21, 5}, {21, 5, 12, 24}}},
    {4, {{16, 4, 6, 17}, {6, 17, 22, 17}, {16, 4, 16, 24}}},
    {0,
     {{14, 4, 19, 7},
      {19, 7, 21, 14},
      {21, 14, 19, 21},
      {19, 21, 14, 24},
      {14, 24, 9, 21},
      {9, 21, 7, 14},
      {7, 14, 9, 7},
      {9, 7, 14, 4}}},
};

static double distance(const double s[4], double x, double y)
{
    double dx = s[2] - s[0], dy = s[3] - s[1], length2 = dx * dx + dy * dy;
    double t = length2 > 0 ? ((x - s[0]) * dx + (y - s[1]) * dy) / length2 : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return length2 > 0 ? hypot(x - s[0] - t * dx, y - s[1] - t * dy) : INFINITY;
}

static void draw(size_t which, uint8_t *image)
{
    for (int i = 0; i < PIXELS; i++) {
        double near = INFINITY;
        for (int k = 0; k < 9; k++) near = fmin(near, distance(drawing[which].stroke[k], i % SIDE, (double)(i / SIDE)));
        image[i] = (uint8_t)(255 * fmax(0, fmin(1, 2.2 - near)));
    }
}

/* ---- training ------------------------------------------------------------------------------------------------ */

static fl_status train(fl_ctx *ctx, const char *folder)
{
    static const char *const settings[] = {
        "data={kind: digits, samples: 2000, test_samples: 500}",
        "partition={kind: dirichlet, clients: 20, alpha: 0.5}",
        "participation={kind: uniform, count: 10}",
        "model={kind: mlp, hidden: [40]}",
        "local={lr: 0.1, batch: 20}",
        "algorithm=scaffold",
        "rounds=20",
        "metrics={every: 20}",
    };
    char output[600];
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(ctx);
    if (!cfg) return FL_ENOMEM;
    snprintf(output, sizeof output, "output=%s/result", folder);
    fl_status s = fl_config_set(cfg, output);
    for (size_t i = 0; !s && i < sizeof settings / sizeof *settings; i++) s = fl_config_set(cfg, settings[i]);
    if (!s) s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_go(run, NULL, NULL);
    if (!s) s = fl_run_save(run);
    if (!s) printf("trained: test accuracy %.3f\n", fl_row_get(fl_run_row(run), "test_accuracy"));
    fl_run_free(run);
    fl_config_free(cfg);
    return s;
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

typedef struct {
    const fl_model *model;
    const uint8_t *images;
    size_t n;
    double *p; /* n x classes */
    fl_status status;
} question;

static void *ask(void *arg)
{
    question *q = arg;
    fl_ctx *ctx = fl_ctx_new(); /* every thread has its own */
    const fl_samples samples = {.size = sizeof samples, .n = q->n, .dim = PIXELS, .u8 = q->images};
    q->status = ctx ? fl_model_predict(ctx, q->model, &samples, q->p) : FL_ENOMEM;
    if (q->status && ctx) fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    fl_ctx_free(ctx);
    return NULL;
}

static fl_status use(fl_ctx *ctx, const char *folder)
{
    static uint8_t images[DRAWN][PIXELS];
    static double p[DRAWN][10];
    enum { SHARE = DRAWN / THREADS };
    char path[600];
    fl_model *model;
    pthread_t thread[THREADS];
    question q[THREADS];
    int started[THREADS];
    snprintf(path, sizeof path, "%s/result/model.safetensors", folder);
    fl_status s = fl_model_load(ctx, path, &model);
    if (s) return s;
    const fl_model_info *about = fl_model_about(model);
    printf("loaded:  %s, %zu parameters, for samples of %zu x %zu x %zu\n", about->kind, about->parameters,
           about->shape[0], about->shape[1], about->shape[2]);
    for (size_t i = 0; i < DRAWN; i++) draw(i, images[i]);
    for (size_t t = 0; t < THREADS; t++) {
        q[t] = (question){model, images[t * SHARE], SHARE, p[t * SHARE], FL_OK};
        started[t] = !pthread_create(&thread[t], NULL, ask, &q[t]);
        if (!started[t]) ask(&q[t]); /* then in this one */
    }
    for (size_t t = 0; t < THREADS; t++) {
        if (started[t]) pthread_join(thread[t], NULL);
        if (q[t].status) s = q[t].status;
    }
    for (size_t i = 0; !s && i < DRAWN; i++) {
        size_t top = 0;
        for (size_t k = 1; k < about->classes; k++)
            if (p[i][k] > p[i][top]) top = k;
        printf("a drawn %d: %zu with probability %.3f\n", drawing[i].digit, top, p[i][top]);
    }
    fl_model_free(model);
    return s;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

int main(void)
{
    char folder[] = "/tmp/fedloom-predict-XXXXXX";
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx || !mkdtemp(folder)) return 1;
    fl_status s = train(ctx, folder);
    if (!s) s = use(ctx, folder);
    if (s) fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    fl_ctx_free(ctx);
    return s != FL_OK;
}
