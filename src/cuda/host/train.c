/* Turns of many clients: all lanes of a block make a step together, and lanes that are done drop out at the end of the
 * list. No function here waits for the device. */
#include "cuda/host/net.h"

#include <math.h>

/* A block of lanes: turns->lane[first ...]. */
typedef struct {
    fli_engine_net *net;
    const fli_engine_turns *turns;
    const fli_engine_lane *lane;
    uint32_t rows, room; /* rows of a lane computed at a time; rows with room */
    int pair;
    int split;        /* a mini-batch is longer than a piece: gradients are added up before a step */
    int small;        /* whole turns in one kernel, by a block of threads; */
    uint32_t cluster; /* or by clusters of this many blocks; 0: layer by layer, with */
    int last;         /* the last layer and the losses in one kernel, */
    int two;          /* the layer below them, too, */
    int fused;        /* and the first layer's step and its next outputs, */
    int bytes;        /* which reads byte samples where they are stored */
    /* on the device: */
    const fli_cuda_lane *lanes_there, *own_there;
    const fli_cuda_drawing *drawing_there;
    fli_cuda_sweep sweep;
} block;

static int takes_whole(const block *b) { return b->small || b->cluster; }

/* ---- the memory of lanes ------------------------------------------------------------------------------- */

static size_t batch_of(const fli_engine_pass *p) { return p->size < p->n ? p->size : p->n; }

/* How many sample numbers are drawn for a pass in all steps; if all samples fit into one batch, it is drawn once. */
static size_t drawn(const fli_engine_pass *p, uint32_t steps)
{
    return p->size < p->n ? (size_t)steps * p->size : p->n;
}
static uint32_t stride_of(const fli_engine_pass *p) { return p->size < p->n ? p->size : 0; }

static fli_cuda_drawing pack_drawing(const fli_engine_lane *l, const uint32_t *samples, fli_cuda_layout *p)
{
    fli_cuda_drawing d = {.samples = samples,
                          .n = l->plain.n,
                          .size = l->plain.size,
                          .rest_n = l->rest.n,
                          .rest_size = l->rest.size,
                          .steps = l->steps,
                          .key = {l->rng.key[0], l->rng.key[1]},
                          .left = l->rng.left};
    memcpy(d.ctr, l->rng.ctr, sizeof d.ctr);
    memcpy(d.out, l->rng.out, sizeof d.out);
    d.order = fli_cuda_layout_reserve(p, drawn(&l->plain, l->steps) * sizeof *d.order);
    d.rest = fli_cuda_layout_reserve(p, drawn(&l->rest, l->steps) * sizeof *d.rest);
    d.work = fli_cuda_layout_reserve(p, FLI_CUDA_DRAW_WORK * ((size_t)l->plain.n + l->rest.n) * sizeof *d.work);
    return d;
}

static const double *pack_rates(const double *rates, uint32_t steps, fli_cuda_layout *p)
{
    return rates ? fli_cuda_layout_copy(p, rates, 2 * (size_t)steps * sizeof *rates) : NULL;
}

/* Packs the vectors that steps write besides the model. */
static void pack_vectors(const block *b, fli_cuda_lane *lane, fli_cuda_layout *p)
{
    size_t bytes = fli_cuda_vector(b->net);
    if (b->turns->momentum > 0) lane->buffer = fli_cuda_layout_reserve(p, bytes);
    if (b->split) lane->gradient = fli_cuda_layout_reserve(p, bytes);
}

/* shift + rho (z - anchor) is rho z and a vector times a number. A lane with both, as solvers leave it for few steps,
 * has room for their sum. */
static int has_both(const fli_engine_lane *l) { return l->shift && l->anchor; }
static void pack_term(const block *b, const fli_engine_lane *l, fli_cuda_lane *lane, fli_cuda_layout *p)
{
    lane->rho = l->anchor ? l->rho : 0;
    lane->times = l->shift ? 1 : -lane->rho;
    lane->term = has_both(l) ? fli_cuda_layout_reserve(p, fli_cuda_vector(b->net)) : l->shift ? l->shift : l->anchor;
}

