/* Objectives: f_i(x) = mean over client i's samples of loss(x; sample) + wd/2 ||x||^2, or wd/(2 n_i) ||x||^2 with
 * its n_i samples. One model per file, one line in list.c.
 *
 * A model computes on a gathered batch and keeps no state: parameters, gradients and scratch are the caller's, so
 * threads share a model without locks. Weight decay is not the model's business: fli_model_eval and the local
 * solvers add it. */
#ifndef FLI_MODEL_MODEL_H
#define FLI_MODEL_MODEL_H

#include "base/user_registry.h"
#include "base/rng.h"
#include "data/federation/federation.h"
#include "format/keys.h"
#include "model/network.h"
#include "vec/space.h"

typedef struct fli_model fli_model;
typedef struct fli_latent fli_latent; /* the second block, below */
typedef struct fli_bilevel fli_bilevel;

/* traits */
enum {
    FLI_MODEL_CLASSIFIER = 1, /* needs labels; otherwise it needs targets */
    FLI_MODEL_BINARY = 2,     /* exactly two classes */
    FLI_MODEL_CONVEX = 4,
    FLI_MODEL_QUADRATIC = 8, /* least squares: local problems have closed forms */
    FLI_MODEL_SPARSE = 16,   /* touches samples through fli_batch_mul and _tmul alone, so batches may be sparse */
    FLI_MODEL_SOFTMAX = 64,  /* gives class probabilities, in the halves `logits` and `pullback` */
    FLI_MODEL_GLM = 32, /* one weight per feature, and the Hessian is at most its value at x = 0, `curvature` A'A/n */
    FLI_MODEL_UNSUPERVISED = 128, /* takes any data and reads neither labels nor targets; has `clusters` */
    FLI_MODEL_IMAGES = 256,       /* its samples are images: fli_model_new_for */
    FLI_MODEL_USER = 512,         /* a user's (user_objective.h): takes any data, also samples without features */
    FLI_MODEL_NONNEGATIVE = 1024  /* the loss of no sample is negative */
};

/* What weight decay is divided by. FLI_DECAY_BY_BATCH: the objective is that of FLI_DECAY_BY_SAMPLES, but a step on a
 * mini-batch takes that for all that the client has. */
enum { FLI_DECAY_AS_IT_IS, FLI_DECAY_BY_SAMPLES, FLI_DECAY_BY_BATCH };
#define FLI_DECAY_WORDS "nothing|samples|batch"

typedef struct fli_model_desc {
    const char *name;
    const char *title;
    const char *citation; /* NULL: textbook */
    unsigned traits;
    /* Models whose predictor is linear in the parameters: the second derivative of the loss by the predictor is at most
     * that, everywhere; FLI_MODEL_SOFTMAX: by all of the logits, which have intercepts. 0: no bound is known. */
    double curvature;
    const fl_key *keys;
    size_t params_size;
    /* Sets model->space.n, tensors, tensor_count and priv from params, features, classes. Memory from model->arena. */
    fl_status (*setup)(fl_ctx *ctx, fli_model *m);
    /* Reals of scratch that grad and hvp need for a batch of n. It comes aligned to 64 bytes, with anything in it. */
    size_t (*scratch)(const fli_model *m, size_t n);
    /* Start values; x comes in zeroed. NULL: zeros. */
    void (*init)(const fli_model *m, fli_rng *r, double *x);
    /* Mean loss over the batch (at least one sample) at x. g, unless NULL, receives its gradient, whatever it held
     * before; *correct, unless NULL, the hits (0 for a regression). */
    double (*grad)(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch);
    /* Classifiers whose classes compete (softmax): the two halves of grad, so that other losses can stand between them.
     * `logits` returns a place within scratch: n x classes. Once the caller has put the loss's derivatives by the
     * logits there, `pullback` turns them into the gradient g; nobody may touch the rest of scratch in between. NULL:
     * the model has no such halves. */
    void *(*logits)(const fli_model *m, const void *x, const fli_batch *b, void *scratch);
    void (*pullback)(const fli_model *m, const void *x, const fli_batch *b, void *g, void *scratch);
    /* out = (Hessian of the mean loss at x) v, exact (R-operator). NULL: nobody knows. */
    void (*hvp)(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch);
    /* Start values out of the clients' samples, which a real federation must send for it. NULL: `init` will do. */
    fl_status (*start_from)(fl_ctx *ctx, const fli_model *m, const fli_fed *fed, fli_rng *r, double *x);
    /* FLI_MODEL_UNSUPERVISED: the cluster of every sample of the batch, below latent->size(m). */
    void (*clusters)(const fli_model *m, const void *x, const fli_batch *b, uint32_t *out, void *scratch);
    /* Releases what setup took from elsewhere than the arena; also called when setup failed. NULL: nothing. */
    void (*fini)(fli_model *m);
    /* What grad and then the backend's sgd would do to z, in one go (step->grad is not looked at). g: room for a
     * gradient. NULL: there is no shorter way than those two. */
    void (*step)(const fli_model *m, const fli_batch *b, const fli_sgd_step *step, void *g, void *z, void *scratch);
    /* Metrics of its own, and their values at x, in this order; both NULL: none. */
    const char *const *metrics;
    void (*measure)(const fli_model *m, const void *x, double *out);
    /* Models that can fail at work: whether it has. `why` unless NULL receives the sentence, see fli_model_why. NULL:
     * it cannot. */
    int (*failed)(const fli_model *m, const char *where, fl_failure *why);
    /* n x outputs for a batch, row by row. NULL: the probabilities that belong to `logits`; without those, too, it
     * cannot. */
    void (*predict)(const fli_model *m, const void *x, const fli_batch *b, double *out, void *scratch);
    /* What it computes, for devices (network.h); returns 0 where it has no words for that. NULL: never. */
    int (*network)(const fli_model *m, struct fli_network *out);
    /* Its layers, as a JSON list of objects (describe.c). NULL: there is nothing to say. */
    void (*layers)(const fli_model *m, fli_text *t);
} fli_model_desc;

