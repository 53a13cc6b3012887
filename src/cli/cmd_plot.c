/* fedloom plot: the curves of a comparison as SVG and PNG, for a paper. */
#include "cli.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

typedef struct {
    words files, sets;
    const char *x, *y, *output, *data;
    int png, quick;
    int no_converter; /* found out while drawing */
} request;

static void write_text(void *f, const char *text) { fputs(text, f); }

/* SVG to PNG by librsvg's own program: 200 dots per inch, enough for print. */
static int make_png(const char *svg, int *no_converter)
{
    char png[4096];
    size_t n = strlen(svg);
    pid_t child;
    int status = 0;
    snprintf(png, sizeof png, "%.*spng", (int)(n - 3), svg);
    char *argv[] = {"rsvg-convert", "--zoom", "2.5", "--output", png, (char *)svg, NULL};
    int rc = posix_spawnp(&child, argv[0], NULL, NULL, argv, environ);
    if (rc == ENOENT) return *no_converter = 1, CLI_OK; /* said once, when the drawings are there */
    if (rc || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) {
        say("%s: cannot be made from %s", png, svg);
        return CLI_FAILED;
    }
    say_path("", png);
    return CLI_OK;
}

static int write_file(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    int failed = !f || fwrite(text, 1, n, f) != n;
    if (f && fclose(f)) failed = 1;
    if (failed) say("%s: cannot be written: %s", path, strerror(errno));
    return failed ? CLI_FAILED : CLI_OK;
}

/* The document is made in memory first: a wrong name or a failure leaves the files alone. */
static int draw(fl_ctx *ctx, fl_study *study, request *req, const char *x, const char *y)
{
    char path[4096], *svg = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&svg, &n);
    if (!memory) {
        say("out of memory");
        return CLI_FAILED;
    }
    fl_status status = fl_study_plot(study, x, y, write_text, memory);
    int code = fclose(memory) ? CLI_FAILED : settings_exit(status);
    snprintf(path, sizeof path, "%s/%s-by-%s.svg", req->output ? req->output : fl_study_output(study), y, x);
    if (status)
        say_error(ctx);
    else if (!code && !(code = write_file(path, svg, n)))
        say_path("", path);
    free(svg);
    return code || !req->png || req->no_converter ? code : make_png(path, &req->no_converter);
}

/* Everything that was measured, against rounds, unless one quantity is named. */
static int draw_all(fl_ctx *ctx, fl_study *study, request *req)
{
    const char *x = req->x ? req->x : "rounds", *y;
    int code = CLI_OK;
    if (req->output && mkdir(req->output, 0777) && errno != EEXIST) {
        say("%s: the folder cannot be created: %s", req->output, strerror(errno));
        return CLI_FAILED;
    }
    if (req->y) code = draw(ctx, study, req, x, req->y);
    for (size_t k = 0; !req->y && !code && (y = fl_study_quantity(study, 1, k)); k++)
        code = draw(ctx, study, req, x, y);
    if (!req->no_converter) return code;
    say("rsvg-convert is not installed, which makes PNG out of SVG (Debian: apt-get install librsvg2-bin)");
    return CLI_FAILED;
}

static int plot(request *req)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = NULL;
    fl_study *study = NULL;
    fl_study_options options = {.size = sizeof options, .data = req->data, .quick = req->quick};
    size_t done;
    if (!ctx) return CLI_FAILED;
    int code = settings_open(ctx, req->files.v[0], &req->sets, &cfg);
    fl_status s = code ? FL_OK : fl_study_new(cfg, &options, &study);
    if (s) {
        say_error(ctx);
        code = settings_exit(s);
    }
    if (!code && !fl_study_runs(study, &done)) code = CLI_FAILED;
    if (!code && !done) {
        say("%s has no finished runs; `fedloom compare %s` makes them", fl_study_output(study), req->files.v[0]);
        code = CLI_FAILED;
    }
    if (!code) code = draw_all(ctx, study, req);
    fl_study_free(study);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return code;
}

static int run(int argc, char **argv)
{
    request req = {0};
    const option options[] = {
        {"--x", OPT_TEXT, &req.x},           {"--y", OPT_TEXT, &req.y},
        {"--output", OPT_TEXT, &req.output}, {"--png", OPT_FLAG, &req.png},
        {"--set", OPT_WORDS, &req.sets},     {"--data", OPT_TEXT, &req.data},
        {"--quick", OPT_FLAG, &req.quick},   {0},
    };
    int code = args_parse("plot", options, argc, argv, &req.files);
    if (!code && req.files.n != 1) code = say_usage("plot", "give one FILE");
    if (!code) code = plot(&req);
    args_free(&req.files);
    args_free(&req.sets);
    return code;
}

static const char help[] = "usage: fedloom plot FILE [--y QUANTITY] [--x AXIS] [--png]\n"
                           "                    [--output DIR] [--set KEY=VALUE ...] [--data DIR] [--quick]\n"
                           "\n"
                           "Draws the curves of a finished comparison (FILE is the experiment, as for\n"
                           "`fedloom compare`, with the same --set and --quick) as stand-alone SVG files,\n"
                           "mean and one standard deviation over seeds: everything that was measured, or\n"
                           "one quantity. If the comparison was made with --output DIR or --seeds N, give\n"
                           "--set output=DIR and --set seeds=N here.\n"
                           "\n"
                           "options:\n"
                           "  --y QUANTITY     test-accuracy, train-loss, test-loss, gradient, ...; an\n"
                           "                   unknown name lists them all\n"
                           "  --x AXIS         rounds (default), bytes, seconds or simulated (seconds)\n"
                           "  --png            also as PNG, beside the SVG; needs rsvg-convert (Debian:\n"
                           "                   librsvg2-bin), without it there are only the SVG files\n"
                           "  --output DIR     where to write; default: the comparison's own folder\n"
                           "\n"
                           "examples:\n"
                           "  fedloom plot examples/compare.yaml\n"
                           "  fedloom plot examples/compare.yaml --y test-accuracy --x bytes --png\n";

const command cmd_plot = {"plot", "draws the curves of a comparison for a paper", help, run};
