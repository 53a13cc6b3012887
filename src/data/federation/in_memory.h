/* Samples that a program has in memory of its own (fl_config_data), and who holds them. They are borrowed: never
 * copied, never changed. */
#ifndef FLI_DATA_FEDERATION_IN_MEMORY_H
#define FLI_DATA_FEDERATION_IN_MEMORY_H

#include "data/partition/partition.h"

typedef struct fli_memory {
    fl_samples train, test; /* test.size 0: there is no test set */
    fl_holding who;         /* size 0: nothing is said */
} fli_memory;

/* Takes what a program says, `test` and `who` may be NULL, and checks all that can be seen without a look at the
 * samples themselves: what is there, sizes, alignment. */
fl_status fli_memory_take(fl_ctx *ctx, const fl_samples *train, const fl_samples *test, const fl_holding *who,
                          fli_memory *out);

/* What can be seen of the features alone, of any number of samples: what is there, alignment. `what` is for
 * messages. */
fl_status fli_samples_check(fl_ctx *ctx, const char *what, const fl_samples *s);

/* Samples as a data set that borrows them. They are not checked yet: fli_dataset_check. `s` was taken. */
fl_status fli_memory_borrow(fl_ctx *ctx, const fl_samples *s, fli_dataset **out);

/* Whether it is said who holds which samples: then the partitioner below takes the place of any other. */
static inline int fli_memory_holds(const fli_memory *m) { return m->who.start || m->who.owner; }
/* Its parameters are an fl_holding. It is not in the list: no file can choose it. */
extern const fli_partitioner fli_partitioner_holding;

#endif
