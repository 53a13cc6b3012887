/* Model files: writes them, reads tensors into an existing model (the start model of a run), and makes a model from a
 * file alone (fl_model_load). run/result.c decides on the metadata; predictions are in predict.c, ONNX in onnx.c. */
#include "model_file/model_file.h"

#include "base/number.h"
#include "base/os.h"
#include "format/yaml.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------- */

/* The file's entry for a tensor, whose values are in the parameter vector x. */
static fli_tensor_entry entry(const fli_model *m, const fl_tensor *b, const void *x)
{
    size_t size = m->space.ops->size;
    fli_tensor_entry e = {.name = b->name,
                          .dtype = size == sizeof(float) ? "F32" : "F64",
                          .dims = b->dims,
                          .data = (const char *)x + b->offset * size};
    memcpy(e.shape, b->shape, sizeof b->shape);
    return e;
}

fl_status fli_model_file_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x,
                               const fli_tensor_list *extra)
{
    size_t own = m->tensor_count, more = extra->tensors;
    fli_tensor_entry *entries = fli_alloc(ctx, own + more, sizeof *entries);
    if (!entries) return FL_ENOMEM;
    for (size_t i = 0; i < own; i++) entries[i] = entry(m, &m->tensors[i], x);
    for (size_t i = 0; i < more; i++) entries[own + i] = extra->tensor[i];
    fli_tensor_list all = {extra->note, extra->notes, entries, own + more};
    fl_status s = fli_safetensors_write(ctx, &all, path);
    fli_free(entries);
    return s;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Reads a whole file into memory from fli_alloc. */
static fl_status read_whole(fl_ctx *ctx, const char *path, char **bytes, size_t *n)
{
    double memory = fli_limit_memory().bytes;
    return fli_file_read(ctx, path, memory < 0x1p62 ? (size_t)memory : (size_t)1 << 62, bytes, n);
}

/* True if two shapes are equal up to dimensions of 1: another program may store a vector as a matrix of one row. */
static int same_but_ones(const fli_tensor_entry *a, const fli_tensor_entry *b)
{
    size_t i = 0, j = 0;
    for (;;) {
        while (i < a->dims && a->shape[i] == 1) i++;
        while (j < b->dims && b->shape[j] == 1) j++;
        if (i == a->dims || j == b->dims) return i == a->dims && j == b->dims;
        if (a->shape[i++] != b->shape[j++]) return 0;
    }
}

static int convert(const fli_ops *ops, const fli_tensor_entry *t, void *x)
{
    return ops->size == sizeof(float) ? fli_safetensors_f32(t, x) : fli_safetensors_f64(t, x);
}

/* Copies one tensor of the file to its place in x. */
static fl_status take_tensor(fl_ctx *ctx, const char *path, const fli_safetensors *f, const fli_model *m,
                             const fl_tensor *b, void *x)
{
    char has[160], wants[160];
    const fli_ops *ops = m->space.ops;
    const fli_tensor_entry want = entry(m, b, x), *t = fli_safetensors_find(f, b->name);
    if (!t)
        return fli_fail(ctx, FL_EFORMAT, "%s: has no tensor \"%s\", which model %s needs", path, b->name,
                        m->desc->name);
    fli_safetensors_shape(t, has, sizeof has);
    fli_safetensors_shape(&want, wants, sizeof wants);
    if (!same_but_ones(t, &want))
        return fli_fail(ctx, FL_EFORMAT, "%s: tensor \"%s\" is %s, but that of model %s is %s", path, b->name, has,
                        m->desc->name, wants);
    if (!convert(ops, t, fli_at(ops, x, b->offset)))
        return fli_fail(ctx, FL_EFORMAT, "%s: tensor \"%s\" is of type %s, but must be F32 or F64", path, b->name,
                        t->dtype);
    if (ops->finite(fli_safetensors_count(t), fli_at(ops, x, b->offset))) return FL_OK;
    return fli_fail(ctx, FL_EFORMAT, "%s: tensor \"%s\" has a number that is not finite, or too large for f32", path,
                    b->name);
}

/* x = the model's parameters, by name, from a file of any origin: the same shapes up to dimensions of 1, f32 or f64,
 * and finite. Ignores other tensors. `path` is for messages. */
static fl_status take_parameters(fl_ctx *ctx, const char *path, const fli_safetensors *f, const fli_model *m, void *x)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < m->tensor_count; i++) s = take_tensor(ctx, path, f, m, &m->tensors[i], x);
    return s;
}

