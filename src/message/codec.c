#include "message/codec.h"

#include <string.h>

/* ==== the parts of a message ================================================================================ */

fli_sent_parts fli_parts_walk(const fl_part *parts, unsigned moment, const fli_model *m, const fli_entries *range)
{
    return (fli_sent_parts){parts, moment, m, range ? *range : (fli_entries){0, m->space.n}, {0}};
}

/* The elements of the part that lie in the range. */
static fli_sent_part within(const fl_part *p, const fli_model *m, fli_entries range)
{
    size_t first = 0;
    if (p->what == FL_PART_NUMBER) return (fli_sent_part){p, 0, fli_part_numbers(p), sizeof(double)};
    size_t count = fli_part_range(p, m->space.n, fli_model_upper(m), &first), end = first + count;
    if (first < range.from) first = range.from;
    if (end > range.to) end = range.to;
    return (fli_sent_part){p, first, end > first ? end - first : 0, m->space.ops->size};
}

int fli_parts_next(fli_sent_parts *w)
{
    const fl_part *p = w->next;
    while (p && p->name && !fli_part_sent(p, w->moment)) p++;
    if (!p || !p->name) return 0;
    w->is = within(p, w->model, w->range);
    w->next = p + 1;
    return 1;
}

void *fli_sent_place(const fli_sent_part *p, const fli_model *m, const fli_message *message, void *start)
{
    if (p->part->what == FL_PART_NUMBER) return message->num + p->part->at;
    return fli_at(m->space.ops, p->part->what == FL_PART_START ? start : message->vec[p->part->at], p->first);
}

/* Converts elements of `size` bytes from this machine's byte order to little-endian, or back. */
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

/* Whether the part lies at the message's place; then only the place can read and write it. */
static int at_place(const fli_sent_part *p, const fli_message *message)
{
    return message->place && p->part->what != FL_PART_NUMBER && p->part->what != FL_PART_START;
}

void fli_sent_write(const fli_sent_part *p, const fli_model *m, const fli_message *from, void *out)
{
    size_t bytes = fli_sent_bytes(p);
    if (!bytes) return;
    const void *place = fli_sent_place(p, m, from, (void *)from->start);
    if (at_place(p, from))
        fli_vector_read(&(fl_space){.place = from->place}, bytes, place, out);
    else
        copy(out, place, bytes, p->size);
}

void fli_sent_read(const fli_sent_part *p, const fli_model *m, const void *in, fli_message *to, void *start)
{
    size_t bytes = fli_sent_bytes(p);
    if (p->part->what == FL_PART_START) to->start = start;
    if (!bytes) return;
    void *place = fli_sent_place(p, m, to, start);
    if (at_place(p, to))
        fli_vector_write(&(fl_space){.place = to->place}, bytes, in, place);
    else if (place != in)
        copy(place, in, bytes, p->size);
}

/* ==== bytes, one part after the other ======================================================================= */

size_t fli_wire_slice_bytes(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range)
{
    size_t bytes = 0;
    for (fli_sent_parts w = fli_parts_walk(parts, moment, m, &range); fli_parts_next(&w);)
        bytes += fli_sent_bytes(&w.is);
    return bytes;
}

static fli_entries whole(const fli_model *m) { return (fli_entries){0, m->space.n}; }

size_t fli_wire_bytes(const fl_part *parts, unsigned moment, const fli_model *m)
{
    return fli_wire_slice_bytes(parts, moment, m, whole(m));
}

void fli_wire_slice_write(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                          const fli_message *from, unsigned char *out)
{
    for (fli_sent_parts w = fli_parts_walk(parts, moment, m, &range); fli_parts_next(&w);) {
        fli_sent_write(&w.is, m, from, out);
        out += fli_sent_bytes(&w.is);
    }
}

void fli_wire_slice_read(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                         const unsigned char *in, fli_message *to, void *start)
{
    for (fli_sent_parts w = fli_parts_walk(parts, moment, m, &range); fli_parts_next(&w);) {
        fli_sent_read(&w.is, m, in, to, start);
        in += fli_sent_bytes(&w.is);
    }
}

fl_status fli_wire_slice_pieces(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                                const fli_message *of, fli_wire_piece *visit, void *arg)
{
    fl_status s = FL_OK;
    for (fli_sent_parts w = fli_parts_walk(parts, moment, m, &range); !s && fli_parts_next(&w);) {
        size_t bytes =
            w.is.part->what == FL_PART_NUMBER || w.is.part->what == FL_PART_START ? 0 : fli_sent_bytes(&w.is);
        if (bytes) s = visit(arg, fli_sent_place(&w.is, m, of, NULL), bytes);
    }
    return s;
}

