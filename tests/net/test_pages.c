/* What those see who look on: metrics, status, the page's parts, health, and the log's lines. */
#include "net/secured.h"

#include "net/server/journal.h"
#include "net/common/log.h"
#include "net/server/state.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

/* ---- the format of /metrics --------------------------------------------------------------------------------- */

static int name_length(const char *s)
{
    int n = 0;
    while (isalpha((unsigned char)s[n]) || s[n] == '_' || (n && isdigit((unsigned char)s[n]))) n++;
    return n;
}

/* Past {name="value",...}; NULL: it is not well formed. */
static const char *past_labels(const char *s)
{
    for (s++; *s != '}';) {
        int n = name_length(s);
        if (!n || s[n] != '=' || s[n + 1] != '"') return NULL;
        for (s += n + 2; *s && *s != '"'; s++)
            if (*s == '\n' || (*s == '\\' && !strchr("\\\"n", *++s))) return NULL;
        if (*s++ != '"') return NULL;
        if (*s == ',') s++;
    }
    return s + 1;
}

/* Whether a sample's name belongs to the family that the last TYPE line began. */
static int in_family(const char *name, int n, const char *family, const char *type)
{
    size_t f = strlen(family);
    if (strncmp(name, family, f)) return 0;
    if ((size_t)n == f) return strcmp(type, "histogram") != 0;
    return !strcmp(type, "histogram") &&
           (!strncmp(name + f, "_bucket", (size_t)n - f) || !strncmp(name + f, "_sum", (size_t)n - f) ||
            !strncmp(name + f, "_count", (size_t)n - f));
}

static void check_sample(const char *line, const char *family, const char *type)
{
    char *end;
    int n = name_length(line);
    assert_true(n > 0);
    assert_true(in_family(line, n, family, type));
    const char *at = line[n] == '{' ? past_labels(line + n) : line + n;
    assert_non_null(at);
    assert_int_equal(*at, ' ');
    double v = strtod(at + 1, &end);
    assert_true(end > at + 1 && !*end);
    if (!strcmp(type, "counter")) assert_true(v >= 0);
}

/* Every family has its HELP and TYPE once, in front of its samples; counters are called so. */
static void check_format(char *text)
{
    char family[200] = "", type[20] = "", seen[20000] = " ", word[220];
    size_t n = strlen(text), families = 0;
    assert_true(n && text[n - 1] == '\n');
    for (char *line = text, *next; *line; line = next) {
        next = strchr(line, '\n');
        *next++ = 0;
        if (!strncmp(line, "# HELP ", 7)) {
            assert_int_equal(sscanf(line, "# HELP %199s", family), 1);
            snprintf(word, sizeof word, " %s ", family);
            assert_null(strstr(seen, word));
            strcat(seen, word);
            families++;
        } else if (!strncmp(line, "# TYPE ", 7)) {
            char again[200];
            assert_int_equal(sscanf(line, "# TYPE %199s %19s", again, type), 2);
            assert_string_equal(again, family);
            size_t f = strlen(family);
            if (!strcmp(type, "counter")) assert_true(f > 6 && !strcmp(family + f - 6, "_total"));
            if (!strcmp(type, "gauge")) assert_false(f > 6 && !strcmp(family + f - 6, "_total"));
        } else {
            check_sample(line, family, type);
        }
    }
    assert_true(families > 20);
}

/* The value of a sample, by the line's beginning; NaN: there is none. */
static double sample(const char *text, const char *beginning)
{
    size_t n = strlen(beginning);
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1)
        if (!strncmp(line, beginning, n) && line[n] == ' ') return strtod(line + n, NULL);
    return NAN;
}

static void expect_sample(const char *text, const char *beginning, double want)
{
    double got = sample(text, beginning);
    if (got != want) fail_msg("%s is %g, not %g", beginning, got, want);
}

/* ---- what is said of a run ----------------------------------------------------------------------------------- */

static json_t *status_of(caller *c)
{
    assert_int_equal(call(c, FLI_NET_STATUS, NULL, 0), 200);
    json_t *j = json_loads(c->body, 0, NULL);
    assert_non_null(j);
    return j;
}

static json_int_t integer(json_t *j, const char *name)
{
    assert_true(json_is_integer(json_object_get(j, name)));
    return json_integer_value(json_object_get(j, name));
}

static const char *text_of(json_t *j, const char *name) { return json_string_value(json_object_get(j, name)); }

