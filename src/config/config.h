/* A configuration under construction: a tree of settings, laid over one another in the order they came. */
#ifndef FLI_CONFIG_CONFIG_H
#define FLI_CONFIG_CONFIG_H

#include "data/federation/memory.h"
#include "server/coordinator.h"
#include "config/settings.h"

struct fl_config {
    fl_ctx *ctx;
    fli_arena arena;
    fli_node *root;      /* a map */
    fli_memory memory;   /* for data.kind memory; train.size 0: nothing was handed over */
    size_t slice;        /* entries that the server takes at a time, for tests of methods; 0: what is fast */
    fli_between between; /* the same, where it is tested that runs do not disturb each other */
    fl_ranks ranks;      /* that make runs of it together; count 0: this process alone */
    int compared;        /* one of several runs of an experiment: what only some methods have may be asked of all */
};

/* Lays a tree (a map) over what is there, as a file would be. Choosing another kind keeps the keys all kinds of the
 * section share. */
fl_status fli_config_merge(fl_config *c, const fli_node *over);

#endif
