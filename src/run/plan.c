#include "run/plan.h"
#include "run/member.h"
#include "run/advance.h"

#include "exec/async.h"
#include "model/latent.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static fli_fed_spec fed_spec(const fli_settings *s)
{
    return (fli_fed_spec){
        .source = s->source.item.desc,
        .source_params = s->source.params,
        .partitioner = s->partitioner.item.desc,
        .partitioner_params = s->partitioner.params,
        .clients = (size_t)s->partition.clients,
        .seed = (uint64_t)s->top.seed,
        .test_fraction = s->data.test_fraction,
        .unlabelled = s->data.unlabelled,
        .normalize = s->data.normalize,
        .mean = s->data.mean,
        .std = s->data.std,
        .on_demand = s->data.on_demand,
        .wide = s->top.precision != 0,
        .augment = s->data.augment,
    };
}

static int has_clock(const fli_settings *s) { return strcmp(s->devices.item.name, "none") != 0; }

/* Rounds may leave clients behind, arrivals cannot; only arrivals can happen in real time. */
static fl_status check_pace(fl_ctx *ctx, const fli_settings *s)
{
    const fli_algo *a = s->algorithm.item.desc;
    const fli_participation_desc *who = s->sampler.item.desc;
    int drops = s->system.deadline > 0 || s->system.wait_for < 1;
    if (!has_clock(s) && (drops || s->stop.simulated > 0))
        return fli_fail(ctx, FL_ECONFIG,
                        "system.deadline, system.wait_for and stop.simulated need to know how long turns last, but "
                        "system.kind is none; `fedloom list system` shows what there is");
    if (!has_clock(s) && a->async.pace && s->top.clock == FLI_CLOCK_VIRTUAL)
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm %s goes by who comes back first, but system.kind is none; set it, for instance to "
                        "lognormal, or clock to real",
                        a->name);
    if (!a->async.pace && s->top.clock == FLI_CLOCK_REAL)
        return fli_fail(ctx, FL_ECONFIG, "clock is real, but algorithm %s works in rounds; leave clock virtual",
                        a->name);
    if (a->async.pace && !who->at_work)
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm %s is asynchronous: participation.kind can be everyone (all at work) or uniform (so "
                        "many at work, the next one drawn from the rest), not %s",
                        a->name, who->name);
    if (a->async.pace && drops)
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm %s never waits, so system.deadline and system.wait_for mean nothing", a->name);
    if (a->async.pace && s->metrics.local)
        return fli_fail(ctx, FL_ECONFIG,
                        "metrics.local is for methods that work in rounds: clients of %s are always in the middle of a "
                        "turn",
                        a->name);
    if (a->traits & (FLI_ALGO_EVERYONE | FLI_ALGO_BYSTANDERS) && drops)
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm %s needs every client in every round, so system.deadline must be 0 and "
                        "system.wait_for 1",
                        a->name);
    if (s->top.clock == FLI_CLOCK_REAL && !((const fli_executor *)s->executor.item.desc)->one)
        return fli_fail(ctx, FL_ECONFIG, "clock is real: its clients are threads, so executor must be threads, not %s",
                        s->executor.item.name);
    if (s->top.clock == FLI_CLOCK_REAL && s->stop.simulated > 0)
        return fli_fail(ctx, FL_ECONFIG,
                        "clock is real, so there are no simulated seconds; set stop.seconds instead of "
                        "stop.simulated");
    return FL_OK;
}

static int has_levels(const fli_settings *s) { return strcmp(s->levels.item.name, "none") != 0; }

/* Methods and problems of two levels go together, and some settings speak of one level only. */
static fl_status check_levels(fl_ctx *ctx, const fli_settings *s)
{
    const fli_algo *a = s->algorithm.item.desc;
    int wanted = (a->traits & FLI_ALGO_BILEVEL) != 0;
    if (wanted && !has_levels(s))
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm %s is for problems of two levels, but bilevel.kind is none; set it, for instance to "
                        "hyper_representation",
                        a->name);
    if (!wanted && has_levels(s))
        return fli_fail(ctx, FL_ECONFIG, "algorithm %s knows one level only, so bilevel.kind must be none, not %s",
                        a->name, s->levels.item.name);
    if (!wanted) return FL_OK;
    if (s->model.weight_decay > 0)
        return fli_fail(ctx, FL_ECONFIG,
                        "model.weight_decay does not say of which level; with algorithm %s use bilevel.l2", a->name);
    if (s->local.momentum > 0)
        return fli_fail(ctx, FL_ECONFIG, "algorithm %s takes plain steps, so local.momentum must be 0", a->name);
    if (s->stop.gradient2 > 0)
        return fli_fail(ctx, FL_ECONFIG,
                        "stop.gradient2 looks at the gradient of the training loss, which does not vanish at the "
                        "solution of a bilevel problem");
    if (a->rounds.phases && (s->system.deadline > 0 || s->system.wait_for < 1))
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm %s meets the same cohort several times in a round, so system.deadline must be 0 and "
                        "system.wait_for 1",
                        a->name);
    return FL_OK;
}

