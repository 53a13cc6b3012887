/* fedloom inside a C program: read a federation, change the method, run it, look at the result.
 *
 *     cc examples/embed.c -Iinclude build/libfedloom.a \
 *        $(pkg-config --libs yaml-0.1 jansson zlib liblzma libmicrohttpd nettle) \
 *        -L/usr/lib/$(cc -print-multiarch)/openblas-pthread \
 *        -Wl,-rpath,/usr/lib/$(cc -print-multiarch)/openblas-pthread \
 *        -lopenblas -ldnnl -lm -pthread -o embed        (without -ldnnl where fedloom was built without oneDNN)
 *     ./embed examples/digits.yaml */
#include <fedloom.h>
#include <stdio.h>

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
    if (fl_config_load(cfg, argc > 1 ? argv[1] : "examples/digits.yaml") || fl_config_set(cfg, "algorithm=scaffold") ||
        fl_config_set(cfg, "output=") || fl_run_new(cfg, &run) || fl_run_go(run, show, NULL)) {
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
