/* Which clients take part in a round, and with which probability: a table of ways to draw the cohort. Each way is a few
 * lines, so they share one file. One way reads its probabilities from a file, by a reader that is here, too. */
#ifndef FLI_SERVER_PARTICIPATION_H
#define FLI_SERVER_PARTICIPATION_H

#include "base/ctx.h"
#include "base/rng.h"
#include "data/federation/federation.h"
#include "format/keys.h"

typedef struct fli_participation fli_participation;

typedef struct fli_participation_desc {
    const char *name, *title, *citation;
    const fl_key *keys;
    size_t params_size;
    int everyone; /* all clients take part in every round, for any parameters */
    int planned;  /* cohorts are fixed, not drawn: a client's probability is 0 in some rounds and 1 in others */
    int at_work;  /* usable by asynchronous methods: p->largest clients are at work; any other client may be next */
    /* Checks the parameters against the federation, reads files, prepares tables (memory from p->arena). May be
     * NULL. */
    fl_status (*setup)(fl_ctx *ctx, fli_participation *p);
    /* Writes the cohort of a round, ascending and distinct, to out (room for p->largest) and returns its size m.
     * Depends only on (seed, round). */
    size_t (*pick)(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out);
    /* The probability that a client takes part in a round, counted from 0. NULL: m/N. */
    double (*probability)(const fli_participation *p, size_t round, size_t client);
    /* The smallest and the largest such probability over all rounds. NULL: it does not change. */
    void (*range)(const fli_participation *p, size_t client, double *least, double *most);
    /* The file that the way reads; its content counts as data. NULL: none. */
    const char *(*file)(const void *params);
    void (*fini)(fli_participation *p); /* frees what setup made outside the arena; may be NULL */
} fli_participation_desc;

struct fli_participation {
    const fli_participation_desc *desc;
    const void *params; /* borrowed */
    const fli_fed *fed; /* borrowed */
    fli_arena arena;
    void *priv;
    size_t largest; /* size of the largest cohort */
};

extern const fli_participation_desc *const fli_participation_list[]; /* NULL-terminated */

fl_status fli_participation_new(fl_ctx *ctx, const fli_participation_desc *desc, const void *params, const fli_fed *fed,
                                fli_participation **out);
void fli_participation_free(fli_participation *p);
/* The cohort of a round; `out` has room for p->largest clients. */
size_t fli_participation_pick(const fli_participation *p, uint64_t seed, size_t round, uint32_t *out);

/* The probability p_i^r that client i takes part in round r. Exact, except for two ways: `weighted` gives the
 * probability that the client's clock rings before the expected time of the m-th ring, `trace` the share of rounds with
 * the client. */
double fli_participation_probability(const fli_participation *p, size_t round, size_t client);
/* The smallest and the largest probability over all rounds. */
void fli_participation_range(const fli_participation *p, size_t client, double *least, double *most);

#endif
