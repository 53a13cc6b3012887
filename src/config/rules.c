/* Rules between keys: problems and their places in the file, the rules that need the data, and the check of a table of
 * rules. The rules of settings alone are in rules_settings.c. */
#include "base/number.h"
#include "algo/user_method.h"
#include "config/settings.h"
#include "device/device.h"
#include "engine/async.h"
#include "format/yaml.h"
#include "model/model.h"
#include "model/user_objective.h"

#include <string.h>

const char fli_rules_base[] = "data: {kind: blobs, samples: 60}\n"
                              "partition: {kind: iid, clients: 4}\n"
                              "model: softmax\n"
                              "participation: everyone\n"
                              "rounds: 1\n";

/* ---- places ---------------------------------------------------------------------------------------------- */

/* The node that gives a key. `participation: everyone` gives participation.kind. */
static const fli_node *given(const fli_rule_facts *k, const char *key)
{
    const fli_node *n = fli_yaml_get(k->root, key);
    const char *dot = strchr(key, '.');
    char section[64];
    if (n || !dot || strcmp(dot, ".kind") || (size_t)(dot - key) >= sizeof section) return n;
    memcpy(section, key, (size_t)(dot - key));
    section[dot - key] = 0;
    n = fli_yaml_get(k->root, section);
    return n && n->type == FLI_NODE_SCALAR ? n : NULL;
}

/* Copies the key at *at and moves behind it, its condition and the blanks that follow; returns 0 at the end, or if
 * `size` is too small. */
static int next_key(const char **at, char *key, size_t size, const char **condition)
{
    size_t n = strcspn(*at, " !=<>");
    if (!n || n >= size) return 0;
    memcpy(key, *at, n);
    key[n] = 0;
    *condition = *at + n;
    *at = *condition + strcspn(*condition, " ");
    *at += strspn(*at, " ");
    return 1;
}

/* The first of the given keys whose value is not its default; if there is none, the first given key. */
static const fli_node *blamed(const fli_rule_facts *k, const char *keys, char *key, size_t size)
{
    const fli_node *first = NULL;
    const char *condition;
    char word[64];
    while (next_key(&keys, word, sizeof word, &condition)) {
        const fli_node *n = given(k, word);
        const char *usual = fli_settings_default(k->settings, word);
        int same = n && n->type == FLI_NODE_SCALAR && usual && !strcmp(n->text, usual);
        if (!n || (first && same)) continue;
        first = n;
        fli_snprintf(key, size, "%s", word);
        if (!same) break;
    }
    return first;
}

/* The first key in a sentence that was given. */
static const fli_node *spoken_of(const fli_rule_facts *k, const char *line, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789.";
    for (size_t i = 0; i < length;) {
        char word[64];
        size_t n = strspn(line + i, letters);
        while (n && line[i + n - 1] == '.') n--; /* a full stop */
        if (n && n < sizeof word && memchr(line + i, '.', n)) {
            memcpy(word, line + i, n);
            word[n] = 0;
            const fli_node *found = given(k, word);
            if (found) return found;
        }
        i += n ? n : 1;
    }
    return NULL;
}

/* ---- problems -------------------------------------------------------------------------------------------- */

void fli_problems_init(fli_problems *p, const fli_rule_facts *k)
{
    *p = (fli_problems){.known = k};
    fli_text_init(&p->said, k->ctx);
    fli_text_add(&p->said, fl_ctx_error(k->ctx));
    fli_clear(k->ctx);
}

int fli_problems_fatal(const fli_problems *p) { return (p->status && p->status != FL_ECONFIG) || p->said.failed; }

static void add_line(fli_problems *p, fl_status status, const fli_node *at, const char *line, size_t length)
{
    char where[512];
    fli_text_addf(&p->said, "%s%s", p->said.n ? "\n" : "", fli_node_where(at, where, sizeof where));
    fli_text_addn(&p->said, line, length);
    if (!p->status || fli_problems_fatal(p)) p->status = status;
}

