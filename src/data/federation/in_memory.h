/* The source `memory`: samples in a program's own arrays (fl_config_data), and the clients that hold them. The arrays
 * are borrowed: never copied, never changed. */
#ifndef FLI_DATA_FEDERATION_IN_MEMORY_H
#define FLI_DATA_FEDERATION_IN_MEMORY_H

#include "data/partition/partition.h"

typedef struct fli_memory {
    fl_samples train, test; /* test.size 0: no test set */
    fl_holding who;         /* size 0: not given */
} fli_memory;

/* Copies the structs that a program passed (`test` and `who` may be NULL) and checks all that does not need the
 * samples' values: which arrays are given, sizes, alignment. */
fl_status fli_memory_take(fl_ctx *ctx, const fl_samples *train, const fl_samples *test, const fl_holding *who,
                          fli_memory *out);

/* Checks the feature arrays of any number of samples: which are given, alignment. `what` names them in messages. */
fl_status fli_samples_check(fl_ctx *ctx, const char *what, const fl_samples *s);

/* Makes a data set that borrows the arrays of `s`, from fli_memory_take. The values are not checked:
 * fli_dataset_check. */
fl_status fli_memory_borrow(fl_ctx *ctx, const fl_samples *s, fli_dataset **out);

/* True if the program says who holds which samples; then the partitioner below replaces any other. */
static inline int fli_memory_holds(const fli_memory *m) { return m->who.start || m->who.owner; }
/* Its parameters are an fl_holding. Not in the list of partitioners: no file can choose it. */
extern const fli_partitioner fli_partitioner_holding;

#endif
