/* Labels that were taken away are out of reach. Two federations differ in nothing but those labels; every method that
 * is listed, with pseudo labels by either rule or none, comes to the same bits: global models, the clients' own models,
 * what the rounds cost. */
#include "fixture.h"

#include "data/source.h"
#include "run/state.h"

enum { SAMPLES = 144, FEATURES = 4, C = 3, CLIENTS = 6 };

static const char base[] = "rounds: 5\nthreads: 2\nmodel: %s\n"
                           "data: {kind: csv, train: %s, unlabelled: 0.75, test_fraction: 0.25}\n"
                           "partition: {kind: iid, clients: 6}\nsystem: {kind: lognormal, jitter: 0.3}\n"
                           "local: {batch: 4, lr: 0.2, momentum: %s}\nmetrics: {gradient: true, local: %s}\n";

/* ---- two files ----------------------------------------------------------------------------------------- */

static void write_table(fixture *f, const char *name, const int *label, char *path, size_t size)
{
    static char text[SAMPLES * 64];
    char *p = text;
    fli_rng r;
    fli_rng_init(&r, 8, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t j = 0; j < FEATURES; j++) p += sprintf(p, "%.6f,", fli_rng_normal(&r) + (double)(i % C == j));
        p += sprintf(p, "%d\n", label[i]);
    }
    snprintf(path, size, "%s", fixture_write(f, name, text));
}

static fl_config *config_of(fixture *f, const char *path, const char *model, const char *momentum, const char *local)
{
    char text[1024];
    snprintf(text, sizeof text, base, model, path, momentum, local);
    return fixture_config(f, text);
}

/* Which samples lose their labels, and that this does not depend on what they are. */
static void find_hidden(fixture *f, const char *path, unsigned char *out)
{
    fli_plan p;
    fl_config *cfg = config_of(f, path, "softmax", "0", "false");
    memset(out, 0, SAMPLES);
    assert_ok(f->ctx, fli_plan_data(cfg, NULL, &p));
    assert_int_equal(p.fed->clients, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        fli_view v;
        assert_ok(f->ctx, fli_view_open(f->ctx, p.fed, i, &v));
        for (size_t k = 0; k < v.n_unlabelled; k++) out[v.unlabelled[k]] = 1;
        fli_view_close(&v);
    }
    fli_plan_fini(&p);
    fl_config_free(cfg);
}

static void write_both(fixture *f, char path[2][128])
{
    int label[SAMPLES];
    unsigned char hidden[2][SAMPLES];
    size_t count = 0;
    for (size_t i = 0; i < SAMPLES; i++) label[i] = (int)(i % C);
    write_table(f, "one.csv", label, path[0], sizeof path[0]);
    find_hidden(f, path[0], hidden[0]);
    for (size_t i = 0; i < SAMPLES; i++) {
        count += hidden[0][i];
        if (hidden[0][i]) label[i] = (label[i] + 1 + (int)(i % 2)) % C; /* always another one */
    }
    assert_int_equal(count, CLIENTS * 13); /* of 24: 6 for the test, 13 of the other 18 */
    write_table(f, "other.csv", label, path[1], sizeof path[1]);
    find_hidden(f, path[1], hidden[1]);
    assert_memory_equal(hidden[0], hidden[1], SAMPLES);
}

/* ---- two runs ------------------------------------------------------------------------------------------ */

