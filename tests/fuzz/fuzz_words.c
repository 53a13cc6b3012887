/* Fuzz target: the small formats of a federation over a network, from any bytes: versions, names, addresses and URLs,
 * lists of names, a server's roster and what a client keeps. The first byte says which. What is taken is as it should
 * be, and is the same when it was written and is read again. */
#include "base/file.h"
#include "net/common/protocol.h"
#include "net/client/http_client.h"
#include "net/client/client_store.h"
#include "net/server/roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VERSION, NAME, ADDRESS, URL, LIST, ROSTER, KEPT, KINDS };
enum { CLIENTS = 4 };

static struct {
    fl_ctx *ctx;
    char folder[64];
} here;

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_words: %s %s\n", what, here.ctx ? fl_ctx_error(here.ctx) : "");
    abort();
}

static void said(fl_status s)
{
    demand(!s == !*fl_ctx_error(here.ctx), "a failure without a sentence, or the other way round");
}

static void leave(void)
{
    fli_remove_folder(here.ctx, here.folder);
    fl_ctx_free(here.ctx);
}

static void arrive(void)
{
    if (here.ctx) return;
    /* in memory, where there is such a place: everything is flushed to the disk */
    strcpy(here.folder, "/dev/shm/fedloom-fuzz-XXXXXX");
    if (!mkdtemp(here.folder)) demand(mkdtemp(strcpy(here.folder, "/tmp/fedloom-fuzz-XXXXXX")) != NULL, "no folder");
    demand((here.ctx = fl_ctx_new()) != NULL, "no context");
    atexit(leave);
}

static char *put(const char *name, const void *p, size_t n)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", here.folder, name);
    FILE *f = fopen(path, "wb");
    demand(f && fwrite(p, 1, n, f) == n && !fclose(f), "no file");
    return path;
}

/* ---- texts --------------------------------------------------------------------------------------------------- */

static void try_version(const char *text)
{
    char sentence[300] = "", again[64];
    long version = 0, oldest = 0;
    const char *wrong = fli_net_version_wrong(text, sentence, sizeof sentence);
    demand(!wrong == !*sentence, "a version that is wrong, and nobody says so");
    if (wrong) return;
    demand(sscanf(text, "%ld %ld", &version, &oldest) == 2, "a version that is none");
    snprintf(again, sizeof again, "%ld %ld", version, oldest);
    demand(strlen(text) <= 20 && oldest <= FLI_NET_VERSION && version >= FLI_NET_OLDEST, "a version that does not fit");
}

static void try_name(const char *text)
{
    if (!fli_net_name_ok(text)) return;
    demand(*text && *text != '.' && *text != '-' && strlen(text) <= FLI_NET_NAME_MAX, "a name that begins or ends ill");
    demand(!strpbrk(text, "/\\\"' \t\r\n%:;"), "a name that means something to somebody");
}

static void try_address(const char *text)
{
    char host[256] = "";
    uint16_t port = 1;
    fl_status s = fli_address_split(here.ctx, text, host, &port);
    said(s);
    if (!s) demand(strlen(host) <= strlen(text), "a host from nowhere");
    if (fli_host_is_local(text)) demand(!s && *host, "a local host that is no host");
}

static void try_url(const char *text)
{
    fli_http_call *call = NULL;
    const fli_http_call_spec spec = {.url = text, .plain = 1};
    fl_status s = fli_http_call_new(here.ctx, &spec, &call);
    said(s);
    if (!s) demand(!strncasecmp(text, "http:", 5), "a URL that is not for plain HTTP");
    if (!s) fli_http_call_free(call);
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static void count_names(fli_roster *r)
{
    size_t kept = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const char *name = fli_roster_name(r, i);
        if (!name) continue;
        kept++;
        demand(fli_net_name_ok(name) && fli_roster_find(r, name) == i, "a name with another's number");
    }
    demand(kept == fli_roster_entered(r), "more are kept than there are");
}

static void try_list(const uint8_t *p, size_t n)
{
    fli_roster *r = NULL;
    const fli_roster_spec spec = {.clients = CLIENTS, .list = put("list", p, n)};
    fl_status s = fli_roster_open(here.ctx, &spec, &r);
    said(s);
    if (!s) count_names(r);
    fli_roster_free(r);
}

