/* Parameters that settings leave open (auto), which the plan decides from its facts; and the warnings before a run. */
#include "plan/plan.h"

#include "algo/user_method.h"
#include "base/number.h"
#include "plan/constants.h"

#include <math.h>
#include <string.h>

/* Means over all clients of the asks of the first round. */
static fl_status expect_first_round(const fli_plan *p, fl_first_round *out)
{
    *out = (fl_first_round){0};
    for (size_t i = 0; i < p->fed->clients; i++) {
        fli_card card;
        fl_status s = fli_card_make(p->ctx, p->fed, (uint32_t)i, 0, &card);
        if (s) return s;
        fl_ask first = fli_ask_for(&p->ask_params, &card, 0, 0, (uint32_t)i);
        double w = fli_plan_weight(p, i);
        out->travel += w * first.lr * (double)first.steps;
        out->probability += w * first.probability;
    }
    return FL_OK;
}

/* ---- parameters that are auto ----------------------------------------------------------------------------- */

/* L, for settling a parameter. */
static fl_status measure_smoothness(const fli_plan *p, double *largest)
{
    char who[128];
    fli_snprintf(who, sizeof who, "a parameter of algorithm %s that is auto", p->setup.algo->name);
    fl_status s = fli_model_needs_hvp(p->ctx, p->model, who);
    int glm = (p->model->desc->traits & FLI_MODEL_GLM) != 0; /* its bound equals its curvature at a start of zeros */
    return s ? s : fli_theory_smoothness(p, glm, largest);
}

/* Settles the method's open parameters. The plan has its own copy of those that are settled or that `begin` may
 * change. */
static fl_status settle_params(fli_plan *p)
{
    const fl_method *a = p->setup.algo;
    fli_algo_enter(a);
    unsigned how = a->settling.unsettled ? a->settling.unsettled(p->setup.params) : 0;
    fli_algo_leave(a);
    fl_facts f = {.clients = p->fed->clients,
                  .convex = (p->model->desc->traits & FLI_MODEL_CONVEX) != 0,
                  .momentum = p->settings->local.momentum,
                  .smoothness = NAN};
    if (!how && !a->begin) return FL_OK;
    void *own = fli_method_params_copy(&p->arena, a, p->setup.params);
    if (!own) return FL_ENOMEM;
    p->setup.params = own;
    if (!how) return FL_OK;
    fl_status s = expect_first_round(p, &f.first_round);
    if (!s && how == FL_SETTLES_BY_SMOOTHNESS && p->setup.remote_queue)
        s = fli_fail(
            p->ctx, FL_ECONFIG,
            "algorithm %s has a parameter that is auto and follows from the samples, which are at the clients; "
            "give it a value",
            a->name);
    if (!s && how == FL_SETTLES_BY_SMOOTHNESS) s = measure_smoothness(p, &f.smoothness);
    fli_algo_enter(a);
    a->settling.settle(own, &f);
    fli_algo_leave(a);
    return s;
}

/* Prints a settled value, as in "eta = 0.4". */
static fl_status print_settled(const fli_plan *p, const fl_key *key, fli_text *t)
{
    fli_text before, after;
    fli_text_init(&before, p->ctx);
    fli_text_init(&after, p->ctx);
    fli_key_print_value(&before, key, p->settings->algorithm.params);
    fli_key_print_value(&after, key, p->setup.params);
    fl_status s = fli_text_ok(&before) ? fli_text_ok(&before) : fli_text_ok(&after);
    if (!s && strcmp(fli_text_get(&before), fli_text_get(&after)))
        fli_text_addf(t, "%s%s = %s", t->n ? ", " : "", key->name, fli_text_get(&after));
    fli_text_fini(&before);
    fli_text_fini(&after);
    return s;
}

