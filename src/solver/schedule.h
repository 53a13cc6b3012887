/* Step sizes that shrink: by the round, or by the step. */
#ifndef FLI_SOLVER_SCHEDULE_H
#define FLI_SOLVER_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#define FLI_SCHEDULE_WORDS "constant|sqrt|log2|exponential"

typedef struct {
    int kind; /* one of FLI_SCHEDULE_WORDS */
    double decay;
    int by_step; /* what k counts: local steps instead of rounds */
} fli_schedule;

/* Step size number k = 1, 2, ...: lr; lr/sqrt(k); lr/log2(k+1); lr decay^(k-1). */
double fli_schedule_lr(const fli_schedule *s, double lr, double k);
/* What steps from+1 .. from+steps average to, of lr = 1. */
double fli_schedule_mean(const fli_schedule *s, uint64_t from, size_t steps);

#endif
