/* What is wrong whoever joins a server is said before anybody does, with the sentence that it would have then; what is
 * good for some clients is never refused before they are there. That every method on every problem of the two halves is
 * let in is seen in tests/conform/test_halves.c. */
#include "fixture.h"

#include "fedloom_halves.h"
#include "half/server.h"

#include <sys/stat.h>

enum { N = 3 };

#define SERVER                                                                                                         \
    "rounds: 3\nthreads: 1\nmodel: softmax\nparticipation: everyone\nlocal: {batch: 3, lr: 0.1}\n"                     \
    "data: {kind: joined, shape: [1, 4, 4], classes: 2}\npartition: {clients: 3}\n"

static fl_config *settings_of(fixture *f, const char *assignments)
{
    char text[1024], *save = NULL;
    fl_config *cfg = fixture_config(f, SERVER);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    return cfg;
}

/* What is said once such clients have joined; "" if the run can be made. */
static const char *said_of(fixture *f, fl_config *cfg, fli_xkind kind, size_t samples)
{
    fli_arena arena;
    fli_settings s;
    fli_remote_run j;
    fli_data_shape clients[N];
    const fli_digest cards = {{1}};
    for (size_t i = 0; i < N; i++)
        clients[i] = (fli_data_shape){.samples = samples, .shape = {1, 4, 4}, .classes = 2, .kind = kind};
    fli_clear(f->ctx);
    fli_arena_init(&arena, f->ctx);
    assert_ok(f->ctx, fli_settings_bind(f->ctx, &arena, cfg->root, &s));
    if (!fli_remote_run_init(cfg, &s, clients, &cards, &j)) fli_remote_run_fini(&j);
    fli_arena_fini(&arena);
    return fl_ctx_error(f->ctx);
}

/* ---- refused at once ---------------------------------------------------------------------------------------- */

static void refuse(fixture *f, const char *assignments, const char *sentence)
{
    char early[2048];
    fl_server *server = NULL;
    fl_config *cfg = settings_of(f, assignments);
    fl_status s = fl_server_new(cfg, &server);
    snprintf(early, sizeof early, "%s", fl_ctx_error(f->ctx));
    if (!s || !strstr(early, sentence)) fail_msg("%s: %d, %s", assignments, (int)s, early);
    assert_null(server);
    assert_string_equal(early, said_of(f, cfg, FLI_X_F64, 10));
    fl_config_free(cfg);
}

static void refused_at_once(void **state)
{
    fixture *f = *state;
    refuse(f, "participation={kind: uniform, count: 4}", "participation.count is 4");
    refuse(f, "participation={kind: bernoulli, probability: [0.1, 0.2]}", "2");
    refuse(f, "local.lr_factors=[1, 2]", "local.lr_factors");
    refuse(f, "algorithm={kind: fedvra, gamma: [1, 2]}", "algorithm.gamma");
    refuse(f, "algorithm={kind: fedvra, preset: admm, gamma: 0}", "gamma");
    refuse(f, "algorithm={kind: fedasync, tau: 1};system=constant", "tau");
    refuse(f, "model=least_squares", "needs real-valued targets");
    refuse(f, "model={kind: cnn, layers: \"conv 4x9, fc 5\"}", "model.layers");
    refuse(f, "stop.target=0.5", "there is no test set");
    refuse(f, "metrics.potential=true", "no potential");
    refuse(f, "algorithm=feddr;regularizer={kind: box, low: 2, high: 1}", "regularizer.low");
    refuse(f, "data.normalize=given;data.mean=[1, 2, 3];data.std=[1, 1, 1]", "mean has 3 values");
    refuse(f, "data.class_names=a", "data.class_names has 1 names");
    refuse(f, "algorithm={kind: feddr, solver: accurate, accuracy: 1, relative: 0.1}", "at the clients");
    refuse(f, "model={kind: factorization, rank: 2}", "are not here");
    refuse(f, "model={kind: factorization, rank: 9}", "are not here");
    refuse(f, "device=twin", "all turns are theirs");
    refuse(f, "data.test=nowhere.npz", "nowhere.npz");
    refuse(f, "model.start=nowhere.safetensors", "nowhere.safetensors");
    refuse(f, "participation={kind: trace, path: nowhere.txt}", "nowhere.txt");
}

/* Of two problems the one that does not wait for clients. */
static void one_of_two(void **state)
{
    fixture *f = *state;
    fl_server *server = NULL;
    fl_config *cfg =
        settings_of(f, "algorithm=simfbo;bilevel={kind: regularization, validation: 0.5};local.lr_factors=[1, 2]");
    assert_fails(f->ctx, fl_server_new(cfg, &server), FL_ECONFIG, "local.lr_factors");
    assert_null(strchr(fl_ctx_error(f->ctx), '\n'));
    const char *later = said_of(f, cfg, FLI_X_F32, 1);
    assert_non_null(strstr(later, "local.lr_factors"));
    assert_non_null(strstr(later, "client 0 has a single training sample"));
    fl_config_free(cfg);
}

/* ---- not refused, since it may be good ---------------------------------------------------------------------- */

