#include "format/safetensors.h"

#include "base/number.h"
#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie in memory");

enum { LENGTH = 8, WIDEST = 8 }; /* bytes before the header; bytes of the largest element */
static const char notes_key[] = "__metadata__";

static const struct {
    const char *name;
    size_t size;
} types[] = {{"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},     {"U32", 4},     {"F16", 2}, {"BF16", 2},
             {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"BOOL", 1}};

static const char *type_name(const char *dtype, size_t *size)
{
    for (size_t i = 0; dtype && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, dtype)) return *size = types[i].size, types[i].name;
    *size = 0;
    return NULL;
}

size_t fli_safetensors_size(const char *dtype)
{
    size_t size;
    type_name(dtype, &size);
    return size;
}

size_t fli_safetensors_count(const fli_tensor_entry *t)
{
    size_t n = 1;
    for (size_t i = 0; i < t->dims; i++) n *= t->shape[i];
    return n;
}

static size_t data_bytes(const fli_tensor_entry *t)
{
    return fli_safetensors_count(t) * fli_safetensors_size(t->dtype);
}

void fli_safetensors_shape(const fli_tensor_entry *t, char *text, size_t capacity)
{
    size_t n = 0;
    fli_snprintf(text, capacity, "a single number");
    for (size_t i = 0; i < t->dims && n < capacity; i++)
        n += (size_t)fli_snprintf(text + n, capacity - n, "%s%zu", i ? " x " : "", t->shape[i]);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* JSON is UTF-8. Of other text only the ASCII characters are kept. */
static void add_string(fli_text *t, const char *s)
{
    char *clean = fli_strdup(t->ctx, s);
    json_t *whole = json_string(s);
    for (char *c = clean; !whole && c && *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    if (clean)
        fli_text_json(t, clean);
    else
        t->failed = 1;
    json_decref(whole);
    fli_free(clean);
}

static void add_tensor(fli_text *t, const fli_tensor_entry *e, size_t at)
{
    add_string(t, e->name);
    fli_text_addf(t, ":{\"dtype\":\"%s\",\"shape\":[", e->dtype);
    for (size_t i = 0; i < e->dims; i++) fli_text_addf(t, "%s%zu", i ? "," : "", e->shape[i]);
    fli_text_addf(t, "],\"data_offsets\":[%zu,%zu]}", at, at + data_bytes(e));
}

/* Calls fn for every tensor in the order of the data: larger elements first. */
static void each_in_order(const fli_tensor_list *list, void (*fn)(void *arg, const fli_tensor_entry *e), void *arg)
{
    for (size_t size = WIDEST; size; size /= 2)
        for (size_t i = 0; i < list->tensors; i++)
            if (fli_safetensors_size(list->tensor[i].dtype) == size) fn(arg, &list->tensor[i]);
}

typedef struct {
    fli_text text;
    size_t at; /* in the data */
} header;

static void add_to_header(void *arg, const fli_tensor_entry *e)
{
    header *h = arg;
    fli_text_add(&h->text, h->text.n > 1 ? "," : "");
    add_tensor(&h->text, e, h->at);
    h->at += data_bytes(e);
}

/* The header is padded to eight bytes, so that the data are aligned. */
static fl_status make_header(fl_ctx *ctx, const fli_tensor_list *list, header *h)
{
    fli_text *t = &h->text;
    h->at = 0;
    fli_text_init(t, ctx);
    fli_text_add(t, "{");
    for (size_t i = 0; i < list->notes; i++) {
        fli_text_addf(t, i ? "," : "\"%s\":{", notes_key);
        add_string(t, list->note[i].key);
        fli_text_add(t, ":");
        add_string(t, list->note[i].value);
    }
    if (list->notes) fli_text_add(t, "}");
    each_in_order(list, add_to_header, h);
    fli_text_add(t, "}");
    while (t->n % WIDEST && !t->failed) fli_text_add(t, " ");
    return fli_text_ok(t);
}

static void data_to_file(void *arg, const fli_tensor_entry *e) { fli_writer_bytes(arg, e->data, data_bytes(e)); }

fl_status fli_safetensors_write(fl_ctx *ctx, const fli_tensor_list *list, const char *path)
{
    header h;
    fli_writer out;
    fl_status s = make_header(ctx, list, &h);
    if (!s) s = fli_writer_open(ctx, path, &out);
    if (!s) {
        uint64_t length = h.text.n;
        fli_writer_bytes(&out, &length, LENGTH);
        fli_writer_bytes(&out, h.text.s, h.text.n);
        each_in_order(list, data_to_file, &out);
        s = fli_writer_close(&out);
    }
    fli_text_fini(&h.text);
    return s;
}

static void data_to_memory(void *arg, const fli_tensor_entry *e)
{
    char **at = arg;
    size_t n = data_bytes(e);
    if (n) memcpy(*at, e->data, n);
    *at += n;
}

fl_status fli_safetensors_pack(fl_ctx *ctx, const fli_tensor_list *list, size_t before, void **bytes, size_t *n)
{
    header h;
    fl_status s = make_header(ctx, list, &h);
    *bytes = NULL;
    *n = before + LENGTH + h.text.n + h.at;
    if (!s && !(*bytes = fli_alloc_unset(ctx, *n, 1))) s = FL_ENOMEM;
    if (!s) {
        uint64_t length = h.text.n;
        char *at = (char *)*bytes + before;
        memcpy(at, &length, LENGTH);
        memcpy(at + LENGTH, h.text.s, h.text.n);
        at += LENGTH + h.text.n;
        each_in_order(list, data_to_memory, &at);
    }
    fli_text_fini(&h.text);
    return s;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    const char *name; /* the file's, for messages */
    const char *data;
    size_t bytes; /* of data */
} reader;

/* Reads a size or an offset; returns 0 if the value is neither. */
static int get_size(const json_t *v, size_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0) return 0;
    *out = (size_t)json_integer_value(v);
    return 1;
}

static fl_status read_shape(const reader *r, const json_t *shape, fli_tensor_entry *t)
{
    size_t size, all = 1;
    if (!(t->dtype = type_name(t->dtype, &size)))
        return fli_fail(r->ctx, FL_EFORMAT, "%s: tensor \"%s\" has no type that is known here", r->name, t->name);
    if (!json_is_array(shape) || json_array_size(shape) > FLI_SAFETENSORS_DIMS)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: tensor \"%s\" has no shape of at most %d dimensions", r->name, t->name,
                        (int)FLI_SAFETENSORS_DIMS);
    t->dims = json_array_size(shape);
    for (size_t i = 0; i < t->dims; i++)
        if (!get_size(json_array_get(shape, i), &t->shape[i]) || __builtin_mul_overflow(all, t->shape[i], &all))
            return fli_fail(r->ctx, FL_EFORMAT, "%s: tensor \"%s\": dimension %zu is not a size, or too large", r->name,
                            t->name, i + 1);
    if (__builtin_mul_overflow(all, size, &t->bytes))
        return fli_fail(r->ctx, FL_EFORMAT, "%s: tensor \"%s\" is too large", r->name, t->name);
    return FL_OK;
}

