/* Golden cases: they pass as they are, fail when something in them is changed, and a broken file is a sentence, not a
 * crash. */
#include "fixture.h"

#include "extend/verify.h"

#include <jansson.h>

static const double tolerance = 1e-9;

static json_t *golden(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, TEST_ROOT "/golden/%s.json", name);
    json_t *j = json_load_file(path, 0, NULL);
    if (!j) fail_msg("%s cannot be read", path);
    return j;
}

/* Verifies a case as JSON; takes it. */
static fl_status verify_json(fixture *f, json_t *j, double *error)
{
    char *text = json_dumps(j, JSON_REAL_PRECISION(17));
    json_decref(j);
    fl_status s = fl_verify(f->ctx, fixture_write(f, "case.json", text), tolerance, error);
    free(text);
    return s;
}

static void ready_cases_pass(void **state)
{
    fixture *f = *state;
    char path[512], *list = read_whole(TEST_ROOT "/golden/ready.txt", NULL), *save = NULL;
    size_t n = 0;
    assert_non_null(list);
    for (char *name = strtok_r(list, "\n", &save); name; name = strtok_r(NULL, "\n", &save), n++) {
        double error = -1;
        snprintf(path, sizeof path, TEST_ROOT "/golden/%s", name);
        assert_ok(f->ctx, fl_verify(f->ctx, path, tolerance, &error));
        assert_true(error >= 0 && error <= tolerance);
        for (const fli_executor *const *e = fli_executor_list; *e; e++) {
            double again = -1;
            assert_ok(f->ctx, fli_verify_on(f->ctx, *e, path, tolerance, &again));
            if (again != error) fail_msg("%s through %s: %g, not %g", name, (*e)->name, again, error);
        }
    }
    assert_true(n >= 9);
    free(list);
}

/* One number of the expected model of round r is moved by 1e-6 of the largest. */
static void perturbed_expectations_fail(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"fedavg-normalized", "scaffold", "fedpd", "feddyn", "asyncfeddr-exact-l1"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        json_t *whole = golden(names[k]);
        size_t rounds = json_array_size(json_object_get(whole, "rounds"));
        json_decref(whole);
        for (size_t r = 0; r < rounds; r += rounds - 1) {
            json_t *j = golden(names[k]), *x = json_array_get(json_object_get(json_object_get(j, "expect"), "x"), r);
            double top = 0, error;
            char message[64];
            for (size_t i = 0; i < json_array_size(x); i++)
                top = fmax(top, fabs(json_number_value(json_array_get(x, i))));
            json_array_set_new(x, 1, json_real(json_number_value(json_array_get(x, 1)) + 1e-6 * top));
            snprintf(message, sizeof message, "after round %zu", r + 1);
            assert_fails(f->ctx, verify_json(f, j, &error), FL_EMISMATCH, message);
            assert_near(error, 1e-6, 1e-8);
        }
    }
}

/* What the case computes with matters: another step size, weight, start, sample or number of steps is noticed. */
static void perturbed_inputs_fail(void **state)
{
    fixture *f = *state;
    double error;
    json_t *j = golden("scaffold");
    json_object_set_new(json_object_get(j, "params"), "lr", json_real(0.0999));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EMISMATCH, "after round 1");
    j = golden("scaffold");
    json_array_set_new(json_object_get(j, "weights"), 0, json_real(0.06));
    assert_int_equal(verify_json(f, j, &error), FL_EMISMATCH);
    j = golden("scaffold");
    json_array_set_new(json_object_get(j, "x0"), 0, json_real(0.5));
    assert_int_equal(verify_json(f, j, &error), FL_EMISMATCH);
    j = golden("scaffold");
    json_array_set_new(json_object_get(json_array_get(json_object_get(j, "rounds"), 0), "steps"), 0, json_integer(50));
    assert_int_equal(verify_json(f, j, &error), FL_EMISMATCH);
    assert_true(error > tolerance);
    /* nothing changed: writing and reading back keeps it exact */
    assert_ok(f->ctx, verify_json(f, golden("scaffold"), &error));
}