void fli_problems_note(fli_problems *p, fl_status status, const char *keys)
{
    const fli_rule_facts *k = p->known;
    char key[64];
    if (!status) return;
    for (const char *line = fl_ctx_error(k->ctx); *line;) {
        size_t n = strcspn(line, "\n");
        const fli_node *at = status == FL_ECONFIG ? spoken_of(k, line, n) : NULL;
        if (!at && status == FL_ECONFIG) at = blamed(k, keys, key, sizeof key);
        add_line(p, status, at, line, n);
        line += n + (line[n] == '\n');
    }
    if (!p->status || status != FL_ECONFIG) p->status = status;
    fli_clear(k->ctx);
}

fl_status fli_problems_fini(fli_problems *p)
{
    fl_ctx *ctx = p->known->ctx;
    fl_status status = p->said.failed ? FL_ENOMEM : p->status;
    if (p->said.failed)
        fli_fail(ctx, FL_ENOMEM, "out of memory");
    else if (p->said.n)
        fli_fail_also(ctx, status, "%s", fli_text_get(&p->said));
    fli_text_fini(&p->said);
    return status;
}

/* ==== rules that need the data or the model ================================================================ */

static const fl_method *algo(const fli_rule_facts *k) { return k->settings->algorithm.item.desc; }
static int model_has(const fli_rule_facts *k, unsigned trait) { return k->model && k->model->desc->traits & trait; }

/* ---- accuracy goals need something to be accurate on ------------------------------------------------------ */

static int has_goals(const fli_rule_facts *k)
{
    return k->model && (k->settings->metrics.targets.n || k->settings->stop.target > 0);
}

static int goals_without_labels(const fli_rule_facts *k)
{
    return has_goals(k) && model_has(k, FLI_MODEL_UNSUPERVISED);
}

static int goals_of_regression(const fli_rule_facts *k)
{
    return has_goals(k) && !model_has(k, FLI_MODEL_UNSUPERVISED | FLI_MODEL_CLASSIFIER);
}

static int goals_untested(const fli_rule_facts *k)
{
    return has_goals(k) && model_has(k, FLI_MODEL_CLASSIFIER) && !k->fed->test &&
           !(k->settings->data.test_fraction > 0);
}

/* ---- the solver, which may want more of the model than the method does ------------------------------------ */

static fl_status solver_fits(const fli_rule_facts *k)
{
    fl_status s = FL_OK;
    for (size_t i = 0; k->model && !s && i < k->solvers->count; i++)
        s = fli_solver_fits(k->ctx, k->solvers->at[i], k->model);
    return s;
}

static int cannot_use(const fli_rule_facts *k, const fl_solver *s)
{
    const fli_data_settings *d = &k->settings->data;
    return d->augment != FLI_AUGMENT_NONE && !d->augment_once && !(s->traits & FL_SOLVER_AUGMENTS);
}

/* Solvers that do not support a second block would ignore it silently. */
static int leaves_out(const fli_rule_facts *k, const fl_solver *s)
{
    return k->model->latent && !(s->traits & FLI_SOLVER_SECOND_BLOCK);
}

/* The first of the method's solvers that cannot use these data or this model; NULL if all can. */
static const fl_solver *failing_solver(const fli_rule_facts *k)
{
    for (size_t i = 0; i < k->solvers->count; i++)
        if (cannot_use(k, k->solvers->at[i]) || leaves_out(k, k->solvers->at[i])) return k->solvers->at[i];
    return NULL;
}

static int cannot_augment(const fli_rule_facts *k)
{
    const fl_solver *s = k->model ? failing_solver(k) : NULL;
    return s && cannot_use(k, s);
}

static int leaves_block_out(const fli_rule_facts *k)
{
    const fl_solver *s = k->model ? failing_solver(k) : NULL;
    return s && leaves_out(k, s);
}

static int leaves_labels_out(const fli_rule_facts *k) { return leaves_block_out(k) && !k->model->latent->every; }
static int leaves_members_out(const fli_rule_facts *k) { return leaves_block_out(k) && k->model->latent->every; }

