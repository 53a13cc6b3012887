/* fedloom status: the state of a federation over a network. */
#include "cli/cli.h"

#include "net/client/status_client.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHOWN = 50 }; /* clients shown without --all */

typedef struct {
    words urls;
    fli_status_client_spec server;
    double every; /* 0: once */
    int all, json;
} request;

/* ---- the server's answer: anything may be missing or of another type ------------------------------------------- */

/* NaN: missing. */
static double number(const json_t *j, const char *name)
{
    const json_t *v = json_object_get(j, name);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static unsigned long long integer(const json_t *j, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(j, name));
    return n > 0 ? (unsigned long long)n : 0;
}

static const char *text(const json_t *j, const char *name)
{
    const char *s = json_string_value(json_object_get(j, name));
    return s ? s : "";
}

/* The same, cleaned for a terminal. */
static const char *clean(const json_t *j, const char *name, char out[256])
{
    snprintf(out, 256, "%s", text(j, name));
    return say_clean(out);
}

static const char *span(double s, char out[32])
{
    if (isnan(s) || s < 0)
        snprintf(out, 32, "-");
    else if (s < 120)
        snprintf(out, 32, "%.*f s", s < 1 ? 2 : s < 10 ? 1 : 0, s);
    else if (s < 7200)
        snprintf(out, 32, "%.0f min", s / 60);
    else
        snprintf(out, 32, s < 172800 ? "%.0f h" : "%.0f days", s / (s < 172800 ? 3600 : 86400));
    return out;
}

/* ---- for people ------------------------------------------------------------------------------------------------ */

static void print_run(const json_t *j)
{
    char a[256], b[256], c[256], d[256], last[32], left[32];
    const json_t *t = json_object_get(j, "round_seconds");
    unsigned long long round = integer(j, "round"), rounds = integer(j, "rounds"), clients = integer(j, "clients"),
                       missing = integer(j, "missing");
    double mean = number(t, "mean");
    printf("%s, round %llu of %llu: %s, %s (fedloom %s)\n", clean(j, "state", a), round, rounds, clean(j, "method", b),
           clean(j, "model", c), clean(j, "fedloom", d));
    printf("%llu of %llu clients joined, %llu awaited, %llu waiting\n", clients > missing ? clients - missing : 0,
           clients, integer(j, "awaited"), integer(json_object_get(j, "counters"), "waiting"));
    if (!isnan(mean))
        printf("a round takes %s, %s left\n", span(mean, last), span(mean * ((double)rounds - (double)round), left));
    if (*text(j, "error")) printf("%s\n", clean(j, "error", a));
}

static void print_checkpoint(const json_t *c)
{
    char why[256], took[32], ago[32];
    if (json_is_integer(json_object_get(c, "round")))
        printf("checkpoint after round %llu, %s ago: %llu bytes in %s\n", integer(c, "round"),
               span(fmax(0, (double)time(NULL) - number(c, "time")), ago), integer(c, "bytes"),
               span(number(c, "seconds"), took));
    if (*text(c, "error")) printf("no checkpoint could be written: %s\n", clean(c, "error", why));
}

/* The newest metrics, the same as `fedloom run` shows during a run. */
static void print_metrics(const json_t *m)
{
    const json_t *columns = json_object_get(m, "columns"), *rows = json_object_get(m, "rows");
    const json_t *row = json_array_get(rows, json_array_size(rows) - 1);
    size_t n = 0;
    for (size_t k = 1; k < json_array_size(columns); k++) {
        const char *name = json_string_value(json_array_get(columns, k));
        const fl_metric *metric = name ? fl_metric_find(name) : NULL;
        const json_t *v = json_array_get(row, k);
        char value[VALUE_MAX_LEN];
        if (!metric || !json_is_number(v) || !metric->shown[FL_VIEW_PROGRESS].label) continue;
        printf("%s%s %s", n++ ? ", " : "", metric->title, value_text(metric, json_number_value(v), value));
    }
    if (n) printf(" at round %llu\n", (unsigned long long)json_integer_value(json_array_get(row, 0)));
}

static void add_client(table *t, const json_t *p)
{
    static const char *const counts[] = {"answers", "dropped", "refused", "rejected"};
    char s[32];
    double asked = number(p, "asked");
    table_add(t, "%llu", integer(p, "client"));
    table_add(t, "%s", *text(p, "name") ? text(p, "name") : "-");
    if (isnan(asked))
        table_add(t, "%s", text(p, "state"));
    else
        table_add(t, "%s, %s", text(p, "state"), span(asked, s));
    table_add(t, "%llu", integer(p, "samples"));
    table_add(t, "%s", span(number(p, "heard"), s));
    table_add(t, "%s", span(number(p, "took"), s));
    table_add(t, "%s", span(number(p, "longest"), s));
    for (size_t i = 0; i < 4; i++) table_add(t, "%llu", integer(p, counts[i]));
}

