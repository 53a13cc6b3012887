/* Result folders: what already exists at an output path, the manifest that lists a folder's files, and how a new result
 * gets its name. The list of a result's files is in result.c. */
#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "run/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ==== existing results ====================================================================================== */

/* Compares a result's settings with the wanted ones. They are read as a configuration, so that a key that did not exist
 * when the result was made has its default. A result may contain more than is wanted (the model), but not less. */
static fl_status compare_settings(fl_ctx *ctx, const char *folder, const fli_settings *wanted, fli_existing_result *out)
{
    const fli_settings *had;
    fli_text a, b;
    fl_config *cfg = fl_config_new(ctx);
    char *path = fli_strf(ctx, "%s/config.yaml", folder);
    fli_text_init(&a, ctx);
    fli_text_init(&b, ctx);
    *out = FLI_EXISTING_OTHER_SETTINGS; /* also if this version does not know the settings */
    fl_status s = cfg && path ? fl_config_load(cfg, path) : FL_ENOMEM;
    if (!s) s = fli_config_settings(cfg, &had);
    if (!s) {
        fli_settings_print_essence(&a, had);
        fli_settings_print_essence(&b, wanted);
        s = fli_text_ok(&a) ? FL_ENOMEM : fli_text_ok(&b);
    }
    if (!s) {
        int same = !strcmp(fli_text_get(&a), fli_text_get(&b)) && had->top.output_model >= wanted->top.output_model;
        if (same) *out = FLI_EXISTING_SAME;
    }
    fli_text_fini(&a);
    fli_text_fini(&b);
    fl_config_free(cfg);
    fli_free(path);
    return s == FL_ENOMEM ? s : FL_OK;
}

/* Whether the result's run reached its end without being stopped. */
static fl_status is_finished(fl_ctx *ctx, const char *folder, int *finished)
{
    enum { MOST_BYTES = 1 << 24 };
    json_error_t e;
    char *text = NULL, *path = fli_strf(ctx, "%s/result.json", folder);
    size_t n;
    fl_status s = path ? fli_file_read(ctx, path, MOST_BYTES, &text, &n) : FL_ENOMEM;
    locale_t before = fli_locale_enter();
    json_t *json = s ? NULL : json_loadb(text, n, 0, &e);
    fli_locale_leave(before);
    const char *why = json_string_value(json_object_get(json, "stopped_by"));
    *finished = why && strcmp(why, "asked") && strcmp(why, "not finished");
    json_decref(json);
    fli_free(text);
    fli_free(path);
    return s;
}

/* Classifies a folder that agrees with its manifest. */
static fl_status find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                      const fli_manifest *m, fli_existing_result *out)
{
    int finished = 0;
    *out = FLI_EXISTING_OTHER_VERSION;
    if (!m->this_version) return FL_OK;
    fl_status s = is_finished(ctx, folder, &finished);
    *out = FLI_EXISTING_STOPPED;
    if (!s && finished) s = compare_settings(ctx, folder, wanted, out);
    if (!s && *out == FLI_EXISTING_SAME && data && !(m->has_data && fli_digest_same(&m->data, data)))
        *out = FLI_EXISTING_OTHER_DATA;
    return s;
}

/* Classifies a folder without a manifest: early versions wrote none. */
static fl_status find_unlisted(fl_ctx *ctx, const char *folder, fli_existing_result *out)
{
    char *result = fli_strf(ctx, "%s/result.json", folder);
    if (!result) return FL_ENOMEM;
    *out = fli_path_kind(result) ? FLI_EXISTING_UNKNOWN : FLI_EXISTING_BROKEN;
    fli_free(result);
    return FL_OK;
}

static fl_status find_listed(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                             fli_existing_result *out)
{
    fli_manifest m;
    fli_manifest_init(&m, ctx);
    fl_status s = fli_result_check(ctx, folder, &m);
    if (!s) s = find(ctx, folder, wanted, data, &m, out);
    if (s) *out = s == FL_EIO ? FLI_EXISTING_UNKNOWN : FLI_EXISTING_BROKEN;
    fli_manifest_fini(&m);
    if (s == FL_ENOMEM) return s;
    fli_clear(ctx);
    return FL_OK;
}

