#include "base/number.h"
#include "config/settings.h"

#include "solver/user_solver.h"

#include <string.h>

/* ---- the tables ---------------------------------------------------------------------------------------- */

static const fl_key top_keys[] = {
    FLI_KEY_STRING(fli_top_settings, name, "run", "what the run is called in tables"),
    FLI_KEY_INT(fli_top_settings, seed, "1", 0, 9007199254740992.0, "seed of every random stream"),
    FLI_KEY_INT(fli_top_settings, rounds, "100", 0, 1e9,
                "communication rounds; for asynchronous methods: server steps"),
    FLI_KEY_STRING(
        fli_top_settings, device, FLI_DEVICE_CPU,
        "where the run is computed: cpu; cuda, or cuda:1 for the second of several GPUs; twin, which is what "
        "a GPU does in plain C, for tests. `fedloom list devices` shows what there is. Of several processes on a "
        "machine each takes the next GPU, unless there is a number"),
    FLI_KEY_CHOICE(fli_top_settings, precision, "f32", "f32|f64|tf32",
                   "precision of models and gradients; tf32: f32, but a device multiplies matrices with ten bits "
                   "behind the point"),
    FLI_KEY_INT(fli_top_settings, threads, "0", 0, 1024,
                "threads, of each process if several make the run; 0: one per processor, shared by those of a machine; "
                "results do not depend on it; a device needs one"),
    FLI_KEY_CHOICE(fli_top_settings, weights, "auto", "auto|samples|uniform",
                   "client weights w_i: n_i/n, or 1/N; auto: those that come with data in memory, else what the "
                   "method needs, else samples"),
    FLI_KEY_CHOICE(
        fli_top_settings, clock, "virtual", "virtual|real",
        "virtual: simulated seconds, reproducible; real: of a server whose clients are other programs, with an "
        "asynchronous method: answers are taken as they come"),
    FLI_KEY_STRING(fli_top_settings, output, "", "result folder; empty: nothing is written"),
    FLI_KEY_BOOL(fli_top_settings, output_model, "true",
                 "the model is part of the result; false keeps the folders of many runs small"),
    FLI_KEY_SIZE(
        fli_top_settings, memory, "auto",
        "memory for what clients keep between turns; clients that have been away longest go to a temporary file "
        "(in $TMPDIR, or beside output); auto: no limit, all stays in memory; results do not depend on it. On a "
        "device: memory there, beyond which plain memory is used; auto: half of what is free there, if need be"),
    FLI_KEY_INT(fli_top_settings, checkpoint_every, "0", 0, 1e9,
                "rounds between checkpoints, kept in OUTPUT.checkpoint until the run is finished; 0: none"),
    FLI_KEY_END,
};

static const fl_key data_keys[] = {
    FLI_KEY_CHOICE(
        fli_data_settings, normalize, "auto", FLI_NORMALIZE_WORDS,
        "auto: bytes to [0, 1]; unit: by the largest magnitude; standard: mean 0, deviation 1; columns: "
        "each feature by its Euclidean norm; given: mean, std; image: every image by its own mean and deviation, after "
        "cropping; affine: scale, shift. Not for sparse data: standard, given, image. Details: part `notes` of the "
        "reference"),
    FLI_KEY_REALS(fli_data_settings, mean, "[]", -FLI_NO_MAX, FLI_NO_MAX,
                  "for normalize: given; one value, or one per channel"),
    FLI_KEY_REALS(fli_data_settings, std, "[]", FLI_ABOVE_0, FLI_NO_MAX,
                  "for normalize: given; one value, or one per channel"),
    FLI_KEY_REALS(fli_data_settings, scale, "[]", -FLI_NO_MAX, FLI_NO_MAX,
                  "for normalize: affine; one value, or one per channel or feature"),
    FLI_KEY_REALS(fli_data_settings, shift, "[]", -FLI_NO_MAX, FLI_NO_MAX,
                  "for normalize: affine; one value, or as many as scale; none: 0"),
    FLI_KEY_REAL(fli_data_settings, test_fraction, "0", 0, 0.9, "share of each client's samples kept for its own test"),
    FLI_KEY_REAL(fli_data_settings, unlabelled, "0", 0, 0.9999,
                 "share of each client's training samples that lose their labels; at least one per client keeps it"),
    FLI_KEY_BOOL(fli_data_settings, on_demand, "false", "make a client's samples when its turn comes; keep none"),
    FLI_KEY_CHOICE(
        fli_data_settings, augment, "none", FLI_AUGMENT_WORDS,
        "cifar: training sees a new random crop of an image each time, padded by 4 black pixels, and mirrored half of "
        "the time; crop: the same without padding, a random part of the size that `crop` says"),
    FLI_KEY_BOOL(fli_data_settings, augment_once, "false",
                 "draw every training image once, before training, instead of each time: the same images in every "
                 "epoch, for every method and metric, as the seed says"),
    FLI_KEY_REAL(fli_data_settings, augment_share, "1", 0, 1,
                 "share of draws that take a random crop, independently; the others keep the middle of the "
                 "image. Half of either are mirrored. 0: mirrors alone"),
    FLI_KEY_INT(fli_data_settings, crop, "0", 0, 65536,
                "height and width of the part of each image that models see: the middle, and with augment: crop a "
                "random part while training; 0: the whole image"),
    FLI_KEY_END,
};

