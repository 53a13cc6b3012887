/* The rules by which a server accepts answers: deadlines, how many answers a round needs, bounds on what is
 * uploaded. */
#ifndef FLI_REMOTE_ADMISSION_H
#define FLI_REMOTE_ADMISSION_H

#include "remote/packet.h"

/* What becomes of a client whose turn fails or brings something that is not finite, and of an upload out of bounds. */
#define FLI_FAILED_WORDS "drop|end"
#define FLI_BEYOND_WORDS "reject|clip"
enum { FLI_FAILED_DROP, FLI_FAILED_END };
enum { FLI_BEYOND_REJECT, FLI_BEYOND_CLIP };

typedef struct {
    double deadline; /* seconds; 0: none */
    double wait_for; /* share of those invited whose answers suffice */
    double quorum;   /* share of them below which a round does not count */
    int failed;      /* FLI_FAILED_ */
    double largest_norm;
    int beyond;              /* FLI_BEYOND_ */
    int64_t largest_samples; /* that a client may claim; 0: any number that is not far from the others' */
    double largest_share;    /* of the weights; 0: any */
    int64_t memory;          /* bytes of uploads in memory; 0: a quarter of what there is */
} fli_admission;

/* How many of n invited clients a round waits for, at least one; and with how many it counts. */
size_t fli_admission_wanted(const fli_admission *a, size_t n);
size_t fli_admission_least(const fli_admission *a, size_t n);

/* Looks at what an answer has brought, and brings a vector down to the bound where that is the rule. FL_OK: it is let
 * in. FL_EDIVERGED: something in it is not finite, or a loss is far beyond all that can be. FL_EREFUSED: a vector is
 * beyond the bound. x->why then says what is wrong, with the part and the value. */
fl_status fli_admit(const fli_admission *a, const fli_setup *setup, fli_exchange *x);

#endif
