#include "run/checkpoint_files.h"

#include "base/file.h"
#include "base/number.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char fli_checkpoint_suffix[] = ".checkpoint", fli_checkpoint_config[] = "config.yaml";

/* A number from 1 without zeros before it; 0 if there is none. */
static size_t read_number(const char *text, char **end)
{
    return *text >= '1' && *text <= '9' ? (size_t)strtoull(text, end, 10) : 0;
}

/* 17 of "17.checkpoint" and, with *part 3, of "17.3.checkpoint"; 0 for any other name. */
static size_t number_of(const char *name, size_t *part)
{
    char *end = NULL;
    size_t n = read_number(name, &end);
    *part = n && *end == '.' ? read_number(end + 1, &end) : 0;
    return n && !strcmp(end, fli_checkpoint_suffix) ? n : 0;
}

static int is_ours(const char *name)
{
    size_t n = strlen(name), tail = strlen(".tmp"), part;
    char whole[64];
    if (number_of(name, &part) || !strcmp(name, fli_checkpoint_config) || !strcmp(name, ".") || !strcmp(name, ".."))
        return 1;
    if (n <= tail || n >= sizeof whole || strcmp(name + n - tail, ".tmp")) return 0;
    fli_snprintf(whole, sizeof whole, "%.*s", (int)(n - tail), name); /* of a run that was killed */
    return number_of(whole, &part) || !strcmp(whole, fli_checkpoint_config);
}

char *fli_checkpoint_folder(fl_ctx *ctx, const char *output)
{
    return fli_strf(ctx, "%.*s%s", (int)fli_path_length(output), output, fli_checkpoint_suffix);
}

char *fli_checkpoint_file(fl_ctx *ctx, const char *folder, size_t number, size_t part)
{
    return part ? fli_strf(ctx, "%s/%zu.%zu%s", folder, number, part, fli_checkpoint_suffix)
                : fli_strf(ctx, "%s/%zu%s", folder, number, fli_checkpoint_suffix);
}

size_t fli_checkpoint_newest(const char *folder, size_t limit, int *alien)
{
    size_t best = 0, part;
    DIR *dir = opendir(folder);
    if (alien) *alien = 0;
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = number_of(e->d_name, &part);
        if (!part && n > best && n < limit) best = n;
        if (alien && !is_ours(e->d_name)) *alien = 1;
    }
    closedir(dir);
    return best;
}

void fli_checkpoint_keep(const char *folder, size_t number, size_t other)
{
    size_t part;
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = number_of(e->d_name, &part);
        if (n && n != number && n != other) unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
}