static int counts_no_steps(const fli_rule_facts *k)
{
    int counts = !k->model;
    for (size_t i = 0; k->model && i < k->solvers->count; i++)
        counts |= (k->solvers->at[i]->traits & FL_SOLVER_COUNTS_STEPS) != 0;
    return !counts;
}

/* ---- objectives of users ---------------------------------------------------------------------------------- */

/* Objectives with `client` functions identify clients by the number of their only sample. */
static fl_status one_sample_each(const fli_rule_facts *k)
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

/* ---- devices ---------------------------------------------------------------------------------------------- */

static int on_device(const fli_rule_facts *k) { return k->model && fli_settings_on_device(k->settings); }

static fl_status device_here(const fli_rule_facts *k)
{
    const fli_backend *backend;
    size_t which;
    return on_device(k) ? fli_device_find(k->ctx, k->settings->top.device, &backend, &which) : FL_OK;
}

static fl_status model_there(const fli_rule_facts *k)
{
    fli_network net;
    if (!on_device(k) || k->model->desc->traits & FLI_MODEL_USER || k->model->bilevel) return FL_OK;
    if (k->model->desc->network && k->model->desc->network(k->model, &net)) return FL_OK;
    return fli_fail(k->ctx, FL_ECONFIG,
                    "device is %s, where there are networks: softmax, logistic, mlp, cnn; model %s %s",
                    k->settings->top.device, k->model->desc->name, "runs on the cpu alone");
}

/* Whether the device has solvers that correspond to the method's. */
static fl_status solvers_there(const fli_rule_facts *k)
{
    char known[256] = "";
    const fl_solver *missing = NULL;
    for (size_t i = 0; on_device(k) && i < k->solvers->count && !missing; i++)
        if (!fli_device_solver(k->solvers->at[i])) missing = k->solvers->at[i];
    if (!missing || k->model->bilevel || strcmp(k->settings->local.solver, FLI_SOLVER_SGD)) return FL_OK;
    for (const fl_solver *const *s = fli_solver_list; *s; s++)
        if (fli_device_solver(*s))
            fli_snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known ? ", " : "", (*s)->name);
    return fli_fail(k->ctx, FL_ECONFIG,
                    "device is %s, but algorithm %s solves its local problems by the %s solver, which runs on the cpu "
                    "alone; devices have %s",
                    k->settings->top.device, algo(k)->name, missing->name, known);
}

/* ---- the rest --------------------------------------------------------------------------------------------- */

static fl_status regularizer_fits(const fli_rule_facts *k)
{
    const fl_regularizer *g = k->settings->regularizer.item.desc;
    if (!k->model) return FL_OK;
    return fli_regularizer_validate(k->ctx, g, k->settings->regularizer.params, k->model->space.n);
}

/* Without labels, `unlabelled` would only remove samples. */
static int reads_no_labels(const fli_rule_facts *k) { return model_has(k, FLI_MODEL_UNSUPERVISED); }

static fl_status samples_for_levels(const fli_rule_facts *k)
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

static int no_potential(const fli_rule_facts *k) { return !algo(k)->theory.potential.name && !k->compared; }

static fl_status local_lists(const fli_rule_facts *k)
{
    return fli_keys_check_clients(k->ctx, "local", fli_settings_common("local"), &k->settings->local, k->fed->clients);
}

static fl_status method_lists(const fli_rule_facts *k)
{
    const fli_choice *c = &k->settings->algorithm;
    return fli_keys_check_clients(k->ctx, "algorithm", c->item.keys, c->params, k->fed->clients);
}

/* Methods check their parameters only after the lengths of their lists. */
static fl_status method_parameters(const fli_rule_facts *k)
{
    const fli_choice *method = &k->settings->algorithm;
    if (!method_lists(k)) return fli_method_validate(k->ctx, method->item.desc, method->params, k->fed->clients);
    fli_clear(k->ctx); /* it is already among the problems */
    return FL_OK;
}

