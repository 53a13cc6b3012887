/* Tables of settings: types, ranges, messages, and printing that reads back as the same value. */
#include "context.h"
#include "format/keys.h"
#include "base/rng.h"
#include "format/yaml.h"

typedef struct {
    int flag;
    int64_t count;
    double rate;
    char *title;
    int mode;
    fl_ints sizes;
    fl_reals targets;
} params;

static const fl_key rows[] = {
    FLI_KEY_BOOL(params, flag, "false", "whether or not"),
    FLI_KEY_INT(params, count, "10", 1, 1000, "how many"),
    FLI_KEY_REAL(params, rate, "0.1", FLI_ABOVE_0, FLI_NO_MAX, "how fast"),
    FLI_KEY_STRING(params, title, "", "what it is called"),
    FLI_KEY_CHOICE(params, mode, "two", "one|two|three", "which way"),
    FLI_KEY_INTS(params, sizes, "[3, 4]", 1, 100, "how wide"),
    FLI_KEY_REALS(params, targets, "[]", 0, 1, "how good"),
    FLI_KEY_END,
};

typedef struct {
    double must, part, share;
    int64_t any;
} more_params;

static const fl_key more_rows[] = {
    FLI_KEY_REAL(more_params, must, NULL, -1, 1, "no default"),
    FLI_KEY_INT(more_params, any, "-7", 0, 0, "no bounds"),
    FLI_KEY_REAL(more_params, part, "0", 0, FLI_BELOW_1, "not all of it"),
    FLI_KEY_REAL(more_params, share, "0.5", FLI_ABOVE_0, FLI_BELOW_1, "neither all nor nothing"),
    FLI_KEY_END,
};

static fli_node *read_yaml(context *f, const char *yaml)
{
    fli_node *root = NULL;
    assert_ok(f->ctx, fli_yaml_parse(f->ctx, &f->arena, "f.yaml", yaml, strlen(yaml), &root));
    return root;
}

static fl_status bind(context *f, const char *yaml, params *p)
{
    fli_table table = {rows, p};
    memset(p, 0, sizeof *p);
    return fli_bind(f->ctx, &f->arena, "sec", read_yaml(f, yaml), "kind", &table, 1);
}

/* ---- binding ------------------------------------------------------------------------------------------- */

static void binds_defaults(void **state)
{
    context *f = *state;
    params p;
    fli_table table = {rows, &p};
    assert_ok(f->ctx, fli_bind(f->ctx, &f->arena, "", NULL, NULL, &table, 1));
    assert_int_equal(p.flag, 0);
    assert_int_equal(p.count, 10);
    assert_true(p.rate == 0.1);
    assert_string_equal(p.title, "");
    assert_int_equal(p.mode, 1);
    assert_int_equal(p.sizes.n, 2);
    assert_int_equal(p.sizes.v[0], 3);
    assert_int_equal(p.sizes.v[1], 4);
    assert_int_equal(p.targets.n, 0);
    assert_ok(f->ctx, fli_bind(f->ctx, &f->arena, "", NULL, NULL, NULL, 0));
    assert_ok(f->ctx, fli_bind(f->ctx, &f->arena, "", NULL, NULL, &(fli_table){NULL, NULL}, 1));
}

static void binds_values(void **state)
{
    context *f = *state;
    params p;
    assert_ok(f->ctx,
              bind(f,
                   "kind: skipped\nflag: on\ncount: 1e2\nrate: 5e-324\ntitle: a b\nmode: three\nsizes: [1, 100]\n"
                   "targets: [0, 0.5, 1]\n",
                   &p));
    assert_int_equal(p.flag, 1);
    assert_int_equal(p.count, 100);
    assert_true(p.rate == 5e-324);
    assert_string_equal(p.title, "a b");
    assert_int_equal(p.mode, 2);
    assert_int_equal(p.sizes.n, 2);
    assert_int_equal(p.sizes.v[1], 100);
    assert_int_equal(p.targets.n, 3);
    assert_true(p.targets.v[1] == 0.5);
    assert_ok(f->ctx, bind(f, "targets: 0.9\nsizes: 7\ntitle: 12\n", &p)); /* one number is a list of one */
    assert_int_equal(p.targets.n, 1);
    assert_true(p.targets.v[0] == 0.9);
    assert_int_equal(p.sizes.v[0], 7);
    assert_string_equal(p.title, "12");
}

