/* fedloom export: a model for other runtimes. */
#include "cli/cli.h"

static int export_model(const char *from, const char *to)
{
    fl_model *model = NULL;
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) {
        say("out of memory");
        return CLI_FAILED;
    }
    fl_status s = fl_model_load(ctx, from, &model);
    if (!s) s = fl_model_export(ctx, model, to);
    if (s)
        say_error(ctx);
    else
        say_path("", to);
    fl_model_free(model);
    fl_ctx_free(ctx);
    return settings_exit(s);
}

static int run(int argc, char **argv)
{
    words plain = {0};
    const option options[] = {{0}};
    int code = args_parse("export", options, argc, argv, &plain);
    if (!code && plain.n != 2) code = say_usage("export", "give a model.safetensors and the name of the file to write");
    if (!code) code = export_model(plain.v[0], plain.v[1]);
    args_free(&plain);
    return code;
}

static const char help[] = "usage: fedloom export FILE NAME.onnx\n"
                           "\n"
                           "Writes a model as ONNX, which other runtimes read: softmax, mlp and cnn. FILE\n"
                           "is the model.safetensors of a result. The graph takes samples as they were in\n"
                           "the data, any number of them (`input`: batch x channels x height x width, or\n"
                           "batch x features), normalises and crops them as in training, and gives\n"
                           "`logits` and `probabilities`, all in f32.\n"
                           "\n"
                           "examples:\n"
                           "  fedloom export results/first/model.safetensors first.onnx\n"
                           "\n"
                           "exit codes: 0 success, 1 it is not such a file, or cannot be written, 2 wrong\n"
                           "usage, or a kind of model that is not exported\n";

const command cmd_export = {
    "export", "writes a model as ONNX, for other runtimes", help, run, RANKS_FIRST, .takes = {TAKES_FILE, TAKES_FILE}};