fl_status fli_plan_check(fl_ctx *ctx, const fli_settings *s)
{
    const fli_algo *a = s->algorithm.item.desc;
    const fli_participation_desc *who = s->sampler.item.desc;
    const fli_partitioner *part = s->partitioner.item.desc;
    if (a->traits & FLI_ALGO_EVERYONE && !who->everyone)
        return fli_fail(
            ctx, FL_ECONFIG,
            "algorithm %s needs every client in every round, but participation.kind is %s; set it to everyone", a->name,
            who->name);
    if (!(a->traits & FLI_ALGO_COMPOSITE) && strcmp(s->regularizer.item.name, "none"))
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm %s takes no proximal step, so regularizer.kind must be none, not %s", a->name,
                        s->regularizer.item.name);
    if (s->stop.gradient2 > 0 && strcmp(s->regularizer.item.name, "none"))
        return fli_fail(
            ctx, FL_ECONFIG,
            "stop.gradient2 looks at f alone, whose gradient does not vanish where f + g is least; it cannot "
            "be used with regularizer.kind %s",
            s->regularizer.item.name);
    if (s->stop.gradient2 > 0 && s->semi.labels != FLI_SEMI_NONE && !(a->traits & FLI_ALGO_LABELLED))
        return fli_fail(ctx, FL_ECONFIG,
                        "stop.gradient2 looks at the loss on labelled samples alone, whose gradient does not vanish "
                        "where that of algorithm %s with semi.labels does",
                        a->name);
    if (a->traits & FLI_ALGO_UNIFORM && s->top.weights == FLI_WEIGHTS_SAMPLES)
        return fli_fail(ctx, FL_ECONFIG, "algorithm %s weighs clients equally, but weights is samples", a->name);
    if (s->data.on_demand && strcmp(part->name, "natural"))
        return fli_fail(ctx, FL_ECONFIG,
                        "data.on_demand makes its own clients, so partition.kind cannot be %s; leave it out",
                        part->name);
    if (!s->data.on_demand && !s->partition.clients && !part->sets_clients)
        return fli_fail(ctx, FL_ECONFIG, "partition.clients is missing: %s does not know how many there are",
                        part->name);
    fl_status status = check_levels(ctx, s);
    return status ? status : check_pace(ctx, s);
}

fl_status fli_plan_digest(fl_ctx *ctx, const fli_settings *s, const fli_digest *samples, fli_digest *out)
{
    const fli_participation_desc *who = s->sampler.item.desc;
    const fli_system_desc *devices = s->devices.item.desc;
    const char *const files[] = {who->file ? who->file(s->sampler.params) : NULL,
                                 devices->file ? devices->file(s->devices.params) : NULL};
    *out = *samples;
    for (size_t i = 0; i < 2; i++) {
        fli_digest part;
        fli_hash h;
        uint64_t bytes;
        struct stat st;
        if (!files[i] || (!stat(files[i], &st) && !S_ISREG(st.st_mode))) continue; /* a pipe is read once */
        fl_status status = fli_digest_file(ctx, files[i], &part, &bytes);
        if (status) return status;
        fli_hash_init(&h);
        fli_hash_bytes(&h, out->byte, sizeof out->byte);
        fli_hash_count(&h, i);
        fli_hash_bytes(&h, part.byte, sizeof part.byte);
        *out = fli_hash_end(&h);
    }
    return FL_OK;
}

