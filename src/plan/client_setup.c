#include "plan/client_setup.h"

#include "algo/user_method.h"
#include "format/yaml.h"

#include <string.h>
#include <sys/stat.h>

fl_status fli_objective_new(fl_ctx *ctx, const fli_settings *s, const size_t shape[3], size_t classes, int sparse,
                            fli_model **out)
{
    const fl_method *a = s->algorithm.item.desc;
    const fli_bilevel_desc *levels = s->levels.item.desc;
    const fli_ops *ops = fli_settings_wide(s) ? &fli_ops_f64 : &fli_ops_f32;
    fl_status status = fli_model_new_for(ctx, s->objective.item.desc, s->objective.params, ops, shape, classes,
                                         s->model.weight_decay, out);
    if (!status) fli_model_expect(*out, sparse);
    if (!status) (*out)->decay_by = s->model.weight_decay_by;
    if (!status && (*out)->desc->traits & FLI_MODEL_USER && strcmp(levels->name, "none"))
        return fli_fail(ctx, FL_ECONFIG,
                        "bilevel.kind is %s, but two levels are made of models that come with fedloom, and %s does not",
                        levels->name, (*out)->desc->name);
    if (!status && !(a->traits & FL_METHOD_LABELLED)) status = fli_model_use_semi(ctx, *out, &s->semi);
    if (!status && strcmp(levels->name, "none"))
        status = fli_bilevel_give(ctx, *out, levels, s->levels.params, &s->bilevel);
    return status;
}

/* ---- keys that name files -------------------------------------------------------------------------------- */

/* Kinds that read files; only the server reads them. */
enum { READERS = 4 };
static const struct {
    const char *section;
    size_t choice;
} readers[READERS] = {{"data", offsetof(fli_settings, source)},
                      {"partition", offsetof(fli_settings, partitioner)},
                      {"participation", offsetof(fli_settings, sampler)},
                      {"system", offsetof(fli_settings, devices)}};

/* Their text keys name files, unless they name classes. */
static char **file_of(const fl_key *row, void *params)
{
    if (row->type != FL_KEY_STRING || !strcmp(row->name, "class_names")) return NULL;
    return (char **)((char *)params + row->offset);
}

fl_status fli_settings_for_clients(fli_arena *a, const fli_settings *s, fli_settings *out)
{
    static char nothing[] = "";
    *out = *s;
    out->model.start = out->top.output = nothing;
    out->participation.seed = 0; /* a client that has it knows every cohort of the run */
    for (size_t i = 0; i < READERS; i++) {
        fli_choice *c = (fli_choice *)((char *)out + readers[i].choice);
        void *copy = fli_arena_alloc(a, 1, c->item.params_size + 1);
        if (!copy) return FL_ENOMEM;
        if (c->item.params_size) c->params = memcpy(copy, c->params, c->item.params_size);
        for (const fl_key *row = c->item.keys; row && row->name; row++)
            if (file_of(row, c->params)) *file_of(row, c->params) = nothing;
    }
    return FL_OK;
}

