/* The place of a device's vectors (vec/place.h): what is asked of it is written on a tape, which the engine plays when
 * somebody wants to know, or when something comes that does not go on that tape. Used by one thread at a time. */
#ifndef FLI_DEVICE_RECORDER_H
#define FLI_DEVICE_RECORDER_H

#include "device/engine.h"
#include "vec/place.h"

typedef struct fli_recorder fli_recorder;

/* The engine is borrowed and must outlive it. */
fl_status fli_recorder_new(fl_ctx *ctx, fli_engine *e, fli_recorder **out);
void fli_recorder_free(fli_recorder *r);

fli_place *fli_recorder_place(fli_recorder *r);
/* Has the engine do what is recorded: before it is asked for anything that is not on a tape. */
void fli_recorder_play(fli_recorder *r);
/* The same, unless what is recorded has nothing to do with these vectors of n entries; NULLs are passed over. For what
 * uses no others. */
void fli_recorder_settle(fli_recorder *r, size_t n, const void *const *v, size_t count);

#endif
