#include "net/cert/cert.h"

#include "base/file.h"
#include "base/text.h"
#include "base/lock.h"
#include "base/number.h"
#include "net/cert/cert_index.h"
#include "net/cert/issue.h"
#include "net/cert/x509.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAY = 24 * 60 * 60, SLACK = 60 * 60 }; /* a clock elsewhere may be behind by an hour */

/* An authority while it is changed: nobody else does. */
typedef struct {
    fl_ctx *ctx;
    const char *dir;
    fli_lock *lock;
    fli_issuer issuer;
    fli_cert_index index;
    int64_t now;
} authority;

/* ---- files ------------------------------------------------------------------------------------------------- */

/* FOLDER/NAME, private. */
static fl_status put(fl_ctx *ctx, const char *folder, const char *name, const void *p, size_t n)
{
    char *path = fli_strf(ctx, "%s/%s", folder, name);
    fl_status s = path ? fli_file_private(ctx, path, p, n) : FL_ENOMEM;
    fli_free(path);
    return s;
}

static fl_status put_pem(fl_ctx *ctx, const char *folder, const char *name, const fli_pem *pem)
{
    return put(ctx, folder, name, pem->data, pem->size);
}

static fl_status copy(fl_ctx *ctx, const char *from, const char *to, const char *name)
{
    char *text = NULL, *path = fli_strf(ctx, "%s/%s", from, name);
    size_t n = 0;
    fl_status s = path ? fli_file_read(ctx, path, FLI_CERT_INDEX_MOST, &text, &n) : FL_ENOMEM;
    if (!s) s = put(ctx, to, name, text, n);
    fli_free(text);
    fli_free(path);
    return s;
}