fl_status fli_model_file_start(fl_ctx *ctx, const char *path, const fli_model *m, void *x)
{
    char *bytes;
    size_t n;
    fli_safetensors f = {0};
    fl_status s = read_whole(ctx, path, &bytes, &n);
    if (!s) s = fli_safetensors_read(ctx, path, bytes, n, &f);
    if (!s) s = take_parameters(ctx, path, &f, m, x);
    fli_safetensors_fini(&f);
    fli_free(bytes);
    return s;
}

/* ==== a model from its file alone =========================================================================== */

/* Nothing in the file is trusted. */

enum { DIMS = 4 }; /* of an fl_tensor */

typedef struct {
    fl_ctx *ctx;
    const char *name; /* of the file */
    fl_model *m;
} loader;

/* ---- texts --------------------------------------------------------------------------------------------- */

static const char *note(const loader *l, const char *key) { return fli_safetensors_note(&l->m->file, key); }

static fl_status wrong(const loader *l, const char *key)
{
    return fli_fail(l->ctx, FL_EFORMAT, "%s: the value of %s is not what a run writes", l->name, key);
}

/* Reads a whole number from 0 to INT32_MAX; absent: `otherwise`. */
static fl_status read_count(const loader *l, const char *key, size_t otherwise, size_t *out)
{
    char *end;
    const char *text = note(l, key);
    *out = otherwise;
    if (!text) return FL_OK;
    if (*text < '0' || *text > '9') return wrong(l, key);
    unsigned long long v = strtoull(text, &end, 10);
    if (*end || v > INT32_MAX) return wrong(l, key);
    *out = (size_t)v;
    return FL_OK;
}

/* Reads a JSON list; the caller drops its reference. *out is NULL if the key is absent, or on an error. */
static fl_status read_list(const loader *l, const char *key, json_t **out)
{
    const char *text = note(l, key);
    locale_t before = fli_locale_enter();
    *out = text ? json_loads(text, 0, NULL) : NULL;
    fli_locale_leave(before);
    if (!text || json_is_array(*out)) return FL_OK;
    json_decref(*out);
    *out = NULL;
    return wrong(l, key);
}

/* ---- samples ------------------------------------------------------------------------------------------- */

static fl_status read_shape(const loader *l, size_t shape[3])
{
    json_t *list;
    size_t all = 1;
    fl_status s = read_list(l, "shape", &list);
    if (!s && json_array_size(list) != 3) s = wrong(l, "shape");
    for (size_t i = 0; !s && i < 3; i++) {
        json_int_t v = json_integer_value(json_array_get(list, i));
        if (v < 0 || v > INT32_MAX || __builtin_mul_overflow(all, (size_t)v, &all) || all > INT32_MAX)
            s = wrong(l, "shape");
        else
            shape[i] = (size_t)v;
    }
    json_decref(list);
    return s;
}

/* Reads a list from the metadata, else from a tensor; *out NULL if the file has neither. */
static fl_status read_scaling(const loader *l, const char *key, const char *tensor, double **out, size_t *n)
{
    json_t *list;
    const fli_tensor_entry *t = fli_safetensors_find(&l->m->file, tensor);
    fl_status s = read_list(l, key, &list);
    *out = NULL;
    *n = list ? json_array_size(list) : t ? fli_safetensors_count(t) : 0;
    if (!s && (list || t) && !(*out = fli_arena_alloc(&l->m->arena, *n, sizeof **out))) s = FL_ENOMEM;
    if (!s && !list && t && !fli_safetensors_f64(t, *out)) s = wrong(l, key);
    for (size_t i = 0; !s && *out && i < *n; i++) {
        const json_t *v = json_array_get(list, i);
        if (list) (*out)[i] = json_is_number(v) ? json_number_value(v) : NAN;
        if (!isfinite((*out)[i])) s = wrong(l, key);
    }
    json_decref(list);
    return s;
}

