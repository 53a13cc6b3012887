#include "net/client/http_client.h"

#include "base/number.h"
#include "base/os.h"
#include "net/common/protocol.h"

#include <curl/curl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ==== the pause between tries ===================================================================================== */

void fli_http_backoff_init(fli_http_backoff *b)
{
    memset(b, 0, sizeof *b);
    if (getrandom(&b->random, sizeof b->random, GRND_NONBLOCK) != (ssize_t)sizeof b->random)
        b->random = (uint64_t)(1e9 * fli_clock_now()); /* shortly after boot there is no entropy */
    b->random |= 1;
}

/* xorshift64*: good enough for a pause. */
static double uniform(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return (double)((x * 0x2545F4914F6CDD1Du) >> 11) * 0x1p-53;
}

double fli_http_backoff_next(fli_http_backoff *b, double least)
{
    const double first = 0.5, most = 30;
    double bound = first;
    if (!b->tries) b->since = fli_clock_now();
    for (unsigned i = 0; i < b->tries && bound < most; i++) bound *= 2;
    b->tries++;
    return fmin(least, FLI_BACKOFF_SERVER_MAX) + uniform(&b->random) * fmin(bound, most);
}

double fli_http_backoff_for(const fli_http_backoff *b) { return b->tries ? fli_clock_now() - b->since : 0; }

void fli_http_backoff_reset(fli_http_backoff *b) { b->tries = 0; }

/* ==== one call ==================================================================================================== */

enum { MOST_HEAD = 64 * 1024 }; /* bytes of all headers of a reply, interim replies included */

static const double passing_s = 300; /* seconds for which an error that may pass is tried again, at most */

struct fli_http_call {
    fl_ctx *ctx;
    CURL *curl;
    char *base; /* the URL without trailing slashes */
    char *proxy;
    struct curl_slist *headers[2]; /* for packets; for JSON and requests without a body */
    int (*stopping)(void *arg);
    void *arg;
    double stall_s;
    int64_t begins, ends; /* dates of the certificate; 0: not known */
    /* the current request: */
    unsigned char *body;
    size_t n, capacity, most;
    size_t head_bytes;
    int cut, stopped, out_of_memory, flooded;
    int head_ended;   /* the reply's head is complete */
    char version[32]; /* the server's FLI_NET_HEADER; "": none */
    unsigned retry;   /* the server's Retry-After; 0: none */
    double passing;   /* seconds for which the error is worth another try */
    char error[CURL_ERROR_SIZE];
    char why[512];
};

/* ---- replies --------------------------------------------------------------------------------------------- */

static int make_room(fli_http_call *c, size_t n)
{
    size_t want = 2 * c->capacity > n ? 2 * c->capacity : n;
    if (n <= c->capacity) return 1;
    if (want < 4096) want = 4096;
    if (fli_grow(c->ctx, (void **)&c->body, c->n, want, 1)) return 0;
    c->capacity = want;
    return 1;
}

/* For libcurl. A return value below size * n ends the transfer. */
static size_t take_body(char *p, size_t size, size_t n, void *call)
{
    fli_http_call *c = call;
    size_t bytes = size * n, room = c->most - c->n;
    size_t taken = bytes < room ? bytes : room;
    c->cut = taken < bytes;
    if (!make_room(c, c->n + taken + 1)) {
        c->out_of_memory = 1;
        return 0;
    }
    memcpy(c->body + c->n, p, taken);
    c->n += taken;
    c->body[c->n] = 0;
    return c->cut ? 0 : bytes;
}

/* Whether the line is that header. Copies its value without blanks around it; "" if it does not fit into n bytes. */
static int take_value(const char *p, size_t bytes, const char *name, char *value, size_t n)
{
    size_t at = strlen(name), end = bytes;
    if (bytes <= at || strncasecmp(p, name, at) || p[at++] != ':') return 0;
    while (at < end && (p[at] == ' ' || p[at] == '\t')) at++;
    while (end > at && strchr(" \t\r\n", p[end - 1])) end--;
    if (end - at >= n) end = at;
    memcpy(value, p + at, end - at);
    value[end - at] = 0;
    return 1;
}