fl_status fli_existing_result_find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                                   fli_existing_result *out)
{
    *out = FLI_EXISTING_NOTHING;
    if (!fli_path_kind(folder)) return FL_OK;
    char *manifest = fli_strf(ctx, "%s/%s", folder, FLI_MANIFEST_NAME);
    if (!manifest) return FL_ENOMEM;
    fl_status s =
        fli_path_kind(manifest) ? find_listed(ctx, folder, wanted, data, out) : find_unlisted(ctx, folder, out);
    fli_free(manifest);
    return s;
}

/* ==== manifests ============================================================================================= */

enum { MOST_FILES = 1000, MANIFEST_BYTES = 1 << 20, LONGEST_NAME = 255 };

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

/* Whether a name is that of a file in the folder itself, without a path out of it. */
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
    fl_status s = path ? fli_file_read(m->ctx, path, MANIFEST_BYTES, &text, &n) : FL_ENOMEM;
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

/* ==== the folder of a run's result ========================================================================== */

/* A result is written under another name and renamed when it is complete, so a folder with the final name has every
 * file. A lock during the run keeps two runs from mixing. */

fl_status fli_folder_lock(fl_run *run)
{
    return run->saving.lock ? FL_OK : fli_lock_take(run->ctx, fl_run_output(run), &run->saving.lock);
}

void fli_folder_unlock(fl_run *run)
{
    fli_lock_leave(run->saving.lock);
    run->saving.lock = NULL;
}

static int is_ours(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, FLI_MANIFEST_NAME ".tmp") ||
           fli_result_is_ours(name);
}

/* Counts a folder's entries; with `ours`, refuses any that is not part of a result. Only a folder that holds nothing
 * but a result is ever removed: a typing error in `output` must not delete a home directory. */
static fl_status look_into(fl_run *run, const char *path, int ours, size_t *entries)
{
    fl_status s = FL_OK;
    *entries = 0;
    if (fli_path_kind(path) != 1)
        return fli_fail(run->ctx, FL_EIO, "%s: exists and is not a folder; choose another output", path);
    DIR *dir = opendir(path);
    if (!dir) return fli_fail(run->ctx, FL_EIO, "%s: the folder cannot be read: %s", path, strerror(errno));
    for (struct dirent *e; !s && (e = readdir(dir));) {
        *entries += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
        if (ours && !is_ours(e->d_name))
            s = fli_fail(run->ctx, FL_EIO, "%s: is not replaced, because %s in it is not part of a result", path,
                         e->d_name);
    }
    closedir(dir);
    return s;
}

/* Fails if something exists at the result's path that may not be replaced. */
static fl_status check_place(fl_run *run, const char *output)
{
    size_t entries = 0;
    fl_status s = fli_path_kind(output) ? look_into(run, output, run->saving.replace, &entries) : FL_OK;
    if (!s && !run->saving.replace && entries)
        s = fli_fail(run->ctx, FL_EIO, "%s: exists already; choose another output, or ask to replace it (--force)",
                     output);
    return s;
}

/* Files beside a result (its lock, its checkpoints) have its name, so it must have one. */
static fl_status check_name(fl_run *run, const char *output)
{
    size_t n = fli_path_length(output);
    const char *slash = memrchr(output, '/', n), *name = slash ? slash + 1 : output;
    size_t length = (size_t)(output + n - name);
    if (length && !(length == 1 && *name == '.') && !(length == 2 && !strncmp(name, "..", 2))) return FL_OK;
    return fli_fail(run->ctx, FL_ECONFIG,
                    "output is %s, which has no name of its own; call the folder by its name, from outside it", output);
}

static char *name_old(fl_run *run, const char *output)
{
    return fli_strf(run->ctx, "%.*s.partial.old", (int)fli_path_length(output), output);
}

/* A program that ended within replace_by_steps has left the earlier result under another name: renames it back. */
static fl_status take_back(fl_run *run, const char *output)
{
    char *old = name_old(run, output);
    if (!old) return FL_ENOMEM;
    fl_status s = FL_OK;
    if (!fli_path_kind(output) && fli_path_kind(old) && rename(old, output))
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be called %s again: %s", old, output, strerror(errno));
    fli_free(old);
    return s;
}