static void let_in(fixture *f, const char *assignments, fli_xkind kind, size_t samples)
{
    fl_server *server = NULL;
    fl_config *cfg = settings_of(f, assignments);
    if (fl_server_new(cfg, &server)) fail_msg("%s: %s", assignments, fl_ctx_error(f->ctx));
    assert_int_equal(fl_server_missing(server), N);
    const char *later = said_of(f, cfg, kind, samples);
    if (*later) fail_msg("%s: %s", assignments, later);
    fl_server_free(server);
    fl_config_free(cfg);
}

/* Good for these clients, and not for those. */
static void by_clients(fixture *f, const char *assignments, fli_xkind good, fli_xkind bad, size_t bad_samples)
{
    let_in(f, assignments, good, 10);
    fl_config *cfg = settings_of(f, assignments);
    if (!*said_of(f, cfg, bad, bad_samples)) fail_msg("%s is good for everybody", assignments);
    fl_config_free(cfg);
}

static void waits_for_clients(void **state)
{
    fixture *f = *state;
    char text[700];
    by_clients(f, "algorithm=simfbo;bilevel={kind: regularization, validation: 0.5}", FLI_X_F32, FLI_X_F32, 1);
    by_clients(f, "data.normalize=given;data.mean=0.5;data.std=1", FLI_X_U8, FLI_X_CSR, 10);
    by_clients(f, "data.augment=cifar", FLI_X_F64, FLI_X_CSR, 10);
    by_clients(f, "data.normalize=image", FLI_X_U8, FLI_X_CSR, 10);
    snprintf(text, sizeof text, "data.test=%s;stop.target=0.5", fixture_write(f, "test.txt", "0 1:1 3:2\n1 16:-1\n"));
    by_clients(f, text, FLI_X_CSR, FLI_X_F32, 10);
}

static void good_settings(void **state)
{
    fixture *f = *state;
    let_in(f, "rounds=3", FLI_X_CSR, 1);
    let_in(f, "data.test_fraction=0.9;data.unlabelled=0.9;semi={labels: projected};algorithm=fedvra-u", FLI_X_F32, 1);
    let_in(f, "stop.target=0.5;data.test_fraction=0.2", FLI_X_F32, 2);
    let_in(f, "participation={kind: weighted, count: 3};local={batch: 5000, epochs: 2}", FLI_X_U8, 7);
    let_in(f, "participation={kind: uniform, count: 3};server={wait_for: 0.5, quorum: 0.5}", FLI_X_F32, 7);
    let_in(f, "model={kind: factorization, rank: 2, init: random}", FLI_X_F64, 7);
    let_in(f, "clock=real;algorithm=fedbuff;participation={kind: uniform, count: 2}", FLI_X_F64, 7);
}

/* A test set in memory, stored as no client of the first kind that is imagined is. */
static void bytes_to_test(void **state)
{
    static const unsigned char x[2 * 16];
    static const int32_t label[2] = {0, 1};
    fixture *f = *state;
    fl_server *server = NULL;
    fl_config *cfg = settings_of(f, "stop.target=0.5");
    fl_samples none = {.size = sizeof none},
               two = {.size = sizeof two, .n = 2, .dim = 16, .classes = 2, .u8 = x, .label = label};
    assert_ok(f->ctx, fl_config_data(cfg, &none, &two, NULL));
    assert_ok(f->ctx, fl_config_set(cfg, "data={kind: joined, shape: [1, 4, 4], classes: 2}"));
    assert_ok(f->ctx, fl_server_new(cfg, &server));
    fl_server_free(server);
    assert_string_equal(said_of(f, cfg, FLI_X_U8, 10), "");
    assert_non_null(strstr(said_of(f, cfg, FLI_X_F32, 10), "not stored like"));
    fl_config_free(cfg);
}

/* A rehearsal would leave nothing of it for the run; nobody writes here, so that reading would not even end. */
static void pipes_stay_full(void **state)
{
    fixture *f = *state;
    char text[600];
    fl_server *server = NULL;
    assert_int_equal(mkfifo(fixture_path(f, "pipe"), 0600), 0);
    snprintf(text, sizeof text, "participation={kind: trace, path: %s}", f->path);
    fl_config *cfg = settings_of(f, text);
    assert_ok(f->ctx, fl_server_new(cfg, &server));
    fl_server_free(server);
    fl_config_free(cfg);
}

/* ---- what goes, but is odd, is said when the run is made ----------------------------------------------------- */

static void count_line(void *arg, fl_log_level level, const char *line)
{
    (void)line;
    *(int *)arg += level == FL_LOG_WARNING;
}

static void no_warnings(void **state)
{
    fixture *f = *state;
    int lines = 0;
    fl_server *server = NULL;
    fl_ctx_on_log(f->ctx, count_line, &lines);
    fl_config *cfg = settings_of(f, "algorithm=scaffold;local.momentum=0.5");
    assert_ok(f->ctx, fl_server_new(cfg, &server));
    assert_int_equal(lines, 0);
    assert_string_equal(said_of(f, cfg, FLI_X_F32, 10), "");
    assert_int_equal(lines, 1);
    fl_server_free(server);
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(refused_at_once), FIXTURE_TEST(one_of_two),    FIXTURE_TEST(waits_for_clients),
        FIXTURE_TEST(good_settings),   FIXTURE_TEST(bytes_to_test), FIXTURE_TEST(pipes_stay_full),
        FIXTURE_TEST(no_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
