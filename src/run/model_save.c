/* What a model file says beside its tensors; model_file.h lists it. */
#include "run/model_save.h"

#include "model_file/model_file.h"

enum { NOTES = 20, LONGEST = 1024 }; /* scales that are written as text, at most */

typedef struct {
    fl_ctx *ctx;
    fli_tensor_note note[NOTES];
    fli_text text[NOTES]; /* the values */
    size_t count;
    fli_tensor_entry scaling[2];
    size_t scalings;
} notes;

static fli_text *add(notes *n, const char *key)
{
    fli_text *t = &n->text[n->count];
    n->note[n->count++].key = key;
    fli_text_init(t, n->ctx);
    return t;
}

static void add_reals(notes *n, const char *key, const char *tensor, const double *v, size_t count)
{
    if (count > LONGEST) {
        n->scaling[n->scalings++] =
            (fli_tensor_entry){.name = tensor, .dtype = "F64", .dims = 1, .shape = {count}, .data = v};
        return;
    }
    fli_text *t = add(n, key);
    for (size_t i = 0; i < count; i++) fli_text_addf(t, "%s%.17g", i ? ", " : "[", v[i]);
    fli_text_add(t, "]");
}

/* `samples` are those trained on, or others like them; NULL: made on demand, plain rows. */
static void add_samples(notes *n, const fli_dataset *samples, const fli_model *m)
{
    const size_t *shape = m->shape, *frame = samples && samples->frame[0] ? samples->frame : m->shape + 1;
    fli_text_addf(add(n, "shape"), "[%zu, %zu, %zu]", shape[0], frame[0], frame[1]);
    if (!samples) return;
    if (samples->frame[0]) fli_text_addf(add(n, "crop"), "%zu", shape[1]);
    if (samples->each) fli_text_add(add(n, "normalize"), "image");
    if (samples->each || !samples->scale) return;
    size_t runs = fli_dataset_sparse(samples) ? samples->dim : samples->segments;
    add_reals(n, "scale", FLI_SCALE_TENSOR, samples->scale, runs);
    if (samples->shift && !fli_dataset_sparse(samples)) add_reals(n, "shift", FLI_SHIFT_TENSOR, samples->shift, runs);
}

static void add_classes(notes *n, const fli_dataset *samples, const fli_model *m)
{
    fli_text_addf(add(n, "classes"), "%zu", m->classes);
    if (!samples || !samples->class_name || samples->classes != m->classes) return;
    fli_text *t = add(n, "class_names");
    for (size_t i = 0; i < m->classes; i++) {
        fli_text_add(t, i ? ", " : "[");
        fli_text_json(t, samples->class_name[i]);
    }
    fli_text_add(t, "]");
}

static void add_model(notes *n, const fli_settings *s, const fli_model *m)
{
    fli_text_add(add(n, "format"), "fedloom");
    fli_text_add(add(n, "version"), FL_VERSION);
    fli_text_add(add(n, "model"), s->objective.item.name);
    fli_settings_print_kind(add(n, "settings"), &s->objective);
    if (m->desc->layers && !m->bilevel) m->desc->layers(m, add(n, "layers"));
    fli_text_addf(add(n, "parameters"), "%zu", m->space.n);
    fli_text_add(add(n, "precision"), m->space.ops->size == sizeof(float) ? "f32" : "f64");
    if (m->bilevel) fli_text_add(add(n, "bilevel"), s->levels.item.name);
}

static void add_origin(notes *n, const fl_run *run)
{
    char digest[FLI_DIGEST_TEXT];
    fli_digest_print(&run->plan.data, digest);
    fli_text_add(add(n, "algorithm"), run->plan.algo->name);
    fli_text_addf(add(n, "round"), "%zu", run->round);
    fli_text_addf(add(n, "seed"), "%llu", (unsigned long long)run->plan.exec.seed);
    fli_text_add(add(n, "data"), digest);
}

fl_status fli_model_save(fl_run *run, const char *path)
{
    const fli_model *m = run->plan.model;
    const fli_dataset *samples = run->plan.fed->train;
    notes n = {.ctx = run->ctx};
    fl_status s = FL_OK;
    add_model(&n, &run->plan.settings, m);
    add_samples(&n, samples, m);
    add_classes(&n, samples, m);
    add_origin(&n, run);
    for (size_t i = 0; i < n.count; i++) {
        n.note[i].value = fli_text_get(&n.text[i]);
        if (fli_text_ok(&n.text[i])) s = FL_ENOMEM;
    }
    fli_tensor_list beside = {n.note, n.count, n.scaling, n.scalings};
    if (!s) s = fli_model_file_write(run->ctx, path, m, fli_exec_server(run->exec)[0], &beside);
    for (size_t i = 0; i < n.count; i++) fli_text_fini(&n.text[i]);
    return s;
}
