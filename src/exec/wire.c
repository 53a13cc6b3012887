#include "exec/wire.h"

#include <string.h>

static size_t part_bytes(const fli_part *p, const fli_model *m)
{
    size_t first;
    if (p->what == FLI_NUMBER) return fli_part_numbers(p) * sizeof(double);
    return fli_part_range(p, m->space.n, fli_model_upper(m), &first) * m->space.ops->size;
}

size_t fli_wire_bytes(const fli_part *parts, unsigned moment, const fli_model *m)
{
    size_t bytes = 0;
    for (; parts && parts->name; parts++)
        if (fli_part_sent(parts, moment)) bytes += part_bytes(parts, m);
    return bytes;
}

/* Elements of `size` bytes, from this machine's order to little-endian or back. */
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
    fli_part_range(p, m->space.n, fli_model_upper(m), &first);
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

fl_status fli_wire_read(fl_ctx *ctx, const fli_part *parts, unsigned moment, const fli_model *m,
                        const unsigned char *in, size_t n, fli_message *to, void *start)
{
    if (n != fli_wire_bytes(parts, moment, m))
        return fli_fail(ctx, FL_EFORMAT, "a message has %zu bytes, but its parts have %zu", n,
                        fli_wire_bytes(parts, moment, m));
    for (; parts && parts->name; parts++) {
        if (!fli_part_sent(parts, moment)) continue;
        size_t bytes = part_bytes(parts, m);
        if (parts->what == FLI_START) to->start = start;
        copy(parts->what == FLI_START ? start : place(parts, m, to), in, bytes, element(parts, m));
        in += bytes;
    }
    return FL_OK;
}

void fli_wire_of(const fli_model *m, size_t classes, const fli_algo *a, const void *params, const fli_ask *ask,
                 fli_wire *out)
{
    out->moment = fli_algo_moment(a, params, ask);
    out->down = a->down;
    out->up = a->up;
    if (ask->kind == FLI_ASK_TURN) return;
    fli_figures_parts(ask, fli_parts_numbers(a->down), fli_figures_cells(m, classes), out->room[0], out->room[1]);
    out->down = out->room[0];
    out->up = out->room[1];
}

size_t fli_wire_down(const fli_wire *w, const fli_model *m, const fli_ask *ask)
{
    return ask->flags & FLI_ASK_CHANGED ? fli_wire_bytes(w->down, w->moment, m) : 0;
}

size_t fli_wire_up(const fli_wire *w, const fli_model *m, const fli_ask *ask)
{
    return ask->flags & FLI_ASK_REPLY ? fli_wire_bytes(w->up, w->moment, m) : 0;
}
