#include "data/listing.h"

#include "base/array.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static fl_status add(fl_ctx *ctx, fli_array *names, const char *name)
{
    void *room;
    fl_status s = fli_array_add(ctx, names, 1, &room);
    if (s == FL_OK && !(*(char **)room = fli_strdup(ctx, name))) s = FL_ENOMEM;
    return s;
}

fl_status fli_listing_read(fl_ctx *ctx, const char *path, fli_listing *out)
{
    fli_array names = {.size = sizeof(char *)};
    fl_status s = FL_OK;
    *out = (fli_listing){NULL, 0};
    DIR *dir = opendir(path);
    if (!dir) return fli_fail(ctx, FL_EIO, "%s: the folder cannot be read: %s", path, strerror(errno));
    errno = 0;
    for (struct dirent *e; s == FL_OK && (e = readdir(dir)); errno = 0)
        if (*e->d_name != '.') s = add(ctx, &names, e->d_name);
    if (s == FL_OK && errno) s = fli_fail(ctx, FL_EIO, "%s: the folder cannot be read: %s", path, strerror(errno));
    closedir(dir);
    *out = (fli_listing){names.p, names.n};
    if (s == FL_OK && names.n) qsort(out->name, out->n, sizeof *out->name, by_name);
    return s;
}

void fli_listing_fini(fli_listing *l)
{
    for (size_t i = 0; i < l->n; i++) fli_free(l->name[i]);
    fli_free(l->name);
    *l = (fli_listing){NULL, 0};
}
