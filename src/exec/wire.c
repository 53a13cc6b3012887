#include "exec/wire.h"

#include "base/bytes.h"
#include "exec/figures.h"

#include <string.h>

static size_t upper_of(const fli_model *m) { return m->bilevel ? m->bilevel->upper : m->space.n; }

static size_t part_bytes(const fli_part *p, const fli_model *m)
{
    size_t first;
    if (p->what == FLI_NUMBER) return (p->count ? p->count : 1) * sizeof(double);
    return fli_part_range(p, m->space.n, upper_of(m), &first) * m->space.ops->size;
}

size_t fli_wire_bytes(const fli_part *parts, unsigned moment, const fli_model *m)
{
    size_t bytes = 0;
    for (; parts && parts->name; parts++)
        if (fli_part_sent(parts, moment)) bytes += part_bytes(parts, m);
    return bytes;
}

/* Elements of `size` bytes, in this machine's order or from it: the same either way. */
static void copy(void *to, const void *from, size_t bytes, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)size;
    memcpy(to, from, bytes);
#else
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i - i % size + size - 1 - i % size];
#endif
}

/* Where a part lies in a message. */
static void *place(const fli_part *p, const fli_model *m, const fli_message *message)
{
    size_t first;
    if (p->what == FLI_NUMBER) return message->num + p->at;
    fli_part_range(p, m->space.n, upper_of(m), &first);
    return fli_at(m->space.ops, message->vec[p->at], first);
}

static size_t element(const fli_part *p, const fli_model *m)
{
    return p->what == FLI_NUMBER ? sizeof(double) : m->space.ops->size;
}

void fli_wire_write(const fli_part *parts, unsigned moment, const fli_model *m, const fli_message *from,
                    unsigned char *out)
{
    for (; parts && parts->name; parts++) {
        if (!fli_part_sent(parts, moment)) continue;
        size_t bytes = part_bytes(parts, m);
        copy(out, parts->what == FLI_START ? from->start : place(parts, m, from), bytes, element(parts, m));
        out += bytes;
    }
}

void fli_wire_read(const fli_part *parts, unsigned moment, const fli_model *m, const unsigned char *in, fli_message *to,
                   void *start)
{
    for (; parts && parts->name; parts++) {
        if (!fli_part_sent(parts, moment)) continue;
        size_t bytes = part_bytes(parts, m);
        if (parts->what == FLI_START) to->start = start;
        copy(parts->what == FLI_START ? start : place(parts, m, to), in, bytes, element(parts, m));
        in += bytes;
    }
}

void fli_wire_of(const fli_model *m, size_t classes, const fli_algo *a, const void *params, const fli_ask *ask,
                 fli_wire *out)
{
    out->moment = fli_algo_moment(a, params, ask);
    out->down = a->down;
    out->up = a->up;
    if (ask->kind == FLI_ASK_TURN) return;
    fli_figures_up(ask, fli_figures_cells(m, classes), out->room);
    out->down = fli_figures_down;
    out->up = out->room;
}

size_t fli_wire_down(const fli_wire *w, const fli_model *m, const fli_ask *ask)
{
    return ask->flags & FLI_ASK_NEWS ? fli_wire_bytes(w->down, w->moment, m) : 0;
}

size_t fli_wire_up(const fli_wire *w, const fli_model *m, const fli_ask *ask)
{
    return ask->flags & FLI_ASK_REPLY ? fli_wire_bytes(w->up, w->moment, m) : 0;
}

void fli_outcome_write(const fli_exchange *x, unsigned char *out)
{
    out = fli_put_u64(out, x->spent, 8);
    out = fli_put_u64(out, x->missed != 0, 4);
    out = fli_put_u64(out, x->own_diverged != 0, 4);
    fli_put_u64(out, (uint64_t)x->status, 4);
}

fl_status fli_outcome_read(fl_ctx *ctx, const unsigned char *in, fli_exchange *x)
{
    uint64_t missed, own, status;
    in = fli_get_u64(in, &x->spent, 8);
    in = fli_get_u64(in, &missed, 4);
    in = fli_get_u64(in, &own, 4);
    fli_get_u64(in, &status, 4);
    if (missed > 1 || own > 1 || status > FL_ESYSTEM)
        return fli_fail(ctx, FL_EFORMAT, "client %u: it says that its turn went in a way that there is not",
                        x->ask.client);
    x->missed = (int)missed;
    x->own_diverged = (int)own;
    x->status = (fl_status)status;
    return FL_OK;
}
