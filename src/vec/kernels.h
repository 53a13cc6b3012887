/* The kernels are compiled several times, for levels of processors. One level is chosen when the program is loaded, the
 * highest that can run or the one that the environment variable FEDLOOM_KERNELS names, and fli_ops_f32 and fli_ops_f64
 * are then its tables: nobody else knows of levels. Equal calls give equal bits on one level; between levels the last
 * bits differ. */
#ifndef FLI_VEC_KERNELS_H
#define FLI_VEC_KERNELS_H

#include "vec/ops.h"

typedef struct {
    const char *name; /* "x86-64-v3" */
    const fli_ops *f32, *f64;
    int (*runs_here)(void);
} fli_kernels;

extern const fli_kernels fli_kernels_list[]; /* lowest first; the name after the last is NULL */

/* The level in use, */
const fli_kernels *fli_kernels_now(void);
/* and for a reader all that the last digits of a result depend on: "x86-64-v4, OpenBLAS for SkylakeX". */
const char *fli_kernels_all(void);

/* FL_ECONFIG if FEDLOOM_KERNELS named no level or one that cannot run here, FL_ESYSTEM if none can. */
fl_status fli_kernels_check(fl_ctx *ctx);

/* What a value of FEDLOOM_KERNELS means here, or the sentence that says what is wrong with it. Words may be short: v3
 * for x86-64-v3. */
fl_status fli_kernels_find(fl_ctx *ctx, const char *word, const fli_kernels **out);

#endif