/* Puts a whole folder in the place of one that may be there. */
static fl_status put_folder(fl_ctx *ctx, const char *draft, const char *path)
{
    if (fli_path_kind(path) == 1 && !renameat2(AT_FDCWD, draft, AT_FDCWD, path, RENAME_EXCHANGE))
        return fli_remove_folder(ctx, draft);
    fl_status s = fli_remove_folder(ctx, path); /* also where the file system cannot exchange two folders */
    if (!s && rename(draft, path)) s = fli_fail(ctx, FL_EIO, "%s: cannot be put in place: %s", path, strerror(errno));
    return s;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

static void pause_a_moment(void)
{
    const struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
}

/* Others are done in an instant: waits for them, some ten seconds at most. */
static fl_status take_lock(fl_ctx *ctx, const char *dir, fli_lock **lock)
{
    enum { TRIES = 200 };
    fl_status s = FL_EBUSY;
    char *place = fli_strf(ctx, "%s/index", dir);
    if (!place) return FL_ENOMEM;
    for (int i = 0; i < TRIES && s == FL_EBUSY; i++) {
        if (i) pause_a_moment();
        fli_clear(ctx);
        s = fli_lock_take(ctx, place, lock);
    }
    fli_free(place);
    return s;
}

/* Everything a command needs that is in files. */
static fl_status load(authority *a)
{
    fl_ctx *ctx = a->ctx;
    char *cert = fli_strf(ctx, "%s/ca.pem", a->dir), *key = fli_strf(ctx, "%s/ca-key.pem", a->dir);
    char *index = fli_strf(ctx, "%s/index", a->dir), day[FLI_DAY_MAX];
    fl_status s = cert && key && index ? FL_OK : FL_ENOMEM;
    if (!s) s = fli_x509_cert_load(ctx, cert, &a->issuer.cert, NULL);
    if (!s) s = fli_x509_key_load(ctx, key, &a->issuer.key, NULL);
    if (!s) s = fli_cert_index_load(&a->index, index);
    if (!s && (int64_t)gnutls_x509_crt_get_expiration_time(a->issuer.cert) <= a->now)
        s = fli_fail(ctx, FL_ECONFIG, "%s: the authority has ended, on %s; make a new one, in another folder", cert,
                     fli_day_text((int64_t)gnutls_x509_crt_get_expiration_time(a->issuer.cert), day));
    fli_free(cert);
    fli_free(key);
    fli_free(index);
    return s;
}

/* Whether there is an authority, and that is as it should be. */
static fl_status need_authority(fl_ctx *ctx, const char *dir, int wanted)
{
    char *index = fli_strf(ctx, "%s/index", dir);
    if (!index) return FL_ENOMEM;
    int there = fli_path_kind(index) == 2;
    fli_free(index);
    if (there == wanted) return FL_OK;
    if (there) return fli_fail(ctx, FL_ECONFIG, "%s: there is an authority in this folder already", dir);
    return fli_fail(ctx, FL_ECONFIG, "%s: there is no authority in this folder; `fedloom cert init` makes one", dir);
}

static void authority_close(authority *a)
{
    if (a->issuer.cert) gnutls_x509_crt_deinit(a->issuer.cert);
    if (a->issuer.key) gnutls_x509_privkey_deinit(a->issuer.key);
    fli_cert_index_fini(&a->index);
    fli_lock_leave(a->lock);
}

/* To be closed in either case. */
static fl_status authority_open(fl_ctx *ctx, const char *dir, authority *a)
{
    memset(a, 0, sizeof *a);
    a->ctx = ctx;
    a->dir = dir;
    a->now = (int64_t)time(NULL);
    fli_cert_index_init(&a->index, ctx);
    fli_clear(ctx);
    fl_status s = need_authority(ctx, dir, 1);
    if (!s) s = take_lock(ctx, dir, &a->lock);
    return s ? s : load(a);
}

static fl_status save_index(const authority *a)
{
    char *path = fli_strf(a->ctx, "%s/index", a->dir);
    fl_status s = path ? fli_cert_index_save(&a->index, path) : FL_ENOMEM;
    fli_free(path);
    return s;
}

/* The revocation list that the index says, here and in the server's folder, if that is still here. */
static fl_status publish(const authority *a)
{
    fli_pem list;
    char *server = fli_strf(a->ctx, "%s/server", a->dir);
    fl_status s =
        server ? fli_issue_list(a->ctx, a->index.line, a->index.lines, a->index.list, &a->issuer, &list) : FL_ENOMEM;
    if (!s) {
        s = put_pem(a->ctx, a->dir, "crl.pem", &list);
        if (!s && fli_path_kind(server) == 1) s = put_pem(a->ctx, server, "crl.pem", &list);
        gnutls_free(list.data);
    }
    fli_free(server);
    return s;
}

/* ---- a new authority ------------------------------------------------------------------------------------------- */

/* Only what an attempt that was cut off may have left. */
static int is_leftover(const char *name)
{
    static const char *const ours[] = {".",          "..",          "ca.pem",
                                       "ca.pem.tmp", "ca-key.pem",  "ca-key.pem.tmp",
                                       "crl.pem",    "crl.pem.tmp", "index.fedloom-lock",
                                       "index.tmp"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strcmp(name, ours[i])) return 1;
    return 0;
}

static fl_status need_empty(fl_ctx *ctx, const char *dir)
{
    fl_status s = need_authority(ctx, dir, 0);
    DIR *d = s ? NULL : opendir(dir);
    if (s) return s;
    if (!d) return errno == ENOENT ? FL_OK : fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", dir, strerror(errno));
    for (struct dirent *e; !s && (e = readdir(d));)
        if (!is_leftover(e->d_name))
            s = fli_fail(ctx, FL_ECONFIG, "%s: is not empty (%s is in it); an authority wants a folder of its own", dir,
                         e->d_name);
    closedir(d);
    return s;
}

static void hex(const uint8_t serial[FLI_CERT_SERIAL], char text[2 * FLI_CERT_SERIAL + 1])
{
    for (size_t i = 0; i < FLI_CERT_SERIAL; i++) fli_snprintf(text + 2 * i, 3, "%02x", serial[i]);
}

static fl_status self_sign(authority *a, const char *name, long days, fli_pem *cert)
{
    gnutls_pubkey_t key;
    fli_issue what = {.name = name, .begins = a->now - SLACK, .ends = a->now + (int64_t)days * DAY};
    if (what.begins >= what.ends) what.begins = what.ends - SLACK;
    fl_status s = fli_issue_serial(a->ctx, what.serial);
    if (!s) {
        s = fli_issue_public(a->ctx, a->issuer.key, &key);
        if (!s) s = fli_issue_cert(a->ctx, &what, key, &a->issuer, cert);
        if (key) gnutls_pubkey_deinit(key);
    }
    return s;
}

static fl_status read_back(authority *a, const fli_pem *cert)
{
    int code = gnutls_x509_crt_init(&a->issuer.cert);
    if (!code) code = gnutls_x509_crt_import(a->issuer.cert, cert, GNUTLS_X509_FMT_PEM);
    return code ? fli_x509_fail(a->ctx, FL_ESYSTEM, "the authority's certificate", code) : FL_OK;
}

/* The index comes last: an authority is there when it is. */
static fl_status create(authority *a, const char *name, long days)
{
    fli_pem key = {0}, cert = {0};
    fl_status s = fli_issue_key(a->ctx, &a->issuer.key, &key);
    if (!s) s = self_sign(a, name, days, &cert);
    if (!s) s = read_back(a, &cert);
    if (!s) s = put_pem(a->ctx, a->dir, "ca-key.pem", &key);
    if (!s) s = put_pem(a->ctx, a->dir, "ca.pem", &cert);
    if (!s) s = publish(a);
    if (!s) s = save_index(a);
    fli_pem_wipe(&key);
    gnutls_free(cert.data);
    return s;
}

fl_status fli_cert_init(fl_ctx *ctx, const char *dir, const char *name, long days)
{
    authority a = {.ctx = ctx, .dir = dir, .now = (int64_t)time(NULL)};
    fli_clear(ctx);
    fli_cert_index_init(&a.index, ctx);
    a.index.list = 1;
    if (!*name || strlen(name) > FLI_NET_NAME_MAX)
        return fli_fail(ctx, FL_ECONFIG, "an authority's name has 1 to %d bytes, not %zu", (int)FLI_NET_NAME_MAX,
                        strlen(name));
    fl_status s = need_empty(ctx, dir);
    if (!s) s = fli_make_private_folder(ctx, dir);
    if (!s) s = take_lock(ctx, dir, &a.lock);
    if (!s) s = need_empty(ctx, dir); /* another one may have been here in between */
    if (!s) s = create(&a, name, days);
    authority_close(&a);
    return s;
}

/* ---- certificates ------------------------------------------------------------------------------------------- */

/* What is to be made, and its folder: "server", "clients/NAME" or "viewers/NAME". */
typedef struct {
    fli_cert_kind kind;
    const char *name;
    const char *const *host;
    size_t hosts;
    fli_cert_wish wish;
} order;

static fl_status need_new(const authority *a, const order *o)
{
    char day[FLI_DAY_MAX];
    const fli_cert_line *there = o->wish.force ? NULL : fli_cert_index_holding(&a->index, o->kind, o->name, a->now);
    if (!there) return FL_OK;
    return fli_fail(a->ctx, FL_ECONFIG,
                    "%s: has a certificate that holds until %s; revoke it first, or renew it beside the old one "
                    "(--force)",
                    o->name, fli_day_text(there->ends, day));
}

/* Signs, and notes it in the index: from now on it can be revoked. */
static fl_status issue(authority *a, const order *o, gnutls_pubkey_t key, fli_pem *cert)
{
    int64_t last = (int64_t)gnutls_x509_crt_get_expiration_time(a->issuer.cert);
    fli_cert_line line = {.kind = o->kind, .ends = a->now + (int64_t)o->wish.days * DAY};
    if (line.ends > last) {
        line.ends = last;
        fli_log(a->ctx, FL_LOG_INFO, "%s: the certificate ends when its authority does", o->name);
    }
    fli_snprintf(line.name, sizeof line.name, "%s", o->name);
    /* a common name has 64 bytes at most; what counts for a server is the list of its hosts */
    const char *name = strlen(o->name) > FLI_NET_NAME_MAX ? "fedloom server" : o->name;
    fli_issue what = {.name = name, .host = o->host, .hosts = o->hosts, .begins = a->now - SLACK, .ends = line.ends};
    what.purpose = o->kind == FLI_CERT_SERVER ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT;
    if (o->kind == FLI_CERT_VIEWER) what.unit = FLI_X509_VIEWER;
    if (what.begins >= what.ends) what.begins = what.ends - SLACK;
    fl_status s = fli_issue_serial(a->ctx, what.serial);
    hex(what.serial, line.serial);
    if (!s) s = fli_issue_cert(a->ctx, &what, key, &a->issuer, cert);
    if (!s) s = fli_cert_index_add(&a->index, &line);
    return s ? s : save_index(a);
}

/* The folder of one side, put together under a name that no client can have, and then put in place. */
static fl_status deliver(const authority *a, const order *o, const fli_pem *cert, const fli_pem *key)
{
    fl_ctx *ctx = a->ctx;
    int server = o->kind == FLI_CERT_SERVER;
    char *above = server ? fli_strdup(ctx, a->dir) : fli_strf(ctx, "%s/%ss", a->dir, fli_cert_kind_name(o->kind));
    char *path = above ? fli_strf(ctx, "%s/%s", above, server ? "server" : o->name) : NULL;
    char *draft = above ? fli_strf(ctx, "%s/.%s.new", above, server ? "server" : o->name) : NULL;
    fl_status s = path && draft ? fli_make_private_folder(ctx, above) : FL_ENOMEM;
    if (!s) s = fli_remove_folder(ctx, draft); /* of an attempt that was cut off */
    if (!s) s = fli_make_private_folder(ctx, draft);
    if (!s && key) s = put_pem(ctx, draft, "key.pem", key);
    if (!s) s = put_pem(ctx, draft, "cert.pem", cert);
    if (!s) s = copy(ctx, a->dir, draft, "ca.pem");
    if (!s && server) s = copy(ctx, a->dir, draft, "crl.pem");
    if (!s) s = put_folder(ctx, draft, path);
    fli_free(above);
    fli_free(path);
    fli_free(draft);
    return s;
}

/* `request`: the key is elsewhere, and this is its public half; NULL: it is made here. */
static fl_status fill(authority *a, const order *o, gnutls_pubkey_t request)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_pubkey_t public = NULL;
    fli_pem key_text = {0}, cert = {0};
    fl_status s = need_new(a, o);
    if (!s && !request) s = fli_issue_key(a->ctx, &key, &key_text);
    if (!s && !request) s = fli_issue_public(a->ctx, key, &public);
    if (!s) s = issue(a, o, request ? request : public, &cert);
    if (!s) s = deliver(a, o, &cert, request ? NULL : &key_text);
    if (public) gnutls_pubkey_deinit(public);
    if (key) gnutls_x509_privkey_deinit(key);
    fli_pem_wipe(&key_text);
    gnutls_free(cert.data);
    return s;
}

