/* All that a run gives: its model and its metrics after every round; and whether two runs gave the same. */
#ifndef FLI_EXTEND_CONFORM_TRACE_H
#define FLI_EXTEND_CONFORM_TRACE_H

#include "base/text.h"
#include "config/config.h"

typedef struct {
    size_t n, rounds; /* parameters; rounds that there is room for, beside the start */
    double *x;        /* rounds + 1 models */
    fl_row *rows;
    fl_status status; /* of the run: FL_OK, FL_EDIVERGED or FL_ECALLBACK */
    char *error;      /* its sentence, if that is not FL_OK */
} fli_trace;

/* Runs the configuration to its end; a failure that may be the method's is in the trace. Anything but FL_OK: it could
 * not begin, or something else went wrong. `stop` > 0: only that many rounds, and a checkpoint if there is an `output`
 * to leave one at. */
fl_status fli_trace_run(fl_config *cfg, size_t stop, fli_trace *out);
/* Goes on from the checkpoint of that output, with the method of that name. */
fl_status fli_trace_resume(fl_ctx *ctx, const char *output, const char *method, fli_trace *t);
void fli_trace_fini(fli_trace *t);
/* Whether all bits agree but for seconds; else what differs, as the end of a sentence. */
int fli_trace_same(const fli_trace *a, const fli_trace *b, fli_text *what);

#endif