static fl_status read_tensor(const reader *r, const char *name, const json_t *item, fli_tensor_entry *t)
{
    const json_t *place = json_object_get(item, "data_offsets");
    size_t from = 0, to = 0;
    *t = (fli_tensor_entry){.name = name, .dtype = json_string_value(json_object_get(item, "dtype"))};
    fl_status s = read_shape(r, json_object_get(item, "shape"), t);
    if (s) return s;
    if (json_array_size(place) != 2 || !get_size(json_array_get(place, 0), &from) ||
        !get_size(json_array_get(place, 1), &to) || from > to || to > r->bytes)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: tensor \"%s\" has no data_offsets within the %zu bytes of data",
                        r->name, name, r->bytes);
    if (to - from != t->bytes)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: tensor \"%s\" has %zu bytes, but its type and shape need %zu", r->name,
                        name, to - from, t->bytes);
    t->data = r->data + from;
    return FL_OK;
}

static fl_status check_notes(const reader *r, json_t *notes)
{
    const char *key;
    json_t *value;
    if (notes && !json_is_object(notes))
        return fli_fail(r->ctx, FL_EFORMAT, "%s: %s is not a list of texts", r->name, notes_key);
    json_object_foreach(notes, key, value)
    {
        if (!json_is_string(value))
            return fli_fail(r->ctx, FL_EFORMAT, "%s: %s: the value of \"%s\" is not a text", r->name, notes_key, key);
    }
    return FL_OK;
}

/* Empty tensors come before the one that begins at the same offset. */
static int by_place(const void *a, const void *b)
{
    const fli_tensor_entry *s = a, *t = b;
    if (s->data != t->data) return (const char *)s->data < (const char *)t->data ? -1 : 1;
    if (s->bytes != t->bytes) return s->bytes < t->bytes ? -1 : 1;
    return strcmp(s->name, t->name);
}

