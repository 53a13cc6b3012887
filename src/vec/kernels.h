/* The kernels are compiled once per level of processors. When the program is loaded, one level is chosen: the highest
 * that can run, or the one named by the environment variable FEDLOOM_KERNELS. Its tables become fli_ops_f32 and
 * fli_ops_f64; no other code depends on levels. Equal calls give equal bits on one level; between levels the last bits
 * differ. */
#ifndef FLI_VEC_KERNELS_H
#define FLI_VEC_KERNELS_H

#include "vec/ops.h"

typedef struct {
    const char *name; /* "x86-64-v3" */
    const fli_ops *f32, *f64;
    int (*runs_here)(void);
} fli_kernels;

extern const fli_kernels fli_kernels_list[]; /* lowest first; the name after the last is NULL */

/* The level in use. */
const fli_kernels *fli_kernels_now(void);
/* All that the last digits of a result depend on, for readers: "x86-64-v4, OpenBLAS for SkylakeX". */
const char *fli_kernels_all(void);

/* FL_ECONFIG if FEDLOOM_KERNELS names an unknown level or one that cannot run here, FL_ESYSTEM if none can run. */
fl_status fli_kernels_check(fl_ctx *ctx);

/* *out = the level that a value of FEDLOOM_KERNELS means; FL_ECONFIG if it cannot be used. Words may be short: v3 for
 * x86-64-v3. */
fl_status fli_kernels_find(fl_ctx *ctx, const char *word, const fli_kernels **out);

#endif
