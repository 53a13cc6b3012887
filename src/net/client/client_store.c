#include "net/client/client_store.h"

#include "base/bytes.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file is "flkept1" and a line break | kind u32 | checksum u32 | bytes u64 | the bytes. The checksum covers the
 * bytes. */
enum { HEAD = 8 + 4 + 4 + 8, OVER_MOST = 8 };
static const char magic[9] = "flkept1\n";
static const char *const names[FLI_CLIENT_STORE_KINDS] = {"state", "answer", "begun"};
static const size_t most_bytes = (size_t)1 << 36;

struct fli_client_store {
    fl_ctx *ctx;
    char *folder;
    char *run;                          /* folder of the current run; NULL: fli_client_store_run was not called */
    char *file[FLI_CLIENT_STORE_KINDS]; /* paths in it */
    fli_lock *lock;
};

fl_status fli_client_store_open(fl_ctx *ctx, const char *folder, fli_client_store **out)
{
    fli_client_store *store = fli_alloc(ctx, 1, sizeof *store);
    if (!store) return FL_ENOMEM;
    store->ctx = ctx;
    fl_status s = (store->folder = fli_strdup(ctx, folder)) ? FL_OK : FL_ENOMEM;
    if (!s) {
        store->folder[fli_path_length(store->folder)] = 0;
        s = fli_lock_take(ctx, store->folder, &store->lock);
    }
    if (!s) s = fli_make_private_folder(ctx, store->folder);
    if (s)
        fli_client_store_close(store);
    else
        *out = store;
    return s;
}

static void leave_run(fli_client_store *store)
{
    fli_free(store->run);
    store->run = NULL;
    for (int i = 0; i < FLI_CLIENT_STORE_KINDS; i++) {
        fli_free(store->file[i]);
        store->file[i] = NULL;
    }
}

void fli_client_store_close(fli_client_store *store)
{
    if (!store) return;
    leave_run(store);
    fli_lock_leave(store->lock);
    fli_free(store->folder);
    fli_free(store);
}

fl_status fli_random_number(fl_ctx *ctx, uint64_t *number)
{
    if (getrandom(number, sizeof *number, 0) == (ssize_t)sizeof *number) return FL_OK;
    return fli_fail(ctx, FL_ESYSTEM, "the system has no random numbers: %s", strerror(errno));
}

/* A damaged number is replaced by a new one: to the server the folder is then another one. */
fl_status fli_client_store_instance(fli_client_store *store, uint64_t *number)
{
    enum { DIGITS = 16 };
    char *path = fli_strf(store->ctx, "%s/instance", store->folder), *text = NULL, line[DIGITS + 2];
    size_t n = 0;
    if (!path) return FL_ENOMEM;
    fl_status s = fli_path_kind(path) ? fli_file_read(store->ctx, path, 4096, &text, &n) : FL_OK;
    int known = !s && n == DIGITS + 1 && strspn(text, "0123456789abcdef") == DIGITS;
    if (known) *number = strtoull(text, NULL, 16);
    if (!s && !known) s = fli_random_number(store->ctx, number);
    if (!s && !known) {
        fli_snprintf(line, sizeof line, "%016llx\n", (unsigned long long)*number);
        s = fli_file_private(store->ctx, path, line, DIGITS + 1);
    }
    fli_free(text);
    fli_free(path);
    return s;
}

/* A server may have ended a run by mistake, and continue it later: the files that were set aside return. If the server
 * starts the run from the beginning instead, its asks say so, and the client starts there, too. */
static fl_status take_up(fli_client_store *store)
{
    char *aside = fli_strf(store->ctx, "%s.over", store->run);
    if (!aside) return FL_ENOMEM;
    fl_status s = FL_OK;
    if (!fli_path_kind(store->run) && fli_path_kind(aside) && rename(aside, store->run))
        s = fli_fail(store->ctx, FL_EIO, "%s: cannot be taken up again: %s", aside, strerror(errno));
    fli_free(aside);
    return s;
}

fl_status fli_client_store_run(fli_client_store *store, const fli_digest *run)
{
    enum { DIGITS = 16 };
    char id[FLI_DIGEST_TEXT];
    leave_run(store);
    fli_digest_print(run, id);
    store->run = fli_strf(store->ctx, "%s/run-%.*s", store->folder, DIGITS, id);
    if (!store->run) return FL_ENOMEM;
    for (int i = 0; i < FLI_CLIENT_STORE_KINDS; i++)
        if (!(store->file[i] = fli_strf(store->ctx, "%s/%s", store->run, names[i]))) return FL_ENOMEM;
    fl_status s = take_up(store);
    if (!s) s = fli_make_private_folder(store->ctx, store->run);
    return s ? s : fli_sync_folder(store->ctx, store->folder);
}

