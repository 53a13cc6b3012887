/* One federation, by this process alone or by all ranks that mpirun started, and the messages between these:
 *     mpi_run alone|ranks MODEL CONFIG [key=value ...]
 * Writes the model to the file MODEL and prints one line of name=value. Figures are of one round, and means over ranks
 * unless they say otherwise:
 *     ranks, seconds (the median of all rounds), mean (their mean), steps (of all clients)
 *     waits      seconds waiting for parcels of other ranks, with no training left
 *     together   seconds in collective operations, which wait for the last rank
 *     handing    seconds for sending messages and for checking which have arrived
 *     messages, sent_kb, calls (of collective operations), call_kb (the bytes that these move)
 *     peak_mb    the largest memory of a rank in the whole run; all_mb: all ranks together */
#include "fedloom_mpi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct {
    double waits, together, handing, messages, sent, calls, moved, peak;
} figures;
enum { FIGURES = sizeof(figures) / sizeof(double) };

/* A table that measures the one below. */
typedef struct {
    fl_ranks below;
    figures now;
} meter;

typedef struct {
    meter *meter;
    double *rounds, last; /* seconds of each, and of all so far */
    size_t count, room;
} times;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

static fl_status gather(void *arg, void *all, const size_t *at)
{
    meter *m = arg;
    double begin = now();
    fl_status s = m->below.gather(m->below.arg, all, at);
    m->now.together += now() - begin;
    m->now.calls++;
    m->now.moved += (double)at[m->below.count];
    return s;
}

static fl_status add(void *arg, void *v, size_t n, size_t real)
{
    meter *m = arg;
    double begin = now();
    fl_status s = m->below.add(m->below.arg, v, n, real);
    m->now.together += now() - begin;
    m->now.calls++;
    m->now.moved += (double)(n * real);
    return s;
}

static fl_status send(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n)
{
    meter *m = arg;
    double begin = now();
    fl_status s = m->below.send(m->below.arg, to, number, bytes, n);
    m->now.handing += now() - begin;
    m->now.messages++;
    m->now.sent += (double)n;
    return s;
}

static fl_status expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark)
{
    meter *m = arg;
    double begin = now();
    fl_status s = m->below.expect(m->below.arg, from, number, bytes, n, mark);
    m->now.handing += now() - begin;
    return s;
}

static fl_status arrived(void *arg, int wait, size_t *mark, int *there)
{
    meter *m = arg;
    double begin = now();
    fl_status s = m->below.arrived(m->below.arg, wait, mark, there);
    *(wait ? &m->now.waits : &m->now.handing) += now() - begin;
    return s;
}

static fl_status flush(void *arg)
{
    meter *m = arg;
    double begin = now();
    fl_status s = m->below.flush(m->below.arg);
    m->now.waits += now() - begin;
    return s;
}

static fl_ranks table_of(meter *m)
{
    fl_ranks r = m->below;
    r.arg = m;
    r.gather = gather;
    r.add = add;
    r.send = send;
    r.expect = expect;
    r.arrived = arrived;
    r.flush = flush;
    return r;
}

/* ---- a run -------------------------------------------------------------------------------------------------- */

/* Leaves out the time before the first round. */
static void note(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    times *t = arg;
    double all = fl_row_get(row, "seconds");
    (void)run;
    (void)measured;
    if (!fl_row_round(row))
        t->meter->now = (figures){0};
    else if (t->count < t->room)
        t->rounds[t->count++] = all - t->last;
    t->last = all;
}

