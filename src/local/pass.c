#include "local/pass.h"

void fli_pass_next(fli_pass *p, fli_rng *rng)
{
    if (p->at && p->at == p->n) {
        p->at = 0;
        p->epoch++;
    }
    if (p->at == 0 && p->size < p->n) fli_rng_shuffle(rng, p->n, p->order);
    p->now = p->order + p->at;
    p->count = p->size < p->n - p->at ? p->size : p->n - p->at;
    p->at += p->count;
}
