/* Joining: what a server must know of a client before the first round, and a client of the federation. Both have a
 * little-endian form. In a simulation it costs nothing; it says what a federation over a network needs. */
#ifndef FLI_CLIENT_CARD_H
#define FLI_CLIENT_CARD_H

#include "client/clients.h"
#include "data/federation/federation.h"

/* Up: what a client says of itself. */
typedef struct {
    uint64_t samples;      /* n_i, for training, labelled or not */
    uint64_t unlabelled;   /* of those */
    uint64_t test_samples; /* its own test part */
    int digested;          /* the digest was requested: it takes a pass over the samples */
    fli_digest digest;
    /* how its samples are stored; zeros where they are made on demand */
    uint64_t shape[3], classes;
    uint64_t kind; /* fli_xkind */
} fli_card;

enum { FLI_CARD_BYTES = 4 * 8 + sizeof(fli_digest) + 5 * 8 };
fl_status fli_card_make(fl_ctx *ctx, const fli_fed *fed, uint32_t client, int digest, fli_card *out);
void fli_card_write(const fli_card *c, unsigned char *out);
/* FL_EFORMAT for a client that cannot be. */
fl_status fli_card_read(fl_ctx *ctx, const unsigned char *in, fli_card *c);

/* Down: what a client is told. */
typedef struct {
    uint64_t seed;
    uint64_t clients;           /* N */
    uint64_t shape[3], classes; /* of samples: channels, height, width; classes 0: regression */
    uint64_t parameters, upper; /* of the model; upper: those of the upper level, or all */
    uint64_t before;            /* where samples are at clients, and random changes or an objective of the user's go by
                                  * their numbers: how many those with lower numbers have; else 0 */
    uint64_t samples;   /* where samples are at clients: how many it said it has; it cannot come back with others */
    uint32_t client;    /* its number */
    uint32_t precision; /* bytes of a real: 4 or 8 */
    uint32_t sparse;    /* samples are stored as the few features that are not 0 */
    uint32_t scales;    /* normalisation: one pair per run of features; 0: values as they are */
    const double *scale, *shift; /* value * scale + shift; shift NULL: 0 */
    char *const *class_name;     /* one per class, as labels are written; NULL: they are 0, 1, ... */
    const char *model, *method;  /* their names, */
    const char *settings;        /* and all that they are made from: a configuration as text */
    void *memory;                /* what the pointers lead to, of terms that were read */
} fli_terms;

/* Points to what the setup leads to. */
void fli_terms_make(const fli_setup *setup, uint32_t client, fli_terms *out);
size_t fli_terms_bytes(const fli_terms *t);
void fli_terms_write(const fli_terms *t, unsigned char *out);
/* Own memory; FL_EFORMAT for terms that are cut short, too long, or cannot be. To be given back in either case. */
fl_status fli_terms_read(fl_ctx *ctx, const unsigned char *in, size_t n, fli_terms *t);
void fli_terms_fini(fli_terms *t);

/* How a client makes its part of a run from the terms. It needs the settings, so it is defined in
 * plan/client_setup.h. */
typedef struct fli_builder {
    /* Fills model, algo, params, solvers, seed, sgd, clients and measure_potential; *own keeps them until `free`. */
    fl_status (*make)(fl_ctx *ctx, const fli_terms *t, fli_setup *out, void **own);
    void (*free)(void *own);
} fli_builder;

#endif
