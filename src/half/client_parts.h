/* A client of a federation from within: what client.c, client_state.c, client_limits.c and client_describe.c share. */
#ifndef FLI_HALF_CLIENT_PARTS_H
#define FLI_HALF_CLIENT_PARTS_H

#include "half/client.h"
#include "config/settings.h"

#include "remote/packet.h"
#include "client/recall.h"

/* Where a client is between two turns, in numbers. */
typedef struct {
    uint64_t turns;        /* that it took */
    uint64_t last;         /* the number of the last of them: asks for turns have ascending numbers */
    uint64_t round, phase; /* of the exchange that is to come next, where it keeps something of the round */
    uint64_t stream, warm; /* of that last turn, as its ask said: those of a round have the same */
} fli_client_place;

/* A place that it can go back to, with all that it kept there. */
typedef struct {
    int there;
    fli_client_place at;
    unsigned char *bytes; /* a snapshot; NULL where it kept nothing */
    size_t n;
} fli_client_point;

/* Its own limits, with memory of its own; 0 and NULL: none. */
typedef struct {
    fl_client_limits most;
    char **methods, **models;
} fli_client_limits;

struct fl_client {
    fl_ctx *ctx;
    fli_arena arena;       /* of the settings */
    fli_settings settings; /* its own: where its samples come from */
    fli_memory memory;     /* what a program has handed over; train.size 0: nothing */
    fli_dataset *samples;  /* as loaded; NULL: not now, or the federation has them */
    int wide;              /* they were loaded for models that compute in f64 */
    uint64_t count;
    fli_client_limits limits;
    fli_halt halt; /* of the turn under way */
    /* from the terms */
    unsigned char *terms; /* as they came; NULL: none were accepted */
    size_t terms_bytes;
    uint32_t number;
    fli_protocol protocol;
    fli_clients_spec spec;
    fli_fault fault;
    void *member;
    fli_fed *fed;
    fli_eval eval;
    /* what changes */
    fli_clients *clients;
    fli_recall *recall; /* NULL: it keeps nothing of a round just now */
    fli_client_place now;
    fli_client_point round; /* before its first turn in the last round that it was in; */
    fli_client_point turn;  /* before the last turn, where that is not the same */
    fli_client_place other; /* of one that keeps nothing, and so may be anywhere */
};

/* ---- client_state.c: which turns count --------------------------------------------------------------------- */

/* Where a client is of whose turns the one with that number is the last that counts; 0: none does. NULL: there is no
 * such place. */
const fli_client_place *fli_client_find(fl_client *c, uint64_t settled);
/* Goes there, so that later turns have not been. Nothing changes where that fails. */
fl_status fli_client_go_back(fl_client *c, const fli_client_place *to);
/* A turn is about to be taken: this place is kept. */
fl_status fli_client_mark(fl_client *c, const fli_ask *ask);
/* That turn failed, and has not been. */
fl_status fli_client_undo(fl_client *c);
void fli_client_forget(fl_client *c); /* both places */

/* ---- client_limits.c ---------------------------------------------------------------------------------------- */

/* Each FL_EREFUSED with a sentence where a limit is passed. Of any bytes, before they are looked at: */
fl_status fli_client_may_read(fl_client *c, size_t n);
/* of terms, before anything is made of them; and of what they ask for, before memory is taken for it; */
fl_status fli_client_may_join(fl_client *c, const fli_terms *t);
fl_status fli_client_may_hold(fl_client *c);
/* of an ask, before anything is computed. */
fl_status fli_client_may_work(fl_client *c, const fli_ask *ask);
void fli_client_limits_fini(fli_client_limits *l);

#endif