static fl_status fill_order(fl_ctx *ctx, const char *dir, const order *o, gnutls_pubkey_t request)
{
    authority a;
    fl_status s = authority_open(ctx, dir, &a);
    if (!s) s = fill(&a, o, request);
    authority_close(&a);
    return s;
}

static fl_status need_host(fl_ctx *ctx, const char *host)
{
    unsigned char address[16];
    int ok = fli_cert_host_ok(host) && (!strchr(host, ':') || inet_pton(AF_INET6, host, address) == 1);
    return ok ? FL_OK
              : fli_fail(ctx, FL_ECONFIG, "\"%s\" is neither a host's name nor an address (no port, no brackets)",
                         host);
}

fl_status fli_cert_server(fl_ctx *ctx, const char *dir, const char *const *host, size_t hosts, fli_cert_wish wish)
{
    fl_status s = FL_OK;
    fli_clear(ctx);
    if (!hosts || hosts > FLI_CERT_HOSTS_MAX)
        return fli_fail(ctx, FL_ECONFIG, "a server is reached under 1 to %d names and addresses, not %zu",
                        (int)FLI_CERT_HOSTS_MAX, hosts);
    for (size_t i = 0; i < hosts && !s; i++) s = need_host(ctx, host[i]);
    return s ? s : fill_order(ctx, dir, &(order){FLI_CERT_SERVER, host[0], host, hosts, wish}, NULL);
}

