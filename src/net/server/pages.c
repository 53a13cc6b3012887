/* The replies of the server: a function for each page, and the table of all pages at the end. Pages for viewers come
 * first, then those by which clients take part. */
#include "net/server/pages.h"

#include "base/number.h"
#include "base/os.h"
#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ==== /metrics ==================================================================================================== */

/* The run as numbers for Prometheus, in its text format, version 0.0.4. */

/* ---- the format ------------------------------------------------------------------------------------------------- */

static void metric_head(fli_text *t, const char *name, const char *type, const char *help)
{
    fli_text_addf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metric_value(fli_text *t, double v)
{
    if (isnan(v) || isinf(v))
        fli_text_add(t, isnan(v) ? " NaN\n" : v > 0 ? " +Inf\n" : " -Inf\n");
    else
        fli_text_addf(t, " %.17g\n", v);
}

static void metric_line(fli_text *t, const char *name, const char *type, const char *help, double v)
{
    metric_head(t, name, type, help);
    fli_text_add(t, name);
    metric_value(t, v);
}

static void metric_gauge(fli_text *t, const char *name, const char *help, double v)
{
    metric_line(t, name, "gauge", help, v);
}

static void metric_counter(fli_text *t, const char *name, const char *help, const atomic_uint_fast64_t *v)
{
    metric_line(t, name, "counter", help, (double)atomic_load(v));
}

/* A label's value; line breaks, quotes and backslashes are escaped. */
static void metric_label(fli_text *t, const char *before, const char *text)
{
    fli_text_addf(t, "%s\"", before);
    for (; *text; text++) {
        if (*text == '\n')
            fli_text_add(t, "\\n");
        else
            fli_text_addf(t, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    }
    fli_text_add(t, "\"");
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static const char *phase_name(fli_net_phase phase)
{
    static const char *const names[] = {"joining", "running", "draining", "running", "draining", "over"};
    return names[phase];
}

static void add_run(fli_text *t, fli_page_context *context, const fli_journal_sums *s)
{
    fli_net_phase phase = fli_dispatch_phase(context->dispatch);
    metric_head(t, "fedloom_info", "gauge", "What runs here; always 1.");
    metric_label(t, "fedloom_info{version=", FL_VERSION);
    metric_label(t, ",method=", context->federation.method);
    metric_label(t, ",model=", context->federation.model);
    fli_text_add(t, "} 1\n");
    metric_head(t, "fedloom_state", "gauge", "1 for the state that the server is in.");
    for (int i = 0; i < 4; i++) {
        static const fli_net_phase shown[] = {FLI_NET_JOINING, FLI_NET_RUNNING, FLI_NET_DRAINING, FLI_NET_OVER};
        const char *name = phase_name(shown[i]);
        metric_label(t, "fedloom_state{state=", name);
        fli_text_addf(t, "} %d\n", !strcmp(name, phase_name(phase)));
    }
    metric_gauge(t, "fedloom_round", "Rounds that are finished.", (double)s->round);
    metric_gauge(t, "fedloom_rounds", "Rounds that are planned; 0 before the run has begun.", (double)s->rounds);
    metric_gauge(t, "fedloom_clients_expected", "Clients of this federation.", (double)context->federation.clients);
    metric_gauge(t, "fedloom_clients_joined", "Clients that have joined.", (double)fli_roster_entered(context->roster));
    uint64_t all = 0, most = 0;
    for (uint32_t i = 0; i < context->federation.clients; i++) {
        uint64_t n = fl_server_samples(context->server, i);
        all += n;
        most = n > most ? n : most;
    }
    metric_gauge(t, "fedloom_samples", "Samples that clients which have joined say they have.", (double)all);
    metric_gauge(t, "fedloom_samples_largest", "The most that one of them says it has.", (double)most);
    metric_gauge(t, "fedloom_clients_waiting", "Clients whose request waits for something to do.",
                 (double)atomic_load(&context->counters.waiting));
    metric_gauge(t, "fedloom_clients_awaited", "Clients whose answer is awaited.",
                 (double)fl_server_awaited(context->server, NULL, 0));
}

static void add_rounds(fli_text *t, const fli_journal_sums *s)
{
    metric_head(t, "fedloom_round_seconds", "histogram", "Seconds from the end of one round to the end of the next.");
    for (size_t i = 0; i < FLI_JOURNAL_BOUNDS; i++)
        fli_text_addf(t, "fedloom_round_seconds_bucket{le=\"%g\"} %llu\n", fli_journal_bounds[i],
                      (unsigned long long)s->within[i]);
    fli_text_addf(t, "fedloom_round_seconds_bucket{le=\"+Inf\"} %llu\nfedloom_round_seconds_sum",
                  (unsigned long long)s->counted);
    metric_value(t, s->seconds);
    fli_text_addf(t, "fedloom_round_seconds_count %llu\n", (unsigned long long)s->counted);
}

static void add_checkpoints(fli_text *t, const fli_journal_sums *s)
{
    metric_line(t, "fedloom_checkpoints_total", "counter", "Checkpoints that were written.", (double)s->checkpoints);
    metric_line(t, "fedloom_checkpoint_failures_total", "counter", "Checkpoints that could not be written.",
                (double)s->failures);
    metric_line(t, "fedloom_checkpoint_seconds_total", "counter", "Seconds that writing them took.",
                s->checkpoint_total);
    if (!s->checkpoints) return;
    metric_gauge(t, "fedloom_checkpoint_last_seconds", "Seconds that writing the newest took.", s->checkpoint_seconds);
    metric_gauge(t, "fedloom_checkpoint_last_bytes", "Bytes of the newest.", (double)s->checkpoint_bytes);
    metric_gauge(t, "fedloom_checkpoint_last_success_timestamp_seconds", "When the newest was written, since 1970.",
                 s->checkpoint_time);
}

static void add_measured(fli_text *t, fli_journal *j)
{
    fl_row row;
    const fl_metric *m;
    if (!fli_journal_newest(j, &row)) return;
    metric_head(t, "fedloom_metric", "gauge", "What was measured last, by the names of metrics.csv.");
    for (size_t k = 0; (m = fl_metric_at(k)); k++) {
        if (isnan(fl_row_value(&row, m))) continue;
        metric_label(t, "fedloom_metric{name=", m->name);
        fli_text_add(t, "}");
        metric_value(t, fl_row_value(&row, m));
    }
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static void add_answers(fli_text *t, const fli_net_counters *c)
{
    const struct {
        const char *outcome;
        const atomic_uint_fast64_t *n;
    } all[] = {{"taken", &c->answers},
               {"repeated", &c->repeated},
               {"late", &c->late},
               {"malformed", &c->malformed},
               {"rejected", &c->rejected}};
    metric_head(t, "fedloom_answers_total", "counter", "Answers of clients, by what became of them.");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        metric_label(t, "fedloom_answers_total{outcome=", all[i].outcome);
        fli_text_addf(t, "} %llu\n", (unsigned long long)atomic_load(all[i].n));
    }
    metric_counter(t, "fedloom_asks_total", "Asks that the run has given out.", &c->asks);
    metric_counter(t, "fedloom_deliveries_total", "Times that an ask was fetched.", &c->deliveries);
    metric_counter(t, "fedloom_refused_total", "Asks that clients refused.", &c->refused);
    metric_counter(t, "fedloom_dropped_total", "Times that a round went on without a client, which was silent or late.",
                   &c->dropped);
}

static void add_replies(fli_text *t, const fli_net_tally *tally)
{
    metric_head(t, "fedloom_requests_total", "counter", "Requests that were answered, by page and status code.");
    for (size_t p = 0, known = 1; p <= FLI_NET_PAGES; p++) {
        if (known && !fli_pages[p].path) known = 0;
        const char *path = known ? fli_pages[p].path : "other";
        for (size_t k = 0; k < FLI_NET_CODES; k++) {
            unsigned long long n = atomic_load(&tally->n[p][k]);
            char code[16] = "other";
            if (!n) continue;
            if (fli_net_tally_code(k)) fli_snprintf(code, sizeof code, "%u", fli_net_tally_code(k));
            metric_label(t, "fedloom_requests_total{page=", path);
            metric_label(t, ",code=", code);
            fli_text_addf(t, "} %llu\n", n);
        }
    }
}

static void add_traffic(fli_text *t, const fli_net_counters *c)
{
    metric_counter(t, "fedloom_received_bytes_total", "Bytes of bodies that were received.", &c->bytes_in);
    metric_counter(t, "fedloom_sent_bytes_total", "Bytes of bodies that were sent.", &c->bytes_out);
    metric_counter(t, "fedloom_unauthorized_total", "Requests without the right to join.", &c->unauthorized);
    metric_counter(t, "fedloom_turned_away_total", "Requests for no page, too large ones, and those of other versions.",
                   &c->turned_away);
    metric_counter(t, "fedloom_busy_total", "Requests that were told to come back, as there was no room.", &c->busy);
    metric_counter(t, "fedloom_cut_off_total", "Connections that were too slow.", &c->cut_off);
    metric_gauge(t, "fedloom_connections", "Connections that are open.", (double)atomic_load(&c->connections));
    metric_gauge(t, "fedloom_body_bytes", "Bytes of bodies that are on their way in.",
                 (double)atomic_load(&c->body_bytes));
}

/* ---- the process ------------------------------------------------------------------------------------------------ */

/* Resident memory in bytes; NaN: unknown. */
static double resident_bytes(void)
{
    char line[128];
    unsigned long long all, own;
    FILE *f = fli_file_open("/proc/self/statm", O_RDONLY);
    char *got = f ? fgets(line, sizeof line, f) : NULL;
    if (f) fclose(f);
    if (!got) return NAN;
    char *end;
    all = strtoull(line, &end, 10);
    own = strtoull(end, NULL, 10);
    return all ? (double)own * (double)sysconf(_SC_PAGESIZE) : NAN;
}

static double open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    double n = -1; /* do not count the descriptor of /proc/self/fd */
    if (!d) return NAN;
    for (const struct dirent *e; (e = readdir(d));) n += *e->d_name != '.';
    closedir(d);
    return n;
}

static double clock_seconds(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void add_process(fli_text *t, const fli_page_context *context)
{
    struct rlimit l;
    metric_gauge(t, "process_resident_memory_bytes", "Resident memory.", resident_bytes());
    metric_gauge(t, "process_open_fds", "Open files and connections.", open_files());
    if (!getrlimit(RLIMIT_NOFILE, &l)) metric_gauge(t, "process_max_fds", "As many may be open.", (double)l.rlim_cur);
    metric_line(t, "process_cpu_seconds_total", "counter", "Seconds of all processors.",
                clock_seconds(CLOCK_PROCESS_CPUTIME_ID));
    metric_gauge(t, "process_start_time_seconds", "When the server started, since 1970.",
                 clock_seconds(CLOCK_REALTIME) - (fli_clock_now() - context->begun));
}

static fli_reply page_metrics(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    fli_journal_sums sums;
    fli_text t;
    fl_ctx *ctx = fl_ctx_new();
    (void)r;
    if (!ctx) return fli_reply_text(0, NULL, NULL);
    fli_journal_look(context->journal, &sums);
    fli_text_init(&t, ctx);
    add_run(&t, context, &sums);
    add_rounds(&t, &sums);
    add_checkpoints(&t, &sums);
    add_measured(&t, context->journal);
    add_answers(&t, &context->counters);
    add_replies(&t, &context->counters.replies);
    add_traffic(&t, &context->counters);
    add_process(&t, context);
    char *text = fli_text_ok(&t) ? NULL : strdup(fli_text_get(&t));
    fli_text_fini(&t);
    fl_ctx_free(ctx);
    return fli_reply_text(200, "text/plain; version=0.0.4; charset=utf-8", text);
}

/* ==== /v1/status and /healthz ===================================================================================== */

/* The state of the run and of each client as JSON, and whether all is well. */

enum {
    LISTED = 2000,   /* most clients in the list */
    STRAGGLERS = 10, /* most clients in the list of those that are awaited longest */
    AWAY = 20,       /* seconds of silence; a client calls every few seconds */
    DIGITS = 9
};

/* Clients get the kind of failure only; sentences may name the server's files. */
static fli_reply page_health(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    fli_journal_sums sums;
    char sentence[400], *text = malloc(512);
    if (!text) return fli_reply_text(0, NULL, NULL);
    fli_journal_look(context->journal, &sums);
    fl_status failed = fli_dispatch_ending(context->dispatch, sentence, sizeof sentence);
    const char *wrong = *sums.broken ? sums.broken : failed ? sentence : NULL;
    if (wrong && *r->name) wrong = *sums.broken ? "a checkpoint could not be written" : fl_status_text(failed);
    fli_snprintf(text, 512, "%s\n", wrong ? wrong : "ok");
    return fli_reply_text(wrong ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, "text/plain; charset=utf-8", text);
}

/* ---- clients ---------------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t number;
    const char *name, *state;
    uint64_t samples; /* according to its card */
    fli_net_client seen;
} client_view;

static const char *state_of(const fli_page_context *context, const fli_net_client *c, int joined)
{
    if (!joined) return "missing";
    if (c->waiting) return "waiting";
    if (c->heard < 0 || c->heard > fmin(AWAY, context->silence)) return "away";
    return c->asked < 0 ? "idle" : c->fetched ? "working" : "asked";
}

static client_view view_of(fli_page_context *context, uint32_t client)
{
    client_view p = {.number = client,
                     .name = fli_roster_name(context->roster, client),
                     .samples = fl_server_samples(context->server, client)};
    fli_dispatch_client(context->dispatch, client, &p.seen);
    p.state = state_of(context, &p.seen, p.name != NULL);
    if (!p.name) p.name = fli_roster_listed(context->roster, client);
    return p;
}

static json_t *seconds_or_null(double s) { return s >= 0 ? json_real(s) : json_null(); }

static json_t *client_json(const client_view *p)
{
    const fli_net_client *c = &p->seen;
    return json_pack(
        "{s:I, s:s?, s:I, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "client", (json_int_t)p->number, "name",
        p->name, "samples", (json_int_t)p->samples, "state", p->state, "heard", seconds_or_null(c->heard), "asked",
        seconds_or_null(c->asked), "took", c->answers ? seconds_or_null(c->took) : json_null(), "longest",
        c->answers ? seconds_or_null(c->longest) : json_null(), "answers", (json_int_t)c->answers, "dropped",
        (json_int_t)c->dropped, "refused", (json_int_t)c->refused, "rejected", (json_int_t)c->rejected);
}

/* Sorts the longest wait for an answer first. */
static int by_asked(const void *a, const void *b)
{
    double x = ((const client_view *)a)->seen.asked, y = ((const client_view *)b)->seen.asked;
    return (x < y) - (x > y);
}

/* The clients that have an ask, longest wait first. */
static json_t *stragglers(client_view *people, size_t n)
{
    json_t *out = json_array();
    qsort(people, n, sizeof *people, by_asked);
    for (size_t i = 0; i < n && i < STRAGGLERS && people[i].seen.asked >= 0; i++)
        json_array_append_new(out,
                              json_pack("{s:I, s:s?, s:s, s:f}", "client", (json_int_t)people[i].number, "name",
                                        people[i].name, "state", people[i].state, "seconds", people[i].seen.asked));
    return out;
}

/* Adds both lists; returns 0 if out of memory. */
static int add_people(fli_page_context *context, json_t *j)
{
    size_t n = context->federation.clients;
    client_view *people = malloc((n ? n : 1) * sizeof *people);
    if (!people) return 0;
    for (size_t i = 0; i < n; i++) people[i] = view_of(context, (uint32_t)i);
    json_t *list = json_array();
    for (size_t i = 0; i < n && i < LISTED; i++) json_array_append_new(list, client_json(&people[i]));
    json_object_set_new(j, "people", list);
    json_object_set_new(j, "stragglers", stragglers(people, n));
    free(people);
    return 1;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static json_t *counters_json(const fli_net_counters *c)
{
    const struct {
        const char *name;
        const atomic_uint_fast64_t *value;
    } all[] = {
        {"requests", &c->requests},
        {"bytes_in", &c->bytes_in},
        {"bytes_out", &c->bytes_out},
        {"asks", &c->asks},
        {"deliveries", &c->deliveries},
        {"answers", &c->answers},
        {"repeated", &c->repeated},
        {"late", &c->late},
        {"malformed", &c->malformed},
        {"rejected", &c->rejected},
        {"refused", &c->refused},
        {"dropped", &c->dropped},
        {"unauthorized", &c->unauthorized},
        {"turned_away", &c->turned_away},
        {"busy", &c->busy},
        {"cut_off", &c->cut_off},
        {"connections", &c->connections},
        {"waiting", &c->waiting},
        {"body_bytes", &c->body_bytes},
    };
    json_t *j = json_object();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        json_object_set_new(j, all[i].name, json_integer((json_int_t)atomic_load(all[i].value)));
    return j;
}

static json_t *checkpoint_json(const fli_journal_sums *s)
{
    return json_pack("{s:o, s:f, s:I, s:I, s:I, s:I, s:s?}", "round",
                     s->checkpoints ? json_integer((json_int_t)s->checkpoint_round) : json_null(), "seconds",
                     s->checkpoint_seconds, "bytes", (json_int_t)s->checkpoint_bytes, "time",
                     (json_int_t)s->checkpoint_time, "written", (json_int_t)s->checkpoints, "failed",
                     (json_int_t)s->failures, "error", *s->broken ? s->broken : NULL);
}

static json_t *rounds_json(const fli_journal_sums *s)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "last", seconds_or_null(s->last), "mean",
                     seconds_or_null(s->counted ? s->seconds / (double)s->counted : -1), "longest",
                     seconds_or_null(s->longest), "since", seconds_or_null(s->since));
}

static json_t *run_json(fli_page_context *context)
{
    fli_journal_sums s;
    char run[sizeof context->run], sentence[400];
    pthread_mutex_lock(&context->lock);
    memcpy(run, context->run, sizeof run);
    pthread_mutex_unlock(&context->lock);
    fli_journal_look(context->journal, &s);
    fl_status failed = fli_dispatch_ending(context->dispatch, sentence, sizeof sentence);
    return json_pack("{s:s, s:s?, s:s, s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o}",
                     "fedloom", FL_VERSION, "run", *run ? run : NULL, "method", context->federation.method, "model",
                     context->federation.model, "state", phase_name(fli_dispatch_phase(context->dispatch)), "error",
                     failed ? sentence : NULL, "round", (json_int_t)s.round, "rounds", (json_int_t)s.rounds, "clients",
                     (json_int_t)context->federation.clients, "missing",
                     (json_int_t)(context->federation.clients - fli_roster_entered(context->roster)), "awaited",
                     (json_int_t)fl_server_awaited(context->server, NULL, 0), "seconds",
                     fli_clock_now() - context->begun, "round_seconds", rounds_json(&s), "checkpoint",
                     checkpoint_json(&s), "metrics", fli_journal_metrics(context->journal), "mishaps",
                     fli_journal_mishaps(context->journal), "counters", counters_json(&context->counters));
}

static fli_reply page_status(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    (void)r;
    locale_t before = fli_locale_enter();
    json_t *j = run_json(context);
    char *text = j && add_people(context, j) ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(j);
    fli_locale_leave(before);
    return fli_reply_json(text);
}

/* ==== the page for people ========================================================================================= */

/* The page for people fetches FLI_NET_STATUS regularly, and shows it. */

extern const char fli_status_html[], fli_status_css[], fli_status_js[]; /* from status.html, ... by cmake/embed.cmake */

/* The page may load only its own parts, and no other page may show it in a frame. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                             "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static fli_reply static_page(const char *type, const char *text)
{
    return (fli_reply){.code = 200, .type = type, .body = text, .n = strlen(text), .policy = policy};
}

static fli_reply page_screen(void *context, fli_http_request *r)
{
    (void)context, (void)r;
    return static_page("text/html; charset=utf-8", fli_status_html);
}

static fli_reply page_screen_css(void *context, fli_http_request *r)
{
    (void)context, (void)r;
    return static_page("text/css; charset=utf-8", fli_status_css);
}

static fli_reply page_screen_js(void *context, fli_http_request *r)
{
    (void)context, (void)r;
    return static_page("text/javascript; charset=utf-8", fli_status_js);
}

/* ==== joining ===================================================================================================== */

/* Before the run: a description of the federation, and cards. */

static fli_reply page_federation(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    char run[sizeof context->run];
    pthread_mutex_lock(&context->lock);
    memcpy(run, context->run, sizeof run);
    pthread_mutex_unlock(&context->lock);
    locale_t before = fli_locale_enter();
    json_t *client = r->client == FLI_NO_CLIENT ? json_null() : json_integer(r->client);
    json_t *j =
        json_pack("{s:i, s:i, s:s, s:s?, s:s, s:s, s:s, s:I, s:I, s:{s:s, s:o}, s:o}", "protocol", FLI_NET_VERSION,
                  "oldest", FLI_NET_OLDEST, "fedloom", FL_VERSION, "run", *run ? run : NULL, "state",
                  phase_name(fli_dispatch_phase(context->dispatch)), "method", context->federation.method, "model",
                  context->federation.model, "clients", (json_int_t)context->federation.clients, "missing",
                  (json_int_t)(context->federation.clients - fli_roster_entered(context->roster)), "you", "name",
                  r->name, "client", client, "samples", json_loads(context->federation.samples, 0, NULL));
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    fli_locale_leave(before);
    return fli_reply_json(text);
}

const char *fli_page_claim(void *arg, uint32_t client, const fli_http_request *r, double *again, char *sentence,
                           size_t n)
{
    fli_page_context *context = arg;
    char word[300];
    fli_other_process other;
    fli_process_claim is = fli_dispatch_claim(context->dispatch, client, &r->instance, r->address, &other);
    *again = 0;
    if (is == FLI_CLAIM_RESTARTED)
        fli_net_note(&context->log, "restarted", "client=%u name=%s address=%s", client, r->name, r->address);
    if (is == FLI_CLAIM_REPLACED)
        fli_net_say(&context->log, "replaced", "client=%u name=%s address=%s before=%s silence=%.0f", client, r->name,
                    r->address, other.address, other.heard);
    if (is < FLI_CLAIM_LIVE) return NULL;
    if (is == FLI_CLAIM_LIVE) {
        *again = FLI_CLAIM_PASSES;
        fli_snprintf(sentence, n,
                     "another process takes part as %s: it came from %s %.0f s ago and was heard %.0f s ago; each "
                     "process needs a certificate of its own",
                     r->name, other.address, other.age, other.heard);
    } else
        fli_snprintf(sentence, n,
                     "another process takes part as %s: it came from %s %.0f s ago and has taken this one's place; is "
                     "its folder a copy of this one's?",
                     r->name, other.address, other.age);
    fli_net_say_bounded(&context->log, "duplicate", "client=%u name=%s address=%s reason=%s", client, r->name,
                        r->address, fli_net_quote(sentence, word, sizeof word));
    fli_journal_mishap(context->journal, "duplicate", client, r->name, sentence);
    return sentence;
}

/* First the server checks the card, then the roster stores it; only then does the client get its number. */
static fl_status admit(fli_page_context *context, fl_ctx *ctx, fli_http_request *r, uint32_t *client)
{
    fl_status s = fli_roster_reserve(context->roster, ctx, r->name, client);
    if (s) return s;
    s = fl_server_join(context->server, *client, r->body, r->n);
    if (s) {
        fli_roster_release(context->roster, *client);
        return fli_fail(ctx, s, "%s", fl_server_error(context->server));
    }
    return fli_roster_enter(context->roster, ctx, *client, r->body, r->n);
}

static fli_reply welcome(fli_page_context *context, fli_http_request *r, uint32_t client)
{
    char *text = malloc(64);
    if (text) fli_snprintf(text, 64, "{\"client\": %u}\n", client);
    size_t kept = fli_roster_entered(context->roster);
    if (r->client == FLI_NO_CLIENT)
        fli_net_note(&context->log, "joined", "client=%u name=%s samples=%llu missing=%zu", client, r->name,
                     (unsigned long long)fl_server_samples(context->server, client),
                     context->federation.clients - kept);
    fli_dispatch_heard_from(context->dispatch, client);
    if (kept == context->federation.clients) fli_dispatch_begin(context->dispatch);
    return fli_reply_json(text);
}

static fli_reply page_join(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    uint32_t client;
    char word[300];
    fl_ctx *ctx = fl_ctx_new();
    fl_status s = ctx ? admit(context, ctx, r, &client) : FL_ENOMEM;
    fli_reply reply;
    double again;
    char sentence[400];
    if (!s && fli_page_claim(context, client, r, &again, sentence, sizeof sentence)) {
        reply = fli_reply_refused(sentence, again, 0);
    } else if (!s) {
        reply = welcome(context, r, client);
    } else {
        const char *why = ctx ? fl_ctx_error(ctx) : "out of memory";
        unsigned code = s == FL_EFORMAT                 ? MHD_HTTP_BAD_REQUEST
                        : s == FL_EIO || s == FL_ENOMEM ? MHD_HTTP_SERVICE_UNAVAILABLE
                                                        : MHD_HTTP_CONFLICT;
        fli_net_say_bounded(&context->log, "not-joined", "name=%s reason=%s", r->name,
                            fli_net_quote(why, word, sizeof word));
        fli_journal_mishap(context->journal, "not-joined", FLI_NO_CLIENT, r->name, why);
        reply = fli_reply_error(code, "%s", why);
        if (code == MHD_HTTP_SERVICE_UNAVAILABLE) reply.retry = 5;
    }
    fl_ctx_free(ctx);
    return reply;
}

/* ==== asks and answers ============================================================================================ */

/* During the run: terms and asks for clients, which may wait for them, and their answers. */

/* ---- terms and asks -------------------------------------------------------------------------------------------- */

/* There is nothing yet: the request waits, or gets 204 if it may not. */
static fli_reply none_yet(fli_page_context *context, fli_http_request *r, int terms)
{
    double seconds = r->wait;
    if (seconds <= 0) return (fli_reply){.code = MHD_HTTP_NO_CONTENT};
    fli_http_hold(r);
    if (!fli_dispatch_wait(context->dispatch, r->client, terms, seconds, r)) fli_http_wake(r);
    return (fli_reply){0};
}

/* The run is over. The sentence of a failure stays in the log: it may name files of the server, or other clients. */
static fli_reply run_over_reply(fli_page_context *context)
{
    enum { MOST = 256 };
    char sentence[8], *text = malloc(MOST);
    fl_status s = fli_dispatch_ending(context->dispatch, sentence, sizeof sentence);
    if (text)
        fli_snprintf(text, MOST, "{\"state\": \"over\", \"ok\": %s, \"reason\": \"%s\"}\n", s ? "false" : "true",
                     s ? fl_status_text(s) : "");
    return fli_reply_text(MHD_HTTP_GONE, "application/json", text);
}

static void free_bytes(void *bytes)
{
    fl_bytes_free(bytes);
    free(bytes);
}

static fli_reply send_terms(fli_page_context *context, fli_http_request *r)
{
    fl_bytes *terms = malloc(sizeof *terms);
    if (!terms) return fli_reply_text(0, NULL, NULL);
    fl_status s = fl_server_terms(context->server, r->client, terms);
    if (!s)
        return (fli_reply){.code = MHD_HTTP_OK,
                           .type = FLI_NET_PACKET,
                           .body = terms->data,
                           .n = terms->n,
                           .release = free_bytes,
                           .owner = terms};
    free(terms);
    return fli_reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "%s", fl_server_error(context->server));
}

