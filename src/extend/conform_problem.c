#include "extend/conform_problem.h"

/* Twelve clients that take different numbers of steps. Nine of them are more than the server waits for before it begins
 * to absorb (server/intake.c), so that what is absorbed too early is seen by those after them. */
#define COMMON                                                                                                         \
    "rounds: 4\nseed: 3\nthreads: 1\nsystem: {kind: lognormal, jitter: 0.3}\n"                                         \
    "local: {batch: 5, lr: 0.05, uneven: range, range: [1, 3]}\nmetrics: {gradient: true}\n"
#define CLASSES                                                                                                        \
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50}\n"                                   \
    "partition: {kind: iid, clients: 12}\nmodel: {kind: mlp, hidden: [9]}\n"
#define LINEAR                                                                                                         \
    "data: {kind: linreg, clients: 12, features: 20, min_size: 10, max_size: 30}\n"                                    \
    "model: {kind: least_squares, weight_decay: 0.01}\n"
#define SOME     "participation: {kind: uniform, count: 10}\n"
#define EVERYONE "participation: everyone\n"
#define LEVELS   "bilevel: hyper_representation\n"

const fli_conform_problem fli_conform_problems[] = {
    {"a small network, 10 of 12 clients", COMMON CLASSES SOME},
    {"a small network, everyone", COMMON CLASSES EVERYONE},
    {"two levels, 10 of 12 clients", COMMON CLASSES SOME LEVELS},
    {"two levels, everyone", COMMON CLASSES EVERYONE LEVELS},
    {"linear regression, 10 of 12 clients", COMMON LINEAR SOME},
    {"linear regression, everyone", COMMON LINEAR EVERYONE},
    {NULL, NULL},
};

/* Settings may have the method's parameters, but not choose another one. */
static fl_status same_method(fl_ctx *ctx, const fl_config *c, const char *method)
{
    const char *kind = fl_config_get(c, "algorithm.kind");
    if (!*kind) kind = fl_config_get(c, "algorithm");
    if (!*kind || !strcmp(kind, method)) return FL_OK; /* what is none is refused with all else */
    return fli_fail(ctx, FL_ECONFIG, "method %s is to be tried out, but the settings choose %s", method, kind);
}

fl_status fli_conform_config(fl_ctx *ctx, const fli_conform_problem *p, const char *method, const char *settings,
                             fl_config **out)
{
    fl_config *c = fl_config_new(ctx);
    char *choice = fli_strf(ctx, "algorithm=%s", method);
    fl_status s = c && choice ? FL_OK : FL_ENOMEM;
    if (!s) s = fl_config_text(c, p->yaml, "the problem");
    if (!s) s = fl_config_set(c, choice);
    if (!s && settings) s = fl_config_text(c, settings, "settings");
    if (!s && settings) s = same_method(ctx, c, method);
    fli_free(choice);
    if (s)
        fl_config_free(c);
    else
        *out = c;
    return s;
}
