/* A client of a federation from within: fl_client as client.c and client_describe.c have it. */
#ifndef FLI_HALF_CLIENT_H
#define FLI_HALF_CLIENT_H

#include "client/broadcast_cache.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "fedloom_halves.h"
#include "remote/packet.h"

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
    fli_setup setup;
    void *made; /* what the setup points to, by fli_client_setup_make; NULL: nothing */
    fli_clients_spec spec;
    fli_user_failure user_failure;
    fli_fed *fed;
    fli_eval eval;
    /* what changes */
    fli_clients *clients;
    fli_broadcast_cache *broadcast_cache; /* NULL: it keeps nothing of a round just now */
    fli_client_place now;
    fli_client_point round; /* before its first turn in the last round that it was in; */
    fli_client_point turn;  /* before the last turn, where that is not the same */
    fli_client_place other; /* of one that keeps nothing, and so may be anywhere */
};

/* A client with these samples, for tests. Takes the samples if it succeeds. `wide`: as of a federation that computes in
 * f64. */
fl_status fli_client_with(fl_ctx *ctx, fli_dataset *samples, int wide, fl_client **out);

#endif