/* Sets p->settled. */
static fl_status describe_settled(fli_plan *p)
{
    fli_text text;
    fl_status s = FL_OK;
    if (p->setup.params == p->settings->algorithm.params) return FL_OK;
    fli_text_init(&text, p->ctx);
    for (const fl_key *key = p->setup.algo->keys; !s && key->name; key++) s = print_settled(p, key, &text);
    if (!s) s = fli_text_ok(&text);
    if (!s && text.n && !(p->settled = fli_arena_strdup(&p->arena, fli_text_get(&text)))) s = FL_ENOMEM;
    fli_text_fini(&text);
    return s;
}

fl_status fli_plan_settle(fli_plan *p)
{
    fl_status s = settle_params(p);
    return s ? s : describe_settled(p);
}

/* ---- warnings --------------------------------------------------------------------------------------------- */

/* Logs the method's warning about the first client for which it has one. Every schedule begins with its largest step
 * size. */
static fl_status warn_of_theory(const fli_plan *p)
{
    const fli_settings *s = p->settings;
    fl_facts f = {.clients = p->fed->clients,
                  .convex = (p->model->desc->traits & FLI_MODEL_CONVEX) != 0,
                  .composite = p->setup.regularizer != NULL,
                  .g_modulus = fli_regularizer_weak_convexity(p->setup.regularizer, s->regularizer.params),
                  .model_traits = p->model->desc->traits,
                  .momentum = s->local.momentum,
                  .smoothness = NAN,
                  .weight = NAN};
    if (!p->setup.algo->theory.warn) return FL_OK;
    fli_text text;
    fli_text_init(&text, p->ctx);
    for (size_t i = 0; i < f.clients && !*fli_text_get(&text) && !fli_text_ok(&text); i++) {
        fli_card card;
        if (fli_card_make(p->ctx, p->fed, (uint32_t)i, 0, &card)) continue;
        fl_ask first = fli_ask_for(&p->ask_params, &card, 0, 0, (uint32_t)i);
        f.client = (uint32_t)i;
        f.lr = first.lr;
        f.steps = first.steps;
        f.probability = first.probability;
        fli_algo_enter(p->setup.algo);
        p->setup.algo->theory.warn(p->setup.params, &f, &text);
        fli_algo_leave(p->setup.algo);
    }
    fl_status status = fli_text_ok(&text);
    if (!status && *fli_text_get(&text))
        fli_log(p->ctx, FL_LOG_WARNING, "%s, %s", p->setup.algo->name, fli_text_get(&text));
    fli_text_fini(&text);
    return status;
}

fl_status fli_plan_warn(const fli_plan *p)
{
    const fli_settings *s = p->settings;
    const char *name = p->setup.algo->name;
    if (p->model->bilevel && !(s->bilevel.l2 > 0))
        fli_log(p->ctx, FL_LOG_WARNING,
                "bilevel.l2 is 0, so nothing makes the lower level strongly convex, which %s relies on", name);
    if (p->model->desc->traits & FLI_MODEL_UNSUPERVISED && !p->setup.regularizer)
        fli_log(p->ctx, FL_LOG_WARNING,
                "model %s is meant for W >= 0, but regularizer.kind is none: its columns may become negative%s",
                p->model->desc->name,
                p->setup.algo->traits & FL_METHOD_COMPOSITE ? "; set it to nonnegative to prevent that" : "");
    if (!p->model->latent && p->setup.algo->traits & FL_METHOD_BLOCKS)
        fli_log(p->ctx, FL_LOG_WARNING,
                "%s is meant to learn from unlabelled samples too, but semi.labels is none: only labelled ones count",
                name);
    fl_status status = warn_of_theory(p);
    if (!status && s->local.momentum > 0 && p->setup.algo->traits & FL_METHOD_PLAIN_SGD)
        fli_log(p->ctx, FL_LOG_WARNING,
                "%s is defined for plain SGD: with local.momentum its corrections are approximate", name);
    if (!status && s->top.clock == FLI_CLOCK_REAL && p->system)
        fli_log(p->ctx, FL_LOG_WARNING, "clock is real: the speeds in system mean nothing");
    return status;
}
