/* Client state at scale: time per round while more and more clients have had a turn, and memory.
 *     bench_state FILE [KEY=VALUE ...] */
#include "fedloom.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { WINDOW = 50 };

/* Time spent waiting for a processor, which on a busy machine may be most of it; the rest is work and the disk. Of the
 * first thread: use threads=1. */
typedef struct {
    double wall, queued, cpu;
} moment;

static double queued(void)
{
    unsigned long long ran, waited = 0;
    FILE *in = fopen("/proc/self/schedstat", "r");
    if (in && fscanf(in, "%llu %llu", &ran, &waited) != 2) waited = 0;
    if (in) fclose(in);
    return 1e-9 * (double)waited;
}

static moment now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (moment){fli_clock_now(), queued(),
                    (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                        1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec)};
}

static void observe(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    moment *last = arg, m = now();
    struct rusage u;
    (void)run;
    (void)measured;
    if (fl_row_round(row) % WINDOW) return;
    getrusage(RUSAGE_SELF, &u);
    if (fl_row_round(row))
        printf("rounds %4zu to %4zu  %7.1f ms per round  %7.1f without queueing for a processor  %7.1f of processor "
               "time  peak %6.0f MiB\n",
               fl_row_round(row) - WINDOW + 1, fl_row_round(row), 1e3 * (m.wall - last->wall) / WINDOW,
               1e3 * (m.wall - m.queued - last->wall + last->queued) / WINDOW, 1e3 * (m.cpu - last->cpu) / WINDOW,
               (double)u.ru_maxrss / 1024);
    fflush(stdout);
    *last = m;
}

static void say(void *arg, fl_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    puts(line);
}

int main(int argc, char **argv)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = fl_config_new(ctx);
    fl_run *run = NULL;
    moment last = now();
    fl_ctx_on_log(ctx, say, NULL);
    fl_status s = argc > 1 ? fl_config_load(cfg, argv[1]) : FL_ECONFIG;
    for (int i = 2; i < argc && !s; i++) s = fl_config_set(cfg, argv[i]);
    if (!s) s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_go(run, observe, &last);
    if (s) fprintf(stderr, "%s\n", argc > 1 ? fl_ctx_error(ctx) : "usage: bench_state FILE [KEY=VALUE ...]");
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return s != FL_OK;
}
