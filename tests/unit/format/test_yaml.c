/* The YAML reader: what it reads, what it refuses and where it says the problem is, assignments and merging. */
#include "context.h"
#include "format/yaml.h"

#include <sys/stat.h>

/* A tree in one line: {a: x, b: [1, 2]}. Independent of the printing in format/keys.c. */
static void show(const fli_node *n, char *out, size_t size)
{
    size_t used = strlen(out);
    if (n->type == FLI_NODE_SCALAR) {
        snprintf(out + used, size - used, "%s", n->text);
        return;
    }
    snprintf(out + used, size - used, "%s", n->type == FLI_NODE_MAP ? "{" : "[");
    for (const fli_node *c = n->first; c; c = c->next) {
        used = strlen(out);
        if (n->type == FLI_NODE_MAP) snprintf(out + used, size - used, "%s: ", c->key);
        show(c, out, size);
        used = strlen(out);
        if (c->next) snprintf(out + used, size - used, ", ");
    }
    used = strlen(out);
    snprintf(out + used, size - used, "%s", n->type == FLI_NODE_MAP ? "}" : "]");
}

static void assert_tree(const fli_node *n, const char *expected)
{
    char got[4096] = "";
    show(n, got, sizeof got);
    assert_string_equal(got, expected);
}

static fl_status parse(context *f, const char *text, fli_node **root)
{
    return fli_yaml_parse(f->ctx, &f->arena, "f.yaml", text, strlen(text), root);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static void reads_trees(void **state)
{
    static const struct {
        const char *yaml, *tree;
    } good[] = {
        {"", "{}"},
        {"# only a comment\n", "{}"},
        {"---\n", "{}"},
        {"~\n", "{}"},
        {"a: 1\n", "{a: 1}"},
        {"---\na: 1\n...\n", "{a: 1}"},
        {"a: 1e-3\nb: on\nc: 007\nd: 2020-01-01\n", "{a: 1e-3, b: on, c: 007, d: 2020-01-01}"},
        {"a: [200, 100]\nb: []\nc: {}\n", "{a: [200, 100], b: [], c: {}}"},
        {"a:\n  - 1\n  - 2\n", "{a: [1, 2]}"},
        {"a:\n- 1\n- [x, {y: z}]\n", "{a: [1, [x, {y: z}]]}"},
        {"s: {kind: blobs, n: 3}\nt:\n  k: v\n  l:\n    m: n\n", "{s: {kind: blobs, n: 3}, t: {k: v, l: {m: n}}}"},
        {"a:\nb: ~\nc: null\nd: Null\ne: NULL\nf: ''\n", "{a: , b: , c: , d: , e: , f: }"},
        {"a: 'null'\nb: \"~\"\n", "{a: null, b: ~}"},
        {"a: 'it''s'\nb: \"x\\ty\"\n", "{a: it's, b: x\ty}"},
        {"a: |\n  one\n  two\nb: >\n  one\n  two\n", "{a: one\ntwo\n, b: one two\n}"},
        {"\xEF\xBB\xBF"
         "a: \xC3\xA9\n",
         "{a: \xC3\xA9}"},
        {"? a\n: 1\n", "{a: 1}"},
        {"\"a b\": 1\n", "{a b: 1}"},
    };
    context *f = *state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        fli_node *root = NULL;
        assert_ok(f->ctx, parse(f, good[i].yaml, &root));
        assert_int_equal(root->type, FLI_NODE_MAP);
        assert_tree(root, good[i].tree);
    }
}

static void remembers_places(void **state)
{
    context *f = *state;
    fli_node *root = NULL;
    assert_ok(f->ctx, parse(f, "a: 1\n\nsec:\n  key: v\n  list: [x,\n    y]\n", &root));
    const fli_node *sec = fli_node_find(root, "sec"), *key = fli_node_find(sec, "key"),
                   *list = fli_node_find(sec, "list");
    assert_int_equal(root->line, 1);
    assert_int_equal(root->column, 1);
    assert_int_equal(sec->line, 3);
    assert_int_equal(sec->column, 1);
    assert_int_equal(key->line, 4);
    assert_int_equal(key->column, 3);
    assert_int_equal(list->line, 5);
    assert_int_equal(list->first->line, 5);
    assert_int_equal(list->first->column, 10);
    assert_int_equal(list->first->next->line, 6);
    assert_int_equal(list->first->next->column, 5);
    assert_string_equal(list->first->next->origin, "f.yaml");
    assert_string_equal(root->origin, "f.yaml");
}

