/* Federations whose samples are at clients in other processes (`data: {kind: joined}`): the server's part and a
 * client's part. Both split samples by the same rules and seeds as a federation in one place, so that server and client
 * agree on the parts. */
#ifndef FLI_DATA_FEDERATION_REMOTE_DATA_H
#define FLI_DATA_FEDERATION_REMOTE_DATA_H

#include "data/federation/federation.h"

/* A client's samples as loaded, before normalisation. */
typedef struct {
    size_t samples; /* training, test and unlabelled */
    size_t shape[3], classes;
    fli_xkind kind;
} fli_data_shape;

/* What the server tells a client about the federation's samples. */
typedef struct {
    size_t shape[3], classes;
    char *const *class_name;
    uint32_t before; /* samples of the clients with lower numbers; this client's sample numbers follow theirs */
} fli_common;

/* True if the server's settings leave the samples at the clients (source `joined`). */
int fli_is_joined(const fli_fed_spec *spec);
fl_status fli_joined_shape(fl_ctx *ctx, const fli_fed_spec *spec, fli_data_shape *out);
/* Why a client with such samples cannot join, as the end of a sentence; NULL: it can. `first` describes the samples of
 * a client that has joined, NULL if none has. */
const char *fli_joined_wrong(const fli_data_shape *all, const fli_data_shape *first, const fli_data_shape *client);

/* Loads the server's test set from the file that the settings name: .npz, or LIBSVM text for sparse samples. *out stays
 * NULL if they name none. */
fl_status fli_joined_test(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *first, fli_dataset **out);

/* The server's federation: sizes alone, from one shape per client. Takes the test set (may be NULL), also on
 * failure. */
fl_status fli_fed_joined(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *clients, fli_dataset *test,
                         fli_fed **out);

/* A client's federation: it is number `client` of spec->clients, and its labels become those of `all`, whose class
 * names may be NULL. Takes the samples, also on failure. */
fl_status fli_fed_member(fl_ctx *ctx, const fli_fed_spec *spec, const fli_common *all, uint32_t client,
                         fli_dataset *own, fli_fed **out);

/* FL_EMISMATCH with the first label that the federation does not have. */
fl_status fli_joined_labels(fl_ctx *ctx, const fli_common *all, const fli_dataset *ds);

#endif
