#include "config/asking.h"

#include "message/wire.h"

double fli_asking_coin(const fli_asking *a, size_t round)
{
    fli_rng rng;
    fli_rng_init(&rng, a->seed, FLI_RNG_ALGO, (uint32_t)round, 0);
    return fli_rng_uniform(&rng);
}

/* Steps in the epochs of a client that said this when it joined. */
static fli_epochs epochs_of(const fli_asking *a, const fli_card *card)
{
    size_t unlabelled = (size_t)card->unlabelled;
    return fli_epochs_of(a->model, &a->sgd, (size_t)card->samples - unlabelled, unlabelled);
}

static size_t steps_of(const fli_asking *a, const fli_card *card, size_t round, size_t turn, uint32_t client)
{
    if (a->algo->rounds.steps) return a->algo->rounds.steps(a->params, fli_asking_coin(a, round));
    return fli_local_steps(&a->local->work, a->seed, turn, client, epochs_of(a, card).all);
}

fli_ask fli_ask_for(const fli_asking *a, const fli_card *card, size_t round, size_t turn, uint32_t client)
{
    size_t steps = steps_of(a, card, round, turn, client);
    return (fli_ask){
        .round = round,
        .stream = turn,
        .client = client,
        .steps = steps,
        .lr = fli_settings_lr(a->local, round, steps) * fli_reals_at(&a->local->lr_factors, client),
        .probability = fli_participation_probability(a->participation, round, client),
    };
}

/* Of the numbers in local.range, all equally likely, of long ranges some that are evenly spaced. */
enum { DRAWS = 1000 };

double fli_ask_work(const fli_asking *a, const fli_card *card, uint32_t client)
{
    const fli_local_work *e = &a->local->work;
    double (*work)(const void *params, size_t client, size_t steps) = a->algo->levels.work;
    int64_t low = e->range.v[0], most = e->range.v[1] - low, sum_of = most < DRAWS ? most + 1 : DRAWS;
    double sum = 0;
    if (e->uneven != FLI_UNEVEN_RANGE || a->algo->rounds.steps)
        return work(a->params, client, steps_of(a, card, 0, 0, client));
    for (int64_t k = 0; k < sum_of; k++) {
        fli_local_work drawn = *e;
        drawn.uneven = FLI_UNEVEN_FIXED;
        *(e->steps ? &drawn.steps : &drawn.epochs) = low + (sum_of > 1 ? k * most / (sum_of - 1) : 0);
        sum += work(a->params, client, fli_local_steps(&drawn, 0, 0, client, epochs_of(a, card).all));
    }
    return sum / (double)sum_of;
}

double fli_ask_seconds(const fli_asking *a, const fli_card *card, const fli_ask *ask)
{
    fli_epochs e = epochs_of(a, card);
    size_t cost = fli_algo_cost(a->algo, a->params, a->solvers, ask, &e);
    fli_wire w;
    fli_wire_of(a->model, a->classes, a->algo, a->params, ask, &w);
    return fli_system_turn(a->system, (size_t)ask->stream, ask->client, cost, (double)fli_wire_down(&w, a->model, ask),
                           (double)fli_wire_up(&w, a->model, ask));
}
