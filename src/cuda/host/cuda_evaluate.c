/* A mini-batch through the layers and back, and evaluation: losses, gradients and outputs of models on samples, without
 * steps. Turns are in train.c. */
#include "cuda/host/net.h"

#include <math.h>

/* ==== a mini-batch through the layers ===================================================================== */

static const void *input_of(const fli_cuda_pass *p, size_t l) { return l ? p->sweep->h[l - 1] : p->sweep->x[p->side]; }

void fli_cuda_pass_gather(const fli_cuda_pass *p)
{
    int image = p->net->stage[0].layer->kind != FLI_NET_FC;
    fli_cuda_gather(p->stream, p->net->type, p->data, &p->batch, image, p->sweep->x[p->side]);
}

static void forward_stage(const fli_cuda_pass *p, size_t l)
{
    const fli_cuda_stage *t = &p->net->stage[l];
    const fli_cuda_sweep *w = p->sweep;
    fli_cuda_type type = p->net->type;
    const void *in = input_of(p, l);
    if (t->layer->kind == FLI_NET_FC)
        fli_cuda_fc_forward(p->stream, type, t->layer, &p->batch, in, w->h[l]);
    else if (t->layer->kind == FLI_NET_CONV)
        fli_cuda_conv_forward(p->stream, type, t->layer, t->pool, &p->batch, in, t->chw, w->which[l], w->h[l], w->work);
    else
        fli_cuda_pool_forward(p->stream, type, t->layer, &p->batch, in, t->chw, w->which[l], w->h[l]);
}

void *fli_cuda_pass_forward(const fli_cuda_pass *p)
{
    for (size_t l = 0; l < p->net->depth; l++) forward_stage(p, l);
    return p->sweep->h[p->net->depth - 1];
}

/* The error at a stage's input. */
static void backward_stage(const fli_cuda_pass *p, size_t l, const void *error)
{
    const fli_cuda_stage *t = &p->net->stage[l];
    const fli_cuda_sweep *w = p->sweep;
    fli_cuda_type type = p->net->type;
    const void *h = t->masked ? input_of(p, l) : NULL;
    void *out = w->error[l & 1];
    if (t->layer->kind == FLI_NET_FC)
        fli_cuda_fc_backward(p->stream, type, t->layer, &p->batch, error, h, out);
    else if (t->layer->kind == FLI_NET_CONV)
        fli_cuda_conv_backward(p->stream, type, t->layer, t->pool, &p->batch, error, t->chw, w->which[l], h, out,
                               w->work);
    else
        fli_cuda_pool_backward(p->stream, type, t->layer, &p->batch, error, t->chw, w->which[l], h, out);
}

static void step_stage(const fli_cuda_pass *p, size_t l, const void *error, int add)
{
    const fli_cuda_stage *t = &p->net->stage[l];
    const fli_cuda_sweep *w = p->sweep;
    const void *in = input_of(p, l);
    if (!l && p->next && p->bytes)
        fli_cuda_fc_fused_step_bytes(p->stream, p->net->type, t->layer, &p->batch, p->next, p->data, error, w->h[0]);
    else if (!l && p->next)
        fli_cuda_fc_fused_step(p->stream, p->net->type, t->layer, &p->batch, p->next, error, in, w->x[!p->side],
                               w->h[0]);
    else if (t->layer->kind == FLI_NET_FC)
        fli_cuda_fc_step(p->stream, p->net->type, t->layer, &p->batch, error, in, add);
    else if (t->layer->kind == FLI_NET_CONV)
        fli_cuda_conv_step(p->stream, p->net->type, t->layer, t->pool, &p->batch, error, t->chw, w->which[l], in, add,
                           w->work);
}

/* From stage `top`, with the error at its output, down to the first. A stage's error below is computed before the step
 * changes its weights. */
static void backward_from(const fli_cuda_pass *p, size_t top, const void *error, int add)
{
    for (size_t l = top + 1; l-- > p->net->first;) {
        if (l > p->net->first) backward_stage(p, l, error);
        step_stage(p, l, error, add);
        error = p->sweep->error[l & 1];
    }
}