/* Somebody joins, and is there when the file is read again. */
static void try_roster(const uint8_t *p, size_t n)
{
    fli_roster *r = NULL;
    const fli_roster_spec spec = {.clients = CLIENTS, .file = put("roster", p, n)};
    uint32_t client = FLI_NO_CLIENT;
    fl_status s = fli_roster_open(here.ctx, &spec, &r);
    said(s);
    if (s) return;
    count_names(r);
    int joined =
        !fli_roster_reserve(r, here.ctx, "newcomer", &client) && !fli_roster_enter(r, here.ctx, client, "card", 4);
    size_t kept = fli_roster_entered(r);
    fli_roster_free(r);
    fli_clear(here.ctx);
    demand(!fli_roster_open(here.ctx, &spec, &r), "a roster that cannot be read again");
    demand(fli_roster_entered(r) == kept && (!joined || fli_roster_find(r, "newcomer") == client),
           "a roster that forgets");
    fli_roster_free(r);
}

static void try_kept(const uint8_t *p, size_t n)
{
    char folder[100];
    fli_digest run = {{0}};
    fli_client_store *k = NULL;
    unsigned char *got = NULL;
    size_t bytes = 0;
    snprintf(folder, sizeof folder, "%s/keep", here.folder);
    demand(!fli_client_store_open(here.ctx, folder, &k) && !fli_client_store_run(k, &run), "nothing can be kept");
    put("keep/run-0000000000000000/state", p, n);
    fl_status s = fli_client_store_read(k, FLI_CLIENT_STORE_STATE, &got, &bytes);
    said(s);
    demand(s || (got && bytes < n), "something is kept that was not there");
    fli_free(got);
    fli_client_store_close(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > 4096) return 0;
    arrive();
    fli_clear(here.ctx);
    const uint8_t *p = data + 1;
    size_t n = size - 1;
    char *text = memcpy(malloc(n + 1), p, n);
    text[n] = 0;
    switch (*data % KINDS) {
    case VERSION: try_version(text); break;
    case NAME: try_name(text); break;
    case ADDRESS: try_address(text); break;
    case URL: try_url(text); break;
    case LIST: try_list(p, n); break;
    case ROSTER: try_roster(p, n); break;
    default: try_kept(p, n);
    }
    free(text);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

enum { LONGEST = 4096 };

static const char *const seeds[KINDS] = {
    [VERSION] = "1 1",
    [NAME] = "alice-7.example_x",
    [ADDRESS] = "[::1]:8443",
    [URL] = "http://127.0.0.1:8080/",
    [LIST] = "alice\nbob\r\ncarol\ndave\n",
    [ROSTER] = ("{\"roster\": 1, \"clients\": 4}\n{\"client\": 0, \"name\": \"alice\", \"card\": \"00ff\"}\n"
                "{\"client\": 2, \"name\": \"bob\", \"card\": \"0a\"}\n"),
    [KEPT] = "flkept1\n", /* and the rest of its head, all of it zeros */
};
static const char *const tokens[] = {"\n",        " ",    "1",       "99999999999999999999",
                                     "localhost", "127.", "[",       "]",
                                     ":",         "@",    "\"",      "{",
                                     "}",         "-1",   "\\u0000", "alice",
                                     "..",        "\xff", "#",       "?"};
static const dialect any = {tokens, sizeof tokens / sizeof *tokens, LONGEST - 1, 0};

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 5000;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        size_t kind = (size_t)i % KINDS;
        uint8_t buf[LONGEST] = {(uint8_t)kind};
        size_t n = strlen(seeds[kind]);
        memcpy(buf + 1, seeds[kind], n);
        if (kind == KEPT) n += 16;
        for (uint64_t k = fli_rng_below(&r, 5); k; k--) n = mutate(&any, &r, buf + 1, n);
        LLVMFuzzerTestOneInput(buf, n + 1);
    }
    printf("fuzz_words: %ld inputs, no failure\n", times);
    return 0;
}

#endif
