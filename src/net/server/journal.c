#include "net/server/journal.h"

#include "base/os.h"
#include "base/number.h"
#include "net/common/log.h"
#include "net/common/protocol.h"
#include "net/server/roster.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { ROWS = 400, MISHAPS = 50, WHY = 300 };

const double fli_journal_bounds[FLI_JOURNAL_BOUNDS] = {0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};

typedef struct {
    char time[FLI_NET_STAMP];
    const char *what;
    uint32_t client;
    char name[FLI_NET_NAME_MAX + 1];
    char why[WHY];
    uint64_t times;
} mishap;

struct fli_journal {
    pthread_mutex_t lock; /* guards all below */
    fli_journal_sums sums;
    double ended;       /* time of the last round's end; 0: none */
    fl_row *rows;       /* every `stride`th measured row */
    size_t n, measured; /* rows kept; rows measured */
    size_t stride;
    fl_row newest;       /* the last measured row, kept or not */
    mishap *mishaps;     /* newest first */
    size_t mishap_count; /* mishaps kept */
};

fl_status fli_journal_new(fl_ctx *ctx, fli_journal **out)
{
    fli_journal *j = fli_alloc(ctx, 1, sizeof *j);
    *out = NULL;
    if (!j) return FL_ENOMEM;
    j->stride = 1;
    j->sums.since = j->sums.last = j->sums.longest = -1;
    j->rows = fli_alloc(ctx, ROWS, sizeof *j->rows);
    j->mishaps = fli_alloc(ctx, MISHAPS, sizeof *j->mishaps);
    fl_status s = j->rows && j->mishaps ? FL_OK : FL_ENOMEM;
    if (!s && pthread_mutex_init(&j->lock, NULL)) s = fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
    if (!s) {
        *out = j;
        return FL_OK;
    }
    fli_free(j->rows);
    fli_free(j->mishaps);
    fli_free(j);
    return s;
}

void fli_journal_free(fli_journal *j)
{
    if (!j) return;
    pthread_mutex_destroy(&j->lock);
    fli_free(j->rows);
    fli_free(j->mishaps);
    fli_free(j);
}

/* ---- what happens ---------------------------------------------------------------------------------------------- */

static void add_row(fli_journal *j, const fl_row *row)
{
    j->newest = *row;
    if (j->measured++ % j->stride) return;
    if (j->n == ROWS) { /* drops every second row; this one is the next to be kept */
        for (size_t i = 0; i < ROWS / 2; i++) j->rows[i] = j->rows[2 * i];
        j->n = ROWS / 2;
        j->stride *= 2;
    }
    j->rows[j->n++] = *row;
}

static void count_seconds(fli_journal_sums *s, double seconds)
{
    s->counted++;
    s->seconds += seconds;
    s->last = seconds;
    s->longest = fmax(s->longest, seconds);
    for (size_t i = 0; i < FLI_JOURNAL_BOUNDS; i++) s->within[i] += seconds <= fli_journal_bounds[i];
}

void fli_journal_round(fli_journal *j, size_t round, size_t rounds, const fl_row *row)
{
    double now = fli_clock_now();
    pthread_mutex_lock(&j->lock);
    if (j->ended > 0 && round > j->sums.round) count_seconds(&j->sums, now - j->ended);
    if (j->ended <= 0 || round > j->sums.round) j->ended = now;
    j->sums.round = round;
    j->sums.rounds = rounds;
    if (row) add_row(j, row);
    pthread_mutex_unlock(&j->lock);
}

void fli_journal_checkpoint(fli_journal *j, const fl_checkpoint *c)
{
    struct timespec now;
    fli_journal_sums *s = &j->sums;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&j->lock);
    fli_snprintf(s->broken, sizeof s->broken, "%s", c->status ? c->why : "");
    if (c->status) {
        s->failures++;
    } else {
        s->checkpoints++;
        s->checkpoint_round = c->round;
        s->checkpoint_seconds = c->seconds;
        s->checkpoint_total += c->seconds;
        s->checkpoint_bytes = c->bytes;
        s->checkpoint_time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    }
    pthread_mutex_unlock(&j->lock);
}

/* Caller holds the lock. Moves the entry of the same mishap of the same client to the front, or makes a new one
 * there. */