void fli_cuda_pass_backward(const fli_cuda_pass *p, int add)
{
    size_t last = p->net->depth - 1;
    backward_from(p, last, p->sweep->h[last], add);
}

void fli_cuda_pass_at_once(const fli_cuda_pass *p, int add)
{
    size_t last = p->net->depth - 1, top = p->two ? last - 1 : last;
    const fli_cuda_stage *t = &p->net->stage[top], *end = &p->net->stage[last];
    void *error = top > p->net->first ? p->sweep->error[top & 1] : NULL;
    for (size_t l = p->begun ? 1 : 0; l < top; l++) forward_stage(p, l);
    if (p->two)
        fli_cuda_fc_last_two(p->stream, p->net->type, t->layer, end->layer, &p->loss, &p->batch, input_of(p, top),
                             t->masked, error, add);
    else
        fli_cuda_fc_last(p->stream, t->layer, &p->loss, &p->batch, input_of(p, top), t->masked, error, add);
    if (top > p->net->first) backward_from(p, top - 1, error, add);
}

/* ==== evaluation ========================================================================================== */

/* Computes many evaluations at once, and cuts long ones into parts that are lanes of their own, to fill the device.
 * Sums run in the order of the samples within a part, and of the parts. All sums of a call are fetched at its end. */

enum { PART = 256 };
#define BLOCK_BYTES (1024.0 * 1024 * 1024) /* at most: the device is busy with much less */

/* The kind of a block's lanes. */
typedef enum { PLAIN, MIXED, GRADIENT, ADDED, OUTPUT, KINDS } eval_kind;

/* A lane: some of the samples of an evaluation. */
typedef struct {
    const void *x, *own, *y; /* y NULL: labelled */
    double mix;
    const uint32_t *samples;
    size_t n, eval; /* number of samples; index of the evaluation */
    void *gradient;
    double *out; /* for outputs */
    int logits;
} part;

/* A block of lanes. */
typedef struct {
    fli_engine_net *net;
    const fli_cuda_data *data;
    fli_cuda_stream stream;
    eval_kind kind;
    const part *part;
    size_t of_kind;          /* number of parts of this kind */
    size_t longest;          /* length of the longest part */
    uint32_t most, room;     /* rows of a part computed at a time; rows with room */
    const uint32_t *numbers; /* 0, 1, 2, ... */
    double *sums;
    const fli_cuda_lane *lanes_there, *own_there;
    double *out;
    fli_cuda_sweep sweep;
} block;

static int has_gradient(eval_kind k) { return k == GRADIENT || k == ADDED; }

/* ---- the memory of lanes --------------------------------------------------------------------------------- */

static fli_cuda_lane pack_lane(const block *b, const part *t, const uint32_t *rows, fli_cuda_layout *p)
{
    const uint32_t *samples = fli_cuda_layout_copy(p, t->samples, t->n * sizeof *t->samples);
    fli_cuda_lane lane = {.z = (void *)(uintptr_t)t->x, .gradient = t->gradient, .steps = 1, .mix = t->mix};
    if (!t->y) {
        lane.order = samples;
        lane.n = lane.size = (uint32_t)t->n;
        return lane;
    }
    lane.rest = rows;
    lane.rest_sample = samples;
    lane.rest_n = lane.rest_size = (uint32_t)t->n;
    lane.y = fli_cuda_layout_copy(p, t->y, t->n * b->net->network.classes * b->net->real);
    return lane;
}

