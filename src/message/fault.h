/* A function of the user's that failed, in a federation or on one side of it, for as long as that lives: nothing of the
 * user's is called there any more. Safe from any thread. */
#ifndef FLI_MESSAGE_FAULT_H
#define FLI_MESSAGE_FAULT_H

#include "algo/algo.h"

#include <stdatomic.h>

/* Zeroed: nothing has failed. */
typedef struct {
    atomic_int taken, there;
    fl_failure first; /* the sentence, once `there` is set */
} fli_fault;

static inline int fli_fault_there(const fli_fault *f) { return atomic_load_explicit(&f->there, memory_order_acquire); }

/* The first sentence stays in the fault. An empty one changes nothing: it is of somebody who has only seen that another
 * has failed. */
void fli_fault_note(fli_fault *f, const fl_failure *why);

/* Makes "method NAME failed in pose, client 3, round 5: WHY" of a failure's text; `ask` NULL: no client's. */
void fli_fault_word(fl_failure *why, const fli_algo *a, const char *call, const fli_ask *ask, size_t round);

#endif
