#include "message/exchange.h"

#include "base/bytes.h"
#include "base/number.h"
#include "bilevel/bilevel.h"
#include "model/model.h"

#include <math.h>

/* ==== the first failure of a user's function =============================================================== */

void fli_user_failure_note(fli_user_failure *f, const fl_failure *why)
{
    int untaken = 0;
    if (!fli_has_failed(why) || !atomic_compare_exchange_strong(&f->taken, &untaken, 1)) return;
    f->first = *why;
    atomic_store_explicit(&f->there, 1, memory_order_release);
}

void fli_user_failure_word(fl_failure *why, const fl_method *a, const char *call, const fl_ask *ask, size_t round)
{
    fl_failure message = *why;
    char client[32] = "";
    if (ask) fli_snprintf(client, sizeof client, ", client %u", ask->client);
    fli_snprintf(why->text, sizeof why->text, "method %s failed in %s%s, round %zu: %s", a->name, call, client,
                 round + 1, message.text);
}

/* ==== vectors in checkpoints =============================================================================== */

/* Bytes of plain memory through which vectors at a place are copied. */
enum { COPY_BYTES = 1 << 16 };

void fli_save_piece(const fl_space *s, const void *v, size_t bytes, fli_saver *out)
{
    char here[COPY_BYTES];
    if (!s->place) {
        fli_save_bytes(out, v, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += COPY_BYTES) {
        size_t n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        fli_vector_read(s, n, (const char *)v + at, here);
        fli_save_bytes(out, here, n);
    }
}

void fli_load_piece(const fl_space *s, void *v, size_t bytes, fli_loader *in)
{
    char here[COPY_BYTES];
    if (!s->place) {
        fli_load_bytes(in, v, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += COPY_BYTES) {
        size_t n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        fli_load_bytes(in, here, n);
        fli_vector_write(s, n, here, (char *)v + at);
    }
}

/* ==== figures: measurements by clients ===================================================================== */

size_t fli_figures_cells(const fli_model *m, size_t classes)
{
    return m->desc->clusters ? m->latent->size(m) * classes : 0;
}

/* Whether v is an integer from 0 to `most`. */
static int counts(double v, double most) { return v >= 0 && v <= most && v == floor(v); }

const char *fli_figures_wrong(const double *num)
{
    double all = FLI_HAS_TRAIN + FLI_HAS_TEST + FLI_HAS_OWN + FLI_HAS_PSEUDO;
    double train = num[FLI_FIGURE_TRAIN_N], test = num[FLI_FIGURE_TEST_N];
    if (!counts(num[FLI_FIGURE_HAS], all)) return "it claims figures that do not exist";
    unsigned has = (unsigned)num[FLI_FIGURE_HAS];
    if (!counts(train, UINT32_MAX) || !counts(test, UINT32_MAX)) return "a number of samples is impossible";
    if (has & (FLI_HAS_TRAIN | FLI_HAS_OWN) && !(train > 0))
        return "it has figures of training samples, but no samples";
    if (has & FLI_HAS_TEST && !(test > 0)) return "it has figures of test samples, but no samples";
    if (!counts(num[FLI_FIGURE_TRAIN_HITS], train) || !counts(num[FLI_FIGURE_OWN_TRAIN_HITS], train) ||
        !counts(num[FLI_FIGURE_TEST_HITS], test) || !counts(num[FLI_FIGURE_OWN_TEST_HITS], test) ||
        !counts(num[FLI_FIGURE_PSEUDO_N], UINT32_MAX) || !counts(num[FLI_FIGURE_PSEUDO_HITS], num[FLI_FIGURE_PSEUDO_N]))
        return "more of its samples are right than it has";
    return NULL;
}

/* ==== messages and exchanges =============================================================================== */

fl_status fli_message_init(fl_ctx *ctx, const fl_space *s, size_t vectors, size_t numbers, fli_message *m)
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

fl_status fli_message_borrower(fl_ctx *ctx, size_t vectors, size_t numbers, fli_message *m)
{
    *m = (fli_message){.vec = fli_alloc(ctx, vectors + 1, sizeof *m->vec),
                       .num = fli_alloc(ctx, numbers + 1, sizeof *m->num),
                       .borrows = vectors};
    if (m->vec && m->num) return FL_OK;
    fli_message_fini(m);
    return FL_ENOMEM;
}

fl_status fli_message_own(fl_ctx *ctx, const fl_space *s, fli_message *m)
{
    size_t stride = fli_vector_stride(s);
    for (size_t i = 0; i < m->borrows; i++) {
        if (m->vec[i]) continue;
        if (!m->own && !(m->own = fli_alloc(ctx, m->borrows, stride))) return FL_ENOMEM;
        m->vec[i] = (char *)m->own + i * stride;
    }
    return FL_OK;
}

void fli_message_return(fli_message *m)
{
    for (size_t i = 0; i < m->borrows; i++) m->vec[i] = NULL;
    if (m->lent) m->lent->release(m->lent);
    m->lent = NULL;
}

void fli_message_fini(fli_message *m)
{
    if (m->borrows) fli_message_return(m);
    fli_free(m->own);
    if (m->vec) fli_vector_free(&(fl_space){.place = m->place}, m->vec[0]);
    fli_free(m->vec);
    fli_free(m->num);
    *m = (fli_message){0};
}

fl_status fli_upload_init(fl_ctx *ctx, const fl_space *s, const fl_method *a, fli_message *m)
{
    return fli_message_init(ctx, s, fli_parts_vectors(a->up), fli_parts_numbers(a->up), m);
}

/* ---- outcomes --------------------------------------------------------------------------------------------- */

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

void fli_save_vectors(const fl_space *s, void *const *vectors, size_t count, fli_saver *out)
{
    fli_save_count(out, count);
    for (size_t i = 0; i < count; i++) fli_save_piece(s, vectors[i], fli_bytes(s), out);
}

void fli_load_vectors(const fl_space *s, void *const *vectors, size_t count, fli_loader *in)
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

void fli_save_message(const fl_space *s, const fli_message *m, size_t vectors, size_t numbers, fli_saver *out)
{
    fli_save_vectors(s, m->vec, vectors, out);
    fli_save_reals(m->num, numbers, out);
}

void fli_load_message(const fl_space *s, fli_message *m, size_t vectors, size_t numbers, fli_loader *in)
{
    fli_load_vectors(s, m->vec, vectors, in);
    fli_load_reals(m->num, numbers, in);
}