/* Accepts whole seconds only: a date would need a clock that agrees with the server's. */
static unsigned read_seconds(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits && digits < 8 && !text[digits] ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* For libcurl. The last of several headers of one name counts; a new status line clears them. A return value below size
 * * n ends the transfer. */
static size_t take_header(char *p, size_t size, size_t n, void *call)
{
    fli_http_call *c = call;
    char value[32];
    size_t bytes = size * n;
    c->flooded = bytes > MOST_HEAD - c->head_bytes;
    if (c->flooded) return 0;
    c->head_bytes += bytes;
    if (bytes > 5 && !memcmp(p, "HTTP/", 5)) c->head_ended = 0, c->version[0] = 0, c->retry = 0;
    if (bytes && (*p == '\r' || *p == '\n')) c->head_ended = 1;
    take_value(p, bytes, FLI_NET_HEADER, c->version, sizeof c->version); /* no valid version is longer */
    if (take_value(p, bytes, "Retry-After", value, sizeof value)) c->retry = read_seconds(value);
    return bytes;
}

static int on_progress(void *call, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t e)
{
    fli_http_call *c = call;
    (void)a, (void)b, (void)d, (void)e;
    c->stopped = c->stopping && c->stopping(c->arg);
    return c->stopped;
}

/* ---- making one ------------------------------------------------------------------------------------------ */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_status;
static void start_curl(void) { curl_status = curl_global_init(CURL_GLOBAL_DEFAULT); }

/* Why these parts of a URL are not allowed, as the end of a sentence; NULL: they are. */
static const char *url_wrong(CURLU *u, const char *scheme, const char *host, int plain)
{
    char *part = NULL;
    const char *wrong = NULL;
    if (!curl_url_get(u, CURLUPART_USER, &part, 0)) wrong = "it must not name a user: certificates say who one is";
    curl_free(part), part = NULL;
    if (!wrong && !curl_url_get(u, CURLUPART_QUERY, &part, 0)) wrong = "it must not have a query";
    curl_free(part), part = NULL;
    if (!wrong && !curl_url_get(u, CURLUPART_FRAGMENT, &part, 0)) wrong = "it must not have a # in it";
    curl_free(part);
    if (wrong) return wrong;
    if (!strcmp(scheme, "https")) return NULL;
    if (strcmp(scheme, "http")) return "it must begin with https://";
    if (!plain) return "plain http is only for trials on one machine, with --insecure-http";
    return fli_host_is_local(host) ? NULL : "plain http is only for this machine itself: localhost, 127.0.0.1 or [::1]";
}

static fl_status check_url(fl_ctx *ctx, const char *url, int plain, int *secure)
{
    char *scheme = NULL, *host = NULL;
    CURLU *u = curl_url();
    if (!u) return fli_fail(ctx, FL_ENOMEM, "out of memory");
    const char *wrong = "it is no URL such as https://host:8443";
    if (strlen(url) < 2048 && !curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) &&
        !curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) && !curl_url_get(u, CURLUPART_HOST, &host, 0))
        wrong = url_wrong(u, scheme, host, plain);
    *secure = scheme && !strcmp(scheme, "https");
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(u);
    return wrong ? fli_fail(ctx, FL_ECONFIG, "%.200s: %s", url, wrong) : FL_OK;
}

static int add_header(fli_http_call *c, int which, const char *name, const char *value)
{
    char line[256];
    fli_snprintf(line, sizeof line, "%s:%s%s", name, *value ? " " : "", value);
    struct curl_slist *longer = curl_slist_append(c->headers[which], line);
    if (longer) c->headers[which] = longer;
    return longer != NULL;
}

static int add_headers(fli_http_call *c, const char *name, const char *instance)
{
    int ok = 1;
    for (int i = 0; i < 2 && ok; i++)
        ok = add_header(c, i, FLI_NET_HEADER, fli_net_version_text()) && add_header(c, i, "Expect", "") &&
             add_header(c, i, "User-Agent", "fedloom/" FL_VERSION) &&
             add_header(c, i, "Content-Type", i ? "application/json" : FLI_NET_PACKET) &&
             (!name || add_header(c, i, FLI_NET_NAME, name)) &&
             (!instance || add_header(c, i, FLI_NET_INSTANCE, instance));
    return ok;
}

