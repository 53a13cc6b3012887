/* What settings must be together, as far as that is known without the data. */
#include "config/settings.h"

#include "device/device.h"
#include "executor/executor.h"
#include "solver/user_solver.h"

#include <string.h>

static const fl_method *algo(const fli_rule_facts *k) { return k->settings->algorithm.item.desc; }
static int has_trait(const fli_rule_facts *k, unsigned trait) { return (algo(k)->traits & trait) != 0; }
static int in_rounds(const fli_rule_facts *k) { return !fli_algo_is_async(algo(k)); }
static int real_clock(const fli_rule_facts *k) { return k->settings->top.clock == FLI_CLOCK_REAL; }
static int is(const fli_choice *c, const char *name) { return !strcmp(c->item.name, name); }
static int no_devices(const fli_rule_facts *k) { return is(&k->settings->devices, "none"); }
static int no_levels(const fli_rule_facts *k) { return is(&k->settings->levels, "none"); }
static int no_regularizer(const fli_rule_facts *k) { return is(&k->settings->regularizer, "none"); }

static int drops(const fli_rule_facts *k)
{
    return k->settings->system.deadline > 0 || k->settings->system.wait_for < 1;
}

/* ---- one section ----------------------------------------------------------------------------------------- */

static int bad_range(const fli_rule_facts *k)
{
    const fli_local_work *e = &k->settings->local.work;
    return e->uneven == FLI_UNEVEN_RANGE && (e->range.n != 2 || e->range.v[0] > e->range.v[1]);
}

static int no_speeds(const fli_rule_facts *k)
{
    return k->settings->local.work.uneven == FLI_UNEVEN_SPEEDS && !k->settings->local.work.speeds.n;
}

static int bad_scales(const fli_rule_facts *k)
{
    const fli_data_settings *d = &k->settings->data;
    return d->normalize == FLI_NORM_GIVEN && (!d->mean.n || d->mean.n != d->std.n);
}

static int no_scale(const fli_rule_facts *k)
{
    const fli_data_settings *d = &k->settings->data;
    return d->normalize == FLI_NORM_AFFINE && !d->scale.n;
}

static int crop_missing(const fli_rule_facts *k)
{
    return k->settings->data.augment == FLI_AUGMENT_CROP && !k->settings->data.crop;
}

static int cropped_twice(const fli_rule_facts *k)
{
    return k->settings->data.augment == FLI_AUGMENT_CIFAR && k->settings->data.crop;
}

static int once_nothing(const fli_rule_facts *k)
{
    return k->settings->data.augment == FLI_AUGMENT_NONE && k->settings->data.augment_once;
}

static int share_of_nothing(const fli_rule_facts *k)
{
    return k->settings->data.augment == FLI_AUGMENT_NONE && k->settings->data.augment_share < 1;
}

static int bad_multiple(const fli_rule_facts *k)
{
    return k->settings->stop.diverged > 0 && k->settings->stop.diverged <= 1;
}

/* ---- what is measured ------------------------------------------------------------------------------------ */

static int targets_untested(const fli_rule_facts *k)
{
    return k->settings->metrics.targets.n && !k->settings->metrics.test;
}

static int target_untested(const fli_rule_facts *k)
{
    return k->settings->stop.target > 0 && !k->settings->metrics.test;
}

static int goal_unmeasured(const fli_rule_facts *k)
{
    return k->settings->metrics.goal == FLI_GOAL_LOCAL && !k->settings->metrics.local;
}

static int goal_untested(const fli_rule_facts *k)
{
    return k->settings->metrics.goal == FLI_GOAL_LOCAL && k->settings->data.test_fraction == 0;
}

static int stops_by_mapping(const fli_rule_facts *k) { return k->settings->stop.gradient_mapping > 0; }
static int mapping_unmeasured(const fli_rule_facts *k)
{
    return stops_by_mapping(k) && !k->settings->metrics.gradient_mapping;
}
static int mapping_of_levels(const fli_rule_facts *k) { return stops_by_mapping(k) && has_trait(k, FL_METHOD_BILEVEL); }
static int mapping_of_one_block(const fli_rule_facts *k)
{
    return stops_by_mapping(k) && k->settings->semi.labels == FLI_SEMI_PROJECTED && !has_trait(k, FL_METHOD_LABELLED);
}

