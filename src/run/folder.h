/* The place of a run's result; see folder.c. And what of result.c others ask for. */
#ifndef FLI_RUN_FOLDER_H
#define FLI_RUN_FOLDER_H

#include "run/manifest.h"
#include "run/run.h"

/* Nobody else writes there from now on; FL_EBUSY if somebody does. Once is enough. */
fl_status fli_folder_lock(fl_run *run);
void fli_folder_unlock(fl_run *run);
/* Moves the complete folder into place; an earlier result goes only after that. */
fl_status fli_folder_publish(fl_run *run);
/* Removes a half-written result folder, if there is one. */
void fli_folder_discard(fl_run *run);

/* Whether a file of that name is part of a result. */
int fli_result_is_ours(const char *name);
/* Reads a result's manifest and holds the folder to it: FL_OK if all is there, and is what was written. */
fl_status fli_result_check(fl_ctx *ctx, const char *folder, fli_manifest *m);

/* A run that was to be saved and cannot have a result (it diverged, the disk is full) leaves its metrics in
 * OUTPUT.unfinished.csv, and the error says so. Returns `why`. The next run with that output removes the file. */
fl_status fli_result_keep_metrics(fl_run *run, fl_status why);
void fli_result_forget_unfinished(fl_run *run);

#endif
