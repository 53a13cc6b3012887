/* Joining: what a server must know of a client before the first round, and a client of the federation. Both have a little-endian form.
 * In a simulation it costs nothing; it says what a federation over a network needs. */
#ifndef FLI_EXEC_JOIN_H
#define FLI_EXEC_JOIN_H

#include "data/digest.h"
#include "exec/clients.h"

/* Up: what a client says of itself. */
typedef struct {
    uint64_t samples;      /* n_i, for training, labelled or not */
    uint64_t unlabelled;   /* of those */
    uint64_t test_samples; /* its own test part */
    int digested;          /* the digest was asked for: it takes a pass over the samples */
    fli_digest digest;
} fli_card;

enum { FLI_CARD_BYTES = 4 * 8 + sizeof(fli_digest) };
fl_status fli_card_make(fl_ctx *ctx, const fli_fed *fed, uint32_t client, int digest, fli_card *out);
void fli_card_write(const fli_card *c, unsigned char *out);
/* FL_EFORMAT for a client that cannot be. */
fl_status fli_card_read(fl_ctx *ctx, const unsigned char *in, fli_card *c);

/* Down: what a client is told. Texts end with a zero within their length. */
enum { FLI_TERMS_NAME = 64, FLI_TERMS_SCALES = 4096 };
typedef struct {
    uint64_t seed;
    uint64_t features, classes, parameters, upper; /* of the model; upper: parameters of the upper level, or all */
    uint64_t clients;                              /* N */
    uint64_t batch, latent;                        /* of local steps: fli_sgd_spec */
    double momentum, fraction, weight_decay;
    uint32_t client;    /* its number */
    uint32_t precision; /* bytes of a real: 4 or 8 */
    uint32_t scales;    /* normalisation: pairs that follow; 0: values as they are */
    char model[FLI_TERMS_NAME], method[FLI_TERMS_NAME];
    double scale[FLI_TERMS_SCALES], shift[FLI_TERMS_SCALES];
} fli_terms;

/* FL_ECONFIG for more features with a scale of their own than there is room for. */
fl_status fli_terms_make(fl_ctx *ctx, const fli_clients_spec *spec, uint32_t client, fli_terms *out);
size_t fli_terms_bytes(const fli_terms *t);
void fli_terms_write(const fli_terms *t, unsigned char *out);
/* FL_EFORMAT for terms that are cut short, or cannot be. */
fl_status fli_terms_read(fl_ctx *ctx, const unsigned char *in, size_t n, fli_terms *t);

#endif