static void pack(void *arg, size_t lanes, fli_cuda_layout *p)
{
    block *b = arg;
    fli_engine_net *n = b->net;
    const uint32_t *rows = fli_cuda_layout_copy(p, b->numbers, b->longest * sizeof *rows);
    for (size_t i = 0; i < lanes; i++) {
        n->lane[i] = pack_lane(b, &b->part[i], rows, p);
        n->own[i] = n->lane[i];
        n->own[i].z = (void *)(uintptr_t)b->part[i].own;
    }
    b->lanes_there = fli_cuda_layout_copy(p, n->lane, lanes * sizeof *n->lane);
    b->own_there = fli_cuda_layout_copy(p, n->own, lanes * sizeof *n->own);
    if (b->kind == OUTPUT) b->out = fli_cuda_layout_reserve(p, lanes * b->room * n->network.classes * sizeof *b->out);
    int flags = (has_gradient(b->kind) ? FLI_SWEEP_BACK : 0) | (b->kind == MIXED ? FLI_SWEEP_PAIR : 0);
    fli_cuda_sweep_pack(n, lanes, b->room, flags, p, &b->sweep);
}

/* ---- one block ----------------------------------------------------------------------------------------- */

/* Gradients are always added, so those that should be replaced are zeroed first. */
static void zero_gradients(const block *b, size_t lanes)
{
    fli_cuda_start_tape t = fli_cuda_start_tape_new(b->net);
    for (size_t i = 0; i < lanes; i++) {
        fli_cuda_start_tape_lane(&t);
        fli_cuda_start_tape_zero(&t, b->part[i].gradient);
    }
    fli_cuda_start_tape_play(&t);
}

static void evaluate_piece(const block *b, fli_cuda_pass *p)
{
    fli_cuda_type type = b->net->type;
    fli_cuda_pass_gather(p);
    void *z = fli_cuda_pass_forward(p);
    if (b->kind == OUTPUT) {
        fli_cuda_rows_outputs(p->stream, type, &p->loss, &p->batch, b->part->logits, z, b->out);
        return;
    }
    if (b->kind == MIXED) {
        fli_cuda_rows_pair_global(p->stream, type, &p->loss, &p->batch, z, b->sweep.p);
        p->batch.lane = b->own_there;
        z = fli_cuda_pass_forward(p);
    }
    fli_cuda_rows_loss(p->stream, type, &p->loss, &p->batch, b->kind == MIXED ? b->sweep.p : NULL, z, b->sums);
    if (!has_gradient(b->kind)) return;
    fli_cuda_rows_error(p->stream, type, &p->loss, &p->batch, z);
    fli_cuda_pass_backward(p, 1);
}

static void evaluate_block(const block *b, size_t lanes)
{
    const fli_model *m = b->net->model;
    fli_cuda_pass p = {.net = b->net,
                       .data = b->data,
                       .sweep = &b->sweep,
                       .stream = b->stream,
                       .batch = {.lane = b->lanes_there,
                                 .lanes = (uint32_t)lanes,
                                 .most = b->most,
                                 .room = b->room,
                                 .lanes_at_start = (uint32_t)b->of_kind},
                       .loss = fli_cuda_loss_of(b->net, b->data, m->latent ? m->latent_params : NULL)};
    if (b->kind == GRADIENT) zero_gradients(b, lanes);
    for (; p.batch.first < b->longest; p.batch.first += b->most) evaluate_piece(b, &p);
}

/* ---- parts --------------------------------------------------------------------------------------------- */

/* All lanes of a call, sorted by their kinds. */
typedef struct {
    part *part;
    size_t count;
    size_t end[KINDS]; /* end of each kind's parts */
    uint32_t *numbers;
    size_t longest;
} parts;

/* Cuts a part that is too long for a lane. Gradients are not cut: one lane adds them up, piece by piece. */
static void cut_part(const fli_engine_net *n, part whole, parts *out)
{
    size_t classes = n->network.classes, most = whole.gradient ? whole.n : PART;
    for (size_t at = 0; at < whole.n; at += most) {
        part t = whole;
        t.samples += at;
        t.n = whole.n - at < most ? whole.n - at : most;
        if (t.y) t.y = (const char *)t.y + at * classes * n->real;
        if (t.out) t.out += at * classes;
        if (out->part) out->part[out->count] = t;
        out->count++;
        if (t.n > out->longest) out->longest = t.n;
    }
}

