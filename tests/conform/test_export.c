/* A federation that is exported, served and joined has the bits of its simulation, whatever its samples are. */
#include "fixture.h"
#include "outcome.h"

#include "fedloom_halves.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 12, PATH = 400 };

typedef struct {
    fl_ctx *ctx;
    fl_client *client;
} member;

static fl_client *open_member(const char *folder, const char *name, fl_ctx *ctx)
{
    char path[PATH];
    fl_client *c;
    fl_config *cfg = fl_config_new(ctx);
    snprintf(path, sizeof path, "%s/clients/%s.yaml", folder, name);
    assert_ok(ctx, fl_config_load(cfg, path));
    assert_ok(ctx, fl_client_new(cfg, &c));
    fl_config_free(cfg);
    return c;
}

/* ---- canaries ---------------------------------------------------------------------------------------------- */

/* Behind every block that an export allocates lie bytes that have to be as they were when it is freed. The linker
 * brings the library's calls here (--wrap, CMakeLists.txt). */
#if defined(__SANITIZE_ADDRESS__)
enum { GUARDED = 0 }; /* AddressSanitizer sees more: what is read there as well */
#else
enum { GUARDED = 1 };
#endif
enum { CANARIES = 1 << 14, CANARY = 64 };

static struct {
    pthread_mutex_t lock;
    int on;
    size_t count, seen;
    size_t dead; /* bytes that have changed */
    struct {
        unsigned char *block, *canary;
    } at[CANARIES];
} canaries = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *__real_fli_alloc(fl_ctx *ctx, size_t count, size_t size);
void *__wrap_fli_alloc(fl_ctx *ctx, size_t count, size_t size);
void __real_fli_free(void *p);
void __wrap_fli_free(void *p);

void *__wrap_fli_alloc(fl_ctx *ctx, size_t count, size_t size)
{
    pthread_mutex_lock(&canaries.lock);
    int guarded = canaries.on && canaries.count < CANARIES;
    unsigned char *p = __real_fli_alloc(ctx, guarded ? count * size + CANARY : count, guarded ? 1 : size);
    if (guarded && p) {
        memset(p + count * size, 0xA5, CANARY);
        canaries.at[canaries.count].block = p;
        canaries.at[canaries.count++].canary = p + count * size;
        canaries.seen++;
    }
    pthread_mutex_unlock(&canaries.lock);
    return p;
}

void __wrap_fli_free(void *p)
{
    pthread_mutex_lock(&canaries.lock);
    for (size_t i = 0; p && i < canaries.count; i++) {
        if (canaries.at[i].block != p) continue;
        for (size_t k = 0; k < CANARY; k++) canaries.dead += canaries.at[i].canary[k] != 0xA5;
        canaries.at[i] = canaries.at[--canaries.count];
        break;
    }
    pthread_mutex_unlock(&canaries.lock);
    __real_fli_free(p);
}

static fl_status export_guarded(fl_config *cfg, const char *folder)
{
    canaries.on = GUARDED;
    fl_status s = fl_data_export(cfg, folder);
    canaries.on = 0;
    assert_true(canaries.seen > 0 || !GUARDED);
    assert_int_equal(canaries.dead, 0);
    return s;
}

/* ---- members ----------------------------------------------------------------------------------------------- */

/* Everybody in the roster, in its order. */
static size_t join_all(const char *folder, fl_server *server, member *m)
{
    char path[PATH], name[100];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/roster", folder);
    FILE *roster = fopen(path, "r");
    assert_non_null(roster);
    while (fscanf(roster, "%99s", name) == 1) {
        fl_bytes card;
        assert_true(n < MOST);
        assert_non_null(m[n].ctx = fl_ctx_new());
        m[n].client = open_member(folder, name, m[n].ctx);
        assert_ok(m[n].ctx, fl_client_card(m[n].client, 1, &card));
        assert_int_equal(fl_server_join(server, (uint32_t)n, card.data, card.n), FL_OK);
        fl_bytes_free(&card);
        n++;
    }
    fclose(roster);
    return n;
}