static fl_status bound_on_age(const fli_rule_facts *k)
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
    {"local.schedule_by=step algorithm.kind", counts_no_steps,
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
    {"data.unlabelled>0 model.kind", reads_no_labels,
     "model {model.kind} reads no labels, so data.unlabelled must be 0",
     "model: factorization\ndata: {unlabelled: 0.5}", NULL},
    {"semi.labels algorithm.kind", leaves_labels_out,
     "algorithm {algorithm.kind} solves its local problems by the {solver} solver, which knows nothing of pseudo "
     "labels; set semi.labels to none",
     "algorithm: fedgia\ndata: {unlabelled: 0.5}\nsemi: {labels: projected}", NULL},
    {"model.kind algorithm.kind", leaves_members_out,
     "algorithm {algorithm.kind} solves its local problems by the {solver} solver, which knows nothing of memberships",
     "model: factorization\nalgorithm: fedgia", NULL},
    {"metrics.potential=true algorithm.kind", no_potential,
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

/* ==== checking a table of rules ============================================================================ */

static int answerable(const fli_rule_facts *k, const char *keys)
{
    const char *condition;
    char key[64];
    while (next_key(&keys, key, sizeof key, &condition))
        if (k->unbound >> fli_settings_section_of(key) & 1) return 0;
    return 1;
}

/* Whether the key's configured value meets the condition: none, or "=none", "!=none", ">0", "<1" or "<=1". */
static int meets(fli_problems *p, const char *key, const char *condition)
{
    size_t sign = strspn(condition, "!=<>");
    const char *bound = condition + sign;
    fli_text value;
    if (!sign) return 1;
    fli_text_init(&value, p->known->ctx);
    fli_settings_print_key(&value, p->known->settings, key);
    int same = value.n == strcspn(bound, " ") && !memcmp(fli_text_get(&value), bound, value.n);
    double difference = fli_strtod(fli_text_get(&value), NULL) - fli_strtod(bound, NULL);
    p->said.failed |= value.failed;
    fli_text_fini(&value);
    switch (*condition) {
    case '=': return same;
    case '!': return !same;
    case '>': return difference > 0;
    default: return sign > 1 ? difference <= 0 : difference < 0;
    }
}

static int is_broken(fli_problems *p, const fli_rule *r)
{
    const char *keys = r->keys, *condition;
    char key[64];
    while (next_key(&keys, key, sizeof key, &condition))
        if (!meets(p, key, condition)) return 0;
    return !r->broken || r->broken(p->known);
}

/* Writes the sentence with its values, and the value of the blamed key if the sentence does not have it. */
static void word_sentence(const fli_rule_facts *k, const char *sentence, const char *blame, fli_text *out)
{
    int told = !*blame;
    for (const char *c = sentence; *c;) {
        size_t plain = strcspn(c, "{");
        fli_text_addn(out, c, plain);
        c += plain;
        if (!*c) break;
        char key[64] = "";
        size_t n = strcspn(++c, "}");
        if (n < sizeof key) memcpy(key, c, n);
        c += n + 1;
        told |= !strcmp(key, blame);
        if (!strcmp(key, "solver"))
            fli_text_add(out, failing_solver(k)->name);
        else
            fli_settings_print_key(out, k->settings, key);
    }
    if (told) return;
    fli_text_addf(out, " (%s is ", blame);
    fli_settings_print_key(out, k->settings, blame);
    fli_text_add(out, ")");
}

static void check_rule(fli_problems *p, const fli_rule *r)
{
    const fli_rule_facts *k = p->known;
    char blame[64] = "";
    fli_text line;
    if (!answerable(k, r->keys)) return;
    if (r->check) {
        fli_problems_note(p, r->check(k), r->keys);
        return;
    }
    if (!is_broken(p, r)) return;
    const fli_node *at = blamed(k, r->keys, blame, sizeof blame);
    fli_text_init(&line, k->ctx);
    word_sentence(k, r->sentence, blame, &line);
    p->said.failed |= line.failed;
    add_line(p, FL_ECONFIG, at, fli_text_get(&line), line.n);
    fli_text_fini(&line);
}

void fli_problems_look(fli_problems *p, const fli_rule *rules)
{
    for (const fli_rule *r = rules; r->keys && !fli_problems_fatal(p); r++) check_rule(p, r);
}
