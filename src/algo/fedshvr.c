/* FedSHVR and FedSHVRP: semi-supervised learning with variance reduction and normalised averaging, without personal
 * models.
 *
 * Derived, not copied: [CPSL] compares with FedSHVR and names its source (Wang, Wang, Sun, Chang: Federated
 * semi-supervised learning with class distribution mismatch, 2021), but does not give the algorithm. This file follows
 * [CPSL]'s description: FedCPSL's objective f_i and pseudo labels, SCAFFOLD's client variance reduction, full
 * participation, the global model for all. So it is FedCPSL without momentum and own models, except that the control
 * variate is uploaded too, as in SCAFFOLD: two vectors. The source may differ from this.
 *
 *   client   nu_i, pseudo labels at x; x_i = Q_i steps on f_i(z, nu_i) + <c - c_i, z> from x
 *            up: x_i - x, c_i+ - c_i, Qt_i
 *   server   as in family_control_variates.h
 *
 * FedSHVR needs full participation; FedSHVRP adapts it to a sample of the clients, as [CPSL] does for comparison. */
#include "algo/family_control_variates.h"
#include "algo/algo.h"

enum { DC = FLI_CONTROL_UP };

typedef struct {
    double server_lr;
} params;

static const fl_key keys[] = {FLI_CONTROL_SERVER_LR(params), FLI_KEY_END};

static const char *const client[] = {"c_i", NULL};
static const fl_part up[] = {FLI_CONTROL_UPLOADS, {"c_i+ - c_i", FL_PART_VECTOR, DC, FL_PART_CHANGE}, {NULL}};

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_control_answer(t, a, t->up[DC]);
    return 0;
}

static void check(const void *p, const fl_facts *f, fl_conditions *out) { (void)p, fli_control_check(f, out); }

static void check_all(const void *p, const fl_facts_all *all, fl_conditions *out)
{
    fli_control_check_all(((const params *)p)->server_lr, all, out);
}

static void promise(const void *p, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    fli_control_promise(((const params *)p)->server_lr, all, start, out);
}

static int advance(const fl_coordinator *s)
{
    fli_control_advance(s, ((const params *)s->bound)->server_lr);
    return 0;
}

#define PARTS                                                                                                          \
    .citation = "derived from what Wang et al., Towards fast personalized semi-supervised federated learning in edge " \
                "networks, say of the method of Z. Wang, X. Wang, Sun, Chang, Federated semi-supervised learning "     \
                "with class distribution mismatch, 2021",                                                              \
    .keys = keys, .params_size = sizeof(params), FLI_CONTROL_PARTS, .client = client, .down = fli_control_down,        \
    .up = up, .theory.check = check, .theory.check_all = check_all, .theory.promise = promise,                         \
    .theory.fix = fli_control_fix, .pose = fli_control_pose, .answer = answer, .absorb = fli_control_absorb,           \
    .advance = advance

const fl_method fli_algo_fedshvr = {
    .name = "fedshvr",
    .title = "semi-supervised with variance reduction; everyone takes part",
    .traits = FL_METHOD_EVERYONE | FL_METHOD_PLAIN_SGD | FL_METHOD_BLOCKS,
    PARTS,
};

const fl_method fli_algo_fedshvrp = {
    .name = "fedshvrp",
    .title = "semi-supervised with variance reduction; a sample of the clients takes part",
    .traits = FL_METHOD_PLAIN_SGD | FL_METHOD_BLOCKS,
    PARTS,
};
