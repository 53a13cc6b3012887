/* How fast a server adds uploads to its sums, compared with the machine's copies: FedAvg with one vector per upload and
 * SCAFFOLD with two, ten clients with 10 million f32 parameters, one thread and two. Bytes are those of the uploads.
 * Absorbing alternates with a copy of the same size on the same number of threads; of each the median counts.
 *
 *     bench_absorb [TIMES] */
#include "run/state.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 10, MOST = 101 };

static const char settings[] =
    "rounds: 1\ndata: {kind: blobs, classes: 10, features: 784, samples: 40, test_samples: 0}\n"
    "partition: {kind: iid, clients: 10}\nparticipation: everyone\nmodel: {kind: mlp, hidden: [12579]}\n"
    "metrics: {train: false, test: false}\n";

static void die(const char *why)
{
    fprintf(stderr, "bench_absorb: %s\n", why);
    exit(1);
}

/* ---- the timed work ------------------------------------------------------------------------------------------- */

typedef struct {
    fl_run *run;
    fli_exchange exchange[CLIENTS], *list[CLIENTS];
    fli_intake *intake;
    size_t vectors; /* per upload */
    char *copy;     /* of a client's vectors */
} bench;

static double absorb(bench *b)
{
    fli_server_state *server = fli_exec_server_state(b->run->exec);
    fli_step step = {.cohort = CLIENTS, .cohort_weight = 1};
    fli_server_state_begin(server, &step);
    double begun = fli_clock_now();
    fli_intake_all(b->intake, b->list, CLIENTS, fli_exec_workers(b->run->exec)->pool);
    return fli_clock_now() - begun;
}

enum { PIECES = 64 };

/* fli_pool_fn */
static void copy_piece(void *arg, size_t i, size_t worker)
{
    bench *b = arg;
    const fl_space *space = fli_exec_space(b->run->exec);
    size_t all = fli_bytes(space), from = all * (i % PIECES) / PIECES, to = all * (i % PIECES + 1) / PIECES;
    size_t k = i / PIECES, vector = k % b->vectors;
    (void)worker;
    memcpy(b->copy + vector * all + from, (char *)b->exchange[k / b->vectors].up.vec[vector] + from, to - from);
}

static double copy(bench *b)
{
    double begun = fli_clock_now();
    fli_pool_run(fli_exec_workers(b->run->exec)->pool, PIECES * b->vectors * CLIENTS, copy_piece, b);
    return fli_clock_now() - begun;
}

/* ---- a method on some threads --------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, ascending);
    return v[n / 2];
}

static void open_bench(fl_ctx *ctx, const char *method, int threads, bench *b)
{
    char set[100];
    fl_config *cfg = fl_config_new(ctx);
    memset(b, 0, sizeof *b);
    snprintf(set, sizeof set, "algorithm=%s", method);
    if (!cfg || fl_config_text(cfg, settings, "bench_absorb") || fl_config_set(cfg, set)) die(fl_ctx_error(ctx));
    snprintf(set, sizeof set, "threads=%d", threads);
    if (fl_config_set(cfg, set) || fl_run_new(cfg, &b->run)) die(fl_ctx_error(ctx));
    fl_config_free(cfg);
    fli_exec *e = b->run->exec;
    const fl_space *space = fli_exec_space(e);
    b->vectors = fli_parts_vectors(fli_exec_spec_of(e)->setup->algo->up);
    b->copy = malloc(b->vectors * fli_bytes(space));
    if (!b->copy || fli_intake_new(ctx, fli_exec_server_state(e), CLIENTS, &b->intake)) die("out of memory");
    memset(b->copy, 0, b->vectors * fli_bytes(space));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fli_exchange *x = b->list[i] = &b->exchange[i];
        if (fli_exec_upload_new(e, &x->up)) die(fl_ctx_error(ctx));
        x->ask = (fl_ask){.client = i, .cohort = CLIENTS, .phases = 1, .steps = 1, .lr = 0.1};
        x->ask.flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY;
        fli_server_state_address(fli_exec_server_state(e), &x->ask);
        for (size_t k = 0; k < b->vectors; k++) fli_fill(space, 1e-3 * (i + k + 1), x->up.vec[k]);
    }
}

static void close_bench(bench *b)
{
    for (size_t i = 0; i < CLIENTS; i++) fli_message_fini(&b->exchange[i].up);
    fli_intake_free(b->intake);
    fl_run_free(b->run);
    free(b->copy);
}

static void measure(const char *method, int threads, size_t times)
{
    static double absorbed[MOST], copied[MOST];
    bench b;
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) die("out of memory");
    open_bench(ctx, method, threads, &b);
    double bytes = (double)(CLIENTS * b.vectors * fli_bytes(fli_exec_space(b.run->exec)));
    absorb(&b), copy(&b);
    for (size_t i = 0; i < times; i++) {
        absorbed[i] = absorb(&b);
        copied[i] = copy(&b);
    }
    double a = bytes / median(absorbed, times), c = bytes / median(copied, times);
    printf("  %-9s %d thread%s  %6.1f GB/s absorbed   %6.1f GB/s copied   ratio %.2f\n", method, threads,
           threads > 1 ? "s" : " ", 1e-9 * a, 1e-9 * c, a / c);
    fflush(stdout);
    close_bench(&b);
    fl_ctx_free(ctx);
}

int main(int argc, char **argv)
{
    size_t times = argc > 1 ? strtoul(argv[1], NULL, 10) : 15;
    if (!times || times > MOST) die("usage: bench_absorb [TIMES], from 1 to 101");
    for (int threads = 1; threads <= 2; threads++) {
        measure("fedavg", threads, times);
        measure("scaffold", threads, times);
    }
    return 0;
}
