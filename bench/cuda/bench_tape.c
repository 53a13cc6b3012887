/* Tapes on a GPU, through the engine as in rounds (src/cuda/host/cuda_engine.c, tape.cu, reduce.cu): microseconds of
 * each, and the memory read and written in that time. */
#include "base/os.h"
#include "device/engine.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 50, CLIENTS = 100, OPS_MOST = 4 };

typedef struct {
    fli_engine *e;
    size_t n;
    const void *vector[CLIENTS + 1];
    fli_tape tape;
    fli_tape_op op[CLIENTS * OPS_MOST];
    fli_tape_term term[CLIENTS];
    uint32_t begin[CLIENTS + 1];
} bench;

static void need(fl_ctx *ctx, int ok)
{
    if (ok) return;
    fprintf(stderr, "bench_tape: %s\n", fl_ctx_error(ctx));
    exit(1);
}

static void tell(const char *what, size_t n, double seconds, double vectors)
{
    printf("%-28s %8zu  %9.2f us  %8.1f GB/s\n", what, n, seconds * 1e6,
           vectors * (double)n * sizeof(float) / seconds * 1e-9);
}

/* Plays them one after the other, as in rounds, and waits for all at the end. */
static double play_seconds(bench *b)
{
    float end;
    double begin = 0;
    for (int i = -1; i < REPEATS; i++) {
        b->e->does->play(b->e, &b->tape);
        if (i >= 0) continue;
        b->e->does->read(b->e, sizeof end, b->vector[0], &end);
        begin = fli_clock_now();
    }
    b->e->does->read(b->e, sizeof end, b->vector[0], &end);
    return (fli_clock_now() - begin) / REPEATS;
}

/* The server's sum of a hundred uploads. */
static void bench_sum(bench *b)
{
    for (uint32_t i = 0; i < CLIENTS; i++) b->term[i] = (fli_tape_term){0.01, b->vector[i + 1]};
    b->op[0] = (fli_tape_op){.kind = FLI_TAPE_SUM, .out = (void *)b->vector[0], .count = CLIENTS};
    b->begin[0] = 0;
    b->begin[1] = 1;
    b->tape = (fli_tape){.ops = &fli_ops_f32, .n = b->n, .op = b->op, .count = 1, .term = b->term, .begin = b->begin};
    b->tape.terms = CLIENTS;
    b->tape.lanes = 1;
    tell("sum of 100 vectors", b->n, play_seconds(b), CLIENTS + 2);
}

/* The clients' operations around a turn: a hundred lanes with two differences each. */
static void bench_lanes(bench *b)
{
    b->tape = (fli_tape){.ops = &fli_ops_f32, .n = b->n, .op = b->op, .begin = b->begin, .lanes = CLIENTS};
    for (uint32_t i = 0; i < CLIENTS; i++) {
        void *v = (void *)b->vector[i + 1];
        b->begin[i] = (uint32_t)b->tape.count;
        b->op[b->tape.count++] =
            (fli_tape_op){.kind = FLI_TAPE_LIN, .a = 1, .b = -1, .x = b->vector[0], .y = v, .out = v};
        b->op[b->tape.count++] = (fli_tape_op){.kind = FLI_TAPE_AXPY, .a = 0.5, .x = b->vector[0], .out = v};
    }
    b->begin[CLIENTS] = (uint32_t)b->tape.count;
    tell("100 lanes, lin and axpy", b->n, play_seconds(b), 2 * CLIENTS);
}

static void bench_answers(bench *b)
{
    unsigned char finite[CLIENTS];
    double begin = fli_clock_now();
    for (int i = 0; i < REPEATS; i++) b->e->does->dot(b->e, &fli_ops_f32, b->n, b->vector[0], b->vector[1]);
    tell("dot", b->n, (fli_clock_now() - begin) / REPEATS, 2);
    begin = fli_clock_now();
    for (int i = 0; i < REPEATS; i++) b->e->does->finite(b->e, &fli_ops_f32, b->n, CLIENTS, b->vector + 1, finite);
    tell("100 vectors finite?", b->n, (fli_clock_now() - begin) / REPEATS, CLIENTS);
}

int main(void)
{
    static const size_t lengths[] = {2282, 159010, 199210, 1756426};
    fl_ctx *ctx = fl_ctx_new();
    bench *b = calloc(1, sizeof *b);
    need(ctx, fli_backend_cuda.open(ctx, 0, &b->e) == FL_OK);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        b->n = lengths[k];
        for (size_t i = 0; i <= CLIENTS; i++)
            need(ctx, (b->vector[i] = b->e->does->alloc(b->e, ctx, b->n * sizeof(float))) != NULL);
        bench_sum(b);
        bench_lanes(b);
        bench_answers(b);
        for (size_t i = 0; i <= CLIENTS; i++) b->e->does->release(b->e, (void *)b->vector[i]);
    }
    need(ctx, b->e->does->status(b->e, ctx) == FL_OK);
    b->e->does->close(b->e);
    free(b);
    fl_ctx_free(ctx);
    return 0;
}
