/* Configurations: defaults, schedules, printing and reading back, and what is said about mistakes. */
#include "fixture.h"

#include "config/config.h"

static const char least[] = "data: blobs\nmodel: softmax\n";

/* ---- values -------------------------------------------------------------------------------------------- */

static void step_sizes_follow_their_schedule(void **state)
{
    (void)state;
    fli_local_settings l = {.lr = 0.5, .decay = 0.9};
    for (size_t r = 0; r < 50; r++) {
        double k = (double)r + 1; /* rounds count from 1 in the formulas */
        l.schedule = 0;
        assert_true(fli_settings_lr(&l, r, 3) == 0.5);
        l.schedule = 1;
        assert_near(fli_settings_lr(&l, r, 3), 0.5 / sqrt(k), 1e-16);
        l.schedule = 2;
        assert_near(fli_settings_lr(&l, r, 3), 0.5 * log(2) / log(k + 1), 1e-15);
        l.schedule = 3;
        double power = 0.5;
        for (size_t i = 0; i < r; i++) power *= 0.9;
        assert_near(fli_settings_lr(&l, r, 3), power, 1e-15);
    }
}

/* The words of local.schedule stand for these formulas in this order. */
static void schedule_words(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *word;
        double third; /* lr in round 3 for lr 1, decay 0.5 */
    } cases[] = {{"constant", 1}, {"sqrt", 0.57735026918962576}, {"log2", 0.5}, {"exponential", 0.25}};
    for (size_t i = 0; i < 4; i++) {
        char text[200];
        fli_settings s;
        fli_arena arena;
        snprintf(text, sizeof text, "%slocal: {lr: 1, decay: 0.5, schedule: %s}\n", least, cases[i].word);
        fl_config *cfg = fixture_config(f, text);
        fli_arena_init(&arena, f->ctx);
        assert_ok(f->ctx, fli_settings_bind(f->ctx, &arena, cfg->root, &s));
        assert_near(fli_settings_lr(&s.local, 2, 3), cases[i].third, 1e-15);
        fli_arena_fini(&arena);
        fl_config_free(cfg);
    }
}

static void missing_settings_have_defaults(void **state)
{
    fixture *f = *state;
    fli_settings s;
    fli_arena arena;
    fl_config *cfg = fixture_config(f, least);
    fli_arena_init(&arena, f->ctx);
    assert_ok(f->ctx, fli_settings_bind(f->ctx, &arena, cfg->root, &s));
    assert_string_equal(s.top.name, "run");
    assert_string_equal(s.top.output, "");
    assert_true(s.top.seed == 1 && s.top.rounds == 100 && s.top.threads == 0 && s.top.precision == 0);
    assert_int_equal(s.top.weights, FLI_WEIGHTS_AUTO);
    assert_string_equal(s.source.item.name, "blobs");
    assert_string_equal(s.partitioner.item.name, "natural");
    assert_string_equal(s.sampler.item.name, "uniform");
    assert_string_equal(s.algorithm.item.name, "fedavg");
    assert_string_equal(s.objective.item.name, "softmax");
    assert_true(s.data.test_fraction == 0 && !s.data.on_demand && s.data.normalize == 0 && !s.data.mean.n &&
                !s.data.std.n);
    assert_true(s.partition.clients == 0 && s.model.weight_decay == 0);
    assert_true(s.local.work.epochs == 1 && s.local.work.steps == 0 && s.local.batch == 50 && s.local.momentum == 0);
    assert_true(s.local.lr == 0.05 && s.local.decay == 0.998 && s.local.schedule == 0 && s.local.work.uneven == 0);
    assert_true(s.local.work.range.n == 2 && s.local.work.range.v[0] == 1 && s.local.work.range.v[1] == 5);
    assert_true(s.local.work.speeds.n == 3 && s.local.work.speeds.v[2] == 0.2);
    assert_true(s.metrics.every == 1 && s.metrics.test && s.metrics.train && !s.metrics.gradient && s.metrics.clients);
    assert_true(s.metrics.max_clients == 10000 && s.metrics.targets.n == 0);
    assert_true(s.stop.target == 0 && s.stop.gradient2 == 0 && s.stop.seconds == 0);
    fli_arena_fini(&arena);
    fl_config_free(cfg);
}