static void before_it_begins(caller *c)
{
    json_t *j = status_of(c);
    assert_string_equal(text_of(j, "state"), "joining");
    assert_int_equal(integer(j, "missing"), CLIENTS);
    assert_int_equal(json_array_size(json_object_get(j, "people")), CLIENTS);
    assert_string_equal(text_of(json_array_get(json_object_get(j, "people"), 0), "state"), "missing");
    assert_true(json_is_null(json_object_get(json_object_get(j, "checkpoint"), "round")));
    json_decref(j);
    assert_int_equal(call(c, FLI_NET_METRICS, NULL, 0), 200);
    expect_sample(c->body, "fedloom_clients_joined", 0);
    expect_sample(c->body, "fedloom_state{state=\"joining\"}", 1);
    check_format(c->body);
}

static void after_it_ended(caller *c)
{
    json_t *j = status_of(c), *p = json_array_get(json_object_get(j, "people"), 2);
    assert_int_equal(integer(j, "round"), 4);
    assert_int_equal(integer(j, "rounds"), 4);
    assert_int_equal(strlen(text_of(j, "run")), 64);
    assert_true(strncmp(text_of(j, "run"), "0000000000000000", 16) != 0);
    assert_string_equal(text_of(p, "name"), "client-2");
    assert_true(integer(p, "answers") > 0);
    assert_true(json_is_real(json_object_get(p, "took")));
    json_t *m = json_object_get(j, "metrics"), *rows = json_object_get(m, "rows");
    assert_int_equal(json_array_size(rows), 5); /* the start, and after every round */
    assert_string_equal(json_string_value(json_array_get(json_object_get(m, "columns"), 0)), "round");
    assert_int_equal(json_array_size(json_array_get(rows, 4)), json_array_size(json_object_get(m, "columns")));
    assert_int_equal(json_integer_value(json_array_get(json_array_get(rows, 4), 0)), 4);
    assert_int_equal(integer(json_object_get(j, "checkpoint"), "written"), 4);
    assert_true(integer(json_object_get(j, "checkpoint"), "bytes") > 100);
    json_decref(j);
    json_int_t answers = -1;
    for (int i = 0; i < 600; i++) { /* the run is over, but clients may still be answered: until two looks agree */
        j = status_of(c);
        answers = integer(json_object_get(j, "counters"), "answers");
        json_decref(j);
        assert_int_equal(call(c, FLI_NET_METRICS, NULL, 0), 200);
        if (sample(c->body, "fedloom_answers_total{outcome=\"taken\"}") == (double)answers &&
            sample(c->body, "fedloom_requests_total{page=\"/v1/answer\",code=\"200\"}") == (double)answers)
            break;
    }
    expect_sample(c->body, "fedloom_round", 4);
    expect_sample(c->body, "fedloom_clients_joined", CLIENTS);
    expect_sample(c->body, "fedloom_answers_total{outcome=\"taken\"}", (double)answers);
    expect_sample(c->body, "fedloom_requests_total{page=\"/v1/answer\",code=\"200\"}", (double)answers);
    expect_sample(c->body, "fedloom_requests_total{page=\"/v1/join\",code=\"200\"}", CLIENTS);
    expect_sample(c->body, "fedloom_requests_total{page=\"other\",code=\"404\"}", 1);
    expect_sample(c->body, "fedloom_round_seconds_count", 4);
    expect_sample(c->body, "fedloom_round_seconds_bucket{le=\"+Inf\"}", 4);
    expect_sample(c->body, "fedloom_checkpoints_total", 4);
    assert_true(sample(c->body, "fedloom_checkpoint_last_success_timestamp_seconds") > 1.7e9);
    assert_true(sample(c->body, "process_resident_memory_bytes") > 1e6);
    assert_true(sample(c->body, "process_open_fds") > 3);
    assert_true(isfinite(sample(c->body, "fedloom_metric{name=\"train_loss\"}")));
    assert_true(sample(c->body, "fedloom_received_bytes_total") > 0);
    check_format(c->body);
}

static void run_and_look(void **state)
{
    federation t;
    member m[CLIENTS];
    caller c;
    char settings[600];
    fixture *f = *state;
    federation_init(&t, f, "");
    snprintf(settings, sizeof settings, "output=%s;checkpoint_every=1", fixture_path(f, "looked-at"));
    serve_up(&t, settings, (fli_serve_options){0});
    caller_init(&c, t.base, "somebody");
    before_it_begins(&c);
    assert_int_equal(call(&c, "/nothing", NULL, 0), 404);
    members_join(&t, m);
    members_start(m, 0);
    same_as_simulated(&t);
    after_it_ended(&c);
    assert_int_equal(call(&c, FLI_NET_HEALTH, NULL, 0), 200);
    assert_string_equal(c.body, "ok\n");
    tell_all(&t);
    members_end(m, 0);
    caller_fini(&c);
    serve_down(&t);
}

