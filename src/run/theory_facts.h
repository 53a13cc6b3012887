/* What `fedloom check` knows of a federation, client by client. */
#ifndef FLI_RUN_THEORY_FACTS_H
#define FLI_RUN_THEORY_FACTS_H

#include "run/plan.h"

typedef struct {
    const fli_plan *plan;
    fli_facts *client; /* those that were measured, by number */
    size_t measured;
    fli_facts_all all;
    fli_facts worst; /* the largest L_i and its client, most and fewest steps, the smallest p_i */
} fli_measured;

/* At most this many of a client's samples, chosen at random, of either kind, where L_i is measured at the start. */
enum { FLI_MEASURED_SAMPLES = 512 };

/* Measures; to be freed in either case. The plan must outlive it. `bounds`: constants that hold for every x and are
 * over all samples, where the model has such; else the curvature at the start, which rules of thumb go by. */
fl_status fli_measure_facts(fl_ctx *ctx, const fli_plan *p, int bounds, fli_measured *out);
/* The same for every x, of a plan with the model and the data of another one, whose curvatures are those of this. */
fl_status fli_measure_again(fl_ctx *ctx, const fli_plan *p, const fli_measured *known, fli_measured *out);
void fli_measured_free(fli_measured *m);

#endif
