/* fedloom show: what a model file says of itself. */
#include "cli.h"

#include <string.h>

/* What runs write, in the order of interest. */
static const char *const keys[] = {"version", "algorithm", "bilevel", "round", "seed",      "data",    "precision",
                                   "shape",   "crop",      "scale",   "shift", "normalize", "settings"};

/* A text line by line; long lines are cut. */
static void show_text(const char *key, const char *value)
{
    enum { MOST = 200 };
    char line[MOST + 1];
    while (*value) {
        size_t n = strcspn(value, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < MOST ? n : MOST), value);
        printf("  %-11s ", key);
        say_out(NULL, line);
        puts(n > MOST ? " ..." : "");
        value += n + (value[n] == '\n');
        key = "";
    }
}

static void show_classes(const fl_model_info *about)
{
    enum { MOST = 20 };
    printf("  %-11s %zu", "classes", about->classes);
    for (size_t i = 0; about->class_name && i < about->classes && i < MOST; i++) {
        fputs(i ? ", " : ": ", stdout);
        say_out(NULL, about->class_name[i]);
    }
    puts(about->class_name && about->classes > MOST ? ", ..." : "");
}

static void show_tensors(const fl_model *m)
{
    fl_tensor t;
    puts("tensors:");
    for (size_t k = 0; fl_model_tensor(m, k, &t, NULL); k++) {
        fputs("  ", stdout);
        say_out(NULL, t.name);
        for (size_t i = 0; i < t.dims; i++) printf("%s%zu", i ? " x " : "  ", t.shape[i]);
        putchar('\n');
    }
}

static void show(const fl_model *m)
{
    const fl_model_info *about = fl_model_about(m);
    say_out(NULL, about->kind);
    printf(", %zu parameters%s\n", about->parameters, about->outputs ? "" : "; a kind that is not known here");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = fl_model_metadata(m, keys[i]);
        if (value) show_text(keys[i], value);
    }
    show_classes(about);
    show_tensors(m);
}

static int run(int argc, char **argv)
{
    words plain = {0};
    fl_ctx *ctx = NULL;
    fl_model *model = NULL;
    const option options[] = {{0}};
    int code = args_parse("show", options, argc, argv, &plain);
    if (!code && plain.n != 1) code = say_usage("show", plain.n ? "give one FILE" : "which FILE?");
    if (!code && !(ctx = fl_ctx_new())) {
        say("out of memory");
        code = CLI_FAILED;
    }
    if (!code && fl_model_load(ctx, plain.v[0], &model)) {
        say_error(ctx);
        code = CLI_FAILED;
    }
    if (!code) show(model);
    fl_model_free(model);
    fl_ctx_free(ctx);
    args_free(&plain);
    return code;
}

static const char help[] = "usage: fedloom show FILE\n"
                           "\n"
                           "Prints what a model file says of itself: the kind of model, how it was trained,\n"
                           "what samples it is for and how they are normalised, and its tensors. FILE is\n"
                           "the model.safetensors of a result.\n"
                           "\n"
                           "examples:\n"
                           "  fedloom show results/first/model.safetensors\n"
                           "\n"
                           "exit codes: 0 success, 1 it is not such a file\n";

const command cmd_show = {"show", "prints what a model file says of itself", help, run, RANKS_FIRST};
