/* JSON as the library writes it. */
#include "check.h"

#include "format/json.h"

#include <math.h>

static void writes_values(void **state)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_text t;
    fli_json j;
    (void)state;
    fli_text_init(&t, ctx);
    fli_json_init(&j, &t);
    fli_json_map(&j, NULL);
    fli_json_text(&j, "text", "a \"b\"\n");
    fli_json_text(&j, "nothing", NULL);
    fli_json_real(&j, "real", 0.1);
    fli_json_real(&j, "nan", NAN);
    fli_json_whole(&j, "whole", UINT64_MAX);
    fli_json_truth(&j, "truth", 1);
    fli_json_list(&j, "list");
    fli_json_whole(&j, NULL, 1);
    fli_json_truth(&j, NULL, 0);
    fli_json_end(&j);
    fli_json_map(&j, "empty");
    fli_json_end(&j);
    fli_json_end(&j);
    assert_ok(ctx, fli_text_ok(&t));
    assert_string_equal(fli_text_get(&t), "{\n"
                                          "  \"text\": \"a \\\"b\\\"\\u000a\",\n"
                                          "  \"nothing\": null,\n"
                                          "  \"real\": 0.10000000000000001,\n"
                                          "  \"nan\": null,\n"
                                          "  \"whole\": 18446744073709551615,\n"
                                          "  \"truth\": true,\n"
                                          "  \"list\": [\n"
                                          "    1,\n"
                                          "    false\n"
                                          "  ],\n"
                                          "  \"empty\": {}\n"
                                          "}\n");
    fli_text_fini(&t);
    fl_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
