/* A mini-batch through the layers and back. */
#include "cuda/host/net.h"

static const void *input_of(const fli_cuda_pass *p, size_t l) { return l ? p->sweep->h[l - 1] : p->sweep->x[p->side]; }

void fli_cuda_pass_gather(const fli_cuda_pass *p)
{
    int image = p->net->stage[0].layer->kind != FLI_NET_FC;
    fli_cuda_gather(p->stream, p->net->type, p->data, &p->batch, image, p->sweep->x[p->side]);
}

static void forward(const fli_cuda_pass *p, size_t l)
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
    for (size_t l = 0; l < p->net->depth; l++) forward(p, l);
    return p->sweep->h[p->net->depth - 1];
}

/* The error at a stage's input. */
static void below(const fli_cuda_pass *p, size_t l, const void *error)
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

static void step(const fli_cuda_pass *p, size_t l, const void *error, int add)
{
    const fli_cuda_stage *t = &p->net->stage[l];
    const fli_cuda_sweep *w = p->sweep;
    const void *in = input_of(p, l);
    if (!l && p->next && p->bytes)
        fli_cuda_fc_link_bytes(p->stream, p->net->type, t->layer, &p->batch, p->next, p->data, error, w->h[0]);
    else if (!l && p->next)
        fli_cuda_fc_link(p->stream, p->net->type, t->layer, &p->batch, p->next, error, in, w->x[!p->side], w->h[0]);
    else if (t->layer->kind == FLI_NET_FC)
        fli_cuda_fc_step(p->stream, p->net->type, t->layer, &p->batch, error, in, add);
    else if (t->layer->kind == FLI_NET_CONV)
        fli_cuda_conv_step(p->stream, p->net->type, t->layer, t->pool, &p->batch, error, t->chw, w->which[l], in, add,
                           w->work);
}

/* Down from stage `top`, at whose output the error is. The error below is computed with the weights before the step. */
static void down(const fli_cuda_pass *p, size_t top, const void *error, int add)
{
    for (size_t l = top + 1; l-- > p->net->first;) {
        if (l > p->net->first) below(p, l, error);
        step(p, l, error, add);
        error = p->sweep->error[l & 1];
    }
}

void fli_cuda_pass_backward(const fli_cuda_pass *p, int add)
{
    size_t last = p->net->depth - 1;
    down(p, last, p->sweep->h[last], add);
}

void fli_cuda_pass_at_once(const fli_cuda_pass *p, int add)
{
    size_t last = p->net->depth - 1, top = p->two ? last - 1 : last;
    const fli_cuda_stage *t = &p->net->stage[top], *end = &p->net->stage[last];
    void *error = top > p->net->first ? p->sweep->error[top & 1] : NULL;
    for (size_t l = p->begun ? 1 : 0; l < top; l++) forward(p, l);
    if (p->two)
        fli_cuda_fc_tail_two(p->stream, p->net->type, t->layer, end->layer, &p->loss, &p->batch, input_of(p, top),
                             t->masked, error, add);
    else
        fli_cuda_fc_tail(p->stream, t->layer, &p->loss, &p->batch, input_of(p, top), t->masked, error, add);
    if (top > p->net->first) down(p, top - 1, error, add);
}
