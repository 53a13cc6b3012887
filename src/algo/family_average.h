/* Common to FedAvg and its relatives: upload the change x_i - x, average, step, and, for composite problems f + g, a
 * proximal step of g whose length is that of the clients' steps together. Their parameter structs begin with
 * fli_average_params, their tables with FLI_AVERAGE_KEYS. */
#ifndef FLI_ALGO_FAMILY_AVERAGE_H
#define FLI_ALGO_FAMILY_AVERAGE_H

#include "algo/algo.h"

typedef struct {
    int aggregation; /* 0 normalized, 1 unbiased */
    double server_lr;
} fli_average_params;

#define FLI_AVERAGE_KEYS                                                                                               \
    FLI_KEY_CHOICE(fli_average_params, aggregation, "normalized", "normalized|unbiased",                               \
                   "weights of the average: over the cohort, or over everyone times N/m"),                             \
        FLI_KEY_REAL(fli_average_params, server_lr, "1", FLI_ABOVE_0, FLI_NO_MAX, "step size of the server")

extern const char *const fli_average_server[], *const fli_average_sums[];
extern const fl_part fli_average_down[], fli_average_up[];

/* The parts of a descriptor that FedAvg and its relatives share. */
#define FLI_AVERAGE_PARTS                                                                                              \
    .server = fli_average_server, .down = fli_average_down, .up = fli_average_up, .sums = fli_average_sums,            \
    .scalar_sums = 1, .answer = fli_average_answer, .advance = fli_average_advance

int fli_average_answer(const fl_turn *t, const fl_answer *a);
/* `absorb` of methods without proximal steps. */
int fli_average_sum(const fl_coordinator *s, const fl_upload *t);
/* `absorb` of a client whose steps have the total length `reach`; their average is the length of the proximal step of a
 * composite problem. */
void fli_average_add(const fl_coordinator *s, const fl_upload *t, double reach);
int fli_average_absorb(const fl_coordinator *s, const fl_upload *t);
int fli_average_advance(const fl_coordinator *s);
/* `warn`; the reach of one client stands for the average. */
void fli_average_warn_reach(const void *params, const fl_facts *f, double reach, fli_text *out);
void fli_average_warn(const void *params, const fl_facts *f, fli_text *out);

#endif
