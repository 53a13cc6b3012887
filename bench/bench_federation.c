/* Runs one federation and prints the time of a round and the peak memory of the process:
 *     bench_federation CONFIG [key=value ...] */
#include <fedloom.h>

#include <stdio.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = ctx ? fl_config_new(ctx) : NULL;
    fl_run *run = NULL;
    struct rusage use;
    if (!cfg || argc < 2) return 2;
    fl_status s = fl_config_load(cfg, argv[1]);
    for (int i = 2; !s && i < argc; i++) s = fl_config_set(cfg, argv[i]);
    if (!s) s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_go(run, NULL, NULL);
    if (s) {
        fprintf(stderr, "bench: %s\n", fl_ctx_error(ctx));
        return 1;
    }
    const fl_row *row = fl_run_row(run);
    getrusage(RUSAGE_SELF, &use);
    printf("%.6f %.1f\n", row->seconds / (double)row->round, (double)use.ru_maxrss / 1024);
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return 0;
}
