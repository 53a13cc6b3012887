/* Keys of `algorithm` that an experiment sets for all its methods at once: by --set, or in a section without a kind. A
 * method that has such a key takes it, unless it has a value of its own; one that has no such key goes without. A key
 * that none of them has is a mistake. */
#ifndef FLI_STUDY_METHOD_KEYS_H
#define FLI_STUDY_METHOD_KEYS_H

#include "study/experiment.h"

/* Gives a trial's configuration the keys that its method has, and takes away the others. */
fl_status fli_method_keys_apply(const fli_node *common, fl_config *cfg);
/* When all trials are there: refuses keys that nobody took, and logs which methods went without. */
fl_status fli_method_keys_check(const fli_experiment *x, const fli_node *common);

#endif
