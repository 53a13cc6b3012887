/* The same in numbers for Prometheus: its text format, version 0.0.4. */
#include "net/server/pages.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- the format ------------------------------------------------------------------------------------------------- */

static void head(fli_text *t, const char *name, const char *type, const char *help)
{
    fli_text_addf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void value(fli_text *t, double v)
{
    if (isnan(v) || isinf(v))
        fli_text_add(t, isnan(v) ? " NaN\n" : v > 0 ? " +Inf\n" : " -Inf\n");
    else
        fli_text_addf(t, " %.17g\n", v);
}

static void one(fli_text *t, const char *name, const char *type, const char *help, double v)
{
    head(t, name, type, help);
    fli_text_add(t, name);
    value(t, v);
}

static void gauge(fli_text *t, const char *name, const char *help, double v) { one(t, name, "gauge", help, v); }

static void counter(fli_text *t, const char *name, const char *help, const atomic_uint_fast64_t *v)
{
    one(t, name, "counter", help, (double)atomic_load(v));
}

/* A label's value, with what the format wants escaped. */
static void label(fli_text *t, const char *before, const char *text)
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

static void add_run(fli_text *t, fli_desk *d, const fli_journal_sums *s)
{
    fli_net_phase phase = fli_dispatch_phase(d->dispatch);
    head(t, "fedloom_info", "gauge", "What runs here; always 1.");
    label(t, "fedloom_info{version=", FL_VERSION);
    label(t, ",method=", d->outline.method);
    label(t, ",model=", d->outline.model);
    fli_text_add(t, "} 1\n");
    head(t, "fedloom_state", "gauge", "1 for the state that the server is in.");
    for (int i = 0; i < 4; i++) {
        static const fli_net_phase shown[] = {FLI_NET_JOINING, FLI_NET_RUNNING, FLI_NET_DRAINING, FLI_NET_OVER};
        const char *name = fli_net_phase_name(shown[i]);
        label(t, "fedloom_state{state=", name);
        fli_text_addf(t, "} %d\n", !strcmp(name, fli_net_phase_name(phase)));
    }
    gauge(t, "fedloom_round", "Rounds that are finished.", (double)s->round);
    gauge(t, "fedloom_rounds", "Rounds that are planned; 0 before the run has begun.", (double)s->rounds);
    gauge(t, "fedloom_clients_expected", "Clients of this federation.", (double)d->outline.clients);
    gauge(t, "fedloom_clients_joined", "Clients that have joined.", (double)fli_roster_kept(d->roster));
    uint64_t all = 0, most = 0;
    for (uint32_t i = 0; i < d->outline.clients; i++) {
        uint64_t n = fl_server_samples(d->server, i);
        all += n;
        most = n > most ? n : most;
    }
    gauge(t, "fedloom_samples", "Samples that clients which have joined say they have.", (double)all);
    gauge(t, "fedloom_samples_largest", "The most that one of them says it has.", (double)most);
    gauge(t, "fedloom_clients_waiting", "Clients whose request waits for something to do.",
          (double)atomic_load(&d->counters.waiting));
    gauge(t, "fedloom_clients_awaited", "Clients whose answer is awaited.",
          (double)fl_server_awaited(d->server, NULL, 0));
}

static void add_rounds(fli_text *t, const fli_journal_sums *s)
{
    head(t, "fedloom_round_seconds", "histogram", "Seconds from the end of one round to the end of the next.");
    for (size_t i = 0; i < FLI_JOURNAL_BOUNDS; i++)
        fli_text_addf(t, "fedloom_round_seconds_bucket{le=\"%g\"} %llu\n", fli_journal_bounds[i],
                      (unsigned long long)s->within[i]);
    fli_text_addf(t, "fedloom_round_seconds_bucket{le=\"+Inf\"} %llu\nfedloom_round_seconds_sum",
                  (unsigned long long)s->counted);
    value(t, s->seconds);
    fli_text_addf(t, "fedloom_round_seconds_count %llu\n", (unsigned long long)s->counted);
}

static void add_checkpoints(fli_text *t, const fli_journal_sums *s)
{
    one(t, "fedloom_checkpoints_total", "counter", "Checkpoints that were written.", (double)s->checkpoints);
    one(t, "fedloom_checkpoint_failures_total", "counter", "Checkpoints that could not be written.",
        (double)s->failures);
    one(t, "fedloom_checkpoint_seconds_total", "counter", "Seconds that writing them took.", s->checkpoint_total);
    if (!s->checkpoints) return;
    gauge(t, "fedloom_checkpoint_last_seconds", "Seconds that writing the newest took.", s->checkpoint_seconds);
    gauge(t, "fedloom_checkpoint_last_bytes", "Bytes of the newest.", (double)s->checkpoint_bytes);
    gauge(t, "fedloom_checkpoint_last_success_timestamp_seconds", "When the newest was written, since 1970.",
          s->checkpoint_time);
}

static void add_measured(fli_text *t, fli_journal *j)
{
    fl_row row;
    const fl_metric *m;
    if (!fli_journal_newest(j, &row)) return;
    head(t, "fedloom_metric", "gauge", "What was measured last, by the names of metrics.csv.");
    for (size_t k = 0; (m = fl_metric_at(k)); k++) {
        if (isnan(fl_row_value(&row, m))) continue;
        label(t, "fedloom_metric{name=", m->name);
        fli_text_add(t, "}");
        value(t, fl_row_value(&row, m));
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
    head(t, "fedloom_answers_total", "counter", "Answers of clients, by what became of them.");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        label(t, "fedloom_answers_total{outcome=", all[i].outcome);
        fli_text_addf(t, "} %llu\n", (unsigned long long)atomic_load(all[i].n));
    }
    counter(t, "fedloom_asks_total", "Asks that the run has given out.", &c->asks);
    counter(t, "fedloom_deliveries_total", "Times that an ask was fetched.", &c->deliveries);
    counter(t, "fedloom_refused_total", "Asks that clients refused.", &c->refused);
    counter(t, "fedloom_dropped_total", "Times that a round went on without a client, which was silent or late.",
            &c->dropped);
}

static void add_replies(fli_text *t, const fli_net_tally *tally)
{
    head(t, "fedloom_requests_total", "counter", "Requests that were answered, by page and status code.");
    for (size_t p = 0, known = 1; p <= FLI_NET_PAGES; p++) {
        if (known && !fli_pages[p].path) known = 0;
        const char *path = known ? fli_pages[p].path : "other";
        for (size_t k = 0; k < FLI_NET_CODES; k++) {
            unsigned long long n = atomic_load(&tally->n[p][k]);
            char code[16] = "other";
            if (!n) continue;
            if (fli_net_tally_code(k)) fli_snprintf(code, sizeof code, "%u", fli_net_tally_code(k));
            label(t, "fedloom_requests_total{page=", path);
            label(t, ",code=", code);
            fli_text_addf(t, "} %llu\n", n);
        }
    }
}

static void add_traffic(fli_text *t, const fli_net_counters *c)
{
    counter(t, "fedloom_received_bytes_total", "Bytes of bodies that were received.", &c->bytes_in);
    counter(t, "fedloom_sent_bytes_total", "Bytes of bodies that were sent.", &c->bytes_out);
    counter(t, "fedloom_unauthorized_total", "Requests of nobody that may join.", &c->unauthorized);
    counter(t, "fedloom_turned_away_total", "Requests for no page, too large ones, and those of other versions.",
            &c->turned_away);
    counter(t, "fedloom_busy_total", "Requests that were told to come back, as there was no room.", &c->busy);
    counter(t, "fedloom_cut_off_total", "Connections that were too slow.", &c->cut_off);
    gauge(t, "fedloom_connections", "Connections that are open.", (double)atomic_load(&c->connections));
    gauge(t, "fedloom_body_bytes", "Bytes of bodies that are on their way in.", (double)atomic_load(&c->body_bytes));
}

/* ---- the process ------------------------------------------------------------------------------------------------ */

/* Resident memory in bytes; NaN: not known. */
static double resident(void)
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
    double n = -1; /* the folder itself */
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

static void add_process(fli_text *t, const fli_desk *d)
{
    struct rlimit l;
    gauge(t, "process_resident_memory_bytes", "Resident memory.", resident());
    gauge(t, "process_open_fds", "Open files and connections.", open_files());
    if (!getrlimit(RLIMIT_NOFILE, &l)) gauge(t, "process_max_fds", "As many may be open.", (double)l.rlim_cur);
    one(t, "process_cpu_seconds_total", "counter", "Seconds of all processors.",
        clock_seconds(CLOCK_PROCESS_CPUTIME_ID));
    gauge(t, "process_start_time_seconds", "When the server started, since 1970.",
          clock_seconds(CLOCK_REALTIME) - (fli_clock_now() - d->begun));
}

fli_reply fli_page_metrics(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    fli_journal_sums sums;
    fli_text t;
    fl_ctx *ctx = fl_ctx_new();
    (void)r;
    if (!ctx) return fli_reply_text(0, NULL, NULL);
    fli_journal_look(d->journal, &sums);
    fli_text_init(&t, ctx);
    add_run(&t, d, &sums);
    add_rounds(&t, &sums);
    add_checkpoints(&t, &sums);
    add_measured(&t, d->journal);
    add_answers(&t, &d->counters);
    add_replies(&t, &d->counters.replies);
    add_traffic(&t, &d->counters);
    add_process(&t, d);
    char *text = fli_text_ok(&t) ? NULL : strdup(fli_text_get(&t));
    fli_text_fini(&t);
    fl_ctx_free(ctx);
    return fli_reply_text(200, "text/plain; version=0.0.4; charset=utf-8", text);
}
