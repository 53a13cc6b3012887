/* Partitioners decide which client holds which samples. One partitioner per file, one line in list.c. */
#ifndef FLI_DATA_PARTITION_PARTITION_H
#define FLI_DATA_PARTITION_PARTITION_H

#include "base/rng.h"
#include "data/dataset.h"
#include "format/keys.h"

/* Client i holds samples index[start[i]] .. index[start[i+1]-1]. No sample belongs to two clients. */
typedef struct {
    size_t clients;
    size_t *start; /* clients + 1 */
    uint32_t *index;
} fli_partition;

typedef struct fli_partitioner {
    const char *name;
    const char *title;
    const char *citation; /* NULL: folklore */
    const fl_key *keys;
    size_t params_size;
    int sets_clients; /* the data determine the number of clients, so `clients` may be 0, for all of them */
    int needs_labels; /* refuses regression data */
    /* Sets owner[s] to a client (0 .. *clients-1) or FLI_NOBODY for every sample s. `*clients` is as configured. */
    fl_status (*assign)(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner);
} fli_partitioner;

#define FLI_NOBODY UINT32_MAX

extern const fli_partitioner *const fli_partitioner_list[]; /* NULL-terminated */
extern const fli_partitioner fli_partitioner_iid;
extern const fli_partitioner fli_partitioner_dirichlet;
extern const fli_partitioner fli_partitioner_mixture;
extern const fli_partitioner fli_partitioner_shards;
extern const fli_partitioner fli_partitioner_labels;
extern const fli_partitioner fli_partitioner_quantity;
extern const fli_partitioner fli_partitioner_cuts;
extern const fli_partitioner fli_partitioner_natural;
extern const fli_partitioner fli_partitioner_file;

/* Runs a partitioner and turns its owners into lists, ascending within a client. FL_ECONFIG if a client is empty. */
fl_status fli_partition_make(fl_ctx *ctx, const fli_partitioner *p, const void *params, const fli_dataset *ds,
                             uint64_t seed, size_t clients, fli_partition *out);
void fli_partition_fini(fli_partition *p);

/* Writes {"clients": [[indices of client 0], ...]}, JSON that the partitioner `file` reads. */
fl_status fli_partition_write(fl_ctx *ctx, const fli_partition *p, const char *path);

/* ==== for partitioners ====================================================================================== */

/* Shared by several partitioners: the samples of each class, and minimum sizes. */

/* Class k's samples are sample[start[k]] .. sample[start[k+1]-1]: all samples, sorted by label. */
typedef struct {
    size_t classes;
    size_t *start; /* classes + 1 */
    uint32_t *sample;
} fli_by_class;

/* Samples are ascending within each class. */
fl_status fli_by_class_init(fl_ctx *ctx, const fli_dataset *ds, fli_by_class *by);
void fli_by_class_fini(fli_by_class *by);
void fli_by_class_shuffle(fli_by_class *by, fli_rng *r); /* within each class */

/* FL_ECONFIG if n samples in equal parts would give each client fewer than min_size. */
fl_status fli_min_size_check(fl_ctx *ctx, const char *name, size_t n, size_t clients, int64_t min_size);

/* What a partitioner has tried that draws sizes until every client has enough samples. */
typedef struct {
    const char *name;
    double alpha;
    int64_t min_size, retries;
    size_t clients;
    size_t best; /* the size of the smallest client in the best draw */
} fli_size_search;

/* FL_ECONFIG with a sentence about a search without success. */
fl_status fli_size_search_failed(fl_ctx *ctx, const fli_size_search *search);

#endif