/* ---- printing and reading back --------------------------------------------------------------------------- */

/* The resolved configuration; to be freed. */
static char *resolved(fixture *f, fl_config *cfg)
{
    collected c = {0};
    assert_ok(f->ctx, fl_config_print(cfg, collect_text, &c));
    return c.s;
}

/* Printing, loading what was printed, and printing again gives the same text. */
static void check_round_trip(fixture *f, fl_config *cfg)
{
    char *first = resolved(f, cfg);
    fl_config *again = fixture_config_named(f, "resolved.yaml", first);
    char *second = resolved(f, again);
    assert_string_equal(first, second);
    fl_config_free(again);
    free(first);
    free(second);
}

static void round_trip(void **state)
{
    fixture *f = *state;
    static const char *const cases[] = {
        "",
        "name: 'it''s: a #1 \"test\"'\noutput: /tmp/some where/x\nseed: 9007199254740992\nrounds: 0\n",
        "name: \"two\\nlines \\t \\x07 \\u2028 \\xe9\"\noutput: '~'\n",
        "name: 'null'\noutput: ' x '\n",
        "name: '- a'\noutput: '1e5'\n",
        "local: {lr: 0.1, momentum: 0.3333333333333333, decay: 1e-300, epochs: 3, batch: 0, range: [2, 2], speeds: "
        "0.7}\n",
        "local: {uneven: speeds, speeds: [1, 0.1, 1e-5], schedule: log2}\nmetrics: {targets: [0.5, 0.9, 0.97], every: "
        "7}\n",
        "participation: {kind: bernoulli, probability: [0.1, 0.30000000000000004]}\nweights: uniform\nprecision: f64\n",
        "stop: {target: 0.5, seconds: 1.5}\nalgorithm: {kind: fedprox, mu: 1e-7, aggregation: unbiased}\n",
        "metrics: {gradient: true, train: no}\nstop: {gradient2: 1e-12}\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        snprintf(text, sizeof text, "%s%s", least, cases[i]);
        fl_config *cfg = fixture_config(f, text);
        check_round_trip(f, cfg);
        fl_config_free(cfg);
    }
}

/* Every kind of every section with its defaults; keys that must be given are texts (paths). */
static void round_trip_of_every_kind(void **state)
{
    fixture *f = *state;
    size_t count = 0;
    for (const fli_kind *k = fli_kinds; k->section; k++) {
        fli_item item;
        for (size_t i = 0; k->item(i, &item); i++, count++) {
            char text[300];
            fl_config *cfg = fixture_config(f, least);
            /* some methods need everyone, some regularisers a method that takes them; partitions need a number of
             * clients */
            if (!strcmp(k->section, "algorithm")) {
                assert_ok(f->ctx, fl_config_set(cfg, "participation=everyone"));
                assert_ok(f->ctx, fl_config_set(cfg, "system=constant"));
            }
            if (!strcmp(k->section, "regularizer")) assert_ok(f->ctx, fl_config_set(cfg, "algorithm=feddr"));
            if (!strcmp(k->section, "algorithm") && ((const fl_method *)item.desc)->traits & FL_METHOD_BILEVEL)
                assert_ok(f->ctx, fl_config_set(cfg, "bilevel=regularization"));
            if (!strcmp(k->section, "bilevel") && strcmp(item.name, "none"))
                assert_ok(f->ctx, fl_config_set(cfg, "algorithm=simfbo"));
            assert_ok(f->ctx, fl_config_set(cfg, "partition.clients=2"));
            snprintf(text, sizeof text, "%s.%s=%s", k->within ? k->within : k->section, k->within ? k->section : "kind",
                     item.name);
            assert_ok(f->ctx, fl_config_set(cfg, text));
            for (const fl_key *key = item.keys; key && key->name; key++)
                if (!key->def) {
                    assert_int_equal(key->type, FL_KEY_STRING);
                    snprintf(text, sizeof text, "%s.%s=some/path", k->section, key->name);
                    assert_ok(f->ctx, fl_config_set(cfg, text));
                }
            check_round_trip(f, cfg);
            char *shown = resolved(f, cfg);
            snprintf(text, sizeof text, k->within ? "  %s: %s\n" : "%s:\n  kind: %s\n", k->section, item.name);
            assert_non_null(strstr(shown, text));
            free(shown);
            fl_config_free(cfg);
        }
    }
    assert_true(count > 20);
}

