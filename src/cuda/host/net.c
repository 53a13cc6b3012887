/* A network as stages, and the memory that a block of lanes passes through. */
#include "cuda/host/net.h"

#include <string.h>

enum { LEAST_PIECE = 256, MOST_PIECE = 2048, ROOM_STEP = 8 };
enum { MOST_LANES = 32768 };             /* kernels use a grid dimension for lanes, which is limited to 65535 */
enum { MANY_LANES = 40 };                /* tuned on an H200 with 132 processors */
#define PIECE_BYTES (16.0 * 1024 * 1024) /* the most for a lane's activations and errors */

/* ---- stages -------------------------------------------------------------------------------------------- */

static int is_image(const fli_net_layer *l) { return l->kind != FLI_NET_FC; }
static int has_parameters(const fli_cuda_stage *t)
{
    return t->layer->kind == FLI_NET_FC || t->layer->kind == FLI_NET_CONV;
}

static void add_stage(fli_engine_net *n, size_t *at)
{
    const fli_network *w = &n->network;
    const fli_net_layer *l = &w->layer[(*at)++], *pool = NULL;
    const fli_cuda_stage *before = n->depth ? &n->stage[n->depth - 1] : NULL;
    if (l->kind == FLI_NET_CONV && *at < w->depth && w->layer[*at].kind == FLI_NET_MAX_POOL) pool = &w->layer[(*at)++];
    n->stage[n->depth++] = (fli_cuda_stage){.layer = l,
                                            .pool = pool,
                                            .in = fli_net_in(l),
                                            .out = fli_net_out(pool ? pool : l),
                                            .chw = is_image(l) && *at < w->depth && !is_image(&w->layer[*at]),
                                            .masked = before && before->layer->relu};
}

/* Reals of a row, forward and backward. */
static double row_reals(const fli_engine_net *n)
{
    double reals = (double)n->network.features;
    for (size_t l = 0; l < n->depth; l++) reals += (double)n->stage[l].in + (double)n->stage[l].out;
    return reals;
}

static void plan(fli_engine_net *n)
{
    for (size_t at = 0; at < n->network.depth;) add_stage(n, &at);
    while (!has_parameters(&n->stage[n->first])) n->first++;
    double rows = PIECE_BYTES / (row_reals(n) * (double)n->real);
    rows = rows > MOST_PIECE ? MOST_PIECE : rows < LEAST_PIECE ? LEAST_PIECE : rows;
    n->piece = (uint32_t)rows / ROOM_STEP * ROOM_STEP;
    n->block = MOST_LANES;
    n->many = MANY_LANES;
}

fl_status fli_cuda_net_new(fli_engine *e, fl_ctx *ctx, const fli_model *m, int tf32, fli_engine_net **out)
{
    fli_engine_net *n = fli_alloc(ctx, 1, sizeof *n);
    *out = NULL;
    if (!n) return FL_ENOMEM;
    if (!m->desc->network || !m->desc->network(m, &n->network)) {
        fli_free(n);
        return fli_fail(ctx, FL_ECONFIG,
                        "model %s does not run on a GPU: it is not a network of layers that are known there; use "
                        "device: cpu",
                        m->desc->name);
    }
    n->engine = e;
    n->model = m;
    n->real = m->space.ops->size;
    n->type = n->real == sizeof(double) ? FLI_CUDA_F64 : tf32 ? FLI_CUDA_TF32 : FLI_CUDA_F32;
    plan(n);
    *out = n;
    return FL_OK;
}

