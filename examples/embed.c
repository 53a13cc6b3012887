/* fedloom inside a C program: describe a federation, run it, look at the result while it runs and at the end.
 *
 *     cc embed.c $(pkg-config --cflags --libs fedloom) -o embed
 *     ./embed                     the federation below
 *     ./embed federation.yaml     another one */
#include <fedloom.h>
#include <stdio.h>

/* Drawn digits: no files are needed. */
static const char *const federation[] = {
    "name=digits",
    "data={kind: digits, samples: 6000, test_samples: 1000}",
    "partition={kind: shards, clients: 50, shards_per_client: 2}",
    "participation={kind: uniform, count: 10}",
    "model={kind: mlp, hidden: [64]}",
    "local={epochs: 2, batch: 20, lr: 0.1}",
    "algorithm=scaffold",
    "rounds=30",
    "metrics.every=5",
};

static fl_status describe(fl_config *cfg, const char *path)
{
    fl_status s = FL_OK;
    if (path) return fl_config_load(cfg, path);
    for (size_t i = 0; !s && i < sizeof federation / sizeof *federation; i++) s = fl_config_set(cfg, federation[i]);
    return s;
}

static void show(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)arg;
    if (measured)
        printf("%s round %zu: test accuracy %.4f\n", fl_run_name(run), fl_row_round(row),
               fl_row_get(row, "test_accuracy"));
}

int main(int argc, char **argv)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = ctx ? fl_config_new(ctx) : NULL;
    fl_run *run = NULL;
    int rc = 1;
    if (!cfg) goto done;
    if (describe(cfg, argc > 1 ? argv[1] : NULL) || fl_config_set(cfg, "output=") || fl_run_new(cfg, &run) ||
        fl_run_go(run, show, NULL)) {
        fprintf(stderr, "%s\n", fl_ctx_error(ctx));
        goto done;
    }
    printf("%zu parameters, %.1f MB uploaded\n", fl_run_parameters(run), fl_row_get(fl_run_row(run), "bytes_up") / 1e6);
    rc = 0;
done:
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return rc;
}
