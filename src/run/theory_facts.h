/* What `fedloom check` knows of a federation: measured at the start model, client by client. */
#ifndef FLI_RUN_THEORY_FACTS_H
#define FLI_RUN_THEORY_FACTS_H

#include "run/plan.h"

typedef struct {
    const fli_plan *plan;
    fli_facts *client; /* those that were measured, evenly spaced, by number */
    size_t measured;
    fli_facts_all all;
    fli_facts worst; /* the largest L_i and its client, most and fewest steps, the smallest p_i */
} fli_measured;

enum { FLI_MEASURED_SAMPLES = 512 }; /* at most this many of a client's samples */

/* Measures; to be freed in either case. The plan must outlive it. */
fl_status fli_measure_facts(fl_ctx *ctx, const fli_plan *p, fli_measured *out);
void fli_measured_free(fli_measured *m);

#endif