void fli_cuda_net_free(fli_engine_net *n)
{
    if (!n) return;
    fli_cuda_workspace_fini(n->engine, &n->work);
    fli_cuda_workspace_fini(n->engine, &n->sums);
    fli_free(n->lane);
    fli_free(n->own);
    fli_free(n->drawing);
    fli_free(n->op);
    fli_free(n->begin);
    fli_free(n);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

uint32_t fli_cuda_room(size_t rows) { return (uint32_t)((rows + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP); }

static int keeps_places(const fli_cuda_stage *t) { return t->pool || t->layer->kind == FLI_NET_MAX_POOL; }

/* The widest error at the inputs of stages with this parity. */
static size_t error_width(const fli_engine_net *n, size_t parity)
{
    size_t widest = 0;
    for (size_t l = n->first + 1; l < n->depth; l++)
        if ((l & 1) == parity && n->stage[l].in > widest) widest = n->stage[l].in;
    return widest;
}

static size_t conv_work(const fli_engine_net *n, size_t lanes, uint32_t room)
{
    size_t most = 0;
    for (size_t l = 0; l < n->depth; l++) {
        const fli_cuda_stage *t = &n->stage[l];
        if (t->layer->kind != FLI_NET_CONV) continue;
        size_t bytes = fli_cuda_conv_work(n->type, t->layer, t->pool, (uint32_t)lanes, room);
        if (bytes > most) most = bytes;
    }
    return most;
}

void fli_cuda_sweep_pack(const fli_engine_net *n, size_t lanes, uint32_t room, int flags, fli_cuda_layout *p,
                         fli_cuda_sweep *out)
{
    size_t rows = lanes * room, column = rows * n->real;
    *out = (fli_cuda_sweep){.lanes = (uint32_t)lanes, .room = room};
    for (size_t i = 0; i < (flags & FLI_SWEEP_FUSED ? 2 : 1); i++)
        out->x[i] = fli_cuda_layout_reserve(p, column * n->network.features);
    for (size_t l = 0; l < n->depth; l++) {
        const fli_cuda_stage *t = &n->stage[l];
        out->h[l] = fli_cuda_layout_reserve(p, column * t->out);
        if (keeps_places(t)) out->which[l] = fli_cuda_layout_reserve(p, rows * t->out);
    }
    for (size_t i = 0; i < 2 && flags & FLI_SWEEP_BACK; i++)
        out->error[i] = fli_cuda_layout_reserve(p, column * error_width(n, i));
    if (flags & FLI_SWEEP_PAIR) out->p = fli_cuda_layout_reserve(p, column * n->network.classes);
    out->work = fli_cuda_layout_reserve(p, conv_work(n, lanes, room));
}

double fli_cuda_net_bytes(const fli_engine_net *n, size_t lanes, size_t batch, int momentum)
{
    size_t rows = batch < n->piece ? batch : n->piece, vectors = (momentum != 0) + (batch > n->piece);
    uint32_t room = fli_cuda_room(rows);
    double reals = (double)n->network.features + (double)error_width(n, 0) + (double)error_width(n, 1), places = 0;
    if (fli_cuda_fc_fused_step_fits(n->type, n->stage[0].layer, (uint32_t)rows)) reals += (double)n->network.features;
    for (size_t l = 0; l < n->depth; l++) {
        reals += (double)n->stage[l].out;
        if (keeps_places(&n->stage[l])) places += (double)n->stage[l].out;
    }
    return (double)lanes * (room * (reals * (double)n->real + places) + (double)(vectors * fli_cuda_vector(n))) +
           (double)conv_work(n, lanes, room);
}

fl_status fli_cuda_net_tables(fl_ctx *ctx, fli_engine_net *n, size_t lanes)
{
    size_t old = n->lanes_room;
    if (lanes <= old) return FL_OK;
    n->lanes_room = 0; /* if one allocation fails, the next call repeats all */
    fl_status s = fli_grow(ctx, (void **)&n->lane, 0, lanes, sizeof *n->lane);
    if (!s) s = fli_grow(ctx, (void **)&n->own, 0, lanes, sizeof *n->own);
    if (!s) s = fli_grow(ctx, (void **)&n->drawing, 0, lanes, sizeof *n->drawing);
    if (!s) s = fli_grow(ctx, (void **)&n->op, 0, FLI_START_TAPE_OPS * lanes, sizeof *n->op);
    if (!s) s = fli_grow(ctx, (void **)&n->begin, 0, lanes + 1, sizeof *n->begin);
    if (!s) n->lanes_room = lanes;
    return s;
}

/* ---- beginnings ---------------------------------------------------------------------------------------- */

fli_cuda_start_tape fli_cuda_start_tape_new(fli_engine_net *n)
{
    n->begin[0] = 0;
    return (fli_cuda_start_tape){n,
                                 {.ops = n->model->space.ops,
                                  .n = n->network.parameters,
                                  .op = n->op,
                                  .room = FLI_START_TAPE_OPS * n->lanes_room,
                                  .begin = n->begin,
                                  .lanes_room = n->lanes_room}};
}

void fli_cuda_start_tape_lane(fli_cuda_start_tape *b) { b->tape.begin[++b->tape.lanes] = (uint32_t)b->tape.count; }

static void record(fli_cuda_start_tape *b, fli_tape_op op)
{
    b->tape.op[b->tape.count++] = op;
    b->tape.begin[b->tape.lanes] = (uint32_t)b->tape.count;
}

void fli_cuda_start_tape_copy(fli_cuda_start_tape *b, const void *from, void *to)
{
    record(b, (fli_tape_op){.kind = FLI_TAPE_COPY, .x = from, .out = to});
}

void fli_cuda_start_tape_zero(fli_cuda_start_tape *b, void *to)
{
    if (to) record(b, (fli_tape_op){.kind = FLI_TAPE_FILL, .out = to});
}

void fli_cuda_start_tape_sum(fli_cuda_start_tape *b, const void *x, double factor, const void *y, void *to)
{
    record(b, (fli_tape_op){.kind = FLI_TAPE_LIN, .a = 1, .x = x, .b = factor, .y = y, .out = to});
}

void fli_cuda_start_tape_play(fli_cuda_start_tape *b)
{
    if (b->tape.count) b->net->engine->does->play(b->net->engine, &b->tape);
}

fli_cuda_loss fli_cuda_loss_of(const fli_engine_net *n, const fli_cuda_data *data, const fli_semi *semi)
{
    return (fli_cuda_loss){.loss = n->network.loss,
                           .classes = (uint32_t)n->network.classes,
                           .label = data->label,
                           .alpha_p = semi ? semi->alpha_p : 0,
                           .alpha_r = semi ? semi->alpha_r : 0};
}