static void refuses_bad_files(void **state)
{
    static const struct {
        const char *yaml, *message;
    } bad[] = {
        {"- 1\n- 2\n", "f.yaml:1:1: the file must be a map of keys and values, but is a list"},
        {"hello\n", "f.yaml:1:1: the file must be a map of keys and values, but is a single text"},
        {"a: 1\nb: 2\na: 3\n", "f.yaml:3:1: the key a is given twice: in line 1 and in line 3"},
        {"s:\n  x: 1\n  y: 2\n  x: 1\n", "f.yaml:4:3: the key x is given twice: in line 2 and in line 4"},
        {"s: {x: 1, x: 1}\n", "f.yaml:1:11: the key x is given twice: in line 1 and in line 1"},
        {"[a]: 1\n", "f.yaml:1:1: a key must be a word, not a list or a map"},
        {"? {a: 1}\n: 1\n", "f.yaml:1:3: a key must be a word"},
        {"'': 1\n", "f.yaml:1:1: a key is empty"},
        {"a: &x 1\nb: *x\n", "f.yaml:1:4: anchors (&) are not supported"},
        {"a: &x [1]\n", "f.yaml:1:4: anchors (&) are not supported"},
        {"a: &x {b: 1}\n", "f.yaml:1:4: anchors (&) are not supported"},
        {"b: *x\n", "f.yaml:1:4: aliases (*) are not supported"},
        {"a: !!str 5\n", "f.yaml:1:4: tags (!) are not supported"},
        {"a: ! 5\n", "f.yaml:1:4: tags (!) are not supported"},
        {"a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document (---) is not supported"},
        {"a: \"x\\0y\"\n", "f.yaml:1:4: a text holds a zero byte"},
        {"a: [1, 2\nb: 3\n", "f.yaml:2:2: not valid YAML: did not find expected ',' or ']'"},
        {"a: 'open\n", "not valid YAML: found unexpected end of stream"},
        {"a: 1\n  b: 2\n", "f.yaml:2:4: not valid YAML: mapping values are not allowed in this context"},
        {"a:\n\tb: 1\n", "f.yaml:2:1: not valid YAML: indent with spaces, not with a tab"},
        {"\xC3\xA9: 1\na:\n\tb: 1\n", "f.yaml:3:1: not valid YAML: indent with spaces, not with a tab"},
        {"a: @x\n", "f.yaml:1:4: not valid YAML: found character that cannot start any token"},
        {"%YAML 9.9\n---\na: 1\n", "not valid YAML"},
        {"a: 1\nb: \xFF\n", "f.yaml:2:4: not valid YAML: invalid leading UTF-8 octet"},
        {"a: 1\nb: x\x01\n", "f.yaml:2:5: not valid YAML: control characters are not allowed"},
    };
    context *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fli_node *root = NULL;
        fl_status s = parse(f, bad[i].yaml, &root);
        assert_null(strchr(fl_ctx_error(f->ctx), '\n'));
        assert_fails(f->ctx, s, FL_ECONFIG, bad[i].message);
    }
}

static void refuses_zero_bytes(void **state)
{
    context *f = *state;
    fli_node *root = NULL;
    assert_fails(f->ctx, fli_yaml_parse(f->ctx, &f->arena, "f.yaml", "a: x\0y\n", 7, &root), FL_ECONFIG,
                 "f.yaml:1:5: ");
}

static void bounds_nesting(void **state)
{
    context *f = *state;
    for (int lists = 30; lists <= 33; lists++) { /* the root map is one level */
        char text[256] = "a: ";
        fli_node *root = NULL;
        for (int i = 0; i < lists; i++) strcat(text, "[");
        for (int i = 0; i < lists; i++) strcat(text, "]");
        if (lists <= 31)
            assert_ok(f->ctx, parse(f, text, &root));
        else
            assert_fails(f->ctx, parse(f, text, &root), FL_ECONFIG, "f.yaml:1:35: nested more than 32 deep");
    }
}

/* The classic bomb: nine levels of nine references. */
static void defuses_bombs(void **state)
{
    context *f = *state;
    char text[2048] = "a0: &a0 [x, x]\n";
    for (int i = 1; i < 10; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1,
                 i - 1, i - 1);
    }
    fli_node *root = NULL;
    assert_fails(f->ctx, parse(f, text, &root), FL_ECONFIG, "f.yaml:1:5: anchors");
}

