#include "run/manifest.h"

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"

#include <jansson.h>
#include <string.h>

enum { MOST_FILES = 1000, MOST_BYTES = 1 << 20, LONGEST_NAME = 255 };

void fli_manifest_init(fli_manifest *m, fl_ctx *ctx) { *m = (fli_manifest){.ctx = ctx}; }

void fli_manifest_fini(fli_manifest *m)
{
    for (size_t i = 0; i < m->count; i++) fli_free(m->file[i].name);
    fli_free(m->file);
    fli_manifest_init(m, m->ctx);
}

/* ---- making one ---------------------------------------------------------------------------------------- */

static int is_version(const fli_manifest_file *f, const char *name, uint64_t bytes, const fli_digest *digest)
{
    return !strcmp(f->name, name) && f->bytes == bytes && fli_digest_same(&f->digest, digest);
}

fl_status fli_manifest_add_known(fli_manifest *m, const char *name, uint64_t bytes, const fli_digest *digest)
{
    for (size_t i = 0; i < m->count; i++)
        if (is_version(&m->file[i], name, bytes, digest)) return FL_OK;
    fl_status s = fli_grow(m->ctx, (void **)&m->file, m->count, m->count + 1, sizeof *m->file);
    if (s) return s;
    fli_manifest_file *f = &m->file[m->count];
    *f = (fli_manifest_file){fli_strdup(m->ctx, name), bytes, *digest};
    if (!f->name) return FL_ENOMEM;
    m->count++;
    return FL_OK;
}

static fl_status look_at(const fli_manifest *m, const char *folder, const char *name, fli_digest *digest,
                         uint64_t *bytes)
{
    char *path = fli_strf(m->ctx, "%s/%s", folder, name);
    fl_status s = !path                  ? FL_ENOMEM
                  : !fli_path_kind(path) ? fli_fail(m->ctx, FL_EMISMATCH, "%s: is missing", path)
                                         : fli_digest_file(m->ctx, path, digest, bytes);
    fli_free(path);
    return s;
}

fl_status fli_manifest_add(fli_manifest *m, const char *folder, const char *name)
{
    fli_digest digest;
    uint64_t bytes;
    fl_status s = look_at(m, folder, name, &digest, &bytes);
    return s ? s : fli_manifest_add_known(m, name, bytes, &digest);
}

static void print(const fli_manifest *m, fli_text *t)
{
    char digest[FLI_DIGEST_TEXT];
    fli_text_addf(t, "{\n  \"fedloom\": \"%s\",\n", FL_VERSION);
    fli_digest_print(&m->data, digest);
    if (m->kernels) {
        fli_text_add(t, "  \"kernels\": ");
        fli_text_json(t, m->kernels);
        fli_text_add(t, ",\n");
    }
    if (m->stopped_by)
        fli_text_addf(t, "  \"stopped_by\": \"%s\",\n  \"rounds\": %zu,\n  \"planned_rounds\": %zu,\n", m->stopped_by,
                      m->rounds, m->planned);
    if (m->has_data) fli_text_addf(t, "  \"data\": {\"sha256\": \"%s\"},\n", digest);
    fli_text_add(t, "  \"files\": [");
    for (size_t i = 0; i < m->count; i++) {
        fli_digest_print(&m->file[i].digest, digest);
        fli_text_add(t, i ? ",\n    {\"name\": " : "\n    {\"name\": ");
        fli_text_json(t, m->file[i].name);
        fli_text_addf(t, ", \"bytes\": %llu, \"sha256\": \"%s\"}", (unsigned long long)m->file[i].bytes, digest);
    }
    fli_text_add(t, "\n  ]\n}\n");
}

fl_status fli_manifest_write(const fli_manifest *m, const char *folder)
{
    fli_text t;
    char *path = fli_strf(m->ctx, "%s/%s", folder, FLI_MANIFEST_NAME);
    fli_text_init(&t, m->ctx);
    print(m, &t);
    fl_status s = path ? fli_text_ok(&t) : FL_ENOMEM;
    if (!s) s = fli_file_replace(m->ctx, path, fli_text_get(&t), t.n);
    fli_text_fini(&t);
    fli_free(path);
    return s;
}

/* ---- reading one --------------------------------------------------------------------------------------- */

