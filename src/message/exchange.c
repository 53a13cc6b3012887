#include "message/exchange.h"

#include "base/bytes.h"
#include "message/piece.h"

fl_status fli_message_init(fl_ctx *ctx, const fli_space *s, size_t vectors, size_t numbers, fli_message *m)
{
    size_t stride = fli_vector_stride(s);
    *m = (fli_message){.vec = fli_alloc(ctx, vectors + 1, sizeof *m->vec),
                       .num = fli_alloc(ctx, numbers + 1, sizeof *m->num),
                       .place = s->place};
    if (m->vec && m->num && (!vectors || (m->vec[0] = fli_vector_alloc(ctx, s, vectors * stride)))) {
        for (size_t i = 1; i < vectors; i++) m->vec[i] = (char *)m->vec[0] + i * stride;
        return FL_OK;
    }
    fli_message_fini(m);
    return FL_ENOMEM;
}

void fli_message_fini(fli_message *m)
{
    if (m->vec) fli_vector_free(&(fli_space){.place = m->place}, m->vec[0]);
    fli_free(m->vec);
    fli_free(m->num);
    *m = (fli_message){0};
}

fl_status fli_upload_init(fl_ctx *ctx, const fli_space *s, const fli_algo *a, fli_message *m)
{
    return fli_message_init(ctx, s, fli_parts_vectors(a->up), fli_parts_numbers(a->up), m);
}

/* ---- how it went ------------------------------------------------------------------------------------------- */

void fli_outcome_write(const fli_exchange *x, unsigned char *out)
{
    out = fli_put_u64(out, x->spent, 8);
    out = fli_put_u64(out, x->missed != 0, 4);
    out = fli_put_u64(out, x->own_diverged != 0, 4);
    fli_put_u64(out, (uint64_t)x->status, 4);
}

fl_status fli_outcome_read(const unsigned char *in, fli_exchange *x)
{
    uint64_t missed, own, status;
    in = fli_get_u64(in, &x->spent, 8);
    in = fli_get_u64(in, &missed, 4);
    in = fli_get_u64(in, &own, 4);
    fli_get_u64(in, &status, 4);
    if (missed > 1 || own > 1 || (status > FL_ESYSTEM && status != FL_ECALLBACK && status != FL_EREFUSED))
        return FL_EFORMAT;
    x->missed = (int)missed;
    x->own_diverged = (int)own;
    x->status = (fl_status)status;
    return FL_OK;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

void fli_save_vectors(const fli_space *s, void *const *vectors, size_t count, fli_saver *out)
{
    fli_save_count(out, count);
    for (size_t i = 0; i < count; i++) fli_save_piece(s, vectors[i], fli_bytes(s), out);
}

void fli_load_vectors(const fli_space *s, void *const *vectors, size_t count, fli_loader *in)
{
    fli_load_equal(in, count, "does not fit this run: the method has another number of vectors");
    for (size_t i = 0; i < count; i++) fli_load_piece(s, vectors[i], fli_bytes(s), in);
}

void fli_save_reals(const double *v, size_t count, fli_saver *out)
{
    fli_save_count(out, count);
    fli_save_bytes(out, v, count * sizeof *v);
}

void fli_load_reals(double *v, size_t count, fli_loader *in)
{
    fli_load_equal(in, count, "does not fit this run: the method has another number of scalars");
    fli_load_bytes(in, v, count * sizeof *v);
}

void fli_exchange_save(const fli_space *s, const fli_algo *a, const fli_exchange *x, int there, fli_saver *out)
{
    unsigned char ask[FLI_ASK_BYTES], outcome[FLI_OUTCOME_BYTES];
    fli_ask_write(&x->ask, ask);
    fli_save_bytes(out, ask, sizeof ask);
    fli_save_count(out, there != 0);
    if (!there) return;
    fli_save_vectors(s, x->up.vec, fli_parts_vectors(a->up), out);
    fli_save_reals(x->up.num, fli_parts_numbers(a->up), out);
    fli_outcome_write(x, outcome);
    fli_save_bytes(out, outcome, sizeof outcome);
}

int fli_exchange_load(const fli_space *s, const fli_algo *a, size_t clients, fli_exchange *x, fli_loader *in)
{
    unsigned char ask[FLI_ASK_BYTES], outcome[FLI_OUTCOME_BYTES];
    fli_load_bytes(in, ask, sizeof ask);
    fli_ask_read(ask, &x->ask);
    if (fli_ask_wrong(&x->ask, clients) || x->ask.kind != FLI_ASK_TURN || x->ask.phases != 1)
        fli_loader_refuse(in, "does not fit this run: a client has an impossible task");
    if (!fli_load_count(in, 1)) return 0;
    fli_load_vectors(s, x->up.vec, fli_parts_vectors(a->up), in);
    fli_load_reals(x->up.num, fli_parts_numbers(a->up), in);
    fli_load_bytes(in, outcome, sizeof outcome);
    if (fli_outcome_read(outcome, x)) fli_loader_refuse(in, "does not fit this run: a turn has an impossible outcome");
    return 1;
}
