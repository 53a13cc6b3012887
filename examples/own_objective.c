/* An objective of one's own: robust regression with Huber's loss, on data that the program keeps to itself. The engine
 * knows clients by number; SCAFFOLD finds the line that least squares misses, because every client has wild outliers.
 *
 *     cc own_objective.c $(pkg-config --cflags --libs fedloom) -lm -o own_objective && ./own_objective */
#include <fedloom_extend.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLIENTS = 20, EACH = 50 };

/* What the functions below are handed as `arg`. */
typedef struct {
    double t[CLIENTS][EACH], y[CLIENTS][EACH];
    double delta; /* beyond it the loss grows linearly */
} measurements;

static double uniform(void) { return (double)rand() / RAND_MAX; }

/* y = 3 t - 1 and a little noise, but every tenth value is far off. Clients see different parts of the line. */
static void measure(measurements *m)
{
    srand(1);
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < EACH; k++) {
            m->t[i][k] = 2.0 * i / CLIENTS - 1 + uniform();
            m->y[i][k] = 3 * m->t[i][k] - 1 + 0.1 * (uniform() - 0.5) + (k % 10 ? 0 : 30);
        }
}

/* f_i and its gradient at x = (slope, intercept). The configuration asks for doubles, so `real` is 8. */
static int huber(void *arg, uint32_t client, size_t real, const void *x, void *g, double *loss, fl_failure *failure)
{
    const measurements *m = arg;
    const double *line = x;
    double sum = 0, by_slope = 0, by_intercept = 0;
    if (real != sizeof(double)) {
        fl_failed(failure, "this objective is written for precision: f64");
        return 1;
    }
    for (int k = 0; k < EACH; k++) {
        double r = line[0] * m->t[client][k] + line[1] - m->y[client][k];
        double slope = fmin(fmax(r, -m->delta), m->delta);
        sum += fabs(r) <= m->delta ? r * r / 2 : m->delta * (fabs(r) - m->delta / 2);
        by_slope += slope * m->t[client][k];
        by_intercept += slope;
    }
    *loss = sum / EACH;
    if (g) {
        ((double *)g)[0] = by_slope / EACH;
        ((double *)g)[1] = by_intercept / EACH;
    }
    return 0;
}

/* A column of metrics.csv: how far we are from the truth. */
static int error(void *arg, size_t real, const void *x, double *out, fl_failure *failure)
{
    const double *line = x;
    (void)arg;
    (void)real;
    (void)failure;
    *out = hypot(line[0] - 3, line[1] + 1);
    return 0;
}

static const char settings[] = "model: huber\n"
                               "algorithm: scaffold\n"
                               "precision: f64\n"
                               "rounds: 200\n"
                               "participation: {kind: uniform, count: 5}\n"
                               "local: {steps: 5, lr: 0.2}\n"
                               "metrics: {every: 50}\n";

static void show(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)arg;
    (void)run;
    if (measured)
        printf("round %3zu: loss %.4f, error %.4f\n", fl_row_round(row), fl_row_get(row, "train_loss"),
               fl_row_get(row, "error"));
}

/* Trains with this delta; a large one makes it least squares. Returns how far it ends from the truth. */
static double train(fl_ctx *ctx, measurements *m, double delta)
{
    /* Every client's only "sample" stands for the client itself. */
    fl_samples numbers = {.size = sizeof numbers, .n = CLIENTS};
    size_t start[CLIENTS + 1];
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = start};
    fl_config *cfg = fl_config_new(ctx);
    fl_run *run = NULL;
    double left = NAN;
    for (size_t i = 0; i <= CLIENTS; i++) start[i] = i;
    m->delta = delta;
    if (cfg && !fl_config_text(cfg, settings, NULL) && !fl_config_data(cfg, &numbers, NULL, &who) &&
        !fl_run_new(cfg, &run) && !fl_run_go(run, show, NULL))
        left = fl_row_get(fl_run_row(run), "error");
    else
        fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    fl_run_free(run);
    fl_config_free(cfg);
    return left;
}

int main(void)
{
    static measurements m;
    static const char *const metrics[] = {"error", NULL};
    fl_objective mine = {.size = sizeof mine,
                         .name = "huber",
                         .title = "a line through points, outliers and all",
                         .arg = &m,
                         .traits = FL_OBJECTIVE_CONVEX,
                         .parameters = 2,
                         .client = huber,
                         .metrics = metrics,
                         .measure = error};
    fl_ctx *ctx = fl_ctx_new();
    double robust = NAN, squares = NAN;
    measure(&m);
    if (ctx && !fl_objective_register(ctx, &mine)) {
        printf("Huber's loss\n");
        robust = train(ctx, &m, 0.1);
        printf("least squares\n");
        squares = train(ctx, &m, 1e9);
    }
    printf("off by %.3f with Huber's loss, by %.3f with least squares\n", robust, squares);
    fl_ctx_free(ctx);
    return robust < 0.2 && squares > 1 ? 0 : 1;
}
