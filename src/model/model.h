/* Objectives: f_i(x) = mean over client i's samples of loss(x; sample) + wd/2 ||x||^2, or wd/(2 n_i) ||x||^2 with its
 * n_i samples. One model per file, one line in list.c.
 *
 * A model computes on a gathered batch and keeps no state: parameters, gradients and scratch are the caller's, so
 * threads share a model without locks. A model leaves weight decay to fli_model_eval and the local solvers. */
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
    FLI_MODEL_CLASSIFIER = 1, /* needs labels; other models need targets */
    FLI_MODEL_BINARY = 2,     /* exactly two classes */
    FLI_MODEL_CONVEX = 4,
    FLI_MODEL_QUADRATIC = 8, /* least squares: local problems have closed forms */
    FLI_MODEL_SPARSE = 16,   /* reads samples through fli_batch_mul and _tmul alone, so batches may be sparse */
    FLI_MODEL_SOFTMAX = 64,  /* has class probabilities, by the functions `logits` and `pullback` */
    FLI_MODEL_GLM = 32,      /* one weight per feature; the Hessian is at most its value at x = 0, `curvature` A'A/n */
    FLI_MODEL_UNSUPERVISED = 128, /* takes any data and reads neither labels nor targets; has `clusters` */
    FLI_MODEL_IMAGES = 256,       /* samples must be images: fli_model_new_for */
    FLI_MODEL_USER = 512,         /* a user's objective (user_objective.h): takes any data, even without features */
    FLI_MODEL_NONNEGATIVE = 1024  /* no sample's loss is negative */
};

/* What divides weight_decay. FLI_DECAY_BY_BATCH has the objective of FLI_DECAY_BY_SAMPLES, but a step on a mini-batch
 * divides by the size of the mini-batch, as if the client had no other samples. */
enum { FLI_DECAY_AS_IT_IS, FLI_DECAY_BY_SAMPLES, FLI_DECAY_BY_BATCH };
#define FLI_DECAY_WORDS "nothing|samples|batch"

typedef struct fli_model_desc {
    const char *name;
    const char *title;
    const char *citation; /* NULL: textbook */
    unsigned traits;
    /* Models whose predictor is linear in the parameters: an upper bound of the second derivative of a sample's loss by
     * the predictor; FLI_MODEL_SOFTMAX: by all of the logits, which have intercepts. 0: no bound is known. */
    double curvature;
    const fl_key *keys;
    size_t params_size;
    /* Sets model->space.n, tensors, tensor_count and priv from params, features, classes. Memory from model->arena. */
    fl_status (*setup)(fl_ctx *ctx, fli_model *m);
    /* Reals of scratch that grad and hvp need for a batch of n. Scratch is aligned to 64 bytes and may hold
     * anything. */
    size_t (*scratch)(const fli_model *m, size_t n);
    /* Sets start values in x, which is all zeros. NULL: zeros. */
    void (*init)(const fli_model *m, fli_rng *r, double *x);
    /* Returns the mean loss at x over the batch (at least one sample). Unless NULL, g is overwritten by the gradient
     * and *correct by the number of hits (0 for a regression). */
    double (*grad)(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch);
    /* Classifiers by softmax: grad in two halves, with any loss between them. `logits` returns an array n x classes
     * within scratch. The caller overwrites it with the loss's derivatives by the logits, and leaves the rest of
     * scratch alone; `pullback` turns them into the gradient g. NULL: the model has no such halves. */
    void *(*logits)(const fli_model *m, const void *x, const fli_batch *b, void *scratch);
    void (*pullback)(const fli_model *m, const void *x, const fli_batch *b, void *g, void *scratch);
    /* out = (Hessian of the mean loss at x) v, exact (R-operator). NULL: not available. */
    void (*hvp)(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch);
    /* Sets start values from clients' samples, which a real federation must transmit. NULL: `init` is used. */
    fl_status (*start_from)(fl_ctx *ctx, const fli_model *m, const fli_fed *fed, fli_rng *r, double *x);
    /* FLI_MODEL_UNSUPERVISED: out[i] = the cluster of the batch's sample i, below latent->size(m). */
    void (*clusters)(const fli_model *m, const void *x, const fli_batch *b, uint32_t *out, void *scratch);
    /* Frees what setup took from outside the arena; also called after setup failed. NULL: nothing to free. */
    void (*fini)(fli_model *m);
    /* Does to z what grad and the backend's sgd would do, in one pass; ignores step->grad. g has room for a gradient.
     * NULL: callers use grad and sgd. */
    void (*step)(const fli_model *m, const fli_batch *b, const fli_sgd_step *step, void *g, void *z, void *scratch);
    /* Names of the model's own metrics, and their values at x in this order; both NULL: none. */
    const char *const *metrics;
    void (*measure)(const fli_model *m, const void *x, double *out);
    /* True if a user function has failed; `why`, unless NULL, receives the sentence: see fli_model_why. NULL: the model
     * cannot fail. */
    int (*failed)(const fli_model *m, const char *where, fl_failure *why);
    /* Writes n x outputs for a batch, row by row. NULL: the probabilities of `logits`; with neither, the model makes no
     * predictions. */
    void (*predict)(const fli_model *m, const void *x, const fli_batch *b, double *out, void *scratch);
    /* Describes the network for devices (network.h); returns 0 if it cannot. NULL: it never can. */
    int (*network)(const fli_model *m, struct fli_network *out);
    /* Appends the layers as a JSON list of objects (describe.c). NULL: no description. */
    void (*layers)(const fli_model *m, fli_text *t);
} fli_model_desc;

