/* A configuration held against its method's theorem: facts, conditions, and settings that would satisfy those that
 * fail. */
#ifndef FLI_THEORY_CHECK_H
#define FLI_THEORY_CHECK_H

#include "format/json.h"
#include "format/yaml.h"
#include "plan/constants.h"

/* A small number, the rounds that theory wants at most to get there, and those that a run took: infinite, it did not
 * get there; NaN, there was none. */
typedef struct {
    double eps, at_most, run;
} fli_rounds_until;
enum { FLI_CHECK_EPS = 3 }; /* 1e-2, 1e-4 and 1e-6 of the start */

typedef struct {
    fli_plan plan;
    fli_measured facts; /* of no client where the method has no conditions and the model no curvature */
    fl_conditions found;
    fl_fixes fixes; /* the rows for conditions that fail */
    size_t left;    /* how many still fail with these rows, once fli_settle_fixes has found that */
    fl_promise rounds;
    fli_rounds_until eps[FLI_CHECK_EPS];
    size_t ran; /* rounds of a run beside it; 0: there was none */
} fli_check;

/* To be freed in either case. `like` as for fli_plan_data. */
fl_status fli_check_make(fl_config *cfg, const fli_plan *like, fli_check *c);
/* The same of a configuration that rows have changed: what they cannot change is taken from its check before. */
fl_status fli_check_again(fl_config *cfg, const fli_check *before, fli_check *c);
void fli_check_fini(fli_check *c);

size_t fli_check_failing(const fli_check *c);
/* "" if all clients were measured, else " at the clients that were measured" */
const char *fli_check_extent(const fli_check *c);
/* What `fedloom check` prints: print.c. */
void fli_check_print(fli_text *t, const fli_check *c);
/* The same as keys of a map that is open */
void fli_check_json(fli_json *j, const fli_check *c);

/* ==== changing the settings: fix.c ========================================================================== */

/* `fedloom check --fix`: settings changed until the conditions of the method's theorem hold. */

/* One key that has another value now. */
typedef struct {
    const char *key, *was, *now; /* as YAML; `was` is empty if there was no such key */
    const char *because;         /* the conditions that asked for it */
} fli_change;

enum { FLI_CHANGES_MAX = 2 * FLI_FIXES_MAX };

typedef struct {
    fli_arena arena;
    fli_change at[FLI_CHANGES_MAX];
    size_t count;
} fli_changes;

/* Changes the configuration, of which `first` is the check, turn by turn: what satisfies one condition may matter to
 * another. To be freed in either case. */
fl_status fli_fix_config(fl_config *cfg, const fli_check *first, fli_changes *out);
void fli_changes_free(fli_changes *c);
/* The same for the rows of a check, and leaves the configuration as it is: they become those with which all conditions
 * hold that settings can satisfy. */
fl_status fli_settle_fixes(const fl_config *cfg, fli_check *c);

/* A remark at every change, for a tree that has them: room for count. */
fl_status fli_changes_remark(fli_changes *c, const fli_node *root, fli_remark *out);
/* What was changed, and what no setting satisfies by the check `again` of the result. */
void fli_changes_print(fli_text *t, const fli_changes *c, const fli_check *again);

#endif