static const fl_key partition_keys[] = {
    FLI_KEY_INT(fli_partition_settings, clients, "0", 0, 4294967294.0,
                "number of clients; 0: as many as the data have, where they say"),
    FLI_KEY_END,
};

static const fl_key model_keys[] = {
    FLI_KEY_REAL(fli_model_settings, weight_decay, "0", 0, FLI_NO_MAX, "adds wd/2 ||x||^2 to every client's objective"),
    FLI_KEY_CHOICE(fli_model_settings, weight_decay_by, "nothing", FLI_DECAY_WORDS,
                   "what weight_decay is divided by: nothing; the client's training samples, for wd/(2 n_i) ||x||^2; "
                   "batch: the same "
                   "objective, but a step on a mini-batch divides by the samples in that, so that it is pulled to 0 "
                   "more strongly"),
    FLI_KEY_STRING(fli_model_settings, start, "",
                   "safetensors file with the start model, such as model.safetensors of a result: tensors of the same "
                   "names and shapes, f32 or f64; empty: start values of the model's own"),
    FLI_KEY_END,
};

static const fl_key semi_keys[] = {
    FLI_KEY_CHOICE(fli_semi, labels, "none", FLI_SEMI_WORDS,
                   "pseudo labels of unlabelled samples (data.unlabelled), found at the start of each turn: none, only "
                   "labelled samples are used; the best ones in closed form; by projected gradient steps"),
    FLI_KEY_REAL(fli_semi, alpha_p, "0.01", 0, FLI_NO_MAX, "weight of the loss against pseudo labels"),
    FLI_KEY_REAL(fli_semi, alpha_r, "0.01", 0, FLI_NO_MAX,
                 "weight of the entropies of pseudo labels and predictions; 0: a pseudo label is the likeliest class"),
    FLI_KEY_REAL(fli_semi, confidence, "0", 0, 1,
                 "for closed_form: samples whose likeliest class is less probable than this get no pseudo label"),
    FLI_KEY_REAL(fli_semi, label_lr, "0", 0, FLI_NO_MAX,
                 "for projected: step size; 0: unlabelled samples in a step / (classes alpha_r), with alpha_p where "
                 "alpha_r is 0"),
    FLI_KEY_INT(fli_semi, label_steps, "1", 1, 1e6, "for projected: steps per turn"),
    FLI_KEY_INT(
        fli_semi, label_batch, "0", 0, 1e9,
        "for projected: unlabelled samples per step in the labels, drawn for each step; 0: all of the client's"),
    FLI_KEY_INT(fli_semi, batch, "0", 0, 1e9, "unlabelled samples per step; 0: as local.batch says"),
    FLI_KEY_END,
};

static const fl_key local_keys[] = {
    {"epochs", FL_KEY_INT, "1", 1, 1e6, NULL, "passes over a client's samples per round",
     offsetof(fli_local_settings, work.epochs)},
    FLI_KEY_CHOICE(fli_local_settings, epoch, "all", FLI_EPOCH_WORDS,
                   "what a pass goes over where unlabelled samples have pseudo labels (semi): all samples, until the "
                   "kind that takes longer is through; the labelled ones; the unlabelled ones. Either way a step uses "
                   "samples of both kinds, or labelled ones alone where the method uses no others"),
    {"steps", FL_KEY_INT, "0", 0, 1e9, NULL, "steps per round instead of epochs; 0: use epochs",
     offsetof(fli_local_settings, work.steps)},
    FLI_KEY_INT(fli_local_settings, batch, "50", 0, 1e9, "samples per step; 0: all of the client's"),
    FLI_KEY_REAL(fli_local_settings, batch_fraction, "0", 0, 1, "share of the client's samples per step; 0: use batch"),
    FLI_KEY_REAL(fli_local_settings, lr, "0.05", FLI_ABOVE_0, FLI_NO_MAX, "local step size"),
    FLI_KEY_PER_CLIENT(fli_local_settings, lr_factors, "1", FLI_ABOVE_0, FLI_NO_MAX, NULL, "multiply lr"),
    FLI_KEY_CHOICE(fli_local_settings, schedule, "constant", FLI_SCHEDULE_WORDS,
                   "step size in round k = 1, 2, ...: lr; lr/sqrt(k); lr/log2(k+1); lr decay^(k-1)"),
    FLI_KEY_CHOICE(
        fli_local_settings, schedule_by, "round", "round|step",
        "what k counts: rounds; or local steps, where a client asked for Q steps a round has taken Q in every "
        "round before, at work or not"),
    FLI_KEY_REAL(fli_local_settings, decay, "0.998", FLI_ABOVE_0, 1,
                 "factor per round (or step) of the exponential schedule"),
    FLI_KEY_REAL(fli_local_settings, momentum, "0", 0, 0.9999, "momentum of the local steps, from zero in every round"),
    {"uneven", FL_KEY_CHOICE, "fixed", 0, 0, FLI_UNEVEN_WORDS,
     "how local work differs: not at all; drawn from range per client and round; by lasting speed classes",
     offsetof(fli_local_settings, work.uneven)},
    {"range", FL_KEY_INTS, "[1, 5]", 1, 1e6, NULL, "for uneven: range; fewest and most epochs (or steps)",
     offsetof(fli_local_settings, work.range)},
    {"speeds", FL_KEY_REALS, "[1, 0.5, 0.2]", FLI_ABOVE_0, 1, NULL,
     "for uneven: speeds; each client keeps one of these, and its work is multiplied by it",
     offsetof(fli_local_settings, work.speeds)},
    FLI_KEY_STRING(fli_local_settings, solver, FLI_SOLVER_SGD,
                   "what takes local steps: sgd, or a solver that the program has registered (fl_solver_register)"),
    FLI_KEY_END,
};

