/* Digests: of files, and of a federation's data. */
#include "fixture.h"

#include "base/digest.h"
#include "data/federation/federation.h"

#include <sys/stat.h>

/* ---- bytes --------------------------------------------------------------------------------------------- */

static void known_values(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text, *digest;
    } known[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}};
    for (size_t i = 0; i < 2; i++) {
        char text[FLI_DIGEST_TEXT];
        uint64_t bytes;
        fli_digest d, back;
        assert_ok(f->ctx, fli_digest_file(f->ctx, fixture_write(f, "file", known[i].text), &d, &bytes));
        assert_int_equal(bytes, strlen(known[i].text));
        fli_digest_print(&d, text);
        assert_string_equal(text, known[i].digest);
        assert_true(fli_digest_read(text, &back) && fli_digest_same(&d, &back));
        back.byte[31] ^= 1;
        assert_false(fli_digest_same(&d, &back));
    }
}

static void what_is_no_digest(void **state)
{
    fixture *f = *state;
    fli_digest d;
    uint64_t bytes;
    static const char *const wrong[] = {"", "e3b0", "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
                                        "g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8550"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(fli_digest_read(wrong[i], &d));
    assert_fails(f->ctx, fli_digest_file(f->ctx, fixture_path(f, "none"), &d, &bytes), FL_EIO, "none: cannot be read");
    assert_fails(f->ctx, fli_digest_file(f->ctx, f->folder, &d, &bytes), FL_EIO, "cannot be read");
    assert_int_equal(mkfifo(fixture_path(f, "pipe"), 0600), 0); /* nobody writes to it: that must not hold us up */
    assert_fails(f->ctx, fli_digest_file(f->ctx, fixture_path(f, "pipe"), &d, &bytes), FL_EIO, "not a plain file");
}

/* ---- data ---------------------------------------------------------------------------------------------- */

enum { N = 12, DIM = 3 };

typedef struct {
    int value, label, owner, order, test, kind, target, scale; /* one thing changed */
} change;

static fli_dataset *samples(fixture *f, size_t n, const change *c, int is_test)
{
    fli_dataset *ds;
    assert_ok(f->ctx, fli_dataset_new(f->ctx, c->kind ? FLI_X_F64 : FLI_X_F32, n, DIM, c->target ? 0 : 4, &ds));
    for (size_t i = 0; i < n * DIM; i++) {
        float v = (float)i / 8 + (c->value && !is_test && i == 7 ? 0x1p-20f : 0) + (c->test && is_test && i == 2);
        if (c->kind)
            ((double *)ds->x)[i] = v;
        else
            ((float *)ds->x)[i] = v;
    }
    for (size_t i = 0; i < n; i++) {
        if (ds->label) ds->label[i] = (int32_t)((i + (c->label && !is_test && i == 5)) % 4);
        if (ds->target) ds->target[i] = (double)(i % 4);
    }
    return ds;
}

/* Three clients, four samples each. */
static fli_fed *federation(fixture *f, change c)
{
    fli_fed *fed;
    fli_partition part = {3, fli_alloc(f->ctx, 4, sizeof(size_t)), fli_alloc(f->ctx, N, sizeof(uint32_t))};
    for (size_t i = 0; i < 4; i++) part.start[i] = 4 * i;
    for (uint32_t i = 0; i < N; i++) part.index[i] = i;
    if (c.owner) part.index[3] = 4, part.index[4] = 3;
    if (c.order) part.index[8] = 9, part.index[9] = 8;
    fli_dataset *train = samples(f, N, &c, 0);
    if (c.scale) {
        train->segments = 1;
        train->scale = fli_alloc(f->ctx, 1, sizeof(double));
        train->shift = fli_alloc(f->ctx, 1, sizeof(double));
        train->scale[0] = 2;
    }
    assert_ok(f->ctx, fli_fed_take(f->ctx, train, samples(f, 5, &c, 1), &part, &fed));
    return fed;
}

static fli_digest digest_of(fixture *f, change c, fli_digest clients[3])
{
    fli_digest d;
    fli_fed *fed = federation(f, c);
    assert_ok(f->ctx, fli_digest_fed(f->ctx, fed, &d));
    for (size_t i = 0; i < 3; i++) assert_ok(f->ctx, fli_digest_client(f->ctx, fed, i, &clients[i]));
    fli_fed_free(fed);
    return d;
}

/* Two clients of one sparse sample each, with doubles; the second sample's last value is 1 + `more`. */
static fli_digest digest_of_sparse(fixture *f, double more)
{
    static const size_t rows[] = {0, 1, 3};
    static const uint32_t cols[] = {2, 0, 1};
    fli_fed *fed;
    fli_digest d;
    fli_partition part = {2, fli_alloc(f->ctx, 3, sizeof(size_t)), fli_alloc(f->ctx, 2, sizeof(uint32_t))};
    fli_dataset *ds = fli_alloc(f->ctx, 1, sizeof *ds);
    *ds = (fli_dataset){.n = 2, .dim = DIM, .kind = FLI_X_CSR64, .classes = 2, .shape = {1, 1, DIM}};
    ds->x = fli_alloc(f->ctx, 3, sizeof(double));
    ds->row = fli_alloc(f->ctx, 3, sizeof(size_t));
    ds->col = fli_alloc(f->ctx, 3, sizeof(uint32_t));
    ds->label = fli_alloc(f->ctx, 2, sizeof(int32_t));
    memcpy(ds->row, rows, sizeof rows);
    memcpy(ds->col, cols, sizeof cols);
    ((double *)ds->x)[2] = 1 + more;
    for (size_t i = 0; i < 3; i++) part.start[i] = i;
    part.index[1] = 1;
    assert_ok(f->ctx, fli_fed_take(f->ctx, ds, NULL, &part, &fed));
    assert_ok(f->ctx, fli_digest_fed(f->ctx, fed, &d));
    fli_fed_free(fed);
    return d;
}

static void sparse_doubles(void **state)
{
    fixture *f = *state;
    fli_digest a = digest_of_sparse(f, 0), b = digest_of_sparse(f, 0), c = digest_of_sparse(f, 0x1p-52);
    assert_true(fli_digest_same(&a, &b));
    assert_false(fli_digest_same(&a, &c));
}

/* Whatever changes, the whole notices; of the clients only the one whose samples they are. */
static void every_change_is_noticed(void **state)
{
    fixture *f = *state;
    static const struct {
        change c;
        int touched[3];
    } cases[] = {
        {{.value = 1}, {1, 0, 0}}, {{.label = 1}, {0, 1, 0}}, {{.owner = 1}, {1, 1, 0}},  {{.order = 1}, {0, 0, 1}},
        {{.test = 1}, {0, 0, 0}},  {{.kind = 1}, {1, 1, 1}},  {{.target = 1}, {1, 1, 1}}, {{.scale = 1}, {0, 0, 0}},
    };
    fli_digest clients[3], others[3], whole = digest_of(f, (change){0}, clients),
                                      other = digest_of(f, (change){0}, others);
    assert_true(fli_digest_same(&whole, &other));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        other = digest_of(f, cases[k].c, others);
        if (fli_digest_same(&whole, &other)) fail_msg("change %zu is not noticed", k);
        for (size_t i = 0; i < 3; i++)
            if (fli_digest_same(&clients[i], &others[i]) == cases[k].touched[i])
                fail_msg("change %zu, client %zu", k, i);
    }
}

/* Labels that were taken away still count: metrics look at them. */
static void hidden_labels(void **state)
{
    fixture *f = *state;
    static const uint32_t hide[3] = {0, 2, 0};
    fli_digest a, b, plain;
    for (int changed = 0; changed < 2; changed++) {
        fli_fed *fed = federation(f, (change){0});
        if (!changed) assert_ok(f->ctx, fli_digest_fed(f->ctx, fed, &plain));
        if (changed) fed->train->label[6] = 0; /* it was 2 */
        assert_ok(f->ctx, fli_fed_hide(f->ctx, fed, hide));
        assert_ok(f->ctx, fli_digest_fed(f->ctx, fed, changed ? &b : &a));
        fli_fed_free(fed);
    }
    assert_false(fli_digest_same(&a, &b));
    assert_false(fli_digest_same(&a, &plain));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(known_values),   FIXTURE_TEST(what_is_no_digest), FIXTURE_TEST(every_change_is_noticed),
        FIXTURE_TEST(sparse_doubles), FIXTURE_TEST(hidden_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
