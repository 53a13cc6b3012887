/* fedloom reproduce: a paper's table or figure, by name. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where `make install` put the experiments: the build says where that is, seen from the program. */
static const char *installed(void)
{
    static char path[2048];
    const size_t room = sizeof path - sizeof FEDLOOM_EXPERIMENTS;
    ssize_t n = readlink("/proc/self/exe", path, room);
    if (n < 0 || (size_t)n == room) return FEDLOOM_EXPERIMENTS;
    path[n] = 0;
    strcpy(strrchr(path, '/') + 1, FEDLOOM_EXPERIMENTS);
    return path;
}

const char *experiments_folder(void)
{
    const char *set = getenv("FEDLOOM_EXPERIMENTS");
    if (set) return set;
    return access("experiments", R_OK) == 0 ? "experiments" : installed();
}

static void list_one(fl_ctx *ctx, table *t, const char *dir, const char *file)
{
    char path[4096];
    words none = {0};
    fl_config *cfg = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (settings_open(ctx, path, &none, &cfg)) return;
    const char *needs = fl_config_get(cfg, "needs.what");
    table_add(t, "%.*s", (int)strlen(file) - 5, file);
    table_add(t, "%s", fl_config_get(cfg, "paper.source"));
    table_add(t, "%s", *needs ? needs : "nothing");
    table_add(t, "%s", fl_config_get(cfg, "paper.time"));
    fl_config_free(cfg);
}

static int list(void)
{
    words files;
    const char *dir = experiments_folder();
    fl_ctx *ctx = fl_ctx_new();
    table t;
    if (!ctx || !yaml_files(dir, &files)) {
        say("%s: no experiments there; FEDLOOM_EXPERIMENTS can name the folder", dir);
        fl_ctx_free(ctx);
        return CLI_FAILED;
    }
    table_init(&t, 4);
    table_add(&t, "name");
    table_add(&t, "paper");
    table_add(&t, "needs");
    table_add(&t, "time (--quick)");
    for (size_t i = 0; i < files.n; i++) list_one(ctx, &t, dir, files.v[i]);
    yaml_files_free(&files);
    table_print(&t, 4, stdout);
    table_free(&t);
    fl_ctx_free(ctx);
    return CLI_OK;
}

static int missing(const char *name, const char *path)
{
    char near[MEANT_LEN];
    say("there is no experiment %s (looked for %s); `fedloom reproduce` lists what there is", name, path);
    if (yaml_files_near(experiments_folder(), name, near)) say("did you mean %s?", near);
    return CLI_USAGE;
}

static int reproduce(const char *name, study_request *req)
{
    char path[4096];
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) return CLI_FAILED;
    fl_ctx_on_log(ctx, req->quiet ? say_warning : say_log, NULL);
    interrupt_install(req->quiet);
    snprintf(path, sizeof path, "%s/%s.yaml", experiments_folder(), name);
    if (strchr(name, '/')) snprintf(path, sizeof path, "%s", name); /* a file of one's own */
    req->paper = 1;
    int code = access(path, R_OK) ? missing(name, path) : study_run(ctx, path, req);
    fl_ctx_free(ctx);
    return code;
}

static int run(int argc, char **argv)
{
    study_request req = {.options.size = sizeof req.options};
    words names = {0};
    const option options[] = {
        {"--quick", OPT_FLAG, &req.options.quick},
        {"--data", OPT_TEXT, &req.options.data},
        {"--seeds", OPT_COUNT, &req.options.seeds},
        {"--jobs", OPT_COUNT, &req.options.jobs},
        {"--output", OPT_TEXT, &req.options.output},
        {"--tensorboard", OPT_TEXT, &req.options.tensorboard},
        {"--set", OPT_WORDS, &req.sets},
        {"--watch", OPT_FLAG, &req.watch},
        {"--force", OPT_FLAG, &req.options.force},
        {"--quiet", OPT_FLAG, &req.quiet},
        {0},
    };
    int code = args_parse("reproduce", options, argc, argv, &names);
    char *typed = typed_text("reproduce", argc, argv);
    req.options.command = typed;
    if (!code && names.n > 1) code = say_usage("reproduce", "one experiment at a time");
    if (!code) code = names.n ? reproduce(names.v[0], &req) : list();
    free(typed);
    args_free(&names);
    args_free(&req.sets);
    return code;
}

static const char help[] = "usage: fedloom reproduce [NAME] [--quick] [--data DIR] [--seeds N] [--jobs N]\n"
                           "                         [--output DIR] [--watch] [--tensorboard DIR]\n"
                           "                         [--set KEY=VALUE ...] [--force] [--quiet]\n"
                           "\n"
                           "Without a name: lists the paper experiments there are, what they need and how\n"
                           "long they take. With one: runs it (as `fedloom compare` would, with the same\n"
                           "files in the output folder) and prints our figures beside the paper's.\n"
                           "\n"
                           "Experiments are plain files, the paper's figures included; a NAME with a slash\n"
                           "in it is such a file of your own.\n"
                           "\n"
                           "options:\n"
                           "  --quick       a smaller version, about a minute: shows that it works\n"
                           "  --data DIR    the folder with the data sets (or set FEDLOOM_DATA)\n"
                           "  the others    as for `fedloom compare`\n"
                           "\n"
                           "examples:\n"
                           "  fedloom reproduce\n"
                           "  fedloom reproduce gia-table3-linear --quick\n"
                           "  fedloom reproduce vra-table4-noniid --data ~/data --watch\n";

const command cmd_reproduce = {"reproduce", "runs a paper's experiment and prints the paper's figures beside ours",
                               help, run};
