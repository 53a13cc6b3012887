/* Federations whose samples are at clients in other processes (`data: {kind: joined}`): what the server has of the
 * data, and what a client has. Both are split by the same rules and seeds as a federation in one place, so that a
 * client has the same parts of its samples there and here. */
#ifndef FLI_DATA_FEDERATION_REMOTE_DATA_H
#define FLI_DATA_FEDERATION_REMOTE_DATA_H

#include "data/federation/federation.h"

/* What a client's samples look like, before anything is done to them. */
typedef struct {
    size_t samples; /* all of them */
    size_t shape[3], classes;
    fli_xkind kind;
} fli_data_shape;

/* What a client is told of the federation's samples. */
typedef struct {
    size_t shape[3], classes;
    char *const *class_name;
    uint32_t before; /* samples of the clients with lower numbers: theirs have the lower numbers too */
} fli_common;

/* Whether the settings of a server have their samples at clients, and what these look like by them: samples and kind
 * are not set. FL_ECONFIG for settings that need the samples in one place. */
int fli_is_joined(const fli_fed_spec *spec);
fl_status fli_joined_shape(fl_ctx *ctx, const fli_fed_spec *spec, fli_data_shape *out);
/* Why a client with such samples cannot join, as the end of a sentence; NULL: it can. `first`: those of a client that
 * has, NULL if there is none. */
const char *fli_joined_wrong(const fli_data_shape *all, const fli_data_shape *first, const fli_data_shape *client);

/* The server's test set, in the file that the settings name: NumPy's .npz, or text of LIBSVM's for sparse samples.
 * *out stays NULL if they name none. */
fl_status fli_joined_test(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *first, fli_dataset **out);

/* The server's: sizes alone. One look per client. Takes the test set, which may be NULL, also on failure. */
fl_status fli_fed_joined(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *clients, fli_dataset *test,
                         fli_fed **out);

/* A client's: it is number `client` of spec->clients, and its labels are those of `all`, whose class names may be
 * NULL. Takes the samples, also on failure. */
fl_status fli_fed_member(fl_ctx *ctx, const fli_fed_spec *spec, const fli_common *all, uint32_t client,
                         fli_dataset *own, fli_fed **out);

/* FL_EMISMATCH with the first label that is none of the federation's. */
fl_status fli_joined_labels(fl_ctx *ctx, const fli_common *all, const fli_dataset *ds);

#endif
