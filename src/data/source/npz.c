/* NumPy archives: features and labels as arrays of one .npz file. */
#include "data/source/numpy.h"

#include <string.h>

typedef struct {
    char *train, *test, *x, *y, *groups, *test_x, *test_y;
    int task;
    int64_t classes;
} params;

static const char *or_else(const char *name, const char *otherwise) { return *name ? name : otherwise; }

static fl_status load(fl_ctx *ctx, const fli_request *ask, fli_dataset **train, fli_dataset **test)
{
    const params *p = ask->params;
    *train = *test = NULL;
    if (!strcmp(p->train, p->test) && !strcmp(or_else(p->test_x, p->x), p->x))
        return fli_fail(ctx, FL_ECONFIG,
                        "%s: data.train and data.test are the same array %s; name another one in data.test_x", p->train,
                        p->x);
    fli_array_set a = {
        {p->train, p->x}, {p->train, p->y}, {*p->groups ? p->train : "", p->groups}, .client = ask->client};
    fli_array_set b = {{p->test, or_else(p->test_x, p->x)}, {p->test, or_else(p->test_y, p->y)}, {"", NULL}};
    return fli_numpy_load(ctx, &a, &b, p->task, (size_t)p->classes, train, test);
}

static const fli_key keys[] = {
    FLI_KEY_STRING(params, train, NULL, "archive with the training samples"),
    FLI_KEY_STRING(params, test, "", "archive with the test samples, which may be the same one; '' for none"),
    FLI_KEY_STRING(params, x, "x",
                   "name of the array of features: n x d, n x h x w or n x c x h x w " FLI_NUMPY_TYPES
                   "; `normalize` treats only u1 as bytes"),
    FLI_KEY_STRING(params, y, "y", "name of the array of labels or targets: n numbers"),
    FLI_KEY_STRING(params, groups, "",
                   "name of an array of n whole numbers, the owner of each training sample; '' for none"),
    FLI_KEY_STRING(params, test_x, "", "name of the array of test features; '' for the name in x"),
    FLI_KEY_STRING(params, test_y, "", "name of the array of test labels or targets; '' for the name in y"),
    FLI_KEY_CHOICE(params, task, "auto", FLI_TASK_WORDS,
                   "what the array y holds: labels, which are whole numbers, or the values to predict" FLI_TASK_HELP),
    FLI_KEY_INT(params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_END,
};

const fli_source fli_source_npz = {
    .name = "npz",
    .title = "NumPy archives: features and labels or targets as arrays of one .npz file",
    .needs = "a file as numpy.savez or numpy.savez_compressed writes it, with arrays called x and y or as the keys "
             "name them",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