static const fl_key participation_keys[] = {
    FLI_KEY_INT(fli_participation_settings, seed, "0", 0, 9007199254740992.0,
                "seed of the cohorts; clients are never told. 0: that of every other stream (`seed`); `fedloom serve` "
                "then draws one, which is in config.yaml of the result"),
    FLI_KEY_END,
};

static const fl_key system_keys[] = {
    FLI_KEY_REAL(fli_system_common, step_seconds, "0.001", 0, 1e9,
                 "simulated seconds of one local step on a device of speed 1"),
    FLI_KEY_REAL(fli_system_common, turn_seconds, "0", 0, 1e9, "simulated seconds added to every turn"),
    FLI_KEY_REAL(fli_system_common, up_rate, "0", 0, 1e18, "bytes per second to the server; 0: sending takes no time"),
    FLI_KEY_REAL(fli_system_common, down_rate, "0", 0, 1e18,
                 "bytes per second from the server; 0: receiving takes no time"),
    FLI_KEY_REAL(fli_system_common, deadline, "0", 0, FLI_NO_MAX,
                 "a round ends after this many simulated seconds, and late clients are dropped; 0: no deadline"),
    FLI_KEY_REAL(fli_system_common, wait_for, "1", FLI_ABOVE_0, 1,
                 "share of the invited clients, the fastest, that a round waits for; the rest are dropped"),
    FLI_KEY_END,
};

static const fl_key metrics_keys[] = {
    FLI_KEY_INT(fli_metrics_settings, every, "1", 1, 1e9,
                "rounds between measurements; the last round is always measured"),
    FLI_KEY_BOOL(fli_metrics_settings, test, "true",
                 "loss and accuracy on the test set, or the clients' own test parts"),
    FLI_KEY_BOOL(fli_metrics_settings, train, "true", "global training loss f(x) and accuracy"),
    FLI_KEY_BOOL(fli_metrics_settings, gradient, "false",
                 "||grad f(x)||^2; of methods for pseudo labels their optimality gap as well and, with local, that of "
                 "the clients' own models"),
    FLI_KEY_BOOL(
        fli_metrics_settings, hypergradient, "false",
        "of bilevel problems: ||grad Phi(x)||, with the clients' weights and with those of the method's steps, and how "
        "far y and v are from y*(x) and v*(x); the lower level is solved for it over all clients and samples, which "
        "takes hundreds of passes"),
    FLI_KEY_BOOL(fli_metrics_settings, gradient_mapping, "false",
                 "||G_eta(x)|| = ||x - prox_{eta g}(x - eta grad f(x))||/eta, which is 0 where f + g is stationary; "
                 "||grad f(x)|| if there is no regulariser"),
    FLI_KEY_REAL(fli_metrics_settings, mapping_eta, "0", 0, FLI_NO_MAX,
                 "the eta of G_eta; 0: the method's own, or 1 where it has none. Set it where methods are compared: "
                 "||G_eta|| is larger for a smaller eta"),
    FLI_KEY_BOOL(
        fli_metrics_settings, potential, "false",
        "the function that the method's theorem shows to fall, for methods that have one here (of bilevel methods as "
        "costly as hypergradient); a warning is logged if it rises although theory promises that it never does"),
    FLI_KEY_BOOL(fli_metrics_settings, clients, "true", "quantiles of the accuracy of x on each client's own samples"),
    FLI_KEY_BOOL(fli_metrics_settings, local, "false",
                 "loss and accuracy of each client's own model on its own samples, beside the global model's"),
    FLI_KEY_INT(fli_metrics_settings, max_clients, "10000", 1, 4294967295.0,
                "train metrics use at most this many clients, evenly spaced"),
    FLI_KEY_CHOICE(
        fli_metrics_settings, goal, "global", "global|local",
        "the test accuracy that targets and stop.target refer to: that of the global model, or that of the clients' "
        "own models on their own test parts"),
    FLI_KEY_REALS(fli_metrics_settings, targets, "[]", FLI_ABOVE_0, 1, "test accuracies whose first round is reported"),
    FLI_KEY_END,
};