/* A file of the folder itself, and nothing that leads out of it. */
static int is_plain_name(const char *name)
{
    return name && *name && strlen(name) <= LONGEST_NAME && !strchr(name, '/') && strcmp(name, ".") &&
           strcmp(name, "..");
}

static fl_status read_file(fli_manifest *m, const char *path, size_t i, const json_t *item)
{
    fli_digest digest;
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *text = json_string_value(json_object_get(item, "sha256"));
    const json_t *bytes = json_object_get(item, "bytes");
    if (!is_plain_name(name) || !text || !fli_digest_read(text, &digest) || !json_is_integer(bytes) ||
        json_integer_value(bytes) < 0)
        return fli_fail(m->ctx, FL_EFORMAT, "%s: file %zu of the list has no plain name, size and sha256", path, i + 1);
    return fli_manifest_add_known(m, name, (uint64_t)json_integer_value(bytes), &digest);
}

static fl_status read_json(fli_manifest *m, const char *path, const json_t *root)
{
    const json_t *files = json_object_get(root, "files"), *data = json_object_get(root, "data");
    const char *text = json_string_value(json_object_get(data, "sha256"));
    const char *version = json_string_value(json_object_get(root, "fedloom"));
    if (!version || !json_is_array(files) || json_array_size(files) > MOST_FILES)
        return fli_fail(m->ctx, FL_EFORMAT, "%s: is not a manifest: it has no version and list of files", path);
    m->this_version = !strcmp(version, FL_VERSION);
    if (data && (!text || !fli_digest_read(text, &m->data)))
        return fli_fail(m->ctx, FL_EFORMAT, "%s: the digest of the data is not a sha256", path);
    m->has_data = data != NULL;
    fl_status s = FL_OK;
    for (size_t i = 0; i < json_array_size(files) && !s; i++) s = read_file(m, path, i, json_array_get(files, i));
    return s;
}

fl_status fli_manifest_parse(fli_manifest *m, const char *path, const char *text, size_t n)
{
    json_error_t e;
    locale_t before = fli_locale_enter();
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    fli_locale_leave(before);
    if (!root && json_error_code(&e) == json_error_out_of_memory) return fli_fail(m->ctx, FL_ENOMEM, "out of memory");
    if (!root) return fli_fail(m->ctx, FL_EFORMAT, "%s:%d:%d: %s", path, e.line, e.column, e.text);
    fl_status s = read_json(m, path, root);
    json_decref(root);
    return s;
}

fl_status fli_manifest_read(fli_manifest *m, const char *folder)
{
    size_t n;
    char *text = NULL, *path = fli_strf(m->ctx, "%s/%s", folder, FLI_MANIFEST_NAME);
    fl_status s = path ? fli_file_read(m->ctx, path, MOST_BYTES, &text, &n) : FL_ENOMEM;
    if (!s) s = fli_manifest_parse(m, path, text, n);
    fli_free(text);
    fli_free(path);
    return s;
}

/* ---- holding a folder to it ------------------------------------------------------------------------------ */

fl_status fli_manifest_check(const fli_manifest *m, const char *folder)
{
    fl_status s = FL_OK;
    for (size_t i = 0; i < m->count && !s; i++) {
        const fli_manifest_file *f = &m->file[i];
        fli_digest digest;
        uint64_t bytes;
        s = look_at(m, folder, f->name, &digest, &bytes);
        if (!s && (bytes != f->bytes || !fli_digest_same(&digest, &f->digest)))
            s = fli_fail(m->ctx, FL_EMISMATCH, "%s/%s: is not the file that %s lists", folder, f->name,
                         FLI_MANIFEST_NAME);
    }
    return s;
}

int fli_manifest_lists(const fli_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (!strcmp(m->file[i].name, name)) return 1;
    return 0;
}

fl_status fli_manifest_knows(const fli_manifest *m, const char *folder, const char *name, int *known)
{
    fli_digest digest;
    uint64_t bytes;
    *known = 0;
    fl_status s = look_at(m, folder, name, &digest, &bytes);
    for (size_t i = 0; i < m->count && !s; i++) *known |= is_version(&m->file[i], name, bytes, &digest);
    if (s == FL_ENOMEM) return s;
    fli_clear(m->ctx);
    return FL_OK;
}
