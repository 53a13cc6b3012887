/* APFL and APSFL: personalised federated averaging. The global model is FedAvg's; each client trains a model of its own
 * beside it and predicts with a mixture of the two.
 *
 *   client   x_i = Q_i steps of SGD on f_i from x;  up: x_i - x
 *            own_i: as many on f_i of mix h(own) + (1 - mix) h(z), from own_i, kept
 *   server   x <- x + server_lr sum_S (w_i / sum_S w) (x_i - x)
 *
 * Both step sizes are lr, unless lr_local says otherwise. APFL uses labelled samples alone; APSFL adds the
 * unlabelled terms, with the pseudo labels that `semi` asks for. As in [CPSL], the mixture is one of outputs, and
 * with the global model; the original (Deng, Kamani, Mahdavi: Adaptive personalized federated learning, 2020) mixes
 * parameters. */
#include "algo/family_average.h"
#include "algo/algo.h"
#include "algo/family_personal.h"

enum { X };
enum { OWN }; /* client */
enum { MIX }; /* client scalar */

typedef struct {
    fli_average_params average; /* first: the shared steps read it */
    fli_personal_params own;
} params;

static const fl_key keys[] = {FLI_OWN_KEYS(params, own, "auto", "", "local.lr"), FLI_AVERAGE_KEYS, FLI_KEY_END};

static const char *const client[] = {"own_i", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, FLI_START_PART, {NULL}};

static int pose(const fl_turn *t, fl_problem *p)
{
    const params *a = t->bound;
    p->start = t->down[X];
    fli_personal_pose(&a->own, t, OWN, 1, p);
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_average_answer(t, a);
    fli_personal_answer(t, a, OWN, MIX);
    return 0;
}

static double mix(const void *p, size_t i, const double *scalars)
{
    return fli_personal_mix(&((const params *)p)->own, i, scalars);
}

#define PARTS                                                                                                          \
    .keys = keys, .params_size = sizeof(params), .server = fli_average_server, .down = down, .up = fli_average_up,     \
    .sums = fli_average_sums, .scalar_sums = 1, .client = client, .client_scalars = 1, .own_model = "own_i",           \
    .personal.mix = mix, .personal.remedy = "a smaller algorithm.lr_local", .solver = "pair", .pose = pose,            \
    .answer = answer, .absorb = fli_average_absorb, .advance = fli_average_advance

const fl_method fli_algo_apfl = {
    .name = "apfl",
    .title = "personalised federated averaging, on labelled samples",
    .citation = "Deng, Kamani, Mahdavi, Adaptive personalized federated learning, 2020",
    .traits = FL_METHOD_LABELLED,
    PARTS,
};

const fl_method fli_algo_apsfl = {
    .name = "apsfl",
    .title = "personalised federated averaging, on labelled and unlabelled samples",
    .citation = "as compared with in Wang et al., Towards fast personalized semi-supervised federated learning",
    .traits = FL_METHOD_BLOCKS,
    PARTS,
};