static fli_reply page_terms(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    fli_net_phase phase = fli_dispatch_phase(context->dispatch);
    if (phase == FLI_NET_OVER) return run_over_reply(context);
    return phase == FLI_NET_JOINING || phase == FLI_NET_PAUSED ? none_yet(context, r, 1) : send_terms(context, r);
}

static void release_body(void *body) { fli_posted_ask_release(body); }

static fli_reply page_ask(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    fli_net_phase phase = fli_dispatch_phase(context->dispatch);
    if (phase == FLI_NET_OVER) return run_over_reply(context);
    fli_posted_ask *p = fli_dispatch_ask(context->dispatch, r->client);
    if (!p) return none_yet(context, r, 0);
    return (fli_reply){.code = MHD_HTTP_OK,
                       .type = FLI_NET_PACKET,
                       .front = p->packet.front,
                       .front_n = sizeof p->packet.front,
                       .body = p->packet.body ? p->packet.body->bytes.data : NULL,
                       .n = p->packet.body ? p->packet.body->bytes.n : 0,
                       .release = release_body,
                       .owner = p};
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

static unsigned code_of(fl_status s)
{
    switch (s) {
    case FL_EMISMATCH: return MHD_HTTP_CONFLICT;
    case FL_EFORMAT: return MHD_HTTP_BAD_REQUEST;
    case FL_EREFUSED: return MHD_HTTP_UNPROCESSABLE_CONTENT;
    case FL_ECONFIG: return MHD_HTTP_CONFLICT; /* the run has not begun */
    default: return MHD_HTTP_SERVICE_UNAVAILABLE;
    }
}

static fl_status make_room(fli_page_context *context, const fli_http_request *r, size_t n, fli_incoming **out)
{
    fl_status s = fli_server_upload(context->server, n, out);
    if (s == FL_EIO) fli_http_upload_failed(&context->log, r, fl_server_error(context->server));
    return s;
}

/* Takes an answer for which there was no room when its request began, such as before the run had begun. Errors of the
 * disk are logged, and not sent to clients. */
static fl_status take_body(fli_page_context *context, fli_http_request *r, char *sentence, size_t n)
{
    char why[400];
    fl_status s = r->upload ? FL_OK : make_room(context, r, r->n, &r->upload);
    if (!s && r->body && (s = fli_incoming_add(r->upload, r->body, r->n))) {
        fli_incoming_why(r->upload, why, sizeof why);
        fli_http_upload_failed(&context->log, r, why);
    }
    fli_snprintf(sentence, n, "%s",
                 s == FL_EIO ? "there is no room for this answer just now" : fl_server_error(context->server));
    return s;
}

static fli_reply page_answer(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    char sentence[400];
    fl_status s = take_body(context, r, sentence, sizeof sentence);
    if (!s) s = fli_dispatch_answer(context->dispatch, r->client, &r->upload, sentence, sizeof sentence);
    if (!s) return fli_reply_json(strdup("{\"taken\": true}\n"));
    fli_reply reply = fli_reply_error(code_of(s), "%s", sentence);
    if (reply.code == MHD_HTTP_SERVICE_UNAVAILABLE) reply.retry = 2;
    return reply;
}

/* The body as a JSON object; NULL: it is not one. */
static json_t *read_object(const fli_http_request *r)
{
    locale_t before = fli_locale_enter();
    json_t *j = r->n ? json_loadb((const char *)r->body, r->n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    fli_locale_leave(before);
    if (json_is_object(j)) return j;
    json_decref(j);
    return NULL;
}

/* The n of {"number": n}; 0: there is none. */
static uint64_t number_in(const json_t *j)
{
    json_int_t n = json_integer_value(json_object_get(j, "number"));
    return n > 0 ? (uint64_t)n : 0;
}

static fli_reply page_refuse(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    json_t *j = read_object(r);
    const char *reason = json_string_value(json_object_get(j, "reason"));
    const json_t *said = json_object_get(j, "number");
    uint64_t number = number_in(j);
    fli_reply reply;
    if (!reason || !json_is_integer(said) || json_integer_value(said) < 0)
        reply = fli_reply_error(MHD_HTTP_BAD_REQUEST, "a refusal is {\"number\": the ask's, \"reason\": a sentence}");
    else if (fli_dispatch_refuse(context->dispatch, r->client, number, reason) == FL_EMISMATCH)
        reply = fli_reply_error(MHD_HTTP_CONFLICT, "no answer to ask %llu is awaited", (unsigned long long)number);
    else
        reply = fli_reply_json(strdup("{\"taken\": true}\n"));
    json_decref(j);
    return reply;
}

/* Writes to the disk first: a restarted server then does not wait for this client. If writing fails, that server waits
 * in vain, which does no harm. */
static void note_told(fli_page_context *context, uint32_t client)
{
    fl_ctx *ctx = fl_ctx_new();
    if (fli_dispatch_phase(context->dispatch) == FLI_NET_OVER) {
        if (ctx) fli_roster_acknowledge(context->roster, ctx, client);
        fli_dispatch_acknowledge(context->dispatch, client);
    }
    fl_ctx_free(ctx);
}

static fli_reply page_alive(void *arg, fli_http_request *r)
{
    fli_page_context *context = arg;
    json_t *j = read_object(r);
    if (json_is_true(json_object_get(j, "over"))) note_told(context, r->client);
    if (json_is_true(json_object_get(j, "leaving"))) fli_dispatch_leave(context->dispatch, r->client);
    int wanted = fli_dispatch_wanted(context->dispatch, r->client, number_in(j));
    json_decref(j);
    return fli_reply_json(strdup(wanted ? "{\"wanted\": true}\n" : "{\"wanted\": false}\n"));
}

fli_incoming *fli_page_upload(void *arg, const fli_http_request *r, size_t n)
{
    fli_incoming *upload;
    return make_room(arg, r, n, &upload) ? NULL : upload;
}

/* ==== the table =================================================================================================== */

static size_t small_body(void *context)
{
    (void)context;
    return FLI_NET_SMALL_BODY;
}

/* Before the run has begun there are no answers: a small body is enough. */
static size_t answer_body(void *context)
{
    size_t most = fl_server_answer_bytes(((fli_page_context *)context)->server);
    return most ? most : FLI_NET_SMALL_BODY;
}

const fli_page fli_pages[] = {
    {"GET", FLI_NET_FEDERATION, 0, NULL, page_federation},
    {"POST", FLI_NET_JOIN, FLI_PAGE_ACTS, small_body, page_join},
    {"GET", FLI_NET_TERMS, FLI_PAGE_JOINED, NULL, page_terms},
    {"GET", FLI_NET_ASK, FLI_PAGE_JOINED, NULL, page_ask},
    {"POST", FLI_NET_ANSWER, FLI_PAGE_JOINED | FLI_PAGE_UPLOAD, answer_body, page_answer},
    {"POST", FLI_NET_REFUSE, FLI_PAGE_JOINED, small_body, page_refuse},
    {"POST", FLI_NET_ALIVE, FLI_PAGE_JOINED, small_body, page_alive},
    {"GET", FLI_NET_STATUS, FLI_PAGE_LOOK, NULL, page_status},
    {"GET", FLI_NET_HEALTH, FLI_PAGE_LOOK | FLI_PAGE_BOTH, NULL, page_health},
    {"GET", FLI_NET_METRICS, FLI_PAGE_LOOK, NULL, page_metrics},
    {"GET", "/", FLI_PAGE_LOOK, NULL, page_screen},
    {"GET", "/status.css", FLI_PAGE_LOOK, NULL, page_screen_css},
    {"GET", "/status.js", FLI_PAGE_LOOK, NULL, page_screen_js},
    {0},
};
static_assert(sizeof fli_pages / sizeof *fli_pages <= FLI_NET_PAGES, "there is a row for each page's replies");