static void values_survive(void **state)
{
    fixture *f = *state;
    fl_config *cfg =
        fixture_config(f, "data: blobs\nmodel: {kind: mlp, hidden: [7, 8]}\nname: \"a: b\\n'c'\"\nlocal: {lr: 0.1}\n");
    fl_config *again;
    fli_settings s;
    fli_arena arena;
    char *text = resolved(f, cfg);
    again = fixture_config_named(f, "resolved.yaml", text);
    fli_arena_init(&arena, f->ctx);
    assert_ok(f->ctx, fli_settings_bind(f->ctx, &arena, again->root, &s));
    assert_string_equal(s.top.name, "a: b\n'c'");
    assert_true(s.local.lr == 0.1);
    assert_true(((const fl_ints *)s.objective.params)->n == 2 && ((const fl_ints *)s.objective.params)->v[1] == 8);
    fli_arena_fini(&arena);
    fl_config_free(again);
    fl_config_free(cfg);
    free(text);
}

/* ---- mistakes ------------------------------------------------------------------------------------------ */

/* The configuration must be refused with a message that has all of the given parts (separated by '|'). */
static void refused(fixture *f, const char *yaml, const char *parts)
{
    char copy[1024], *save = NULL;
    fl_config *cfg = fixture_config(f, yaml);
    fl_status s = fl_config_check(cfg);
    if (s != FL_ECONFIG) fail_msg("status %d for\n%s", (int)s, yaml);
    snprintf(copy, sizeof copy, "%s", parts);
    for (char *p = strtok_r(copy, "|", &save); p; p = strtok_r(NULL, "|", &save))
        if (!strstr(fl_ctx_error(f->ctx), p)) fail_msg("\"%s\" lacks \"%s\", for\n%s", fl_ctx_error(f->ctx), p, yaml);
    fl_config_free(cfg);
}

#define LEAST "data: blobs\nmodel: softmax\n"

