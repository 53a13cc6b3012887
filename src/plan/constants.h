/* The constants that theorems need, measured client by client: L_i, mu_i and how a second block moves. For `fedloom
 * check` and for plans that need them; theory/ compares them with a theorem. */
#ifndef FLI_PLAN_CONSTANTS_H
#define FLI_PLAN_CONSTANTS_H

#include "algo/algo.h"
#include "algo/theory.h"
#include "plan/plan.h"

typedef struct {
    const fli_plan *plan;
    fl_facts *client; /* the measured clients, by number */
    size_t measured;
    fl_facts_all all;
    fl_facts worst; /* the largest L_i and its client, most and fewest steps, the smallest p_i */
} fli_measured;

/* The most samples of a client, of either kind, that are drawn if L_i is measured at the start. */
enum { FLI_MEASURED_SAMPLES = 512 };

/* Measures; free `out` also after a failure. The plan must outlive it. `bounds`: constants that hold for every x and
 * are over all samples, if the model has such; else the curvature at the start, which rules of thumb use. */
fl_status fli_measure_facts(fl_ctx *ctx, const fli_plan *p, int bounds, fli_measured *out);
/* The same for every x, for a plan with the same model and data as that of `known`, whose curvatures are reused. */
fl_status fli_measure_again(fl_ctx *ctx, const fli_plan *p, const fli_measured *known, fli_measured *out);
void fli_measured_free(fli_measured *m);

/* A method's conditions (fl_theory) at one client, added to `out`. */
typedef void fli_theory_conditions(const void *params, const fl_facts *f, fl_conditions *out);
void fli_ask_theory(const fli_plan *p, fli_theory_conditions *conditions, const fl_facts *f, fl_conditions *out);

/* The largest L_i of the measured clients; `bounds` as for fli_measure_facts. The plan needs its model and its
 * parameters of asks. */
fl_status fli_theory_smoothness(const fli_plan *p, int bounds, double *largest);

#endif