/* Checks that the tensors cover the data without gaps. */
static fl_status check_places(const reader *r, const fli_safetensors *f)
{
    const char *end = r->data;
    for (size_t i = 0; i < f->tensors; i++) {
        const fli_tensor_entry *t = &f->tensor[i];
        if ((const char *)t->data != end)
            return fli_fail(r->ctx, FL_EFORMAT, "%s: tensor \"%s\" begins at byte %zu of the data, but %s %zu", r->name,
                            t->name, (size_t)((const char *)t->data - r->data),
                            (const char *)t->data < end ? "another one reaches to" : "nothing fills it from",
                            (size_t)(end - r->data));
        end += t->bytes;
    }
    if (end == r->data + r->bytes) return FL_OK;
    return fli_fail(r->ctx, FL_EFORMAT, "%s: the tensors end after %zu bytes of data, but there are %zu", r->name,
                    (size_t)(end - r->data), r->bytes);
}

static fl_status read_header(const reader *r, fli_safetensors *f)
{
    const char *key;
    json_t *value;
    size_t most = json_object_size(f->header);
    fl_status s = check_notes(r, json_object_get(f->header, notes_key));
    if (s) return s;
    if (!(f->tensor = fli_alloc(r->ctx, most, sizeof *f->tensor))) return FL_ENOMEM;
    json_object_foreach(f->header, key, value)
    {
        if (!strcmp(key, notes_key)) continue;
        if ((s = read_tensor(r, key, value, &f->tensor[f->tensors]))) return s;
        f->tensors++;
    }
    if (f->tensors) qsort(f->tensor, f->tensors, sizeof *f->tensor, by_place);
    return check_places(r, f);
}

static fl_status parse(const reader *r, const char *text, size_t n, json_t **out)
{
    json_error_t e;
    locale_t before = fli_locale_enter();
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    fli_locale_leave(before);
    if (*out) return FL_OK;
    if (json_error_code(&e) == json_error_out_of_memory) return fli_fail(r->ctx, FL_ENOMEM, "out of memory");
    return fli_fail(r->ctx, FL_EFORMAT, "%s: the header, byte %d: %s", r->name, e.position, e.text);
}

fl_status fli_safetensors_read(fl_ctx *ctx, const char *name, const void *bytes, size_t n, fli_safetensors *out)
{
    uint64_t length = 0;
    const char *text = (const char *)bytes + LENGTH;
    *out = (fli_safetensors){0};
    if (n >= LENGTH) memcpy(&length, bytes, LENGTH);
    if (n <= LENGTH || length > n - LENGTH || length > FLI_SAFETENSORS_HEADER_MAX || *text != '{')
        return fli_fail(ctx, FL_EFORMAT, "%s: does not begin as a safetensors file does, with a header and its length",
                        name);
    reader r = {.ctx = ctx, .name = name, .data = text + length, .bytes = n - LENGTH - (size_t)length};
    fl_status s = parse(&r, text, (size_t)length, &out->header);
    if (!s) s = read_header(&r, out);
    if (s) fli_safetensors_fini(out);
    return s;
}

void fli_safetensors_fini(fli_safetensors *f)
{
    json_decref(f->header);
    fli_free(f->tensor);
    *f = (fli_safetensors){0};
}

const fli_tensor_entry *fli_safetensors_find(const fli_safetensors *f, const char *name)
{
    for (size_t i = 0; i < f->tensors; i++)
        if (!strcmp(f->tensor[i].name, name)) return &f->tensor[i];
    return NULL;
}

const char *fli_safetensors_note(const fli_safetensors *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, notes_key), key));
}

int fli_safetensors_f64(const fli_tensor_entry *t, double *out)
{
    size_t n = fli_safetensors_count(t);
    if (!strcmp(t->dtype, "F64")) {
        if (n) memcpy(out, t->data, n * sizeof *out);
        return 1;
    }
    if (strcmp(t->dtype, "F32")) return 0;
    for (size_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, (const char *)t->data + i * sizeof v, sizeof v);
        out[i] = (double)v;
    }
    return 1;
}

int fli_safetensors_f32(const fli_tensor_entry *t, float *out)
{
    size_t n = fli_safetensors_count(t);
    if (!strcmp(t->dtype, "F32")) {
        if (n) memcpy(out, t->data, n * sizeof *out);
        return 1;
    }
    if (strcmp(t->dtype, "F64")) return 0;
    for (size_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, (const char *)t->data + i * sizeof v, sizeof v);
        out[i] = (float)v;
    }
    return 1;
}