static int is_pipe(const char *path)
{
    struct stat st;
    return *path && !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

int fli_settings_name_pipe(const fli_settings *s)
{
    int found = is_pipe(s->model.start);
    for (size_t i = 0; i < READERS; i++) {
        const fli_choice *c = (const fli_choice *)((const char *)s + readers[i].choice);
        for (const fl_key *row = c->item.keys; row && row->name; row++) {
            char **file = file_of(row, c->params);
            found |= file && is_pipe(*file);
        }
    }
    return found;
}

/* Refuses terms that name files: a server must not make a client read its files. */
static fl_status refuse_files(fl_ctx *ctx, const fli_settings *s)
{
    static const char sentence[] = "the terms of the federation name a file, %s.%s, and a client reads and writes none";
    if (*s->model.start) return fli_fail(ctx, FL_EREFUSED, sentence, "model", "start");
    if (*s->top.output) return fli_fail(ctx, FL_EREFUSED, sentence, "", "output");
    for (size_t i = 0; i < READERS; i++) {
        const fli_choice *c = (const fli_choice *)((const char *)s + readers[i].choice);
        for (const fl_key *row = c->item.keys; row && row->name; row++) {
            char **file = file_of(row, c->params);
            if (file && **file) return fli_fail(ctx, FL_EREFUSED, sentence, readers[i].section, row->name);
        }
    }
    return FL_OK;
}

/* ---- a setup from terms ---------------------------------------------------------------------------------- */

typedef struct {
    fli_arena arena;
    fli_settings settings;
    fli_model *model;
} setup;

static void setup_free(void *made)
{
    setup *m = made;
    if (!m) return;
    const fli_choice *method = &m->settings.algorithm;
    if (method->params) fli_method_end(method->item.desc, method->params);
    fli_model_free(m->model);
    fli_arena_fini(&m->arena);
    fli_free(m);
}

/* Sets the client's local.solver. If `local` is not a map, binding reports that later. */
static fl_status put_solver(fli_arena *a, const char *solver, fli_node *root)
{
    fli_node *local = fli_node_find(root, "local"), *own = fli_node_new(a, FLI_NODE_SCALAR, "solver", solver);
    if (!local && own && (local = fli_node_new(a, FLI_NODE_MAP, "local", NULL))) fli_node_put(root, local);
    if (!local || !own) return FL_ENOMEM;
    if (local->type == FLI_NODE_MAP) fli_node_put(local, own);
    return FL_OK;
}

/* Registered solvers do not support pseudo labels or memberships, and would ignore them silently. */
static fl_status check_solver(fl_ctx *ctx, const setup *m)
{
    const fl_solver *own = fli_settings_solver(&m->settings);
    if (!own || !m->model->latent || own->traits & FLI_SOLVER_SECOND_BLOCK) return FL_OK;
    return fli_fail(ctx, FL_EMISMATCH, "local.solver %s knows nothing of the pseudo labels or memberships of model %s",
                    own->name, m->model->desc->name);
}

/* The settings are the server's, so a model of another size means that the terms are invalid. */
static fl_status make_setup(fl_ctx *ctx, const fli_terms *t, const char *solver, setup *m)
{
    fli_node *root;
    const size_t shape[3] = {(size_t)t->shape[0], (size_t)t->shape[1], (size_t)t->shape[2]};
    fl_status s =
        fli_yaml_parse(ctx, &m->arena, "the terms of the federation", t->settings, strlen(t->settings), &root);
    if (!s && solver) s = put_solver(&m->arena, solver, root);
    if (!s) s = fli_settings_bind(ctx, &m->arena, root, &m->settings);
    if (!s) s = refuse_files(ctx, &m->settings);
    if (!s) s = fli_objective_new(ctx, &m->settings, shape, (size_t)t->classes, t->sparse != 0, &m->model);
    if (!s && solver) s = check_solver(ctx, m);
    if (s) return s;
    if (m->model->space.n == t->parameters && fli_model_upper(m->model) == t->upper &&
        m->model->space.ops->size == t->precision && !strcmp(m->model->desc->name, t->model) &&
        !strcmp(m->settings.algorithm.item.name, t->method))
        return FL_OK;
    return fli_fail(ctx, FL_EFORMAT,
                    "the terms of the federation speak of method %s and model %s with %llu parameters of %u bytes, but "
                    "their settings give method %s and model %s with %zu of %zu",
                    t->method, t->model, (unsigned long long)t->parameters, t->precision,
                    m->settings.algorithm.item.name, m->model->desc->name, m->model->space.n,
                    m->model->space.ops->size);
}

fl_status fli_client_setup_make(fl_ctx *ctx, const fli_terms *t, const char *solver, fli_setup *out, void **made)
{
    setup *m = fli_alloc(ctx, 1, sizeof *m);
    if (!m) return FL_ENOMEM;
    fli_arena_init(&m->arena, ctx);
    fl_status s = make_setup(ctx, t, solver, m);
    if (s) {
        setup_free(m);
        return s;
    }
    out->model = m->model;
    out->algo = m->settings.algorithm.item.desc;
    out->params = m->settings.algorithm.params;
    if ((s = fli_method_begin(ctx, out->algo, m->settings.algorithm.params))) {
        setup_free(m);
        return s;
    }
    out->solvers = fli_algo_solvers(out->algo, out->params, m->model, fli_settings_solver(&m->settings));
    out->sgd = fli_settings_sgd(&m->settings);
    out->seed = t->seed;
    out->clients = (size_t)t->clients;
    out->classes = (size_t)t->classes;
    out->measure_potential = m->settings.metrics.potential && out->algo->theory.potential.name;
    *made = m;
    return FL_OK;
}

static fl_status setup_make(fl_ctx *ctx, const fli_terms *t, fli_setup *out, void **made)
{
    return fli_client_setup_make(ctx, t, NULL, out, made);
}

const fli_builder fli_client_setup_builder = {setup_make, setup_free};

const fli_settings *fli_client_setup_settings(const void *made) { return &((const setup *)made)->settings; }
