/* Rules between settings that can be checked without the data. */
#include "config/settings.h"

#include "device/device.h"
#include "executor/executor.h"
#include "solver/user_solver.h"

#include <string.h>

static const fl_method *algo(const fli_rule_facts *k) { return k->settings->algorithm.item.desc; }
static int has_trait(const fli_rule_facts *k, unsigned trait) { return (algo(k)->traits & trait) != 0; }
static int drops(const fli_rule_facts *k)
{
    return k->settings->system.deadline > 0 || k->settings->system.wait_for < 1;
}

/* ---- methods: shared predicates ------------------------------------------------------------------------- */

static int in_rounds(const fli_rule_facts *k) { return !fli_algo_is_async(algo(k)); }
static int asynchronous(const fli_rule_facts *k) { return fli_algo_is_async(algo(k)); }
static int one_level(const fli_rule_facts *k) { return !has_trait(k, FL_METHOD_BILEVEL); }
static int two_levels(const fli_rule_facts *k) { return has_trait(k, FL_METHOD_BILEVEL); }
static int two_blocks(const fli_rule_facts *k) { return !has_trait(k, FL_METHOD_LABELLED); }

/* ---- methods: predicates of single rules ---------------------------------------------------------------- */

static int touches(const fli_rule_facts *k) { return has_trait(k, FL_METHOD_TOUCHES); }
static int plain_sgd(const fli_rule_facts *k) { return has_trait(k, FL_METHOD_PLAIN_SGD); }
static int not_composite(const fli_rule_facts *k) { return !has_trait(k, FL_METHOD_COMPOSITE); }
static int weighs_equally(const fli_rule_facts *k) { return has_trait(k, FL_METHOD_UNIFORM); }
static int never_waits(const fli_rule_facts *k) { return asynchronous(k) && drops(k); }
static int takes_no_solver(const fli_rule_facts *k)
{
    return !fli_algo_takes_solver(algo(k), k->settings->algorithm.params);
}

static int labelled_potential(const fli_rule_facts *k)
{
    return algo(k)->theory.potential.name && !has_trait(k, FL_METHOD_LABELLED | FL_METHOD_BLOCKS);
}

static int everyone_missing(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_EVERYONE) &&
           !((const fli_participation_desc *)k->settings->sampler.item.desc)->everyone;
}

static int everyone_late(const fli_rule_facts *k)
{
    return has_trait(k, FL_METHOD_EVERYONE | FL_METHOD_BYSTANDERS) && drops(k);
}

static int not_at_work(const fli_rule_facts *k)
{
    return asynchronous(k) && !((const fli_participation_desc *)k->settings->sampler.item.desc)->at_work;
}

static int cohort_changes(const fli_rule_facts *k)
{
    return two_levels(k) && (algo(k)->rounds.phases || algo(k)->phases > 1) && drops(k);
}

static int steps_differ(const fli_rule_facts *k)
{
    const fl_reals *r = &k->settings->local.lr_factors;
    int differ = 0;
    for (size_t i = 1; i < r->n; i++) differ |= r->v[i] != r->v[0];
    return has_trait(k, FL_METHOD_EQUAL_LR) && differ;
}

/* ---- other sections ------------------------------------------------------------------------------------- */

static int users_model(const fli_rule_facts *k) { return k->settings->objective.item.by_user; }
static int drops_by_time(const fli_rule_facts *k) { return drops(k) || k->settings->stop.simulated > 0; }
static int never_enough(const fli_rule_facts *k) { return k->settings->server.quorum > k->settings->server.wait_for; }
static int counts_no_clients(const fli_rule_facts *k)
{
    return !((const fli_partitioner *)k->settings->partitioner.item.desc)->sets_clients;
}

static int bad_range(const fli_rule_facts *k)
{
    const fl_ints *range = &k->settings->local.work.range;
    return range->n != 2 || range->v[0] > range->v[1];
}

static int bad_scales(const fli_rule_facts *k)
{
    return !k->settings->data.mean.n || k->settings->data.mean.n != k->settings->data.std.n;
}