/* One scale per feature, for sparse samples, whose values name their feature. */
static fl_status expand_scales(const loader *l)
{
    fl_model *m = l->m;
    fli_dataset *d = &m->like;
    size_t length = fli_dataset_length(d);
    for (size_t i = 0; i < d->segments; i++) m->shifted |= d->shift[i] != 0;
    if (!d->scale || m->shifted) return FL_OK;
    if (!(m->each = fli_arena_alloc(&m->arena, length, sizeof *m->each))) return FL_ENOMEM;
    for (size_t i = 0; i < length; i++) m->each[i] = d->scale[i / (length / d->segments)];
    return FL_OK;
}

static fl_status read_normalisation(const loader *l)
{
    fli_dataset *d = &l->m->like;
    const char *how = note(l, "normalize");
    size_t shifts, length = fli_dataset_length(d);
    fl_status s = read_scaling(l, "scale", FLI_SCALE_TENSOR, &d->scale, &d->segments);
    if (!s) s = read_scaling(l, "shift", FLI_SHIFT_TENSOR, &d->shift, &shifts);
    if (s) return s;
    if (how && strcmp(how, "image")) return wrong(l, "normalize");
    d->each = how != NULL;
    if (!d->scale != !d->segments || (d->scale && length % d->segments)) return wrong(l, "scale");
    if (d->shift && shifts != d->segments) return wrong(l, "shift");
    if (d->scale && !d->shift && !(d->shift = fli_arena_alloc(&l->m->arena, d->segments, sizeof *d->shift)))
        return FL_ENOMEM;
    return expand_scales(l);
}

static fl_status read_samples(const loader *l)
{
    fli_dataset *d = &l->m->like;
    size_t crop;
    fl_status s = read_shape(l, d->shape);
    if (!s) s = read_count(l, "crop", 0, &crop);
    if (s) return s;
    memcpy(l->m->info.shape, d->shape, sizeof d->shape);
    d->dim = l->m->info.dim = d->shape[0] * d->shape[1] * d->shape[2];
    if (crop && (d->shape[1] < 2 || d->shape[2] < 2 || crop > d->shape[1] || crop > d->shape[2]))
        return wrong(l, "crop");
    if (crop) s = fli_dataset_crop(l->ctx, crop, d);
    return s ? s : read_normalisation(l);
}

