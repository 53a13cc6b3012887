/* Asks as bytes, and which parts of a table are sent when. */
#include "algo/message.h"

#include "base/bytes.h"

void fli_ask_write(const fli_ask *a, unsigned char *out)
{
    const double reals[] = {a->lr, a->weight, a->probability};
    const uint64_t longs[] = {a->round, a->stream, a->steps};
    const uint32_t shorts[] = {a->client, a->kind, a->cohort, a->phase, a->phases, a->flags};
    for (size_t i = 0; i < 3; i++) out = fli_put_u64(out, longs[i], 8);
    for (size_t i = 0; i < 3; i++) out = fli_put_real(out, reals[i]);
    for (size_t i = 0; i < 6; i++) out = fli_put_u64(out, shorts[i], 4);
}

void fli_ask_read(const unsigned char *in, fli_ask *a)
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
}

const char *fli_ask_wrong(const fli_ask *a, size_t clients)
{
    if (a->client >= clients) return "there is no such client";
    if (a->kind > FLI_ASK_LEVELS) return "its kind does not exist";
    if (a->kind == FLI_ASK_TURN && a->phase >= a->phases) return "its phase is not below their number";
    return NULL;
}

size_t fli_part_numbers(const fli_part *p)
{
    if (p->what != FLI_NUMBER) return 0;
    return p->count ? p->count : 1;
}

int fli_part_sent(const fli_part *p, unsigned moment) { return !p->when || (p->when & moment) != 0; }

static int is_vector(const fli_part *p) { return p->what == FLI_WHOLE || p->what == FLI_UPPER || p->what == FLI_LOWER; }

size_t fli_parts_vectors(const fli_part *parts)
{
    size_t count = 0;
    for (; parts && parts->name; parts++)
        if (is_vector(parts) && parts->at >= count) count = parts->at + 1;
    return count;
}

size_t fli_parts_numbers(const fli_part *parts)
{
    size_t count = 0;
    for (; parts && parts->name; parts++)
        if (fli_part_numbers(parts) && parts->at + fli_part_numbers(parts) > count)
            count = parts->at + fli_part_numbers(parts);
    return count;
}

size_t fli_part_range(const fli_part *p, size_t n, size_t upper, size_t *first)
{
    *first = p->what == FLI_LOWER ? upper : 0;
    switch (p->what) {
    case FLI_UPPER: return upper;
    case FLI_LOWER: return n - upper;
    case FLI_NUMBER: return 0;
    default: return n;
    }
}