static fl_status need_name(fl_ctx *ctx, fli_cert_kind kind, const char *name)
{
    return fli_net_name_ok(name)
               ? FL_OK
               : fli_fail(ctx, FL_ECONFIG,
                          "\"%s\" cannot be a %s's name: 1 to %d letters, digits, dots, hyphens and underscores, "
                          "no dot or hyphen first",
                          name, fli_cert_kind_name(kind), (int)FLI_NET_NAME_MAX);
}

static fl_status fill_named(fl_ctx *ctx, const char *dir, fli_cert_kind kind, const char *name, fli_cert_wish wish)
{
    fli_clear(ctx);
    fl_status s = need_name(ctx, kind, name);
    return s ? s : fill_order(ctx, dir, &(order){kind, name, NULL, 0, wish}, NULL);
}

fl_status fli_cert_client(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish)
{
    return fill_named(ctx, dir, FLI_CERT_CLIENT, name, wish);
}

fl_status fli_cert_viewer(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish)
{
    return fill_named(ctx, dir, FLI_CERT_VIEWER, name, wish);
}

/* ---- keys that stay where they are made ------------------------------------------------------------------------ */

static fl_status need_no_key(fl_ctx *ctx, const char *dir)
{
    char *key = fli_strf(ctx, "%s/key.pem", dir);
    if (!key) return FL_ENOMEM;
    fl_status s =
        fli_path_kind(key) ? fli_fail(ctx, FL_ECONFIG, "%s: is there already; a key is never replaced", key) : FL_OK;
    fli_free(key);
    return s;
}

