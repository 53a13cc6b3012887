/* A configuration under construction: a tree of settings, in which later files and --set override earlier values. Also
 * the asks that bound settings determine: steps, step sizes, durations. */
#ifndef FLI_CONFIG_CONFIG_H
#define FLI_CONFIG_CONFIG_H

#include "client/card.h"
#include "config/settings.h"
#include "data/federation/in_memory.h"
#include "message/setup.h"
#include "server/server_state.h"

#include <stdatomic.h>

/* ==== asks of turns ======================================================================================== */

/* Parameters of asks: what a client is told to do in a turn, and how long that takes. All of it follows from the
 * settings and the clients' cards, so it is part of the plan. All borrowed. */
typedef struct {
    const fli_setup *setup;
    const fli_local_settings *local;
    const fli_participation *participation;
    const fli_system *system; /* NULL: durations are unknown */
} fli_ask_params;

/* The ask of a client with this card for a turn that begins after `round` server steps: its stream, steps, lr and
 * probability. */
fl_ask fli_ask_for(const fli_ask_params *a, const fli_card *card, size_t round, size_t turn, uint32_t client);
/* The mean of the method's fl_two_levels.work of that client's turns, over the possible rounds. */
double fli_ask_work(const fli_ask_params *a, const fli_card *card, uint32_t client);
/* The simulated seconds of the client's turn for such an ask; requires a system. */
double fli_ask_seconds(const fli_ask_params *a, const fli_card *card, const fl_ask *ask);
/* The number that decides a method's random choices about a round: uniform in [0, 1). */
double fli_ask_params_coin(const fli_ask_params *a, size_t round);

/* ==== the configuration ==================================================================================== */

/* Bound settings. They do not change, and their holders share them: the configuration, and the plans of runs, which may
 * outlive it. */
typedef struct {
    fli_settings settings;
    fli_arena arena;
    unsigned registry_changes; /* before binding: later registrations may have replaced a name */
    atomic_uint holders;
} fli_bound;

void fli_bound_release(fli_bound *b); /* NULL is allowed */

struct fl_config {
    fl_ctx *ctx;
    fli_arena arena;
    const fli_node *root;          /* a map; only fli_config_change may change it */
    fli_bound *bound;              /* the bound tree; NULL: it has changed since, or was never bound */
    fli_memory memory;             /* for data.kind memory; train.size 0: none was given */
    size_t slice;                  /* entries that the server processes at a time, for tests of methods; 0: default */
    fli_after_absorb after_absorb; /* called between uploads, for tests that interleave runs */
    fl_ranks ranks;                /* ranks that make its runs together; count 0: this process alone */
    int compared; /* one of several runs of an experiment: settings that only some methods have may be asked of all */
};

/* The settings; binds them if needed. Reports all problems. Held settings stay valid until they are released, borrowed
 * ones until the next call with the configuration. */
fl_status fli_config_hold(fl_config *c, fli_bound **out);
fl_status fli_config_settings(fl_config *c, const fli_settings **borrowed);
/* A copy for another context. It shares the bound settings, so the old context must outlive it. */
fl_config *fli_config_copy(fl_ctx *ctx, const fl_config *from);
/* The tree, to be changed; discards the bound settings. */
fli_node *fli_config_change(fl_config *c);
/* Sets a top-level key to a text with any characters. */
fl_status fli_config_put(fl_config *c, const char *key, const char *text);
/* Merges a tree (a map), as a file would be. Choosing another kind keeps the keys that all kinds share. */
fl_status fli_config_merge(fl_config *c, const fli_node *over);

#endif