static void mistakes_are_named_with_their_place(void **state)
{
    fixture *f = *state;
    /* unknown words, with position and suggestion */
    refused(f, LEAST "roundz: 3\n", "config.yaml:3:1: roundz is not a key; did you mean rounds?");
    refused(f, LEAST "locall: {lr: 1}\n", "config.yaml:3:1: locall is not a key; did you mean local?");
    refused(f, LEAST "qwertyuiop: 3\n", "config.yaml:3:1: qwertyuiop is not a key");
    refused(f, LEAST "local:\n  epochs: 1\n  lrr: 2\n",
            "config.yaml:5:3: local.lrr is not a key; did you mean local.lr?");
    refused(f, LEAST "algorithm: {kind: fedavg, mu: 1}\n", "config.yaml:3:27: algorithm.mu is not a key");
    refused(f, LEAST "algorithm: fedvag\n",
            "config.yaml:3:1: |algorithm.kind is fedvag, which is not known; did you mean fedavg");
    refused(f, LEAST "algorithm: {kind: scafold}\n",
            "config.yaml:3:13: |did you mean scaffold|`fedloom list algorithm`");
    refused(f, "data: blob\nmodel: softmax\n", "config.yaml:1:1: data.kind is blob|did you mean blobs");
    refused(f, LEAST "precision: f16\n", "config.yaml:3:1: precision is f16, but must be one of: f32, f64");
    /* missing */
    refused(f, "model: softmax\n", "data.kind is missing|`fedloom list data`");
    refused(f, "data: blobs\n", "model.kind is missing");
    refused(f, "", "data.kind is missing|model.kind is missing");
    refused(f, "data: {classes: 3}\nmodel: softmax\n", "config.yaml:1:1: data.kind is missing");
    refused(f, LEAST "participation: trace\n", "participation.path is missing");
    /* wrong types */
    refused(f, LEAST "rounds: many\n", "config.yaml:3:1: rounds is many, but must be a whole number from 0 to 1e+09");
    refused(f, LEAST "rounds: 1.5\n", "rounds is 1.5, but must be a whole number");
    refused(f, LEAST "rounds: [1, 2]\n", "rounds is a list, but must be");
    refused(f, LEAST "rounds: {a: 1}\n", "rounds is a map, but must be");
    refused(f, LEAST "rounds:\n", "rounds is empty, but must be");
    refused(f, LEAST "metrics: {test: maybe}\n", "metrics.test is maybe, but must be true or false");
    refused(f, LEAST "metrics: {targets: [0.5, high]}\n", "config.yaml:3:26: metrics.targets is high");
    refused(f, LEAST "local: 5\n", "config.yaml:3:1: local must be a map");
    refused(f, LEAST "local: [1]\n", "local must be a map");
    refused(f, LEAST "algorithm: [fedavg]\n", "algorithm.kind is missing");
    refused(f, LEAST "algorithm: {kind: [fedavg]}\n", "algorithm.kind is missing");
    refused(f, LEAST "local: {lr: nan}\n", "local.lr is nan, but must be a number > 0");
    refused(f, LEAST "local: {lr: inf}\n", "local.lr is inf");
    /* out of range */
    refused(f, LEAST "local: {lr: 0}\n", "config.yaml:3:9: local.lr is 0, but must be a number > 0");
    refused(f, LEAST "local: {lr: -1}\n", "local.lr is -1");
    refused(f, LEAST "seed: -1\n", "seed is -1, but must be a whole number from 0");
    refused(f, LEAST "local: {momentum: 1}\n", "local.momentum is 1, but must be a number from 0 to 0.9999");
    refused(f, LEAST "metrics: {targets: [0.5, 1.5]}\n", "metrics.targets is 1.5");
    refused(f, LEAST "participation: {kind: uniform, fraction: 1.1}\n", "participation.fraction is 1.1");
    refused(f, LEAST "threads: 100000\n", "threads is 100000");
}

/* Results and servers of earlier versions say that it is true. */
static void exact_is_no_key_any_more(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fixture_config(f, LEAST "exact: true\n");
    assert_ok(f->ctx, fl_config_check(cfg));
    fl_config_free(cfg);
    refused(f, LEAST "exact: false\n", "exact is not a key any more: a run always has the bits of one process");
}

static void mistakes_between_keys(void **state)
{
    fixture *f = *state;
    refused(f, LEAST "local: {uneven: range, range: [5, 1]}\n",
            "local.range must be two numbers, the smaller one first");
    refused(f, LEAST "local: {uneven: range, range: [5]}\n", "local.range must be two numbers");
    refused(f, LEAST "local: {uneven: range, range: []}\n", "local.range must be two numbers");
    refused(f, LEAST "local: {uneven: speeds, speeds: []}\n", "local.speeds is empty");
    refused(f, "data: {kind: blobs, normalize: given}\nmodel: softmax\n", "data.mean and data.std|they are [] and []");
    refused(f, "data: {kind: blobs, normalize: given, mean: [1, 2], std: 3}\nmodel: softmax\n",
            "they are [1, 2] and [3]");
    refused(f, LEAST "stop: {target: 0.5}\nmetrics: {test: false}\n", "stop.target needs metrics.test");
    refused(f, LEAST "stop: {gradient2: 0.5}\n", "stop.gradient2 needs metrics.gradient");
    refused(f, LEAST "stop: {gradient2: 0.5, target: 0.5}\nmetrics: {test: false}\n", "stop.gradient2|stop.target");
    /* not asked for, not checked */
    fl_config *cfg = fixture_config(f, LEAST "local: {range: [5, 1], speeds: []}\n");
    assert_ok(f->ctx, fl_config_check(cfg));
    fl_config_free(cfg);
}

