/* Local work on a bilevel problem: what its kinds share. For this folder alone. */
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
    void *qv; /* the same for what belongs to v */
    fl_answer *out;
    fli_sample_pass train, validation; /* the samples of either level */
    fl_space upper, lower;             /* the blocks; the lower one starts at vector + upper.n */
} fli_bilevel_work;

/* The instance's vectors, whole. */
enum { FLI_W_V, FLI_W_U, FLI_W_G, FLI_W_H, FLI_W_VECTORS };
static inline void *fli_work_vector(const fli_bilevel_work *w, size_t i) { return fli_worker_vector(w->worker, i); }

/* The lower block of a vector. */
static inline void *fli_low(const fli_bilevel_work *w, void *v) { return fli_at(w->lower.ops, v, w->upper.n); }
static inline const void *fli_clow(const fli_bilevel_work *w, const void *v)
{
    return fli_cat(w->lower.ops, v, w->upper.n);
}

/* The client's samples in a random order that is always the same for it; the first of them, as many as are returned,
 * are for validation. 0: all are for both levels. */
size_t fli_levels_split(const fli_model *m, const fli_view *v, uint64_t seed, uint32_t client, uint32_t *order);

#endif
