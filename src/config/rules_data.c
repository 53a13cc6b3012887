/* What settings must be for the data at hand. */
#include "config/rules.h"

#include "device/device.h"
#include "engine/async.h"
#include "model/latent.h"
#include "model/own.h"

#include "base/number.h"

#include <string.h>

static const fli_algo *algo(const fli_known *k) { return k->settings->algorithm.item.desc; }
static int model_has(const fli_known *k, unsigned trait) { return k->model && k->model->desc->traits & trait; }

/* ---- accuracy goals need something to be accurate on ------------------------------------------------------- */

static int has_goals(const fli_known *k)
{
    return k->model && (k->settings->metrics.targets.n || k->settings->stop.target > 0);
}

static int goals_without_labels(const fli_known *k) { return has_goals(k) && model_has(k, FLI_MODEL_UNSUPERVISED); }

static int goals_of_regression(const fli_known *k)
{
    return has_goals(k) && !model_has(k, FLI_MODEL_UNSUPERVISED | FLI_MODEL_CLASSIFIER);
}

static int goals_untested(const fli_known *k)
{
    return has_goals(k) && model_has(k, FLI_MODEL_CLASSIFIER) && !k->fed->test &&
           !(k->settings->data.test_fraction > 0);
}

/* ---- the solver, which may want more of the model than the method does -------------------------------------- */

static fl_status solver_fits(const fli_known *k)
{
    fl_status s = FL_OK;
    for (size_t i = 0; k->model && !s && i < k->solvers->count; i++)
        s = fli_solver_fits(k->ctx, k->solvers->at[i], k->model);
    return s;
}

static int cannot_use(const fli_known *k, const fli_solver *s)
{
    const fli_data_settings *d = &k->settings->data;
    return d->augment != FLI_AUGMENT_NONE && !d->augment_once && !s->augments;
}

/* Solvers that know nothing of a second block would leave it out silently. */
static int leaves_out(const fli_known *k, const fli_solver *s) { return k->model->latent && !s->second_block; }

const fli_solver *fli_known_culprit(const fli_known *k)
{
    for (size_t i = 0; i < k->solvers->count; i++)
        if (cannot_use(k, k->solvers->at[i]) || leaves_out(k, k->solvers->at[i])) return k->solvers->at[i];
    return NULL;
}

static int cannot_augment(const fli_known *k)
{
    const fli_solver *s = k->model ? fli_known_culprit(k) : NULL;
    return s && cannot_use(k, s);
}

static int leaves_block_out(const fli_known *k)
{
    const fli_solver *s = k->model ? fli_known_culprit(k) : NULL;
    return s && leaves_out(k, s);
}

static int leaves_labels_out(const fli_known *k) { return leaves_block_out(k) && !k->model->latent->every; }
static int leaves_members_out(const fli_known *k) { return leaves_block_out(k) && k->model->latent->every; }

static int counts_no_steps(const fli_known *k)
{
    int counts = !k->model;
    for (size_t i = 0; k->model && i < k->solvers->count; i++) counts |= k->solvers->at[i]->counts_steps;
    return k->settings->local.schedule_by == FLI_BY_STEP && !counts;
}

/* ---- objectives of users ----------------------------------------------------------------------------------- */

/* Those that are asked for whole clients know these by the number of their only sample. */
static fl_status one_sample_each(const fli_known *k)
{
    if (!k->model || !fli_model_by_client(k->model)) return FL_OK;
    if (k->fed->test)
        return fli_fail(k->ctx, FL_ECONFIG, "model %s is asked for whole clients, so there can be no test set",
                        k->model->desc->name);
    for (size_t i = 0; i < k->fed->clients; i++) {
        fli_view v;
        fl_status s = fli_view_open(k->ctx, k->fed, i, &v);
        if (s) return s;
        int fits = v.n_train == 1 && !v.n_test && !v.n_unlabelled && v.train[0] == i;
        fli_view_close(&v);
        if (!fits)
            return fli_fail(k->ctx, FL_ECONFIG,
                            "model %s is asked for whole clients, so client %zu must have one sample, number %zu, and "
                            "no other",
                            k->model->desc->name, i, i);
    }
    return FL_OK;
}