static fl_status prepare(fl_run *run, const char *output)
{
    size_t left;
    fl_status s = take_back(run, output);
    if (!s) s = check_place(run, output);
    if (!s) s = fli_checkpoint_discard(run, run->saving.replace);
    if (s) return s;
    fli_folder_discard(run);
    char *partial = fli_strf(run->ctx, "%.*s.partial", (int)fli_path_length(output), output);
    if (!partial) return FL_ENOMEM;
    if (fli_path_kind(partial)) s = look_into(run, partial, 1, &left); /* left by a run that was killed */
    if (!s && !(s = fli_remove_folder(run->ctx, partial))) s = fli_make_folders(run->ctx, partial);
    if (s)
        fli_free(partial);
    else
        run->saving.partial = partial;
    if (!s) fli_result_forget_unfinished(run);
    if (!s && run->plan.settings->top.checkpoint_every) s = fli_checkpoint_make(run, run->saving.replace);
    return s;
}

static fl_status prepare_here(fl_run *run, int replace)
{
    const char *output = fl_run_output(run);
    if (!*output) return fli_fail(run->ctx, FL_ECONFIG, "output is empty: there is no folder to save to");
    run->saving.replace = replace;
    int had = run->saving.lock != NULL;
    fl_status s = check_name(run, output);
    if (!s) s = fli_folder_lock(run);
    if (!s && (s = prepare(run, output)) && !had) {
        fli_folder_discard(run);
        fli_folder_unlock(run);
    }
    return s;
}

/* Rank 0 prepares, and all ranks agree on the status. */
fl_status fl_run_prepare_save(fl_run *run, int replace)
{
    fli_clear(run->ctx);
    fl_status s = fli_ranks_first(&run->plan.ranks) ? prepare_here(run, replace) : FL_OK;
    return fli_ranks_agree(run->ctx, &run->plan.ranks, s);
}

fl_status fl_run_set_output(fl_run *run, const char *folder)
{
    fli_clear(run->ctx);
    if (run->plan.settings->top.checkpoint_every)
        return fli_fail(run->ctx, FL_ECONFIG, "output stays %s, because the run's checkpoints are beside it",
                        fl_run_output(run));
    fli_settings *own = fli_arena_alloc(&run->plan.arena, 1, sizeof *own);
    char *copy = fli_arena_strdup(&run->plan.arena, folder ? folder : "");
    if (!own || !copy) return FL_ENOMEM;
    fli_folder_discard(run);
    fli_folder_unlock(run);
    *own = *run->plan.settings;
    own->top.output = copy;
    run->plan.settings = own;
    return FL_OK;
}

void fli_folder_discard(fl_run *run)
{
    if (!run->saving.partial) return;
    fli_remove_folder(run->ctx, run->saving.partial);
    fli_free(run->saving.partial);
    run->saving.partial = NULL;
}

/* Renames the earlier result to NAME.old first, for file systems that cannot exchange two names at once. */
static fl_status replace_by_steps(fl_run *run, const char *output)
{
    size_t entries;
    char *old = name_old(run, output);
    fl_status s = old ? FL_OK : FL_ENOMEM;
    if (!s && fli_path_kind(old)) s = look_into(run, old, 1, &entries);
    if (!s) s = fli_remove_folder(run->ctx, old);
    if (!s && rename(output, old))
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be replaced: %s", output, strerror(errno));
    if (!s && rename(run->saving.partial, output)) {
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be put in place: %s", output, strerror(errno));
        if (rename(old, output)) fli_fail_also(run->ctx, s, "the earlier result is now called %s", old);
    }
    if (!s) s = fli_remove_folder(run->ctx, old);
    fli_free(old);
    return s;
}

/* Exchanges the two names in one step: if the program is killed, one complete result remains. */
static fl_status replace(fl_run *run, const char *output)
{
    if (renameat2(AT_FDCWD, run->saving.partial, AT_FDCWD, output, RENAME_EXCHANGE))
        return replace_by_steps(run, output);
    return fli_remove_folder(run->ctx, run->saving.partial);
}

fl_status fli_folder_publish(fl_run *run)
{
    const char *output = fl_run_output(run);
    fl_status s = check_place(run, output);
    if (!s) s = fli_sync_folder(run->ctx, run->saving.partial);
    if (s) return s;
    if (fli_path_kind(output))
        s = replace(run, output);
    else if (rename(run->saving.partial, output))
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be put in place: %s", output, strerror(errno));
    if (s) return s;
    fli_free(run->saving.partial);
    run->saving.partial = NULL;
    return fli_sync_above(run->ctx, output); /* before the checkpoints go */
}
