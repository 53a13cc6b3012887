/* A client's own file: its keys, its limits, and what a server says of its federation. */
#include "context.h"

#include "net/common/federation_info.h"
#include "net/client/join.h"

static fl_status take(context *c, const char *text, fli_join_settings *out)
{
    fl_config *cfg = fl_config_new(c->ctx);
    assert_ok(c->ctx, fl_config_text(cfg, text, "client.yaml"));
    fl_status s = fli_join_settings_take(cfg, out);
    if (!s) assert_string_equal(fl_config_get(cfg, "url"), ""); /* it was taken out */
    fl_config_free(cfg);
    return s;
}

static void all_keys(void **state)
{
    context *c = *state;
    fli_join_settings s;
    assert_ok(c->ctx, take(c,
                           "url: https://host:8443\n"
                           "certs: certs/ann\n"
                           "keep: here\n"
                           "patience: 60\n"
                           "data: {kind: csv, train: x.csv}\n"
                           "limits:\n"
                           "  steps: 10\n"
                           "  samples: 1000\n"
                           "  bytes: 64MiB\n"
                           "  memory: 1GiB\n"
                           "  seconds: 2.5\n"
                           "  methods: [fedavg, scaffold]\n"
                           "  models: mlp\n",
                           &s));
    assert_string_equal(s.url, "https://host:8443");
    assert_string_equal(s.certs, "certs/ann");
    assert_string_equal(s.keep, "here");
    assert_string_equal(s.proxy, "");
    assert_int_equal(s.insecure_http, 0);
    assert_near(s.patience, 60, 0);
    assert_int_equal(s.limits.steps, 10);
    assert_int_equal(s.limits.samples, 1000);
    assert_int_equal(s.limits.bytes, 64 << 20);
    assert_int_equal(s.limits.memory, 1 << 30);
    assert_near(s.limits.seconds, 2.5, 0);
    assert_string_equal(s.limits.method[0], "fedavg");
    assert_string_equal(s.limits.method[1], "scaffold");
    assert_null(s.limits.method[2]);
    assert_string_equal(s.limits.model[0], "mlp");
    assert_null(s.limits.model[1]);
    fli_join_settings_fini(&s);
    assert_ok(c->ctx, take(c, "{}", &s)); /* nothing is asked of anybody */
    assert_int_equal(s.limits.steps, 1000000);
    assert_null(s.limits.method[0]);
    fli_join_settings_fini(&s);
}