static size_t lines_of(const char *s)
{
    size_t n = *s != 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

static void all_mistakes_at_once(void **state)
{
    fixture *f = *state;
    refused(f,
            "roundz: 1\nrounds: many\ndata: blobz\nmodel: {kind: softmax, weight_decay: -1, depth: 3}\n"
            "local: {lr: 0, batsh: 5}\nalgorithm: {kind: fedprox, mu: big}\nparticipation: trace\nstop: {target: 2}\n",
            "config.yaml:1:1: roundz|config.yaml:2:1: rounds is many|data.kind is blobz|model.weight_decay is "
            "-1|model.depth is "
            "not a key|local.lr is 0|local.batsh is not a key; did you mean local.batch?|algorithm.mu is "
            "big|participation.path is "
            "missing|stop.target is 2");
    fl_config *cfg = fixture_config(f, "a: 1\nb: 2\nc: 3\ndata: blobs\nmodel: softmax\n");
    assert_int_equal(fl_config_check(cfg), FL_ECONFIG);
    assert_int_equal(lines_of(fl_ctx_error(f->ctx)), 3);
    fl_config_free(cfg);
}

/* More mistakes than the context has room for are cut, not written past the end. */
static void very_many_mistakes(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fixture_config(f, least);
    char text[64];
    for (int i = 0; i < 400; i++) {
        snprintf(text, sizeof text, "unknown_key_number_%d_of_many=1", i);
        assert_ok(f->ctx, fl_config_set(cfg, text));
    }
    assert_int_equal(fl_config_check(cfg), FL_ECONFIG);
    assert_true(strlen(fl_ctx_error(f->ctx)) > 1000);
    fl_config_free(cfg);
}

/* ---- layers: file, file, assignments --------------------------------------------------------------------- */

static void later_wins(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fixture_config(f, LEAST "rounds: 3\nlocal: {lr: 0.5, batch: 7}\n");
    assert_ok(f->ctx, fl_config_load(cfg, fixture_write(f, "more.yaml", "rounds: 4\nlocal: {lr: 0.25}\n")));
    assert_ok(f->ctx, fl_config_set(cfg, "local.epochs=9"));
    assert_ok(f->ctx, fl_config_set(cfg, "rounds = 5"));
    char *text = resolved(f, cfg);
    assert_non_null(strstr(text, "rounds: 5\n"));
    assert_non_null(strstr(text, "  lr: 0.25\n"));
    assert_non_null(strstr(text, "  batch: 7\n"));
    assert_non_null(strstr(text, "  epochs: 9\n"));
    free(text);
    fl_config_free(cfg);
}

/* A copy has everything, places included, and goes its own way; the original may go first. */
static void a_copy_goes_its_own_way(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fixture_config(f, "data: blobs\nmodel: softmax\nlocal: {lr: fast}\nalgorithm: fedavg\n");
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm.nonsense=1"));
    fl_config *copy = fl_config_copy(cfg);
    assert_non_null(copy);
    assert_ok(f->ctx, fl_config_set(copy, "seed=7"));
    assert_string_equal(fl_config_get(cfg, "seed"), "");
    fl_config_free(cfg);
    assert_string_equal(fl_config_get(copy, "seed"), "7");
    assert_fails(f->ctx, fl_config_check(copy), FL_ECONFIG, "config.yaml:3:9: local.lr is fast");
    assert_fails(f->ctx, fl_config_check(copy), FL_ECONFIG,
                 "--set algorithm.nonsense=1: algorithm.nonsense is not a key");
    fl_config_free(copy);
    cfg = fixture_config(f, least);
    copy = NULL;
    for (size_t k = 1; !copy && k < 100; k++) {
        fli_ctx_fail_alloc(f->ctx, k);
        copy = fl_config_copy(cfg);
    }
    fli_ctx_fail_alloc(f->ctx, 0);
    assert_non_null(copy);
    fl_config_free(copy);
    fl_config_free(cfg);
}

/* Another kind drops the keys of the old one, but keeps those that all kinds of the section share. */
static void another_kind(void **state)
{
    fixture *f = *state;
    fl_config *cfg =
        fixture_config(f, "data: {kind: blobs, classes: 3, test_fraction: 0.25}\n"
                          "model: {kind: mlp, hidden: [5], weight_decay: 0.125}\nalgorithm: {kind: fedprox, mu: 3}\n");
    assert_ok(f->ctx, fl_config_set(cfg, " model = softmax"));
    assert_ok(f->ctx, fl_config_set(cfg, "data.kind=digits"));
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm=fedavg"));
    char *text = resolved(f, cfg);
    assert_non_null(strstr(text, "  weight_decay: 0.125\n"));
    assert_non_null(strstr(text, "  test_fraction: 0.25\n"));
    assert_null(strstr(text, "hidden"));
    free(text);
    assert_ok(f->ctx, fl_config_set(cfg, "model={kind: mlp, weight_decay: 0.5}")); /* what is given wins */
    text = resolved(f, cfg);
    assert_non_null(strstr(text, "  weight_decay: 0.5\n"));
    free(text);
    fl_config_free(cfg);
}

/* A section set to nonsense is refused later; it must not bring anything down. */
static void sections_set_to_nonsense(void **state)
{
    fixture *f = *state;
    static const char *const sets[] = {
        "data=[1, 2]", "data=",  "data=~",  "data={}",   "data.kind=",         "data.kind=[1]", "model=[]",
        "local=[1]",   "local=", "local=5", "metrics=~", "partition=[[1], 2]", "data=[{a: b}]"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        fl_config *cfg = fixture_config(f, "data: {kind: blobs, test_fraction: 0.25, normalize: none}\n"
                                           "model: {kind: softmax, weight_decay: 1}\nlocal: {lr: 0.5}\n"
                                           "partition: {kind: iid, clients: 4}\nmetrics: {every: 3}\n");
        assert_ok(f->ctx, fl_config_set(cfg, sets[i]));
        fl_status s = fl_config_check(cfg);
        if (s) assert_int_equal(s, FL_ECONFIG);
        if (s) assert_true(fl_ctx_error(f->ctx)[0]);
        fl_config_free(cfg);
    }
}

static void bad_assignments(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fixture_config(f, least);
    assert_fails(f->ctx, fl_config_set(cfg, "rounds"), FL_ECONFIG, "must be KEY=VALUE");
    assert_fails(f->ctx, fl_config_set(cfg, "=3"), FL_ECONFIG, "key is empty");
    assert_fails(f->ctx, fl_config_set(cfg, "local..lr=3"), FL_ECONFIG, "key is empty");
    assert_int_equal(fl_config_set(cfg, "rounds=[1"), FL_ECONFIG);
    assert_true(fl_ctx_error(f->ctx)[0]);
    assert_ok(f->ctx, fl_config_set(cfg, "local.lrr=3"));
    assert_fails(f->ctx, fl_config_check(cfg), FL_ECONFIG,
                 "--set local.lrr=3: local.lrr is not a key; did you mean local.lr?");
    fl_config_free(cfg);
}

/* ---- bound once ------------------------------------------------------------------------------------------ */

static int64_t rounds_of(fixture *f, fl_config *cfg)
{
    const fli_settings *s;
    assert_ok(f->ctx, fli_config_settings(cfg, &s));
    return s->top.rounds;
}

/* Until it changes, by whatever way; a copy has what the original has. */
static void bound_once(void **state)
{
    fixture *f = *state;
    const fli_settings *first, *again;
    fl_config *cfg = fixture_config(f, LEAST "rounds: 2\n");
    assert_ok(f->ctx, fl_config_check(cfg));
    assert_ok(f->ctx, fli_config_settings(cfg, &first));
    fl_config *copy = fl_config_copy(cfg);
    assert_ok(f->ctx, fli_config_settings(copy, &again));
    assert_ptr_equal(again, first);
    assert_ok(f->ctx, fl_config_set(cfg, "rounds=3"));
    assert_int_equal(rounds_of(f, cfg), 3);
    assert_int_equal(rounds_of(f, copy), 2);
    assert_ok(f->ctx, fl_config_text(cfg, "rounds: 4", NULL));
    assert_int_equal(rounds_of(f, cfg), 4);
    assert_ok(f->ctx, fli_config_put(cfg, "rounds", "5"));
    assert_int_equal(rounds_of(f, cfg), 5);
    fli_node_take(fli_config_change(cfg), "rounds");
    assert_int_equal(rounds_of(f, cfg), 100);
    assert_ok(f->ctx, fl_config_set(cfg, "rounds=many"));
    assert_fails(f->ctx, fl_config_check(cfg), FL_ECONFIG, "--set rounds=many: rounds is many");
    assert_fails(f->ctx, fl_config_check(cfg), FL_ECONFIG, "--set rounds=many: rounds is many");
    fl_config_free(copy);
    fl_config_free(cfg);
}

/* What is held stays, whatever becomes of the configuration. */
static void held_settings_stay(void **state)
{
    fixture *f = *state;
    fli_bound *a, *b;
    fl_config *cfg = fixture_config(f, LEAST "rounds: 2\nname: held\n");
    assert_ok(f->ctx, fli_config_hold(cfg, &a));
    assert_ok(f->ctx, fli_config_hold(cfg, &b));
    assert_ptr_equal(a, b);
    assert_ok(f->ctx, fl_config_set(cfg, "rounds=3"));
    fli_bound_release(b);
    assert_ok(f->ctx, fli_config_hold(cfg, &b));
    fl_config_free(cfg);
    assert_int_equal(a->settings.top.rounds, 2);
    assert_int_equal(b->settings.top.rounds, 3);
    assert_string_equal(a->settings.top.name, "held");
    fli_bound_release(a);
    fli_bound_release(b);
    fli_bound_release(NULL);
}

static void missing_file(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fl_config_new(f->ctx);
    assert_fails(f->ctx, fl_config_load(cfg, fixture_path(f, "none.yaml")), FL_EIO, "none.yaml");
    fl_config_free(cfg);
    fl_config_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_sizes_follow_their_schedule),
        FIXTURE_TEST(schedule_words),
        FIXTURE_TEST(missing_settings_have_defaults),
        FIXTURE_TEST(round_trip),
        FIXTURE_TEST(round_trip_of_every_kind),
        FIXTURE_TEST(values_survive),
        FIXTURE_TEST(mistakes_are_named_with_their_place),
        FIXTURE_TEST(exact_is_no_key_any_more),
        FIXTURE_TEST(mistakes_between_keys),
        FIXTURE_TEST(all_mistakes_at_once),
        FIXTURE_TEST(very_many_mistakes),
        FIXTURE_TEST(later_wins),
        FIXTURE_TEST(a_copy_goes_its_own_way),
        FIXTURE_TEST(another_kind),
        FIXTURE_TEST(sections_set_to_nonsense),
        FIXTURE_TEST(bad_assignments),
        FIXTURE_TEST(bound_once),
        FIXTURE_TEST(held_settings_stay),
        FIXTURE_TEST(missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
