/* Turns of a few lanes of a small network, in plain memory and on the device: what kernels that take whole turns are
 * tested with. */
#ifndef FLI_TEST_TURN_PROBLEM_H
#define FLI_TEST_TURN_PROBLEM_H

#include "device_memory.h"
#include "order.h"
#include "plain_turn.h"

enum { LANES = 3, SAMPLES = 40 };

/* A case: a network, how samples are stored and scaled, and what is in a step. */
typedef struct {
    const char *name;
    size_t size[6], depth;
    int biased;
    fli_cuda_type type;
    uint32_t kind, segments; /* segments 0: samples are as they are stored */
    uint32_t batch, n;       /* of lane 0; others have fewer */
    int momentum, shift, anchor, rates;
} turn_case; /* a lane has a shift or an anchor, never both */

/* All of a case in plain memory, as doubles, and there. */
typedef struct {
    const turn_case *c;
    fli_network net;
    double *x, *value; /* as stored, and normalised */
    int32_t label[SAMPLES];
    double scale[64], offset[64];
    plain_turn turn[LANES];
    fli_cuda_data data;
    fli_cuda_lane lane[LANES];
    void *kept[64]; /* there, to be released */
    size_t count;
} problem;

static uint64_t noise_state;
static double noise(void) /* in [-1, 1) */
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(noise_state >> 33) / 1073741824.0 - 1;
}

static double *noise_vector(size_t n, double by)
{
    double *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) v[i] = by * noise();
    return v;
}

static void *keep(problem *p, void *there_)
{
    assert_true(p->count < sizeof p->kept / sizeof *p->kept);
    return p->kept[p->count++] = there_;
}

/* A copy there, of the case's type. */
static void *reals(problem *p, const double *v, size_t n, int wide)
{
    float *narrow = malloc((n + 1) * sizeof *narrow);
    for (size_t i = 0; i < n; i++) narrow[i] = (float)v[i];
    void *t = wide ? there(n * 8, v) : there(n * 4, narrow);
    free(narrow);
    return keep(p, t);
}

static void make_samples(problem *p)
{
    const turn_case *c = p->c;
    size_t dim = p->net.features, all = SAMPLES * dim;
    uint8_t *bytes = malloc(all);
    p->x = noise_vector(all, 1);
    p->value = malloc(all * sizeof *p->value);
    for (size_t s = 0; s < c->segments; s++) {
        p->scale[s] = (c->kind ? 0.5 : 1.0 / 128) * (1 + 0.25 * (double)(s % 3));
        p->offset[s] = 0.125 * (double)(s % 4) - 0.25;
    }
    for (size_t i = 0; i < all; i++) {
        if (c->kind == 0) p->x[i] = floor(128 + 127 * p->x[i]);
        if (c->kind == 1) p->x[i] = (float)p->x[i];
        bytes[i] = (uint8_t)fmax(0, p->x[i]);
        size_t s = c->segments ? i % dim / (dim / c->segments) : 0;
        p->value[i] = c->segments ? p->x[i] * p->scale[s] + p->offset[s] : p->x[i];
    }
    p->data = (fli_cuda_data){.n = SAMPLES, .dim = dim, .length = dim, .kind = c->kind, .segments = c->segments};
    p->data.x = c->kind ? reals(p, p->x, all, c->kind == 2) : keep(p, there(all, bytes));
    for (size_t i = 0; i < SAMPLES; i++) p->label[i] = (int32_t)((i * 7 + i / 5) % p->net.classes);
    p->data.label = keep(p, there(sizeof p->label, p->label));
    if (c->segments) {
        p->data.scale = keep(p, there(c->segments * 8, p->scale));
        p->data.shift = keep(p, there(c->segments * 8, p->offset));
    }
    free(bytes);
}