static fl_status read_classes(const loader *l)
{
    fl_model *m = l->m;
    json_t *list;
    fl_status s = read_count(l, "classes", 0, &m->info.classes);
    if (!s) s = read_list(l, "class_names", &list);
    if (s || !list) return s;
    const char **name = fli_arena_alloc(&m->arena, json_array_size(list), sizeof *name);
    if (!name) s = FL_ENOMEM;
    if (json_array_size(list) != m->info.classes) s = wrong(l, "class_names");
    for (size_t i = 0; !s && i < m->info.classes; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            s = wrong(l, "class_names");
        else if (!(name[i] = fli_arena_strdup(&m->arena, text)))
            s = FL_ENOMEM;
    }
    m->info.class_name = name;
    json_decref(list);
    return s;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static int is_scaling(const fli_tensor_entry *t)
{
    return !strcmp(t->name, FLI_SCALE_TENSOR) || !strcmp(t->name, FLI_SHIFT_TENSOR);
}

/* All parameters must have the same type. */
static fl_status check_tensors(const loader *l)
{
    const fli_safetensors *f = &l->m->file;
    fl_model_info *info = &l->m->info;
    for (size_t i = 0; i < f->tensors; i++) {
        const fli_tensor_entry *t = &f->tensor[i];
        size_t real = !strcmp(t->dtype, "F32") ? 4 : !strcmp(t->dtype, "F64") ? 8 : 0;
        if (is_scaling(t)) continue;
        if (!real || t->dims > DIMS || (info->real && real != info->real))
            return fli_fail(l->ctx, FL_EFORMAT,
                            "%s: tensor \"%s\" is not what a run writes: all are F32 or all F64, and have at most %d "
                            "dimensions",
                            l->name, t->name, (int)DIMS);
        info->real = real;
        info->parameters += fli_safetensors_count(t);
        l->m->tensors++;
    }
    if (info->real) return FL_OK;
    return fli_fail(l->ctx, FL_EFORMAT, "%s: has no tensors", l->name);
}

static void put_tensor(fl_model *m, const fli_tensor_entry *t, size_t *k, size_t *at)
{
    fl_tensor *out = &m->tensor[(*k)++];
    *out = (fl_tensor){.name = t->name, .offset = *at, .dims = t->dims};
    for (size_t i = 0; i < t->dims; i++) out->shape[i] = t->shape[i];
    if (t->bytes) memcpy((char *)m->x + *at * m->info.real, t->data, t->bytes);
    *at += fli_safetensors_count(t);
}

static int is_of_model(const fl_model *m, const fli_tensor_entry *t)
{
    for (size_t i = 0; m->model && i < m->model->tensor_count; i++)
        if (!strcmp(m->model->tensors[i].name, t->name)) return 1;
    return 0;
}

/* The model's parameters come first, in its order, so that x is its parameter vector. */
static fl_status fill_model(const loader *l)
{
    fl_model *m = l->m;
    size_t k = 0, at = 0, own = m->model ? m->model->tensor_count : 0;
    m->tensor = fli_arena_alloc(&m->arena, m->tensors, sizeof *m->tensor);
    m->x = fli_alloc(l->ctx, m->info.parameters, m->info.real);
    if (!m->tensor || !m->x) return FL_ENOMEM;
    fl_status s = m->model ? take_parameters(l->ctx, l->name, &m->file, m->model, m->x) : FL_OK;
    if (s) return s;
    for (size_t i = 0; i < own; i++) put_tensor(m, fli_safetensors_find(&m->file, m->model->tensors[i].name), &k, &at);
    for (size_t i = 0; i < m->file.tensors; i++)
        if (!is_scaling(&m->file.tensor[i]) && !is_of_model(m, &m->file.tensor[i]))
            put_tensor(m, &m->file.tensor[i], &k, &at);
    return FL_OK;
}

/* ---- the model ----------------------------------------------------------------------------------------- */

static int predicts(const fli_model_desc *d) { return d->predict || d->logits; }

/* Predicted numbers per sample: class probabilities, the value of a regression, or shares in clusters. 0: the model
 * makes no predictions. */
static size_t outputs_of(const fli_model *m)
{
    if (!m->desc->predict && !m->desc->logits) return 0;
    if (m->desc->traits & FLI_MODEL_UNSUPERVISED) return m->latent->size(m);
    return m->desc->traits & FLI_MODEL_CLASSIFIER ? m->classes : 1;
}

static fl_status bind_kind(fl_ctx *ctx, fli_arena *a, const char *of, const char *kind, const fli_node *map,
                           fli_choice *out)
{
    if (!fli_item_find(fli_kind_find(of), kind, &out->item))
        return fli_fail(ctx, FL_ECONFIG, "%s.kind is %s, which is not known", of, kind);
    if (!(out->params = fli_item_params(a, &out->item))) return FL_ENOMEM;
    return fli_bind(ctx, a, of, map, NULL, &(fli_table){out->item.keys, out->params}, 1);
}

/* Makes the model from the same keys as for training. An unknown kind was a user's objective: the file then gives
 * tensors and texts, but no predictions. */
static fl_status make_model(const loader *l)
{
    fl_model *m = l->m;
    fli_item item;
    fli_node *map = NULL;
    const char *settings = note(l, "settings");
    const fli_ops *ops = m->info.real == sizeof(float) ? &fli_ops_f32 : &fli_ops_f64;
    if (!fli_item_find(fli_kind_find("model"), m->info.kind, &item) || !predicts(item.desc)) return FL_OK;
    if (!fli_blas_thread_safe())
        return fli_fail(l->ctx, FL_ESYSTEM,
                        "this OpenBLAS is a serial build, which computes wrong numbers when called from several "
                        "threads; install its pthread flavour");
    fl_status s = FL_OK;
    if (settings && *settings) s = fli_yaml_parse(l->ctx, &m->arena, l->name, settings, strlen(settings), &map);
    if (!s) s = bind_kind(l->ctx, &m->arena, "model", m->info.kind, map, &m->kind);
    if (!s)
        s = fli_model_new_for(l->ctx, m->kind.item.desc, m->kind.params, ops, m->like.shape, m->info.classes, 0,
                              &m->model);
    if (!s) m->info.outputs = outputs_of(m->model);
    return s == FL_ECONFIG ? fli_fail_also(l->ctx, FL_EFORMAT, "%s: so no model can be made from it", l->name) : s;
}

static fl_status read_all(const loader *l)
{
    fl_model *m = l->m;
    const char *format = note(l, "format");
    m->info.kind = note(l, "model");
    if (!format || strcmp(format, "fedloom") || !m->info.kind || !note(l, "shape"))
        return fli_fail(l->ctx, FL_EFORMAT,
                        "%s: is not a model that a run has written: its metadata lack the kind of model or the "
                        "shape of samples",
                        l->name);
    fl_status s = read_samples(l);
    if (!s) s = read_classes(l);
    if (!s) s = check_tensors(l);
    if (!s) s = make_model(l);
    if (!s) s = fill_model(l);
    fli_free(m->file.tensor); /* what its entries point to will be freed */
    m->file.tensor = NULL;
    m->file.tensors = 0;
    return s;
}

fl_status fli_loaded_model_read(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fl_model **out)
{
    *out = NULL;
    fl_model *m = fli_alloc(ctx, 1, sizeof *m);
    if (!m) return FL_ENOMEM;
    fli_arena_init(&m->arena, ctx);
    fl_status s = fli_safetensors_read(ctx, name, bytes, n, &m->file);
    if (!s) s = read_all(&(loader){ctx, name, m});
    if (s)
        fl_model_free(m);
    else
        *out = m;
    return s;
}

/* ---- public functions ---------------------------------------------------------------------------------- */

fl_status fl_model_load(fl_ctx *ctx, const char *path, fl_model **out)
{
    char *bytes = NULL;
    size_t n = 0;
    *out = NULL;
    fli_clear(ctx);
    if (!path) return fli_fail(ctx, FL_ECONFIG, "fl_model_load: there is no path");
    fl_status s = read_whole(ctx, path, &bytes, &n);
    if (!s) s = fli_loaded_model_read(ctx, path, bytes, n, out);
    fli_free(bytes);
    return s;
}

void fl_model_free(fl_model *m)
{
    if (!m) return;
    fli_model_free(m->model);
    fli_safetensors_fini(&m->file);
    fli_free(m->x);
    fli_arena_fini(&m->arena);
    fli_free(m);
}

const fl_model_info *fl_model_about(const fl_model *m) { return &m->info; }

int fl_model_tensor(const fl_model *m, size_t k, fl_tensor *out, const void **data)
{
    if (k >= m->tensors) return 0;
    *out = m->tensor[k];
    if (data) *data = (const char *)m->x + out->offset * m->info.real;
    return 1;
}

const char *fl_model_metadata(const fl_model *m, const char *key) { return fli_safetensors_note(&m->file, key); }
