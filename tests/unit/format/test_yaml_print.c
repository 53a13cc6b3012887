/* A tree as YAML, read again: the same tree, whatever its texts are; and remarks where they belong. */
#include "check.h"

#include "format/yaml.h"

static const char text[] = "name: x\n"
                           "none:\n"
                           "odd: ['', \"a: b\", '#', 'it''s', \"tab\\tand\\nline\", ~, '- x', 1e-3, true]\n"
                           "empty: {}\n"
                           "nothing: []\n"
                           "lists: [[1, 2], [{a: 1, b: c}]]\n"
                           "section: {kind: k, \"od d\": 1, deep: {er: [1, 2]}}\n"
                           "list:\n"
                           "  - {a: 1, b: {c: 2}}\n"
                           "  - plain\n"
                           "  - {d: [x, y]}\n";

static void assert_same(const fli_node *a, const fli_node *b)
{
    assert_int_equal(a->type, b->type);
    assert_true(!a->key == !b->key && (!a->key || !strcmp(a->key, b->key)));
    if (a->type == FLI_NODE_SCALAR) {
        assert_string_equal(a->text, b->text);
        return;
    }
    const fli_node *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next) assert_same(x, y);
    assert_true(!x && !y);
}

static void reads_as_it_was(void **state)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    fli_node *root, *again;
    fli_text out;
    (void)state;
    fli_arena_init(&arena, ctx);
    fli_text_init(&out, ctx);
    assert_ok(ctx, fli_yaml_parse(ctx, &arena, "text", text, strlen(text), &root));
    const fli_remark remarks[] = {{fli_yaml_get(root, "section.kind"), "was j"}, {fli_yaml_get(root, "name"), "new"}};
    fli_yaml_print(&out, root, remarks, 2);
    assert_ok(ctx, fli_yaml_parse(ctx, &arena, "again", fli_text_get(&out), out.n, &again));
    assert_same(root, again);
    assert_non_null(strstr(fli_text_get(&out), "name: x  # new\n"));
    assert_non_null(strstr(fli_text_get(&out), "  kind: k  # was j\n"));
    assert_non_null(strstr(fli_text_get(&out), "list:\n  - a: 1\n    b:\n      c: 2\n  - plain\n  - d: [x, y]\n"));
    fli_text_fini(&out);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_as_it_was)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
