/* Parameters of registered objects: tables of keys, checked and copied, and the header before the values. */
#ifndef FLI_FORMAT_USER_KEYS_H
#define FLI_FORMAT_USER_KEYS_H

#include "format/keys.h"

typedef struct {
    const char *what, *name; /* for messages, as in "method 'mine'" */
    const fl_key *keys;      /* NULL: no parameters */
    size_t params_size;      /* of the struct that they fill; 0: doubles, in the order of the table */
} fli_user_keys;

/* Reports every mistake in the table. */
fl_status fli_user_keys_check(fl_ctx *ctx, const fli_user_keys *of);
/* Replaces the table by a copy in the arena. Doubles get a size, for fli_user_keys_bound, and *values is their number
 * (0: a struct, or none). */
fl_status fli_user_keys_copy(fli_arena *a, const fl_key **keys, size_t *params_size, size_t *values);

/* The header before the parameters; they keep the alignment of an arena's memory. */
typedef union {
    struct {
        void *arg; /* the argument of the functions: fl_begun */
        int begun; /* `arg` is the run's own, and `end` must still be called */
    };
    max_align_t aligned[2];
} fli_user_head;
static inline fli_user_head *fli_user_head_of(const void *params) { return (fli_user_head *)params - 1; }
/* Call it after binding parameters, also after a failure: sets the values as functions see them. */
void fli_user_keys_bound(const fl_key *keys, size_t values, void *arg, void *params);

#endif