static void tolerance_decides(void **state)
{
    fixture *f = *state;
    json_t *j = golden("fedavg-normalized"), *x = json_array_get(json_object_get(json_object_get(j, "expect"), "x"), 2);
    double error;
    json_array_set_new(x, 0, json_real(json_number_value(json_array_get(x, 0)) * (1 + 1e-5)));
    char *text = json_dumps(j, JSON_REAL_PRECISION(17));
    json_decref(j);
    fixture_write(f, "case.json", text);
    free(text);
    assert_int_equal(fl_verify(f->ctx, f->path, 1e-9, &error), FL_EMISMATCH);
    double found = error;
    assert_ok(f->ctx, fl_verify(f->ctx, f->path, 1e-3, &error));
    assert_true(error == found); /* the same error, judged otherwise */
}

static void unknown_methods(void **state)
{
    fixture *f = *state;
    double error = 0;
    json_t *j = golden("scaffold");
    json_object_set_new(j, "algorithm", json_string("fedmagic"));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_ECONFIG,
                 "case.json: algorithm.kind is fedmagic, which is not known");
    assert_true(isnan(error));
    j = golden("scaffold");
    json_object_set_new(json_object_get(j, "objective"), "kind", json_string("origami"));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_ECONFIG, "case.json: model.kind is origami, which is not known");
    assert_true(isnan(error));
    j = golden("scaffold");
    json_object_set_new(json_object_get(j, "params"), "magic", json_real(1));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_ECONFIG, "algorithm.magic is not a key");
    j = golden("fedprox");
    json_object_set_new(json_object_get(j, "params"), "mu", json_string("much"));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_ECONFIG, "algorithm.mu is much");
}

static void broken_files(void **state)
{
    fixture *f = *state;
    static const char *const texts[] = {"",
                                        "{",
                                        "[1, 2]",
                                        "null",
                                        "{\"format\": \"golden-2\"}",
                                        "{\"format\": 1}",
                                        "\xff\xfe",
                                        "{\"format\": \"golden-1\", \"format\": \"golden-1\"}",
                                        "{\"format\": \"golden-1\"}"};
    double error;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fl_status s = fl_verify(f->ctx, fixture_write(f, "case.json", texts[i]), tolerance, &error);
        assert_true(s == FL_EFORMAT || s == FL_ECONFIG);
        assert_non_null(strstr(fl_ctx_error(f->ctx), "case.json"));
        assert_true(isnan(error));
    }
    assert_fails(f->ctx, fl_verify(f->ctx, fixture_write(f, "case.json", "{\n\n  x"), tolerance, &error), FL_EFORMAT,
                 "case.json:3:");
    assert_fails(f->ctx, fl_verify(f->ctx, fixture_path(f, "none.json"), tolerance, &error), FL_EIO, "none.json");
    assert_int_equal(fl_verify(f->ctx, f->folder, tolerance, &error), FL_EIO); /* a folder */
    assert_true(fl_ctx_error(f->ctx)[0]);
}

/* Every field of a case, missing or replaced by nonsense of every type: a failure with a sentence each time. */
static json_t *nonsense(int kind)
{
    switch (kind) {
    case 0: return NULL; /* missing */
    case 1: return json_null();
    case 2: return json_string("nonsense");
    case 3: return json_integer(-3);
    case 4: return json_array();
    case 5: return json_object();
    case 6: return json_pack("[[]]");
    case 7: return json_integer(1LL << 62);
    default: return json_pack("[s, f]", "a", 1e300);
    }
}
enum { NONSENSE = 9 };

static void try_nonsense(fixture *f, const char *name, const char *outer, const char *field)
{
    for (int kind = 0; kind < NONSENSE; kind++) {
        json_t *j = golden(name), *at = outer ? json_object_get(j, outer) : j, *bad = nonsense(kind);
        double error;
        if (bad)
            json_object_set_new(at, field, bad);
        else
            json_object_del(at, field);
        fl_status s = verify_json(f, j, &error);
        if (s == FL_OK && kind < 2 && !strcmp(field, "l2")) continue; /* optional */
        if (s == FL_OK || !fl_ctx_error(f->ctx)[0])
            fail_msg("%s: %s%s%s with nonsense %d: status %d, \"%s\"", name, outer ? outer : "", outer ? "." : "",
                     field, kind, (int)s, fl_ctx_error(f->ctx));
    }
}

