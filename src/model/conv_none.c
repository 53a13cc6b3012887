/* In the place of conv_onednn.c in a build without oneDNN. */
#include "model/conv.h"

const fli_conv_kind *const fli_conv_onednn = NULL;

const char *fli_conv_library(void) { return NULL; }