static int set_bounds(fli_http_call *c, const fli_http_call_spec *spec)
{
    CURL *h = c->curl;
    double connect_s = spec->connect_s > 0 ? spec->connect_s : 20;
    return curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) || curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L) ||
           curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ||
           curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)(1000 * connect_s)) ||
           curl_easy_setopt(h, CURLOPT_PROXY, c->proxy ? c->proxy : "") || curl_easy_setopt(h, CURLOPT_NOPROXY, "") ||
           curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L) || curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->error) ||
           curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body) || curl_easy_setopt(h, CURLOPT_WRITEDATA, c) ||
           curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header) || curl_easy_setopt(h, CURLOPT_HEADERDATA, c) ||
           curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress) || curl_easy_setopt(h, CURLOPT_XFERINFODATA, c) ||
           curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
}

static int set_trust(fli_http_call *c, const fli_http_call_spec *spec, int secure)
{
    CURL *h = c->curl;
    if (curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, secure ? "https" : "http")) return 1;
    if (!secure) return 0;
    return curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) ||
           curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, 1L) || curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, 2L) ||
           curl_easy_setopt(h, CURLOPT_CAPATH, NULL) || curl_easy_setopt(h, CURLOPT_CAINFO, spec->ca_path) ||
           curl_easy_setopt(h, CURLOPT_SSLCERT, spec->cert_path) || curl_easy_setopt(h, CURLOPT_SSLKEY, spec->key_path);
}

static fl_status check(fl_ctx *ctx, const fli_http_call_spec *spec, int *secure)
{
    fl_status s = check_url(ctx, spec->url, spec->plain, secure);
    if (s) return s;
    if (*secure && (!spec->ca_path || !spec->cert_path || !spec->key_path))
        return fli_fail(ctx, FL_ECONFIG, "%.200s: https needs the folder with this client's certificate", spec->url);
    if (!*secure && spec->proxy)
        return fli_fail(ctx, FL_ECONFIG, "%.200s: plain http goes through no proxy, as that is another machine",
                        spec->url);
    return FL_OK;
}

fl_status fli_http_call_check(fl_ctx *ctx, const fli_http_call_spec *spec)
{
    int secure = 0;
    return check(ctx, spec, &secure);
}

static fl_status prepare(fli_http_call *c, const fli_http_call_spec *spec)
{
    int secure = 0;
    fl_status s = check(c->ctx, spec, &secure);
    if (s) return s;
    if (!(c->base = fli_strdup(c->ctx, spec->url))) return FL_ENOMEM;
    for (size_t n = strlen(c->base); n && c->base[n - 1] == '/'; n--) c->base[n - 1] = 0;
    if (spec->proxy && !(c->proxy = fli_strdup(c->ctx, spec->proxy))) return FL_ENOMEM;
    if (!(c->curl = curl_easy_init()) || !add_headers(c, secure ? NULL : spec->name, spec->instance))
        return fli_fail(c->ctx, FL_ENOMEM, "out of memory");
    if (set_bounds(c, spec) || set_trust(c, spec, secure))
        return fli_fail(c->ctx, FL_ESYSTEM, "libcurl (%s) lacks something that is needed", curl_version());
    return FL_OK;
}

fl_status fli_http_call_new(fl_ctx *ctx, const fli_http_call_spec *spec, fli_http_call **out)
{
    pthread_once(&curl_once, start_curl);
    if (curl_status) return fli_fail(ctx, FL_ESYSTEM, "libcurl does not start: %s", curl_easy_strerror(curl_status));
    fli_http_call *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = ctx;
    c->stopping = spec->stopping;
    c->arg = spec->arg;
    c->begins = spec->begins;
    c->ends = spec->ends;
    c->stall_s = spec->stall_s > 0 ? spec->stall_s : 30;
    fl_status s = prepare(c, spec);
    if (s)
        fli_http_call_free(c);
    else
        *out = c;
    return s;
}

void fli_http_call_free(fli_http_call *c)
{
    if (!c) return;
    curl_easy_cleanup(c->curl);
    for (int i = 0; i < 2; i++) curl_slist_free_all(c->headers[i]);
    fli_free(c->body);
    fli_free(c->base);
    fli_free(c->proxy);
    fli_free(c);
}

