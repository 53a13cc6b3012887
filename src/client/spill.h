/* A file for what does not fit into memory: places of one size, numbered from 0. It has no name, so that nothing is
 * left of it however the program ends. Read and written by calls, not mapped: the pages of a mapped file would count as
 * memory of this process, which is what a budget is there to bound. */
#ifndef FLI_CLIENT_SPILL_H
#define FLI_CLIENT_SPILL_H

#include "base/ctx.h"

typedef struct fli_spill fli_spill;

fl_status fli_spill_new(fl_ctx *ctx, const char *folder, size_t bytes, fli_spill **out);
void fli_spill_free(fli_spill *s);
/* From any thread. FL_EIO with the folder and the reason, such as a full disk. */
fl_status fli_spill_write(fli_spill *s, size_t place, const void *p);
fl_status fli_spill_read(fli_spill *s, size_t place, void *p);

#endif