static int stops_by_gradient(const fli_rule_facts *k) { return k->settings->stop.gradient2 > 0; }
static int gradient_unmeasured(const fli_rule_facts *k)
{
    return stops_by_gradient(k) && !k->settings->metrics.gradient;
}
static int gradient_of_a_part(const fli_rule_facts *k) { return stops_by_gradient(k) && !no_regularizer(k); }
static int gradient_of_levels(const fli_rule_facts *k)
{
    return stops_by_gradient(k) && has_trait(k, FL_METHOD_BILEVEL);
}

static int gradient_of_one_block(const fli_rule_facts *k)
{
    return stops_by_gradient(k) && k->settings->semi.labels == FLI_SEMI_PROJECTED && !has_trait(k, FL_METHOD_LABELLED);
}

static int hypergradient_of_one(const fli_rule_facts *k) { return k->settings->metrics.hypergradient && no_levels(k); }
static int potential_of_labelled(const fli_rule_facts *k)
{
    return k->settings->metrics.potential && algo(k)->theory.potential.name &&
           k->settings->semi.labels != FLI_SEMI_NONE && !has_trait(k, FL_METHOD_LABELLED) &&
           !has_trait(k, FL_METHOD_BLOCKS);
}

static int own_models_at_work(const fli_rule_facts *k) { return !in_rounds(k) && k->settings->metrics.local; }

/* ---- what a method asks for ------------------------------------------------------------------------------ */

static int everyone_missing(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_EVERYONE) &&
           !((const fli_participation_desc *)k->settings->sampler.item.desc)->everyone;
}

static int everyone_late(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_EVERYONE | FL_METHOD_BYSTANDERS) && drops(k);
}

static int not_composite(const fli_rule_facts *k) { return !has_trait(k, FL_METHOD_COMPOSITE) && !no_regularizer(k); }

static int weighs_equally(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_UNIFORM) && k->settings->top.weights == FLI_WEIGHTS_SAMPLES;
}

/* ---- a local solver of the user's ------------------------------------------------------------------------- */

static int names_solver(const fli_rule_facts *k) { return strcmp(k->settings->local.solver, FLI_SOLVER_SGD) != 0; }

static fl_status solver_known(const fli_rule_facts *k)
{
    const char *name = k->settings->local.solver;
    if (!names_solver(k) || fli_user_solver(name)) return FL_OK;
    char meant[FLI_MEANT_LEN];
    return fli_fail(k->ctx, FL_ECONFIG, "local.solver is %s, which nobody has registered (fl_solver_register)%s", name,
                    fli_meant(fl_nearest(name, fli_item_name, fli_kind_find("solver")), meant));
}

static int solver_unwanted(const fli_rule_facts *k)
{
    return names_solver(k) && !fli_algo_takes_solver(algo(k), k->settings->algorithm.params);
}

static int solver_by_step(const fli_rule_facts *k)
{
    return names_solver(k) && k->settings->local.schedule_by == FLI_BY_STEP;
}

/* ---- schedules that count steps: their sizes differ within a round ---------------------------------------- */

static int by_step(const fli_rule_facts *k) { return k->settings->local.schedule_by == FLI_BY_STEP; }
static int one_size_a_round(const fli_rule_facts *k) { return by_step(k) && has_trait(k, FL_METHOD_PLAIN_SGD); }
static int prox_by_step(const fli_rule_facts *k) { return by_step(k) && !no_regularizer(k); }
static int counts_nothing(const fli_rule_facts *k) { return by_step(k) && !in_rounds(k); }

/* ---- data ------------------------------------------------------------------------------------------------ */

static int nothing_unlabelled(const fli_rule_facts *k)
{
    return k->settings->semi.labels != FLI_SEMI_NONE && k->settings->data.unlabelled == 0;
}

static int partitions_its_own(const fli_rule_facts *k)
{
    return k->settings->data.on_demand && !is(&k->settings->partitioner, "natural");
}

static int clients_missing(const fli_rule_facts *k)
{
    const fli_partitioner *p = k->settings->partitioner.item.desc;
    return !k->settings->data.on_demand && !k->settings->partition.clients && !p->sets_clients;
}

/* ---- two levels ------------------------------------------------------------------------------------------ */

static int levels_missing(const fli_rule_facts *k) { return has_trait(k, FL_METHOD_BILEVEL) && no_levels(k); }
static int levels_unknown(const fli_rule_facts *k) { return !has_trait(k, FL_METHOD_BILEVEL) && !no_levels(k); }

static int decay_of_levels(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_BILEVEL) && k->settings->model.weight_decay > 0;
}