static fl_status alloc_parts(fl_ctx *ctx, parts *p)
{
    p->part = fli_alloc(ctx, p->count, sizeof *p->part);
    p->numbers = fli_alloc(ctx, p->longest, sizeof *p->numbers);
    if (!p->part || !p->numbers) return FL_ENOMEM;
    for (size_t i = 0; i < p->longest; i++) p->numbers[i] = (uint32_t)i;
    p->count = 0;
    return FL_OK;
}

static void free_parts(parts *p)
{
    fli_free(p->part);
    fli_free(p->numbers);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* How many of the lanes can be in one block, so that no lane adds to a gradient that another writes. */
static size_t distinct_targets(const part *t, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < i && t[i].gradient; j++)
            if (t[i].gradient == t[j].gradient) return i;
    return n;
}

/* Fetches a block's outputs. */
static fl_status fetch_outputs(fl_ctx *ctx, const block *b, size_t lanes)
{
    size_t classes = b->net->network.classes, lane = b->room * classes;
    fli_engine *e = b->net->engine;
    if (b->kind != OUTPUT) return FL_OK;
    double *here = fli_alloc(ctx, lanes * lane, sizeof *here);
    if (!here) return FL_ENOMEM;
    e->does->read(e, lanes * lane * sizeof *here, b->out, here);
    for (size_t i = 0; i < lanes; i++) memcpy(b->part[i].out, here + i * lane, b->part[i].n * classes * sizeof *here);
    fli_free(here);
    return FL_OK;
}

/* Computes the parts of one kind, block by block. sums: that of the first part. */
static fl_status do_parts(fl_ctx *ctx, block *b, const parts *p, size_t first, size_t end, double *sums)
{
    size_t piece = has_gradient(b->kind) ? b->net->piece : PART;
    b->of_kind = end - first;
    for (size_t lanes; first < end; first += lanes) {
        lanes = distinct_targets(p->part + first, smaller(end - first, b->net->block));
        b->part = p->part + first;
        b->sums = sums + 2 * first;
        b->longest = 0;
        for (size_t i = 0; i < lanes; i++)
            if (b->part[i].n > b->longest) b->longest = b->part[i].n;
        b->most = (uint32_t)smaller(b->longest, piece);
        b->room = fli_cuda_room(b->most);
        fl_status s = fli_cuda_net_tables(ctx, b->net, lanes);
        if (!s) s = fli_cuda_workspace_send(ctx, b->net->engine, &b->net->work, pack, b, BLOCK_BYTES, &lanes);
        if (s) return s;
        evaluate_block(b, lanes);
        s = fetch_outputs(ctx, b, lanes);
        if (s) return s;
    }
    return FL_OK;
}

/* ---- losses and gradients -------------------------------------------------------------------------------- */

static eval_kind kind_of(const fli_engine_eval *l)
{
    return l->gradient ? l->add ? ADDED : GRADIENT : l->own ? MIXED : PLAIN;
}

/* Called twice: to count the parts, then to make them. */
static void part_evals(const fli_engine_net *n, const fli_engine_eval *evals, size_t count, parts *p)
{
    for (eval_kind k = PLAIN; k <= ADDED; k++) {
        for (size_t i = 0; i < count; i++) {
            const fli_engine_eval *l = &evals[i];
            if (kind_of(l) != k) continue;
            cut_part(n,
                     (part){.x = l->x,
                            .own = l->own,
                            .y = l->y,
                            .mix = l->mix,
                            .samples = l->samples,
                            .n = l->n,
                            .eval = i,
                            .gradient = l->gradient},
                     p);
        }
        p->end[k] = p->count;
    }
}

static void pack_sums(void *arg, size_t lanes, fli_cuda_layout *p)
{
    double **sums = arg;
    *sums = fli_cuda_layout_reserve(p, 2 * lanes * sizeof **sums);
}

/* Allocates zeroed sums for all parts. */
static fl_status begin_sums(fl_ctx *ctx, fli_engine_net *n, size_t count, fli_cuda_stream stream, double **sums)
{
    size_t lanes = count;
    fl_status s = fli_cuda_workspace_send(ctx, n->engine, &n->sums, pack_sums, sums, INFINITY, &lanes);
    if (!s && lanes < count) s = fli_fail(ctx, FL_ENOMEM, "the GPU has no memory left to evaluate models in");
    if (!s) fli_cuda_zero(stream, *sums, 2 * count * sizeof **sums);
    return s;
}

