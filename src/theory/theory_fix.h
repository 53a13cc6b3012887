/* `fedloom check --fix`: settings changed until the conditions of the method's theorem hold. */
#ifndef FLI_THEORY_THEORY_FIX_H
#define FLI_THEORY_THEORY_FIX_H

#include "theory/theory_check.h"
#include "format/yaml_print.h"

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
