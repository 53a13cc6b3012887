/* Who may write to a place. The lock is a file beside it, called as the place with ".fedloom-lock" after it, that holds
 * the number of the process at work. The system lets go of it when that process ends, however it ends; a file that a
 * crash has left behind is nobody's. */
#ifndef FLI_BASE_LOCK_H
#define FLI_BASE_LOCK_H

#include "base/ctx.h"

typedef struct fli_lock fli_lock;

/* FL_EBUSY, with the number of the other process, if somebody has it: also another run of this process. Makes the
 * folders above. Where a file system knows no locks there is none, and that is said. */
fl_status fli_lock_take(fl_ctx *ctx, const char *place, fli_lock **out);
/* Removes the file. NULL is fine. */
void fli_lock_leave(fli_lock *lock);

#endif