static const fl_key stop_keys[] = {
    FLI_KEY_REAL(fli_stop_settings, target, "0", 0, 1, "stop at this test accuracy; 0: do not"),
    FLI_KEY_REAL(fli_stop_settings, gradient2, "0", 0, FLI_NO_MAX, "stop when ||grad f||^2 is at most this; 0: do not"),
    FLI_KEY_REAL(fli_stop_settings, gradient_mapping, "0", 0, FLI_NO_MAX,
                 "stop when ||G_eta(x)|| is at most this, also with a regulariser; 0: do not"),
    FLI_KEY_REAL(fli_stop_settings, seconds, "0", 0, FLI_NO_MAX, "stop after this many seconds of rounds; 0: do not"),
    FLI_KEY_REAL(fli_stop_settings, simulated, "0", 0, FLI_NO_MAX, "stop after this many simulated seconds; 0: do not"),
    FLI_KEY_REAL(
        fli_stop_settings, diverged, "1e3", 0, FLI_NO_MAX,
        "the run fails as diverged when its training loss (the test loss, if training is not measured) is above this "
        "many times its start value; 0: only when a number is no longer finite"),
    FLI_KEY_END,
};

static const fl_key bilevel_keys[] = {
    FLI_KEY_REAL(
        fli_bilevel_common, validation, "0.2", 0, 0.9,
        "share of each client's training samples for the upper level; the lower level has the rest; 0: both use all"),
    FLI_KEY_REAL(fli_bilevel_common, l2, "0.01", 0, FLI_NO_MAX,
                 "adds l2/2 ||y||^2 to the lower objective, which must be strongly convex"),
    FLI_KEY_END,
};

enum { OWN_OF_SERVER = 1 }; /* the first keys, which concern only the process */
static const fl_key server_keys[] = {
    FLI_KEY_SIZE(fli_admission, memory, "auto",
                 "memory for uploads of a round; those beyond it go to a temporary file (in $TMPDIR, or beside output) "
                 "and are read from there piece by piece; auto: a quarter of what this process can have; results do "
                 "not depend on it"),
    FLI_KEY_REAL(fli_admission, deadline, "0", 0, FLI_NO_MAX,
                 "real seconds that a server waits for answers; then a round goes on without those who are late, as if "
                 "they had not been invited; of methods that need everybody the run ends; 0: as long as it takes"),
    FLI_KEY_REAL(fli_admission, wait_for, "1", FLI_ABOVE_0, 1,
                 "share of the invited clients, the first to answer, that a round waits for; the rest are dropped"),
    FLI_KEY_REAL(fli_admission, quorum, "0", 0, 1,
                 "share of the invited clients below which a round does not count: the model does not change"),
    FLI_KEY_CHOICE(fli_admission, failed, "drop", FLI_FAILED_WORDS,
                   "what becomes of a client whose turn fails, or that sends something that is not finite: it is left "
                   "out of the round, unless all are like that; or the run ends, as a simulation does"),
    FLI_KEY_REAL(fli_admission, largest_norm, "0", 0, FLI_NO_MAX,
                 "the largest Euclidean norm that a vector of an upload may have; 0: any"),
    FLI_KEY_CHOICE(fli_admission, beyond, "reject", FLI_BEYOND_WORDS,
                   "what becomes of an upload beyond largest_norm: its client is left out of the round; or the vector "
                   "is made as short as that"),
    FLI_KEY_INT(
        fli_admission, largest_samples, "0", 0, UINT32_MAX,
        "the most samples that a client may say it has; others cannot join; 0: any number, but no run begins "
        "whose weights go by samples while one of at least three clients claims more than 100 times the median"),
    FLI_KEY_REAL(fli_admission, largest_share, "0", 0, 1,
                 "the largest weight of a client where weights go by samples: a larger one is lowered to that, and the "
                 "others share the rest; 0: any"),
    FLI_KEY_END,
};

/* One row per section, in the order in which they are written. A section with kinds has a choice and a default kind. */
typedef struct {
    const char *name, *title;
    const fl_key *keys;
    size_t offset;        /* of the section's own struct in fli_settings */
    size_t choice;        /* of its fli_choice; 0: the section has no kinds */
    const char *fallback; /* the default kind; NULL: must be given */
} section;

#define SECTION(name, title, field)                                                                                    \
    {                                                                                                                  \
#name, title, name##_keys, offsetof(fli_settings, field), 0, NULL                                              \
    }