/* Bytes, with and without a unit; printed so that they read back. */
static void binds_sizes(void **state)
{
    static const struct {
        const char *text;
        double bytes; /* negative: refused */
        const char *printed;
    } sizes[] = {{"0", -1, NULL},
                 {"auto", 0, "auto"},
                 {"1", 1, "1"},
                 {"4096", 4096, "4KiB"},
                 {"1000", 1000, "1kB"},
                 {"1001", 1001, "1001"},
                 {"2GiB", 0x1p31, "2GiB"},
                 {"512MiB", 0x1p29, "512MiB"},
                 {"1.5 GiB", 1.5 * 0x1p30, "1536MiB"},
                 {"3KiB", 3072, "3KiB"},
                 {"64 KiB", 0x1p16, "64KiB"},
                 {"2kB", 2000, "2kB"},
                 {"2KB", 2000, "2kB"},
                 {"400MB", 4e8, "400MB"},
                 {"1.5GB", 1.5e9, "1500MB"},
                 {"2 GB", 2e9, "2GB"},
                 {"1e6", 1e6, "1MB"},
                 {"9007199254740992", 0x1p53, "8388608GiB"},
                 {"", -1, NULL},
                 {"0KiB", -1, NULL},
                 {"0.5", -1, NULL},
                 {"9007199254740994", -1, NULL},
                 {"9007200GB", -1, NULL},
                 {"2G", -1, NULL},
                 {"2Mb", -1, NULL},
                 {"400MB x", -1, NULL},
                 {"400MBMB", -1, NULL},
                 {"-1", -1, NULL},
                 {"nan", -1, NULL},
                 {"inf", -1, NULL},
                 {"GiB", -1, NULL},
                 {"0x10", -1, NULL},
                 {"1e30", -1, NULL},
                 {"9e15GiB", -1, NULL},
                 {"[1]", -1, NULL}};
    struct {
        int64_t memory;
    } p;
    const fl_key key[] = {{"memory", FL_KEY_SIZE, "auto", 0, 0, NULL, "how much", 0}, FLI_KEY_END};
    context *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char yaml[64];
        fli_table table = {key, &p};
        snprintf(yaml, sizeof yaml, "memory: %s", sizes[i].text);
        fli_clear(f->ctx);
        fl_status s = fli_bind(f->ctx, &f->arena, "", read_yaml(f, yaml), NULL, &table, 1);
        if (sizes[i].bytes < 0) {
            if (s != FL_ECONFIG) fail_msg("%s is taken for %lld bytes", sizes[i].text, (long long)p.memory);
            assert_non_null(strstr(fl_ctx_error(f->ctx), "must be bytes, at least 1, as in 4096, 64 KiB, 400MB or"));
            continue;
        }
        assert_ok(f->ctx, s);
        assert_true((double)p.memory == sizes[i].bytes);
        fli_text t;
        fli_text_init(&t, f->ctx);
        fli_key_print_value(&t, key, &p);
        assert_string_equal(fli_text_get(&t), sizes[i].printed);
        fli_text_fini(&t);
    }
}

static void binds_booleans(void **state)
{
    static const struct {
        const char *yaml;
        int value;
    } words[] = {{"flag: true", 1},  {"flag: yes", 1}, {"flag: on", 1},
                 {"flag: false", 0}, {"flag: no", 0},  {"flag: off", 0}};
    context *f = *state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        params p;
        assert_ok(f->ctx, bind(f, words[i].yaml, &p));
        assert_int_equal(p.flag, words[i].value);
    }
}

