/* The YAML files of a folder, by their names without the ending: what somebody who mistyped one meant. */
#include "cli/cli.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char ending[] = ".yaml";

/* 0: it has another ending. */
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

/* In the order of their bytes, whatever the locale. */
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
