/* A folder of results: one process at a time writes there, and nothing is overwritten that this program did not write.
 * Which files those are is said by a manifest in the folder: a file that is not listed, or has been changed since, is
 * somebody's own. A folder has results of one kind: the manifest of a comparison is not overwritten by a tuning. */
#ifndef FLI_STUDY_CLAIM_H
#define FLI_STUDY_CLAIM_H

#include "base/lock.h"
#include "base/text.h"

typedef struct {
    fl_ctx *ctx;
    const char *folder;
    fli_lock *lock; /* NULL: not taken */
} fli_claim;

/* Nobody else writes there from now on. Makes the folder. */
fl_status fli_claim_take(fli_claim *c);
void fli_claim_leave(fli_claim *c);
/* Refuses to overwrite what this program has not written, and results of another kind. `names` ends with NULL; the
 * first one is in every folder of this kind, and in no other. */
fl_status fli_claim_check(const fli_claim *c, const char *const *names);
/* Writes all the files, one text each. Those of an earlier call that are not among them are removed. */
fl_status fli_claim_write(const fli_claim *c, const char *const *names, const fli_text *texts);

#endif
