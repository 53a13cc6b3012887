/* fedloom verify: checks that this build reproduces golden cases. */
#include "cli/cli.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    fl_ctx *ctx;
    double tolerance;
    size_t passed, failed;
    int pad; /* width of the names */
    int json;
    json_t *cases; /* with json: the document printed at the end */
} tally;

/* "cases/fedavg.json" -> "fedavg" */
static const char *case_name(const char *path, int *length)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t n = strlen(base);
    *length = (int)(n > 5 && !strcmp(base + n - 5, ".json") ? n - 5 : n);
    return base;
}

static void print(const tally *t, const char *name, int ok, double error, char *reason)
{
    printf("%s%s%s %-*s  ", tone_on(stdout, ok ? TONE_GOOD : TONE_BAD), ok ? "ok  " : "FAIL", tone_off(stdout), t->pad,
           name);
    if (ok)
        printf("%.1e\n", error);
    else
        say_joined(stdout, reason);
    fflush(stdout);
}

static void check(tally *t, const char *path)
{
    int length;
    double error = NAN;
    const char *base = case_name(path, &length);
    char name[256], reason[1024];
    snprintf(name, sizeof name, "%.*s", length, base);
    say_clean(name);
    int ok = fl_verify(t->ctx, path, t->tolerance, &error) == FL_OK;
    snprintf(reason, sizeof reason, "%s", ok ? "" : fl_ctx_error(t->ctx));
    *(ok ? &t->passed : &t->failed) += 1;
    if (t->json)
        json_array_append_new(t->cases,
                              json_pack("{s:s, s:b, s:o, s:o}", "name", name, "passed", ok, "error",
                                        json_out_number(error), "reason", ok ? json_null() : json_out_text(reason)));
    else
        print(t, name, ok, error, reason);
}

/* Prints the last line or the document. */
static int conclude(const tally *t)
{
    if (t->json)
        return json_out(json_pack("{s:O, s:I, s:I}", "cases", t->cases, "passed", (json_int_t)t->passed, "failed",
                                  (json_int_t)t->failed));
    if (t->passed + t->failed) printf("%zu passed, %zu failed\n", t->passed, t->failed);
    return CLI_OK;
}

static int is_case(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 5 && e->d_name[0] != '.' && !strcmp(e->d_name + n - 5, ".json");
}

static int is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int check_folder(tally *t, const char *folder)
{
    struct dirent **found = NULL;
    int n = scandir(folder, &found, is_case, alphasort), length;
    if (n <= 0) {
        free(found);
        return say_usage("verify", "%s: there is no *.json file in this folder", folder);
    }
    for (int i = 0; i < n; i++) {
        case_name(found[i]->d_name, &length);
        if (length > t->pad) t->pad = length;
    }
    for (int i = 0; i < n; i++) {
        size_t size = strlen(folder) + strlen(found[i]->d_name) + 2;
        char *path = malloc(size);
        if (path) {
            snprintf(path, size, "%s/%s", folder, found[i]->d_name);
            check(t, path);
        } else
            t->failed++;
        free(path);
        free(found[i]);
    }
    free(found);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    words plain = {0};
    tally t = {.tolerance = 1e-9, .cases = json_array()};
    int length;
    const option options[] = {{"--tolerance", OPT_REAL, &t.tolerance}, {"--format", OPT_FORMAT, &t.json}, {0}};
    int code = args_parse("verify", options, argc, argv, &plain);
    if (!code && !plain.n) code = say_usage("verify", "which FILE?");
    if (!code && !(t.ctx = fl_ctx_new())) {
        say("out of memory");
        code = CLI_FAILED;
    }
    for (size_t i = 0; !code && i < plain.n; i++) {
        case_name(plain.v[i], &length);
        if (!is_folder(plain.v[i]) && length > t.pad) t.pad = length;
    }
    for (size_t i = 0; !code && i < plain.n; i++) {
        if (is_folder(plain.v[i]))
            code = check_folder(&t, plain.v[i]);
        else
            check(&t, plain.v[i]);
    }
    if (!code) code = conclude(&t);
    json_decref(t.cases);
    args_free(&plain);
    fl_ctx_free(t.ctx);
    return code ? code : t.failed ? CLI_FAILED : CLI_OK;
}

static const char help[] = "usage: fedloom verify FILE... [--tolerance T] [--format table|json]\n"
                           "\n"
                           "Runs golden cases: JSON files that hold a small problem and the exact\n"
                           "trajectory of a method on it, computed by an independent implementation.\n"
                           "Prints one line per case, `ok` with the largest relative error or `FAIL` with\n"
                           "the reason, and counts them in the last line. A folder stands for the *.json\n"
                           "files in it, in the order of their names.\n"
                           "\n"
                           "options:\n"
                           "  --tolerance T    the largest relative error that passes (default 1e-9)\n"
                           "  --format FORMAT  table, or json: all cases in one document, at the end\n"
                           "\n"
                           "examples:\n"
                           "  fedloom verify tests/golden/fedavg-normalized.json\n"
                           "  fedloom verify tests/golden/fedpd.json --tolerance 1e-12\n"
                           "\n"
                           "exit codes: 0 all passed, 1 a case failed, 2 wrong usage\n";

const command cmd_verify = {"verify", "checks this build against exact trajectories", help, run,
                            .takes = {TAKES_FILE, TAKES_FILE}};