/* NULL where the method's solver refuses pseudo labels. */
static fl_run *run_of(fixture *f, const char *path, const fl_method *a, const char *model, const char *momentum,
                      const char *labels)
{
    char set[4][128];
    const char *levels = !(a->traits & FL_METHOD_BILEVEL) ? "none"
                         : strstr(model, "softmax")       ? "regularization"
                                                          : "hyper_representation";
    fl_run *run = NULL;
    if (a->traits & FL_METHOD_BILEVEL) momentum = "0";
    fl_config *cfg = config_of(f, path, model, momentum, fli_algo_is_async(a) ? "false" : "true");
    snprintf(set[0], sizeof set[0], "algorithm=%s", a->name);
    snprintf(set[1], sizeof set[1], "participation=%s",
             a->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 4}");
    snprintf(set[2], sizeof set[2], "semi={labels: %s, alpha_p: 0.5, alpha_r: 0.3, label_lr: 5}", labels);
    snprintf(set[3], sizeof set[3], "bilevel=%s", levels);
    for (size_t i = 0; i < 4; i++) assert_ok(f->ctx, fl_config_set(cfg, set[i]));
    fl_status s = fl_run_new(cfg, &run);
    fl_config_free(cfg);
    if (s) {
        if (!strstr(fl_ctx_error(f->ctx), "knows nothing of pseudo labels")) fail_msg("%s", fl_ctx_error(f->ctx));
        fli_clear(f->ctx);
        return NULL;
    }
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

static void check_same(const fl_run *const r[2], const char *what)
{
    size_t bytes = fli_bytes(&r[0]->plan.model->space);
    assert_int_equal(r[0]->rows.count, r[1]->rows.count);
    for (size_t k = 0; k < r[0]->rows.count; k++) {
        const fl_row *a = &r[0]->rows.at[k], *b = &r[1]->rows.at[k];
        if (fl_row_get(a, "train_loss") != fl_row_get(b, "train_loss") ||
            fl_row_get(a, "test_loss") != fl_row_get(b, "test_loss") ||
            fl_row_get(a, "gradient2") != fl_row_get(b, "gradient2") ||
            fl_row_get(a, "local_steps") != fl_row_get(b, "local_steps") ||
            fl_row_get(a, "bytes_up") != fl_row_get(b, "bytes_up"))
            fail_msg("%s: round %zu depends on hidden labels", what, (size_t)fl_row_round(a));
    }
    if (memcmp(fli_exec_server(r[0]->exec)[0], fli_exec_server(r[1]->exec)[0], bytes))
        fail_msg("%s: the model depends on hidden labels", what);
    for (size_t i = 0; i < CLIENTS && !fli_algo_is_async(r[0]->plan.setup.algo); i++) {
        void *own[2];
        double mix[2];
        for (size_t k = 0; k < 2; k++) {
            own[k] = malloc(bytes);
            assert_ok(r[k]->ctx, fli_exec_own_model(r[k]->exec, (uint32_t)i, own[k], &mix[k]));
        }
        if (memcmp(own[0], own[1], bytes) || mix[0] != mix[1])
            fail_msg("%s: what client %zu keeps depends on hidden labels", what, i);
        for (size_t k = 0; k < 2; k++) free(own[k]);
    }
}

static void out_of_reach(void **state)
{
    static const char *const labels[] = {"none", "closed_form", "projected"}, *const models[] = {
                                                                                  "softmax",
                                                                                  "{kind: mlp, hidden: [5]}"};
    fixture *f = *state;
    char path[2][128];
    size_t used = 0;
    write_both(f, path);
    for (const fl_method *const *a = fli_algo_list; *a; a++)
        for (size_t k = 0; k < 6; k++) {
            const char *model = models[k / 3], *momentum = k / 3 ? "0.8" : "0", *how = labels[k % 3];
            fl_run *r[2];
            char what[128];
            snprintf(what, sizeof what, "%s, %s, %s", (*a)->name, model, how);
            for (size_t i = 0; i < 2; i++) r[i] = run_of(f, path[i], *a, model, momentum, how);
            assert_true(!r[0] == !r[1]);
            if (r[0]) check_same((const fl_run *const *)r, what);
            used += r[0] && r[0]->plan.model->latent;
            fl_run_free(r[0]);
            fl_run_free(r[1]);
        }
    assert_true(used >= 4 * 16);
}

/* The other way round: labels that stay matter, and so do the features of samples without one. */
static void what_is_in_reach(void **state)
{
    fixture *f = *state;
    const fl_method *a = algo_named("fedcpsl");
    char path[128];
    int label[SAMPLES];
    fl_run *r[3];
    for (size_t i = 0; i < SAMPLES; i++) label[i] = (int)(i % C);
    write_table(f, "one.csv", label, path, sizeof path);
    r[0] = run_of(f, path, a, "softmax", "0", "none");
    r[1] = run_of(f, path, a, "softmax", "0", "closed_form");
    for (size_t i = 0; i < SAMPLES; i++) label[i] = (int)((i + 1) % C);
    write_table(f, "two.csv", label, path, sizeof path);
    r[2] = run_of(f, path, a, "softmax", "0", "closed_form");
    size_t bytes = fli_bytes(&r[0]->plan.model->space);
    for (size_t i = 0; i < 3; i += 2)
        assert_memory_not_equal(fli_exec_server(r[1]->exec)[0], fli_exec_server(r[i]->exec)[0], bytes);
    for (size_t i = 0; i < 3; i++) fl_run_free(r[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(out_of_reach), FIXTURE_TEST(what_is_in_reach)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
