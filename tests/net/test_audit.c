/* The audit file: lines that follow from each other, whatever happens to the process and the disk. */
#include "context.h"

#include "base/file.h"
#include "net/common/audit.h"
#include "net/common/log.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static char folder[64], path[96];

static int setup(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/fedloom-audit-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/one.audit.jsonl", folder);
    return context_setup(state);
}

static int teardown(void **state)
{
    context *c = *state;
    fli_remove_folder(c->ctx, folder);
    return context_teardown(state);
}

static fli_audit *open_audit(context *c)
{
    fli_audit *a = NULL;
    assert_ok(c->ctx, fli_audit_open(c->ctx, path, &a));
    return a;
}

static fli_audit_sums look(context *c)
{
    fli_audit_sums sums;
    assert_ok(c->ctx, fli_audit_look(c->ctx, path, &sums));
    return sums;
}

/* The file's text, to be freed by fli_free. */
static char *text_of(context *c)
{
    char *text = NULL;
    size_t n;
    assert_ok(c->ctx, fli_file_read(c->ctx, path, 1 << 24, &text, &n));
    return text;
}

static void assert_has(context *c, const char *part)
{
    char *text = text_of(c);
    if (!strstr(text, part)) fail_msg("\"%s\" lacks \"%s\"", text, part);
    fli_free(text);
}

static void write_text(context *c, const char *text)
{
    assert_ok(c->ctx, fli_file_private(c->ctx, path, text, strlen(text)));
}

/* By the log, whether what is routine is said or not; what does not concern anybody is not entered. */
static void lines_of_the_log(void **state)
{
    context *c = *state;
    fli_net_log log = {.quiet = 1, .audit = open_audit(c)};
    fli_net_note(&log, "joined", "client=%u name=%s samples=%d", 3u, "ann", 50);
    fli_net_note(&log, "round", "round=1 of=2");
    fli_net_say(&log, "refused", "client=1 name=bob number=007 reason=\"it's too much, at 10 %%\" code=0");
    fli_net_say(&log, "dropped", "%s", "");
    fli_net_say(&log, "over", "code=12 odd=\"un\\ended");
    fli_audit_close(log.audit);
    assert_int_equal(look(c).lines, 4);
    assert_int_equal(look(c).broken, 0);
    assert_has(c, "\"event\": \"joined\", \"client\": 3, \"name\": \"ann\", \"samples\": 50, \"before\": \"0000");
    assert_has(c,
               "\"name\": \"bob\", \"number\": \"007\", \"reason\": \"it's too much, at 10 %\", \"code\": 0, \"before");
    assert_has(c, "\"event\": \"dropped\", \"before\": \"");
    assert_has(c, "\"code\": 12, \"odd\": \"un?ended\", \"before\": \"");
}

/* Half a line, as a server leaves it that is killed, does not hinder the next one. */
static void half_a_line(void **state)
{
    context *c = *state;
    fli_audit *a = open_audit(c);
    fli_audit_enter(a, "t1", "joined", "client=1");
    fli_audit_enter(a, "t2", "dropped", "client=1 reason=late");
    fli_audit_close(a);
    char *whole = text_of(c);
    size_t n = strlen(whole);
    for (size_t k = 0; k <= n; k++) {
        char *part = strndup(whole, k);
        size_t lines = 0;
        for (const char *p = part; *p; p++) lines += *p == '\n';
        write_text(c, part);
        fli_audit_sums before = look(c);
        assert_int_equal(before.lines, lines);
        assert_int_equal(before.broken, 0);
        assert_int_equal(before.half, k && part[k - 1] != '\n');
        a = open_audit(c);
        fli_audit_enter(a, "t3", "over", "code=0");
        fli_audit_close(a);
        fli_audit_sums after = look(c);
        assert_int_equal(after.lines, lines + 1);
        assert_true(!after.broken && !after.half);
        free(part);
    }
    fli_free(whole);
}

/* If any byte of any line changes, the file is found to be broken there, or by the digest of its last line. */
static void any_changed_byte_is_found(void **state)
{
    context *c = *state;
    char sentence[300];
    fli_audit *a = open_audit(c);
    for (int i = 0; i < 4; i++) fli_audit_enter(a, "t", "joined", i % 2 ? "client=1" : "client=22");
    fli_audit_close(a);
    const fli_audit_sums was = look(c);
    char *text = text_of(c);
    size_t line = 1;
    for (char *p = text; *p; p++) {
        char old = *p;
        *p = old == 'x' ? 'y' : 'x';
        write_text(c, text);
        fli_audit_sums s = look(c);
        int told = s.broken >= line && s.broken <= line + 1 && s.broken > 0;
        if (!told && fli_digest_same(&s.last, &was.last)) fail_msg("byte %td of line %zu", p - text, line);
        if (s.broken) fli_audit_wrong(path, &s, sentence, sizeof sentence);
        *p = old;
        line += old == '\n';
    }
    char *second = text + strcspn(text, "\n") + 1;
    write_text(c, second);
    fli_audit_sums s = look(c);
    assert_int_equal(s.broken, 1);
    fli_audit_wrong(path, &s, sentence, sizeof sentence);
    assert_non_null(strstr(sentence, ":1: is not the first line of an audit file"));
    a = open_audit(c); /* it goes on, and stays broken where it was */
    fli_audit_enter(a, "t", "over", "");
    fli_audit_close(a);
    assert_int_equal(look(c).broken, 1);
    assert_int_equal(look(c).lines, 4);
    fli_free(text);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* A disk without room takes half a line, and then none; when there is room again, it is said how many are lacking. */
static void no_room(void **state)
{
    context *c = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    fli_audit *a = open_audit(c);
    fli_audit_enter(a, "t", "joined", "client=1");
    limit_files(look(c).bytes + 20);
    for (int i = 0; i < 3; i++) fli_audit_enter(a, "t", "joined", "client=2");
    assert_int_equal(look(c).lines, 1);
    assert_int_equal(look(c).half, 0);
    limit_files(before.rlim_cur);
    fli_audit_enter(a, "t", "joined", "client=3");
    fli_audit_close(a);
    assert_int_equal(look(c).lines, 3);
    assert_int_equal(look(c).broken, 0);
    assert_has(c, "\"event\": \"lost\", \"lines\": 3, ");
}

static void *enter_many(void *audit)
{
    for (int i = 0; i < 200; i++) fli_audit_enter(audit, "t", "dropped", "client=1");
    return NULL;
}

static void threads_enter_whole_lines(void **state)
{
    enum { THREADS = 4 };
    context *c = *state;
    pthread_t t[THREADS];
    fli_audit *a = open_audit(c);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&t[i], NULL, enter_many, a), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    fli_audit_close(a);
    assert_int_equal(look(c).lines, 200 * THREADS);
    assert_int_equal(look(c).broken, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(lines_of_the_log), TEST(half_a_line), TEST(any_changed_byte_is_found),
                                       TEST(no_room), TEST(threads_enter_whole_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