static fl_status end_sums(fl_ctx *ctx, fli_engine *e, const parts *p, const double *sums, fli_engine_eval *evals,
                          size_t count)
{
    double *here = fli_alloc(ctx, 2 * p->count, sizeof *here);
    if (!here) return FL_ENOMEM;
    e->does->read(e, 2 * p->count * sizeof *here, sums, here);
    for (size_t i = 0; i < p->count; i++) {
        evals[p->part[i].eval].loss += here[2 * i];
        evals[p->part[i].eval].correct += (size_t)here[2 * i + 1];
    }
    for (size_t i = 0; i < count; i++)
        if (evals[i].n) evals[i].loss /= (double)evals[i].n;
    fli_free(here);
    return e->does->status(e, ctx);
}

static block block_of(fli_engine_net *n, const fli_engine_data *data, const parts *p)
{
    return (block){.net = n,
                   .data = fli_cuda_engine_data(data),
                   .stream = fli_cuda_engine_stream(n->engine),
                   .numbers = p->numbers};
}

static fl_status evaluate_parts(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, const parts *p,
                                fli_engine_eval *evals, size_t count)
{
    block b = block_of(n, data, p);
    double *sums;
    fl_status s = begin_sums(ctx, n, p->count, b.stream, &sums);
    for (eval_kind k = PLAIN; !s && k <= ADDED; k++) {
        b.kind = k;
        s = do_parts(ctx, &b, p, k ? p->end[k - 1] : 0, p->end[k], sums);
    }
    return s ? s : end_sums(ctx, n->engine, p, sums, evals, count);
}

/* Zeroes the results; of an evaluation without samples, also the gradient. */
static void clear_results(fli_engine_net *n, fli_engine_eval *evals, size_t count)
{
    fli_cuda_stream stream = fli_cuda_engine_stream(n->engine);
    for (size_t i = 0; i < count; i++) {
        evals[i].loss = 0;
        evals[i].correct = 0;
        if (!evals[i].n && evals[i].gradient && !evals[i].add)
            fli_cuda_zero(stream, evals[i].gradient, fli_cuda_vector(n));
    }
}

fl_status fli_cuda_evaluate(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_eval *evals,
                            size_t count)
{
    parts p = {0};
    clear_results(n, evals, count);
    part_evals(n, evals, count, &p);
    if (!p.count) return FL_OK;
    fl_status s = alloc_parts(ctx, &p);
    if (!s) {
        part_evals(n, evals, count, &p);
        s = evaluate_parts(ctx, n, data, &p, evals, count);
    }
    free_parts(&p);
    return s;
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

static void part_outputs(const fli_engine_net *n, const fli_engine_outputs *o, size_t count, int logits, parts *p)
{
    for (size_t i = 0; i < count; i++)
        if (!o[i].logits == !logits)
            cut_part(n, (part){.x = o[i].x, .samples = o[i].samples, .n = o[i].n, .out = o[i].out, .logits = logits},
                     p);
}

static fl_status outputs_of_kind(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data,
                                 const fli_engine_outputs *o, size_t count, int logits)
{
    parts p = {0};
    part_outputs(n, o, count, logits, &p);
    if (!p.count) return FL_OK;
    fl_status s = alloc_parts(ctx, &p);
    if (!s) {
        block b = block_of(n, data, &p);
        b.kind = OUTPUT;
        part_outputs(n, o, count, logits, &p);
        s = do_parts(ctx, &b, &p, 0, p.count, NULL);
    }
    free_parts(&p);
    return s ? s : n->engine->does->status(n->engine, ctx);
}

fl_status fli_cuda_outputs(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_outputs *o,
                           size_t count)
{
    fl_status s = outputs_of_kind(ctx, n, data, o, count, 0);
    return s ? s : outputs_of_kind(ctx, n, data, o, count, 1);
}