static void bounds_keys(void **state)
{
    context *f = *state;
    fli_text t;
    fli_node *root = NULL;
    for (int keys = 1000; keys <= 1001; keys++) {
        fli_text_init(&t, f->ctx);
        for (int i = 0; i < keys; i++) fli_text_addf(&t, "k%d: 1\n", i);
        if (keys == 1000)
            assert_ok(f->ctx, parse(f, fli_text_get(&t), &root));
        else
            assert_fails(f->ctx, parse(f, fli_text_get(&t), &root), FL_ECONFIG, "f.yaml:1001:1: more than 1000 keys");
        fli_text_fini(&t);
    }
}

/* ---- files --------------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text, size_t n)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static void loads_files(void **state)
{
    context *f = *state;
    char dir[] = "/tmp/fedloom-yaml-XXXXXX", path[64];
    fli_node *root = NULL;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a.yaml", dir);
    write_file(path, "a: {b: 1}\n", 10);
    assert_ok(f->ctx, fli_yaml_load(f->ctx, &f->arena, path, &root));
    assert_tree(root, "{a: {b: 1}}");
    assert_string_equal(fli_node_find(root, "a")->origin, path);

    write_file(path, "", 0);
    assert_ok(f->ctx, fli_yaml_load(f->ctx, &f->arena, path, &root));
    assert_tree(root, "{}");

    size_t limit = 1 << 20;
    char *big = malloc(limit + 1);
    assert_non_null(big);
    memset(big, '\n', limit + 1);
    write_file(path, big, limit);
    assert_ok(f->ctx, fli_yaml_load(f->ctx, &f->arena, path, &root));
    write_file(path, big, limit + 1);
    assert_fails(f->ctx, fli_yaml_load(f->ctx, &f->arena, path, &root), FL_ECONFIG, "larger than 1048576 bytes");
    free(big);

    assert_int_equal(unlink(path), 0);
    assert_fails(f->ctx, fli_yaml_load(f->ctx, &f->arena, path, &root), FL_EIO, "No such file");
    assert_fails(f->ctx, fli_yaml_load(f->ctx, &f->arena, dir, &root), FL_EIO, "Is a directory");
    assert_int_equal(rmdir(dir), 0);
}

/* ---- assignments --------------------------------------------------------------------------------------- */

static void sets_values(void **state)
{
    static const struct {
        const char *yaml, *assignment, *tree;
    } cases[] = {
        {"", "seed=3", "{seed: 3}"},
        {"", "name=", "{name: }"},
        {"", "name=null", "{name: }"},
        {"", "name='null'", "{name: null}"},
        {"", "name=a=b", "{name: a=b}"},
        {"", " local.lr = 1e-3 ", "{local: {lr: 1e-3}}"},
        {"", "x.flag=on", "{x: {flag: on}}"},
        {"", "model.hidden=[200, 100]", "{model: {hidden: [200, 100]}}"},
        {"", "a.b.c=1", "{a: {b: {c: 1}}}"},
        {"seed: 1\nname: x\n", "seed=2", "{seed: 2, name: x}"},
        {"local: {lr: 1, batch: 2}\n", "local.lr=3", "{local: {lr: 3, batch: 2}}"},
        {"local:\n", "local.lr=3", "{local: {lr: 3}}"},
        {"algorithm: fedprox\n", "algorithm.mu=0.1", "{algorithm: {kind: fedprox, mu: 0.1}}"},
        {"algorithm: {kind: fedprox, mu: 1}\n", "algorithm=scaffold", "{algorithm: scaffold}"},
        {"algorithm: {kind: fedprox, mu: 1}\n", "algorithm=fedprox", "{algorithm: {kind: fedprox, mu: 1}}"},
        {"algorithm: {kind: fedprox, mu: 1}\n", "algorithm.kind=scaffold", "{algorithm: scaffold}"},
        {"algorithm: {kind: fedprox, mu: 1}\n", "algorithm.kind=fedprox", "{algorithm: {kind: fedprox, mu: 1}}"},
        {"algorithm: fedprox\n", "algorithm=scaffold", "{algorithm: scaffold}"},
        {"algorithm: {mu: 1}\n", "algorithm=fedprox", "{algorithm: {mu: 1, kind: fedprox}}"},
        {"algorithm: {kind: fedprox, mu: 1}\n", "algorithm=", "{algorithm: }"},
        {"algorithm: {kind: a, mu: 1}\n", "algorithm={kind: a, nu: 2}", "{algorithm: {kind: a, nu: 2}}"},
        {"a: [1, 2, 3]\n", "a=[4]", "{a: [4]}"},
        {"a: [1, 2, 3]\n", "a=5", "{a: 5}"},
    };
    context *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_node *root = NULL;
        assert_ok(f->ctx, parse(f, cases[i].yaml, &root));
        assert_ok(f->ctx, fli_yaml_set(f->ctx, &f->arena, cases[i].assignment, root));
        assert_tree(root, cases[i].tree);
    }
}

