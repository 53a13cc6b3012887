/* fl_client from within, for client.c and client_describe.c. */
#ifndef FLI_HALF_CLIENT_H
#define FLI_HALF_CLIENT_H

#include "client/broadcast_cache.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "fedloom_halves.h"
#include "remote/packet.h"

/* A place between two turns. */
typedef struct {
    uint64_t turns;        /* number of turns taken */
    uint64_t last;         /* number of the last of them; ask numbers of turns ascend */
    uint64_t round, phase; /* of the next exchange, if the client keeps something of the round */
    uint64_t stream, warm; /* of the last turn; the same for all turns of a round */
} fli_client_place;

/* A place to which the client can return, with its state there. */
typedef struct {
    int there;
    fli_client_place at;
    unsigned char *bytes; /* NULL if it had no state */
    size_t n;
} fli_client_point;

/* A copy of the client's limits; 0 and NULL: none. */
typedef struct {
    fl_client_limits most;
    char **methods, **models;
} fli_client_limits;

struct fl_client {
    fl_ctx *ctx;
    fli_arena arena;       /* of the settings */
    fli_settings settings; /* of the client's own file: where its samples come from */
    fli_memory memory;     /* samples from a program; train.size 0: none */
    fli_dataset *samples;  /* as loaded; NULL: not loaded, or the federation has them */
    int wide;              /* they were loaded for models that compute in f64 */
    uint64_t count;
    fli_client_limits limits;
    fli_halt halt; /* stops the turn under way */
    /* from the terms */
    unsigned char *terms; /* the bytes; NULL: none were accepted */
    size_t terms_bytes;
    uint32_t number;
    fli_protocol protocol;
    fli_setup setup;
    void *made; /* from fli_client_setup_make: owns what the setup points to; NULL: none */
    fli_clients_spec spec;
    fli_user_failure user_failure;
    fli_fed *fed;
    fli_eval eval;
    /* what changes */
    fli_clients *clients;
    fli_broadcast_cache *broadcast_cache; /* NULL: nothing is kept of a round at present */
    fli_client_place now;
    fli_client_point round; /* before its first turn in its last round */
    fli_client_point turn;  /* before its last turn, if that is another place */
    fli_client_place other; /* returned by place_after for a method without state */
};

/* A client with these samples, for tests. Takes over the samples if it succeeds. `wide`: they are for models that
 * compute in f64. */
fl_status fli_client_with(fl_ctx *ctx, fli_dataset *samples, int wide, fl_client **out);

#endif
