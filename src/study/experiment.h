/* An experiment: one problem, several methods, settings and seeds. Reads the file and expands it into a list of runs;
 * trials.c runs them.
 *
 *     rounds: 500                      # a configuration as for `fedloom run`: what all methods share
 *     data: ...
 *     seeds: 5                         # seed, seed + 1, ...
 *     methods:                         # each overrides common keys with its own
 *       - {label: FedAvg, algorithm: fedavg}
 *       - {label: FedProx, algorithm: {kind: fedprox, mu: 0.1}}
 *     grid: {local.lr: [0.01, 0.1]}    # every combination, for every method; a method may have a grid of its own
 *     points: [{local.lr: 0.1, model.weight_decay: 0}, {}]      # just these, instead of a grid; also per method
 *     tune: {local.lr: {from: 0.001, to: 1, log: true}}         # what `fedloom tune` tries; also per method
 *     quick: {rounds: 50, seeds: 1}    # overrides everything with --quick
 *     needs: {what: MNIST, files: [...], published: ...}   # looked for under ${data}
 *     paper: {...}                     # see paper.c */
#ifndef FLI_STUDY_EXPERIMENT_H
#define FLI_STUDY_EXPERIMENT_H

#include "config/config.h"

typedef struct {
    const char *label, *folder; /* folder: the label as a name below runs/ */
    const fli_node *node;       /* its node in the file; NULL: the configuration's own method */
    fli_node *over;             /* a map of its changes */
    fli_node *grid;             /* a map key -> list of values; NULL: none */
    const fli_node *points;     /* a list of maps key -> value; NULL: none; see below */
    size_t settings;            /* combinations of the grid, or points; at least 1 */
    const fli_node *tune;       /* its own ranges for tuning; NULL: none */
} fli_method;

/* One run of the experiment. */
typedef struct {
    size_t method, setting;
    uint64_t seed;
    fl_config *cfg;
    const char *setting_text; /* "lr=0.1, mu=1"; "" without a grid */
    const char *folder;       /* of its result */
    const char *config;       /* resolved, as it will be saved with the result */
    const char *data_key;     /* what its data depend on: runs with equal keys share the data */
    size_t rounds;
    fli_bound *bound; /* NULL: the settings belong to a run */
    const fli_settings *settings;
} fli_trial;

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    const char *name, *description, *output;
    fli_method *methods;
    size_t method_count;
    size_t seeds;
    uint64_t first_seed;
    fli_trial *trials; /* seed by seed, within a seed method by method */
    size_t count;
    fl_config *file;              /* a copy that owns the nodes, and the file names in trials' errors */
    const fli_node *paper, *tune; /* NULL: none */
} fli_experiment;

/* Reads an experiment and binds every run's configuration, which checks all that can be checked without loading data.
 * `cfg` is only read. */
fl_status fli_experiment_init(fl_config *cfg, const fl_study_options *o, fli_experiment *x);
void fli_experiment_fini(fli_experiment *x);
/* Makes a configuration of what the data of all runs depend on, after looking for the files in `needs`. `data` replaces
 * ${data}; NULL: the environment's FEDLOOM_DATA. The caller frees *out, also after a failure. */
fl_status fli_experiment_data(const fl_config *cfg, const char *data, fl_config **out);
/* Copies a caller's options, of this version or another; zeros if NULL. */
fl_status fli_study_options_take(fl_ctx *ctx, const fl_study_options *given, fl_study_options *out);
/* Overrides the tree with its `quick` part, if it has one. */
fl_status fli_experiment_apply_quick(fli_arena *a, fli_node *root);

/* fl_text_fn that appends to a fli_text. */
void fli_collect(void *arg, const char *text);

/* ==== the settings of a method ============================================================================== */

/* The settings to try a method with. `grid: {local.lr: [0.01, 0.1]}` means every combination of the lists; `points:
 * [{local.lr: 0.1, algorithm.mu: 1}, {}]` means just these, each a map from keys to values. Keys are written as for
 * --set. */

/* Whether a key belongs to all runs: a method and its settings may not set it. */
int fli_is_shared_key(const char *key);
/* {a: {b: value}} for the key "a.b": as in a file, with the place of `value`. */
fli_node *fli_nest(fli_arena *a, const char *key, const fli_node *value);
/* A value as one line of YAML, for readers: control characters become blanks. */
void fli_value_words(fli_text *t, const fli_node *value);

#endif