static void set_remembers_itself(void **state)
{
    context *f = *state;
    fli_node *root = NULL;
    char where[256];
    assert_ok(f->ctx, parse(f, "algorithm: fedprox\n", &root));
    assert_ok(f->ctx, fli_yaml_set(f->ctx, &f->arena, "algorithm.mu=[1, 2]", root));
    const fli_node *algo = fli_node_find(root, "algorithm"), *mu = fli_node_find(algo, "mu");
    assert_string_equal(fli_node_where(mu, where, sizeof where), "--set algorithm.mu=[1, 2]: ");
    assert_string_equal(fli_node_where(mu->first, where, sizeof where), "--set algorithm.mu=[1, 2]: ");
    assert_string_equal(fli_node_where(fli_node_find(algo, "kind"), where, sizeof where), "f.yaml:1:1: ");
}

static void set_refuses(void **state)
{
    static const struct {
        const char *assignment, *message;
    } bad[] = {
        {"local.lr", "--set local.lr: must be KEY=VALUE or SECTION.KEY=VALUE"},
        {"", "must be KEY=VALUE"},
        {"=3", "--set =3: a key is empty"},
        {"  =3", "a key is empty"},
        {".lr=3", "a key is empty"},
        {"local.=3", "a key is empty"},
        {"a..b=3", "a key is empty"},
        {"a.b.c.d.e.f.g.h.i=1", "more than 8 keys deep"},
        {"list.x=1", "--set list.x=1: list is a list, which has no keys"},
        {"a=[1", "--set a=[1: not valid YAML: did not find expected ',' or ']'"},
        {"a={x: 1, x: 2}", "--set a={x: 1, x: 2}: the key x is given twice"},
        {"a=*x", "aliases (*) are not supported"},
        {"a=\xFF", "not valid YAML: invalid leading UTF-8 octet"},
        {"a=[\n1", "--set a=[ 1: not valid YAML"},
    };
    context *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fli_node *root = NULL;
        assert_ok(f->ctx, parse(f, "list: [1]\n", &root));
        fl_status s = fli_yaml_set(f->ctx, &f->arena, bad[i].assignment, root);
        assert_null(strchr(fl_ctx_error(f->ctx), '\n'));
        assert_fails(f->ctx, s, FL_ECONFIG, bad[i].message);
    }
}

static void get_follows_dotted_paths(void **state)
{
    context *f = *state;
    fli_node *root = NULL;
    assert_ok(f->ctx, parse(f, "a: 1\ns: {b: 2, t: {c: 3}}\n", &root));
    assert_string_equal(fli_yaml_get(root, "a")->text, "1");
    assert_string_equal(fli_yaml_get(root, "s.b")->text, "2");
    assert_string_equal(fli_yaml_get(root, "s.t.c")->text, "3");
    assert_int_equal(fli_yaml_get(root, "s")->type, FLI_NODE_MAP);
    assert_null(fli_yaml_get(root, "x"));
    assert_null(fli_yaml_get(root, "a.b"));
    assert_null(fli_yaml_get(root, "s.bb"));
}

static void set_shortens_long_values(void **state)
{
    context *f = *state;
    fli_node *root = NULL;
    char text[400] = "a=[";
    memset(text + 3, '1', 380);
    assert_ok(f->ctx, parse(f, "", &root));
    fl_status s = fli_yaml_set(f->ctx, &f->arena, text, root);
    assert_true(strlen(fl_ctx_error(f->ctx)) < 250);
    assert_fails(f->ctx, s, FL_ECONFIG, "111...: not valid YAML");
}

/* ---- merging ------------------------------------------------------------------------------------------- */

