/* Local work on a bilevel problem: the common part of its kinds. Only for this folder. */
#ifndef FLI_SOLVER_TWO_LEVEL_H
#define FLI_SOLVER_TWO_LEVEL_H

#include "bilevel/bilevel.h"
#include "solver/minibatch.h"

typedef struct {
    fli_worker *worker;
    const fli_model *model;
    const fli_view *view;
    const fl_problem *problem;
    fli_rng *rng;
    void *z;  /* the task's, for the answer */
    void *qv; /* the answer's v */
    fl_answer *out;
    fli_sample_pass train, validation; /* the samples of either level */
    fl_space upper, lower;             /* the blocks; the lower one starts at vector + upper.n */
} fli_bilevel_work;

/* Vectors of the instance, both blocks long. */
enum { FLI_W_V, FLI_W_U, FLI_W_G, FLI_W_H, FLI_W_VECTORS };
static inline void *fli_work_vector(const fli_bilevel_work *w, size_t i) { return fli_worker_vector(w->worker, i); }

/* The lower block of a vector. */
static inline void *fli_low(const fli_bilevel_work *w, void *v) { return fli_at(w->lower.ops, v, w->upper.n); }
static inline const void *fli_clow(const fli_bilevel_work *w, const void *v)
{
    return fli_cat(w->lower.ops, v, w->upper.n);
}

/* Writes the client's samples in a random order, which is the same in all its turns. Returns the number of validation
 * samples, which come first; 0: all samples are for both levels. */
size_t fli_levels_split(const fli_model *m, const fli_view *v, uint64_t seed, uint32_t client, uint32_t *order);

#endif