fl_status fli_plan_data(fl_config *cfg, const fli_plan *like, fli_plan *p)
{
    memset(p, 0, sizeof *p);
    p->ctx = cfg->ctx;
    fli_arena_init(&p->arena, cfg->ctx);
    fl_status s = fli_settings_bind(p->ctx, &p->arena, cfg->root, &p->settings);
    if (!s) s = fli_plan_check(p->ctx, &p->settings);
    if (s) return s;
    p->algo = p->settings.algorithm.item.desc;
    p->uniform = p->settings.top.weights == FLI_WEIGHTS_UNIFORM || p->algo->traits & FLI_ALGO_UNIFORM;
    if (like) {
        p->fed = like->fed;
        p->samples = like->samples;
        p->borrowed = 1;
        p->runs = like->runs;
        return FL_OK;
    }
    fli_fed_spec spec = fed_spec(&p->settings);
    s = fli_fed_new(p->ctx, &spec, &p->fed);
    return s ? s : fli_digest_fed(p->ctx, p->fed, &p->samples);
}

/* Accuracy goals need something to be accurate on. */
static fl_status check_goals(const fli_plan *p)
{
    const fli_settings *s = &p->settings;
    if (!s->metrics.targets.n && !(s->stop.target > 0)) return FL_OK;
    if (p->model->desc->traits & FLI_MODEL_UNSUPERVISED)
        return fli_fail(p->ctx, FL_ECONFIG,
                        "metrics.targets and stop.target are test accuracies, but model %s predicts no labels",
                        p->model->desc->name);
    if (!(p->model->desc->traits & FLI_MODEL_CLASSIFIER))
        return fli_fail(p->ctx, FL_ECONFIG,
                        "metrics.targets and stop.target are accuracies, but model %s is a regression",
                        p->model->desc->name);
    if (!p->fed->test && !(s->data.test_fraction > 0))
        return fli_fail(p->ctx, FL_ECONFIG,
                        "metrics.targets and stop.target need test samples, but there is no test set; set "
                        "data.test_fraction");
    return FL_OK;
}

/* Logs what the method has to say about the first client it has something to say about. Every schedule begins with its largest
 * step size. */
static fl_status warn(const fli_plan *p)
{
    const fli_settings *s = &p->settings;
    fli_facts f = {.clients = p->fed->clients,
                   .convex = (p->model->desc->traits & FLI_MODEL_CONVEX) != 0,
                   .composite = p->regularizer != NULL,
                   .g_modulus = fli_regularizer_weak_convexity(p->regularizer, s->regularizer.params),
                   .model_traits = p->model->desc->traits,
                   .samples = p->fed->samples,
                   .parameters = p->model->space.n,
                   .momentum = s->local.momentum,
                   .smoothness = NAN,
                   .weight = NAN};
    fli_text text;
    fli_text_init(&text, p->ctx);
    for (size_t i = 0; i < f.clients && !*fli_text_get(&text) && !fli_text_ok(&text); i++) {
        fli_card card;
        if (fli_card_make(p->ctx, p->fed, (uint32_t)i, 0, &card)) continue;
        fli_ask first = fli_ask_for(p, &card, 0, 0, (uint32_t)i);
        f.client = (uint32_t)i;
        f.lr = first.lr;
        f.steps = first.steps;
        f.probability = first.probability;
        p->algo->theory.warn(s->algorithm.params, &f, &text);
    }
    fl_status status = fli_text_ok(&text);
    if (!status && *fli_text_get(&text)) fli_log(p->ctx, FL_LOG_WARNING, "%s, %s", p->algo->name, fli_text_get(&text));
    fli_text_fini(&text);
    return status;
}

/* Solvers that know nothing of a second block would leave it out silently. */
static fl_status check_second_block(const fli_plan *p, const fli_solver *solver)
{
    if (!p->model->latent || solver->second_block) return FL_OK;
    return fli_fail(p->ctx, FL_ECONFIG,
                    "algorithm %s solves its local problems by the %s solver, which knows nothing of %s", p->algo->name,
                    solver->name, p->model->latent->every ? "memberships" : "pseudo labels; set semi.labels to none");
}

static void note_blocks(const fli_plan *p)
{
    if (!p->model->latent && p->algo->traits & FLI_ALGO_BLOCKS)
        fli_log(p->ctx, FL_LOG_WARNING,
                "%s is meant to learn from unlabelled samples too, but semi.labels is none: only labelled ones count",
                p->algo->name);
}

/* Without labels, taking some away would only take samples away; and a factorisation means W >= 0. */
static fl_status check_unsupervised(const fli_plan *p)
{
    if (!(p->model->desc->traits & FLI_MODEL_UNSUPERVISED)) return FL_OK;
    if (p->settings.data.unlabelled > 0)
        return fli_fail(p->ctx, FL_ECONFIG, "model %s reads no labels, so data.unlabelled must be 0",
                        p->model->desc->name);
    if (!p->regularizer)
        fli_log(p->ctx, FL_LOG_WARNING,
                "model %s is meant for W >= 0, but regularizer.kind is none: its columns may become negative%s",
                p->model->desc->name,
                p->algo->traits & FLI_ALGO_COMPOSITE ? "; set it to nonnegative to prevent that" : "");
    return FL_OK;
}