static void print_clients(const json_t *j, size_t most)
{
    static const char *const heading[] = {"client",  "name",    "state",   "samples", "heard",   "last answer",
                                          "longest", "answers", "dropped", "refused", "rejected"};
    enum { COLUMNS = sizeof heading / sizeof *heading };
    const json_t *people = json_object_get(j, "people");
    size_t n = json_array_size(people), clients = (size_t)integer(j, "clients");
    table t;
    if (!n) return;
    putchar('\n');
    table_init(&t, COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++) table_add(&t, "%s", heading[i]);
    for (size_t i = 0; i < n && i < most; i++) add_client(&t, json_array_get(people, i));
    table_print(&t, 3, stdout);
    table_free(&t);
    if (n > most)
        printf("and %zu more: --all shows them\n", n - most);
    else if (clients > n)
        printf("and %zu more, which the server does not list\n", clients - n);
}

static void print_mishaps(const json_t *list)
{
    table t;
    if (!json_array_size(list)) return;
    putchar('\n');
    table_init(&t, 5);
    table_add(&t, "when"), table_add(&t, "client"), table_add(&t, "what"), table_add(&t, "times");
    table_add(&t, "why, the last time");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        table_add(&t, "%s", text(m, "time"));
        table_add(&t, "%s", *text(m, "name") ? text(m, "name") : "-");
        table_add(&t, "%s", text(m, "what"));
        table_add(&t, "%llu", integer(m, "times"));
        table_add(&t, "%s", text(m, "why"));
    }
    table_print(&t, 5, stdout);
    table_free(&t);
}

static void print(const request *r, const json_t *j)
{
    if (r->json) {
        json_out(json_incref((json_t *)j));
        return;
    }
    if (r->every > 0 && isatty(STDOUT_FILENO)) fputs("\033[H\033[2J", stdout);
    print_run(j);
    print_checkpoint(json_object_get(j, "checkpoint"));
    print_metrics(json_object_get(j, "metrics"));
    print_clients(j, r->all ? SIZE_MAX : SHOWN);
    print_mishaps(json_object_get(j, "mishaps"));
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static void rest(double seconds)
{
    struct timespec moment = {0, 100 * 1000 * 1000};
    for (double s = 0; s < seconds && !interrupt_seen(); s += 0.1) nanosleep(&moment, NULL);
}

/* Repeats if requested; then it also waits for a server that cannot be reached. */
static int look(fl_ctx *ctx, const request *r)
{
    fli_status_client *client;
    fl_status s = fli_status_client_new(ctx, &r->server, &client);
    if (s) return say_error(ctx), settings_exit(s);
    do {
        json_t *j;
        s = fli_status_client_look(client, &j);
        if (s) say_error(ctx);
        if (!s) print(r, j);
        json_decref(j);
        fflush(stdout);
        if (r->every > 0) rest(r->every);
    } while (r->every > 0 && s != FL_EREFUSED && !interrupt_seen() && !ferror(stdout));
    fli_status_client_free(client);
    return r->every > 0 && interrupt_seen() ? CLI_INTERRUPTED : settings_exit(s);
}

static int run(int argc, char **argv)
{
    request r = {0};
    const option options[] = {
        {"--certs", OPT_TEXT, &r.server.certs, TAKES_FOLDER},
        {"--insecure-http", OPT_FLAG, &r.server.insecure},
        {"--format", OPT_FORMAT, &r.json},
        {"--watch", OPT_REAL, &r.every},
        {"--all", OPT_FLAG, &r.all},
        {0},
    };
    int code = args_parse("status", options, argc, argv, &r.urls);
    if (!code && r.urls.n != 1) code = say_usage("status", r.urls.n ? "one URL at a time" : "which URL?");
    fl_ctx *ctx = code ? NULL : fl_ctx_new();
    if (!code && !ctx) code = (say("out of memory"), CLI_FAILED);
    if (!code) {
        r.server.url = r.urls.v[0];
        if (r.every > 0) interrupt_install(1);
        code = look(ctx, &r);
    }
    fl_ctx_free(ctx);
    args_free(&r.urls);
    return code;
}

static const char help[] = "usage: fedloom status URL (--certs DIR | --insecure-http) [--all]\n"
                           "                      [--format table|json] [--watch SECONDS]\n"
                           "\n"
                           "Shows how the federation of a `fedloom serve` stands: its round, its newest\n"
                           "metrics and checkpoint, every client with what it does and when it was heard\n"
                           "last, and whom the server dropped or turned away, and why. A browser with the\n"
                           "same certificate shows it at URL, with curves; URL/metrics has it for\n"
                           "Prometheus.\n"
                           "\n"
                           "Viewers may look, clients may not: `fedloom cert viewer ca dana` makes a\n"
                           "viewer's certificate.\n"
                           "\n"
                           "options:\n"
                           "  --certs DIR        folder of a viewer's certificate (`fedloom cert viewer`)\n"
                           "  --insecure-http    lets URL begin with http://, to this machine itself alone\n"
                           "  --all              every client that the server lists, not the first 50\n"
                           "  --format FORMAT    table, or json: all that the server says\n"
                           "  --watch SECONDS    shows it again and again, until Ctrl-C\n"
                           "\n"
                           "examples:\n"
                           "  fedloom status https://federation.example:8443 --certs ca/viewers/dana\n"
                           "  fedloom status http://127.0.0.1:8443 --insecure-http --watch 2\n"
                           "\n"
                           "exit codes: 0 success, 1 there was no answer, 2 wrong usage, 130 interrupted\n";

const command cmd_status = {"status", "how a federation over a network stands", help, run};