/* ---- what goes wrong ------------------------------------------------------------------------------------------- */

/* A client that refuses, with a reason that would like to be markup. */
static void a_refusals_reason_loses_control_characters(void **state)
{
    federation t;
    member m[CLIENTS];
    char ask[100];
    static const char reason[] = "<img src=x onerror=alert(1)>\\u0007 \\\"quoted\\\"";
    federation_init(&t, *state, "algorithm=fedavg;participation={kind: uniform, count: 5}");
    serve_up(&t, "algorithm=fedavg;participation={kind: uniform, count: 5}", (fli_serve_options){0});
    members_join(&t, m);
    member_accept(&m[0]);
    assert_int_equal(call(&m[0].call, FLI_NET_ASK "?wait=20", NULL, 0), 200);
    uint64_t number = 0;
    for (int i = 7; i >= 0; i--) number = number << 8 | ((unsigned char *)m[0].call.body)[16 + i];
    snprintf(ask, sizeof ask, "{\"number\": %llu, \"reason\": \"%s\"}", (unsigned long long)number, reason);
    json_t *j = status_of(&m[1].call), *p;
    for (int i = 0; i < 600 && json_array_size(json_object_get(j, "stragglers")) < CLIENTS; i++) {
        json_decref(j); /* asks come one by one */
        fli_serve_wait(t.serve, 0.05);
        j = status_of(&m[1].call);
    }
    p = json_array_get(json_object_get(j, "people"), 0);
    assert_string_equal(text_of(p, "state"), "working");
    assert_true(json_is_real(json_object_get(p, "asked")));
    assert_string_equal(text_of(json_array_get(json_object_get(j, "people"), 2), "state"), "asked");
    assert_int_equal(json_array_size(json_object_get(j, "stragglers")), CLIENTS);
    json_decref(j);
    assert_int_equal(call(&m[0].call, FLI_NET_REFUSE, ask, strlen(ask)), 200);
    j = status_of(&m[1].call);
    p = json_array_get(json_object_get(j, "mishaps"), 0);
    assert_string_equal(text_of(p, "what"), "refused");
    assert_string_equal(text_of(p, "name"), "client-0");
    assert_string_equal(text_of(p, "why"), "<img src=x onerror=alert(1)>? 'quoted'");
    assert_int_equal(integer(json_array_get(json_object_get(j, "people"), 0), "refused"), 1);
    json_decref(j);
    for (size_t i = 0; i < CLIENTS; i++) member_fini(&m[i]);
    serve_down(&t);
}

/* Works until the server has nothing more to say, whatever becomes of its answers. */
static void *work_on(void *arg)
{
    member *m = arg;
    fl_bytes answer;
    for (long code = 204; code == 200 || code == 204;) {
        code = call(&m->call, FLI_NET_ASK "?wait=20", NULL, 0);
        if (code != 200) continue;
        if (fl_client_work(m->client, m->call.body, m->call.n, &answer)) break;
        call(&m->call, FLI_NET_ANSWER, answer.data, answer.n);
        fl_bytes_free(&answer);
    }
    return NULL;
}

