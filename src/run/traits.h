/* What descriptors say about themselves beyond names and keys, in words: the `more` of the kinds. */
#ifndef FLI_RUN_TRAITS_H
#define FLI_RUN_TRAITS_H

#include "base/text.h"

void fli_traits_algo(fli_text *t, const void *desc);
void fli_traits_model(fli_text *t, const void *desc);
void fli_traits_source(fli_text *t, const void *desc);
void fli_traits_partitioner(fli_text *t, const void *desc);

#endif
