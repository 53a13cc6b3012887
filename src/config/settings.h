/* A configuration as plain structs: every section bound and checked, every `kind` resolved to its descriptor. */
#ifndef FLI_CONFIG_SETTINGS_H
#define FLI_CONFIG_SETTINGS_H

#include "algo/algo.h"
#include "bilevel/bilevel.h"
#include "config/registry.h"
#include "format/keys.h"
#include "model/semi.h"
#include "remote/admission.h"
#include "server/participation.h"
#include "server/system.h"
#include "solver/solver.h"

typedef struct {
    char *name, *output, *device;
    int output_model;
    int64_t seed, rounds, threads;
    int precision, weights, clock;
    int64_t memory, checkpoint_every;
} fli_top_settings;

/* Models are of single precision with tf32: products alone are coarser, on devices. */
enum { FLI_PRECISION_F32, FLI_PRECISION_F64, FLI_PRECISION_TF32 };

/* What step-size schedules count. */
enum { FLI_BY_ROUND, FLI_BY_STEP };

#define FLI_DEVICE_CPU "cpu"

enum { FLI_CLOCK_VIRTUAL, FLI_CLOCK_REAL };

enum { FLI_WEIGHTS_AUTO, FLI_WEIGHTS_SAMPLES, FLI_WEIGHTS_UNIFORM };

typedef struct {
    int normalize, on_demand;
    fl_reals mean, std, scale, shift;
    double test_fraction, unlabelled;
    int64_t crop;
    int augment, augment_once;
    double augment_share;
} fli_data_settings;

typedef struct {
    int64_t clients;
} fli_partition_settings;

typedef struct {
    int64_t seed; /* of the cohorts; 0: that of everything else */
} fli_participation_settings;

typedef struct {
    double weight_decay;
    int weight_decay_by; /* FLI_DECAY_ */
    char *start;         /* a file; empty: the model's own start values */
} fli_model_settings;

#define FLI_SOLVER_SGD "sgd"

typedef struct {
    fli_local_work work;
    int64_t batch;
    double batch_fraction, lr, decay, momentum;
    fl_reals lr_factors;
    int epoch, schedule, schedule_by; /* FLI_SCHEDULE_WORDS; FLI_BY_ */
    char *solver;                     /* FLI_SOLVER_SGD: fedloom's own */
    const fl_solver *user_solver;     /* what that name found; NULL: fedloom has it, or none is named */
    const char *exact_solver;         /* the name as it was given, with its number if it had one */
} fli_local_settings;

typedef struct {
    int64_t every, max_clients;
    int test, train, gradient, gradient_mapping, potential, clients, local, hypergradient;
    double mapping_eta; /* 0: the method's own */
    int goal;           /* FLI_GOAL_ */
    fl_reals targets;
} fli_metrics_settings;

/* Which test accuracy targets are about: of the global model, or of the clients' own ones. */
enum { FLI_GOAL_GLOBAL, FLI_GOAL_LOCAL };

typedef struct {
    double target, gradient2, gradient_mapping, seconds, simulated, diverged;
} fli_stop_settings;

/* The choice of one section that has kinds. */
typedef struct {
    fli_item item;
    void *params;
    const char *exact; /* the name as it was given: of things of users' own it may have a number ("mine@2") */
} fli_choice;

typedef struct {
    fli_top_settings top;
    fli_data_settings data;
    fli_partition_settings partition;
    fli_model_settings model;
    fli_semi semi;
    fli_local_settings local;
    fli_participation_settings participation;
    fli_system_common system;
    fli_metrics_settings metrics;
    fli_stop_settings stop;
    fli_bilevel_common bilevel;
    fli_admission server;
    fli_choice source, partitioner, objective, regularizer, sampler, devices, algorithm, levels, executor;
} fli_settings;

/* Reads the tree through the tables, and holds it to the rules between keys (below). All problems are reported at
 * once. Memory from the arena. */
fl_status fli_settings_bind(fl_ctx *ctx, fli_arena *a, const fli_node *root, fli_settings *out);
/* The same of what a client of a federation elsewhere has to say for itself, all else left out: where its samples come
 * from, `local.solver`, `precision` and `memory`. */
fl_status fli_settings_bind_client(fl_ctx *ctx, fli_arena *a, const fli_node *root, fli_settings *out);
/* What the samples of a federation are made from; m: those that a program has handed over, NULL if there are none. */
fli_fed_spec fli_settings_fed(const fli_settings *s, const fli_memory *m);
/* One key, such as "local.lr" or "model.kind": its value as YAML, and its default. Of keys that there are not: nothing,
 * NULL. */
void fli_settings_print_key(fli_text *t, const fli_settings *s, const char *key);
const char *fli_settings_default(const fli_settings *s, const char *key);
/* Its row; NULL also for `kind`. */
const fl_key *fli_settings_key(const fli_settings *s, const char *key);
/* fli_meant of a key such as "local.lrr" that there is not, and of the name of a section. */
const char *fli_settings_meant(const fli_settings *s, const char *key, char out[FLI_MEANT_LEN]);
const char *fli_settings_nearest_section(const char *name); /* NULL: none is near */
/* The whole configuration as YAML, every key with its value: what is written beside a result. */
void fli_settings_print(fli_text *t, const fli_settings *s);
/* The same, but for what changes no bit of the metrics and the model: name, place, threads, memory, checkpoints; and
 * what may differ although it does: `server`, as it is not known which clients will be late, and `device`, which
 * changes the last ones. Two runs with equal texts and equal data have equal results on one device. */