/* There is no place for checkpoints any more. */
static void failing_checkpoints_make_health_fail(void **state)
{
    federation t;
    member m[CLIENTS];
    caller c;
    fixture *f = *state;
    char settings[600], folder[300], moved[300];
    long code = 0;
    federation_init(&t, f, "");
    snprintf(settings, sizeof settings, "output=%s;checkpoint_every=1", fixture_path(f, "sick"));
    snprintf(folder, sizeof folder, "%.250s.checkpoint", fixture_path(f, "sick"));
    snprintf(moved, sizeof moved, "%.250s", fixture_path(f, "moved"));
    serve_up(&t, settings, (fli_serve_options){0});
    caller_init(&c, t.base, "somebody");
    members_join(&t, m);
    for (size_t i = 0; i < CLIENTS; i++) member_accept(&m[i]);
    assert_int_equal(call(&m[0].call, FLI_NET_ASK "?wait=20", NULL, 0),
                     200); /* everybody is asked to measure the start */
    assert_int_equal(call(&c, FLI_NET_HEALTH, NULL, 0), 200);
    assert_int_equal(rename(folder, moved), 0);
    for (size_t i = 0; i < CLIENTS; i++) assert_int_equal(pthread_create(&m[i].thread, NULL, work_on, &m[i]), 0);
    for (int i = 0; i < 600 && code != 503; i++) {
        code = call(&c, FLI_NET_HEALTH, NULL, 0);
        fli_serve_wait(t.serve, 0.05);
    }
    assert_int_equal(code, 503);
    assert_string_equal(c.body, "a checkpoint could not be written\n"); /* for a client */
    c.name = "";
    assert_int_equal(call(&c, FLI_NET_HEALTH, NULL, 0), 503);
    assert_non_null(strstr(c.body, "sick.checkpoint"));
    json_t *j = status_of(&c);
    assert_non_null(strstr(text_of(json_object_get(j, "checkpoint"), "error"), "sick.checkpoint"));
    json_decref(j);
    assert_int_equal(call(&c, FLI_NET_METRICS, NULL, 0), 200);
    expect_sample(c.body, "fedloom_checkpoint_failures_total", 1);
    assert_int_equal(fli_serve_wait(t.serve, 10), 1);
    fli_serve_finish(t.serve); /* so that the clients go */
    members_end(m, 0);
    caller_fini(&c);
    serve_down(&t);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static size_t keep_header(char *line, size_t size, size_t n, void *arg)
{
    char *kept = arg;
    size_t used = strlen(kept);
    if (used + size * n < 4000) snprintf(kept + used, 4001 - used, "%.*s", (int)(size * n), line);
    return size * n;
}

/* The page for people comes without headers of ours, and tells the browser what it may do. */
static void page_parts(void **state)
{
    federation t;
    static const char *const parts[][2] = {
        {"/", "text/html"}, {"/status.css", "text/css"}, {"/status.js", "text/javascript"}};
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){0});
    for (size_t i = 0; i < 3; i++) {
        char url[200], headers[4001] = "";
        caller c;
        long code = 0;
        caller_init(&c, t.base, "");
        snprintf(url, sizeof url, "%s%s", t.base, parts[i][0]);
        curl_easy_setopt(c.curl, CURLOPT_URL, url);
        curl_easy_setopt(c.curl, CURLOPT_HEADERFUNCTION, keep_header);
        curl_easy_setopt(c.curl, CURLOPT_HEADERDATA, headers);
        curl_easy_setopt(c.curl, CURLOPT_WRITEFUNCTION, collect);
        curl_easy_setopt(c.curl, CURLOPT_WRITEDATA, &c);
        assert_int_equal(curl_easy_perform(c.curl), CURLE_OK);
        curl_easy_getinfo(c.curl, CURLINFO_RESPONSE_CODE, &code);
        assert_int_equal(code, 200);
        assert_true(c.n > 1000);
        assert_non_null(strstr(headers, parts[i][1]));
        assert_non_null(strstr(headers, "Content-Security-Policy: default-src 'none'; script-src 'self'"));
        assert_non_null(strstr(headers, "nosniff"));
        if (!i) assert_true(!strstr(c.body, "style=") && !strstr(c.body, "<style") && !strstr(c.body, "onclick"));
        caller_fini(&c);
    }
    serve_down(&t);
}

/* Whoever has a viewer's certificate of this authority may look, and nobody else may. */
static void who_may_look(void **state)
{
    static const char *const pages[] = {"/",           "/status.css", "/status.js", FLI_NET_STATUS, FLI_NET_METRICS,
                                        FLI_NET_HEALTH};
    secured s;
    caller c;
    fixture *f = *state;
    char foreign[300];
    secured_up(&s, f);
    assert_ok(f->ctx, fli_cert_viewer(f->ctx, s.ca, "observer", (fli_cert_wish){5, 0}));
    snprintf(foreign, sizeof foreign, "%.200s", fixture_path(f, "foreign"));
    assert_ok(f->ctx, fli_cert_init(f->ctx, foreign, "foreign", 10));
    assert_ok(f->ctx, fli_cert_viewer(f->ctx, foreign, "observer", (fli_cert_wish){5, 0}));
    caller_init(&c, s.t.base, "observer");
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        show_viewer(&c, &s, "observer", s.ca);
        caller_anew(&c);
        assert_int_equal(call(&c, pages[i], NULL, 0), 200);
        show_viewer(&c, &s, "observer", foreign);
        caller_anew(&c);
        long code = call(&c, pages[i], NULL, 0);
        assert_true(code == 403 || code == 0);
        *c.certs = 0;
        caller_anew(&c);
        code = call(&c, pages[i], NULL, 0);
        assert_true(code == 403 || code == 0);
    }
    caller_fini(&c);
    serve_down(&s.t);
}

/* ---- the journal and the log ------------------------------------------------------------------------------------- */