static fli_cuda_lane pack_lane(const block *b, const fli_engine_lane *l, const fli_cuda_drawing *d, fli_cuda_layout *p)
{
    fli_cuda_lane lane = {.z = l->z,
                          .start = takes_whole(b) ? l->start : NULL,
                          .rates = pack_rates(l->rates, l->steps, p),
                          .lr = l->lr,
                          .wd = l->wd,
                          .momentum = b->turns->momentum,
                          .order = d->order,
                          .rest = d->rest,
                          .n = l->plain.n,
                          .size = l->plain.size,
                          .stride = stride_of(&l->plain),
                          .rest_n = l->rest.n,
                          .rest_size = l->rest.size,
                          .rest_stride = stride_of(&l->rest),
                          .steps = l->steps,
                          .key = {l->rng.key[0], l->rng.key[1]},
                          .round = l->rng.ctr[2],
                          .client = l->rng.ctr[3],
                          .mix = l->mix};
    lane.rest_sample = fli_cuda_layout_copy(p, l->rest.samples, l->rest.n * sizeof *l->rest.samples);
    lane.y = fli_cuda_layout_copy(p, l->y, l->rest.n * b->net->network.classes * b->net->real);
    pack_term(b, l, &lane, p);
    pack_vectors(b, &lane, p);
    return lane;
}

/* Packs the own model of a pair: the same mini-batches, other parameters and rates. */
static fli_cuda_lane pack_own(const block *b, const fli_engine_lane *l, const fli_cuda_lane *like, fli_cuda_layout *p)
{
    fli_cuda_lane lane = *like;
    lane.z = l->own_z;
    lane.term = lane.buffer = lane.gradient = NULL;
    lane.rates = pack_rates(l->own_rates, l->steps, p);
    lane.lr = l->own_lr;
    lane.wd = l->own_wd;
    lane.rho = 0;
    pack_vectors(b, &lane, p);
    return lane;
}

static void pack(void *arg, size_t lanes, fli_cuda_layout *p)
{
    block *b = arg;
    fli_engine_net *n = b->net;
    for (size_t i = 0; i < lanes; i++) {
        const fli_engine_lane *l = &b->lane[i];
        const uint32_t *samples = fli_cuda_engine_list(b->turns->data, l->plain.samples, l->plain.n);
        if (!samples) samples = fli_cuda_layout_copy(p, l->plain.samples, l->plain.n * sizeof *l->plain.samples);
        n->drawing[i] = pack_drawing(l, samples, p);
        n->lane[i] = pack_lane(b, l, &n->drawing[i], p);
        if (b->pair) n->own[i] = pack_own(b, l, &n->lane[i], p);
    }
    b->drawing_there = fli_cuda_layout_copy(p, n->drawing, lanes * sizeof *n->drawing);
    b->lanes_there = fli_cuda_layout_copy(p, n->lane, lanes * sizeof *n->lane);
    if (b->pair) b->own_there = fli_cuda_layout_copy(p, n->own, lanes * sizeof *n->own);
    int flags = FLI_SWEEP_BACK | (b->pair ? FLI_SWEEP_PAIR : 0) | (b->fused && !b->bytes ? FLI_SWEEP_FUSED : 0);
    if (!takes_whole(b)) fli_cuda_sweep_pack(n, lanes, b->room, flags, p, &b->sweep);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* Kernels of whole turns read the start elsewhere than in z, and skip lanes without steps; others start at z. */
static int starts_at_z(const block *b, const fli_engine_lane *l) { return !takes_whole(b) || !l->steps || !l->plain.n; }

/* Sets all vectors for the first step. */
static void set_start_vectors(const block *b, size_t lanes)
{
    fli_engine_net *n = b->net;
    fli_cuda_start_tape t = fli_cuda_start_tape_new(n);
    for (size_t i = 0; i < lanes; i++) {
        const fli_engine_lane *l = &b->lane[i];
        fli_cuda_start_tape_lane(&t);
        if (starts_at_z(b, l)) fli_cuda_start_tape_copy(&t, l->start, n->lane[i].z);
        fli_cuda_start_tape_zero(&t, n->lane[i].buffer);
        if (has_both(l)) fli_cuda_start_tape_sum(&t, l->shift, -l->rho, l->anchor, (void *)n->lane[i].term);
        if (!b->pair) continue;
        fli_cuda_start_tape_copy(&t, l->own_start, n->own[i].z);
        fli_cuda_start_tape_zero(&t, n->own[i].buffer);
    }
    fli_cuda_start_tape_play(&t);
}

/* Computes errors and steps of one piece. */
static void train_piece(const block *b, fli_cuda_pass *p)
{
    int add = p->batch.first > 0;
    fli_cuda_type type = b->net->type;
    p->batch.lane = b->lanes_there;
    fli_cuda_pass_gather(p);
    if (b->last) {
        fli_cuda_pass_at_once(p, add);
        return;
    }
    void *z = fli_cuda_pass_forward(p);
    if (b->pair)
        fli_cuda_rows_pair_global(p->stream, type, &p->loss, &p->batch, z, b->sweep.p);
    else
        fli_cuda_rows_error(p->stream, type, &p->loss, &p->batch, z);
    fli_cuda_pass_backward(p, add);
    if (!b->pair) return;
    p->batch.lane = b->own_there;
    z = fli_cuda_pass_forward(p);
    fli_cuda_rows_pair_own(p->stream, type, &p->loss, &p->batch, b->sweep.p, z);
    fli_cuda_pass_backward(p, add);
}

/* Rows of the longest mini-batch of this step. */
static uint32_t longest(const block *b, uint32_t lanes, uint32_t k)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < lanes; i++) {
        const fli_engine_pass *plain = &b->lane[i].plain, *rest = &b->lane[i].rest;
        uint32_t rows = fli_cuda_drawn(plain->n, plain->size, k) + fli_cuda_drawn(rest->n, rest->size, k);
        if (rows > most) most = rows;
    }
    return most;
}

