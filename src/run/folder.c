/* Where a result goes: written under another name, renamed when complete, so that whoever finds a folder finds all of
 * it; and locked while a run works for it, so that two runs never mix. */
#include "run/folder.h"

#include "base/file.h"
#include "base/lock.h"
#include "run/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

fl_status fli_folder_lock(fl_run *run)
{
    return run->lock ? FL_OK : fli_lock_take(run->ctx, fl_run_output(run), &run->lock);
}

void fli_folder_unlock(fl_run *run)
{
    fli_lock_leave(run->lock);
    run->lock = NULL;
}

static int is_ours(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, FLI_MANIFEST_NAME ".tmp") ||
           fli_result_is_ours(name);
}

/* Counts what is in a folder; with `ours`, anything that is not part of a result is refused. Only a folder that holds
 * nothing but a result is ever removed: a slip in `output` must not cost anybody a home directory. */
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

/* Whether something stands where the result is to go, and may not be replaced. */
static fl_status check_place(fl_run *run, const char *output)
{
    size_t entries = 0;
    fl_status s = fli_path_kind(output) ? look_into(run, output, run->replace, &entries) : FL_OK;
    if (!s && !run->replace && entries)
        s = fli_fail(run->ctx, FL_EIO, "%s: exists already; choose another output, or ask to replace it (--force)",
                     output);
    return s;
}

/* What is written beside a result is called as it is, so it must be called something. */
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

/* A program that ended while it replaced a result by steps has left the earlier one under another name. */
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
    if (!s) s = fli_checkpoint_discard(run, run->replace);
    if (s) return s;
    fli_folder_discard(run);
    char *partial = fli_strf(run->ctx, "%.*s.partial", (int)fli_path_length(output), output);
    if (!partial) return FL_ENOMEM;
    if (fli_path_kind(partial)) s = look_into(run, partial, 1, &left); /* of a run that was killed */
    if (!s && !(s = fli_remove_folder(run->ctx, partial))) s = fli_make_folders(run->ctx, partial);
    if (s)
        fli_free(partial);
    else
        run->partial = partial;
    if (!s) fli_result_forget_unfinished(run);
    if (!s && run->plan.settings.top.checkpoint_every) s = fli_checkpoint_make(run, run->replace);
    return s;
}

static fl_status prepare_here(fl_run *run, int replace)
{
    const char *output = fl_run_output(run);
    if (!*output) return fli_fail(run->ctx, FL_ECONFIG, "output is empty: there is no folder to save to");
    run->replace = replace;
    int had = run->lock != NULL;
    fl_status s = check_name(run, output);
    if (!s) s = fli_folder_lock(run);
    if (!s && (s = prepare(run, output)) && !had) {
        fli_folder_discard(run);
        fli_folder_unlock(run);
    }
    return s;
}

/* One rank writes; all know whether it can. */
fl_status fl_run_prepare_save(fl_run *run, int replace)
{
    fli_clear(run->ctx);
    fl_status s = fli_ranks_first(&run->plan.ranks) ? prepare_here(run, replace) : FL_OK;
    return fli_ranks_agree(run->ctx, &run->plan.ranks, s);
}

fl_status fl_run_set_output(fl_run *run, const char *folder)
{
    fli_clear(run->ctx);
    if (run->plan.settings.top.checkpoint_every)
        return fli_fail(run->ctx, FL_ECONFIG, "output stays %s, because the run's checkpoints are beside it",
                        fl_run_output(run));
    char *copy = fli_arena_strdup(&run->plan.arena, folder ? folder : "");
    if (!copy) return FL_ENOMEM;
    fli_folder_discard(run);
    fli_folder_unlock(run);
    run->plan.settings.top.output = copy;
    return FL_OK;
}

void fli_folder_discard(fl_run *run)
{
    if (!run->partial) return;
    fli_remove_folder(run->ctx, run->partial);
    fli_free(run->partial);
    run->partial = NULL;
}

/* The earlier result goes to NAME.old first, for file systems that cannot exchange two names at once. */
static fl_status replace_by_steps(fl_run *run, const char *output)
{
    size_t entries;
    char *old = name_old(run, output);
    fl_status s = old ? FL_OK : FL_ENOMEM;
    if (!s && fli_path_kind(old)) s = look_into(run, old, 1, &entries);
    if (!s) s = fli_remove_folder(run->ctx, old);
    if (!s && rename(output, old))
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be replaced: %s", output, strerror(errno));
    if (!s && rename(run->partial, output)) {
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be put in place: %s", output, strerror(errno));
        if (rename(old, output)) fli_fail_also(run->ctx, s, "the earlier result is now called %s", old);
    }
    if (!s) s = fli_remove_folder(run->ctx, old);
    fli_free(old);
    return s;
}

/* The two change names in one step: whenever the program is killed, one of them is there, whole. */
static fl_status replace(fl_run *run, const char *output)
{
    if (renameat2(AT_FDCWD, run->partial, AT_FDCWD, output, RENAME_EXCHANGE)) return replace_by_steps(run, output);
    return fli_remove_folder(run->ctx, run->partial);
}

fl_status fli_folder_publish(fl_run *run)
{
    const char *output = fl_run_output(run);
    fl_status s = check_place(run, output);
    if (!s) s = fli_sync_folder(run->ctx, run->partial);
    if (s) return s;
    if (fli_path_kind(output))
        s = replace(run, output);
    else if (rename(run->partial, output))
        s = fli_fail(run->ctx, FL_EIO, "%s: cannot be put in place: %s", output, strerror(errno));
    if (s) return s;
    fli_free(run->partial);
    run->partial = NULL;
    return fli_sync_above(run->ctx, output); /* before the checkpoints go */
}
