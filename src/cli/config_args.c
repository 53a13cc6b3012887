/* From files and --set assignments to a configuration; and files by their names: data, YAML. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ==== data by the ending of a file's name ========================================================================= */

/* Whether a file's name ends with a suffix, before the suffix of any compression. */
static int ends(const char *file, const char *suffix)
{
    static const char *const packed[] = {"", ".gz", ".xz"};
    size_t n = strlen(file), m = strlen(suffix);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        size_t k = strlen(packed[i]);
        if (n > m + k && !strcasecmp(file + n - k, packed[i]) && !strncasecmp(file + n - k - m, suffix, m)) return 1;
    }
    return 0;
}

static const data_format formats[] = {
    {".npz", "npz", {"train"}, NULL, NULL},
    {".csv", "csv", {"train"}, NULL, NULL},
    {".tsv", "csv", {"train"}, "separator", "tab"},
    {".svm", "libsvm", {"train"}, NULL, NULL},
    {".libsvm", "libsvm", {"train"}, NULL, NULL},
    {".json", "leaf", {"train"}, NULL, NULL},
    {".npy", "npy", {"train_x", "train_y"}, NULL, NULL},
};

const char data_endings[] = ".npz, .csv, .tsv, .svm, .libsvm, .json, two times .npy";

const data_format *data_format_of(const char *file)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (ends(file, formats[i].suffix)) return &formats[i];
    return NULL;
}

/* ==== YAML files of a folder ====================================================================================== */

/* By their names without the ending; also finds which one a mistyped name means. */

static const char ending[] = ".yaml";

/* 0: another ending. */
static size_t stem_length(const char *name)
{
    size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ending)) return n - 5;
    return n > 4 && !strcmp(name + n - 4, ".yml") ? n - 4 : 0;
}

static int is_yaml(const struct dirent *e)
{
    size_t n = stem_length(e->d_name);
    return e->d_name[0] != '.' && n && !strcmp(e->d_name + n, ending);
}

/* By bytes, in any locale. */
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int yaml_files(const char *folder, words *out)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, is_yaml, by_name);
    *out = (words){0, n < 0 ? NULL : calloc((size_t)n + 1, sizeof *out->v)};
    for (int i = 0; i < n; i++) {
        char *name = out->v ? strdup(entry[i]->d_name) : NULL;
        if (name) out->v[out->n++] = name;
        free(entry[i]);
    }
    free(entry);
    return out->v != NULL;
}

void yaml_files_free(words *files)
{
    for (size_t i = 0; i < files->n; i++) free((char *)files->v[i]);
    args_free(files);
}

/* fl_name_fn over the names without their endings. */
typedef struct {
    const words *files;
    char *stem; /* MEANT_LEN of them */
} stems;

static const char *stem_at(const void *arg, size_t i)
{
    const stems *s = arg;
    if (i >= s->files->n) return NULL;
    snprintf(s->stem, MEANT_LEN, "%.*s", (int)stem_length(s->files->v[i]), s->files->v[i]);
    return s->stem;
}

int yaml_files_near(const char *folder, const char *name, char out[MEANT_LEN])
{
    words files;
    char typed[MEANT_LEN];
    size_t n = stem_length(name);
    snprintf(typed, sizeof typed, "%.*s", (int)(n ? n : strlen(name)), name);
    int found = yaml_files(folder, &files) && fl_nearest(typed, stem_at, &(stems){&files, out});
    yaml_files_free(&files);
    return found;
}

/* ==== configurations ============================================================================================== */

int settings_exit(fl_status status)
{
    switch (status) {
    case FL_OK: return CLI_OK;
    case FL_ECONFIG: return CLI_USAGE;
    case FL_ESTOPPED: return CLI_INTERRUPTED;
    default: return CLI_FAILED;
    }
}

fl_status settings_put(fl_config *cfg, const char *key, const char *text)
{
    char *assignment = malloc(strlen(key) + 4 * strlen(text) + 4), *p = assignment; /* at most \xNN for each byte */
    if (!assignment) return FL_ENOMEM;
    p += sprintf(p, "%s=\"", key);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            p += sprintf(p, "\\x%02X", (unsigned char)*text);
        else {
            if (*text == '"' || *text == '\\') *p++ = '\\';
            *p++ = *text;
        }
    }
    strcpy(p, "\"");
    fl_status s = fl_config_set(cfg, assignment);
    free(assignment);
    return s;
}

/* The file's name without folder and ending: the run's name unless the configuration sets one. */
static fl_status name_after(fl_config *cfg, const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file, *dot = strrchr(base, '.');
    char stem[256];
    if (*fl_config_get(cfg, "name")) return FL_OK;
    snprintf(stem, sizeof stem, "%.*s", dot && dot != base ? (int)(dot - base) : (int)strlen(base), base);
    return settings_put(cfg, "name", stem);
}

/* Passes a configuration on, or prints its errors. An unreadable file is wrong usage, too. */
static int deliver(fl_ctx *ctx, fl_status s, fl_config *cfg, fl_config **out)
{
    if (!s) {
        *out = cfg;
        return CLI_OK;
    }
    say_error(ctx);
    fl_config_free(cfg);
    return s == FL_ENOMEM ? CLI_FAILED : CLI_USAGE;
}

/* For a missing file, suggests a file of a similar name in the same folder. */
static void suggest(const char *file)
{
    char folder[4096], near[MEANT_LEN];
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    snprintf(folder, sizeof folder, "%.*s", (int)(base - file), file);
    if (yaml_files_near(slash ? folder : ".", base, near)) say("did you mean %s%s.yaml?", folder, near);
}

int settings_load(fl_ctx *ctx, const char *file, fl_config **out)
{
    fl_config *cfg = fl_config_new(ctx);
    int code = deliver(ctx, cfg ? fl_config_load(cfg, file) : FL_ENOMEM, cfg, out);
    if (code && access(file, F_OK) && errno == ENOENT) suggest(file);
    return code;
}

fl_status settings_finish(fl_config *cfg, const char *file, const words *sets)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < sets->n; i++) s = fl_config_set(cfg, sets->v[i]);
    return s ? s : name_after(cfg, file);
}

int settings_open(fl_ctx *ctx, const char *file, const words *sets, fl_config **out)
{
    fl_config *cfg = NULL;
    int code = settings_load(ctx, file, &cfg);
    return code ? code : deliver(ctx, settings_finish(cfg, file, sets), cfg, out);
}