struct fli_model {
    const fli_model_desc *desc;
    const void *params; /* bound struct of desc->keys; borrowed */
    fli_arena arena;
    fl_space space; /* of the parameters */
    size_t features, classes;
    size_t shape[3];          /* channels, height, width of a sample; {1, 1, features} when not an image */
    size_t piece;             /* largest batch to compute at once; 0: any */
    double weight_decay;      /* read it by fli_model_decay and fli_model_step_decay */
    int decay_by;             /* FLI_DECAY_ */
    int sparse;               /* batches are sparse: fli_model_expect */
    const fl_tensor *tensors; /* cover the vector without gaps */
    size_t tensor_count;
    const void *priv;
    const fli_latent *latent;   /* the objective's second block y_i; NULL: none */
    const void *latent_params;  /* borrowed */
    const fli_bilevel *bilevel; /* a model with an upper and a lower level: see bilevel.h. NULL: one level */
};

extern const fli_model_desc *const fli_model_list[]; /* NULL-terminated */

/* Rounds a length up to whole cache lines, so that each buffer carved from scratch starts on one. */
static inline size_t fli_scratch_pad(size_t reals) { return (reals + 15) / 16 * 16; }

/* Makes a model. FL_ECONFIG for data that it cannot use (labels for a regression, three classes for a binary model). */
fl_status fli_model_new(fl_ctx *ctx, const fli_model_desc *desc, const void *params, const fli_ops *ops,
                        size_t features, size_t classes, double weight_decay, fli_model **out);
/* The same for samples of this shape: channels, height, width. */
fl_status fli_model_new_for(fl_ctx *ctx, const fli_model_desc *desc, const void *params, const fli_ops *ops,
                            const size_t shape[3], size_t classes, double weight_decay, fli_model **out);
void fli_model_free(fli_model *m);

/* True if a user function of the model has failed. From then on the model calls none, and its numbers are NaN. */
static inline int fli_model_failed(const fli_model *m) { return m->desc->failed && m->desc->failed(m, "", NULL); }
/* FL_ECALLBACK if a user function of the model has failed. Call this on the thread that computed, before its numbers
 * are used: on the thread of the failure, the first call makes the sentence, with `where` (" at client 3") in it. *why
 * receives that sentence, on any thread; it is empty until it has been made. */