/* ---- devices ------------------------------------------------------------------------------------------------- */

static int on_device(const fli_known *k) { return k->model && fli_settings_on_device(k->settings); }

static fl_status device_here(const fli_known *k)
{
    const fli_backend *backend;
    size_t which;
    return on_device(k) ? fli_device_find(k->ctx, k->settings->top.device, &backend, &which) : FL_OK;
}

static fl_status model_there(const fli_known *k)
{
    fli_network net;
    if (!on_device(k) || k->model->desc->traits & FLI_MODEL_OWN || k->model->bilevel) return FL_OK;
    if (k->model->desc->network && k->model->desc->network(k->model, &net)) return FL_OK;
    return fli_fail(k->ctx, FL_ECONFIG,
                    "device is %s, where there are networks: softmax, logistic, mlp, cnn; model %s %s",
                    k->settings->top.device, k->model->desc->name, "runs on the cpu alone");
}

/* The method's solver has nobody who does the same there. */
static fl_status solvers_there(const fli_known *k)
{
    char known[256] = "";
    const fli_solver *missing = NULL;
    for (size_t i = 0; on_device(k) && i < k->solvers->count && !missing; i++)
        if (!fli_device_solver(k->solvers->at[i])) missing = k->solvers->at[i];
    if (!missing || k->model->bilevel || strcmp(k->settings->local.solver, FLI_SOLVER_SGD)) return FL_OK;
    for (const fli_solver *const *s = fli_solver_list; *s; s++)
        if (fli_device_solver(*s))
            fli_snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known ? ", " : "", (*s)->name);
    return fli_fail(k->ctx, FL_ECONFIG,
                    "device is %s, but algorithm %s solves its local problems by the %s solver, which runs on the cpu "
                    "alone; devices have %s",
                    k->settings->top.device, algo(k)->name, missing->name, known);
}

/* ---- the rest ---------------------------------------------------------------------------------------------- */

static fl_status regularizer_fits(const fli_known *k)
{
    const fli_regularizer *g = k->settings->regularizer.item.desc;
    return k->model && g->validate ? g->validate(k->ctx, k->settings->regularizer.params, k->model->space.n) : FL_OK;
}

/* Without labels, taking some away would only take samples away. */
static int hides_nothing(const fli_known *k)
{
    return model_has(k, FLI_MODEL_UNSUPERVISED) && k->settings->data.unlabelled > 0;
}

static fl_status samples_for_levels(const fli_known *k)
{
    const fli_settings *s = k->settings;
    for (size_t i = 0; k->model && k->model->bilevel && s->bilevel.validation > 0 && i < k->fed->clients; i++)
        if (fli_fed_size(k->fed, i) - fli_fed_unlabelled(k->fed, i) < 2)
            return fli_fail(
                k->ctx, FL_ECONFIG,
                "client %zu has a single training sample%s, but bilevel.validation needs one for each level", i,
                s->data.unlabelled > 0 ? " with a label" : "");
    return FL_OK;
}

static int no_potential(const fli_known *k)
{
    return k->settings->metrics.potential && !algo(k)->theory.potential.name && !k->compared;
}

static fl_status local_lists(const fli_known *k)
{
    return fli_keys_check_clients(k->ctx, "local", fli_settings_common("local"), &k->settings->local, k->fed->clients);
}

static fl_status method_lists(const fli_known *k)
{
    const fli_choice *c = &k->settings->algorithm;
    return fli_keys_check_clients(k->ctx, "algorithm", c->item.keys, c->params, k->fed->clients);
}

/* A method looks at its parameters when its lists have the right lengths. */
static fl_status method_parameters(const fli_known *k)
{
    if (!algo(k)->validate) return FL_OK;
    if (!method_lists(k)) return algo(k)->validate(k->ctx, k->settings->algorithm.params, k->fed->clients);
    fli_clear(k->ctx); /* that is said already */
    return FL_OK;
}

static fl_status bound_on_age(const fli_known *k)
{
    return k->pace.buffer && k->at_work ? fli_pace_check(k->ctx, &k->pace, k->at_work) : FL_OK;
}

