/* What an algorithm is: a descriptor. It poses local problems and reads the answers; it never trains, allocates, prints or sends.
 * The tables say which vectors it has; the engine allocates, zeroes, ships and counts them.
 *
 * One round: for every client of the cohort, in parallel, `pose`, solve, `answer`; then on the server, in client order, `absorb`
 * for each, and `advance` once. */
#ifndef FLI_ALGO_ALGO_H
#define FLI_ALGO_ALGO_H

#include "base/keys.h"
#include "local/local.h"
#include "vec/space.h"

enum {                        /* traits */
       FLI_ALGO_EVERYONE = 1, /* all clients must take part in every round */
       FLI_ALGO_UNIFORM = 2,  /* weighs clients equally: w_i = 1/N */
       FLI_ALGO_PLAIN_SGD = 4 /* reads gradients out of displacements */
};

/* A client's turn, from the algorithm's point of view. */
typedef struct {
    const fli_space *space;
    const void *params;
    size_t clients; /* N */
    size_t cohort;  /* m = |S| */
    size_t round;
    uint32_t client;
    double weight;           /* w_i */
    double lr;               /* this round's step size */
    size_t steps;            /* Q_i */
    int first;               /* methods with client state: the client's first turn, its vectors and scalars are zero */
    int news;                /* the broadcast changed since this client's last turn */
    const void *const *down; /* the broadcast: the first `down` server vectors */
    void *const *state;      /* the client's own vectors, */
    double *scalars;         /* and scalars, kept between its turns */
    void *const *work;       /* scratch vectors, contents undefined at pose, kept until answer */
    void *const *up;         /* to be written by answer */
    double *up_scalars;
} fli_turn;

typedef struct {
    const fli_space *space;
    const void *params;
    size_t clients, cohort, round;
    double cohort_weight; /* sum of w_i over the cohort */
    void *const *vec;     /* server vectors; vec[0] is the global model x */
    void *const *sum;     /* zero before the first absorb of a round */
    double *scalar_sum;
} fli_server;

typedef struct fli_algo {
    const char *name;
    const char *title;
    const char *citation;
    unsigned traits;
    const fli_key *keys;
    size_t params_size;

    const char *const *server; /* names, NULL-terminated; the first is the model x, the others start at zero */
    size_t down;               /* so many of them, from the first, are broadcast */
    const char *const *client; /* NULL: none */
    size_t client_scalars;
    const char *const *up;
    size_t up_scalars;
    const char *const *sums;
    size_t scalar_sums;
    size_t work;

    /* Whether a round ends with an exchange; NULL: always. `coin` is uniform in [0, 1), a function of seed and round. Without an
     * exchange nothing is uploaded, absorb and advance are not called, and the next round has no news. */
    int (*exchanges)(const void *params, double coin);
    /* On a worker thread. Fills the problem, whose lr and steps come filled. Vectors it points to must stay until answer. */
    void (*pose)(const fli_turn *t, fli_problem *p);
    /* On the same thread, after the solver. */
    void (*answer)(const fli_turn *t, const fli_answer *a);
    /* On the server, for each client of the cohort in order: reads t->up and t->up_scalars (nothing else of the client's). */
    void (*absorb)(const fli_server *s, const fli_turn *t);
    /* On the server, after the last absorb. */
    void (*advance)(const fli_server *s);
} fli_algo;

extern const fli_algo *const fli_algo_list[]; /* NULL-terminated */

size_t fli_names_count(const char *const *names); /* NULL counts as empty */

#endif
