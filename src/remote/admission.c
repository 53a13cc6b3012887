#include "remote/admission.h"

#include "base/number.h"

#include <math.h>

/* No mean loss is that large, unless the model is about to overflow. */
#define LOSS_MOST 1e100

/* ceil(share * n), where rounding errors do not ask for one more. */
static size_t share_of(double share, size_t n) { return (size_t)ceil(share * (double)n - 1e-9); }

size_t fli_admission_wanted(const fli_admission *a, size_t n)
{
    size_t wanted = share_of(a->wait_for, n);
    return wanted ? wanted : 1;
}

size_t fli_admission_least(const fli_admission *a, size_t n) { return share_of(a->quorum, n); }

static fl_status refuse(fli_exchange *x, fl_status status, const char *part, double value, const char *rule)
{
    fli_snprintf(x->why.text, sizeof x->why.text, "part \"%.100s\" of its answer %s %g, %s", part,
                 status == FL_EDIVERGED ? "has the value" : "has the norm", value, rule);
    return status;
}

static fl_status not_finite(fli_exchange *x, const char *part, double value)
{
    return refuse(x, FL_EDIVERGED, part, value, "which is not finite");
}

/* The first value that is not finite, of a part that has one: the message names it. */
static double first_infinity(const fl_space *s, const void *v)
{
    for (size_t i = 0; i < s->n; i++) {
        double value;
        s->ops->to_f64(1, fli_cat(s->ops, v, i), &value);
        if (!isfinite(value)) return value;
    }
    return NAN;
}

/* The same bits as fli_dot(v, v), but only a piece of the vector needs to be in memory at a time. */
static double square_in_pieces(const fl_space *s, const void *v, fli_lent *lent)
{
    enum { LANES = 16, PIECE = 4096, DROP = 1 << 20 }; /* lanes: as in the dot product of vec/cpu.c */
    double lane[LANES] = {0}, rest = 0, values[PIECE];
    size_t dropped = 0, whole = s->n - s->n % LANES;
    for (size_t at = 0; at < s->n; at += PIECE) {
        size_t n = s->n - at < PIECE ? s->n - at : PIECE;
        s->ops->to_f64(n, fli_cat(s->ops, v, at), values);
        for (size_t i = 0; i < n; i++) *(at + i < whole ? &lane[i % LANES] : &rest) += values[i] * values[i];
        if (at + n - dropped < DROP && at + n < s->n) continue;
        lent->used(lent, fli_cat(s->ops, v, dropped), (at + n - dropped) * s->ops->size);
        dropped = at + n;
    }
    for (size_t i = 0; i < LANES; i++) rest += lane[i];
    return rest;
}

/* One pass is enough: if the sum of squares is finite, all terms are. Otherwise the vector may just be too long. */
static fl_status admit_vector(const fli_admission *a, const fl_part *part, const fl_space *s, void *v, int bounded,
                              fli_exchange *x)
{
    fli_lent *lent = x->up.lent && x->up.lent->used && !s->place ? x->up.lent : NULL;
    double square = lent ? square_in_pieces(s, v, lent) : fli_dot(s, v, v), norm = sqrt(square);
    if (!isfinite(square) && !fli_finite(s, v)) return not_finite(x, part->name, first_infinity(s, v));
    if (!bounded || !(a->largest_norm > 0) || norm <= a->largest_norm) {
        x->norm = fmax(x->norm, norm);
        return FL_OK;
    }
    if (a->beyond == FLI_BEYOND_REJECT || isinf(norm))
        return refuse(x, FL_EREFUSED, part->name, norm, "which is beyond server.largest_norm");
    fli_scale(s, a->largest_norm / norm, v);
    if (lent) lent->used(lent, v, fli_bytes(s));
    x->norm = fmax(x->norm, a->largest_norm);
    return FL_OK;
}

static fl_status admit_numbers(const fl_part *part, const double *v, size_t n, fli_exchange *x)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i])) return not_finite(x, part->name, v[i]);
    return FL_OK;
}

/* Checks only the losses: other figures may be missing, and a potential may be infinite. */
static fl_status admit_figures(const fl_part *part, const double *v, fli_exchange *x)
{
    static const size_t losses[] = {FLI_FIGURE_TRAIN_LOSS, FLI_FIGURE_TEST_LOSS, FLI_FIGURE_OWN_TRAIN_LOSS,
                                    FLI_FIGURE_OWN_TEST_LOSS};
    for (size_t i = 0; !part->at && i < sizeof losses / sizeof *losses; i++) {
        double loss = v[losses[i]];
        if (!isfinite(loss)) return not_finite(x, part->name, loss);
        if (fabs(loss) > LOSS_MOST) return refuse(x, FL_EDIVERGED, part->name, loss, "which no loss can have");
    }
    return FL_OK;
}

fl_status fli_admit(const fli_admission *a, const fli_setup *setup, fli_exchange *x)
{
    fli_wire w;
    fl_status s = FL_OK;
    x->norm = 0;
    if (!(x->ask.flags & FLI_ASK_REPLY)) return FL_OK;
    fli_wire_of(setup, &x->ask, &w);
    for (fli_sent_parts at = fli_parts_walk(w.up, w.moment, setup->model, NULL); !s && fli_parts_next(&at);) {
        const fl_part *part = at.is.part;
        fl_space space = setup->model->space;
        space.n = at.is.count;
        if (part->what == FL_PART_NUMBER && x->ask.kind == FLI_ASK_TURN)
            s = admit_numbers(part, x->up.num + part->at, at.is.count, x);
        else if (part->what == FL_PART_NUMBER)
            s = x->ask.kind == FLI_ASK_FIGURES ? admit_figures(part, x->up.num, x) : FL_OK;
        else
            s = admit_vector(a, part, &space, fli_sent_place(&at.is, setup->model, &x->up, NULL),
                             x->ask.kind == FLI_ASK_TURN, x);
    }
    return s;
}
