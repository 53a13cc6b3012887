/* fedloom plot: the curves of a comparison, or of finished runs, as SVG and PNG, for a paper. */
#include "cli/cli.h"

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
    int no_converter; /* set while drawing */
} request;

/* The source of the curves: one of the two. */
typedef struct {
    fl_study *study;
    fl_curves *curves;
    const char *output; /* where to write */
} source;

static const char *quantity(const source *from, size_t k)
{
    return from->study ? fl_study_quantity(from->study, 1, k) : fl_curves_quantity(from->curves, 1, k);
}

static fl_status chart(const source *from, const char *x, const char *y, fl_text_fn *out, void *arg)
{
    return from->study ? fl_study_plot(from->study, x, y, out, arg) : fl_curves_plot(from->curves, x, y, out, arg);
}

static void write_text(void *f, const char *text) { fputs(text, f); }

/* Converts SVG to PNG by librsvg's program, with 200 dots per inch, enough for print. */
static int make_png(const char *svg, int *no_converter)
{
    char png[4096];
    size_t n = strlen(svg);
    pid_t child;
    int status = 0;
    snprintf(png, sizeof png, "%.*spng", (int)(n - 3), svg);
    char *argv[] = {"rsvg-convert", "--zoom", "2.5", "--output", png, (char *)svg, NULL};
    int rc = posix_spawnp(&child, argv[0], NULL, NULL, argv, environ);
    if (rc == ENOENT) return *no_converter = 1, CLI_OK; /* reported once, after the drawings */
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

/* Makes the document in memory first, so that a wrong name or a failure leaves the files unchanged. */
static int draw(fl_ctx *ctx, const source *from, request *req, const char *x, const char *y)
{
    char path[4096], *svg = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&svg, &n);
    if (!memory) {
        say("out of memory");
        return CLI_FAILED;
    }
    fl_status status = chart(from, x, y, write_text, memory);
    int code = fclose(memory) ? CLI_FAILED : settings_exit(status);
    snprintf(path, sizeof path, "%s/%s-by-%s.svg", from->output, y, x);
    if (status)
        say_error(ctx);
    else if (!code && !(code = write_file(path, svg, n)))
        say_path("", path);
    free(svg);
    return code || !req->png || req->no_converter ? code : make_png(path, &req->no_converter);
}

/* Draws every measured quantity against rounds, unless one is named. */
static int draw_all(fl_ctx *ctx, const source *from, request *req)
{
    const char *x = req->x ? req->x : "rounds", *y;
    int code = CLI_OK;
    if (mkdir(from->output, 0777) && errno != EEXIST) {
        say("%s: the folder cannot be created: %s", from->output, strerror(errno));
        return CLI_FAILED;
    }
    if (req->y) code = draw(ctx, from, req, x, req->y);
    for (size_t k = 0; !req->y && !code && (y = quantity(from, k)); k++) code = draw(ctx, from, req, x, y);
    if (!req->no_converter) return code;
    say("rsvg-convert is not installed, which makes PNG out of SVG (Debian: apt-get install librsvg2-bin)");
    return CLI_FAILED;
}

static int plot_study(fl_ctx *ctx, request *req)
{
    fl_config *cfg = NULL;
    fl_study *study = NULL;
    fl_study_options options = {.size = sizeof options, .data = req->data, .quick = req->quick};
    size_t done;
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
    source from = {.study = study, .output = req->output};
    if (!code && !from.output) from.output = fl_study_output(study);
    if (!code) code = draw_all(ctx, &from, req);
    fl_study_free(study);
    fl_config_free(cfg);
    return code;
}

/* A result folder contains only the result: charts of one run go beside it, those of several here. */
static int plot_runs(fl_ctx *ctx, request *req)
{
    char beside[4096] = ".";
    const char *first = req->files.v[0];
    size_t n = strlen(first);
    while (n > 1 && first[n - 1] == '/') n--;
    if (req->files.n == 1) snprintf(beside, sizeof beside, "%.*s.plots", (int)n, first);
    source from = {.output = req->output ? req->output : beside};
    fl_status s = fl_curves_read(ctx, req->files.v, req->files.n, &from.curves);
    int code = settings_exit(s);
    if (s) say_error(ctx);
    if (!code) code = draw_all(ctx, &from, req);
    fl_curves_free(from.curves);
    return code;
}

static int is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int plot(request *req)
{
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) return CLI_FAILED;
    int code = is_folder(req->files.v[0]) ? plot_runs(ctx, req) : plot_study(ctx, req);
    fl_ctx_free(ctx);
    return code;
}

static int run(int argc, char **argv)
{
    request req = {0};
    const option options[] = {
        {"--x", OPT_TEXT, &req.x, TAKES_AXIS},
        {"--y", OPT_TEXT, &req.y, TAKES_QUANTITY},
        {"--output", OPT_TEXT, &req.output, TAKES_FOLDER},
        {"--png", OPT_FLAG, &req.png},
        {"--set", OPT_WORDS, &req.sets, TAKES_SETTING},
        {"--data", OPT_TEXT, &req.data, TAKES_FOLDER},
        {"--quick", OPT_FLAG, &req.quick},
        {0},
    };
    int code = args_parse("plot", options, argc, argv, &req.files);
    if (!code && (!req.files.n || (req.files.n > 1 && !is_folder(req.files.v[0]))))
        code = say_usage("plot", "give one FILE, or the folders of finished runs");
    if (!code) code = plot(&req);
    args_free(&req.files);
    args_free(&req.sets);
    return code;
}

static const char help[] = "usage: fedloom plot FILE [--y QUANTITY] [--x AXIS] [--png]\n"
                           "                    [--output DIR] [--set KEY=VALUE ...] [--data DIR] [--quick]\n"
                           "       fedloom plot DIR... [--y QUANTITY] [--x AXIS] [--png] [--output DIR]\n"
                           "\n"
                           "Draws the curves of a finished comparison (FILE is the experiment, as for\n"
                           "`fedloom compare`, with the same --set and --quick) as stand-alone SVG files,\n"
                           "mean and one standard deviation over seeds: everything that was measured, or\n"
                           "one quantity. If the comparison was made with --output DIR or --seeds N, give\n"
                           "--set output=DIR and --set seeds=N here.\n"
                           "\n"
                           "Each DIR is the result of a run (`fedloom run --output DIR`), and becomes one\n"
                           "line.\n"
                           "\n"
                           "options:\n"
                           "  --y QUANTITY     test-accuracy, train-loss, test-loss, gradient, ...; an\n"
                           "                   unknown name lists them all\n"
                           "  --x AXIS         rounds (default), bytes, seconds or simulated (seconds)\n"
                           "  --png            also as PNG, beside the SVG; needs rsvg-convert (Debian:\n"
                           "                   librsvg2-bin), without it there are only the SVG files\n"
                           "  --output DIR     where to write; default: the comparison's own folder; for\n"
                           "                   a run DIR.plots; for several runs the current folder\n"
                           "\n"
                           "examples:\n"
                           "  fedloom plot examples/compare.yaml\n"
                           "  fedloom plot examples/compare.yaml --y test-accuracy --x bytes --png\n"
                           "  fedloom plot results/a results/b --output plots\n";

const command cmd_plot = {"plot", "draws the curves of comparisons and runs for a paper", help, run,
                          .takes = {TAKES_FILE, TAKES_FILE}};
