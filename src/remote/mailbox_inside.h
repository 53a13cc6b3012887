/* What a mailbox is made of: for mailbox.c, where carriers come and go, and mailbox_run.c, where the run waits. */
#ifndef FLI_REMOTE_MAILBOX_INSIDE_H
#define FLI_REMOTE_MAILBOX_INSIDE_H

#include "remote/mailbox.h"

#include <pthread.h>

/* Exchanges that somebody waits for together. */
typedef struct {
    const fli_filled *filled; /* NULL: nobody wants to know */
    int gathers;              /* who does not come is left out; else everybody must come */
    size_t left;              /* that are awaited */
    size_t came;              /* that are answered, and well */
    size_t held;              /* that a carrier reads or writes: until it has finished they must stay */
    int over;                 /* nobody is waited for any more */
    fl_status failed;         /* there is no use in waiting for the rest, */
    fl_failure why;           /* and the reason */
} fli_pile;

typedef enum { FLI_WAITING, FLI_WRITING, FLI_OUT, FLI_READING, FLI_ANSWERED } fli_progress;

/* Why a client is left out. */
typedef enum { FLI_NOT_LEFT_OUT, FLI_LATE, FLI_NOT_NEEDED, FLI_DROPPED, FLI_DECLINED } fli_left_out;

typedef struct fli_letter {
    fli_exchange *x;
    fli_pile *batch;
    size_t place; /* in the batch */
    uint64_t number;
    fli_progress progress;
    fli_left_out left_out; /* then nobody waits for its answer any more */
    /* those that are sent one by one: */
    double until;    /* fli_clock_now() of its deadline */
    uint64_t order;  /* in which they were answered or dropped */
    uint64_t before; /* what counted of the client before this answer did */
    struct fli_letter *next;
} fli_letter;

/* The longest vector that a client has uploaded to this process. */
typedef struct {
    double norm; /* 0: none has come */
    uint64_t round;
} fli_longest;

struct fli_mailbox {
    fl_ctx *ctx; /* of the run */
    fli_digest cards;
    uint64_t secret; /* 0: there is none */
    fli_admission rules;
    fli_clients_spec spec;
    fli_protocol protocol;
    pthread_mutex_t lock; /* guards all below, and every letter and batch */
    pthread_cond_t asked; /* there is a letter to carry, or it is closed */
    pthread_cond_t moved; /* a batch has come nearer to its end */
    fli_letter *first, **end;
    fli_pile loose;   /* those that are sent one by one */
    uint64_t numbers; /* given to letters */
    uint64_t orders;
    fli_longest *longest; /* of each client */
    uint64_t *taken;      /* of each client: the number of its last turn that counts; 0: none */
    int said;             /* that not everybody is measured */
    int open, closed;
};

/* There is a run: its clients are asked for this. */
fl_status fli_mailbox_open(fl_ctx *ctx, fli_mailbox *b, const fli_clients_spec *spec);

/* Behind the lock, all of these. Whether somebody waits for its answer. */
int fli_letter_awaited(const fli_letter *l);
/* Nobody waits for it any more; a sentence for the log. */
void fli_letter_leave_out(fli_mailbox *b, fli_letter *l, fli_left_out how, const char *why);
/* Ends the wait for a batch; the first reason stays. */
void fli_pile_give_up(fli_mailbox *b, fli_pile *g, fl_status status, const char *why);
/* Waits until something has moved, at most until fli_clock_now() is that; 0: it is. */
int fli_mailbox_wait(fli_mailbox *b, double until);

#endif