static int is_over(const char *name)
{
    size_t n = strlen(name);
    return !strncmp(name, "run-", 4) && n > 5 && !strcmp(name + n - 5, ".over");
}

/* Counts the folders of finished runs. *oldest, from fli_alloc, is the one with the oldest change, `but` excluded;
 * NULL: none. */
static size_t count_over(fli_client_store *store, const char *but, char **oldest)
{
    size_t count = 0;
    struct timespec least = {0};
    struct stat st;
    DIR *dir = opendir(store->folder);
    *oldest = NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *path = is_over(e->d_name) ? fli_strf(store->ctx, "%s/%s", store->folder, e->d_name) : NULL;
        if (!path) continue;
        count++;
        int older = strcmp(path, but) && !lstat(path, &st) &&
                    (!*oldest || st.st_mtim.tv_sec < least.tv_sec ||
                     (st.st_mtim.tv_sec == least.tv_sec && st.st_mtim.tv_nsec < least.tv_nsec));
        if (older) {
            least = st.st_mtim;
            fli_free(*oldest);
            *oldest = path;
        } else
            fli_free(path);
    }
    if (dir) closedir(dir);
    return count;
}

/* A server that starts run after run must not fill the disk. A folder that cannot be removed is no error here. */
static void remove_old(fli_client_store *store, const char *but)
{
    for (int more = 1; more;) {
        char *oldest;
        more = count_over(store, but, &oldest) > OVER_MOST && oldest && !fli_remove_folder(store->ctx, oldest);
        fli_free(oldest);
    }
    fli_clear(store->ctx);
}

fl_status fli_client_store_over(fli_client_store *store)
{
    char *aside = store->run ? fli_strf(store->ctx, "%s.over", store->run) : NULL;
    if (!aside) return store->run ? FL_ENOMEM : FL_OK;
    fl_status s = fli_remove_folder(store->ctx, aside);
    if (!s && rename(store->run, aside))
        s = fli_fail(store->ctx, FL_EIO, "%s: cannot be put aside: %s", store->run, strerror(errno));
    leave_run(store);
    if (!s) s = fli_sync_folder(store->ctx, store->folder);
    if (!s) remove_old(store, aside);
    fli_free(aside);
    return s;
}

fl_status fli_client_store_write(fli_client_store *store, fli_client_store_kind kind, const void *p, size_t n)
{
    unsigned char head[HEAD], *at = head;
    memcpy(at, magic, 8);
    at = fli_put_u64(at + 8, kind, 4);
    at = fli_put_u64(at, fli_crc32c(p, n), 4);
    fli_put_u64(at, n, 8);
    fl_status s = fli_file_private_parts(store->ctx, store->file[kind], head, HEAD, p, n);
    return s ? s : fli_sync_folder(store->ctx, store->run);
}

static int is_whole(fli_client_store_kind kind, const unsigned char *bytes, size_t n)
{
    uint64_t is, crc, length;
    if (n < HEAD || memcmp(bytes, magic, 8)) return 0;
    const unsigned char *at = fli_get_u64(bytes + 8, &is, 4);
    at = fli_get_u64(at, &crc, 4);
    at = fli_get_u64(at, &length, 8);
    return is == kind && length == n - HEAD && crc == fli_crc32c(at, n - HEAD);
}

fl_status fli_client_store_read(fli_client_store *store, fli_client_store_kind kind, unsigned char **p, size_t *n)
{
    char *bytes;
    *p = NULL;
    *n = 0;
    if (!fli_path_kind(store->file[kind])) return FL_OK;
    fl_status s = fli_file_read(store->ctx, store->file[kind], most_bytes, &bytes, n);
    if (s) return s;
    if (!is_whole(kind, (unsigned char *)bytes, *n)) {
        fli_free(bytes);
        return fli_fail(store->ctx, FL_EFORMAT, "%s: is damaged: its checksum, length or kind is wrong",
                        store->file[kind]);
    }
    *n -= HEAD;
    memmove(bytes, bytes + HEAD, *n);
    *p = (unsigned char *)bytes;
    return FL_OK;
}

fl_status fli_client_store_forget(fli_client_store *store, fli_client_store_kind kind)
{
    if (!unlink(store->file[kind]) || errno == ENOENT) return FL_OK;
    return fli_fail(store->ctx, FL_EIO, "%s: cannot be removed: %s", store->file[kind], strerror(errno));
}

const char *fli_client_store_run_folder(const fli_client_store *store) { return store->run; }
