/* Every source and every partitioner there is, by name. */
#ifndef FLI_DATA_LIST_H
#define FLI_DATA_LIST_H

#include "data/partition.h"
#include "data/source.h"

/* files */
extern const fli_source fli_source_idx;
extern const fli_source fli_source_cifar10;
extern const fli_source fli_source_libsvm;
extern const fli_source fli_source_csv;
extern const fli_source fli_source_npy;
extern const fli_source fli_source_npz;
extern const fli_source fli_source_leaf;
extern const fli_source fli_source_image_folder;
/* programs */
extern const fli_source fli_source_memory;
extern const fli_source fli_source_joined;
/* generators */
extern const fli_source fli_source_synthetic;
extern const fli_source fli_source_linreg;
extern const fli_source fli_source_blobs;
extern const fli_source fli_source_digits;

extern const fli_partitioner fli_partitioner_iid;
extern const fli_partitioner fli_partitioner_dirichlet;
extern const fli_partitioner fli_partitioner_mixture;
extern const fli_partitioner fli_partitioner_shards;
extern const fli_partitioner fli_partitioner_labels;
extern const fli_partitioner fli_partitioner_quantity;
extern const fli_partitioner fli_partitioner_cuts;
extern const fli_partitioner fli_partitioner_natural;
extern const fli_partitioner fli_partitioner_file;

#endif
