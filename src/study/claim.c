#include "study/claim.h"

#include "base/file.h"
#include "run/manifest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

fl_status fli_claim_take(fli_claim *c)
{
    fl_status status = c->lock ? FL_OK : fli_lock_take(c->ctx, c->folder, &c->lock);
    return status ? status : fli_make_folders(c->ctx, c->folder);
}

void fli_claim_leave(fli_claim *c)
{
    fli_lock_leave(c->lock);
    c->lock = NULL;
}

static fl_status not_ours(const fli_claim *c, const char *path)
{
    return fli_fail(c->ctx, FL_EIO,
                    "%s: was not written by fedloom, or was changed since; move it away, or choose another output",
                    path);
}

/* The existing manifest, or an empty one. A file with its name that is not a manifest belongs to somebody else. */
static fl_status read_manifest(const fli_claim *c, fli_manifest *m)
{
    char *path = fli_strf(c->ctx, "%s/%s", c->folder, FLI_MANIFEST_NAME);
    fli_manifest_init(m, c->ctx);
    fl_status status = path ? FL_OK : FL_ENOMEM;
    if (!status && fli_path_kind(path)) status = fli_manifest_read(m, c->folder);
    if (status && status != FL_ENOMEM) {
        fli_clear(c->ctx);
        status = not_ours(c, path);
    }
    fli_free(path);
    return status;
}

static fl_status check_file(const fli_claim *c, const fli_manifest *m, const char *name)
{
    int ours = 1;
    fl_status status = FL_OK;
    char *path = fli_strf(c->ctx, "%s/%s", c->folder, name);
    if (!path) return FL_ENOMEM;
    if (fli_path_kind(path)) status = fli_manifest_knows(m, c->folder, name, &ours);
    if (!status && !ours) status = not_ours(c, path);
    fli_free(path);
    return status;
}

static fl_status check_kind(const fli_claim *c, const fli_manifest *m, const char *sign)
{
    if (!m->count || fli_manifest_lists(m, sign)) return FL_OK;
    return fli_fail(c->ctx, FL_EIO, "%s: has results of another kind (%s); choose another output", c->folder,
                    m->file[0].name);
}

fl_status fli_claim_check(const fli_claim *c, const char *const *names)
{
    fli_manifest m;
    fl_status status = read_manifest(c, &m);
    if (!status) status = check_kind(c, &m, names[0]);
    for (; *names && !status; names++) status = check_file(c, &m, *names);
    fli_manifest_fini(&m);
    return status;
}

/* Adds what the files are about to become. */
static fl_status add_files(fli_manifest *m, const char *const *names, const fli_text *texts)
{
    fl_status status = FL_OK;
    for (size_t i = 0; names[i] && !status; i++) {
        fli_hash h;
        fli_hash_init(&h);
        fli_hash_bytes(&h, fli_text_get(&texts[i]), texts[i].n);
        fli_digest digest = fli_hash_end(&h);
        status = fli_manifest_add_known(m, names[i], texts[i].n, &digest);
    }
    return status;
}

static fl_status replace_files(const fli_claim *c, const char *const *names, const fli_text *texts)
{
    fl_status status = FL_OK;
    for (size_t i = 0; names[i] && !status; i++) {
        char *path = fli_strf(c->ctx, "%s/%s", c->folder, names[i]);
        status = path ? fli_file_replace(c->ctx, path, fli_text_get(&texts[i]), texts[i].n) : FL_ENOMEM;
        fli_free(path);
    }
    return status;
}

/* Removes what the old manifest lists and the new one does not, unless it was changed since. */
static fl_status remove_stale(const fli_claim *c, const fli_manifest *old, const fli_manifest *new)
{
    fl_status status = FL_OK;
    for (size_t i = 0; i < old->count && !status; i++) {
        int ours = 0;
        const char *name = old->file[i].name;
        if (fli_manifest_lists(new, name)) continue;
        char *path = fli_strf(c->ctx, "%s/%s", c->folder, name);
        status = path ? fli_manifest_knows(old, c->folder, name, &ours) : FL_ENOMEM;
        if (!status && ours && unlink(path))
            status = fli_fail(c->ctx, FL_EIO, "%s: cannot be removed: %s", path, strerror(errno));
        else if (!status && ours)
            fli_log(c->ctx, FL_LOG_INFO, "%s: is not among the results any more, and was removed", path);
        fli_free(path);
    }
    return status;
}

/* First a manifest that knows the old files and the new ones, so that whenever the program is killed what is there is
 * known as ours. */
fl_status fli_claim_write(const fli_claim *c, const char *const *names, const fli_text *texts)
{
    fli_manifest both, new;
    fl_status status = fli_claim_check(c, names);
    if (status) return status;
    fli_manifest_init(&new, c->ctx);
    status = read_manifest(c, &both);
    if (!status) status = add_files(&both, names, texts);
    if (!status) status = add_files(&new, names, texts);
    if (!status) status = fli_manifest_write(&both, c->folder);
    if (!status) status = replace_files(c, names, texts);
    if (!status) status = remove_stale(c, &both, &new);
    if (!status) status = fli_manifest_write(&new, c->folder);
    fli_manifest_fini(&both);
    fli_manifest_fini(&new);
    return status;
}
