/* An experiment: one problem, several methods, settings and seeds. This is the file read and unfolded into the list of
 * runs it asks for; running them is in trials.c.
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
 *     quick: {rounds: 50, seeds: 1}    # laid over everything by --quick
 *     needs: {what: MNIST, files: [...], published: ...}   # looked for under ${data}
 *     paper: {...}                     # see paper.c */
#ifndef FLI_STUDY_EXPERIMENT_H
#define FLI_STUDY_EXPERIMENT_H

#include "config/config.h"

typedef struct {
    const char *label, *folder; /* folder: the label as a name below runs/ */
    const fli_node *node;       /* where the file has it; NULL: it is the configuration's own */
    fli_node *over;             /* a map: what it changes */
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
    const char *config;       /* resolved, as it will stand beside the result */
    const char *data_key;     /* what its data depend on: runs with equal keys share them */
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
    fl_config *file;              /* a copy: nodes are in it, and the names of files that trials speak of */
    const fli_node *paper, *tune; /* NULL: none */
} fli_experiment;

/* Checks everything that can be checked without loading data: every run's configuration is bound. `cfg` is only
 * read. */
fl_status fli_experiment_init(fl_config *cfg, const fl_study_options *o, fli_experiment *x);
void fli_experiment_fini(fli_experiment *x);
/* What the data of all runs depend on, as a configuration, with what `needs` names looked for. `data` is what ${data}
 * stands for; NULL: the environment's FEDLOOM_DATA. *out is to be freed, also after a failure. */
fl_status fli_experiment_data(const fl_config *cfg, const char *data, fl_config **out);
/* What a caller says, of this version or another; zeros if it is NULL. */
fl_status fli_study_options_take(fl_ctx *ctx, const fl_study_options *given, fl_study_options *out);
/* Lays the tree's `quick` part over the rest, if there is one. */
fl_status fli_experiment_apply_quick(fli_arena *a, fli_node *root);

/* fl_text_fn that appends to a fli_text. */
void fli_collect(void *arg, const char *text);

/* ==== the settings of a method ============================================================================== */

/* The settings that a method is tried with. `grid: {local.lr: [0.01, 0.1]}` means every combination of the lists;
 * `points: [{local.lr: 0.1, algorithm.mu: 1}, {}]` means just these, each a map from keys to values. Keys are as --set
 * takes them. */

/* What the experiment sets for every run: neither a method nor its settings may. */
int fli_is_shared_key(const char *key);
/* {a: {b: value}} for the key "a.b": what a file would say, with the place where `value` stands. */
fli_node *fli_nest(fli_arena *a, const char *key, const fli_node *value);
/* A value as YAML writes it on one line, for a person: control characters become blanks. */
void fli_value_words(fli_text *t, const fli_node *value);

#endif
