/* All that a run leaves on disk, and what may already be there: result folders and their manifests, checkpoints.
 * Sections name the file that has the functions; those that take a fl_run are for run/, half/ and study/ alone. */
#ifndef FLI_RUN_OUTPUT_H
#define FLI_RUN_OUTPUT_H

#include "base/ctx.h"
#include "base/digest.h"
#include "base/text.h"
#include "config/settings.h"
#include "run/state.h"

/* ==== what is already at an output path: output_folder.c ==================================================== */

/* What is found where a result is to go. By determinism a result that is whole and finished, with the same settings and
 * from the same data, need not be made again. */
typedef enum {
    FLI_EXISTING_NOTHING,
    FLI_EXISTING_BROKEN,         /* files are missing, cut or changed: no result */
    FLI_EXISTING_STOPPED,        /* whole, of a run that was asked to stop before its end */
    FLI_EXISTING_UNKNOWN,        /* a result without a manifest, or one that cannot be read */
    FLI_EXISTING_OTHER_VERSION,  /* whole, by another version of fedloom */
    FLI_EXISTING_OTHER_SETTINGS, /* finished, but another run */
    FLI_EXISTING_OTHER_DATA,     /* finished, but from data that have changed since */
    FLI_EXISTING_SAME
} fli_existing_result;

/* FL_ENOMEM is the only failure. Paths of wanted settings are compared as they are written. `data` NULL:
 * the data are not compared. */
fl_status fli_existing_result_find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                                   fli_existing_result *out);

/* ==== manifests: output_folder.c ============================================================================ */

/* What a folder holds, file by file with size and SHA-256, in `manifest.json`; of a result also which data it was made
 * from. A folder whose manifest is missing, or says something else than the files do, is not whole: it is never taken
 * for a result. */

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

/* ---- the result of a run: output_folder.c, result.c ------------------------------------------------------ */

/* Takes the lock of the run's output, if it does not have it yet; FL_EBUSY if another process has it. */
fl_status fli_folder_lock(fl_run *run);
void fli_folder_unlock(fl_run *run);
/* Moves the complete folder into place; an earlier result goes only after that. */
fl_status fli_folder_publish(fl_run *run);
/* Removes a half-written result folder, if there is one. */
void fli_folder_discard(fl_run *run);

/* Whether a file of that name is part of a result. */
int fli_result_is_ours(const char *name);
/* Rank 0: fl_run_save, with a page about the run that a layer above has made; NULL: without one. */
fl_status fli_result_save(fl_run *run, const fli_text *page);
/* Rank 0: there is no result; what is half-written goes, and the metrics are kept. Returns `why`. */
fl_status fli_result_give_up(fl_run *run, fl_status why);
/* Reads a result's manifest and holds the folder to it: FL_OK if all is there, and is what was written. */
fl_status fli_result_check(fl_ctx *ctx, const char *folder, fli_manifest *m);

/* A run that was to be saved and cannot have a result (it diverged, the disk is full) leaves its metrics in
 * OUTPUT.unfinished.csv, and the error says so. Returns `why`. The next run with that output removes the file. */
fl_status fli_result_keep_metrics(fl_run *run, fl_status why);
void fli_result_forget_unfinished(fl_run *run);

/* ==== checkpoints: checkpoint.c ============================================================================= */

/* A run on its way to a folder of checkpoints and back. The folder is called as the result, with ".checkpoint" after
 * it, and holds the resolved configuration and the last two checkpoints. Each has all that changes; a run that goes on
 * from one ends with the same bits as one that was never stopped. Every module saves and loads its own part; see
 * format/snapshot.h.
 *
 * Where several ranks make a run, rank 0 writes all that they have in common, and every rank a part with its own
 * clients. A checkpoint counts once rank 0's file is in place, which comes last and has the seals of the parts. As many
 * ranks as one likes go on from it, also one process. Functions are for all ranks together, unless they say that rank 0
 * alone calls them. */

/* Rank 0: checkpoints of an earlier run with this output are refused or, with `replace`, removed, unless this run goes
 * on from them. */
fl_status fli_checkpoint_discard(fl_run *run, int replace);
/* Rank 0: makes the folder; of checkpoints in it that is true as well. */
fl_status fli_checkpoint_make(fl_run *run, int replace);
/* The folder is there; checkpoints of an earlier run in it are refused. */
fl_status fli_checkpoint_prepare(fl_run *run);
/* Whether there is one to go on from, where the settings ask for checkpoints. */
int fli_checkpoint_exists(fl_run *run);
/* Rank 0: FL_EDONE if the result of this very run is there already; what is left of its checkpoints is removed. */
fl_status fli_checkpoint_check_finished(fl_run *run);
/* Goes on from the newest one that is whole; damaged ones are logged. */
fl_status fli_checkpoint_take(fl_run *run);
/* The same by the name of the result: what a run left that was killed after it had saved. A folder with anything else
 * in it stays. */
fl_status fli_checkpoint_clear(fl_ctx *ctx, const char *output);

#endif
