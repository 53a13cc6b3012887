/* A configuration checked against its method's theorem: facts, conditions, and settings that would satisfy those that
 * fail. */
#ifndef FLI_THEORY_CHECK_H
#define FLI_THEORY_CHECK_H

#include "format/json.h"
#include "format/yaml.h"
#include "plan/constants.h"

/* A small number eps, the rounds after which theory promises it, and the rounds that a run took: infinite if it did not
 * reach eps, NaN without a run. */
typedef struct {
    double eps, at_most, run;
} fli_rounds_until;
enum { FLI_CHECK_EPS = 3 }; /* 1e-2, 1e-4 and 1e-6 of the value at the start */

typedef struct {
    fli_plan plan;
    fli_measured facts; /* empty if the method has no conditions and the model no curvature */
    fl_conditions found;
    fl_fixes fixes; /* the rows for conditions that fail */
    size_t left;    /* conditions that fail even with these rows, as fli_settle_fixes has found */
    fl_promise rounds;
    fli_rounds_until eps[FLI_CHECK_EPS];
    size_t ran; /* rounds of the run for comparison; 0: none */
} fli_check;

/* Free `c` also after a failure. `like` as for fli_plan_data. */
fl_status fli_check_make(fl_config *cfg, const fli_plan *like, fli_check *c);
/* The same for a configuration that rows have changed: facts that rows cannot change are copied from `before`. */
fl_status fli_check_again(fl_config *cfg, const fli_check *before, fli_check *c);
void fli_check_fini(fli_check *c);

size_t fli_check_failing(const fli_check *c);
/* "" if all clients were measured, else " at the clients that were measured" */
const char *fli_check_extent(const fli_check *c);
/* Prints the result of `fedloom check`: print.c. */
void fli_check_print(fli_text *t, const fli_check *c);
/* The same as keys of an open map. */
void fli_check_json(fli_json *j, const fli_check *c);

/* ==== changing the settings: fix.c ========================================================================== */

/* `fedloom check --fix`: changes settings until the conditions of the method's theorem hold. */

/* A key whose value has changed. */
typedef struct {
    const char *key, *was, *now; /* as YAML; `was` is empty if there was no such key */
    const char *because;         /* the conditions that required it */
} fli_change;

enum { FLI_CHANGES_MAX = 2 * FLI_FIXES_MAX };

typedef struct {
    fli_arena arena;
    fli_change at[FLI_CHANGES_MAX];
    size_t count;
} fli_changes;

/* Changes the configuration, whose check is `first`, in several turns, since satisfying one condition may affect
 * another. Free `out` also after a failure. */
fl_status fli_fix_config(fl_config *cfg, const fli_check *first, fli_changes *out);
void fli_changes_free(fli_changes *c);
/* The same for the rows of a check, without changing the configuration: the rows become those with which all conditions
 * hold that settings can satisfy. */
fl_status fli_settle_fixes(const fl_config *cfg, fli_check *c);

/* Writes a remark for every change to a tree with remarks; `out` has room for `count`. */
fl_status fli_changes_remark(fli_changes *c, const fli_node *root, fli_remark *out);
/* Prints the changes, and the conditions that no setting satisfies by the check `again` of the result. */
void fli_changes_print(fli_text *t, const fli_changes *c, const fli_check *again);

#endif
