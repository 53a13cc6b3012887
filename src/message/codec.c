#include "message/codec.h"

#include <string.h>

/* The part's elements within the range: how many, and the first of them. */
static size_t extent(const fl_part *p, const fli_model *m, fli_entries range, size_t *first)
{
    if (p->what == FL_PART_NUMBER) return fli_part_numbers(p);
    size_t count = fli_part_range(p, m->space.n, fli_model_upper(m), first), end = *first + count;
    if (*first < range.from) *first = range.from;
    if (end > range.to) end = range.to;
    return end > *first ? end - *first : 0;
}

static size_t element(const fl_part *p, const fli_model *m)
{
    return p->what == FL_PART_NUMBER ? sizeof(double) : m->space.ops->size;
}

size_t fli_wire_slice_bytes(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range)
{
    size_t bytes = 0, first;
    for (; parts && parts->name; parts++)
        if (fli_part_sent(parts, moment)) bytes += extent(parts, m, range, &first) * element(parts, m);
    return bytes;
}

static fli_entries whole(const fli_model *m) { return (fli_entries){0, m->space.n}; }

size_t fli_wire_bytes(const fl_part *parts, unsigned moment, const fli_model *m)
{
    return fli_wire_slice_bytes(parts, moment, m, whole(m));
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

/* Where a part's elements from `first` on lie in a message. */
static void *place(const fl_part *p, const fli_model *m, const fli_message *message, size_t first)
{
    return p->what == FL_PART_NUMBER ? (void *)(message->num + p->at)
                                     : fli_at(m->space.ops, message->vec[p->at], first);
}

/* Whether the part lies in the memory of the place, which alone can read and write it. */
static int at_place(const fl_part *p, const fli_message *message)
{
    return message->place && p->what != FL_PART_NUMBER && p->what != FL_PART_START;
}

void fli_wire_slice_write(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                          const fli_message *from, unsigned char *out)
{
    for (size_t first = 0; parts && parts->name; parts++) {
        if (!fli_part_sent(parts, moment)) continue;
        size_t size = element(parts, m), bytes = extent(parts, m, range, &first) * size;
        if (!bytes) continue;
        if (parts->what == FL_PART_START)
            copy(out, fli_cat(m->space.ops, from->start, first), bytes, size);
        else if (at_place(parts, from))
            fli_vector_read(&(fl_space){.place = from->place}, bytes, place(parts, m, from, first), out);
        else
            copy(out, place(parts, m, from, first), bytes, size);
        out += bytes;
    }
}

void fli_wire_slice_read(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                         const unsigned char *in, fli_message *to, void *start)
{
    for (size_t first = 0; parts && parts->name; parts++) {
        if (!fli_part_sent(parts, moment)) continue;
        size_t size = element(parts, m), bytes = extent(parts, m, range, &first) * size;
        if (parts->what == FL_PART_START) to->start = start;
        if (!bytes) continue;
        if (parts->what == FL_PART_START)
            copy(fli_at(m->space.ops, start, first), in, bytes, size);
        else if (at_place(parts, to))
            fli_vector_write(&(fl_space){.place = to->place}, bytes, in, place(parts, m, to, first));
        else
            copy(place(parts, m, to, first), in, bytes, size);
        in += bytes;
    }
}

fl_status fli_wire_slice_pieces(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                                const fli_message *of, fli_wire_piece *visit, void *arg)
{
    fl_status s = FL_OK;
    for (size_t first = 0; !s && parts && parts->name; parts++) {
        if (!fli_part_sent(parts, moment) || parts->what == FL_PART_NUMBER || parts->what == FL_PART_START) continue;
        size_t bytes = extent(parts, m, range, &first) * element(parts, m);
        if (bytes) s = visit(arg, place(parts, m, of, first), bytes);
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

/* The parts of the messages of all asks but turns; `numbers`: that the method sends down. */
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

void fli_wire_of(const fli_model *m, size_t classes, const fl_method *a, const void *params, const fl_ask *ask,
                 fli_wire *out)
{
    out->moment = fli_algo_moment(a, params, ask);
    out->down = a->down;
    out->up = a->up;
    if (ask->kind == FLI_ASK_TURN) return;
    figures_parts(ask, fli_parts_numbers(a->down), fli_figures_cells(m, classes), out->room[0], out->room[1]);
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