static mishap *place_first(fli_journal *j, const char *what, uint32_t client, const char *name)
{
    mishap *m = j->mishaps, again = {.times = 0};
    size_t k = 0;
    while (k < j->mishap_count && (strcmp(m[k].what, what) || m[k].client != client || strcmp(m[k].name, name))) k++;
    if (k < j->mishap_count)
        again.times = m[k].times;
    else if (j->mishap_count < MISHAPS)
        j->mishap_count++;
    else
        k = MISHAPS - 1;
    memmove(m + 1, m, k * sizeof *m);
    m[0] = again;
    return m;
}

void fli_journal_mishap(fli_journal *j, const char *what, uint32_t client, const char *name, const char *why)
{
    char word[WHY + 2];
    size_t n = strlen(fli_net_quote(why, word, sizeof word));
    word[n - 1] = 0; /* without its quotes */
    pthread_mutex_lock(&j->lock);
    mishap *m = place_first(j, what, client, name ? name : "");
    fli_net_stamp(m->time);
    m->times++;
    m->what = what;
    m->client = client;
    fli_snprintf(m->name, sizeof m->name, "%s", name ? name : "");
    fli_snprintf(m->why, sizeof m->why, "%s", word + 1);
    pthread_mutex_unlock(&j->lock);
}

/* ---- looking ------------------------------------------------------------------------------------------------- */

void fli_journal_look(fli_journal *j, fli_journal_sums *out)
{
    pthread_mutex_lock(&j->lock);
    *out = j->sums;
    if (j->ended > 0) out->since = fli_clock_now() - j->ended;
    pthread_mutex_unlock(&j->lock);
}

int fli_journal_newest(fli_journal *j, fl_row *out)
{
    pthread_mutex_lock(&j->lock);
    int there = j->measured > 0;
    *out = j->newest;
    pthread_mutex_unlock(&j->lock);
    return there;
}

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *row_json(const fl_row *row, const fl_metric *const *columns, size_t n)
{
    json_t *out = json_array();
    json_array_append_new(out, json_integer((json_int_t)fl_row_round(row)));
    for (size_t k = 0; k < n; k++) json_array_append_new(out, number(fl_row_value(row, columns[k])));
    return out;
}

/* Whether any kept row has a value of the metric. */
static int is_there(const fli_journal *j, const fl_metric *m)
{
    for (size_t i = 0; i < j->n; i++)
        if (isfinite(fl_row_value(&j->rows[i], m))) return 1;
    return 0;
}

json_t *fli_journal_metrics(fli_journal *j)
{
    const fl_metric *columns[FL_METRICS_MAX], *m;
    json_t *names = json_pack("[s]", "round"), *titles = json_pack("[s]", "round"), *rows = json_array();
    size_t n = 0;
    pthread_mutex_lock(&j->lock);
    for (size_t k = 0; n < FL_METRICS_MAX && (m = fl_metric_shown(FL_VIEW_CHART, k)); k++) {
        if (!is_there(j, m)) continue;
        json_array_append_new(names, json_string(m->name));
        json_array_append_new(titles, json_string(m->title));
        columns[n++] = m;
    }
    for (size_t i = 0; i < j->n; i++) json_array_append_new(rows, row_json(&j->rows[i], columns, n));
    if (j->measured && fl_row_round(&j->newest) != fl_row_round(&j->rows[j->n - 1]))
        json_array_append_new(rows, row_json(&j->newest, columns, n));
    pthread_mutex_unlock(&j->lock);
    return json_pack("{s:o, s:o, s:o}", "columns", names, "titles", titles, "rows", rows);
}

json_t *fli_journal_mishaps(fli_journal *j)
{
    json_t *out = json_array();
    pthread_mutex_lock(&j->lock);
    for (size_t i = 0; i < j->mishap_count; i++) {
        const mishap *m = &j->mishaps[i];
        json_t *client = m->client == FLI_NO_CLIENT ? json_null() : json_integer(m->client);
        json_array_append_new(out,
                              json_pack("{s:s, s:s, s:o, s:s, s:s, s:I}", "time", m->time, "what", m->what, "client",
                                        client, "name", m->name, "why", m->why, "times", (json_int_t)m->times));
    }
    pthread_mutex_unlock(&j->lock);
    return out;
}
