/* The model of a result, with all that is needed to use it without the result. */
#ifndef FLI_RUN_MODEL_SAVE_H
#define FLI_RUN_MODEL_SAVE_H

#include "run/run.h"

/* The global model of a run, as model_file.h says. */
fl_status fli_model_save(fl_run *run, const char *path);

#endif
