#include "solver/schedule.h"

#include <math.h>

enum { CONSTANT, SQRT, LOG2, EXPONENTIAL };

double fli_schedule_lr(const fli_schedule *s, double lr, double k)
{
    switch (s->kind) {
    case SQRT: return lr / sqrt(k);
    case LOG2: return lr / log2(k + 1);
    case EXPONENTIAL: return lr * pow(s->decay, k - 1);
    default: return lr;
    }
}

double fli_schedule_mean(const fli_schedule *s, uint64_t from, size_t steps)
{
    double sum = 0;
    for (size_t j = 1; j <= steps; j++) sum += fli_schedule_lr(s, 1, (double)(from + j));
    return steps ? sum / (double)steps : fli_schedule_lr(s, 1, (double)from + 1);
}
