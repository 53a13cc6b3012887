/* NumPy arrays, each in a .npy file of its own. */
#include "data/source/numpy.h"

typedef struct {
    char *train_x, *train_y, *train_groups, *test_x, *test_y;
    int task;
    int64_t classes;
} params;

static fl_status load(fl_ctx *ctx, const fli_request *ask, fli_dataset **train, fli_dataset **test)
{
    const params *p = ask->params;
    *train = *test = NULL;
    if (!*p->test_x != !*p->test_y)
        return fli_fail(ctx, FL_ECONFIG, "test_x is '%s' and test_y is '%s': give both or neither", p->test_x,
                        p->test_y);
    fli_array_set a = {
        {p->train_x, NULL}, {p->train_y, NULL}, {p->train_groups, NULL}, .map = ask->map, .client = ask->client};
    fli_array_set b = {{p->test_x, NULL}, {p->test_y, NULL}, {"", NULL}};
    return fli_numpy_load(ctx, &a, &b, p->task, (size_t)p->classes, train, test);
}

static const fli_key keys[] = {
    FLI_KEY_STRING(params, train_x, NULL,
                   "training features: n x d, n x h x w or n x c x h x w " FLI_NUMPY_TYPES
                   "; `normalize` treats only u1 as bytes"),
    FLI_KEY_STRING(params, train_y, NULL, "training labels or targets: n numbers"),
    FLI_KEY_STRING(params, train_groups, "", "n whole numbers, the owner of each training sample; '' for none"),
    FLI_KEY_STRING(params, test_x, "", "test features; '' for no test set"),
    FLI_KEY_STRING(params, test_y, "", "test labels or targets; '' for no test set"),
    FLI_KEY_CHOICE(params, task, "auto", FLI_TASK_WORDS,
                   "what the y files hold: labels, which are whole numbers, or the values to predict" FLI_TASK_HELP),
    FLI_KEY_INT(params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_END,
};

const fli_source fli_source_npy = {
    .name = "npy",
    .title = "NumPy arrays: one file of features, one of labels or targets",
    .needs = "the files named by train_x and train_y as numpy.save writes them, plain or as .gz, .xz or .zip",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
