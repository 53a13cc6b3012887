/* Who holds which samples. One partitioner per file, one line in list.c. */
#ifndef FLI_DATA_PARTITION_PARTITION_H
#define FLI_DATA_PARTITION_PARTITION_H

#include "format/keys.h"
#include "base/rng.h"
#include "data/dataset.h"

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
    const fli_key *keys;
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

#endif
