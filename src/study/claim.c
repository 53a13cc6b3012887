/* The folder of a comparison: one process at a time writes there, and nothing is overwritten that this program did not
 * write. Which files those are is said by a manifest in the folder: a file that is not listed, or has been changed
 * since, is somebody's own. */
#include "study/study.h"

#include "base/file.h"
#include "run/manifest.h"

fl_status fli_claim_lock(fl_study *s)
{
    fl_status status = s->lock_file ? FL_OK : fli_lock_take(s->ctx, s->x.output, &s->lock_file);
    return status ? status : fli_make_folders(s->ctx, s->x.output);
}

static fl_status not_ours(fl_study *s, const char *path)
{
    return fli_fail(s->ctx, FL_EIO,
                    "%s: was not written by a comparison, or was changed since; move it away, or choose another output",
                    path);
}

/* The existing manifest, or an empty one. A file with its name that is not a manifest belongs to somebody else. */
static fl_status read_manifest(fl_study *s, fli_manifest *m)
{
    char *path = fli_strf(s->ctx, "%s/%s", s->x.output, FLI_MANIFEST_NAME);
    fli_manifest_init(m, s->ctx);
    fl_status status = path ? FL_OK : FL_ENOMEM;
    if (!status && fli_path_kind(path)) status = fli_manifest_read(m, s->x.output);
    if (status && status != FL_ENOMEM) {
        fli_clear(s->ctx);
        status = not_ours(s, path);
    }
    fli_free(path);
    return status;
}

static fl_status check_file(fl_study *s, const fli_manifest *m, const char *name)
{
    int ours = 1;
    fl_status status = FL_OK;
    char *path = fli_strf(s->ctx, "%s/%s", s->x.output, name);
    if (!path) return FL_ENOMEM;
    if (fli_path_kind(path)) status = fli_manifest_knows(m, s->x.output, name, &ours);
    if (!status && !ours) status = not_ours(s, path);
    fli_free(path);
    return status;
}

fl_status fli_claim_check(fl_study *s, const fli_study_file *files)
{
    fli_manifest m;
    fl_status status = read_manifest(s, &m);
    for (; files->name && !status; files++) status = check_file(s, &m, files->name);
    fli_manifest_fini(&m);
    return status;
}

/* Adds what the files are about to become. */
static fl_status add_files(fli_manifest *m, const fli_study_file *files, const fli_text *texts)
{
    fl_status status = FL_OK;
    for (size_t i = 0; files[i].name && !status; i++) {
        fli_hash h;
        fli_hash_init(&h);
        fli_hash_bytes(&h, fli_text_get(&texts[i]), texts[i].n);
        fli_digest digest = fli_hash_end(&h);
        status = fli_manifest_add_known(m, files[i].name, texts[i].n, &digest);
    }
    return status;
}

static fl_status replace_files(fl_study *s, const fli_study_file *files, const fli_text *texts)
{
    fl_status status = FL_OK;
    for (size_t i = 0; files[i].name && !status; i++) {
        char *path = fli_strf(s->ctx, "%s/%s", s->x.output, files[i].name);
        status = path ? fli_file_replace(s->ctx, path, fli_text_get(&texts[i]), texts[i].n) : FL_ENOMEM;
        fli_free(path);
    }
    return status;
}

/* First a manifest that knows the old files and the new ones, so that whenever the program is killed what is there is
 * known as ours. */
fl_status fli_claim_write(fl_study *s, const fli_study_file *files, const fli_text *texts)
{
    fli_manifest both, new;
    fl_status status = fli_claim_check(s, files);
    if (status) return status;
    fli_manifest_init(&new, s->ctx);
    status = read_manifest(s, &both);
    if (!status) status = add_files(&both, files, texts);
    if (!status) status = add_files(&new, files, texts);
    if (!status) status = fli_manifest_write(&both, s->x.output);
    if (!status) status = replace_files(s, files, texts);
    if (!status) status = fli_manifest_write(&new, s->x.output);
    fli_manifest_fini(&both);
    fli_manifest_fini(&new);
    return status;
}
