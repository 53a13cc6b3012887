/* fedloom reproduce: a paper's table or figure, by name. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The installed experiments; the build defines the path relative to the program. */
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

/* A column of the list of experiments, from their files. */
typedef struct {
    const char *key, *heading, *name; /* key in the file; heading of the column; name in JSON */
    const char *otherwise;            /* text without that key */
} column;

static const column columns[] = {
    {NULL, "name", "name", ""}, /* the file's name, without its ending */
    {"paper.source", "paper", "paper", ""},
    {"needs.what", "needs", "needs", "nothing"},
    {"paper.time", "time (--quick)", "time", ""},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void list_one(fl_ctx *ctx, const char *dir, const char *file, table *t, json_t *all)
{
    char path[4096], name[256];
    words none = {0};
    fl_config *cfg = NULL;
    json_t *one = json_object();
    snprintf(path, sizeof path, "%s/%s", dir, file);
    snprintf(name, sizeof name, "%.*s", (int)strlen(file) - 5, file);
    if (!settings_open(ctx, path, &none, &cfg)) {
        for (size_t i = 0; i < COLUMNS; i++) {
            const char *value = columns[i].key ? fl_config_get(cfg, columns[i].key) : name;
            if (!*value) value = columns[i].otherwise;
            table_add(t, "%s", value);
            json_object_set_new(one, columns[i].name, json_out_text(value));
        }
        json_array_append(all, one);
    }
    json_decref(one);
    fl_config_free(cfg);
}

static int list(int json)
{
    words files;
    const char *dir = experiments_folder();
    fl_ctx *ctx = fl_ctx_new();
    json_t *all = json_array();
    table t;
    int code = CLI_OK;
    if (!ctx || !yaml_files(dir, &files)) {
        say("%s: no experiments there; FEDLOOM_EXPERIMENTS can name the folder", dir);
        fl_ctx_free(ctx);
        json_decref(all);
        return CLI_FAILED;
    }
    table_init(&t, COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++) table_add(&t, "%s", columns[i].heading);
    for (size_t i = 0; i < files.n; i++) list_one(ctx, dir, files.v[i], &t, all);
    yaml_files_free(&files);
    if (json)
        code = json_out(json_pack("{s:O}", "experiments", all));
    else
        table_print(&t, COLUMNS, stdout);
    table_free(&t);
    json_decref(all);
    fl_ctx_free(ctx);
    return code;
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
    interrupt_context(ctx);
    snprintf(path, sizeof path, "%s/%s.yaml", experiments_folder(), name);
    if (strchr(name, '/')) snprintf(path, sizeof path, "%s", name); /* any file */
    req->paper = 1;
    int code = access(path, R_OK) ? missing(name, path) : study_run(ctx, path, req);
    interrupt_context(NULL);
    fl_ctx_free(ctx);
    return code;
}

static int run(int argc, char **argv)
{
    study_request req = {.options.size = sizeof req.options};
    words names = {0};
    const option options[] = {
        {"--quick", OPT_FLAG, &req.options.quick},
        {"--data", OPT_TEXT, &req.options.data, TAKES_FOLDER},
        {"--seeds", OPT_COUNT, &req.options.seeds},
        {"--jobs", OPT_COUNT, &req.options.jobs},
        {"--output", OPT_TEXT, &req.options.output, TAKES_FOLDER},
        {"--tensorboard", OPT_TEXT, &req.options.tensorboard, TAKES_FOLDER},
        {"--set", OPT_WORDS, &req.sets, TAKES_SETTING},
        {"--watch", OPT_FLAG, &req.watch},
        {"--force", OPT_FLAG, &req.options.force},
        {"--quiet", OPT_FLAG, &req.quiet},
        {"--format", OPT_FORMAT, &req.json},
        {0},
    };
    int code = args_parse("reproduce", options, argc, argv, &names);
    char *command_line = command_line_text("reproduce", argc, argv);
    req.options.command = command_line;
    if (!code && names.n > 1) code = say_usage("reproduce", "one experiment at a time");
    if (!code) code = names.n ? reproduce(names.v[0], &req) : list(req.json);
    free(command_line);
    args_free(&names);
    args_free(&req.sets);
    return code;
}

static const char help[] = "usage: fedloom reproduce [NAME] [--quick] [--data DIR] [--seeds N] [--jobs N]\n"
                           "                         [--output DIR] [--watch] [--tensorboard DIR]\n"
                           "                         [--set KEY=VALUE ...] [--force] [--quiet]\n"
                           "                         [--format table|json]\n"
                           "\n"
                           "Without a name: lists the paper experiments there are, what they need and how\n"
                           "long they take. With one: runs it (as `fedloom compare` would, with the same\n"
                           "files in the output folder) and prints our figures beside the paper's.\n"
                           "\n"
                           "Experiments are plain files, the paper's figures included; a NAME with a slash\n"
                           "in it is such a file of your own.\n"
                           "\n"
                           "options:\n"
                           "  --quick          a smaller version, about a minute: shows that it works\n"
                           "  --data DIR       the folder with the data sets (or set FEDLOOM_DATA)\n"
                           "  --format FORMAT  table, or json: what results.json has, and `paper`\n"
                           "  the others       as for `fedloom compare`\n"
                           "\n"
                           "examples:\n"
                           "  fedloom reproduce\n"
                           "  fedloom reproduce gia-table3-linear --quick\n"
                           "  fedloom reproduce vra-table4-noniid --data ~/data --watch\n";

const command cmd_reproduce = {"reproduce", "runs a paper's experiment and prints the paper's figures beside ours",
                               help, run, .takes = {TAKES_EXPERIMENT}};