struct fli_model {
    const fli_model_desc *desc;
    const void *params; /* bound struct of desc->keys; borrowed */
    fli_arena arena;
    fl_space space; /* where parameters live */
    size_t features, classes;
    size_t shape[3];          /* channels, height, width of a sample; {1, 1, features} when not an image */
    size_t piece;             /* samples that it likes to compute at once, at most; 0: any number */
    double weight_decay;      /* read it by fli_model_decay, */
    int decay_by;             /* FLI_DECAY_ */
    int sparse;               /* its batches are: fli_model_expect */
    const fl_tensor *tensors; /* cover the vector without gaps */
    size_t tensor_count;
    const void *priv;
    const fli_latent *latent;   /* the objective's second block y_i; NULL: it has none */
    const void *latent_params;  /* borrowed */
    const fli_bilevel *bilevel; /* the model has an upper and a lower level: see bilevel.h. NULL: it has one */
};

extern const fli_model_desc *const fli_model_list[]; /* NULL-terminated */

/* Lengths of buffers carved from scratch are rounded up to this, so that each starts on a cache line. */
static inline size_t fli_scratch_pad(size_t reals) { return (reals + 15) / 16 * 16; }

/* Refuses data the model cannot use (labels for a regression, three classes for a binary model). */
fl_status fli_model_new(fl_ctx *ctx, const fli_model_desc *desc, const void *params, const fli_ops *ops,
                        size_t features, size_t classes, double weight_decay, fli_model **out);
/* The same for samples of this shape: channels, height, width. */
fl_status fli_model_new_for(fl_ctx *ctx, const fli_model_desc *desc, const void *params, const fli_ops *ops,
                            const size_t shape[3], size_t classes, double weight_decay, fli_model **out);
void fli_model_free(fli_model *m);

/* Whether a function of the user's that the model is made of has failed: from then on the model computes nothing, and
 * its numbers are NaN. */
static inline int fli_model_failed(const fli_model *m) { return m->desc->failed && m->desc->failed(m, "", NULL); }
/* FL_ECALLBACK, with the sentence, if it has. To be asked by the thread that computed, before anybody wonders about its
 * numbers: that thread says what failed, and where, as in " at client 3". Others then say the same, or nothing before
 * that. */
