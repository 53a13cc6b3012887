/* A federated method of one's own: FedAvg with momentum on the server, beside FedAvg on the same generated data.
 * A method poses local problems and reads the answers; fedloom trains, sends, counts, saves, and runs it on all cores.
 *
 *     cc own_method.c $(pkg-config --cflags --libs fedloom) -o own_method && ./own_method */
#include <fedloom_extend.h>
#include <stdio.h>

enum { X, M }; /* the server's vectors: the model and the momentum */
enum { DX };   /* of the upload, and the sum of it */

/* minimise f_i from x by the steps that `local` asks for; up goes x_i - x */
static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    fl_vec_lin(&t->space, 1, a->z, -1, t->down[X], t->up[DX]);
    return 0;
}

/* sum += w_i (x_i - x) */
static int absorb(const fl_coordinator *s, const fl_upload *u)
{
    fl_vec_axpy(&s->space, u->ask.weight, u->up[DX], s->sum[DX]);
    return 0;
}

/* m <- beta m + mean of x_i - x;  x <- x + m */
static int advance(const fl_coordinator *s)
{
    double beta = s->params[0];
    fl_vec_lin(&s->space, 1 / s->cohort_weight, s->sum[DX], beta, s->vec[M], s->vec[M]);
    fl_vec_axpy(&s->space, 1, s->vec[M], s->vec[X]);
    return 0;
}

static const fl_key keys[] = {
    {.name = "beta", .type = FL_KEY_REAL, .def = "0.8", .max = 0.999, .help = "how much of the momentum stays"},
    {.name = NULL},
};
/* m stays on the server */
static const fl_part down[] = {{.name = "x", .what = FL_PART_VECTOR, .at = X}, {.name = NULL}};
static const fl_part up[] = {{.name = "x_i - x", .what = FL_PART_VECTOR, .at = DX, .use = FL_PART_CHANGE},
                             {.name = NULL}};
static const char *const server[] = {"x", "m", NULL}, *const sums[] = {"sum w_i (x_i - x)", NULL};

static const fl_method fedavgm = {
    .size = sizeof(fl_method),
    .name = "fedavgm",
    .title = "FedAvg with momentum on the server",
    .keys = keys,
    .server = server,
    .sums = sums,
    .down = down,
    .up = up,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};

/* Twenty clients, each with two of ten kinds of digits; five take part in a round. */
static const char *const problem[] = {
    "data={kind: digits, samples: 2000, test_samples: 1000}",
    "partition={kind: shards, clients: 20, shards_per_client: 2}",
    "participation={kind: uniform, count: 5}",
    "model=softmax",
    "local={batch: 10, lr: 0.02}",
    "rounds=20",
};

static fl_status run_with(fl_ctx *ctx, const char *algorithm)
{
    fl_config *cfg = fl_config_new(ctx);
    fl_run *run = NULL;
    fl_status failed = cfg ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !failed && i < sizeof problem / sizeof *problem; i++) failed = fl_config_set(cfg, problem[i]);
    if (!failed) failed = fl_config_set(cfg, algorithm);
    if (!failed) failed = fl_run_new(cfg, &run);
    if (!failed) failed = fl_run_go(run, NULL, NULL);
    const fl_row *last = failed ? NULL : fl_run_row(run);
    if (last)
        printf("%-36s %8.3f %8.2f%% %9.2f MB\n", algorithm, fl_row_get(last, "train_loss"),
               100 * fl_row_get(last, "test_accuracy"), fl_row_get(last, "bytes_up") / 1e6);
    fl_run_free(run);
    fl_config_free(cfg);
    return failed;
}

static void show(void *arg, const char *line)
{
    (void)arg;
    printf("  %s", line);
}

int main(void)
{
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) return 1;
    static const char *const algorithms[] = {"algorithm=fedavg", "algorithm=fedavgm",
                                             "algorithm={kind: fedavgm, beta: 0.5}"};
    fl_status failed = fl_method_register(ctx, &fedavgm);
    printf("%-36s %8s %9s %12s\n", "after 20 rounds", "loss", "accuracy", "uploaded");
    for (size_t i = 0; !failed && i < 3; i++) failed = run_with(ctx, algorithms[i]);
    printf("\nIs it a method as the engine wants them?\n");
    if (!failed) failed = fl_conform(ctx, "fedavgm", NULL, show, NULL);
    if (failed) fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    fl_ctx_free(ctx);
    return failed != FL_OK;
}
