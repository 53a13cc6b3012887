/* A source of samples: a loader of files or a generator. One descriptor per file, one line in list.c. */
#ifndef FLI_DATA_SOURCE_H
#define FLI_DATA_SOURCE_H

#include "base/rng.h"
#include "data/dataset.h"
#include "format/keys.h"

/* What a federation asks of a source's load. */
typedef struct {
    const void *params; /* the bound struct of the source's `keys` */
    uint64_t seed;
    int wide;   /* models compute in f64: keep values that f32 cannot represent as f64 */
    int client; /* load the samples of a single client, which may have few of each class */
    int map;    /* training samples may stay mapped in their file if it has them in the stored type */
    const struct fli_memory *memory; /* arrays that a program handed over; NULL: none */
} fli_source_request;

typedef struct fli_source {
    const char *name;     /* as in `data: {kind: NAME}` */
    const char *title;    /* one line */
    const char *citation; /* origin of the set or of the recipe; NULL: none */
    const char *needs;    /* files that must be present; NULL for generators */
    const fl_key *keys;
    size_t params_size;
    /* Loads or generates all samples. *test stays NULL if there is no test set. */
    fl_status (*load)(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test);
    /* For generators whose clients are independent: they make one client at a time, so that a federation of millions
     * takes no memory. NULL otherwise, as are the next two. `load` must make the same samples, with groups. */
    size_t (*clients)(const void *params);
    /* Makes a new data set with one client's samples. Thread-safe; depends on (params, seed, client) alone. */
    fl_status (*client)(fl_ctx *ctx, const void *params, uint64_t seed, uint32_t client, fli_dataset **out);
    /* The number of samples that `client` would make, without making them. */
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

/* ==== LIBSVM files with a known number of features ========================================================== */

/* Reads a sparse set of `features` features, indices from 1: a server's test set. Labels are 0 to classes - 1; classes
 * 0: regression. `wide`: values are doubles. */
fl_status fli_libsvm_read(fl_ctx *ctx, const char *path, size_t features, size_t classes, int wide, fli_dataset **out);

#endif
