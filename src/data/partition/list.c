/* All partitioners that a file can choose. */
#include "data/partition/partition.h"

const fli_partitioner *const fli_partitioner_list[] = {
    &fli_partitioner_iid,     &fli_partitioner_dirichlet,
    &fli_partitioner_mixture, &fli_partitioner_shards,
    &fli_partitioner_labels,  &fli_partitioner_quantity,
    &fli_partitioner_cuts,    &fli_partitioner_natural,
    &fli_partitioner_file,    NULL,
};