static void train_step(const block *b, fli_cuda_pass *p)
{
    uint32_t rows = b->split ? longest(b, p->batch.lanes, p->batch.step) : b->rows;
    for (p->batch.first = 0; p->batch.first < rows; p->batch.first += b->rows) train_piece(b, p);
    if (!b->split) return;
    p->batch.lane = b->lanes_there;
    fli_cuda_sgd(p->stream, b->net->type, &p->batch, b->net->network.parameters);
    p->batch.lane = b->own_there;
    if (b->pair) fli_cuda_sgd(p->stream, b->net->type, &p->batch, b->net->network.parameters);
}

/* How many of the first `lanes` lanes take step k. */
static uint32_t going(const block *b, uint32_t lanes, uint32_t k)
{
    while (lanes && b->lane[lanes - 1].steps <= k) lanes--;
    return lanes;
}

/* The same for consecutive steps: the next mini-batch is gathered before a step ends, and the first layer's kernel
 * makes this step and the next outputs. */
static void train_fused(const block *b, fli_cuda_pass *p)
{
    p->batch.lane = b->lanes_there;
    if (!p->begun) fli_cuda_pass_gather(p);
    fli_cuda_pass after = *p;
    after.side = !p->side;
    after.batch.step++;
    after.batch.lanes = going(b, p->batch.lanes, after.batch.step);
    if (after.batch.lanes && !b->bytes) fli_cuda_pass_gather(&after);
    if (after.batch.lanes || b->bytes) p->next = &after.batch;
    fli_cuda_pass_at_once(p, 0);
    p->next = NULL;
    p->side = after.side;
    p->begun = 1;
}

static void train_layers(const block *b, size_t lanes, const fli_cuda_data *data, fli_cuda_stream stream)
{
    fli_cuda_pass p = {.net = b->net,
                       .data = data,
                       .sweep = &b->sweep,
                       .stream = stream,
                       .bytes = b->bytes,
                       .two = b->two,
                       .batch = {.most = b->rows,
                                 .room = b->room,
                                 .augment = data->augment,
                                 .lanes_at_start = (uint32_t)b->turns->lanes},
                       .loss = fli_cuda_loss_of(b->net, data, b->turns->semi)};
    p.batch.lanes = (uint32_t)lanes;
    for (uint32_t k = 0; (p.batch.lanes = going(b, p.batch.lanes, k)) > 0; k++) {
        p.batch.step = k;
        if (b->fused)
            train_fused(b, &p);
        else
            train_step(b, &p);
    }
}