/* ---- calling --------------------------------------------------------------------------------------------- */

/* Errors that come from the other side itself, not from the way to it: another try does not help at once. */
static int hopeless(CURLcode code)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT: return 1;
    default: return 0;
    }
}

static fli_http_call_end no_answer(fli_http_call *c, CURLcode code)
{
    if (c->stopped) return FLI_CALL_STOPPED;
    fli_snprintf(c->why, sizeof c->why, "%.150s: %.200s", c->base, *c->error ? c->error : curl_easy_strerror(code));
    if (c->out_of_memory) fli_snprintf(c->why, sizeof c->why, "there is no memory for what %.150s sends", c->base);
    if (c->flooded) fli_snprintf(c->why, sizeof c->why, "%.150s sends headers without an end", c->base);
    /* Either the server's certificate was renewed wrongly, or a clock is wrong for a moment. */
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_ISSUER_ERROR) c->passing = passing_s;
    return hopeless(code) ? FLI_CALL_WRONG : FLI_CALL_AGAIN;
}

/* For how many seconds a 403 is worth another try: the server says so if a clock may be wrong, or another process of
 * this client may be about to end. 0: it is final. */
static double may_pass(const fli_http_call *c, const fli_http_answer *r)
{
    int64_t now = (int64_t)time(NULL);
    json_t *root = r->code == 403 ? fli_http_answer_json(r) : NULL;
    double seconds = json_number_value(json_object_get(root, "again"));
    if (json_object_get(root, "clock") && c->ends && (now < c->begins || now >= c->ends))
        seconds = 0; /* by this side's clock, too, it has ended or is not valid yet */
    json_decref(root);
    return seconds > 0 ? fmin(seconds, passing_s) : 0;
}

static int is_later(long code) { return code >= 500 || code == 408 || code == 429; }

/* Judges a complete reply. It may come from a proxy, if the server is away, and not be of this protocol. */
static fli_http_call_end judge(fli_http_call *c, fli_http_answer *r)
{
    char said[200], wrong[200];
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &r->code);
    const char *version = fli_net_version_wrong(*c->version ? c->version : NULL, wrong, sizeof wrong);
    fli_http_answer_text(r, "error", said, sizeof said);
    if (is_later(r->code) || (!version && r->code < 300)) {
        fli_snprintf(c->why, sizeof c->why, "%.150s answers %ld%s%s", c->base, r->code, *said ? ": " : "", said);
        return is_later(r->code) ? FLI_CALL_AGAIN : FLI_CALL_DONE;
    }
    if (r->code >= 300 && r->code < 400)
        fli_snprintf(c->why, sizeof c->why, "%.150s redirects (%ld), which is not followed", c->base, r->code);
    else if (version)
        fli_snprintf(c->why, sizeof c->why, "%.150s: %s", c->base, *said && r->code == 426 ? said : version);
    else
        fli_snprintf(c->why, sizeof c->why, "%.150s refuses (%ld): %s", c->base, r->code,
                     *said ? said : "it does not say why");
    switch (version || r->code < 400 ? 0 : r->code) {
    case 400:
    case 409:
    case 410:
    case 411:
    case 413:
    case 422: return FLI_CALL_DONE;
    default: c->passing = version ? 0 : may_pass(c, r); return FLI_CALL_WRONG;
    }
}

/* Whether the reply is complete. If a connection closes within a reply's head, libcurl takes it for a reply without a
 * body. So a reply counts only if its head is complete and gives a length, or its code is 204. */