#define KINDS(name, title, field, choice, fallback)                                                                    \
    {                                                                                                                  \
#name, title, name##_keys, offsetof(fli_settings, field), offsetof(fli_settings, choice), fallback             \
    }

static const section sections[] = {
    KINDS(data, "the samples", data, source, NULL),
    KINDS(partition, "who holds which samples", partition, partitioner, "natural"),
    KINDS(model, "what is trained", model, objective, NULL),
    {"regularizer", "what is added to the objective", NULL, 0, offsetof(fli_settings, regularizer), "none"},
    SECTION(semi, "what is learnt from samples without labels", semi),
    SECTION(local, "how a client works in its turn", local),
    KINDS(participation, "who takes part in a round", participation, sampler, "uniform"),
    KINDS(system, "how fast devices and links are, in simulated seconds", system, devices, "none"),
    {"algorithm", "the federated method", NULL, 0, offsetof(fli_settings, algorithm), "fedavg"},
    SECTION(metrics, "what is measured, and when", metrics),
    SECTION(stop, "when a run ends before its last round", stop),
    KINDS(bilevel, "two levels instead of one, for the methods that need them", bilevel, levels, "none"),
    SECTION(server, "whom a server with clients elsewhere waits for, and what it lets in; simulations ignore it",
            server),
    {"executor", "where the clients are; results do not depend on it", NULL, 0, offsetof(fli_settings, executor),
     "threads"},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

int fli_settings_section(size_t i, fli_section *out)
{
    if (i > SECTIONS) return 0;
    *out = i ? (fli_section){sections[i - 1].name, sections[i - 1].title, sections[i - 1].keys,
                             fli_kind_find(sections[i - 1].name), sections[i - 1].fallback}
             : (fli_section){"", "at the top", top_keys, NULL, NULL};
    return 1;
}

const fl_key *fli_settings_common(const char *name)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (!strcmp(sections[i].name, name)) return sections[i].keys;
    return NULL;
}

/* ---- binding ------------------------------------------------------------------------------------------- */

/* Finds the kind that a section chooses: `section: NAME` or `section: {kind: NAME, ...}`. */
static fl_status choose(fl_ctx *ctx, fli_arena *a, const section *sec, const fli_node *node, fli_choice *out)
{
    char where[512], meant[FLI_MEANT_LEN];
    const fli_kind *kind = fli_kind_find(sec->name);
    const fli_node *at = node && node->type == FLI_NODE_MAP ? fli_node_find(node, "kind") : node;
    const char *name = at && at->type == FLI_NODE_SCALAR ? at->text : at ? NULL : sec->fallback;
    if (!name)
        return fli_fail_also(ctx, FL_ECONFIG, "%s%s.kind is missing; `fedloom list %s` shows what there is",
                             fli_node_where(at ? at : node, where, sizeof where), sec->name, sec->name);
    if (!fli_item_find(kind, name, &out->item)) {
        const char *near = fl_nearest(name, fli_item_name, kind);
        return fli_fail_also(ctx, FL_ECONFIG,
                             "%s%s.kind is %s, which is not known%s `fedloom list %s` shows what there is",
                             fli_node_where(at, where, sizeof where), sec->name, *name ? name : "empty",
                             near ? fli_meant(near, meant) : ";", sec->name);
    }
    out->exact = fli_arena_strdup(a, name);
    out->params = fli_item_params(a, &out->item);
    return out->params && out->exact ? FL_OK : FL_ENOMEM;
}

/* Finds the solver of that name. From then on the name has no number. */
static void choose_solver(fli_local_settings *l)
{
    l->exact_solver = l->solver;
    l->user_solver = l->solver && strcmp(l->solver, FLI_SOLVER_SGD) ? fli_user_solver(l->solver) : NULL;
    if (l->user_solver) l->solver = (char *)l->user_solver->name; /* never written to */
}

static fl_status bind_section(fl_ctx *ctx, fli_arena *a, const section *sec, const fli_node *node, fli_settings *s)
{
    void *own = (char *)s + sec->offset;
    if (!sec->choice) {
        fl_status bound = fli_bind(ctx, a, sec->name, node, NULL, &(fli_table){sec->keys, own}, 1);
        if (own == &s->local) choose_solver(&s->local);
        return bound;
    }
    fli_choice *c = (fli_choice *)((char *)s + sec->choice);
    fl_status status = choose(ctx, a, sec, node, c);
    if (status) return status;
    fli_table tables[] = {{c->item.keys, c->params}, {sec->keys, own}};
    const fli_node *map = node && node->type == FLI_NODE_MAP ? node : NULL;
    status = fli_bind(ctx, a, sec->name, map, "kind", tables, 2);
    if (c->item.bound) c->item.bound(c->item.desc, c->params);
    return status;
}

