/* For those who look on: how the run and each client stand, as JSON; and whether all is well. */
#include "net/server/pages.h"

#include "base/clock.h"
#include "base/number.h"

#include <jansson.h>
#include <math.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

enum {
    LISTED = 2000,   /* clients, at most */
    STRAGGLERS = 10, /* the same of those who are awaited longest */
    AWAY = 20,       /* seconds without a word; clients say one every few seconds */
    DIGITS = 9
};

/* A client hears what kind of trouble there is, and nothing of the server's files. */
fli_reply fli_page_health(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    fli_journal_sums sums;
    char sentence[400], *text = malloc(512);
    if (!text) return fli_reply_text(0, NULL, NULL);
    fli_journal_look(d->journal, &sums);
    fl_status failed = fli_dispatch_ending(d->dispatch, sentence, sizeof sentence);
    const char *wrong = *sums.broken ? sums.broken : failed ? sentence : NULL;
    if (wrong && *r->name) wrong = *sums.broken ? "a checkpoint could not be written" : fl_status_text(failed);
    fli_snprintf(text, 512, "%s\n", wrong ? wrong : "ok");
    return fli_reply_text(wrong ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, "text/plain; charset=utf-8", text);
}

/* ---- clients ---------------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t number;
    const char *name, *state;
    uint64_t samples; /* that it says it has */
    fli_net_client seen;
} person;

static const char *state_of(const fli_desk *d, const fli_net_client *c, int joined)
{
    if (!joined) return "missing";
    if (c->waiting) return "waiting";
    if (c->heard < 0 || c->heard > fmin(AWAY, d->silence)) return "away";
    return c->asked < 0 ? "idle" : c->fetched ? "working" : "asked";
}

static person look_at(fli_desk *d, uint32_t client)
{
    person p = {
        .number = client, .name = fli_roster_name(d->roster, client), .samples = fl_server_samples(d->server, client)};
    fli_dispatch_client(d->dispatch, client, &p.seen);
    p.state = state_of(d, &p.seen, p.name != NULL);
    if (!p.name) p.name = fli_roster_listed(d->roster, client);
    return p;
}

static json_t *seconds(double s) { return s >= 0 ? json_real(s) : json_null(); }

static json_t *person_json(const person *p)
{
    const fli_net_client *c = &p->seen;
    return json_pack("{s:I, s:s?, s:I, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "client", (json_int_t)p->number,
                     "name", p->name, "samples", (json_int_t)p->samples, "state", p->state, "heard", seconds(c->heard),
                     "asked", seconds(c->asked), "took", c->answers ? seconds(c->took) : json_null(), "longest",
                     c->answers ? seconds(c->longest) : json_null(), "answers", (json_int_t)c->answers, "dropped",
                     (json_int_t)c->dropped, "refused", (json_int_t)c->refused, "rejected", (json_int_t)c->rejected);
}

/* Who is awaited longest comes first. */
static int by_asked(const void *a, const void *b)
{
    double x = ((const person *)a)->seen.asked, y = ((const person *)b)->seen.asked;
    return (x < y) - (x > y);
}

/* Those who have something to do, longest first. */
static json_t *stragglers(person *people, size_t n)
{
    json_t *out = json_array();
    qsort(people, n, sizeof *people, by_asked);
    for (size_t i = 0; i < n && i < STRAGGLERS && people[i].seen.asked >= 0; i++)
        json_array_append_new(out,
                              json_pack("{s:I, s:s?, s:s, s:f}", "client", (json_int_t)people[i].number, "name",
                                        people[i].name, "state", people[i].state, "seconds", people[i].seen.asked));
    return out;
}

/* Adds both lists; 0: there is no memory. */
static int add_people(fli_desk *d, json_t *j)
{
    size_t n = d->outline.clients;
    person *people = malloc((n ? n : 1) * sizeof *people);
    if (!people) return 0;
    for (size_t i = 0; i < n; i++) people[i] = look_at(d, (uint32_t)i);
    json_t *list = json_array();
    for (size_t i = 0; i < n && i < LISTED; i++) json_array_append_new(list, person_json(&people[i]));
    json_object_set_new(j, "people", list);
    json_object_set_new(j, "stragglers", stragglers(people, n));
    free(people);
    return 1;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static json_t *counted(const fli_net_counters *c)
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
    return json_pack("{s:o, s:o, s:o, s:o}", "last", seconds(s->last), "mean",
                     seconds(s->counted ? s->seconds / (double)s->counted : -1), "longest", seconds(s->longest),
                     "since", seconds(s->since));
}

static json_t *run_json(fli_desk *d)
{
    fli_journal_sums s;
    char run[sizeof d->run], sentence[400];
    pthread_mutex_lock(&d->lock);
    memcpy(run, d->run, sizeof run);
    pthread_mutex_unlock(&d->lock);
    fli_journal_look(d->journal, &s);
    fl_status failed = fli_dispatch_ending(d->dispatch, sentence, sizeof sentence);
    return json_pack(
        "{s:s, s:s?, s:s, s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o}", "fedloom",
        FL_VERSION, "run", *run ? run : NULL, "method", d->outline.method, "model", d->outline.model, "state",
        fli_net_phase_name(fli_dispatch_phase(d->dispatch)), "error", failed ? sentence : NULL, "round",
        (json_int_t)s.round, "rounds", (json_int_t)s.rounds, "clients", (json_int_t)d->outline.clients, "missing",
        (json_int_t)(d->outline.clients - fli_roster_kept(d->roster)), "awaited",
        (json_int_t)fl_server_awaited(d->server, NULL, 0), "seconds", fli_clock_now() - d->begun, "round_seconds",
        rounds_json(&s), "checkpoint", checkpoint_json(&s), "metrics", fli_journal_metrics(d->journal), "mishaps",
        fli_journal_mishaps(d->journal), "counters", counted(&d->counters));
}

fli_reply fli_page_status(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    (void)r;
    locale_t before = fli_locale_enter();
    json_t *j = run_json(d);
    char *text = j && add_people(d, j) ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(j);
    fli_locale_leave(before);
    return fli_reply_json(text);
}
