/* The interface of a device: below it a backend computes; above it the logic of this folder is plain C, the same for
 * every device. `twin` (cpu_backend.c) implements it with the functions of the CPU's own path, so that tests can
 * compare this folder's logic with that path bit for bit on machines without a device; `cuda` implements it on a GPU.
 *
 * Addresses described as "there" are the device's; all others are in host memory. Work may be delayed: an engine
 * executes calls in their order, and only `read`, `dot`, `finite`, `found`, `evaluate` and `outputs` wait for their
 * results. */
#ifndef FLI_DEVICE_ENGINE_H
#define FLI_DEVICE_ENGINE_H

#include "base/rng.h"
#include "data/dataset.h"
#include "device/tape.h"
#include "model/model.h"
#include "model/semi.h"

typedef struct fli_engine fli_engine;           /* an open device */
typedef struct fli_engine_net fli_engine_net;   /* a model on it, with memory to compute in */
typedef struct fli_engine_data fli_engine_data; /* a data set on it */

/* A pass over samples in random orders, epoch by epoch, as fli_sample_pass makes it: batches of `size`; the last of an
 * epoch may be short. If all samples fit into one batch (size >= n) they keep their order and nothing is drawn. */
typedef struct {
    const uint32_t *samples; /* n of them, by their numbers in the data set; host memory */
    uint32_t n, size;
} fli_engine_pass;

/* A client's turn. The step on the mini-batch of step k:
 *     d = grad + wd z + shift + rho (z - anchor);  m = momentum m + d;  z = z - lr m */
typedef struct {
    const void *start;          /* there */
    void *z;                    /* there: the solution; may not be start */
    const void *shift, *anchor; /* there; NULL: none */
    double rho;
    double lr, wd;
    const double *rates; /* NULL: all steps use lr and wd; else step k uses rates[2 k] as lr and [2 k + 1] as wd */
    uint32_t steps;
    fli_rng rng;           /* of mini-batches: shuffles plain, then rest, when they begin an epoch */
    fli_engine_pass plain; /* labelled samples; n 0: none are used */
    fli_engine_pass rest;  /* samples with a y, in addition in every step, by their numbers in the data; n 0: none */
    const void *y;         /* rest.n x classes reals, in the order of rest.samples; host memory */
    /* personalised pairs: the own model and its training; own_z NULL: there is none */
    const void *own_start;
    void *own_z;
    double own_lr;           /* of every step without own_rates; else */
    const double *own_rates; /* lr and wd of step k */
    double own_wd, mix;
} fli_engine_lane;

/* Turns of many clients, the longest first: in every step, the lanes that still train come before those that do not. */
typedef struct {
    const fli_engine_data *data;
    const fli_engine_lane *lane;
    size_t lanes;
    double momentum;
    const fli_semi *semi; /* the loss of samples with a y; NULL: no sample has one */
} fli_engine_turns;

/* A model on some samples. With y the samples are unlabelled and have these rows; with own, it is the mixture of the
 * outputs of own and x (model/semi.h). */
typedef struct {
    const void *x, *own; /* there */
    double mix;
    const uint32_t *samples; /* host memory */
    size_t n;
    const void *y;  /* host memory; NULL: labelled */
    void *gradient; /* there: receives the mean gradient in x; NULL: not wanted. Never together with own */
    int add;        /* adds the gradient instead of writing it */
    /* results: */
    double loss;    /* mean over the samples */
    size_t correct; /* of labelled ones */
} fli_engine_eval;

/* Class probabilities of the samples, classes doubles each, or with `logits` the logits: for decisions that are made on
 * the CPU (mixtures, pseudo labels). */
typedef struct {
    const void *x; /* there */
    const uint32_t *samples;
    size_t n;
    int logits;
    double *out; /* n x classes; host memory */
} fli_engine_outputs;

/* The description of a device. */
typedef struct {
    char name[128];
    double memory, free; /* bytes */
    char more[128];      /* such as compute capability and driver */
} fli_engine_info;

typedef struct fli_backend {
    const char *name, *title;
    /* The number of devices on this machine; if 0, a sentence about what is missing. */
    size_t (*count)(char *why, size_t room);
    fl_status (*describe)(fl_ctx *ctx, size_t which, fli_engine_info *out);
    fl_status (*open)(fl_ctx *ctx, size_t which, fli_engine **out);

    /* ---- an open one ---- */
    void (*close)(fli_engine *e);
    void *(*alloc)(fli_engine *e, fl_ctx *ctx, size_t bytes); /* as in vec/place.h */
    void (*release)(fli_engine *e, void *v);
    void (*read)(fli_engine *e, size_t bytes, const void *v, void *here);
    void (*write)(fli_engine *e, size_t bytes, const void *here, void *v);
    /* Executes all that is on the tape. The caller may reuse the tape at once. */
    void (*play)(fli_engine *e, const fli_tape *t);
    double (*dot)(fli_engine *e, const fli_ops *ops, size_t n, const void *x, const void *y);
    void (*finite)(fli_engine *e, const fli_ops *ops, size_t n, size_t count, const void *const *x, unsigned char *out);
    /* As in vec/place.h. */
    void (*finite_soon)(fli_engine *e, const fli_ops *ops, size_t n, size_t count, const void *const *x,
                        unsigned char *out);
    void (*found)(fli_engine *e);
    fl_status (*status)(fli_engine *e, fl_ctx *ctx);

    /* Refuses, with a sentence, models that it cannot compute. tf32: products may be rounded to ten bits. */
    fl_status (*net_new)(fli_engine *e, fl_ctx *ctx, const fli_model *m, int tf32, fli_engine_net **out);
    void (*net_free)(fli_engine_net *n);
    /* Memory there for turns of this many lanes with batches of `batch` samples, without their vectors. */
    double (*net_bytes)(const fli_engine_net *n, size_t lanes, size_t batch, int momentum);
    /* Uploads all of a data set. */
    fl_status (*data_new)(fli_engine *e, fl_ctx *ctx, const fli_dataset *ds, fli_engine_data **out);
    /* A list of samples that keeps content and address as long as the data set lives: passes and evaluations over parts
     * of it need not upload the numbers again. */
    fl_status (*data_list)(fli_engine_data *d, fl_ctx *ctx, const uint32_t *samples, size_t n);
    void (*data_free)(fli_engine_data *d);
    double (*data_bytes)(const fli_dataset *ds);

    /* Returns a status, with a sentence, for failures such as lack of memory. Results may be any numbers. */
    fl_status (*train)(fl_ctx *ctx, fli_engine_net *n, const fli_engine_turns *turns);
    fl_status (*evaluate)(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_eval *list,
                          size_t count);
    fl_status (*outputs)(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_outputs *o,
                         size_t count);
} fli_backend;

/* The first member of a backend's open device. */
struct fli_engine {
    const fli_backend *does;
};

extern const fli_backend fli_backend_cpu;
extern const fli_backend fli_backend_cuda;          /* only if FEDLOOM_CUDA is defined */
extern const fli_backend *const fli_backend_list[]; /* NULL-terminated */

#endif