fl_status fli_model_why(const fli_model *m, fl_failure *why, const char *where, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with the sentence in a context. */
fl_status fli_model_status(fl_ctx *ctx, const fli_model *m, const char *where, ...)
    __attribute__((format(printf, 3, 4)));
/* FL_ECONFIG for a model without hvp. `who` needs it, as in "`fedloom check`". */
fl_status fli_model_needs_hvp(fl_ctx *ctx, const fli_model *m, const char *who);

/* Says whether the samples are stored sparse: a model that can use sparse batches then gets them. Call once, before any
 * batch is made; without it, batches are dense. */
void fli_model_expect(fli_model *m, int sparse);
/* Initialises a sparse or dense batch, as the model wants it. */
fl_status fli_model_batch(fl_ctx *ctx, const fli_model *m, size_t capacity, fli_batch *b);

/* x = start parameters, in the model's precision. `fed` NULL: the data are not used. */
fl_status fli_model_start(fl_ctx *ctx, const fli_model *m, uint64_t seed, void *x);
fl_status fli_model_start_from(fl_ctx *ctx, const fli_model *m, const fli_fed *fed, uint64_t seed, void *x);

/* Bytes of scratch for a batch of n. */
size_t fli_model_scratch(const fli_model *m, size_t n);

/* wd of the objective of a client with `samples` training samples. */
double fli_model_decay(const fli_model *m, size_t samples);
/* wd of a step of that client on a mini-batch of `batch` samples. */
double fli_model_step_decay(const fli_model *m, size_t samples, size_t batch);

/* Batch loss and gradient g (may be NULL), with the weight decay of a client whose only samples are the batch. */
double fli_model_eval(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch);
/* Hessian-vector product with the same weight decay. */
void fli_model_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch);

/* Reals of scratch that fli_pair_grad and fli_pair_loss (semi.h) need for a batch of n, behind the model's own;
 * fli_model_scratch includes them. */
size_t fli_pair_scratch(const fli_model *m, size_t n);

/* ==== the second block ==================================================================================== */

/* Objectives f_i(x, y_i) in which some samples have an unknown of their own, a point of the simplex: pseudo labels of
 * unlabelled samples, memberships in clusters. A client keeps its y_i, improves it at the global model, and then trains
 * x with y_i fixed.
 *
 * The rows of a batch are in two parts: first `plain` rows with labels, then rows with a y. */

struct fli_latent {
    int every; /* all samples have a y, and labels are not used */
    int kept;  /* y_i is improved from its last value and must be kept; 0: y_i is a function of x */
    size_t (*size)(const fli_model *m); /* values of y per sample */
    /* Reals of scratch for a batch of n besides the model's own. */
    size_t (*scratch)(const fli_model *m, size_t n);
    /* Improves y (n x size) of the batch's samples at x; f_i is a mean over `all` samples that have a y. If `kept`, y
     * holds its last value, at first the centre of the simplex. */
    void (*improve)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch);
    /* The mini-batch size of stochastic steps in y, and their number per turn in *steps. 0: improve all samples
     * instead. NULL: always 0. */
    size_t (*batch)(const fli_model *m, size_t *steps);
    /* One stochastic step for the samples of batch b, out of a mini-batch of `all`. */
    void (*step)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch);
    /* Returns f_i on this batch, g = its gradient in x. The mean is taken over each part; weight decay is left out. */
    double (*grad)(const fli_model *m, const void *x, const fli_batch *b, size_t plain, const void *y, void *g,
                   void *scratch);
    /* How a client with `all` samples that have a y improves it at x: steps, step size, curvature. b has some of
     * them. */
    fl_latent_steps (*rule)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *scratch);
};

/* The second block's scratch for a batch of n, behind the model's own. */
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

/* For the key `init` of networks. */
#define FLI_START_WORDS "pytorch|he|glorot"
#define FLI_START_HELP                                                                                                 \
    "start values: pytorch is uniform +-1/sqrt(fan in) for weights and biases, he is normal with variance "            \
    "2/fan in, glorot is uniform +-sqrt(6/(fan in + fan out)); the latter two start biases at zero"

/* Draws the weights in their order, then the biases, which are 0 on entry. */
void fli_init_layer(fli_init_rule rule, size_t fan_in, size_t fan_out, size_t weights, size_t biases, fli_rng *r,
                    double *w, double *bias);

/* ==== models with one weight per feature ================================================================== */

/* What least_squares and logistic share: one weight per feature, no intercept. For this folder alone. */

/* fli_model_desc.setup: one tensor "weight" of `features` reals. */
fl_status fli_linear_setup(fl_ctx *ctx, fli_model *m);
/* fli_model_desc.layers: one linear layer and its activation. */
void fli_linear_layers(const fli_model *m, const char *activation, fli_text *t);

#endif