const fli_rule fli_data_rules[] = {
    {"device", NULL, "devices that are here", "device: cuda:99999", device_here},
    {"device model.kind", NULL, "models that devices compute",
     "device: twin\ndata: {kind: linreg, clients: 4, features: 3, test_fraction: 0.5}\npartition: natural\n"
     "model: least_squares",
     model_there},
    {"device algorithm.kind algorithm.solver", NULL, "solvers that devices have", "device: twin\nalgorithm: fedgia",
     solvers_there},
    {"local.schedule_by algorithm.kind", counts_no_steps,
     "algorithm {algorithm.kind} takes no steps of the size local.lr, so local.schedule_by must be round",
     "algorithm: fedgia\nlocal: {schedule_by: step}", NULL},
    {"bilevel.validation bilevel.kind", NULL, "the samples of each client, for two levels",
     "algorithm: simfbo\nbilevel: regularization\npartition: {clients: 60}", samples_for_levels},
    {"metrics.targets stop.target model.kind", goals_without_labels,
     "metrics.targets and stop.target are test accuracies, but model {model.kind} predicts no labels",
     "model: factorization\nstop: {target: 0.5}", NULL},
    {"metrics.targets stop.target model.kind", goals_of_regression,
     "metrics.targets and stop.target are accuracies, but model {model.kind} is a regression",
     "data: {kind: linreg, clients: 4, features: 3, test_fraction: 0.5}\npartition: natural\nmodel: least_squares\n"
     "stop: {target: 0.5}",
     NULL},
    {"metrics.targets stop.target data.test_fraction", goals_untested,
     "metrics.targets and stop.target need test samples, but there is no test set; set data.test_fraction",
     "data: {test_samples: 0}\nmetrics: {targets: [0.5]}", NULL},
    {"algorithm.solver algorithm.kind model.kind", NULL, "the models that the method's local solver knows",
     "algorithm: {kind: feddr, solver: exact}", solver_fits},
    {"model.kind data.kind", NULL, "samples of an objective that is asked for whole clients", "model: whole",
     one_sample_each},
    {"regularizer.kind", NULL, "the regulariser's own parameters",
     "algorithm: feddr\nregularizer: {kind: box, low: 2, high: 1}", regularizer_fits},
    {"data.augment algorithm.kind", cannot_augment,
     "data.augment changes the samples from step to step, which the {solver} solver cannot use; set it to none, or "
     "data.augment_once to true",
     "data: {kind: digits, augment: cifar}\nalgorithm: {kind: feddr, solver: accurate, accuracy: 1, relative: 0.1}",
     NULL},
    {"data.unlabelled model.kind", hides_nothing, "model {model.kind} reads no labels, so data.unlabelled must be 0",
     "model: factorization\ndata: {unlabelled: 0.5}", NULL},
    {"semi.labels algorithm.kind", leaves_labels_out,
     "algorithm {algorithm.kind} solves its local problems by the {solver} solver, which knows nothing of pseudo "
     "labels; set semi.labels to none",
     "algorithm: fedgia\ndata: {unlabelled: 0.5}\nsemi: {labels: projected}", NULL},
    {"model.kind algorithm.kind", leaves_members_out,
     "algorithm {algorithm.kind} solves its local problems by the {solver} solver, which knows nothing of memberships",
     "model: factorization\nalgorithm: fedgia", NULL},
    {"metrics.potential algorithm.kind", no_potential,
     "no potential of algorithm {algorithm.kind} is known here, so metrics.potential must be false",
     "metrics: {potential: true}", NULL},
    {"local.lr_factors", NULL, "lists of `local` with one value per client", "local: {lr_factors: [1, 2]}",
     local_lists},
    {"algorithm.kind", NULL, "lists of `algorithm` with one value per client",
     "algorithm: {kind: fedvra, gamma: [1, 2]}", method_lists},
    {"algorithm.kind", NULL, "the method's parameters among each other",
     "algorithm: {kind: fedvra, preset: admm, gamma: 0}", method_parameters},
    {"algorithm.tau participation.count algorithm.kind", NULL, "the bound on the age of uploads",
     "algorithm: {kind: fedasync, tau: 1}\nsystem: constant", bound_on_age},
    {NULL, NULL, NULL, NULL, NULL},
};