static const char *const experiment_keys[] = {"methods", "grid",  "points", "tune",        "quick",
                                              "needs",   "paper", "seeds",  "description", NULL};

/* fl_name_fn: section names. */
static const char *section_name(const void *unused, size_t i)
{
    (void)unused;
    return i < SECTIONS ? sections[i].name : NULL;
}

/* fl_name_fn: all top-level names. */
static const char *top_name(const void *unused, size_t i)
{
    size_t keys = sizeof top_keys / sizeof *top_keys - 1;
    if (i < keys) return top_keys[i].name;
    return i - keys < SECTIONS ? section_name(unused, i - keys) : experiment_keys[i - keys - SECTIONS];
}

const char *fli_settings_nearest_section(const char *name) { return fl_nearest(name, section_name, NULL); }

/* The correction of a top-level key: `ruonds` is `rounds`, and `lr` is `local.lr`. */
static const char *top_meant(const char *key, char out[FLI_MEANT_LEN])
{
    char full[128];
    if (!strcmp(key, "exact")) return " any more: a run always has the bits of one process";
    for (size_t i = 0; i < SECTIONS; i++)
        for (const fl_key *row = sections[i].keys; row && row->name; row++)
            if (!strcmp(row->name, key)) {
                fli_snprintf(full, sizeof full, "%s.%s", sections[i].name, key);
                return fli_meant(full, out);
            }
    return fli_meant(fl_nearest(key, top_name, NULL), out);
}

static int is_section(const char *name)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (!strcmp(sections[i].name, name)) return 1;
    return 0;
}

int fli_is_experiment_key(const char *key)
{
    for (const char *const *known = experiment_keys; *known; known++)
        if (!strcmp(*known, key)) return 1;
    return 0;
}

/* Whether a key is known but does not affect the data. */
static int is_beside_data(const char *key)
{
    static const char *const of_data[] = {"data", "partition", "seed", "precision"};
    for (size_t i = 0; i < sizeof of_data / sizeof *of_data; i++)
        if (!strcmp(of_data[i], key)) return 0;
    for (const fl_key *k = top_keys; k->name; k++)
        if (!strcmp(k->name, key)) return 1;
    return is_section(key) || fli_is_experiment_key(key);
}

fli_node *fli_data_keys(fli_arena *a, const fli_node *root)
{
    fli_node *kept = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    fli_node *model = fli_node_new(a, FLI_NODE_SCALAR, "model", "softmax"); /* a configuration is invalid without one */
    if (!kept || !model) return NULL;
    for (const fli_node *n = root->first; n; n = n->next) {
        if (is_beside_data(n->key)) continue;
        fli_node *copy = fli_arena_alloc(a, 1, sizeof *copy);
        if (!copy) return NULL;
        *copy = *n;
        fli_node_put(kept, copy);
    }
    fli_node_put(kept, model);
    return kept;
}

/* Binds the top level without its sections. Reports words that are neither key nor section; such a word may be a
 * misspelt section, so all sections then count as unbound. */
static fl_status bind_top(fl_ctx *ctx, fli_arena *a, const fli_node *root, fli_settings *s, uint32_t *unbound)
{
    fl_status status = FL_OK;
    char where[512], meant[FLI_MEANT_LEN];
    fli_node *own = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    if (!own) return FL_ENOMEM;
    for (const fli_node *n = root->first; n; n = n->next) {
        int known = is_section(n->key);
        for (const fl_key *k = top_keys; k->name; k++)
            if (!strcmp(k->name, n->key)) {
                fli_node *copy = fli_arena_alloc(a, 1, sizeof *copy);
                if (!copy) return FL_ENOMEM;
                *copy = *n;
                fli_node_put(own, copy);
                known = 1;
            }
        /* servers and results of earlier versions have this key */
        if (!strcmp(n->key, "exact") && n->type == FLI_NODE_SCALAR && !strcmp(n->text, "true")) continue;
        if (known) continue;
        if (fli_is_experiment_key(n->key)) {
            status = fli_fail_also(
                ctx, FL_ECONFIG, "%s%s belongs to an experiment, not to a single run; use `fedloom compare`%s",
                fli_node_where(n, where, sizeof where), n->key, strcmp(n->key, "tune") ? "" : " or `fedloom tune`");
            continue;
        }
        status = fli_fail_also(ctx, FL_ECONFIG, "%s%s is not a key%s", fli_node_where(n, where, sizeof where), n->key,
                               top_meant(n->key, meant));
    }
    fl_status bound = fli_bind(ctx, a, "", own, NULL, &(fli_table){top_keys, &s->top}, 1);
    *unbound = status ? ~(uint32_t)0 : bound ? 1 : 0;
    return status ? status : bound;
}

/* The section of a key such as "local.lr", numbered as in fli_settings_section. */
size_t fli_settings_section_of(const char *key)
{
    size_t n = strcspn(key, ".");
    for (size_t i = 0; key[n] && i < SECTIONS; i++)
        if (!strncmp(sections[i].name, key, n) && !sections[i].name[n]) return i + 1;
    return 0;
}