static int momentum_of_levels(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_BILEVEL) && k->settings->local.momentum > 0;
}

static int steps_differ(const fli_rule_facts *k)
{
    const fl_reals *r = &k->settings->local.lr_factors;
    int differ = 0;
    for (size_t i = 1; i < r->n; i++) differ |= r->v[i] != r->v[0];
    return has_trait(k, FL_METHOD_EQUAL_LR) && differ;
}

static int cohort_changes(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_BILEVEL) && (algo(k)->rounds.phases || algo(k)->phases > 1) && drops(k);
}

/* ---- clocks: rounds may leave clients behind, arrivals cannot; only arrivals can happen in real time ------ */

static int drops_untimed(const fli_rule_facts *k)
{
    return no_devices(k) && (drops(k) || k->settings->stop.simulated > 0);
}
static int arrives_untimed(const fli_rule_facts *k) { return no_devices(k) && !in_rounds(k) && !real_clock(k); }
static int rounds_in_real_time(const fli_rule_facts *k) { return in_rounds(k) && real_clock(k); }

static int not_at_work(const fli_rule_facts *k)
{
    return !in_rounds(k) && !((const fli_participation_desc *)k->settings->sampler.item.desc)->at_work;
}

static int never_waits(const fli_rule_facts *k) { return !in_rounds(k) && drops(k); }

static int real_here(const fli_rule_facts *k)
{
    return real_clock(k) && !in_rounds(k) && !is(&k->settings->source, "joined");
}

static int real_and_simulated(const fli_rule_facts *k)
{
    return real_clock(k) && is(&k->settings->source, "joined") && k->settings->stop.simulated > 0;
}

static int saved_nowhere(const fli_rule_facts *k)
{
    return k->settings->top.checkpoint_every && !*k->settings->top.output;
}

/* ---- a server whose clients are elsewhere ----------------------------------------------------------------- */

static int never_enough(const fli_rule_facts *k) { return k->settings->server.quorum > k->settings->server.wait_for; }

/* ---- devices: what only the processors of this machine can compute ---------------------------------------- */

static int on_device(const fli_rule_facts *k) { return fli_settings_on_device(k->settings); }

/* Whether there are GPUs is looked at when a run is planned: what was computed with one can be read anywhere. */
static fl_status device_known(const fli_rule_facts *k)
{
    const char *name = k->settings->top.device;
    const fli_backend *backend;
    size_t which;
    return on_device(k) && strncmp(name, "cuda", 4) ? fli_device_find(k->ctx, name, &backend, &which) : FL_OK;
}

static int coarse_here(const fli_rule_facts *k)
{
    return k->settings->top.precision == FLI_PRECISION_TF32 && !on_device(k);
}
static int carried_there(const fli_rule_facts *k) { return on_device(k) && !is(&k->settings->executor, "threads"); }
static int made_there(const fli_rule_facts *k) { return on_device(k) && k->settings->data.on_demand; }
static int touches_there(const fli_rule_facts *k) { return on_device(k) && has_trait(k, FL_METHOD_TOUCHES); }
static int levels_there(const fli_rule_facts *k) { return on_device(k) && has_trait(k, FL_METHOD_BILEVEL); }
static int solver_there(const fli_rule_facts *k) { return on_device(k) && names_solver(k); }
static int user_model_there(const fli_rule_facts *k) { return on_device(k) && k->settings->objective.item.by_user; }

