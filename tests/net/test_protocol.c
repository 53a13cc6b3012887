/* Who can speak with whom, names, and how fast bodies must come. */
#include "check.h"

#include "net/server/http.h"
#include "net/common/protocol.h"

#include <string.h>

static void only_compatible_versions_pass(void **state)
{
    char text[200];
    (void)state;
    assert_null(fli_net_version_wrong(fli_net_version_text(), text, sizeof text));
    assert_null(
        fli_net_version_wrong("2 1", text, sizeof text)); /* the next one's server, which understands this one */
    const char *wrong = fli_net_version_wrong("7 5", text, sizeof text);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "protocol 7 (5 at least), this one 1"));
    static const char *const none[] = {
        "", "1", "1 ", " 1 1", "1 1 ", "1 2", "0 0", "-1 -1", "1 0", "99999999999999999999 1", "x"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        wrong = fli_net_version_wrong(none[i], text, sizeof text);
        if (!wrong || !strstr(wrong, "does not say")) fail_msg("\"%s\": %s", none[i], wrong ? wrong : "accepted");
    }
    assert_non_null(fli_net_version_wrong(NULL, text, sizeof text));
}

static void only_safe_names_pass(void **state)
{
    char longest[FLI_NET_NAME_MAX + 2];
    (void)state;
    static const char *const good[] = {"a", "alice", "site-7.example_1", "7", "_x"};
    static const char *const bad[] = {"", ".", "..", "-a", ".a", "a b", "a/b", "a\n", "\xc3\xa9", "a,b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(fli_net_name_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(fli_net_name_ok(bad[i]));
    memset(longest, 'a', sizeof longest);
    longest[FLI_NET_NAME_MAX + 1] = 0;
    assert_false(fli_net_name_ok(longest));
    longest[FLI_NET_NAME_MAX] = 0;
    assert_true(fli_net_name_ok(longest));
}

static void instances_are_read_as_written(void **state)
{
    static const char *const bad[] = {"",
                                      "1 2",
                                      "0123456789abcdef",
                                      "0123456789abcdef 0123456789abcde",
                                      "0123456789abcdef-0123456789abcdef",
                                      "0123456789ABCDEF 0123456789abcdef",
                                      "0123456789abcdef 0123456789abcdef0",
                                      "0123456789abcdef 0123456789abcdeg"};
    const fli_instance made = {0x0123456789abcdef, 42};
    fli_instance i;
    char text[FLI_INSTANCE_TEXT];
    (void)state;
    assert_string_equal(fli_instance_text(&made, text), "0123456789abcdef 000000000000002a");
    assert_true(fli_instance_read(text, &i));
    assert_true(i.folder == made.folder && i.process == made.process);
    assert_true(fli_instance_read(NULL, &i)); /* it does not say */
    assert_true(!i.folder && !i.process);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) assert_false(fli_instance_read(bad[k], &i));
}

/* Whoever sends a long body takes much room, and must be quick. */
static void slow_bodies(void **state)
{
    const size_t slowest = 64 << 10;
    const double kib = 1024, mib = 1 << 20, minute = 60, grace = 10;
    (void)state;
    assert_true(fli_http_due(1 << 30, slowest, grace) <= 0);
    assert_near(fli_http_due(1 << 10, slowest, grace + minute), kib, 1e-6); /* all of it */
    assert_near(fli_http_due(1 << 20, slowest, grace + minute / 2), mib / 2, 1e-6);
    assert_near(fli_http_due(1 << 30, slowest, grace + minute), minute * 64 * kib, 1e-6);
    assert_near(fli_http_due(1 << 30, slowest / 64, grace + minute), minute * kib, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_compatible_versions_pass),
                                       cmocka_unit_test(only_safe_names_pass),
                                       cmocka_unit_test(instances_are_read_as_written), cmocka_unit_test(slow_bodies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
