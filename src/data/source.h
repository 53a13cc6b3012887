/* Where samples come from: a loader of files or a generator. One descriptor per file, one line in list.c. */
#ifndef FLI_DATA_SOURCE_H
#define FLI_DATA_SOURCE_H

#include "base/rng.h"
#include "data/dataset.h"
#include "format/keys.h"

/* What a federation asks of a source. */
typedef struct {
    const void *params; /* the bound struct of the source's `keys` */
    uint64_t seed;
    int wide;   /* models compute in f64: what files say more precisely than f32 can is kept as f64 */
    int client; /* the samples of one client alone, which may be few of each class */
    int map;    /* training samples may stay in their files, mapped, where these have them as they are to be stored */
    const struct fli_memory *memory; /* what a program has handed over; NULL: nothing */
} fli_source_request;

typedef struct fli_source {
    const char *name;     /* as in `data: {kind: NAME}` */
    const char *title;    /* one line */
    const char *citation; /* where the set or the recipe is from; NULL: nowhere special */
    const char *needs;    /* for files: what must be there; NULL for generators */
    const fl_key *keys;
    size_t params_size;
    /* Loads or makes everything. *test stays NULL when there is no test part. */
    fl_status (*load)(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test);
    /* Generators whose clients are independent can make one client at a time, so that a federation of millions needs no
     * memory. Both NULL otherwise. `load` then makes the same samples, with groups. */
    size_t (*clients)(const void *params);
    /* The samples of one client into a fresh data set. Thread-safe, a function of (params, seed, client) alone. */
    fl_status (*client)(fl_ctx *ctx, const void *params, uint64_t seed, uint32_t client, fli_dataset **out);
    /* The number of samples `client` would make, cheaply. */
    size_t (*client_size)(const void *params, uint64_t seed, uint32_t client);
} fli_source;

extern const fli_source *const fli_source_list[]; /* NULL-terminated */

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

/* ==== LIBSVM files of known features ======================================================================== */

/* As a sparse set, where the number of features and classes is given: a server's test set. Indices begin at 1.
 * `classes` 0: regression; else labels are 0 to classes - 1. `wide`: values as doubles. */
fl_status fli_libsvm_read(fl_ctx *ctx, const char *path, size_t features, size_t classes, int wide, fli_dataset **out);

#endif
