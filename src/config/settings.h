/* A configuration as plain structs: every section is bound and checked, every `kind` resolved to its descriptor. */
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

/* With tf32, models have single precision, and devices compute only products more coarsely. */
enum { FLI_PRECISION_F32, FLI_PRECISION_F64, FLI_PRECISION_TF32 };

/* The counter of step-size schedules. */
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
    int64_t seed; /* for cohorts; 0: the common seed */
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
    char *solver;                     /* FLI_SOLVER_SGD: the built-in one */
    const fl_solver *user_solver;     /* the registered solver of that name; NULL: a built-in one, or none is named */
    const char *exact_solver;         /* the name as given, with its number if it had one */
} fli_local_settings;

typedef struct {
    int64_t every, max_clients;
    int test, train, gradient, gradient_mapping, potential, clients, local, hypergradient;
    double mapping_eta; /* 0: the method's own */
    int goal;           /* FLI_GOAL_ */
    fl_reals targets;
} fli_metrics_settings;

/* The models that test accuracy targets refer to: the global one, or the clients' own ones. */
enum { FLI_GOAL_GLOBAL, FLI_GOAL_LOCAL };

typedef struct {
    double target, gradient2, gradient_mapping, seconds, simulated, diverged;
} fli_stop_settings;

/* The choice of one section that has kinds. */
typedef struct {
    fli_item item;
    void *params;
    const char *exact; /* the name as given; a registered one may have a number ("mine@2") */
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

/* Binds the tree by the tables, and checks the rules between keys (below). Reports all problems at once. Allocates in
 * the arena. */
fl_status fli_settings_bind(fl_ctx *ctx, fli_arena *a, const fli_node *root, fli_settings *out);
/* The same for a client of a remote federation, whose own settings are few: the source of its samples, `local.solver`,
 * `precision` and `memory`. All others are ignored. */
fl_status fli_settings_bind_client(fl_ctx *ctx, fli_arena *a, const fli_node *root, fli_settings *out);
/* The source of a federation's samples; m: those that a program has given, or NULL. */
fli_fed_spec fli_settings_fed(const fli_settings *s, const fli_memory *m);
/* The value of one key, such as "local.lr" or "model.kind", as YAML; and its default. For unknown keys: nothing,
 * NULL. */
void fli_settings_print_key(fli_text *t, const fli_settings *s, const char *key);
const char *fli_settings_default(const fli_settings *s, const char *key);
/* The key's row; NULL also for `kind`. */
const fl_key *fli_settings_key(const fli_settings *s, const char *key);
/* fli_meant of an unknown key such as "local.lrr", and of a section's name. */
const char *fli_settings_meant(const fli_settings *s, const char *key, char out[FLI_MEANT_LEN]);
const char *fli_settings_nearest_section(const char *name); /* NULL: no name is near */
/* The whole configuration as YAML, every key with its value: the text of config.yaml in a result. */
void fli_settings_print(fli_text *t, const fli_settings *s);
/* The same without keys that change no bit of metrics and model (name, place, threads, memory, checkpoints), and
 * without two that do and may differ nevertheless: `server`, since late clients cannot be predicted, and `device`,
 * which changes the last bits. Two runs with equal texts and equal data have equal results on one device. */
void fli_settings_print_essence(fli_text *t, const fli_settings *s);
/* A choice as YAML: the keys of its kind, one per line; and such a map read back into a choice. */
void fli_settings_print_kind(fli_text *t, const fli_choice *c);
/* Help on the keys of every section, without the kinds' own keys. */
void fli_settings_help(fli_text *t);
/* A section for the reference; section 0 is the top level, with an empty name. */
typedef struct {
    const char *name, *title;
    const fl_key *keys;   /* of the section itself; NULL: none */
    const fli_kind *kind; /* NULL: nothing to choose */
    const char *fallback; /* the default kind; NULL: must be given */
} fli_section;
int fli_settings_section(size_t i, fli_section *out); /* 0 past the last */
size_t fli_settings_section_of(const char *key);      /* number of the section that has a key such as "local.lr" */
/* The keys that all kinds of a section share; NULL if the section has none. */
const fl_key *fli_settings_common(const char *section);

/* Whether a top-level key belongs to experiments (`methods`, `grid`, ...), which a single run does not know. */
int fli_is_experiment_key(const char *key);
/* The part of an experiment's tree that determines its data: `data`, `partition`, `seed` and `precision`. Unknown words
 * stay, to be refused. Adds a model, which a configuration needs. NULL: out of memory. */
fli_node *fli_data_keys(fli_arena *a, const fli_node *root);

/* Whether models and gradients have double precision. */
int fli_settings_wide(const fli_settings *s);
/* Whether a device, not this machine's processors, computes the run. */
int fli_settings_on_device(const fli_settings *s);
/* How mini-batches are drawn. */
fli_sgd_spec fli_settings_sgd(const fli_settings *s);
/* The solver that replaces SGD (local.solver), or NULL. */
const fl_solver *fli_settings_solver(const fli_settings *s);
/* The step size of a turn after `rounds` rounds, before a client's own factor; of a schedule by steps, the mean over
 * `steps`. */
double fli_settings_lr(const fli_local_settings *l, size_t rounds, size_t steps);

/* ==== rules between keys =================================================================================== */

/* Conditions that no row of a section's table can state alone. Rules are rows of tables, too, and a table is checked to
 * its end, so that a configuration with four conflicts reports four, each with its place.
 *
 * There are two tables: rules between settings (rules_settings.c), and rules that need the data (rules.c). Every row
 * has an example that breaks it, and a test runs all of them. */

/* The facts that rules use. */
typedef struct {
    fl_ctx *ctx;
    const fli_node *root; /* the tree of the settings, for places */
    const fli_settings *settings;
    uint32_t unbound; /* bits of sections with mistakes of their own, whose rules are skipped */
    /* with the data; NULL before, and if it could not be made */
    const fli_fed *fed;
    const fli_model *model;
    const fli_solvers *solvers;
    fl_pace pace;   /* of asynchronous methods; buffer 0: unknown */
    size_t at_work; /* clients of asynchronous methods at a time */
    int compared;   /* one of several runs of a comparison: settings that only some methods have may be asked of all */
} fli_rule_facts;

typedef struct {
    /* The keys that the rule is about, separated by blanks, the one to blame first; NULL ends a table. The rule is
     * broken if all keys have the values behind them ("clock=real stop.simulated>0"; =, !=, <, <= or >), */
    const char *keys;
    int (*broken)(const fli_rule_facts *k); /* and this returns true; NULL: the values are enough */
    const char *sentence;                   /* {section.key} stands for its value, {solver} for the failing solver */
    const char *example;                    /* settings that break it, added to fli_rules_base */
    /* Instead of predicate and sentence: fails itself, by fli_fail. `sentence` then describes the rule. */
    fl_status (*check)(const fli_rule_facts *k);
} fli_rule;

extern const fli_rule fli_settings_rules[], fli_data_rules[];
extern const char fli_rules_base[]; /* a configuration that breaks no rule */

/* The problems found so far. */
typedef struct {
    const fli_rule_facts *known;
    fli_text said; /* one line each */
    fl_status status;
} fli_problems;

/* Begins with the context's error, if it has one. */
void fli_problems_init(fli_problems *p, const fli_rule_facts *k);
/* Adds the error that a check has left in the context, if `status` is one. Each line gets the place of the first key
 * that it names, else of the first of `keys` that was given. */
void fli_problems_note(fli_problems *p, fl_status status, const char *keys);
/* Adds the problems that a table finds. */
void fli_problems_look(fli_problems *p, const fli_rule *rules);
/* Whether a problem is not the configuration's, so that checking should stop. */
int fli_problems_fatal(const fli_problems *p);
/* Moves all problems into the context; returns the first one's status. */
fl_status fli_problems_fini(fli_problems *p);

#endif
