/* `fedloom check` of an experiment: compares every method and setting with its theorem, at the first seed. With --fix
 * it writes the experiment with the changes that each method needs among its own keys. */
#include "format/yaml.h"
#include "study/experiment.h"
#include "theory/check.h"

#include <string.h>

typedef struct {
    fl_ctx *ctx;
    fl_study_options options;
    fli_experiment experiment;
    fli_check base; /* of the first trial; others may share its data */
    const char *data_key;
    fli_changes *changes; /* by method */
    fli_text output;
    fli_json json; /* for JSON: writes into the same text */
    size_t left;
} job;

/* Makes the trial's check; trials with the same data load them once. */
static fl_status check_trial(job *j, const fli_trial *t, fli_check *c)
{
    int same = j->data_key && !strcmp(j->data_key, t->data_key);
    return fli_check_make(t->cfg, same ? &j->base.plan : NULL, c);
}

static void print_label(job *j, const fli_experiment *x, const fli_trial *t)
{
    fli_text_addf(&j->output, "%s%s", j->output.n ? "\n" : "", x->methods[t->method].label);
    if (*t->setting_text) fli_text_addf(&j->output, " (%s)", t->setting_text);
    fli_text_add(&j->output, "\n");
}

static int of_first_seed(const fli_experiment *x, const fli_trial *t) { return t->seed == x->first_seed; }

/* ---- checking ---------------------------------------------------------------------------------------------- */

static void put_trial(job *j, const fli_trial *t, const fli_check *c)
{
    fli_json_map(&j->json, NULL);
    fli_json_text(&j->json, "label", j->experiment.methods[t->method].label);
    fli_json_text(&j->json, "setting", t->setting_text);
    fli_check_json(&j->json, c);
    fli_json_end(&j->json);
}

static fl_status check_one(job *j, const fli_trial *t)
{
    fli_check c;
    fl_status s = check_trial(j, t, &c);
    if (!s) s = fli_settle_fixes(t->cfg, &c);
    if (!s) {
        if (fli_wants_json(j->ctx))
            put_trial(j, t, &c);
        else {
            print_label(j, &j->experiment, t);
            fli_check_print(&j->output, &c);
        }
        j->left += fli_check_failing(&c);
    }
    fli_check_fini(&c);
    return s;
}

static fl_status check_each(job *j)
{
    fl_status s = FL_OK;
    int json = fli_wants_json(j->ctx);
    fli_json_init(&j->json, &j->output);
    if (json) fli_json_map(&j->json, NULL);
    if (json) fli_json_list(&j->json, "methods");
    for (size_t i = 0; i < j->experiment.count && !s; i++)
        if (of_first_seed(&j->experiment, &j->experiment.trials[i])) s = check_one(j, &j->experiment.trials[i]);
    if (json) fli_json_end(&j->json);
    if (json) fli_json_end(&j->json);
    return s;
}

/* ---- fixing ------------------------------------------------------------------------------------------------ */

/* The node of method m in the file; the whole file if it has no list of methods. */
static fli_node *node_of(fli_node *root, size_t m)
{
    const fli_node *list = fli_node_find(root, "methods");
    fli_node *n = list ? list->first : root;
    while (list && n && m--) n = n->next;
    return n;
}

/* Writes what the trial has to change into its method's node. */
static fl_status fix_trial(job *j, const fli_trial *t, fl_config *fixed)
{
    fli_changes *changes = &j->changes[t->method];
    fli_node *node = node_of(fli_config_change(fixed), t->method);
    fli_check first;
    fl_status s = check_trial(j, t, &first);
    fli_log_quiet(j->ctx, 1); /* everything was logged before */
    if (!s) s = fli_fix_config(t->cfg, &first, changes);
    fli_log_quiet(j->ctx, 0);
    for (size_t i = 0; i < changes->count && !s; i++) {
        char *set = fli_strf(j->ctx, "%s=%s", changes->at[i].key, changes->at[i].now);
        s = set ? fli_yaml_set(j->ctx, &fixed->arena, set, node) : FL_ENOMEM;
        fli_free(set);
    }
    fli_check_fini(&first);
    return s;
}

/* A grid or a list of points overrides a method's own keys, so methods that have one are not changed. */
static int is_free(const fli_experiment *x, const fli_trial *t)
{
    return !*t->setting_text && x->methods[t->method].settings == 1;
}

static fl_status fix_all(job *j, fl_config *fixed)
{
    fl_status s = FL_OK;
    for (size_t i = 0; i < j->experiment.count && !s; i++) {
        const fli_trial *t = &j->experiment.trials[i];
        if (of_first_seed(&j->experiment, t) && is_free(&j->experiment, t)) s = fix_trial(j, t, fixed);
    }
    return s;
}

