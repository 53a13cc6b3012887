/* The settings that a method is tried with. `grid: {local.lr: [0.01, 0.1]}` means every combination of the lists;
 * `points: [{local.lr: 0.1, algorithm.mu: 1}, {}]` means just these, each a map from keys to values. Keys are as --set
 * takes them. */
#ifndef FLI_STUDY_VARIANTS_H
#define FLI_STUDY_VARIANTS_H

#include "study/experiment.h"

/* What the experiment sets for every run: neither a method nor its settings may. */
int fli_is_shared_key(const char *key);
/* {a: {b: value}} for the key "a.b": what a file would say, with the place where `value` stands. */
fli_node *fli_nest(fli_arena *a, const char *key, const fli_node *value);
/* A value as YAML writes it on one line, for a person: control characters become blanks. */
void fli_value_words(fli_text *t, const fli_node *value);

/* Gives the method the settings that its node has, over those that `common` has for all; either may be NULL. */
fl_status fli_variants_read(fli_experiment *x, const fli_node *common, const fli_node *node, fli_method *m);
/* Lays the trial's setting over its configuration, and says it in a few words. */
fl_status fli_variants_apply(fli_experiment *x, const fli_method *m, fli_trial *t);

#endif