fl_status fli_settings_bind(fl_ctx *ctx, fli_arena *a, const fli_node *root, fli_settings *out)
{
    fli_rule_facts known = {.ctx = ctx, .root = root, .settings = out};
    fli_problems problems;
    memset(out, 0, sizeof *out);
    fl_status status = bind_top(ctx, a, root, out, &known.unbound);
    if (status && status != FL_ECONFIG) return status;
    for (size_t i = 0; i < SECTIONS; i++) {
        fl_status s = bind_section(ctx, a, &sections[i], fli_node_find(root, sections[i].name), out);
        if (s) known.unbound |= (uint32_t)2 << i;
        if (s) status = s;
    }
    if (status && status != FL_ECONFIG) return status;
    fli_problems_init(&problems, &known);
    fli_problems_look(&problems, fli_settings_rules);
    fl_status s = fli_problems_fini(&problems);
    return s ? s : status;
}

fl_status fli_settings_bind_client(fl_ctx *ctx, fli_arena *a, const fli_node *root, fli_settings *out)
{
    uint32_t unbound;
    memset(out, 0, sizeof *out);
    fl_status top = bind_top(ctx, a, root, out, &unbound), status = FL_OK;
    for (size_t i = 0; i < SECTIONS && !status; i++)
        if (!strcmp(sections[i].name, "data") || !strcmp(sections[i].name, "local"))
            status = bind_section(ctx, a, &sections[i], fli_node_find(root, sections[i].name), out);
    return top ? top : status;
}

fli_fed_spec fli_settings_fed(const fli_settings *s, const fli_memory *m)
{
    int held = m && fli_memory_holds(m);
    return (fli_fed_spec){
        .source = s->source.item.desc,
        .source_params = s->source.params,
        .memory = m,
        .partitioner = held ? &fli_partitioner_holding : s->partitioner.item.desc,
        .partitioner_params = held ? &m->who : s->partitioner.params,
        .clients = (size_t)s->partition.clients,
        .seed = (uint64_t)s->top.seed,
        .test_fraction = s->data.test_fraction,
        .unlabelled = s->data.unlabelled,
        .normalize = s->data.normalize,
        .mean = s->data.mean,
        .std = s->data.std,
        .scale = s->data.scale,
        .shift = s->data.shift,
        .on_demand = s->data.on_demand,
        .wide = fli_settings_wide(s),
        .crop = (size_t)s->data.crop,
        .augment = s->data.augment,
        .augment_once = s->data.augment_once,
        .augment_still = 1 - s->data.augment_share,
    };
}

/* ---- one key ------------------------------------------------------------------------------------------- */

/* A row of the tables and the struct that it was bound to. `kind` has no row: it is the choice itself. */
typedef struct {
    const fl_key *row;
    const void *bound;
    const fli_choice *choice;
    const char *fallback;
} place;

static int find_row(const fl_key *rows, const void *bound, const char *name, place *out)
{
    for (const fl_key *row = rows; row && row->name; row++)
        if (!strcmp(row->name, name)) {
            *out = (place){.row = row, .bound = bound};
            return 1;
        }
    return 0;
}

static int find_key(const fli_settings *s, const char *key, place *out)
{
    size_t i = fli_settings_section_of(key);
    if (!i) return find_row(top_keys, &s->top, key, out);
    const section *sec = &sections[i - 1];
    const fli_choice *c = sec->choice ? (const fli_choice *)((const char *)s + sec->choice) : NULL;
    const char *name = strchr(key, '.') + 1;
    if (c && !strcmp(name, "kind")) {
        *out = (place){.choice = c, .fallback = sec->fallback};
        return 1;
    }
    return (c && c->params && find_row(c->item.keys, c->params, name, out)) ||
           find_row(sec->keys, (const char *)s + sec->offset, name, out);
}

/* fl_name_fn over two tables, one after the other. */
static const char *row_of_two(const void *tables, size_t i)
{
    const fl_key *const *rows = tables;
    for (size_t t = 0; t < 2; t++)
        for (const fl_key *row = rows[t]; row && row->name; row++)
            if (!i--) return row->name;
    return NULL;
}

const char *fli_settings_meant(const fli_settings *s, const char *key, char out[FLI_MEANT_LEN])
{
    char full[128], wanted[64];
    size_t i = fli_settings_section_of(key), n = strcspn(key, ".");
    if (!key[n]) return top_meant(key, out);
    fli_snprintf(wanted, sizeof wanted, "%.*s", (int)n, key);
    const section *sec = i ? &sections[i - 1] : NULL;
    const fli_choice *c = sec && sec->choice ? (const fli_choice *)((const char *)s + sec->choice) : NULL;
    const fl_key *rows[] = {c ? c->item.keys : NULL, sec ? sec->keys : NULL};
    const char *within = sec ? sec->name : fl_nearest(wanted, section_name, NULL);
    const char *name = sec ? fl_nearest(key + n + 1, row_of_two, rows) : key + n + 1;
    if (within && name) fli_snprintf(full, sizeof full, "%s.%.64s", within, name);
    return fli_meant(within && name ? full : NULL, out);
}