static fl_status write_experiment(job *j, fl_config *fixed, fli_text *out)
{
    size_t methods = j->experiment.method_count, count = 0;
    fli_remark *remarks = fli_alloc(j->ctx, methods * FLI_CHANGES_MAX, sizeof *remarks);
    fl_status s = remarks ? FL_OK : FL_ENOMEM;
    for (size_t m = 0; m < methods && !s; m++) {
        s = fli_changes_remark(&j->changes[m], node_of(fli_config_change(fixed), m), remarks + count);
        count += j->changes[m].count;
    }
    if (!s) {
        fli_text_addf(out, "# made by `fedloom check --fix`: %zu key%s of methods changed for their theorems\n", count,
                      count == 1 ? "" : "s");
        fli_yaml_print(out, fixed->root, remarks, count);
        s = fli_text_ok(out);
    }
    fli_free(remarks);
    return s;
}

static fl_status report_trial(job *j, const fli_experiment *x, const fli_trial *t)
{
    fli_check again;
    fl_status s = check_trial(j, t, &again);
    if (!s) {
        print_label(j, x, t);
        fli_changes_print(&j->output, &j->changes[t->method], &again);
        if (!is_free(x, t) && fli_check_failing(&again))
            fli_text_add(&j->output, "methods with a grid or points are left as they are\n");
        j->left += fli_check_failing(&again);
    }
    fli_check_fini(&again);
    return s;
}

/* Reads the written text like any file, and checks it. */
static fl_status check_written(job *j, const fli_text *written)
{
    fli_node *root = NULL;
    fli_experiment x = {0};
    fl_config *cfg = fl_config_new(j->ctx);
    if (!cfg) return FL_ENOMEM;
    fl_status s = fli_yaml_parse(j->ctx, &cfg->arena, "the fixed experiment", fli_text_get(written), written->n, &root);
    if (!s) s = fli_config_merge(cfg, root);
    cfg->memory = j->experiment.file->memory;
    if (!s) s = fli_experiment_init(cfg, &j->options, &x);
    for (size_t i = 0; i < x.count && !s; i++)
        if (of_first_seed(&x, &x.trials[i])) s = report_trial(j, &x, &x.trials[i]);
    if (x.ctx) fli_experiment_fini(&x);
    fl_config_free(cfg);
    return s;
}

static fl_status fix(job *j, fl_config *cfg, fli_text *written)
{
    fl_config *fixed = fl_config_copy(cfg);
    fl_status s = fixed ? FL_OK : FL_ENOMEM;
    if (!s) s = fix_all(j, fixed);
    if (!s) s = write_experiment(j, fixed, written);
    fli_log_quiet(j->ctx, 1);
    if (!s) s = check_written(j, written);
    fli_log_quiet(j->ctx, 0);
    if (fixed) fl_config_free(fixed);
    return s;
}

/* ---- the two ----------------------------------------------------------------------------------------------- */

static fl_status job_init(fl_config *cfg, const fl_study_options *options, job *j)
{
    *j = (job){.ctx = cfg->ctx};
    fli_text_init(&j->output, cfg->ctx);
    fl_status s = fli_study_options_take(cfg->ctx, options, &j->options);
    if (!s) s = fli_experiment_init(cfg, &j->options, &j->experiment);
    if (s) return s;
    j->changes = fli_alloc(cfg->ctx, j->experiment.method_count, sizeof *j->changes);
    if (!j->changes) return FL_ENOMEM;
    fli_log_quiet(cfg->ctx, 1); /* it is checked again, with the others */
    s = fli_check_make(j->experiment.trials[0].cfg, NULL, &j->base);
    fli_log_quiet(cfg->ctx, 0);
    if (!s) j->data_key = j->experiment.trials[0].data_key;
    return s;
}

static void job_fini(job *j)
{
    for (size_t i = 0; j->changes && i < j->experiment.method_count; i++) fli_changes_free(&j->changes[i]);
    fli_free(j->changes);
    fli_check_fini(&j->base);
    fli_experiment_fini(&j->experiment);
    fli_text_fini(&j->output);
}

fl_status fl_study_check(fl_config *cfg, const fl_study_options *options, fl_text_fn *report, void *report_arg,
                         fl_text_fn *file, void *file_arg, size_t *left)
{
    job j;
    fli_text written;
    fli_clear(cfg->ctx);
    fli_text_init(&written, cfg->ctx);
    fl_status s = job_init(cfg, options, &j);
    if (!s) s = file ? fix(&j, cfg, &written) : check_each(&j);
    if (!s) s = fli_text_ok(&j.output);
    if (!s) {
        report(report_arg, fli_text_get(&j.output));
        if (file) file(file_arg, fli_text_get(&written));
        *left = j.left;
    }
    job_fini(&j);
    fli_text_fini(&written);
    return s;
}

int fl_config_is_experiment(const fl_config *cfg)
{
    for (const fli_node *n = cfg->root->first; n; n = n->next)
        if (fli_is_experiment_key(n->key)) return 1;
    return 0;
}