void fli_settings_print_essence(fli_text *t, const fli_settings *s);
/* What a choice was made from, as YAML: the keys of that kind, one per line; and such a map back into a choice. */
void fli_settings_print_kind(fli_text *t, const fli_choice *c);
/* Help on the keys of every section, the kinds' own keys left out. */
void fli_settings_help(fli_text *t);
/* A section as the reference shows it; section 0 is the top level, with an empty name. */
typedef struct {
    const char *name, *title;
    const fl_key *keys;   /* of the section itself; NULL: none */
    const fli_kind *kind; /* NULL: nothing to choose */
    const char *fallback; /* the kind when none is given; NULL: must be given */
} fli_section;
int fli_settings_section(size_t i, fli_section *out); /* 0 past the last */
size_t fli_settings_section_of(const char *key); /* the number of the section that a key such as "local.lr" is in */
/* The keys that all kinds of a section share; NULL if the section has none. */
const fl_key *fli_settings_common(const char *section);

/* Whether a top-level key belongs to experiments (`methods`, `grid`, ...), which a single run does not know. */
int fli_is_experiment_key(const char *key);
/* What of an experiment's tree its data depend on: `data`, `partition`, `seed` and `precision`. Words that are no keys
 * stay, to be refused. Some model is chosen. NULL: out of memory. */
fli_node *fli_data_keys(fli_arena *a, const fli_node *root);

/* Models and gradients are of double precision. */
int fli_settings_wide(const fli_settings *s);
/* The run is computed elsewhere than on the processors of this machine. */
int fli_settings_on_device(const fli_settings *s);
/* How mini-batches are drawn. */
fli_sgd_spec fli_settings_sgd(const fli_settings *s);
/* What takes the place of SGD (local.solver); NULL: nothing does. */
const fl_solver *fli_settings_solver(const fli_settings *s);
/* The step size of a turn after this many rounds, before a client's own factor; where steps are counted, the mean of
 * this many. */
double fli_settings_lr(const fli_local_settings *l, size_t rounds, size_t steps);

/* ==== rules between keys =================================================================================== */

/* What no row of a section's table can say alone. Rules are rows of tables, too, and a table is checked to its end, so
 * that a configuration with four conflicts reports four, each with its place.
 *
 * There are two tables: what settings say alone (rules_settings.c), and what is known only with the data
 * (rules.c). Every row has an example that breaks it, and a test that runs all of them. */

/* What rules look at. */
typedef struct {
    fl_ctx *ctx;
    const fli_node *root; /* what the settings came from, for places */
    const fli_settings *settings;
    uint32_t unbound; /* sections with mistakes of their own, as bits: rules about them have to wait */
    /* with the data; before, and where it cannot be made, NULL */
    const fli_fed *fed;
    const fli_model *model;
    const fli_solvers *solvers;
    fl_pace pace;   /* of asynchronous methods; buffer 0: not known */
    size_t at_work; /* clients of asynchronous methods at a time */
    int compared;   /* one of several runs of a comparison: what only some methods have may be asked of all */
} fli_rule_facts;

typedef struct {
    /* What it is about, separated by blanks: the key to blame comes first; NULL ends a table. The rule is broken where
     * all keys have the values that stand behind them ("clock=real stop.simulated>0"; =, !=, <, <= or >), */
    const char *keys;
    int (*broken)(const fli_rule_facts *k); /* and this holds; NULL: the values are all there is to it */
    const char *sentence;                   /* {section.key} stands for its value, {solver} for the culprit's name */
    const char *example;                    /* settings that break it, over those of fli_rules_base */
    /* Instead of a predicate and a sentence: complains itself, by fli_fail. `sentence` then says what it is about. */
    fl_status (*check)(const fli_rule_facts *k);
} fli_rule;

extern const fli_rule fli_settings_rules[], fli_data_rules[];
extern const char fli_rules_base[]; /* a configuration that breaks none */

/* Problems found so far, of which there may be several. */
typedef struct {
    const fli_rule_facts *known;
    fli_text said; /* a line for each */
    fl_status status;
} fli_problems;

/* Begins with what the context's error already says. */
void fli_problems_init(fli_problems *p, const fli_rule_facts *k);
/* Adds the error that a check has just left in the context, if its status says so. The place of each line is that of
 * the first key it speaks of, else that of the first of `keys` that was given. */
void fli_problems_note(fli_problems *p, fl_status status, const char *keys);
/* Adds what a table finds. */
void fli_problems_look(fli_problems *p, const fli_rule *rules);
/* Whether there is no point in going on: a problem that is not the configuration's. */
int fli_problems_fatal(const fli_problems *p);
/* Puts all of them into the context; returns the first one's status. */
fl_status fli_problems_fini(fli_problems *p);

#endif