static void work_all(fl_server *server, member *m)
{
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    while (!(s = fl_server_next(server, 10, &who, &ask))) {
        if (!ask.n) continue;
        assert_ok(m[who].ctx, fl_client_work(m[who].client, ask.data, ask.n, &answer));
        assert_int_equal(fl_server_answer(server, who, answer.data, answer.n), FL_OK);
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
    }
    if (s != FL_EDONE) fail_msg("%s", fl_server_error(server));
}

static outcome served(fixture *f, const char *folder, member *m, fl_server **server)
{
    char path[PATH];
    fl_config *cfg = fl_config_new(f->ctx);
    snprintf(path, sizeof path, "%s/server.yaml", folder);
    assert_ok(f->ctx, fl_config_load(cfg, path));
    assert_ok(f->ctx, fl_server_new(cfg, server));
    fl_config_free(cfg);
    size_t n = join_all(folder, *server, m);
    assert_ok(f->ctx, fl_server_begin(*server));
    for (uint32_t i = 0; i < n; i++) {
        fl_bytes terms;
        assert_ok(f->ctx, fl_server_terms(*server, i, &terms));
        assert_ok(m[i].ctx, fl_client_accept(m[i].client, terms.data, terms.n));
        fl_bytes_free(&terms);
    }
    work_all(*server, m);
    return outcome_of(fl_server_run(*server));
}

static void agree(fixture *f, const char *text)
{
    static int count;
    char folder[200];
    member m[MOST] = {{0}};
    fl_run *run;
    fl_server *server;
    fl_config *cfg = fixture_config(f, text);
    snprintf(folder, sizeof folder, "%s/%d", f->folder, count++);
    assert_ok(f->ctx, export_guarded(cfg, folder));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    outcome want = outcome_of(run), got = served(f, folder, m, &server);
    if (!same(&want, &got)) fail_msg("%s\nexported, it gives other bits", text);
    outcome_free(&want);
    outcome_free(&got);
    fl_server_free(server);
    for (size_t i = 0; i < MOST; i++) {
        fl_client_free(m[i].client);
        fl_ctx_free(m[i].ctx);
    }
    fl_run_free(run);
    fl_config_free(cfg);
}

#define REST                                                                                                           \
    "rounds: 2\nparticipation: {kind: uniform, count: 4}\nlocal: {batch: 5, lr: 0.1}\nmetrics: {gradient: true}\n"     \
    "algorithm: scaffold\n"

static void exported_images_give_the_same_bits(void **state)
{
    agree(*state, REST "data: {kind: digits, samples: 120, test_samples: 20, test_fraction: 0.2, normalize: standard}\n"
                       "partition: {kind: dirichlet, alpha: 0.4, clients: 11}\nmodel: softmax\n");
    agree(*state, REST "data: {kind: digits, samples: 90, test_samples: 20, normalize: given, mean: 0.13, std: 0.31}\n"
                       "partition: {kind: shards, clients: 6}\nmodel: {kind: mlp, hidden: [5]}\nprecision: f64\n");
    agree(*state, REST "data: {kind: digits, samples: 90, crop: 20, normalize: image}\n"
                       "partition: {kind: iid, clients: 6}\nmodel: {kind: mlp, hidden: [5]}\n");
    /* what was drawn once is in the files */
    agree(*state, REST "data: {kind: digits, samples: 90, test_samples: 20, test_fraction: 0.2, augment: cifar, "
                       "augment_once: true}\npartition: {kind: iid, clients: 6}\nmodel: softmax\n");
    agree(*state,
          REST "data: {kind: digits, samples: 90, test_samples: 20, crop: 20, augment: crop, augment_once: true, "
               "augment_share: 0.7, normalize: image}\npartition: {kind: iid, clients: 6}\nmodel: softmax\n");
}

