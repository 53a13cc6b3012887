/* Who holds which samples. One partitioner per file, one line in list.c. */
#ifndef FLI_DATA_PARTITION_PARTITION_H
#define FLI_DATA_PARTITION_PARTITION_H

#include "base/rng.h"
#include "data/dataset.h"
#include "format/keys.h"

/* Client i holds index[start[i]] .. index[start[i+1]-1]. Every sample belongs to at most one client. */
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
    int sets_clients; /* the data decide how many clients there are: `clients` 0 means all of them */
    int needs_labels; /* refuses regression data */
    /* Assigns owner[s] (0 .. *clients-1, or FLI_NOBODY) to every sample s. `*clients` comes in as configured. */
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

/* Runs a partitioner, turns owners into lists (samples ascending within a client), and checks that nobody is empty. */
fl_status fli_partition_make(fl_ctx *ctx, const fli_partitioner *p, const void *params, const fli_dataset *ds,
                             uint64_t seed, size_t clients, fli_partition *out);
void fli_partition_fini(fli_partition *p);

/* As JSON, {"clients": [[indices of client 0], ...]}: what the partitioner `file` reads. */
fl_status fli_partition_write(fl_ctx *ctx, const fli_partition *p, const char *path);

/* ==== for partitioners ====================================================================================== */

/* What several of them need: the samples of each class, and a minimum size that may be out of reach. */

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