const char *fli_settings_default(const fli_settings *s, const char *key)
{
    place p;
    return !find_key(s, key, &p) ? NULL : p.row ? p.row->def : p.fallback;
}

const fl_key *fli_settings_key(const fli_settings *s, const char *key)
{
    place p;
    return find_key(s, key, &p) ? p.row : NULL;
}

void fli_settings_print_key(fli_text *t, const fli_settings *s, const char *key)
{
    place p;
    if (!find_key(s, key, &p)) return;
    if (p.row)
        fli_key_print_value(t, p.row, p.bound);
    else if (p.choice->item.name)
        fli_text_add(t, p.choice->item.name);
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static void print_keys(fli_text *t, const fl_key *rows, const void *bound, const char *indent)
{
    for (const fl_key *row = rows; row && row->name; row++) {
        fli_text_addf(t, "%s%s: ", indent, row->name);
        fli_key_print_value(t, row, bound);
        fli_text_add(t, "\n");
    }
}

/* `server`: the rows of that section to print. Text for clients and for comparisons with checkpoints leaves out the
 * rows that concern only the process, so that it is the same as before these keys existed. */
static void print_sections(fli_text *t, const fli_settings *s, const fl_key *server)
{
    print_keys(t, top_keys, &s->top, "");
    for (size_t i = 0; i < SECTIONS; i++) {
        const section *sec = &sections[i];
        fli_text_addf(t, "%s:\n", sec->name);
        if (sec->choice) {
            const fli_choice *c = (const fli_choice *)((const char *)s + sec->choice);
            fli_text_addf(t, "  kind: %s\n", c->item.name);
            print_keys(t, c->item.keys, c->params, "  ");
        }
        print_keys(t, sec->keys == server_keys ? server : sec->keys, (const char *)s + sec->offset, "  ");
    }
}

void fli_settings_print(fli_text *t, const fli_settings *s) { print_sections(t, s, server_keys); }

void fli_settings_print_kind(fli_text *t, const fli_choice *c) { print_keys(t, c->item.keys, c->params, ""); }

void fli_settings_print_essence(fli_text *t, const fli_settings *s)
{
    static char nothing[] = "", cpu[] = FLI_DEVICE_CPU;
    fli_settings plain = *s;
    plain.top.threads = plain.top.memory = plain.top.checkpoint_every = 0;
    plain.top.name = plain.top.output = nothing;
    plain.top.device = cpu;
    plain.top.output_model = 1;
    plain.server = (fli_admission){.wait_for = 1};
    fli_item_find(fli_kind_find("executor"), "threads", &plain.executor.item);
    print_sections(t, &plain, server_keys + OWN_OF_SERVER);
}

void fli_settings_help(fli_text *t)
{
    fli_text_add(t, "at the top:\n");
    fli_keys_print_help(t, top_keys, 2);
    for (size_t i = 0; i < SECTIONS; i++) {
        fli_text_addf(t, "\n%s:\n", sections[i].name);
        if (sections[i].choice)
            fli_text_addf(t, "  %-16s %s, see `fedloom list %s`; default: %s\n", "kind",
                          fli_kind_find(sections[i].name)->title, sections[i].name,
                          sections[i].fallback ? sections[i].fallback : "must be given");
        fli_keys_print_help(t, sections[i].keys, 2);
    }
}

static fli_schedule schedule_of(const fli_local_settings *l)
{
    return (fli_schedule){l->schedule, l->decay, l->schedule_by == FLI_BY_STEP};
}

int fli_settings_wide(const fli_settings *s) { return s->top.precision == FLI_PRECISION_F64; }
int fli_settings_on_device(const fli_settings *s) { return strcmp(s->top.device, FLI_DEVICE_CPU) != 0; }

fli_sgd_spec fli_settings_sgd(const fli_settings *s)
{
    return (fli_sgd_spec){.batch = (size_t)s->local.batch,
                          .momentum = s->local.momentum,
                          .fraction = s->local.batch_fraction,
                          .latent = (size_t)s->semi.batch,
                          .epoch = s->local.epoch,
                          .schedule = schedule_of(&s->local)};
}

const fl_solver *fli_settings_solver(const fli_settings *s) { return s->local.user_solver; }

double fli_settings_lr(const fli_local_settings *l, size_t rounds, size_t steps)
{
    fli_schedule s = schedule_of(l);
    if (s.by_step) return l->lr * fli_schedule_mean(&s, (uint64_t)rounds * steps, steps);
    return fli_schedule_lr(&s, l->lr, (double)rounds + 1);
}