fl_status fli_cert_request(fl_ctx *ctx, const char *dir, const char *name)
{
    gnutls_x509_privkey_t key = NULL;
    fli_pem key_text = {0}, request = {0};
    fli_clear(ctx);
    fl_status s = need_name(ctx, FLI_CERT_CLIENT, name);
    if (!s) s = need_no_key(ctx, dir);
    if (!s) s = fli_make_private_folder(ctx, dir);
    if (!s) s = fli_issue_key(ctx, &key, &key_text);
    if (!s) s = fli_issue_request(ctx, name, key, &request);
    if (!s) s = put_pem(ctx, dir, "request.pem", &request);
    if (!s) s = put_pem(ctx, dir, "key.pem", &key_text); /* last: until then it may be tried again */
    if (key) gnutls_x509_privkey_deinit(key);
    fli_pem_wipe(&key_text);
    gnutls_free(request.data);
    return s;
}

fl_status fli_cert_sign(fl_ctx *ctx, const char *dir, const char *request, fli_cert_wish wish,
                        char name[FLI_NET_NAME_MAX + 1])
{
    gnutls_pubkey_t key;
    fli_clear(ctx);
    fl_status s = fli_issue_read_request(ctx, request, name, FLI_NET_NAME_MAX + 1, &key);
    if (!s) s = need_name(ctx, FLI_CERT_CLIENT, name);
    if (!s) s = fill_order(ctx, dir, &(order){FLI_CERT_CLIENT, name, NULL, 0, wish}, key);
    if (key) gnutls_pubkey_deinit(key);
    return s;
}

/* ---- revocation, and what there is ------------------------------------------------------------------------------ */

/* fl_name_fn over the index. */
static const char *holder_at(const void *index, size_t i)
{
    const fli_cert_index *x = index;
    return i < x->lines ? x->line[i].name : NULL;
}

static fl_status revoke_name(authority *a, const char *name, size_t *count)
{
    char meant[FLI_MEANT_LEN];
    size_t found = 0;
    for (size_t i = 0; i < a->index.lines; i++) {
        fli_cert_line *l = a->index.line + i;
        if (strcmp(l->name, name)) continue;
        found++;
        if (l->revoked) continue;
        if (l->ends > a->now) ++*count;
        l->revoked = a->now;
    }
    if (!found)
        return fli_fail(a->ctx, FL_ECONFIG, "%s: there is no certificate of that name in %s%s", name, a->dir,
                        fli_meant(fl_nearest(name, holder_at, &a->index), meant));
    a->index.list++;
    fl_status s = save_index(a); /* first: what was begun is finished by asking again */
    return s ? s : publish(a);
}

fl_status fli_cert_revoke(fl_ctx *ctx, const char *dir, const char *name, size_t *count)
{
    authority a;
    *count = 0;
    fl_status s = authority_open(ctx, dir, &a);
    if (!s) s = revoke_name(&a, name, count);
    authority_close(&a);
    return s;
}

fl_status fli_cert_list(fl_ctx *ctx, const char *dir, fli_cert_fn *each, void *arg)
{
    fli_cert_index index;
    fli_clear(ctx);
    fli_cert_index_init(&index, ctx);
    fl_status s = need_authority(ctx, dir, 1);
    char *path = s ? NULL : fli_strf(ctx, "%s/index", dir);
    if (!s) s = path ? fli_cert_index_load(&index, path) : FL_ENOMEM;
    for (size_t i = 0; i < index.lines && !s; i++) each(arg, index.line + i);
    fli_free(path);
    fli_cert_index_fini(&index);
    return s;
}

const char *fli_day_text(int64_t when, char text[FLI_DAY_MAX])
{
    struct tm day = {0};
    time_t t = (time_t)when;
    gmtime_r(&t, &day);
    fli_snprintf(text, FLI_DAY_MAX, "%d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
    return text;
}
