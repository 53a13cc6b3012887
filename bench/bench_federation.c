/* Runs one federation and prints, on one line: seconds of a round (the mean), the peak memory of the process in MiB,
 * seconds of the fastest round, local steps of a round, and measuring's share of the whole run:
 *     bench_federation CONFIG [key=value ...] */
#include <fedloom.h>

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    double seconds, fastest; /* of rounds: so far, the fastest one */
} times;

static void note(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    times *t = arg;
    double round = fl_row_get(row, "seconds") - t->seconds;
    (void)run;
    (void)measured;
    if (fl_row_round(row) && (t->fastest == 0 || round < t->fastest)) t->fastest = round;
    t->seconds = fl_row_get(row, "seconds");
}

int main(int argc, char **argv)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = ctx ? fl_config_new(ctx) : NULL;
    fl_run *run = NULL;
    struct rusage use;
    times t = {0, 0};
    if (!cfg || argc < 2) return 2;
    fl_status s = fl_config_load(cfg, argv[1]);
    for (int i = 2; !s && i < argc; i++) s = fl_config_set(cfg, argv[i]);
    if (!s) s = fl_run_new(cfg, &run);
    double begin = now();
    if (!s) s = fl_run_go(run, note, &t);
    if (s) {
        fprintf(stderr, "bench: %s\n", fl_ctx_error(ctx));
        return 1;
    }
    double all = now() - begin;
    const fl_row *row = fl_run_row(run);
    getrusage(RUSAGE_SELF, &use);
    printf("%.6f %.1f %.9f %.0f %.4f\n", fl_row_get(row, "seconds") / (double)fl_row_round(row),
           (double)use.ru_maxrss / 1024, t.fastest, fl_row_get(row, "local_steps") / (double)fl_row_round(row),
           (all - fl_row_get(row, "seconds")) / all);
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return 0;
}