/* batch: the largest mini-batch. */
static void train_lanes(const block *b, size_t lanes, const fli_cuda_data *data, fli_cuda_stream stream, uint32_t batch)
{
    const fli_engine_net *n = b->net;
    const fli_cuda_lane *lane = b->lanes_there;
    if (b->small)
        fli_cuda_small_turns(stream, n->type, &n->network, data, lane, (uint32_t)lanes, batch);
    else if (b->cluster)
        fli_cuda_wide_turns(stream, n->type, &n->network, data, lane, (uint32_t)lanes, batch, b->cluster);
    else
        train_layers(b, lanes, data, stream);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* The common properties of a call's lanes. *batch: the largest mini-batch. */
static block block_of(fli_engine_net *n, const fli_engine_turns *turns, const fli_cuda_data *data, size_t *batch)
{
    block b = {.net = n, .turns = turns, .pair = turns->lane[0].own_z != NULL};
    int plain = !b.pair;
    for (size_t i = 0; i < turns->lanes; i++) {
        const fli_engine_lane *l = &turns->lane[i];
        size_t rows = batch_of(&l->plain) + batch_of(&l->rest);
        if (rows > *batch) *batch = rows;
        plain &= !l->rest.n;
    }
    b.split = *batch > n->piece;
    b.small = plain && fli_cuda_small_fits(n->type, &n->network, data, (uint32_t)*batch);
    if (plain && !b.small)
        b.cluster = fli_cuda_wide_cluster(n->type, &n->network, data, (uint32_t)*batch, (uint32_t)turns->lanes);
    if (takes_whole(&b)) b.split = 0;
    b.rows = b.split ? n->piece : (uint32_t)*batch;
    b.room = fli_cuda_room(b.rows);
    fli_cuda_loss loss = fli_cuda_loss_of(n, data, turns->semi);
    b.last = plain && fli_cuda_fc_last_fits(n->type, n->stage[n->depth - 1].layer, &loss, b.rows);
    b.two =
        b.last && n->depth > 2 && turns->lanes >= n->many &&
        fli_cuda_fc_last_two_fits(n->type, n->stage[n->depth - 2].layer, n->stage[n->depth - 1].layer, &loss, b.rows);
    b.fused = b.last && !b.split && n->depth > 1 && fli_cuda_fc_fused_step_fits(n->type, n->stage[0].layer, b.rows);
    b.bytes = b.fused && fli_cuda_fc_fused_step_bytes_fits(n->type, n->stage[0].layer, data, b.rows);
    return b;
}

fl_status fli_cuda_train(fl_ctx *ctx, fli_engine_net *n, const fli_engine_turns *turns)
{
    const fli_cuda_data *data = fli_cuda_engine_data(turns->data);
    fli_cuda_stream stream = fli_cuda_engine_stream(n->engine);
    size_t batch = 0;
    if (!turns->lanes) return FL_OK;
    block b = block_of(n, turns, data, &batch);
    for (size_t first = 0, lanes; first < turns->lanes; first += lanes) {
        lanes = turns->lanes - first < n->block ? turns->lanes - first : n->block;
        b.lane = turns->lane + first;
        fl_status s = fli_cuda_net_tables(ctx, n, lanes);
        if (!s) s = fli_cuda_workspace_send(ctx, n->engine, &n->work, pack, &b, INFINITY, &lanes);
        if (s) return s;
        fli_cuda_draw(stream, b.drawing_there, (uint32_t)lanes);
        set_start_vectors(&b, lanes);
        train_lanes(&b, lanes, data, stream, (uint32_t)batch);
    }
    return n->engine->does->status(n->engine, ctx);
}