static void merging_overrides_key_by_key(void **state)
{
    static const struct {
        const char *base, *over, *tree;
    } cases[] = {
        {"", "a: 1\n", "{a: 1}"},
        {"a: 1\n", "", "{a: 1}"},
        {"a: 1\nb: 2\n", "b: 3\nc: 4\n", "{a: 1, b: 3, c: 4}"},
        {"s: {x: 1, y: 2}\n", "s: {y: 3, z: 4}\n", "{s: {x: 1, y: 3, z: 4}}"},
        {"s: {kind: a, x: 1}\n", "s: {kind: b, y: 2}\n", "{s: {kind: b, y: 2}}"},
        {"s: {kind: a, x: 1}\n", "s: {kind: a, y: 2}\n", "{s: {kind: a, x: 1, y: 2}}"},
        {"s: {kind: a, x: 1}\n", "s: b\n", "{s: b}"},
        {"s: {kind: a, x: 1}\n", "s: a\n", "{s: {kind: a, x: 1}}"},
        {"s: {kind: a, x: 1}\n", "s:\n", "{s: {kind: a, x: 1}}"},
        {"s: a\n", "s: {y: 2}\n", "{s: {kind: a, y: 2}}"},
        {"s: a\n", "s: {kind: b, y: 2}\n", "{s: {kind: b, y: 2}}"},
        {"s: a\n", "s: b\n", "{s: b}"},
        {"s: {x: 1}\n", "s: {kind: b}\n", "{s: {x: 1, kind: b}}"},
        {"s: [1, 2]\n", "s: [3]\n", "{s: [3]}"},
        {"s: [1, 2]\n", "s: {x: 1}\n", "{s: {x: 1}}"},
        {"s: {x: 1}\n", "s: [1]\n", "{s: [1]}"},
        {"s: {t: {x: 1, y: 1}}\n", "s: {t: {y: 2}}\n", "{s: {t: {x: 1, y: 2}}}"},
    };
    context *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_node *base = NULL, *over = NULL;
        char before[256] = "", after[256] = "";
        assert_ok(f->ctx, parse(f, cases[i].base, &base));
        assert_ok(f->ctx, parse(f, cases[i].over, &over));
        show(over, before, sizeof before);
        assert_ok(f->ctx, fli_yaml_merge(f->ctx, &f->arena, base, over));
        assert_tree(base, cases[i].tree);
        show(over, after, sizeof after);
        assert_string_equal(before, after);
    }
}

/* Every allocation of a load, a set and a merge fails once: an error each time, no leak (the sanitizer sees to
 * that). */
static void survives_no_memory(void **state)
{
    (void)state;
    int succeeded = 0;
    for (size_t k = 1; k < 1000 && !succeeded; k++) {
        fl_ctx *ctx = fl_ctx_new();
        fli_arena arena;
        fli_node *root = NULL, *over = NULL;
        fli_arena_init(&arena, ctx);
        fli_ctx_fail_alloc(ctx, k);
        fl_status s = fli_yaml_parse(ctx, &arena, "f", "a: {kind: x, b: [1, 2]}\n", 24, &root);
        if (!s) s = fli_yaml_parse(ctx, &arena, "g", "a: {b: 2, c: 3}\n", 16, &over);
        if (!s) s = fli_yaml_set(ctx, &arena, "a.d=4", root);
        if (!s) s = fli_yaml_merge(ctx, &arena, root, over);
        succeeded = s == FL_OK;
        if (!succeeded) {
            assert_int_equal(s, FL_ENOMEM);
            assert_non_null(strstr(fl_ctx_error(ctx), "out of memory"));
        }
        fli_arena_fini(&arena);
        fl_ctx_free(ctx);
    }
    assert_true(succeeded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(reads_trees),
        CONTEXT_TEST(remembers_places),
        CONTEXT_TEST(refuses_bad_files),
        CONTEXT_TEST(refuses_zero_bytes),
        CONTEXT_TEST(bounds_nesting),
        CONTEXT_TEST(defuses_bombs),
        CONTEXT_TEST(bounds_keys),
        CONTEXT_TEST(loads_files),
        CONTEXT_TEST(sets_values),
        CONTEXT_TEST(set_remembers_itself),
        CONTEXT_TEST(set_refuses),
        CONTEXT_TEST(set_shortens_long_values),
        CONTEXT_TEST(get_follows_dotted_paths),
        CONTEXT_TEST(merging_overrides_key_by_key),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