static void exported_features_give_the_same_bits(void **state)
{
    static const char *const ways[] = {"auto", "unit", "standard", "columns", "none"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char text[800];
        snprintf(text, sizeof text,
                 REST "data: {kind: blobs, classes: 4, features: 6, samples: 100, test_samples: 30, normalize: %s}\n"
                      "partition: {kind: iid, clients: 5}\nmodel: softmax\nprecision: %s\n",
                 ways[i], i % 2 ? "f64" : "f32");
        agree(*state, text);
    }
    agree(*state, "rounds: 2\nlocal: {batch: 5, lr: 0.001}\ndata: {kind: linreg, clients: 5}\npartition: natural\n"
                  "model: least_squares\n");
}

static void few_labels(void **state)
{
    agree(*state,
          REST "data: {kind: blobs, classes: 4, features: 6, samples: 100, unlabelled: 0.5, test_fraction: 0.2}\n"
               "partition: {kind: iid, clients: 5}\nmodel: softmax\nsemi: {labels: closed_form}\n");
}

static void exported_sparse_samples_agree(void **state)
{
    fixture *f = *state;
    char file[12000], *p = file, text[900], path[300];
    for (int i = 0; i < 60; i++) {
        p += sprintf(p, "%d", i % 3 ? 1 : -1);
        for (int j = 1 + i % 4; j <= 30; j += 5) p += sprintf(p, " %d:%.7g", j, 1.0 / (i + j));
        p += sprintf(p, "\n");
    }
    snprintf(path, sizeof path, "%s", fixture_write(f, "s.libsvm", file));
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text,
                 REST "data: {kind: libsvm, train: %s, test: %s, storage: sparse, normalize: %s}\n"
                      "partition: {kind: iid, clients: 5}\nmodel: logistic\nprecision: %s\n",
                 path, path, i % 2 ? "columns" : "auto", i / 2 ? "f64" : "f32");
        agree(f, text);
    }
}

/* Names of classes are the server's to tell. */
static void exported_class_names_agree(void **state)
{
    fixture *f = *state;
    char file[2000] = "a,b,kind\n", *p = file + strlen(file), text[900];
    for (int i = 0; i < 40; i++) p += sprintf(p, "%d,%.2f,%s\n", i % 7, 0.25 * (i % 5), i % 3 ? "cat" : "dog, wild");
    snprintf(text, sizeof text,
             REST "data: {kind: csv, train: %s}\npartition: {kind: iid, clients: 4}\nmodel: softmax\n",
             fixture_write(f, "c.csv", file));
    for (char *c = file; (c = strstr(c, "dog, wild")); c++) memcpy(c, "\"dog wil\"", 9);
    (void)fixture_write(f, "c.csv", file);
    agree(f, text);
}

static void impossible_exports_are_refused(void **state)
{
    fixture *f = *state;
    fl_config *cfg =
        fixture_config(f, "data: {kind: blobs, samples: 40}\nmodel: softmax\npartition: {kind: iid, clients: 4}\n");
    assert_fails(f->ctx, fl_data_export(cfg, f->folder), FL_EIO, "is there already");
    assert_ok(f->ctx, fl_config_set(cfg, "data={kind: synthetic, on_demand: true}"));
    assert_ok(f->ctx, fl_config_set(cfg, "partition=natural"));
    char folder[200];
    snprintf(folder, sizeof folder, "%s/none", f->folder);
    assert_fails(f->ctx, fl_data_export(cfg, folder), FL_ECONFIG, "on demand");
    assert_int_equal(access(folder, F_OK), -1);
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(exported_images_give_the_same_bits),
        FIXTURE_TEST(exported_features_give_the_same_bits),
        FIXTURE_TEST(few_labels),
        FIXTURE_TEST(exported_sparse_samples_agree),
        FIXTURE_TEST(exported_class_names_agree),
        FIXTURE_TEST(impossible_exports_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