void fli_wire_write(const fl_part *parts, unsigned moment, const fli_model *m, const fli_message *from,
                    unsigned char *out)
{
    fli_wire_slice_write(parts, moment, m, whole(m), from, out);
}

fl_status fli_wire_read(fl_ctx *ctx, const fl_part *parts, unsigned moment, const fli_model *m, const unsigned char *in,
                        size_t n, fli_message *to, void *start)
{
    if (n != fli_wire_bytes(parts, moment, m))
        return fli_fail(ctx, FL_EFORMAT, "a message has %zu bytes, but its parts have %zu", n,
                        fli_wire_bytes(parts, moment, m));
    fli_wire_slice_read(parts, moment, m, whole(m), in, to, start);
    return FL_OK;
}

static void levels_parts(const fl_ask *ask, fl_part *down, fl_part *up)
{
    *down++ = (fl_part){"(x, y)", FL_PART_VECTOR, 0};
    if (ask->flags & FLI_LEVELS_PRODUCT) *down++ = (fl_part){"v", FL_PART_LOWER, 1};
    *down = (fl_part){NULL};
    *up++ = (fl_part){"derivative", ask->flags & FLI_LEVELS_LOWER ? FL_PART_LOWER : FL_PART_VECTOR, 0, FL_PART_VALUE};
    if (ask->flags & FLI_LEVELS_UPPER) *up++ = (fl_part){"f_i", FL_PART_NUMBER, 0, FL_PART_VALUE};
    *up = (fl_part){NULL};
}

/* The parts of messages for all asks but turns. `numbers`: how many numbers the method sends down. */
static void figures_parts(const fl_ask *ask, size_t numbers, size_t cells, fl_part down[FLI_FIGURES_PARTS],
                          fl_part up[FLI_FIGURES_PARTS])
{
    int model = ask->kind == FLI_ASK_OWN_MODEL;
    if (ask->kind == FLI_ASK_LEVELS) {
        levels_parts(ask, down, up);
        return;
    }
    *down++ = (fl_part){"x", FL_PART_VECTOR, 0};
    if (model || ask->flags & (FLI_FIGURES_OWN | FLI_FIGURES_POTENTIAL)) *down++ = (fl_part)FLI_START_PART;
    if (!model && ask->flags & FLI_FIGURES_POTENTIAL && numbers)
        *down++ = (fl_part){"numbers", FL_PART_NUMBER, 0, FL_PART_FORGET, 0, numbers};
    *down = (fl_part){NULL};
    *up++ = (fl_part){"figures", FL_PART_NUMBER, 0, FL_PART_VALUE, 0, model ? 1 : FLI_FIGURES};
    if (model) *up++ = (fl_part){"own model", FL_PART_VECTOR, 0, FL_PART_VALUE};
    if (!model && ask->flags & FLI_FIGURES_GRADIENT) *up++ = (fl_part){"gradient", FL_PART_VECTOR, 0, FL_PART_VALUE};
    if (!model && ask->flags & FLI_FIGURES_AHEAD)
        *up++ = (fl_part){"gradient at the next second block", FL_PART_VECTOR, 1, FL_PART_VALUE};
    if (!model && ask->flags & FLI_FIGURES_POTENTIAL)
        *up++ = (fl_part){"potential", FL_PART_NUMBER, FLI_FIGURES_POTENTIAL_AT, FL_PART_VALUE, 0, FL_POTENTIAL_TERMS};
    if (!model && ask->flags & FLI_FIGURES_CLUSTERS && cells)
        *up++ = (fl_part){"clusters", FL_PART_NUMBER, FLI_FIGURES_CLUSTERS_AT, FL_PART_VALUE, 0, cells};
    *up = (fl_part){NULL};
}

void fli_wire_of(const fli_setup *s, const fl_ask *ask, fli_wire *out)
{
    const fl_method *a = s->algo;
    out->moment = fli_algo_moment(a, s->params, ask);
    out->down = a->down;
    out->up = a->up;
    if (ask->kind == FLI_ASK_TURN) return;
    figures_parts(ask, fli_parts_numbers(a->down), fli_figures_cells(s->model, s->classes), out->room[0], out->room[1]);
    out->down = out->room[0];
    out->up = out->room[1];
}

size_t fli_wire_down(const fli_wire *w, const fli_model *m, const fl_ask *ask)
{
    return ask->flags & FLI_ASK_HAS_BODY ? fli_wire_bytes(w->down, w->moment, m) : 0;
}

size_t fli_wire_up(const fli_wire *w, const fli_model *m, const fl_ask *ask)
{
    return ask->flags & FLI_ASK_REPLY ? fli_wire_bytes(w->up, w->moment, m) : 0;
}