static void refuses_values(void **state)
{
    static const struct {
        const char *yaml, *message;
    } bad[] = {
        {"flag: maybe", "f.yaml:1:1: sec.flag is maybe, but must be true or false"},
        {"flag: 1", "sec.flag is 1, but must be true or false"},
        {"count: 1.5", "sec.count is 1.5, but must be a whole number from 1 to 1000"},
        {"count: 0", "sec.count is 0, but must be a whole number from 1 to 1000"},
        {"count: 1001", "sec.count is 1001, but must be"},
        {"count: 99999999999999999999", "sec.count is 99999999999999999999, but must be"},
        {"count: 0x10", "sec.count is 0x10, but must be"},
        {"count: 3 apples", "sec.count is 3 apples, but must be"},
        {"count:", "sec.count is empty, but must be"},
        {"count: [1]", "sec.count is a list, but must be"},
        {"count: {a: 1}", "sec.count is a map, but must be"},
        {"rate: 0", "sec.rate is 0, but must be a number > 0"},
        {"rate: -1", "sec.rate is -1, but must be a number > 0"},
        {"rate: nan", "sec.rate is nan, but must be"},
        {"rate: inf", "sec.rate is inf, but must be"},
        {"rate: 1e999", "sec.rate is 1e999, but must be"},
        {"rate: 0x1p3", "sec.rate is 0x1p3, but must be"},
        {"rate: fast", "sec.rate is fast, but must be"},
        {"title: [a]", "sec.title is a list, but must be a text"},
        {"mode: four", "sec.mode is four, but must be one of: one, two, three"},
        {"mode: on", "sec.mode is on, but must be one of"},
        {"mode: one|two", "sec.mode is one|two, but must be one of"},
        {"sizes: [1, x]", "f.yaml:1:12: sec.sizes is x, but must be a list of whole numbers from 1 to 100"},
        {"sizes: [1,\n  101]", "f.yaml:2:3: sec.sizes is 101, but must be"},
        {"sizes: [[1]]", "sec.sizes is nested, but must be"},
        {"sizes: {a: 1}", "sec.sizes is a map, but must be"},
        {"targets: [0.5, 1.01]", "sec.targets is 1.01, but must be a list of numbers from 0 to 1"},
        {"cuont: 3", "f.yaml:1:1: sec.cuont is not a key; did you mean sec.count?"},
        {"targ: 3", "sec.targ is not a key; did you mean sec.targets?"},
        {"elephant: 3", "sec.elephant is not a key"},
    };
    context *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        params p;
        assert_fails(f->ctx, bind(f, bad[i].yaml, &p), FL_ECONFIG, bad[i].message);
    }
    params p;
    fl_status s = bind(f, "elephant: 3", &p);
    assert_int_equal(s, FL_ECONFIG);
    assert_null(strstr(fl_ctx_error(f->ctx), "did you mean"));
}

static void reports_all_at_once(void **state)
{
    context *f = *state;
    params p;
    more_params m;
    fli_table tables[] = {{rows, &p}, {more_rows, &m}};
    fl_status s = fli_bind(f->ctx, &f->arena, "", read_yaml(f, "count: 0\nrat: 1\nmode: x\nany: 5\n"), NULL, tables, 2);
    assert_int_equal(s, FL_ECONFIG);
    assert_string_equal(fl_ctx_error(f->ctx), "f.yaml:1:1: count is 0, but must be a whole number from 1 to 1000\n"
                                              "f.yaml:2:1: rat is not a key; did you mean rate?\n"
                                              "f.yaml:3:1: mode is x, but must be one of: one, two, three\n"
                                              "f.yaml:1:1: must is missing (no default)");
    fli_clear(f->ctx);
    assert_ok(f->ctx,
              fli_bind(f->ctx, &f->arena, "", read_yaml(f, "must: -1\nany: -9007199254740993\n"), NULL, tables, 2));
    assert_true(m.must == -1);
    assert_true(m.any == -9007199254740993); /* not a double */
    assert_int_equal(p.count, 10);
}

static void wants_a_map(void **state)
{
    context *f = *state;
    params p;
    fli_table table = {rows, &p};
    const fli_node *root = read_yaml(f, "a: 5\nb: [1]\nc:\n");
    assert_fails(f->ctx, fli_bind(f->ctx, &f->arena, "a", fli_node_find(root, "a"), NULL, &table, 1), FL_ECONFIG,
                 "f.yaml:1:1: a must be a map");
    assert_fails(f->ctx, fli_bind(f->ctx, &f->arena, "b", fli_node_find(root, "b"), NULL, &table, 1), FL_ECONFIG,
                 "f.yaml:2:1: b must be a map");
    assert_ok(f->ctx,
              fli_bind(f->ctx, &f->arena, "c", fli_node_find(root, "c"), NULL, &table, 1)); /* nothing: defaults */
    assert_int_equal(p.count, 10);
}

