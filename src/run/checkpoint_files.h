/* What lies in a folder of checkpoints: 17.checkpoint is number 17, and where several ranks have made it,
 * 17.1.checkpoint and so on are the parts of the others. Until they are whole their names end in .tmp. Parts alone are
 * no checkpoint. */
#ifndef FLI_RUN_CHECKPOINT_FILES_H
#define FLI_RUN_CHECKPOINT_FILES_H

#include "base/ctx.h"

extern const char fli_checkpoint_suffix[], fli_checkpoint_config[]; /* ".checkpoint", and the settings beside them */

/* Where the checkpoints of a result lie. */
char *fli_checkpoint_folder(fl_ctx *ctx, const char *output);
/* The path of a number, or of one of its parts, from 1. */
char *fli_checkpoint_file(fl_ctx *ctx, const char *folder, size_t number, size_t part);
/* The largest number below `limit`, 0 if there is none. *alien, unless NULL: something else is in the folder. */
size_t fli_checkpoint_newest(const char *folder, size_t limit, int *alien);
/* Removes all but these two, and their parts. */
void fli_checkpoint_keep(const char *folder, size_t number, size_t other);

#endif
