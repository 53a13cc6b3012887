/* A golden case as a configuration and samples in memory: what the file says in its own words, in those of settings, so
 * that it is planned like any other run. What it says beyond settings (weights, who takes part in which round with how
 * many steps, what comes out) stays JSON, for verify.c. */
#ifndef FLI_EXTEND_GOLDEN_H
#define FLI_EXTEND_GOLDEN_H

#include "data/federation/fed.h"
#include "config/config.h"

#include <jansson.h>

typedef struct {
    fl_ctx *ctx;
    const char *path;
    json_t *json;
    fl_config *cfg;
    fli_fed *fed; /* NULL: the objective is not known, which planning will say */
} fli_golden;

/* To be given back in either case. `executor`: the name of one. */
fl_status fli_golden_read(fl_ctx *ctx, const char *path, const char *executor, fli_golden *out);
void fli_golden_fini(fli_golden *g);

/* FL_EFORMAT: the file, and what is wrong with it. */
fl_status fli_golden_bad(const fli_golden *g, const char *what);
/* A list of n numbers into out; 0 if it is anything else. */
int fli_golden_numbers(const json_t *list, size_t n, double *out);

#endif