/* A solver may want more of the model than the method does. */
static fl_status check_solver(const fli_plan *p, const fli_solver *solver)
{
    fl_status status = fli_solver_fits(p->ctx, solver, p->model);
    if (status) return status;
    if (p->settings.data.augment != FLI_AUGMENT_NONE && !solver->augments)
        return fli_fail(p->ctx, FL_ECONFIG,
                        "data.augment changes the samples from step to step, which the %s solver cannot use; "
                        "set it to none",
                        solver->name);
    return check_second_block(p, solver);
}

/* The regulariser may want something of the dimension. */
static fl_status check_fit(fli_plan *p)
{
    const fli_settings *s = &p->settings;
    const fli_regularizer *g = s->regularizer.item.desc;
    fli_solvers solvers = fli_algo_solvers(p->algo, s->algorithm.params, p->model);
    fl_status status = FL_OK;
    for (size_t i = 0; !status && i < solvers.count; i++) status = check_solver(p, solvers.at[i]);
    if (!status && g->validate) status = g->validate(p->ctx, s->regularizer.params, p->model->space.n);
    if (status) return status;
    p->regularizer = strcmp(g->name, "none") ? g : NULL;
    if (!(status = check_unsupervised(p))) note_blocks(p);
    return status;
}

/* What two levels ask of the data, where there are two. */
static fl_status check_level_samples(fli_plan *p)
{
    const fli_settings *s = &p->settings;
    if (!p->model->bilevel) return FL_OK;
    for (size_t i = 0; s->bilevel.validation > 0 && i < p->fed->clients; i++)
        if (fli_fed_size(p->fed, i) - fli_fed_unlabelled(p->fed, i) < 2)
            return fli_fail(
                p->ctx, FL_ECONFIG,
                "client %zu has a single training sample%s, but bilevel.validation wants one for each level", i,
                s->data.unlabelled > 0 ? " with a label" : "");
    if (!(s->bilevel.l2 > 0))
        fli_log(p->ctx, FL_LOG_WARNING,
                "bilevel.l2 is 0, so nothing makes the lower level strongly convex, which %s relies on", p->algo->name);
    return FL_OK;
}

fl_status fli_plan_finish(fli_plan *p)
{
    const fli_settings *s = &p->settings;
    const fli_dataset *train = p->fed->train;
    const size_t row[3] = {1, 1, p->fed->dim};
    fl_status status = fli_objective_new(p->ctx, s, train ? train->shape : row, p->fed->classes,
                                         train && fli_dataset_sparse(train), &p->model);
    if (!status) status = check_level_samples(p);
    if (!status)
        status = fli_participation_new(p->ctx, s->sampler.item.desc, s->sampler.params, p->fed, &p->participation);
    if (!status && has_clock(s))
        status = fli_system_new(p->ctx, s->devices.item.desc, s->devices.params, &s->system, p->fed,
                                (uint64_t)s->top.seed, &p->system);
    if (!status) status = fli_plan_digest(p->ctx, s, &p->samples, &p->data);
    if (!status) status = check_goals(p);
    if (!status) status = check_fit(p);
    if (!status) status = fli_settings_check_clients(p->ctx, s, p->fed->clients);
    if (!status && p->algo->validate) status = p->algo->validate(p->ctx, s->algorithm.params, p->fed->clients);
    if (!status && p->algo->async.pace && s->top.clock == FLI_CLOCK_VIRTUAL) {
        fli_pace pace = p->algo->async.pace(s->algorithm.params);
        status = fli_pace_check(p->ctx, &pace, p->participation->largest);
    }
    if (!status && p->algo->theory.warn) status = warn(p);
    if (!status && s->local.momentum > 0 && p->algo->traits & FLI_ALGO_PLAIN_SGD)
        fli_log(p->ctx, FL_LOG_WARNING,
                "%s is defined for plain SGD: with local.momentum its corrections are approximate", p->algo->name);
    return status;
}

void fli_plan_fini(fli_plan *p)
{
    fli_participation_free(p->participation);
    fli_system_free(p->system);
    fli_model_free(p->model);
    if (!p->borrowed) fli_fed_free(p->fed);
    fli_arena_fini(&p->arena);
}
