/* What several partitioners need: the samples of each class, and a minimum size that may be out of reach. */
#ifndef FLI_DATA_PARTITION_ASSIGN_H
#define FLI_DATA_PARTITION_ASSIGN_H

#include "data/partition/partition.h"

/* Class k's samples are sample[start[k]] .. sample[start[k+1]-1]: all samples, sorted by label. */
typedef struct {
    size_t classes;
    size_t *start; /* classes + 1 */
    uint32_t *sample;
} fli_by_class;

/* Ascending within each class. */
fl_status fli_by_class_init(fl_ctx *ctx, const fli_dataset *ds, fli_by_class *by);
void fli_by_class_fini(fli_by_class *by);
void fli_by_class_shuffle(fli_by_class *by, fli_rng *r); /* within each class */

/* FL_ECONFIG when not even equal parts would give everyone min_size samples. */
fl_status fli_min_size_check(fl_ctx *ctx, const char *name, size_t n, size_t clients, int64_t min_size);

/* What a partitioner that draws sizes until they are large enough has tried. */
typedef struct {
    const char *name;
    double alpha;
    int64_t min_size, retries;
    size_t clients;
    size_t best; /* over all draws, the largest smallest client */
} fli_size_search;

/* The sentence for a search without success. */
fl_status fli_size_search_failed(fl_ctx *ctx, const fli_size_search *search);

#endif
