/* Asks as bytes, and the choice of the parts of a table that are sent at a moment. */
#include "algo/message.h"

#include "base/bytes.h"

void fli_ask_write(const fl_ask *a, unsigned char *out)
{
    const double reals[] = {a->lr, a->weight, a->probability};
    const uint64_t longs[] = {a->round, a->stream, a->steps};
    uint32_t flags = a->flags | (a->bystander ? FLI_ASK_BYSTANDER : 0) | (a->warm_up ? FLI_ASK_WARM_UP : 0);
    const uint32_t shorts[] = {a->client, a->kind, a->cohort, a->phase, a->phases, flags};
    for (size_t i = 0; i < 3; i++) out = fli_put_u64(out, longs[i], 8);
    for (size_t i = 0; i < 3; i++) out = fli_put_real(out, reals[i]);
    for (size_t i = 0; i < 6; i++) out = fli_put_u64(out, shorts[i], 4);
}

void fli_ask_read(const unsigned char *in, fl_ask *a)
{
    double *reals[] = {&a->lr, &a->weight, &a->probability};
    uint64_t *longs[] = {&a->round, &a->stream, &a->steps}, v;
    uint32_t *shorts[] = {&a->client, &a->kind, &a->cohort, &a->phase, &a->phases, &a->flags};
    for (size_t i = 0; i < 3; i++) in = fli_get_u64(in, longs[i], 8);
    for (size_t i = 0; i < 3; i++) in = fli_get_real(in, reals[i]);
    for (size_t i = 0; i < 6; i++) {
        in = fli_get_u64(in, &v, 4);
        *shorts[i] = (uint32_t)v;
    }
    a->bystander = (a->flags & FLI_ASK_BYSTANDER) != 0;
    a->warm_up = (a->flags & FLI_ASK_WARM_UP) != 0;
    a->flags &= ~(uint32_t)(FLI_ASK_BYSTANDER | FLI_ASK_WARM_UP);
}

const char *fli_ask_wrong(const fl_ask *a, size_t clients)
{
    if (a->client >= clients) return "there is no such client";
    if (a->kind > FLI_ASK_LEVELS) return "its kind does not exist";
    if (a->kind == FLI_ASK_TURN && a->phase >= a->phases) return "its phase is not below their number";
    return NULL;
}

size_t fli_part_numbers(const fl_part *p)
{
    if (p->what != FL_PART_NUMBER) return 0;
    return p->count ? p->count : 1;
}

int fli_part_sent(const fl_part *p, unsigned moment) { return !p->when || (p->when & moment) != 0; }

int fli_part_is_vector(const fl_part *p)
{
    return p->what == FL_PART_VECTOR || p->what == FL_PART_UPPER || p->what == FL_PART_LOWER;
}

size_t fli_parts_vectors(const fl_part *parts)
{
    size_t count = 0;
    for (; parts && parts->name; parts++)
        if (fli_part_is_vector(parts) && parts->at >= count) count = parts->at + 1;
    return count;
}

size_t fli_parts_numbers(const fl_part *parts)
{
    size_t count = 0;
    for (; parts && parts->name; parts++)
        if (fli_part_numbers(parts) && parts->at + fli_part_numbers(parts) > count)
            count = parts->at + fli_part_numbers(parts);
    return count;
}

size_t fli_part_range(const fl_part *p, size_t n, size_t upper, size_t *first)
{
    *first = p->what == FL_PART_LOWER ? upper : 0;
    switch (p->what) {
    case FL_PART_UPPER: return upper;
    case FL_PART_LOWER: return n - upper;
    case FL_PART_NUMBER: return 0;
    default: return n;
    }
}
