/* Joining: the card, by which a client tells a server what it must know before the first round, and the terms, by which
 * the server answers. Both have a little-endian form. In a simulation joining costs nothing; the counted bytes are
 * those that a network would need. */
#ifndef FLI_CLIENT_CARD_H
#define FLI_CLIENT_CARD_H

#include "client/clients.h"
#include "data/federation/federation.h"

/* Up: a client's card. */
typedef struct {
    uint64_t samples;      /* n_i, for training, labelled or not */
    uint64_t unlabelled;   /* of those, how many have no label */
    uint64_t test_samples; /* its own test part */
    int digested;          /* the digest is set; computing it takes a pass over the samples */
    fli_digest digest;
    /* how samples are stored; zeros if they are made on demand */
    uint64_t shape[3], classes;
    uint64_t kind; /* fli_xkind */
} fli_card;

enum { FLI_CARD_BYTES = 4 * 8 + sizeof(fli_digest) + 5 * 8 };
fl_status fli_card_make(fl_ctx *ctx, const fli_fed *fed, uint32_t client, int digest, fli_card *out);
void fli_card_write(const fli_card *c, unsigned char *out);
/* FL_EFORMAT if the numbers are impossible. */
fl_status fli_card_read(fl_ctx *ctx, const unsigned char *in, fli_card *c);

/* Down: the terms for a client. */
typedef struct {
    uint64_t seed;
    uint64_t clients;           /* N */
    uint64_t shape[3], classes; /* of samples: channels, height, width; classes 0: regression */
    uint64_t parameters, upper; /* of the model; of its upper level, or all */
    /* if clients have the samples, and augmentation or a user's model uses sample numbers: how many samples the clients
     * before this one have; else 0 */
    uint64_t before;
    uint64_t samples;   /* if clients have the samples: the number in its card, which must not change; else 0 */
    uint32_t client;    /* its number */
    uint32_t precision; /* bytes of a real: 4 or 8 */
    uint32_t sparse;    /* 1: only features that are not 0 are stored */
    uint32_t scales;    /* normalisation: pairs, one per run of features; 0: none */
    const double *scale, *shift; /* value * scale + shift; shift NULL: 0 */
    char *const *class_name;     /* classes names, as labels are written; NULL: 0, 1, ... */
    const char *model, *method;  /* names */
    const char *settings;        /* the configuration from which all is made, as text */
    void *memory;                /* of terms that were read: owns what the pointers point to */
} fli_terms;

/* *out points into the setup. */
void fli_terms_make(const fli_setup *setup, uint32_t client, fli_terms *out);
size_t fli_terms_bytes(const fli_terms *t);
void fli_terms_write(const fli_terms *t, unsigned char *out);
/* Allocates out->memory. FL_EFORMAT for terms of a wrong length, or with impossible values. Call fli_terms_fini also
 * after a failure. */
fl_status fli_terms_read(fl_ctx *ctx, const unsigned char *in, size_t n, fli_terms *t);
void fli_terms_fini(fli_terms *t);

/* Makes a client's part of a run from the terms. It needs the settings, so it is defined in plan/client_setup.h. */
typedef struct fli_builder {
    /* Fills model, algo, params, solvers, seed, sgd, clients and measure_potential; *own keeps them until `free`. */
    fl_status (*make)(fl_ctx *ctx, const fli_terms *t, fli_setup *out, void **own);
    void (*free)(void *own);
} fli_builder;

#endif