const fli_rule fli_settings_rules[] = {
    {"device", NULL, "devices that there can be", "device: abacus", device_known},
    {"precision device", coarse_here, "precision {precision} is for devices: device is {device}; set precision to f32",
     "precision: tf32", NULL},
    {"device executor.kind", carried_there,
     "device is {device}, where all clients are together, so executor must be threads, not {executor.kind}",
     "device: twin\nexecutor: loopback", NULL},
    {"device data.on_demand", made_there,
     "device is {device}, which must hold all samples, so data.on_demand must be false",
     "device: twin\ndata: {on_demand: true}\npartition: natural", NULL},
    {"device algorithm.kind", touches_there,
     "algorithm {algorithm.kind} touches its vectors itself (FL_METHOD_TOUCHES), so device must be cpu, not {device}",
     "device: twin\nalgorithm: toucher", NULL},
    {"device algorithm.kind", levels_there,
     "algorithm {algorithm.kind} works on two levels, which run on the cpu alone; device must be cpu, not {device}",
     "device: twin\nalgorithm: simfbo\nbilevel: regularization", NULL},
    {"device local.solver", solver_there,
     "local.solver {local.solver} comes with the program and runs on the cpu alone; device must be cpu, not {device}",
     "device: twin\nlocal: {solver: idle}", NULL},
    {"device model.kind", user_model_there,
     "model {model.kind} comes with the program and runs on the cpu alone; device must be cpu, not {device}",
     "device: twin\nmodel: whole", NULL},
    {"local.solver", NULL, "solvers that users have registered", "local: {solver: nobodys}", solver_known},
    {"local.solver algorithm.kind", solver_unwanted,
     "algorithm {algorithm.kind} does not solve its local problems by SGD, so no other solver can take its place; "
     "local.solver must be sgd",
     "algorithm: fedgia\nlocal: {solver: idle}", NULL},
    {"local.solver local.schedule_by", solver_by_step,
     "local.solver is {local.solver}, which is told one step size in a round, so local.schedule_by must be round",
     "local: {solver: idle, schedule_by: step}", NULL},
    {"local.range local.uneven", bad_range, "local.range must be two numbers, the smaller one first, e.g. [1, 5]",
     "local: {uneven: range, range: [5, 1]}", NULL},
    {"local.lr_factors algorithm.kind", steps_differ,
     "algorithm {algorithm.kind} wants the same step size at all clients, so local.lr_factors must be equal",
     "algorithm: scaffnew\nlocal: {lr_factors: [1, 1, 2, 1]}", NULL},
    {"local.schedule_by algorithm.kind", one_size_a_round,
     "algorithm {algorithm.kind} reads gradients out of displacements and wants one step size in a round, so "
     "local.schedule_by must be round",
     "algorithm: scaffold\nlocal: {schedule_by: step}", NULL},
    {"local.schedule_by regularizer.kind", prox_by_step,
     "the server's proximal step goes by one step size in a round, so local.schedule_by must be round with "
     "regularizer.kind {regularizer.kind}",
     "regularizer: {kind: l1, weight: 0.1}\nlocal: {schedule_by: step}", NULL},
    {"local.schedule_by algorithm.kind", counts_nothing,
     "local.schedule_by counts the steps of rounds, but algorithm {algorithm.kind} has none; it must be round, which "
     "then counts server steps",
     "algorithm: fedasync\nsystem: constant\nlocal: {schedule_by: step}", NULL},
    {"local.speeds local.uneven", no_speeds, "local.speeds is empty", "local: {uneven: speeds, speeds: []}", NULL},
    {"data.normalize data.mean data.std", bad_scales,
     "data.normalize is {data.normalize}, so data.mean and data.std must have one value each, or one per channel; they "
     "are {data.mean} and {data.std}",
     "data: {normalize: given, mean: [0.5, 0.5], std: 1}", NULL},
    {"data.scale data.normalize", no_scale, "data.normalize is {data.normalize}, so data.scale must have a value",
     "data: {normalize: affine}", NULL},
    {"data.crop data.augment", crop_missing,
     "data.augment is {data.augment}, so data.crop must say how many pixels high and wide the parts are",
     "data: {kind: digits, augment: crop}", NULL},
    {"data.augment data.crop", cropped_twice,
     "data.augment {data.augment} moves whole images, but data.crop takes parts of {data.crop} x {data.crop} pixels; "
     "set augment to crop",
     "data: {kind: digits, augment: cifar, crop: 20}", NULL},
    {"data.augment_once data.augment", once_nothing,
     "data.augment_once is set, but data.augment is {data.augment}; set it to cifar or crop",
     "data: {kind: digits, augment_once: true}", NULL},
    {"data.augment_share data.augment", share_of_nothing,
     "data.augment_share is {data.augment_share}, but data.augment is {data.augment}; set it to cifar or crop",
     "data: {kind: digits, augment_share: 0.5}", NULL},
    {"semi.labels data.unlabelled", nothing_unlabelled,
     "semi.labels is set, but every sample has a label; set data.unlabelled, for instance to 0.9",
     "semi: {labels: projected}", NULL},
    {"metrics.targets metrics.test", targets_untested, "metrics.targets needs metrics.test to be true",
     "metrics: {targets: [0.5], test: false}", NULL},
    {"metrics.goal metrics.local", goal_unmeasured,
     "metrics.goal is {metrics.goal}, which needs metrics.local to be true",
     "metrics: {goal: local}\ndata: {test_fraction: 0.2}", NULL},
    {"metrics.goal data.test_fraction", goal_untested,
     "metrics.goal is {metrics.goal}, but clients have no test part of their own; set data.test_fraction, for instance "
     "to 0.2",
     "metrics: {goal: local, local: true}", NULL},
    {"stop.target metrics.test", target_untested, "stop.target needs metrics.test to be true",
     "stop: {target: 0.5}\nmetrics: {test: false}", NULL},
    {"stop.gradient2 metrics.gradient", gradient_unmeasured, "stop.gradient2 needs metrics.gradient to be true",
     "stop: {gradient2: 1e-6}", NULL},
    {"stop.gradient_mapping metrics.gradient_mapping", mapping_unmeasured,
     "stop.gradient_mapping needs metrics.gradient_mapping to be true", "stop: {gradient_mapping: 1e-6}", NULL},
    {"stop.diverged", bad_multiple,
     "stop.diverged is {stop.diverged}, but must be above 1, or 0: it is a multiple of the loss at the start",
     "stop: {diverged: 0.5}", NULL},
    {"checkpoint_every output", saved_nowhere, "checkpoint_every needs output: checkpoints are kept beside it",
     "checkpoint_every: 3", NULL},
    {"server.quorum server.wait_for", never_enough,
     "server.quorum is {server.quorum}, but a round waits for a share of {server.wait_for} alone (server.wait_for)",
     "server: {quorum: 0.6, wait_for: 0.5}", NULL},
    {"participation.kind algorithm.kind", everyone_missing,
     "algorithm {algorithm.kind} needs every client in every round, but participation.kind is {participation.kind}; "
     "set it to everyone",
     "algorithm: fedpd\nparticipation: {kind: uniform, count: 2}", NULL},
    {"regularizer.kind algorithm.kind", not_composite,
     "algorithm {algorithm.kind} takes no proximal step, so regularizer.kind must be none, not {regularizer.kind}",
     "algorithm: scaffold\nregularizer: {kind: l1, weight: 0.1}", NULL},
    {"stop.gradient2 regularizer.kind", gradient_of_a_part,
     "stop.gradient2 looks at f alone, whose gradient does not vanish where f + g is least; it cannot be used with "
     "regularizer.kind {regularizer.kind}, but stop.gradient_mapping can",
     "algorithm: feddr\nregularizer: {kind: l1, weight: 0.1}\nstop: {gradient2: 1}\nmetrics: {gradient: true}", NULL},
    {"stop.gradient2 semi.labels algorithm.kind", gradient_of_one_block,
     "stop.gradient2 looks at the gradient in x alone, but with semi.labels {semi.labels} the pseudo labels of "
     "algorithm {algorithm.kind} may still be on their way; closed_form has none",
     "data: {unlabelled: 0.5}\nsemi: {labels: projected}\nstop: {gradient2: 1}\nmetrics: {gradient: true}", NULL},
    {"stop.gradient_mapping semi.labels algorithm.kind", mapping_of_one_block,
     "stop.gradient_mapping looks at the gradient in x alone, but with semi.labels {semi.labels} the pseudo labels of "
     "algorithm {algorithm.kind} may still be on their way; closed_form has none",
     "data: {unlabelled: 0.5}\nsemi: {labels: projected}\nstop: {gradient_mapping: 1}\n"
     "metrics: {gradient_mapping: true}",
     NULL},
    {"metrics.potential semi.labels algorithm.kind", potential_of_labelled,
     "metrics.potential is about the loss on labelled samples alone, which is not what algorithm {algorithm.kind} "
     "minimises with semi.labels",
     "algorithm: fedvra\ndata: {unlabelled: 0.5}\nsemi: {labels: projected}\nmetrics: {potential: true}", NULL},
    {"weights algorithm.kind", weighs_equally,
     "algorithm {algorithm.kind} weighs clients equally, but weights is {weights}",
     "algorithm: feddyn\nweights: samples", NULL},
    {"partition.kind data.on_demand", partitions_its_own,
     "data.on_demand makes its own clients, so partition.kind cannot be {partition.kind}; leave it out",
     "data: {kind: synthetic, on_demand: true}", NULL},
    {"partition.kind partition.clients data.on_demand", clients_missing,
     "partition.clients is missing: {partition.kind} does not know how many there are", "partition: {clients: 0}",
     NULL},
    {"algorithm.kind bilevel.kind", levels_missing,
     "algorithm {algorithm.kind} is for two-level problems, but bilevel.kind is {bilevel.kind}; set it, for "
     "instance to hyper_representation",
     "algorithm: simfbo", NULL},
    {"bilevel.kind algorithm.kind", levels_unknown,
     "algorithm {algorithm.kind} knows one level only, so bilevel.kind must be none, not {bilevel.kind}",
     "bilevel: regularization", NULL},
    {"model.weight_decay algorithm.kind", decay_of_levels,
     "model.weight_decay does not say for which level; with algorithm {algorithm.kind} use bilevel.l2",
     "algorithm: simfbo\nbilevel: regularization\nmodel: {weight_decay: 0.1}", NULL},
    {"local.momentum algorithm.kind", momentum_of_levels,
     "algorithm {algorithm.kind} takes plain steps, so local.momentum must be 0",
     "algorithm: simfbo\nbilevel: regularization\nlocal: {momentum: 0.5}", NULL},
    {"metrics.hypergradient bilevel.kind", hypergradient_of_one,
     "metrics.hypergradient is about two levels, but bilevel.kind is none", "metrics: {hypergradient: true}", NULL},
    {"stop.gradient2 algorithm.kind", gradient_of_levels,
     "stop.gradient2 looks at the gradient of the training loss, which does not vanish at the solution of a bilevel "
     "problem",
     "algorithm: simfbo\nbilevel: regularization\nstop: {gradient2: 1}\nmetrics: {gradient: true}", NULL},
    {"stop.gradient_mapping algorithm.kind", mapping_of_levels,
     "stop.gradient_mapping looks at the gradient of the training loss, which does not vanish at the solution of a "
     "bilevel problem",
     "algorithm: simfbo\nbilevel: regularization\nstop: {gradient_mapping: 1}\nmetrics: {gradient_mapping: true}",
     NULL},
    {"system.deadline system.wait_for algorithm.kind", cohort_changes,
     "algorithm {algorithm.kind} meets the same cohort several times in a round, so system.deadline must be 0 and "
     "system.wait_for 1",
     "algorithm: fednest\nbilevel: regularization\nsystem: {kind: constant, deadline: 3}", NULL},
    {"system.deadline system.wait_for stop.simulated system.kind", drops_untimed,
     "system.deadline, system.wait_for and stop.simulated need to know how long turns last, but system.kind is "
     "{system.kind}; `fedloom list system` shows what there is",
     "stop: {simulated: 5}", NULL},
    {"algorithm.kind system.kind clock", arrives_untimed,
     "algorithm {algorithm.kind} depends on which client finishes first, but system.kind is {system.kind}; set it, for "
     "instance to lognormal",
     "algorithm: fedasync", NULL},
    {"clock algorithm.kind", rounds_in_real_time,
     "clock is {clock}, but algorithm {algorithm.kind} works in rounds; leave clock virtual", "clock: real", NULL},
    {"participation.kind algorithm.kind", not_at_work,
     "algorithm {algorithm.kind} is asynchronous: participation.kind can be everyone (all at work) or uniform (a fixed "
     "number at work, the next one drawn from the rest), not {participation.kind}",
     "algorithm: fedasync\nsystem: constant\nparticipation: {kind: cyclic, count: 2}", NULL},
    {"system.deadline system.wait_for algorithm.kind", never_waits,
     "algorithm {algorithm.kind} never waits, so system.deadline and system.wait_for mean nothing",
     "algorithm: fedasync\nsystem: {kind: constant, wait_for: 0.5}", NULL},
    {"metrics.local algorithm.kind", own_models_at_work,
     "metrics.local is for methods that work in rounds: clients of {algorithm.kind} are always in the middle of a turn",
     "algorithm: fedasync\nsystem: constant\nmetrics: {local: true}", NULL},
    {"system.deadline system.wait_for algorithm.kind", everyone_late,
     "algorithm {algorithm.kind} needs every client in every round, so system.deadline must be 0 and system.wait_for 1",
     "algorithm: fedpd\nsystem: {kind: constant, deadline: 3}", NULL},
    {"clock", real_here,
     "clock is {clock}, which is for clients in other programs (`fedloom serve`); leave clock virtual, and set "
     "system.kind",
     "clock: real\nalgorithm: fedasync", NULL},
    {"stop.simulated clock", real_and_simulated,
     "clock is {clock}, so there are no simulated seconds; set stop.seconds instead of stop.simulated",
     "clock: real\nalgorithm: fedasync\nsystem: constant\nstop: {simulated: 3}\n"
     "data: {kind: joined, shape: [4], classes: 2}",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
