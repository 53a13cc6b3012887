/* Which clients take part in a round, and how likely: a table of ways to draw the cohort. Each is a few lines, so they
 * share one file. One of them reads its probabilities from a file; the table that it makes of it is here as well. */
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
    int everyone; /* all clients in every round, whatever the parameters */
    int planned; /* who takes part is fixed in advance, not drawn: in some rounds a client's chance is 0, in others 1 */
    int at_work; /* asynchronous methods can use it: p->largest clients are at work, the next one is any of the rest */
    /* Checks the parameters against the federation, reads files, prepares tables (memory from p->arena). NULL: nothing
     * to do. */
    fl_status (*setup)(fl_ctx *ctx, fli_participation *p);
    /* The cohort of a round, ascending and distinct, into out (room for p->largest); returns m. A function of (seed,
     * round). */
    size_t (*pick)(const fli_participation *p, size_t round, fli_rng *rng, uint32_t *out);
    /* How likely a client takes part in a round, counted from 0. NULL: m/N. */
    double (*probability)(const fli_participation *p, size_t round, size_t client);
    /* The smallest and the largest of that over all rounds. NULL: it does not change. */
    void (*range)(const fli_participation *p, size_t client, double *least, double *most);
    /* The file that it reads: its contents count as data. NULL: none. */
    const char *(*file)(const void *params);
    void (*fini)(fli_participation *p); /* frees what setup made outside the arena; NULL: nothing */
} fli_participation_desc;

struct fli_participation {
    const fli_participation_desc *desc;
    const void *params; /* borrowed */
    const fli_fed *fed; /* borrowed */
    fli_arena arena;
    void *priv;
    size_t largest; /* no cohort is larger */
};

extern const fli_participation_desc *const fli_participation_list[]; /* NULL-terminated */

fl_status fli_participation_new(fl_ctx *ctx, const fli_participation_desc *desc, const void *params, const fli_fed *fed,
                                fli_participation **out);
void fli_participation_free(fli_participation *p);
/* The cohort of a round; `out` has room for p->largest clients. */
size_t fli_participation_pick(const fli_participation *p, uint64_t seed, size_t round, uint32_t *out);

/* p_i^r: exact for all ways but `weighted`, where it is the chance that the client's clock has rung when on average m
 * have, and `trace`, where it is how often the client appears. */
double fli_participation_probability(const fli_participation *p, size_t round, size_t client);
/* Over all rounds. */
void fli_participation_range(const fli_participation *p, size_t client, double *least, double *most);

#endif