static void survives_no_memory(void **state)
{
    (void)state;
    int succeeded = 0;
    for (size_t k = 1; k < 1000 && !succeeded; k++) {
        fl_ctx *ctx = fl_ctx_new();
        fli_arena arena;
        params p;
        fli_table table = {rows, &p};
        fli_arena_init(&arena, ctx);
        fli_ctx_fail_alloc(ctx, k);
        fl_status s = fli_bind(ctx, &arena, "", NULL, NULL, &table, 1);
        succeeded = s == FL_OK;
        if (!succeeded) assert_int_equal(s, FL_ENOMEM);
        fli_arena_fini(&arena);
        fl_ctx_free(ctx);
    }
    assert_true(succeeded);
}

/* ---- the tree ------------------------------------------------------------------------------------------ */

static void edits_trees(void **state)
{
    context *f = *state;
    fli_node *map = fli_node_new(&f->arena, FLI_NODE_MAP, NULL, NULL);
    char where[64];
    fli_node_put(map, fli_node_new(&f->arena, FLI_NODE_SCALAR, "a", "1"));
    fli_node_put(map, fli_node_new(&f->arena, FLI_NODE_SCALAR, "b", "2"));
    fli_node_put(map, fli_node_new(&f->arena, FLI_NODE_SCALAR, "a", "3"));
    assert_string_equal(map->first->text, "3");
    assert_string_equal(map->first->next->text, "2");
    assert_null(map->first->next->next);
    assert_null(fli_node_find(map, "c"));
    assert_null(fli_node_find(NULL, "a"));
    assert_null(fli_node_find(map->first, "a"));
    assert_string_equal(fli_node_where(map, where, sizeof where), "");
    assert_string_equal(fli_node_where(NULL, where, sizeof where), "");
}

/* ---- printing ------------------------------------------------------------------------------------------ */

/* Prints all rows as a YAML file, reads it and binds it again. */
static void round_trip(context *f, const params *p, params *q)
{
    fli_text t;
    fli_text_init(&t, f->ctx);
    for (const fl_key *row = rows; row->name; row++) {
        fli_text_addf(&t, "%s: ", row->name);
        fli_key_print_value(&t, row, p);
        fli_text_add(&t, "\n");
    }
    assert_ok(f->ctx, fli_text_ok(&t));
    assert_ok(f->ctx, bind(f, fli_text_get(&t), q));
    fli_text_fini(&t);
}

static void reads_back_numbers(void **state)
{
    context *f = *state;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (int i = 0; i < 20000; i++) {
        union {
            uint64_t bits;
            double value;
        } u = {.bits = fli_rng_u64(&r) & ~(UINT64_C(1) << 63)};
        double unit = fli_rng_uniform(&r), targets[] = {unit, 1 - unit, 0};
        int64_t sizes[] = {1 + (int64_t)fli_rng_below(&r, 100), 1 + (int64_t)fli_rng_below(&r, 100)};
        if (!isfinite(u.value) || u.value == 0) continue;
        params q, p = {.flag = i & 1,
                       .count = 1 + (int64_t)fli_rng_below(&r, 1000),
                       .rate = u.value,
                       .title = "t",
                       .mode = i % 3,
                       .sizes = {(size_t)i % 3, sizes},
                       .targets = {(size_t)i % 4, targets}};
        round_trip(f, &p, &q);
        assert_true(q.rate == p.rate);
        assert_int_equal(q.count, p.count);
        assert_int_equal(q.flag, p.flag);
        assert_int_equal(q.mode, p.mode);
        assert_int_equal(q.sizes.n, p.sizes.n);
        for (size_t k = 0; k < p.sizes.n; k++) assert_int_equal(q.sizes.v[k], sizes[k]);
        assert_int_equal(q.targets.n, p.targets.n);
        for (size_t k = 0; k < p.targets.n; k++) assert_true(q.targets.v[k] == targets[k]);
        fli_arena_fini(&f->arena);
        fli_arena_init(&f->arena, f->ctx);
    }
}

static void assert_string_back(context *f, char *s)
{
    int64_t one = 1;
    params q, p = {.count = 1, .rate = 1, .title = s, .sizes = {1, &one}};
    round_trip(f, &p, &q);
    assert_string_equal(q.title, s);
}