static int smaller(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The figures of all ranks, in order; NULL: failed. */
static figures *figures_of_all(meter *m, size_t rounds)
{
    uint32_t ranks = m->below.count ? m->below.count : 1;
    figures *all = calloc(ranks, sizeof *all);
    size_t *at = calloc(ranks + 1, sizeof *at);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    m->now.peak = (double)use.ru_maxrss * (double)rounds; /* of the whole run, not of a round */
    for (uint32_t r = 0; at && r <= ranks; r++) at[r] = r * sizeof *all;
    if (all) all[m->below.rank] = m->now;
    fl_status s = !all || !at ? FL_ENOMEM : m->below.count ? m->below.gather(m->below.arg, all, at) : FL_OK;
    free(at);
    if (!s) return all;
    free(all);
    return NULL;
}

static fl_status print(fl_run *run, meter *m, times *t)
{
    uint32_t ranks = m->below.count ? m->below.count : 1;
    double rounds = (double)fl_run_rounds(run), mean[FIGURES] = {0}, peak = 0;
    figures *all = figures_of_all(m, fl_run_rounds(run)), of;
    if (!all) return FL_ENOMEM;
    for (uint32_t r = 0; r < ranks; r++) {
        double one[FIGURES];
        memcpy(one, &all[r], sizeof one);
        for (size_t k = 0; k < FIGURES; k++) mean[k] += one[k] / rounds / ranks;
        peak = fmax(peak, all[r].peak / rounds);
    }
    memcpy(&of, mean, sizeof of);
    free(all);
    qsort(t->rounds, t->count, sizeof *t->rounds, smaller);
    if (m->below.rank) return FL_OK;
    printf(
        "ranks=%u seconds=%.9f mean=%.9f steps=%.0f waits=%.9f together=%.9f handing=%.9f messages=%.1f sent_kb=%.3f "
        "calls=%.1f call_kb=%.3f peak_mb=%.1f all_mb=%.1f\n",
        ranks, t->rounds[t->count / 2], t->last / rounds, fl_row_get(fl_run_row(run), "local_steps") / rounds, of.waits,
        of.together, of.handing, of.messages, of.sent / 1e3, of.calls, of.moved / 1e3, peak / 1024,
        of.peak * ranks / 1024);
    return FL_OK;
}

static fl_status go(fl_config *cfg, meter *m, const char *model)
{
    fl_run *run = NULL;
    times t = {.meter = m};
    fl_status s = fl_run_new(cfg, &run);
    if (!s) t.room = fl_run_rounds(run);
    if (!s && !(t.rounds = calloc(t.room + 1, sizeof *t.rounds))) s = FL_ENOMEM;
    if (!s) s = fl_run_go(run, note, &t);
    if (!s) s = print(run, m, &t);
    if (!s) s = fl_run_save_model(run, model); /* rank 0 writes it */
    fl_run_free(run);
    free(t.rounds);
    return s;
}

static int one_federation(int argc, char **argv, meter *m)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = ctx ? fl_config_new(ctx) : NULL;
    fl_ranks ranks = table_of(m);
    fl_status s = cfg ? fl_config_load(cfg, argv[3]) : FL_ENOMEM;
    for (int i = 4; !s && i < argc; i++) s = fl_config_set(cfg, argv[i]);
    if (!s && m->below.count) s = fl_config_ranks(cfg, &ranks);
    if (!s) s = go(cfg, m, argv[2]);
    if (s) fprintf(stderr, "mpi_run: %s\n", ctx && *fl_ctx_error(ctx) ? fl_ctx_error(ctx) : fl_status_text(s));
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return s != FL_OK;
}

int main(int argc, char **argv)
{
    meter m = {.below.size = sizeof m.below};
    int alone = argc > 3 && !strcmp(argv[1], "alone");
    if (argc < 4 || (!alone && strcmp(argv[1], "ranks"))) {
        fputs("usage: mpi_run alone|ranks MODEL CONFIG [key=value ...]\n", stderr);
        return 2;
    }
    if (alone) return one_federation(argc, argv, &m);
    if (fl_mpi_start() || fl_mpi_ranks_new(NULL, &m.below)) {
        fprintf(stderr, "mpi_run: %s\n", fl_mpi_error());
        return 1;
    }
    int code = one_federation(argc, argv, &m);
    if (code) fl_mpi_abort(code);
    fl_mpi_ranks_free(&m.below);
    fl_mpi_finish();
    return code;
}
