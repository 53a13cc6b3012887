/* What clients that are let in, or people who are not, may try beyond sending rubbish. */
#include "net/federation.h"

#include "base/os.h"

/* ---- one name from two connections -------------------------------------------------------------------------- */

enum { AT_ONCE = 4, TIMES = 4 };

typedef struct {
    caller call;
    const fl_bytes *card;
    pthread_barrier_t *start;
    long code;
} joiner;

static void *join_now(void *arg)
{
    joiner *j = arg;
    pthread_barrier_wait(j->start);
    j->code = call(&j->call, FLI_NET_JOIN, j->card->data, j->card->n);
    return NULL;
}

/* Everybody's name is its own number's, once, and a server that starts again knows the same. */
static void same_names(federation *t)
{
    int seen[CLIENTS] = {0};
    for (uint32_t i = 0; i < CLIENTS; i++) {
        member m;
        member_init(&m, t, i);
        assert_int_equal(call(&m.call, FLI_NET_FEDERATION, NULL, 0), 200);
        const char *you = strstr(m.call.body, "\"client\":");
        int number = you && you[9] != 'n' ? atoi(you + 9) : -1;
        if (number < 0 || number >= CLIENTS || seen[number]++) fail_msg("%s: %s", m.name, m.call.body);
        member_fini(&m);
    }
}

/* For every client so many, half of them with each of its two cards. */
static void joiners_init(joiner *j, federation *t, fl_bytes card[CLIENTS][2], pthread_barrier_t *start)
{
    for (size_t i = 0; i < CLIENTS * AT_ONCE; i++) {
        member m;
        size_t who = i / AT_ONCE;
        member_init(&m, t, (uint32_t)who);
        if (i % AT_ONCE < 2) assert_ok(m.ctx, fl_client_card(m.client, (int)(i % 2), &card[who][i % 2]));
        j[i] = (joiner){.card = &card[who][i % 2], .start = start, .call = m.call};
        j[i].call.name = strdup(m.name);
        fl_client_free(m.client);
        fl_ctx_free(m.ctx);
    }
}

/* All names at once, each from several connections with two different cards. One of the two counts, whichever it is;
 * the other one must not take the name or the number away again. */
static void two_cards_of_one_name(void **state)
{
    fixture *f = *state;
    federation t;
    joiner j[CLIENTS * AT_ONCE];
    pthread_t thread[CLIENTS * AT_ONCE];
    pthread_barrier_t start;
    fl_bytes card[CLIENTS][2];
    char output[300];
    federation_init(&t, f, "");
    for (int k = 0; k < TIMES; k++) {
        snprintf(output, sizeof output, "output=%.200s-%d", fixture_path(f, "out"), k);
        serve_up(&t, output, (fli_serve_options){0});
        pthread_barrier_init(&start, NULL, CLIENTS * AT_ONCE);
        joiners_init(j, &t, card, &start);
        for (size_t i = 0; i < CLIENTS * AT_ONCE; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, join_now, &j[i]), 0);
        for (size_t i = 0; i < CLIENTS * AT_ONCE; i++) {
            pthread_join(thread[i], NULL);
            if (j[i].code != 200 && j[i].code != 409 && j[i].code != 503)
                fail_msg("code %ld: %s", j[i].code, j[i].call.body);
            free((void *)j[i].call.name);
            caller_fini(&j[i].call);
        }
        same_names(&t);
        serve_down(&t);
        serve_up(&t, output, (fli_serve_options){0});
        same_names(&t);
        serve_down(&t);
        pthread_barrier_destroy(&start);
        for (size_t i = 0; i < CLIENTS; i++) fl_bytes_free(&card[i][0]), fl_bytes_free(&card[i][1]);
    }
}

/* ---- strangers ------------------------------------------------------------------------------------------------ */

static void count_line(void *count, const char *line)
{
    if (strstr(line, "event=unauthorized") || strstr(line, "event=left-out")) atomic_fetch_add((atomic_int *)count, 1);
}

/* Nobody fills a disk by being turned away, or keeps a connection for it. */
static void turned_away_often(void **state)
{
    static const char no_name[] = "GET /v1/ask HTTP/1.1\r\nHost: localhost\r\nFedloom-Protocol: 1 1\r\n\r\n";
    federation t;
    atomic_int lines = 0;
    enum { TRIES = 300 };
    federation_init(&t, *state, "");
    serve_up(&t, "", (fli_serve_options){.log = {.line = count_line, .arg = &lines}});
    double begun = fli_clock_now();
    for (int i = 0; i < TRIES; i++) {
        char answer[1024];
        size_t n = 0;
        ssize_t got;
        int fd = dial(&t);
        assert_int_equal(send(fd, no_name, strlen(no_name), MSG_NOSIGNAL), strlen(no_name));
        while ((got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0) n += (size_t)got;
        answer[n] = 0;
        assert_int_equal(got, 0); /* the server has closed it */
        assert_non_null(strstr(answer, "HTTP/1.1 403 "));
        close(fd);
    }
    double minutes = (fli_clock_now() - begun) / 60;
    int most = (int)(11 * (minutes + 2));
    if (most < TRIES) assert_true(atomic_load(&lines) <= most); /* a machine that slow shows nothing */
    assert_true(atomic_load(&lines) > 0);
    serve_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(two_cards_of_one_name),
        FIXTURE_TEST(turned_away_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