static int is_whole(fli_http_call *c)
{
    curl_off_t length = -1;
    long code = 0;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(c->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return c->head_ended && (length >= 0 || code == 204);
}

static fli_http_call_end perform(fli_http_call *c, const char *path, int wait, size_t most, fli_http_answer *out)
{
    char url[2400], query[32] = "";
    *out = (fli_http_answer){0};
    if (wait >= 0) fli_snprintf(query, sizeof query, "?wait=%d", wait);
    fli_snprintf(url, sizeof url, "%s%s%s", c->base, path, query);
    c->n = c->head_bytes = 0;
    c->most = most;
    c->cut = c->stopped = c->out_of_memory = c->flooded = c->head_ended = 0;
    c->version[0] = c->error[0] = 0;
    c->retry = 0;
    c->passing = 0;
    long patience = (long)c->stall_s + (wait > 0 ? wait : 0);
    if (!make_room(c, 1)) return no_answer(c, CURLE_OUT_OF_MEMORY);
    c->body[0] = 0;
    if (curl_easy_setopt(c->curl, CURLOPT_URL, url) || curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_LIMIT, 1L) ||
        curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_TIME, patience ? patience : 1))
        return no_answer(c, CURLE_OUT_OF_MEMORY);
    CURLcode code = curl_easy_perform(c->curl);
    *out = (fli_http_answer){.body = c->body, .n = c->n, .cut = c->cut, .retry = c->retry};
    if (!code && !is_whole(c)) code = CURLE_PARTIAL_FILE;
    return code && !c->cut ? no_answer(c, code) : judge(c, out);
}

fli_http_call_end fli_http_call_get(fli_http_call *c, const char *path, int wait, size_t most, fli_http_answer *out)
{
    curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers[1]);
    return perform(c, path, wait, most, out);
}

fli_http_call_end fli_http_call_post(fli_http_call *c, const char *path, const char *type, const void *body, size_t n,
                                     fli_http_answer *out)
{
    curl_easy_setopt(c->curl, CURLOPT_POST, 1L);
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers[strcmp(type, FLI_NET_PACKET) != 0]);
    return perform(c, path, -1, FLI_NET_SMALL_BODY, out);
}

const char *fli_http_call_why(const fli_http_call *c) { return c->why; }

/* For how many seconds a call that ended as FLI_CALL_WRONG is worth another try, because the error may pass: a clock, a
 * certificate, or another process of this client that has just ended. 0: it is final. */
static double call_passing(const fli_http_call *c) { return c->passing; }

/* ---- JSON ------------------------------------------------------------------------------------------------ */

json_t *fli_http_answer_json(const fli_http_answer *r)
{
    if (!r->n || r->n > FLI_NET_SMALL_BODY) return NULL;
    locale_t before = fli_locale_enter();
    json_t *root = json_loadb((const char *)r->body, r->n, JSON_REJECT_DUPLICATES, NULL);
    fli_locale_leave(before);
    return root;
}

void fli_http_answer_text(const fli_http_answer *r, const char *name, char *text, size_t n)
{
    *text = 0;
    json_t *root = fli_http_answer_json(r);
    const char *said = json_string_value(json_object_get(root, name));
    if (said) fli_snprintf(text, n, "%s", said);
    for (char *c = text; *c; c++) /* the text may go to a terminal; fedloom servers send ASCII only */
        if (*c < ' ' || *c > '~') *c = '?';
    json_decref(root);
}

int fli_http_answer_flag(const fli_http_answer *r, const char *name, int otherwise)
{
    json_t *root = fli_http_answer_json(r);
    const json_t *said = json_object_get(root, name);
    int flag = json_is_boolean(said) ? json_is_true(said) : otherwise;
    json_decref(root);
    return flag;
}

/* ==== calls with retries ========================================================================================== */

static const double finish_seconds = 5; /* seconds that a call may still take once the program is to end */
static const double tell_every = 60;    /* seconds between two lines about a server that does not answer */
static const double longest_nap = .1;   /* seconds between two calls of `stopping` */

int fli_retry_stopping(void *retry)
{
    fli_retry *r = retry;
    if (!r->stopping || !r->stopping(r->arg)) return 0;
    if (r->stop_seen <= 0) r->stop_seen = fli_clock_now();
    return !r->finishing || fli_clock_now() > r->stop_seen + finish_seconds;
}

static fl_status nap(fli_retry *r, double seconds)
{
    for (double end = fli_clock_now() + seconds, left; (left = end - fli_clock_now()) > 0;) {
        if (fli_retry_stopping(r)) return FL_EDONE;
        if (left > longest_nap) left = longest_nap;
        nanosleep(&(struct timespec){0, (long)(1e9 * left)}, NULL);
    }
    return fli_retry_stopping(r) ? FL_EDONE : FL_OK;
}

fl_status fli_retry_pause(fli_retry *r) { return nap(r, fli_http_backoff_next(&r->backoff, 0)); }