static void nonsense_in_every_field(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"fedavg-normalized", "fedpd", "asyncfeddr-inexact"};
    static const char *const fields[] = {"format", "algorithm", "objective", "clients", "weights",
                                         "x0",     "params",    "rounds",    "expect"};
    for (size_t n = 0; n < 3; n++) {
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) try_nonsense(f, names[n], NULL, fields[i]);
        try_nonsense(f, names[n], "objective", "kind");
        try_nonsense(f, names[n], "objective", "features");
        try_nonsense(f, names[n], "params", "lr");
        try_nonsense(f, names[n], "expect", "x");
    }
}

/* The same inside the first client, the first round, and lists whose lengths do not fit. */
static void nonsense_inside(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *list, *field;
    } places[] = {{"clients", "A"}, {"clients", "b"}, {"rounds", "clients"}, {"rounds", "steps"}};
    double error;
    for (size_t p = 0; p < 4; p++)
        for (int kind = 0; kind < NONSENSE; kind++) {
            json_t *j = golden("feddyn"), *first = json_array_get(json_object_get(j, places[p].list), 0),
                   *bad = nonsense(kind);
            if (bad)
                json_object_set_new(first, places[p].field, bad);
            else
                json_object_del(first, places[p].field);
            fl_status s = verify_json(f, j, &error);
            if (s != FL_EFORMAT) fail_msg("%s.%s %d: status %d", places[p].list, places[p].field, kind, (int)s);
            assert_non_null(strstr(fl_ctx_error(f->ctx), "case.json"));
        }
}

static void wrong_lengths(void **state)
{
    fixture *f = *state;
    double error;
    json_t *j = golden("feddyn");
    json_array_remove(json_object_get(j, "weights"), 0);
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "\"weights\" do not fit");
    j = golden("feddyn");
    json_array_append_new(json_object_get(j, "x0"), json_real(1));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "\"x0\" does not fit");
    j = golden("feddyn");
    json_array_remove(json_object_get(json_object_get(j, "expect"), "x"), 0);
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "\"rounds\" and \"expect.x\" do not fit");
    j = golden("feddyn");
    json_array_remove(json_array_get(json_object_get(json_object_get(j, "expect"), "x"), 1), 0);
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "\"expect.x\" does not fit");
    j = golden("feddyn");
    json_array_append_new(json_object_get(json_array_get(json_object_get(j, "rounds"), 0), "steps"), json_integer(1));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "\"clients\" and \"steps\" do not fit");
    j = golden("feddyn"); /* a client that does not exist */
    json_array_set_new(json_object_get(json_array_get(json_object_get(j, "rounds"), 0), "clients"), 0,
                       json_integer(1000));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "impossible client");
    j = golden("feddyn"); /* a row with one number too many */
    json_array_append_new(json_array_get(json_object_get(json_array_get(json_object_get(j, "clients"), 0), "A"), 2),
                          json_real(1));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "client 0: A and b do not fit");
    j = golden("fedavg-normalized"); /* a target that is no number */
    json_array_set_new(json_object_get(json_array_get(json_object_get(j, "clients"), 1), "b"), 0, json_string("x"));
    assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, "client 1: A and b do not fit");
}

/* Event k of an asynchronous case, with one field replaced; takes the value, NULL removes the field. */
static json_t *event_with(const char *name, size_t k, const char *field, json_t *value)
{
    json_t *j = golden(name), *event = json_array_get(json_object_get(j, "rounds"), k);
    assert_non_null(event);
    assert_non_null(json_object_get(event, field));
    if (value)
        json_object_set_new(event, field, value);
    else
        json_object_del(event, field);
    return j;
}

