/* What a run leaves on disk, and what may already be there: result folders and their manifests, checkpoints. Section
 * titles name the file of the functions. Those that take a fl_run are for run/, half/ and study/ alone. */
#ifndef FLI_RUN_OUTPUT_H
#define FLI_RUN_OUTPUT_H

#include "base/ctx.h"
#include "base/digest.h"
#include "base/text.h"
#include "config/settings.h"
#include "run/state.h"

/* ==== existing results: output_folder.c ===================================================================== */

/* What already exists at a result's path. Runs are deterministic, so a complete, finished result with the same settings
 * and data need not be computed again. */
typedef enum {
    FLI_EXISTING_NOTHING,
    FLI_EXISTING_BROKEN,         /* files are missing, truncated or changed: no result */
    FLI_EXISTING_STOPPED,        /* complete, of a run that was stopped before its end */
    FLI_EXISTING_UNKNOWN,        /* without a manifest, or unreadable */
    FLI_EXISTING_OTHER_VERSION,  /* complete, by another version of fedloom */
    FLI_EXISTING_OTHER_SETTINGS, /* finished, but with other settings */
    FLI_EXISTING_OTHER_DATA,     /* finished, but from data that have changed since */
    FLI_EXISTING_SAME
} fli_existing_result;

/* Fails with FL_ENOMEM only. Paths in the settings are compared as text. `data` NULL: the data are not compared. */
fl_status fli_existing_result_find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                                   fli_existing_result *out);

/* ==== manifests: output_folder.c ============================================================================ */

/* `manifest.json` lists a folder's files with size and SHA-256, and names the data of a result. A folder without a
 * manifest, or one that does not agree with its manifest, never counts as a result. */

#define FLI_MANIFEST_NAME "manifest.json"

typedef struct {
    char *name;
    uint64_t bytes;
    fli_digest digest;
} fli_manifest_file;

typedef struct {
    fl_ctx *ctx;
    int this_version; /* after reading: it was written by this version of fedloom */
    int has_data;     /* `data` is known */
    fli_digest data;
    const char *kernels; /* what the result was computed with, for readers; NULL: the folder is not a computed result */
    /* Why the run ended (fl_stop_text) and how far it came, for readers; NULL: not a run. */
    const char *stopped_by;
    size_t rounds, planned;
    fli_manifest_file *file;
    size_t count;
} fli_manifest;

void fli_manifest_init(fli_manifest *m, fl_ctx *ctx);
void fli_manifest_fini(fli_manifest *m);

/* Adds the current folder/name. A name may be listed several times; then each of these versions counts as known. */
fl_status fli_manifest_add(fli_manifest *m, const char *folder, const char *name);
/* Adds a version by size and digest: one that was read, or is about to be written under that name. Duplicates count
 * once. */
fl_status fli_manifest_add_known(fli_manifest *m, const char *name, uint64_t bytes, const fli_digest *digest);
/* Writes folder/manifest.json completely or not at all. */
fl_status fli_manifest_write(const fli_manifest *m, const char *folder);

/* Reads one into an empty manifest; `path` is for messages. The text is not trusted: names must be plain file names. */
fl_status fli_manifest_parse(fli_manifest *m, const char *path, const char *text, size_t n);
fl_status fli_manifest_read(fli_manifest *m, const char *folder);
/* FL_EMISMATCH, with the file's name, if a listed file is missing or differs; FL_EIO if one cannot be read. */
fl_status fli_manifest_check(const fli_manifest *m, const char *folder);
int fli_manifest_lists(const fli_manifest *m, const char *name);
/* *known: folder/name is one of the listed versions. Fails with FL_ENOMEM only. */
fl_status fli_manifest_knows(const fli_manifest *m, const char *folder, const char *name, int *known);

/* ---- the result of a run: output_folder.c, result.c ------------------------------------------------------ */

/* Takes the lock of the run's output unless the run has it; FL_EBUSY if another process has it. */
fl_status fli_folder_lock(fl_run *run);
void fli_folder_unlock(fl_run *run);
/* Renames the complete folder to its final name, and only then removes an earlier result. */
fl_status fli_folder_publish(fl_run *run);
/* Removes a half-written result folder, if there is one. */
void fli_folder_discard(fl_run *run);

/* Whether a file of that name is part of a result. */
int fli_result_is_ours(const char *name);
/* Rank 0: fl_run_save, with a page that a layer above has made; NULL: without one. */
fl_status fli_result_save(fl_run *run, const fli_text *page);
/* Rank 0: gives up the result: removes what is half-written and keeps the metrics. Returns `why`. */
fl_status fli_result_give_up(fl_run *run, fl_status why);
/* Reads a result's manifest and compares the folder with it: FL_OK if all files are there and unchanged. */
fl_status fli_result_check(fl_ctx *ctx, const char *folder, fli_manifest *m);

/* If a run that was to be saved has no result (it diverged, the disk is full), writes its metrics to
 * OUTPUT.unfinished.csv and names the file in the error. Returns `why`. The next run with that output removes the
 * file. */
fl_status fli_result_keep_metrics(fl_run *run, fl_status why);
void fli_result_forget_unfinished(fl_run *run);

/* ==== checkpoints: checkpoint.c ============================================================================= */

/* Saves a run to a folder of checkpoints, and loads it. The folder's name is the result's with ".checkpoint" appended;
 * it holds the resolved configuration and the last two checkpoints. Each has all that changes: a resumed run ends with
 * the bits of one that was never stopped. Every module saves and loads its own part; see format/snapshot.h.
 *
 * If several ranks make a run, rank 0 writes what they have in common, and every rank a part with its own clients. Rank
 * 0's file contains the seals of the parts and gets its name last; from then on the checkpoint counts. Any number of
 * ranks, also one process, can resume from it. All ranks call these functions together, except those marked "Rank
 * 0". */

/* Rank 0: checkpoints of an earlier run with this output are refused or, with `replace`, removed, unless this run goes
 * on from them. */
fl_status fli_checkpoint_discard(fl_run *run, int replace);
/* Rank 0: makes the folder; treats checkpoints in it as fli_checkpoint_discard does. */
fl_status fli_checkpoint_make(fl_run *run, int replace);
/* Makes sure of the folder; refuses checkpoints of an earlier run in it. */
fl_status fli_checkpoint_prepare(fl_run *run);
/* Whether the settings ask for checkpoints and there is one to resume from. */
int fli_checkpoint_exists(fl_run *run);
/* Rank 0: FL_EDONE if the result of this same run exists already; then removes what is left of its checkpoints. */
fl_status fli_checkpoint_check_finished(fl_run *run);
/* Resumes from the newest complete one; logs damaged ones. */
fl_status fli_checkpoint_take(fl_run *run);
/* Removes the checkpoints of a result, left by a run that was killed after saving. A folder with any other file
 * stays. */
fl_status fli_checkpoint_clear(fl_ctx *ctx, const char *output);

#endif