/* ---- checks with sentences of their own ----------------------------------------------------------------- */

static fl_status solver_known(const fli_rule_facts *k)
{
    const char *name = k->settings->local.solver;
    if (!strcmp(name, FLI_SOLVER_SGD) || fli_user_solver(name)) return FL_OK;
    char meant[FLI_MEANT_LEN];
    return fli_fail(k->ctx, FL_ECONFIG, "local.solver is %s, which is not registered (fl_solver_register)%s", name,
                    fli_meant(fl_nearest(name, fli_item_name, fli_kind_find("solver")), meant));
}

/* Whether the machine has GPUs is checked only when a run is planned: results made with one can be read anywhere. */
static fl_status device_known(const fli_rule_facts *k)
{
    const char *name = k->settings->top.device;
    const fli_backend *backend;
    size_t which;
    int is_cpu = !fli_settings_on_device(k->settings);
    return is_cpu || !strncmp(name, "cuda", 4) ? FL_OK : fli_device_find(k->ctx, name, &backend, &which);
}

const fli_rule fli_settings_rules[] = {
    {"device", NULL, "devices that there can be", "device: abacus", device_known},
    {"precision=tf32 device=cpu", NULL,
     "precision {precision} is for devices: device is {device}; set precision to f32", "precision: tf32", NULL},
    {"device!=cpu executor.kind!=threads", NULL,
     "device is {device}, where all clients are together, so executor must be threads, not {executor.kind}",
     "device: twin\nexecutor: loopback", NULL},
    {"device!=cpu data.on_demand=true", NULL,
     "device is {device}, which must hold all samples, so data.on_demand must be false",
     "device: twin\ndata: {on_demand: true}\npartition: natural", NULL},
    {"device!=cpu algorithm.kind", touches,
     "algorithm {algorithm.kind} touches its vectors itself (FL_METHOD_TOUCHES), so device must be cpu, not {device}",
     "device: twin\nalgorithm: toucher", NULL},
    {"device!=cpu algorithm.kind", two_levels,
     "algorithm {algorithm.kind} works on two levels, which run on the cpu alone; device must be cpu, not {device}",
     "device: twin\nalgorithm: simfbo\nbilevel: regularization", NULL},
    {"device!=cpu local.solver!=sgd", NULL,
     "local.solver {local.solver} comes with the program and runs on the cpu alone; device must be cpu, not {device}",
     "device: twin\nlocal: {solver: idle}", NULL},
    {"device!=cpu model.kind", users_model,
     "model {model.kind} comes with the program and runs on the cpu alone; device must be cpu, not {device}",
     "device: twin\nmodel: whole", NULL},
    {"local.solver", NULL, "solvers that users have registered", "local: {solver: nobodys}", solver_known},
    {"local.solver!=sgd algorithm.kind", takes_no_solver,
     "algorithm {algorithm.kind} does not solve its local problems by SGD, so no other solver can take its place; "
     "local.solver must be sgd",
     "algorithm: fedgia\nlocal: {solver: idle}", NULL},
    {"local.solver!=sgd local.schedule_by=step", NULL,
     "local.solver is {local.solver}, which is told one step size in a round, so local.schedule_by must be round",
     "local: {solver: idle, schedule_by: step}", NULL},
    {"local.range local.uneven=range", bad_range, "local.range must be two numbers, the smaller one first, e.g. [1, 5]",
     "local: {uneven: range, range: [5, 1]}", NULL},
    {"local.lr_factors algorithm.kind", steps_differ,
     "algorithm {algorithm.kind} wants the same step size at all clients, so local.lr_factors must be equal",
     "algorithm: scaffnew\nlocal: {lr_factors: [1, 1, 2, 1]}", NULL},
    {"local.schedule_by=step algorithm.kind", plain_sgd,
     "algorithm {algorithm.kind} reads gradients out of displacements and wants one step size in a round, so "
     "local.schedule_by must be round",
     "algorithm: scaffold\nlocal: {schedule_by: step}", NULL},
    {"local.schedule_by=step regularizer.kind!=none", NULL,
     "the server's proximal step goes by one step size in a round, so local.schedule_by must be round with "
     "regularizer.kind {regularizer.kind}",
     "regularizer: {kind: l1, weight: 0.1}\nlocal: {schedule_by: step}", NULL},
    {"local.schedule_by=step algorithm.kind", asynchronous,
     "local.schedule_by counts the steps of rounds, but algorithm {algorithm.kind} has none; it must be round, which "
     "then counts server steps",
     "algorithm: fedasync\nsystem: constant\nlocal: {schedule_by: step}", NULL},
    {"local.speeds=[] local.uneven=speeds", NULL, "local.speeds is empty", "local: {uneven: speeds, speeds: []}", NULL},
    {"data.normalize=given data.mean data.std", bad_scales,
     "data.normalize is {data.normalize}, so data.mean and data.std must have one value each, or one per channel; they "
     "are {data.mean} and {data.std}",
     "data: {normalize: given, mean: [0.5, 0.5], std: 1}", NULL},
    {"data.scale=[] data.normalize=affine", NULL, "data.normalize is {data.normalize}, so data.scale must have a value",
     "data: {normalize: affine}", NULL},
    {"data.crop=0 data.augment=crop", NULL,
     "data.augment is {data.augment}, so data.crop must say how many pixels high and wide the parts are",
     "data: {kind: digits, augment: crop}", NULL},
    {"data.augment=cifar data.crop!=0", NULL,
     "data.augment {data.augment} moves whole images, but data.crop takes parts of {data.crop} x {data.crop} pixels; "
     "set augment to crop",
     "data: {kind: digits, augment: cifar, crop: 20}", NULL},
    {"data.augment_once=true data.augment=none", NULL,
     "data.augment_once is set, but data.augment is {data.augment}; set it to cifar or crop",
     "data: {kind: digits, augment_once: true}", NULL},
    {"data.augment_share<1 data.augment=none", NULL,
     "data.augment_share is {data.augment_share}, but data.augment is {data.augment}; set it to cifar or crop",
     "data: {kind: digits, augment_share: 0.5}", NULL},
    {"semi.labels!=none data.unlabelled<=0", NULL,
     "semi.labels is set, but every sample has a label; set data.unlabelled, for instance to 0.9",
     "semi: {labels: projected}", NULL},
    {"metrics.targets!=[] metrics.test=false", NULL, "metrics.targets needs metrics.test to be true",
     "metrics: {targets: [0.5], test: false}", NULL},
    {"metrics.goal=local metrics.local=false", NULL,
     "metrics.goal is {metrics.goal}, which needs metrics.local to be true",
     "metrics: {goal: local}\ndata: {test_fraction: 0.2}", NULL},
    {"metrics.goal=local data.test_fraction<=0", NULL,
     "metrics.goal is {metrics.goal}, but clients have no test part of their own; set data.test_fraction, for instance "
     "to 0.2",
     "metrics: {goal: local, local: true}", NULL},
    {"stop.target>0 metrics.test=false", NULL, "stop.target needs metrics.test to be true",
     "stop: {target: 0.5}\nmetrics: {test: false}", NULL},
    {"stop.gradient2>0 metrics.gradient=false", NULL, "stop.gradient2 needs metrics.gradient to be true",
     "stop: {gradient2: 1e-6}", NULL},
    {"stop.gradient_mapping>0 metrics.gradient_mapping=false", NULL,
     "stop.gradient_mapping needs metrics.gradient_mapping to be true", "stop: {gradient_mapping: 1e-6}", NULL},
    {"stop.diverged>0 stop.diverged<=1", NULL,
     "stop.diverged is {stop.diverged}, but must be above 1, or 0: it is a multiple of the loss at the start",
     "stop: {diverged: 0.5}", NULL},
    {"checkpoint_every>0 output=''", NULL, "checkpoint_every needs output: checkpoints are kept beside it",
     "checkpoint_every: 3", NULL},
    {"server.quorum server.wait_for", never_enough,
     "server.quorum is {server.quorum}, but a round waits for a share of {server.wait_for} alone (server.wait_for)",
     "server: {quorum: 0.6, wait_for: 0.5}", NULL},
    {"participation.kind algorithm.kind", everyone_missing,
     "algorithm {algorithm.kind} needs every client in every round, but participation.kind is {participation.kind}; "
     "set it to everyone",
     "algorithm: fedpd\nparticipation: {kind: uniform, count: 2}", NULL},
    {"regularizer.kind!=none algorithm.kind", not_composite,
     "algorithm {algorithm.kind} takes no proximal step, so regularizer.kind must be none, not {regularizer.kind}",
     "algorithm: scaffold\nregularizer: {kind: l1, weight: 0.1}", NULL},
    {"stop.gradient2>0 regularizer.kind!=none", NULL,
     "stop.gradient2 looks at f alone, whose gradient does not vanish where f + g is least; it cannot be used with "
     "regularizer.kind {regularizer.kind}, but stop.gradient_mapping can",
     "algorithm: feddr\nregularizer: {kind: l1, weight: 0.1}\nstop: {gradient2: 1}\nmetrics: {gradient: true}", NULL},
    {"stop.gradient2>0 semi.labels=projected algorithm.kind", two_blocks,
     "stop.gradient2 looks at the gradient in x alone, but with semi.labels {semi.labels} the pseudo labels of "
     "algorithm {algorithm.kind} may still be on their way; closed_form has none",
     "data: {unlabelled: 0.5}\nsemi: {labels: projected}\nstop: {gradient2: 1}\nmetrics: {gradient: true}", NULL},
    {"stop.gradient_mapping>0 semi.labels=projected algorithm.kind", two_blocks,
     "stop.gradient_mapping looks at the gradient in x alone, but with semi.labels {semi.labels} the pseudo labels of "
     "algorithm {algorithm.kind} may still be on their way; closed_form has none",
     "data: {unlabelled: 0.5}\nsemi: {labels: projected}\nstop: {gradient_mapping: 1}\n"
     "metrics: {gradient_mapping: true}",
     NULL},
    {"metrics.potential=true semi.labels!=none algorithm.kind", labelled_potential,
     "metrics.potential is about the loss on labelled samples alone, which is not what algorithm {algorithm.kind} "
     "minimises with semi.labels",
     "algorithm: fedvra\ndata: {unlabelled: 0.5}\nsemi: {labels: projected}\nmetrics: {potential: true}", NULL},
    {"weights=samples algorithm.kind", weighs_equally,
     "algorithm {algorithm.kind} weighs clients equally, but weights is {weights}",
     "algorithm: feddyn\nweights: samples", NULL},
    {"partition.kind!=natural data.on_demand=true", NULL,
     "data.on_demand makes its own clients, so partition.kind cannot be {partition.kind}; leave it out",
     "data: {kind: synthetic, on_demand: true}", NULL},
    {"partition.kind partition.clients=0 data.on_demand=false", counts_no_clients,
     "partition.clients is missing: {partition.kind} does not know how many there are", "partition: {clients: 0}",
     NULL},
    {"algorithm.kind bilevel.kind=none", two_levels,
     "algorithm {algorithm.kind} is for two-level problems, but bilevel.kind is {bilevel.kind}; set it, for "
     "instance to hyper_representation",
     "algorithm: simfbo", NULL},
    {"bilevel.kind!=none algorithm.kind", one_level,
     "algorithm {algorithm.kind} knows one level only, so bilevel.kind must be none, not {bilevel.kind}",
     "bilevel: regularization", NULL},
    {"model.weight_decay>0 algorithm.kind", two_levels,
     "model.weight_decay does not say for which level; with algorithm {algorithm.kind} use bilevel.l2",
     "algorithm: simfbo\nbilevel: regularization\nmodel: {weight_decay: 0.1}", NULL},
    {"local.momentum>0 algorithm.kind", two_levels,
     "algorithm {algorithm.kind} takes plain steps, so local.momentum must be 0",
     "algorithm: simfbo\nbilevel: regularization\nlocal: {momentum: 0.5}", NULL},
    {"metrics.hypergradient=true bilevel.kind=none", NULL,
     "metrics.hypergradient is about two levels, but bilevel.kind is none", "metrics: {hypergradient: true}", NULL},
    {"stop.gradient2>0 algorithm.kind", two_levels,
     "stop.gradient2 looks at the gradient of the training loss, which does not vanish at the solution of a bilevel "
     "problem",
     "algorithm: simfbo\nbilevel: regularization\nstop: {gradient2: 1}\nmetrics: {gradient: true}", NULL},
    {"stop.gradient_mapping>0 algorithm.kind", two_levels,
     "stop.gradient_mapping looks at the gradient of the training loss, which does not vanish at the solution of a "
     "bilevel problem",
     "algorithm: simfbo\nbilevel: regularization\nstop: {gradient_mapping: 1}\nmetrics: {gradient_mapping: true}",
     NULL},
    {"system.deadline system.wait_for algorithm.kind", cohort_changes,
     "algorithm {algorithm.kind} meets the same cohort several times in a round, so system.deadline must be 0 and "
     "system.wait_for 1",
     "algorithm: fednest\nbilevel: regularization\nsystem: {kind: constant, deadline: 3}", NULL},
    {"system.deadline system.wait_for stop.simulated system.kind=none", drops_by_time,
     "system.deadline, system.wait_for and stop.simulated need to know how long turns last, but system.kind is "
     "{system.kind}; `fedloom list system` shows what there is",
     "stop: {simulated: 5}", NULL},
    {"algorithm.kind system.kind=none clock!=real", asynchronous,
     "algorithm {algorithm.kind} depends on which client finishes first, but system.kind is {system.kind}; set it, for "
     "instance to lognormal",
     "algorithm: fedasync", NULL},
    {"clock=real algorithm.kind", in_rounds,
     "clock is {clock}, but algorithm {algorithm.kind} works in rounds; leave clock virtual", "clock: real", NULL},
    {"participation.kind algorithm.kind", not_at_work,
     "algorithm {algorithm.kind} is asynchronous: participation.kind can be everyone (all at work) or uniform (a fixed "
     "number at work, the next one drawn from the rest), not {participation.kind}",
     "algorithm: fedasync\nsystem: constant\nparticipation: {kind: cyclic, count: 2}", NULL},
    {"system.deadline system.wait_for algorithm.kind", never_waits,
     "algorithm {algorithm.kind} never waits, so system.deadline and system.wait_for mean nothing",
     "algorithm: fedasync\nsystem: {kind: constant, wait_for: 0.5}", NULL},
    {"metrics.local=true algorithm.kind", asynchronous,
     "metrics.local is for methods that work in rounds: clients of {algorithm.kind} are always in the middle of a turn",
     "algorithm: fedasync\nsystem: constant\nmetrics: {local: true}", NULL},
    {"system.deadline system.wait_for algorithm.kind", everyone_late,
     "algorithm {algorithm.kind} needs every client in every round, so system.deadline must be 0 and system.wait_for 1",
     "algorithm: fedpd\nsystem: {kind: constant, deadline: 3}", NULL},
    {"clock=real data.kind!=joined algorithm.kind", asynchronous,
     "clock is {clock}, which is for clients in other programs (`fedloom serve`); leave clock virtual, and set "
     "system.kind",
     "clock: real\nalgorithm: fedasync", NULL},
    {"stop.simulated>0 clock=real data.kind=joined", NULL,
     "clock is {clock}, so there are no simulated seconds; set stop.seconds instead of stop.simulated",
     "clock: real\nalgorithm: fedasync\nsystem: constant\nstop: {simulated: 3}\n"
     "data: {kind: joined, shape: [4], classes: 2}",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