/* Lane k: fewer samples, steps and terms than the one before it. */
static void make_lane(problem *p, uint32_t k)
{
    const turn_case *c = p->c;
    size_t m = p->net.parameters;
    int wide = c->type == FLI_CUDA_F64;
    uint32_t n = c->n - 5 * k, size = c->batch < n ? c->batch : n, steps = 5 - 2 * k;
    uint32_t stride = size < n ? size : 0, *order = malloc((size_t)5 * size * sizeof *order);
    for (uint32_t i = 0; i < 5 * size; i++) order[i] = (i * 11 + k * 3 + i / 7) % SAMPLES;
    plain_turn *t = &p->turn[k];
    *t = (plain_turn){.net = &p->net,
                      .x = p->value,
                      .label = p->label,
                      .order = order,
                      .n = n,
                      .size = size,
                      .stride = stride,
                      .steps = steps,
                      .lr = 0.2,
                      .wd = 0.01,
                      .rho = 0.3,
                      .momentum = 0.9};
    t->z = noise_vector(m, 0.5);
    if (c->momentum) t->buffer = calloc(m, sizeof *t->buffer);
    if (c->shift && (!c->anchor || k != 1)) t->shift = noise_vector(m, 0.1);
    if (c->anchor && !t->shift) t->anchor = noise_vector(m, 0.5);
    if (c->rates) t->rates = noise_vector(2 * 5, 0.05);
    fli_cuda_lane *l = &p->lane[k];
    *l = (fli_cuda_lane){.lr = t->lr, .wd = t->wd, .momentum = t->momentum, .times = t->shift ? 1 : -t->rho};
    l->n = n, l->size = size, l->stride = stride, l->steps = steps;
    l->z = reals(p, t->z, m, wide);
    if (t->buffer) l->buffer = reals(p, t->buffer, m, wide);
    if (t->anchor) l->rho = t->rho;
    if (t->shift || t->anchor) l->term = reals(p, t->shift ? t->shift : t->anchor, m, wide);
    if (t->rates) l->rates = keep(p, there(2 * 5 * 8, t->rates));
    l->order = keep(p, there((size_t)5 * size * 4, order));
}

static void make_problem(const turn_case *c, problem *p)
{
    memset(p, 0, sizeof *p);
    noise_state = 12345;
    p->c = c;
    p->net = plain_network(c->size, c->depth, c->biased);
    make_samples(p);
    for (uint32_t k = 0; k < LANES; k++) make_lane(p, k);
}

static void free_problem(problem *p)
{
    for (size_t i = 0; i < p->count; i++) fli_cuda_release(p->kept[i]);
    for (size_t k = 0; k < LANES; k++) {
        const plain_turn *t = &p->turn[k];
        free((void *)t->order);
        free(t->z);
        free(t->buffer);
        free((void *)t->shift);
        free((void *)t->anchor);
        free((void *)t->rates);
    }
    free(p->x);
    free(p->value);
}

/* ||there - want|| / ||want|| */
static double distance(const void *v, const double *want, size_t n, int wide)
{
    double *got = malloc(n * 8), off = 0, norm = 0;
    float *narrow = malloc(n * 4);
    here(n * (wide ? 8 : 4), v, wide ? (void *)got : (void *)narrow);
    for (size_t i = 0; i < n; i++) {
        double d = (wide ? got[i] : narrow[i]) - want[i];
        off += d * d;
        norm += want[i] * want[i];
    }
    free(got);
    free(narrow);
    return sqrt(off / norm);
}

/* What the turns of all lanes gave, held to plain C: off by less than `most`, and ten times that for momentum. */
static void check_turns(problem *p, double most)
{
    int wide = p->c->type == FLI_CUDA_F64;
    for (size_t k = 0; k < LANES; k++) {
        const plain_turn *t = &p->turn[k];
        plain_turn_run(t);
        double z = distance(p->lane[k].z, t->z, p->net.parameters, wide);
        double m = t->buffer ? distance(p->lane[k].buffer, t->buffer, p->net.parameters, wide) : 0;
        if (!(z < most) || !(m < 10 * most)) fail_msg("%s, lane %zu: %g and %g off", p->c->name, k, z, m);
    }
}

#endif