fl_status fli_model_why(const fli_model *m, fl_failure *why, const char *where, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the sentence in a context. */
fl_status fli_model_status(fl_ctx *ctx, const fli_model *m, const char *where, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses a model whose Hessian nobody knows. `who` needs it, as in "`fedloom check`". */
fl_status fli_model_needs_hvp(fl_ctx *ctx, const fli_model *m, const char *who);

/* How the samples will be stored: sparse ones give sparse batches to a model that can use them. Called once, before
 * any batch is made; without it, batches are dense. */
void fli_model_expect(fli_model *m, int sparse);
/* A batch as the model wants it. */
fl_status fli_model_batch(fl_ctx *ctx, const fli_model *m, size_t capacity, fli_batch *b);

/* Start parameters into x (reals of the model's space). `fed` NULL: without a look at the data. */
fl_status fli_model_start(fl_ctx *ctx, const fli_model *m, uint64_t seed, void *x);
fl_status fli_model_start_from(fl_ctx *ctx, const fli_model *m, const fli_fed *fed, uint64_t seed, void *x);

/* Bytes of scratch for a batch of n. */
size_t fli_model_scratch(const fli_model *m, size_t n);

/* wd of the objective of a client with this many training samples, */
double fli_model_decay(const fli_model *m, size_t samples);
/* and of a step of that client on a mini-batch of so many of them. */
double fli_model_step_decay(const fli_model *m, size_t samples, size_t batch);

/* Batch loss, and gradient g (may be NULL), with the weight decay of a client that has no other samples. */
double fli_model_eval(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch);
/* Hessian-vector product with that weight decay. */
void fli_model_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch);

/* Reals of scratch that the two above need for a batch of n, behind the model's own; fli_model_scratch counts them. */
size_t fli_pair_scratch(const fli_model *m, size_t n);

/* ==== the second block ==================================================================================== */

/* Objectives f_i(x, y_i) in which every sample of some kind has an unknown of its own, a point of the
 * simplex: pseudo labels of unlabelled samples, memberships in clusters. A client holds its y_i, brings it up to date
 * at the global model, and then trains x with y_i as it is.
 *
 * Rows of a batch come in two parts: first `plain` ones, which have labels, then those that have a y. */

struct fli_latent {
    int every; /* all samples have a y, and none a label that counts */
    int kept;  /* y_i is improved from what it was; otherwise it is a function of x, and nobody needs to remember it */
    size_t (*size)(const fli_model *m); /* values of y per sample */
    /* Further reals of scratch for a batch of n, behind what grad needs. */
    size_t (*scratch)(const fli_model *m, size_t n);
    /* y (n x size) of the batch's samples, brought up to date at x; f_i is a mean over `all` such samples. Where y is
     * improved, it comes in as it was; at first every row is the centre of the simplex. */
    void (*improve)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch);
    /* Stochastic steps in y instead: how many a turn, each over a mini-batch of this many of the samples that have one;
     * 0: by improve, over all of them. NULL: always 0. */
    size_t (*batch)(const fli_model *m, size_t *steps);
    /* One such step for these samples of a mini-batch of `all`. */
    void (*step)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch);
    /* g = gradient in x of f_i on this batch: a mean over each of the two parts, without weight decay. Returns f_i. */
    double (*grad)(const fli_model *m, const void *x, const fli_batch *b, size_t plain, const void *y, void *g,
                   void *scratch);
    /* How y is improved at x by a client with `all` such samples, some of which are in the batch. */
    fl_latent_steps (*rule)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *scratch);
};

/* Scratch in a batch of n behind the model's own. */
static inline void *fli_latent_extra(const fli_model *m, size_t n, void *scratch)
{
    return fli_at(m->space.ops, scratch, fli_scratch_pad(m->desc->scratch(m, n)));
}

/* ==== tensors ============================================================================================= */

/* For this folder alone. Gives a tensor of the model a name in the model's arena; 0: there is no memory. */
int fli_tensor_named(fli_model *m, fl_tensor *t, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ==== start values of a layer ============================================================================= */

/* For this folder alone. */

typedef enum { FLI_INIT_PYTORCH, FLI_INIT_HE, FLI_INIT_GLOROT } fli_init_rule;

/* The key that networks have for it. */
#define FLI_START_WORDS "pytorch|he|glorot"
#define FLI_START_HELP                                                                                                 \
    "start values: pytorch is uniform +-1/sqrt(fan in) for weights and biases, he is normal with variance "            \
    "2/fan in, glorot is uniform +-sqrt(6/(fan in + fan out)); the latter two start biases at zero"

/* The weights in their order, then the biases, which come in zeroed. */
void fli_init_layer(fli_init_rule rule, size_t fan_in, size_t fan_out, size_t weights, size_t biases, fli_rng *r,
                    double *w, double *bias);

/* ==== models with one weight per feature ================================================================== */

/* What least_squares and logistic share: their parameters, without an intercept. For this folder alone. */

/* fli_model_desc.setup: a vector "weight" of `features` reals. */
fl_status fli_linear_setup(fl_ctx *ctx, fli_model *m);
/* For fli_model_desc.layers: the one there is, and what is behind it. */
void fli_linear_layers(const fli_model *m, const char *activation, fli_text *t);

#endif
