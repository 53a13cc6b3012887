/* Bilevel problems: two levels, two blocks of one parameter vector.
 *
 *     min_x Phi(x) = sum_i p_i f_i(x, y*(x)),   y*(x) = argmin_y sum_i p_i g_i(x, y)
 *
 * The vector is (x, y): the upper block comes first, the lower one is the tail. f_i is a mean over the client's
 * validation samples; g_i is one over its training samples plus l2/2 ||y||^2, so that it is strongly convex if the loss
 * is convex in y.
 *
 * A problem is a model with two levels (fli_bilevel_give): the model remains responsible for batches, scratch, saving
 * and metrics. One kind per file, one line in list.c. */
#ifndef FLI_BILEVEL_BILEVEL_H
#define FLI_BILEVEL_BILEVEL_H

#include "model/model.h"

typedef struct {
    double validation; /* share of a client's training samples that f_i uses instead of g_i; 0: both use all of them */
    double l2;
} fli_bilevel_common;

/* A run of the parameter vector. */
typedef struct {
    size_t at, n;
} fli_range;

typedef struct fli_bilevel_desc {
    const char *name, *title, *citation;
    const fl_key *keys;
    size_t params_size;
    int convex; /* g without its l2 term is convex in y; 0: it is if the model's loss is */
    /* Sets the ranges of the levels; may change the model first (put hyper-parameters in front). FL_ECONFIG for models
     * that it does not support. NULL: a single level. */
    fl_status (*setup)(fl_ctx *ctx, fli_model *m, const void *params, fli_range *upper, fli_range *lower);
    /* Return f, or g without its l2 term, over the batch. d, unless NULL, receives the derivative: of f by all
     * parameters, of g by the lower block alone (d's upper block is then undefined). */
    double (*upper)(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch);
    double (*lower)(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch);
    /* out = (d2 g/dxdy v, d2 g/dydy v), exact, without the l2 term; v must be zero in the upper block. */
    void (*product)(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch);
} fli_bilevel_desc;

struct fli_bilevel {
    const fli_bilevel_desc *desc;
    const void *params; /* borrowed */
    fli_bilevel_common common;
    size_t upper; /* length of the upper block */
};

extern const fli_bilevel_desc *const fli_bilevel_list[]; /* NULL-terminated */
/* A quadratic with closed forms, for tests and golden cases: see quadratic.c. */
extern const fli_bilevel_desc fli_bilevel_quadratic;
extern const fli_model_desc fli_model_quadratic_bilevel; /* its model */

/* FL_ECONFIG unless the two blocks make up a vector of n, the upper one first. */
fl_status fli_blocks_check(fl_ctx *ctx, size_t n, fli_range upper, fli_range lower);

/* Makes m a model with two levels. `params` is borrowed and must outlive it. */
fl_status fli_bilevel_give(fl_ctx *ctx, fli_model *m, const fli_bilevel_desc *desc, const void *params,
                           const fli_bilevel_common *common);

/* The functions of the descriptor, with the l2 term; `m` has two levels. */
double fli_bilevel_upper(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch);
double fli_bilevel_lower(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch);
void fli_bilevel_product(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out,
                         void *scratch);

/* The spaces of the two blocks. */
static inline fl_space fli_upper_space(const fl_space *s, size_t upper)
{
    return fli_space_of(s->ops, upper, s->place);
}
static inline fl_space fli_lower_space(const fl_space *s, size_t upper)
{
    return fli_space_of(s->ops, s->n - upper, s->place);
}

/* Number of upper parameters; all of them for a single level. */
static inline size_t fli_model_upper(const fli_model *m) { return m->bilevel ? m->bilevel->upper : m->space.n; }

#endif