static void reads_back_strings(void **state)
{
    static const char *const awkward[] = {"",
                                          " ",
                                          "a",
                                          "a b",
                                          " a",
                                          "a ",
                                          "null",
                                          "Null",
                                          "NULL",
                                          "~",
                                          "'",
                                          "''",
                                          "\"",
                                          "\\",
                                          "\\n",
                                          "a: b",
                                          "a #b",
                                          "#",
                                          "- a",
                                          "-",
                                          "--",
                                          "---",
                                          "...",
                                          "?",
                                          "? a",
                                          "!x",
                                          "&x",
                                          "*x",
                                          "[a",
                                          "{a",
                                          "]",
                                          "}",
                                          ",",
                                          "%",
                                          "@",
                                          "`",
                                          "|",
                                          ">",
                                          "=",
                                          "<<",
                                          "true",
                                          "1e5",
                                          "line\nline",
                                          "\n",
                                          "\t",
                                          "tab\there",
                                          "\r",
                                          "\x01\x1f\x7f",
                                          "\xC3\xA9t\xC3\xA9",
                                          "\xC2\x85",
                                          "\xC2\xA0",
                                          "\xE2\x80\xA8",
                                          "\xE2\x80\xA9x",
                                          "\xEF\xBB\xBF",
                                          "\xEF\xBF\xBE",
                                          "\xF0\x9F\x90\x98",
                                          "/data/a:b",
                                          "C:\\x",
                                          "it's",
                                          "a\302\205b\"c\\d"};
    context *f = *state;
    fli_rng r;
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++) {
        char s[64];
        snprintf(s, sizeof s, "%s", awkward[i]);
        assert_string_back(f, s);
    }
    fli_rng_init(&r, 2, FLI_RNG_TEST, 0, 0);
    for (int i = 0; i < 20000; i++) {
        char s[16] = "";
        size_t n = (size_t)fli_rng_below(&r, sizeof s);
        for (size_t k = 0; k < n; k++) s[k] = (char)(1 + fli_rng_below(&r, 127));
        assert_string_back(f, s);
        fli_arena_fini(&f->arena);
        fli_arena_init(&f->arena, f->ctx);
    }
}

/* A number is printed short where short is exact. */
static void prints_short(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},  {1, "1"}, {1e-3, "0.001"}, {1e100, "1e+100"}, {1.0 / 3, "0.3333333333333333"},
                 {-2.5, "-2.5"}};
    context *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params p = {.rate = cases[i].value};
        fli_text t;
        fli_text_init(&t, f->ctx);
        fli_key_print_value(&t, &rows[2], &p);
        assert_string_equal(fli_text_get(&t), cases[i].text);
        fli_text_fini(&t);
    }
}

static void prints_help(void **state)
{
    context *f = *state;
    fli_text t;
    fli_text_init(&t, f->ctx);
    fli_keys_print_help(&t, rows, 2);
    fli_keys_print_help(&t, more_rows, 2);
    fli_keys_print_help(&t, NULL, 2);
    const char *help = fli_text_get(&t);
    assert_non_null(strstr(help, "  count            how many\n"));
    assert_non_null(strstr(help, "a whole number from 1 to 1000; default: 10\n"));
    assert_non_null(strstr(help, "a number > 0; default: 0.1\n"));
    assert_non_null(strstr(help, "a text; default: none\n"));
    assert_non_null(strstr(help, "one of: one, two, three; default: two\n"));
    assert_non_null(strstr(help, "a list of whole numbers from 1 to 100; default: [3, 4]\n"));
    assert_non_null(strstr(help, "a number from -1 to 1; must be given\n"));
    assert_non_null(strstr(help, "a whole number; default: -7\n"));
    fli_text_fini(&t);
}

static void splits_choices(void **state)
{
    (void)state;
    char word[4];
    assert_true(fli_choice_word("one|two|three", 0, word, sizeof word));
    assert_string_equal(word, "one");
    assert_true(fli_choice_word("one|two|three", 2, word, sizeof word));
    assert_string_equal(word, "thr"); /* cut, never overrun */
    assert_false(fli_choice_word("one|two|three", 3, word, sizeof word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(binds_defaults),     CONTEXT_TEST(binds_values),           CONTEXT_TEST(binds_sizes),
        CONTEXT_TEST(binds_booleans),     CONTEXT_TEST(refuses_values),         CONTEXT_TEST(reports_all_at_once),
        CONTEXT_TEST(wants_a_map),        cmocka_unit_test(survives_no_memory), CONTEXT_TEST(edits_trees),
        CONTEXT_TEST(reads_back_numbers), CONTEXT_TEST(reads_back_strings),     CONTEXT_TEST(prints_short),
        CONTEXT_TEST(prints_help),        cmocka_unit_test(splits_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