static void malformed_events(void **state)
{
    fixture *f = *state;
    static const char *const fields[] = {"client", "delay", "steps"};
    const char *name = "asyncfeddr-inexact",
               *says = "case.json: an event's \"client\", \"delay\" or \"steps\" is impossible";
    json_t *whole = golden(name);
    size_t clients = json_array_size(json_object_get(whole, "clients"));
    double error;
    json_decref(whole);
    for (size_t i = 0; i < 3; i++)
        for (int kind = 0; kind < NONSENSE; kind++)
            assert_fails(f->ctx, verify_json(f, event_with(name, 2, fields[i], nonsense(kind)), &error), FL_EFORMAT,
                         says);
    for (size_t i = 0; i < 3; i++) {
        assert_fails(f->ctx, verify_json(f, event_with(name, 2, fields[i], json_integer(-1)), &error), FL_EFORMAT,
                     says);
        assert_fails(f->ctx, verify_json(f, event_with(name, 2, fields[i], json_real(1)), &error), FL_EFORMAT, says);
    }
    assert_fails(f->ctx, verify_json(f, event_with(name, 2, "client", json_integer((json_int_t)clients)), &error),
                 FL_EFORMAT, says);
    assert_fails(f->ctx, verify_json(f, event_with(name, 2, "steps", json_integer(0)), &error), FL_EFORMAT, says);
    for (size_t k = 0; k < 4; k++) { /* before event k there are k + 1 models */
        json_t *j = event_with(name, k, "delay", json_integer((json_int_t)k + 1));
        assert_fails(f->ctx, verify_json(f, j, &error), FL_EFORMAT, says);
        assert_true(verify_json(f, event_with(name, k, "delay", json_integer((json_int_t)k)), &error) != FL_EFORMAT);
    }
}

/* Another client, delay or number of steps in one event is noticed. */
static void perturbed_events_fail(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"asyncfeddr-inexact", "asyncfeddr-exact-l1"};
    for (size_t n = 0; n < 2; n++) {
        json_t *whole = golden(names[n]), *events = json_object_get(whole, "rounds");
        size_t count = json_array_size(events), delayed = 0;
        for (size_t k = 3; k < count; k++) {
            json_t *event = json_array_get(events, k);
            json_int_t client = json_integer_value(json_object_get(event, "client")),
                       delay = json_integer_value(json_object_get(event, "delay"));
            double error;
            delayed += delay > 0;
            assert_int_equal(verify_json(f, event_with(names[n], k, "client", json_integer(!client)), &error),
                             FL_EMISMATCH);
            assert_true(error > tolerance);
            fl_status s = verify_json(f, event_with(names[n], k, "delay", json_integer(delay ? 0 : 2)), &error);
            /* of a single step with lr = eta/2 the change of 2 x_i - y_i does not depend on xbar */
            if (n || json_integer_value(json_object_get(event, "steps")) > 1) assert_int_equal(s, FL_EMISMATCH);
            s = verify_json(f, event_with(names[n], k, "steps", json_integer(17)), &error);
            assert_int_equal(s, n ? FL_OK : FL_EMISMATCH); /* exact solutions take no steps */
        }
        assert_true(delayed > 2);
        json_decref(whole);
    }
}

static void a_diverging_case_fails(void **state)
{
    fixture *f = *state;
    double error;
    json_t *j = golden("fedavg-normalized");
    json_object_set_new(json_object_get(j, "params"), "lr", json_real(1e200));
    fl_status s = verify_json(f, j, &error);
    assert_true(s == FL_EDIVERGED || s == FL_EMISMATCH);
    assert_true(fl_ctx_error(f->ctx)[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(ready_cases_pass),        FIXTURE_TEST(perturbed_expectations_fail),
        FIXTURE_TEST(perturbed_inputs_fail),   FIXTURE_TEST(tolerance_decides),
        FIXTURE_TEST(unknown_methods),         FIXTURE_TEST(broken_files),
        FIXTURE_TEST(nonsense_in_every_field), FIXTURE_TEST(nonsense_inside),
        FIXTURE_TEST(wrong_lengths),           FIXTURE_TEST(malformed_events),
        FIXTURE_TEST(perturbed_events_fail),   FIXTURE_TEST(a_diverging_case_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