static void journal_stays_small(void **state)
{
    fixture *f = *state;
    fli_journal *j;
    fl_row row;
    char name[32];
    assert_ok(f->ctx, fli_journal_new(f->ctx, &j));
    for (size_t i = 0; i <= 3001; i++) {
        for (size_t k = 0; k < FL_METRICS_MAX; k++) row.value[k] = (double)i;
        fli_journal_round(j, i, 3001, &row);
        snprintf(name, sizeof name, "client-%zu", i % 77);
        fli_journal_mishap(j, i % 2 ? "refused" : "rejected", (uint32_t)(i % 77), name, "because");
    }
    json_t *m = fli_journal_metrics(j), *rows = json_object_get(m, "rows");
    size_t n = json_array_size(rows);
    assert_true(n >= 200 && n <= 401);
    for (size_t i = 0, before = 0; i < n; i++) { /* evenly, from the first to the newest */
        size_t round = (size_t)json_integer_value(json_array_get(json_array_get(rows, i), 0));
        if (i && i + 1 < n) assert_int_equal(round - before, 8);
        before = round;
        if (!i) assert_int_equal(round, 0);
        if (i + 1 == n) assert_int_equal(round, 3001);
    }
    json_decref(m);
    m = fli_journal_mishaps(j);
    assert_int_equal(json_array_size(m), 50);
    assert_int_equal(integer(json_array_get(m, 0), "client"), 3001 % 77);
    json_decref(m);
    /* One that makes trouble all the time has one line, in front. */
    for (int i = 0; i < 500; i++) fli_journal_mishap(j, "malformed", 5, "client-5", i % 2 ? "this" : "that");
    m = fli_journal_mishaps(j);
    assert_int_equal(json_array_size(m), 50);
    assert_int_equal(integer(json_array_get(m, 0), "times"), 500);
    assert_string_equal(text_of(json_array_get(m, 0), "why"), "this");
    assert_int_equal(integer(json_array_get(m, 1), "client"), 3001 % 77);
    json_decref(m);
    fli_journal_free(j);
}

typedef struct {
    size_t of[3]; /* lines: unauthorized, slow, others */
    char last[200];
} heard_lines;

static void hear(void *arg, const char *line)
{
    heard_lines *h = arg;
    h->of[strstr(line, "event=unauthorized ") ? 0 : strstr(line, "event=slow ") ? 1 : 2]++;
    snprintf(h->last, sizeof h->last, "%s", line);
    assert_int_equal(strncmp(line, "time=20", 7), 0);
}

static void lines_are_bounded(void **state)
{
    fixture *f = *state;
    heard_lines h = {{0}};
    fli_net_log log = {hear, &h, 0, NULL};
    assert_ok(f->ctx, fli_net_limiter_new(f->ctx, &log.limiter));
    for (int i = 0; i < 1000; i++) fli_net_say_bounded(&log, "unauthorized", "reason=%d", i);
    for (int i = 0; i < 3; i++) fli_net_say_bounded(&log, "slow", "bytes=%d", i);
    fli_net_flush(&log, 0); /* the minute is not over */
    assert_int_equal(h.of[0], FLI_NET_OFTEN);
    assert_int_equal(h.of[1], 3);
    assert_int_equal(h.of[2], 0);
    fli_net_flush(&log, 1);
    assert_int_equal(h.of[2], 1); /* nothing of "slow" was left out */
    assert_non_null(strstr(h.last, "event=left-out of=unauthorized lines=990"));
    fli_net_limiter_free(log.limiter);
    log.limiter = NULL;
    for (int i = 0; i < 20; i++) fli_net_say_bounded(&log, "slow", "bytes=%d", i);
    assert_int_equal(h.of[1], 23);
}

static void replies_are_counted(void **state)
{
    static fli_net_tally t;
    (void)state;
    fli_net_tally_add(&t, 1, 200);
    fli_net_tally_add(&t, 1, 418); /* no code of ours */
    fli_net_tally_add(&t, 99, 404);
    assert_int_equal(atomic_load(&t.n[1][0]), 1);
    assert_int_equal(atomic_load(&t.n[1][FLI_NET_CODES - 1]), 1);
    assert_int_equal(atomic_load(&t.n[FLI_NET_PAGES][4]), 1);
    assert_int_equal(fli_net_tally_code(4), 404);
    assert_int_equal(fli_net_tally_code(FLI_NET_CODES - 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(run_and_look),
        FIXTURE_TEST(a_refusals_reason_loses_control_characters),
        FIXTURE_TEST(failing_checkpoints_make_health_fail),
        FIXTURE_TEST(page_parts),
        FIXTURE_TEST(who_may_look),
        FIXTURE_TEST(journal_stays_small),
        FIXTURE_TEST(lines_are_bounded),
        cmocka_unit_test(replies_are_counted),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
