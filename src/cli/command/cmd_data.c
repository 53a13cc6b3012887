/* fedloom data: shows a data set and its partition. */
#include "cli/cli.h"

static int export(const fl_ctx *ctx, fl_config *cfg, const char *folder, int json)
{
    fl_status s = fl_data_export(cfg, folder);
    if (s) {
        say_error(ctx);
        return settings_exit(s);
    }
    if (!json) say_path("\nexported to ", folder);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    words plain = {0}, sets = {0};
    size_t clients = 20;
    const char *data = NULL, *partition = NULL, *folder = NULL;
    int json = 0;
    fl_ctx *ctx = NULL;
    fl_config *cfg = NULL;
    fl_status s;
    const option options[] = {
        {"--set", OPT_WORDS, &sets, TAKES_SETTING},
        {"--clients", OPT_COUNT, &clients},
        {"--data", OPT_TEXT, &data, TAKES_FOLDER},
        {"--write-partition", OPT_TEXT, &partition, TAKES_FILE},
        {"--export", OPT_TEXT, &folder, TAKES_FOLDER},
        {"--format", OPT_FORMAT, &json},
        {0},
    };
    int code = args_parse("data", options, argc, argv, &plain);
    if (!code && plain.n != 1) code = say_usage("data", plain.n ? "give one FILE" : "which FILE?");
    if (!code && !(ctx = fl_ctx_new())) {
        say("out of memory");
        code = CLI_FAILED;
    }
    if (!code) {
        fl_ctx_on_log(ctx, say_log, NULL);
        fl_ctx_format(ctx, json ? FL_FORMAT_JSON : FL_FORMAT_TEXT);
        code = settings_open(ctx, plain.v[0], &sets, &cfg);
    }
    if (!code && (s = fl_data_describe(cfg, data, clients, partition, say_out, NULL))) {
        say_error(ctx);
        code = settings_exit(s);
    }
    if (!code && partition && !json) say_path("\npartition written to ", partition);
    if (!code && folder) code = export(ctx, cfg, folder, json);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    args_free(&plain);
    args_free(&sets);
    return code;
}

static const char help[] = "usage: fedloom data FILE [--set KEY=VALUE ...] [--clients N] [--data DIR]\n"
                           "                    [--write-partition FILE.json] [--export FOLDER]\n"
                           "                    [--format table|json]\n"
                           "\n"
                           "Loads (or generates) the data of a configuration, divides them among the\n"
                           "clients, and shows what came out: sizes, classes, and how many samples of each\n"
                           "label every client holds. Nothing is trained. Of an experiment it shows what\n"
                           "all runs share, with the first seed.\n"
                           "\n"
                           "options:\n"
                           "  --set KEY=VALUE              overrides a key, as in `fedloom run`\n"
                           "  --clients N                  shows the first N clients (default 20)\n"
                           "  --data DIR                   what ${data} stands for in an experiment;\n"
                           "                               otherwise the environment's FEDLOOM_DATA\n"
                           "  --write-partition FILE.json  writes which client holds which samples\n"
                           "  --export FOLDER              writes the same federation for real: server.yaml\n"
                           "                               for `fedloom serve`, and in clients/ samples and\n"
                           "                               settings for every `fedloom join`\n"
                           "  --format FORMAT              table, or json\n"
                           "\n"
                           "examples:\n"
                           "  fedloom data first.yaml\n"
                           "  fedloom data first.yaml --set partition.kind=dirichlet --clients 5\n"
                           "  fedloom data first.yaml --write-partition who.json\n"
                           "  fedloom data first.yaml --export federation\n";

const command cmd_data = {"data", "shows a data set and who holds what", help, run, RANKS_FIRST, .takes = {TAKES_FILE}};