static void mistakes_have_a_place(void **state)
{
    context *c = *state;
    fli_join_settings s;
    static const char *const bad[][2] = {
        {"limits: {stepz: 3}", "client.yaml:1:10: limits.stepz is not a key; did you mean limits.steps?"},
        {"limits: {steps: -1}", "limits.steps"},
        {"limits: {seconds: soon}", "limits.seconds"},
        {"limits: 3", "limits must be a map"},
        {"limits: {methods: [fedavg, fedavgg]}", "there is no algorithm called fedavgg"},
        {"limits: {models: lenet}", "there is no model called lenet"},
        {"limits: {models: [[mlp]]}", "limits.models"},
        {"patience: -1", "client.yaml:1:1: patience"},
        {"insecure_http: perhaps", "insecure_http"},
        {"url: [a, b]", "url"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(c->ctx, take(c, bad[i][0], &s), FL_ECONFIG, bad[i][1]);
        fli_join_settings_fini(&s);
    }
}

/* What is no key of the client's file is for the client, who knows none of it either. */
static void other_keys_are_left(void **state)
{
    context *c = *state;
    fli_join_settings s;
    fl_client *client = NULL;
    fl_config *cfg = fl_config_new(c->ctx);
    assert_ok(c->ctx, fl_config_text(cfg, "urll: x\ndata: {kind: blobs}\n", "client.yaml"));
    assert_ok(c->ctx, fli_join_settings_take(cfg, &s));
    assert_fails(c->ctx, fl_client_new(cfg, &client), FL_ECONFIG, "client.yaml:1:1: urll is not a key");
    fli_join_settings_fini(&s);
    fl_config_free(cfg);
}

static void federations_beyond_limits(void **state)
{
    context *c = *state;
    fli_join_settings s;
    char why[200];
    assert_ok(c->ctx, take(c, "limits: {methods: [fedavg, scaffold], models: 'mlp, softmax'}", &s));
    assert_null(fli_join_limits_wrong(&s.limits, "scaffold", "softmax", why, sizeof why));
    assert_null(fli_join_limits_wrong(&s.limits, NULL, NULL, why, sizeof why));
    assert_non_null(fli_join_limits_wrong(&s.limits, "fedav", "mlp", why, sizeof why));
    assert_non_null(strstr(why, "the method is fedav, and"));
    assert_non_null(fli_join_limits_wrong(&s.limits, "fedavg", "cnn", why, sizeof why));
    assert_non_null(strstr(why, "the model is cnn, and"));
    fli_join_settings_fini(&s);
}

static fl_status federation(context *c, const char *json, fli_federation_info *f)
{
    return fli_federation_info_read(c->ctx, json, strlen(json), f);
}

static void what_a_federation_is(void **state)
{
    context *c = *state;
    fli_federation_info f;
    assert_ok(c->ctx,
              federation(c,
                         "{\"protocol\":1,\"state\":\"joining\",\"method\":\"fedavg\",\"model\":\"mlp\",\"clients\":10,"
                         "\"missing\":3,\"you\":{\"name\":\"ann\",\"client\":null},"
                         "\"samples\":{\"shape\":[1,28,28],\"classes\":10,\"class_names\":null},\"more\":[]}",
                         &f));
    assert_int_equal(f.over, 0);
    assert_int_equal(f.clients, 10);
    assert_int_equal(f.missing, 3);
    assert_string_equal(f.method, "fedavg");
    assert_string_equal(f.model, "mlp");
    assert_string_equal(f.name, "ann");
    assert_int_equal(f.wanted.shape[0], 1);
    assert_int_equal(f.wanted.shape[2], 28);
    assert_int_equal(f.wanted.classes, 10);
    assert_null(f.class_name);
    fli_federation_info_fini(&f);
    assert_ok(c->ctx, federation(c,
                                 "{\"state\":\"joining\",\"clients\":1,\"missing\":1,\"samples\":{\"shape\":[7],"
                                 "\"classes\":2,\"class_names\":[\"it's sick\",\"well\"]}}",
                                 &f));
    assert_string_equal(f.class_name[0], "it's sick");
    assert_string_equal(f.class_name[1], "well");
    fli_federation_info_fini(&f);
    assert_ok(c->ctx, federation(c,
                                 "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"method\":\"a b\\n\","
                                 "\"samples\":{\"shape\":[7],\"classes\":0}}",
                                 &f));
    assert_int_equal(f.over, 1);
    assert_string_equal(f.method, "");
    assert_int_equal(f.wanted.shape[0] * f.wanted.shape[1], 1);
    assert_int_equal(f.wanted.shape[2], 7);
    assert_ok(c->ctx, federation(c,
                                 "{\"state\":\"over\",\"clients\":4294967295,\"missing\":0,"
                                 "\"samples\":{\"shape\":[1000000000],\"classes\":1000000}}",
                                 &f));
    assert_true(f.clients == UINT32_MAX && f.wanted.shape[2] == 1000000000 && f.wanted.classes == 1000000);
    static const char *const bad[] = {
        "{\"state\":\"over\",\"clients\":4294967296,\"missing\":0}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1000000001],\"classes\":0}}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1],\"classes\":1000001}}",
        "",
        "[]",
        "3",
        "{\"state\":",
        "{\"clients\":1,\"missing\":0}",
        "{\"state\":3,\"clients\":1,\"missing\":0}",
        "{\"state\":\"over\",\"clients\":-1,\"missing\":0}",
        "{\"state\":\"over\",\"clients\":1e300,\"missing\":0}",
        "{\"state\":\"over\",\"clients\":99999999999,\"missing\":0}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{}}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1,2],\"classes\":0}}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[-1],\"classes\":0}}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1.5],\"classes\":0}}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1],\"classes\":\"2\"}}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1],\"classes\":2,\"class_names\":["
        "\"a\"]}}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1],\"classes\":1,\"class_names\":[1]}"
        "}",
        "{\"state\":\"over\",\"clients\":1,\"missing\":0,\"samples\":{\"shape\":[1],\"classes\":1,\"class_names\":"
        "\"a\"}}",
        "{\"state\":\"over\",\"state\":\"x\",\"clients\":1,\"missing\":0}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(c->ctx, federation(c, bad[i], &f), FL_EFORMAT, "cannot be");
}

/* The client's own look at whether its samples suit. */
static void samples_that_do_not_suit(void **state)
{
    context *c = *state;
    fl_client *client = NULL;
    fl_bytes card;
    char why[400];
    fl_config *cfg = fl_config_new(c->ctx);
    assert_ok(c->ctx, fl_config_text(cfg, "data: {kind: blobs, samples: 30, features: 4, classes: 3}", NULL));
    assert_ok(c->ctx, fl_client_new(cfg, &client));
    assert_ok(c->ctx, fl_client_card(client, 0, &card));
    const fli_wanted_samples good = {{1, 1, 4}, 3}, more = {{1, 1, 4}, 5}, image = {{1, 2, 2}, 3};
    const fli_wanted_samples narrow = {{1, 1, 5}, 3}, numbers = {{1, 1, 4}, 0}, fewer = {{1, 1, 4}, 2};
    assert_null(fli_peek_card_wrong(c->ctx, card.data, card.n, &good, why, sizeof why));
    assert_null(fli_peek_card_wrong(c->ctx, card.data, card.n, &more, why, sizeof why));
    assert_null(fli_peek_card_wrong(c->ctx, card.data, card.n, &image, why, sizeof why));
    assert_non_null(strstr(fli_peek_card_wrong(c->ctx, card.data, card.n, &narrow, why, sizeof why), "another shape"));
    assert_non_null(strstr(why, "they are 1 x 1 x 4 with 3 classes, and the federation's 1 x 1 x 5 with 3"));
    assert_non_null(strstr(fli_peek_card_wrong(c->ctx, card.data, card.n, &numbers, why, sizeof why), "labels"));
    assert_non_null(strstr(fli_peek_card_wrong(c->ctx, card.data, card.n, &fewer, why, sizeof why), "more classes"));
    fl_bytes_free(&card);
    fl_client_free(client);
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(all_keys),
        CONTEXT_TEST(mistakes_have_a_place),
        CONTEXT_TEST(other_keys_are_left),
        CONTEXT_TEST(federations_beyond_limits),
        CONTEXT_TEST(what_a_federation_is),
        CONTEXT_TEST(samples_that_do_not_suit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
