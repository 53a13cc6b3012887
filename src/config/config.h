/* A configuration under construction: a tree of settings, in which later files and --set override earlier ones. Also
 * what follows from bound settings for asks: steps, step sizes, durations. */
#ifndef FLI_CONFIG_CONFIG_H
#define FLI_CONFIG_CONFIG_H

#include "client/card.h"
#include "config/settings.h"
#include "data/federation/in_memory.h"
#include "message/setup.h"
#include "server/server_state.h"

#include <stdatomic.h>

/* ==== asks of turns ======================================================================================== */

/* What an ask tells a client to do in a turn, and how long that takes. All of it follows from the settings and from
 * what clients said when they joined, so it is part of the plan. All borrowed. */
typedef struct {
    const fli_setup *setup;
    const fli_local_settings *local;
    const fli_participation *participation;
    const fli_system *system; /* NULL: durations are not known */
} fli_ask_params;

/* What a client that said this when it joined is asked to do in a turn that begins after `round` server steps: its
 * stream, steps, lr and probability. */
fl_ask fli_ask_for(const fli_ask_params *a, const fli_card *card, size_t round, size_t turn, uint32_t client);
/* The method's fl_two_levels.work of that client's turns, in the mean over the rounds that may come. */
double fli_ask_work(const fli_ask_params *a, const fli_card *card, uint32_t client);
/* Simulated seconds of the turn of that client that such an ask is for; there must be a system. */
double fli_ask_seconds(const fli_ask_params *a, const fli_card *card, const fl_ask *ask);
/* What a method's random decisions about a round go by: uniform in [0, 1). */
double fli_ask_params_coin(const fli_ask_params *a, size_t round);

/* ==== the configuration ==================================================================================== */

/* Settings that were bound once. They do not change, and are shared by all who hold them: their configuration, and the
 * plans of runs, which may outlive it. */
typedef struct {
    fli_settings settings;
    fli_arena arena;
    unsigned registry_changes; /* before they were bound: what users registered since may have taken a name */
    atomic_uint holders;
} fli_bound;

void fli_bound_release(fli_bound *b); /* NULL is none */

struct fl_config {
    fl_ctx *ctx;
    fli_arena arena;
    const fli_node *root;          /* a map; to be changed through fli_config_change alone */
    fli_bound *bound;              /* what the tree says; NULL: it was not bound since it changed */
    fli_memory memory;             /* for data.kind memory; train.size 0: nothing was handed over */
    size_t slice;                  /* entries that the server takes at a time, for tests of methods; 0: what is fast */
    fli_after_absorb after_absorb; /* called between uploads, for tests that runs do not disturb each other */
    fl_ranks ranks;                /* that make runs of it together; count 0: this process alone */
    int compared; /* one of several runs of an experiment: what only some methods have may be asked of all */
};

/* The settings, bound unless they are. All problems are reported. They stay as long as they are held; the borrowed ones
 * until anything is done with the configuration. */
fl_status fli_config_hold(fl_config *c, fli_bound **out);
fl_status fli_config_settings(fl_config *c, const fli_settings **borrowed);
/* A copy for another context. What was bound is shared, so the old context must outlive the copy. */
fl_config *fli_config_copy(fl_ctx *ctx, const fl_config *from);
/* The tree, to be changed. What was bound no longer counts. */
fli_node *fli_config_change(fl_config *c);
/* A text at the top, whatever characters it has. */
fl_status fli_config_put(fl_config *c, const char *key, const char *text);
/* Lays a tree (a map) over what is there, as a file would be. Choosing another kind keeps the keys all kinds of the
 * section share. */
fl_status fli_config_merge(fl_config *c, const fli_node *over);

#endif
