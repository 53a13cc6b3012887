/* Methods that users register (fedloom_extend.h), as descriptors like those of list.c. */
#ifndef FLI_ALGO_USER_METHOD_H
#define FLI_ALGO_USER_METHOD_H

#include "algo/algo.h"

/* Number i of those that come with fedloom and then of those that users registered; NULL past the last. *by_user: it is
 * one of the latter. */
const fli_algo *fli_algo_at(size_t i, int *by_user);
const fli_algo *fli_user_method_named(const char *name); /* a user's; NULL: there is none */
/* Refuses an incomplete method, else adds a copy to the list. The caller checks the name. */
fl_status fli_user_method_add(fl_ctx *ctx, const fl_method *m);
/* The solver that a method names so, one of fedloom's or a user's; NULL: there is none. */
const fli_solver *fli_user_solver_named(const char *name);
/* Takes a user's method out of the list; 0: there was none of that name. */
int fli_user_method_forget(const char *name);

/* ==== internals =========================================================================================== */

/* What a registered method is made of. For user_check.c, which checks it, and user_method.c, which copies it and calls
 * its functions. */

enum { FLI_USER_VECTORS = 64, FLI_USER_SCALARS = 256 }; /* at most this many of a kind */

/* What the user gave beside tables. */
typedef struct {
    void *arg;
    unsigned traits;
    size_t work, phases, buffer;
    int (*start)(const fl_coordinator *s);
    int (*pose)(const fl_turn *t, fl_problem *p);
    int (*answer)(const fl_turn *t, const fl_answer *a);
    int (*absorb)(const fl_coordinator *s, const fl_upload *u);
    int (*advance)(const fl_coordinator *s);
    void *(*begin)(void *arg, const double *params, fl_failure *f);
    void (*end)(void *begun);
} fli_user_calls;

typedef struct {
    fli_algo algo;   /* first: a pointer to it is one to the method */
    fli_arena arena; /* in which all of it lies, this struct too */
    fli_user_calls does;
    size_t server; /* its vectors, */
    unsigned char sent[FLI_USER_VECTORS],
        sent_scalars[FLI_USER_SCALARS]; /* and what clients ever get of the server's */
    int hides;                          /* there are server vectors that they never get */
    const char *solver[FLI_STAGES];     /* of every phase */
} fli_user_method;

/* Bound parameters begin with this. Behind the values lies what the rows of the table fill. */
typedef struct {
    const fli_user_method *self;
    void *arg; /* what the functions are handed */
    int begun; /* that is the run's own, and `end` is still to be called */
    double value[];
} fli_user_params;

#endif