/* Logs the first of several failures in a row, then one every minute. */
static void say_away(fli_retry *r)
{
    char quoted[300], line[500], end[80] = "patience=none stop=\"Ctrl-C, or --patience SECONDS\"";
    double now = fli_clock_now(), waited = fli_http_backoff_for(&r->backoff);
    if (r->backoff.tries && now < r->told_at + tell_every) return;
    r->told_at = now;
    if (r->patience > 0) fli_snprintf(end, sizeof end, "patience=%g", r->patience);
    fli_net_say(r->log, "away", "seconds=%.0f %s why=%s", waited, end,
                fli_net_quote(fli_http_call_why(r->call), quoted, sizeof quoted));
    if (!r->tell) return;
    if (r->patience > 0)
        fli_snprintf(end, sizeof end, "gives up after %g s", r->patience);
    else
        fli_snprintf(end, sizeof end, "Ctrl-C ends it, --patience SECONDS sets a limit");
    fli_snprintf(line, sizeof line, "%.300s; no answer for %.0f s, trying again (%s)", fli_http_call_why(r->call),
                 waited, end);
    r->tell(r->arg, line);
}

/* Logs once what is wrong, and until when it is tried again. */
static void say_wrong(fli_retry *r, double seconds)
{
    char quoted[300], line[500], until[32];
    struct tm utc;
    time_t end = time(NULL) + (time_t)seconds;
    gmtime_r(&end, &utc);
    strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%SZ", &utc);
    fli_net_say(r->log, "wrong", "until=%s why=%s", until,
                fli_net_quote(fli_http_call_why(r->call), quoted, sizeof quoted));
    fli_snprintf(line, sizeof line, "%.350s; trying again until %s", fli_http_call_why(r->call), until);
    if (r->tell) r->tell(r->arg, line);
}

/* settle for FLI_CALL_WRONG: FL_EBUSY while the error may pass, else FL_EREFUSED. */
static fl_status settle_wrong(fli_retry *r)
{
    double seconds = call_passing(r->call), now = fli_clock_now();
    if (r->patience > 0) seconds = fmin(seconds, r->patience);
    if (seconds > 0 && r->wrong_since <= 0) {
        r->wrong_since = now;
        say_wrong(r, seconds);
    }
    if (seconds <= 0 || now >= r->wrong_since + seconds)
        return fli_fail(r->ctx, FL_EREFUSED, "%s", fli_http_call_why(r->call));
    r->broken = 1;
    fl_status s = nap(r, fli_http_backoff_next(&r->backoff, 0));
    return s ? s : FL_EBUSY;
}

/* The status of a call that ended this way, after a pause if it is to be tried again: FL_EBUSY. */
static fl_status settle(fli_retry *r, fli_http_call_end end, const fli_http_answer *answer)
{
    switch (end) {
    case FLI_CALL_DONE:
        fli_http_backoff_reset(&r->backoff);
        r->wrong_since = 0;
        return FL_OK;
    case FLI_CALL_STOPPED: return FL_EDONE;
    case FLI_CALL_WRONG: return settle_wrong(r);
    case FLI_CALL_AGAIN: break;
    }
    fli_clear(r->ctx);
    r->broken = 1;
    say_away(r);
    if (r->patience > 0 && fli_http_backoff_for(&r->backoff) > r->patience)
        return fli_fail(r->ctx, FL_EIO, "no answer for %g seconds: %s", r->patience, fli_http_call_why(r->call));
    fl_status s = nap(r, fli_http_backoff_next(&r->backoff, answer->retry));
    return s ? s : FL_EBUSY;
}

fl_status fli_retry_get(fli_retry *r, const char *path, int wait, size_t most, fli_http_answer *out)
{
    fl_status s;
    do s = settle(r, fli_http_call_get(r->call, path, wait, most, out), out);
    while (s == FL_EBUSY);
    return s;
}

fl_status fli_retry_post(fli_retry *r, const char *path, const char *type, const void *body, size_t n,
                         fli_http_answer *out)
{
    fl_status s;
    do s = settle(r, fli_http_call_post(r->call, path, type, body, n, out), out);
    while (s == FL_EBUSY);
    return s;
}
