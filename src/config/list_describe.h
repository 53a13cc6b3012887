/* What descriptors say about themselves beyond names and keys, in words: the `more` of the kinds. */
#ifndef FLI_CONFIG_LIST_DESCRIBE_H
#define FLI_CONFIG_LIST_DESCRIBE_H

#include "base/text.h"

void fli_describe_algo(fli_text *t, const void *desc);
void fli_describe_model(fli_text *t, const void *desc);
void fli_describe_regularizer(fli_text *t, const void *desc);
void fli_describe_source(fli_text *t, const void *desc);
void fli_describe_partitioner(fli_text *t, const void *desc);

#endif
