/* A configuration held against its method's theorem: facts, conditions, and settings that would satisfy those that
 * fail. */
#ifndef FLI_RUN_THEORY_CHECK_H
#define FLI_RUN_THEORY_CHECK_H

#include "algo/conditions.h"
#include "base/json.h"
#include "run/theory_facts.h"

typedef struct {
    fli_plan plan;
    fli_measured facts;
    fli_conditions found;
    fli_fixes fixes; /* the rows for conditions that fail */
} fli_check;

/* To be freed in either case. `like` as for fli_plan_data. */
fl_status fli_check_make(fl_config *cfg, const fli_plan *like, fli_check *c);
void fli_check_fini(fli_check *c);

size_t fli_check_failing(const fli_check *c);
/* Whether a row is for this condition. */
int fli_check_has_fix(const fli_check *c, const fli_condition_seen *s);
/* What `fedloom check` prints (theory_print.c). */
void fli_check_print(fli_text *t, const fli_check *c);
/* The same as keys of a map that is open (theory_json.c). */
void fli_check_json(fli_json *j, const fli_check *c);

/* The largest L_i of the clients that are measured. The plan has its model and says how turns are asked for. */
fl_status fli_theory_smoothness(const fli_plan *p, double *largest);
/* Whether theory promises that the method's potential never rises: all that it asks for holds at the clients that are
 * measured. */
fl_status fli_theory_falls(const fli_plan *p, int *falls);

#endif
