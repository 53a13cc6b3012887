/* fedloom show: the metadata and tensors of a model file. */
#include "cli/cli.h"

#include <string.h>

/* The metadata that runs write, in the order of interest. */
static const char *const keys[] = {"version", "algorithm", "bilevel", "round", "seed",      "data",    "precision",
                                   "shape",   "crop",      "scale",   "shift", "normalize", "settings"};

/* Prints a text line by line; long lines are cut. */
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

/* ---- as JSON ----------------------------------------------------------------------------------------------- */

static json_t *sizes_json(const size_t *v, size_t n)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(all, json_integer((json_int_t)v[i]));
    return all;
}

static json_t *metadata_json(const fl_model *m)
{
    json_t *all = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = fl_model_metadata(m, keys[i]);
        if (value) json_object_set_new(all, keys[i], json_string(value));
    }
    return all;
}

static json_t *names_json(const fl_model_info *about)
{
    json_t *all = json_array();
    for (size_t i = 0; about->class_name && i < about->classes; i++)
        json_array_append_new(all, json_out_text(about->class_name[i]));
    return all;
}

static int show_json(const fl_model *m)
{
    const fl_model_info *about = fl_model_about(m);
    json_t *tensors = json_array();
    fl_tensor t;
    for (size_t k = 0; fl_model_tensor(m, k, &t, NULL); k++)
        json_array_append_new(
            tensors, json_pack("{s:o, s:o}", "name", json_out_text(t.name), "shape", sizes_json(t.shape, t.dims)));
    return json_out(json_pack("{s:o, s:I, s:o, s:I, s:I, s:o, s:o, s:o}", "kind", json_out_text(about->kind),
                              "parameters", (json_int_t)about->parameters, "shape", sizes_json(about->shape, 3),
                              "outputs", (json_int_t)about->outputs, "classes", (json_int_t)about->classes,
                              "class_names", names_json(about), "metadata", metadata_json(m), "tensors", tensors));
}

static int run(int argc, char **argv)
{
    words plain = {0};
    fl_ctx *ctx = NULL;
    fl_model *model = NULL;
    int json = 0;
    const option options[] = {{"--format", OPT_FORMAT, &json}, {0}};
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
    if (!code && json) code = show_json(model);
    if (!code && !json) show(model);
    fl_model_free(model);
    fl_ctx_free(ctx);
    args_free(&plain);
    return code;
}

static const char help[] = "usage: fedloom show FILE [--format table|json]\n"
                           "\n"
                           "Prints what a model file says of itself: the kind of model, how it was trained,\n"
                           "what samples it is for and how they are normalised, and its tensors. FILE is\n"
                           "the model.safetensors of a result.\n"
                           "\n"
                           "options:\n"
                           "  --format FORMAT  table, or json: long texts whole\n"
                           "\n"
                           "examples:\n"
                           "  fedloom show results/first/model.safetensors\n"
                           "\n"
                           "exit codes: 0 success, 1 it is not such a file\n";

const command cmd_show = {
    "show", "prints what a model file says of itself", help, run, RANKS_FIRST, .takes = {TAKES_FILE}};
