/* What a folder holds, file by file with size and SHA-256, in `manifest.json`; of a result also which data it was made
 * from. A folder whose manifest is missing, or says something else than the files do, is not whole: it is never taken
 * for a result. */
#ifndef FLI_RUN_MANIFEST_H
#define FLI_RUN_MANIFEST_H

#include "base/digest.h"

#define FLI_MANIFEST_NAME "manifest.json"

typedef struct {
    char *name;
    uint64_t bytes;
    fli_digest digest;
} fli_manifest_file;

typedef struct {
    fl_ctx *ctx;
    int this_version; /* of one that was read: this version of fedloom has written it */
    int has_data;     /* `data` is known */
    fli_digest data;
    const char *kernels; /* what it was computed with, for the reader; NULL: it was not computed */
    /* Why the run ended (fl_stop_text) and how far it came, for the reader; NULL: it is no run. */
    const char *stopped_by;
    size_t rounds, planned;
    fli_manifest_file *file;
    size_t count;
} fli_manifest;

void fli_manifest_init(fli_manifest *m, fl_ctx *ctx);
void fli_manifest_fini(fli_manifest *m);

/* Adds folder/name as it is now. A name may be there several times: any of its versions then counts as known. */
fl_status fli_manifest_add(fli_manifest *m, const char *folder, const char *name);
/* As it was read, or is about to be put there under that name. The same version twice counts once. */
fl_status fli_manifest_add_known(fli_manifest *m, const char *name, uint64_t bytes, const fli_digest *digest);
/* Writes folder/manifest.json, whole or not at all. */
fl_status fli_manifest_write(const fli_manifest *m, const char *folder);

/* Reads one, over an empty manifest; `path` is for messages. Nothing in it is trusted: names are plain file names. */
fl_status fli_manifest_parse(fli_manifest *m, const char *path, const char *text, size_t n);
fl_status fli_manifest_read(fli_manifest *m, const char *folder);
/* FL_EMISMATCH, naming the file, unless every file it lists is there and is what it says; FL_EIO if one cannot be
 * read. */
fl_status fli_manifest_check(const fli_manifest *m, const char *folder);
int fli_manifest_lists(const fli_manifest *m, const char *name);
/* *known: folder/name is one of the versions listed. FL_ENOMEM is the only failure. */
fl_status fli_manifest_knows(const fli_manifest *m, const char *folder, const char *name, int *known);

#endif
