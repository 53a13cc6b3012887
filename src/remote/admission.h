/* The settings of the section `server` (deadline, how many answers a round needs, bounds), and the check of an answer's
 * values. `remote_queue` waits for answers and keeps the deadline. */
#ifndef FLI_REMOTE_ADMISSION_H
#define FLI_REMOTE_ADMISSION_H

#include "remote/packet.h"

/* What a failed turn or one that is not finite leads to, and what an upload beyond the bound. */
#define FLI_FAILED_WORDS "drop|end"
#define FLI_BEYOND_WORDS "reject|clip"
enum { FLI_FAILED_DROP, FLI_FAILED_END };
enum { FLI_BEYOND_REJECT, FLI_BEYOND_CLIP };

typedef struct {
    double deadline;         /* seconds; 0: none */
    double wait_for;         /* share of the invited clients whose answers suffice */
    double quorum;           /* share of them that a round needs to count */
    int failed;              /* FLI_FAILED_ */
    double largest_norm;     /* of a vector; 0: no limit */
    int beyond;              /* FLI_BEYOND_ */
    int64_t largest_samples; /* most samples that a client may claim; 0: 100 times the median */
    double largest_share;    /* most share of the weights; 0: any */
    int64_t memory;          /* bytes of uploads in memory; 0: a quarter of what this process can have */
} fli_admission;

/* How many of n invited clients a round waits for, at least one; and how many it needs to count. */
size_t fli_admission_wanted(const fli_admission *a, size_t n);
size_t fli_admission_least(const fli_admission *a, size_t n);

/* Checks what an answer has sent, and scales a vector down to the bound if the rule is to clip. FL_OK: accepted.
 * FL_EDIVERGED: a value is not finite, or a loss is far too large. FL_EREFUSED: a vector is beyond the bound. In both
 * cases x->why names the part and the value. */
fl_status fli_admit(const fli_admission *a, const fli_setup *setup, fli_exchange *x);

#endif
