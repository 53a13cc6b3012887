/* Models as ONNX: the wire format byte by byte, the operators of every kind of model, and what is refused. That
 * runtimes compute the same is for python/tests/test_onnx.py. */
#include "runs.h"

#include "base/file.h"
#include "format/protobuf.h"

#define COMMON                                                                                                         \
    "seed: 3\nrounds: 0\nthreads: 2\npartition: {kind: iid, clients: 2}\nlocal: {batch: 10, lr: 0.05}\n"               \
    "data: {kind: digits, samples: 40, test_samples: 10}\n"

/* ---- the wire format ----------------------------------------------------------------------------------- */

static void wire_format(void **state)
{
    fixture *f = *state;
    static const uint8_t want[] = {0x08, 0x96, 0x01,                               /* 1: 150 */
                                   0x12, 0x02, 'h',  'i',                          /* 2: "hi" */
                                   0x3a, 0x83, 0x80, 0x80, 0x80, 0x00, 0xa0, 0x01, /* 7: a message with */
                                   0x05,                                           /* 20: 5 */
                                   0x4a, 0x03, 0,    0,    0};                     /* 9: room */
    fli_protobuf b = {.ctx = f->ctx};
    fli_protobuf_number(&b, 1, 150);
    fli_protobuf_text(&b, 2, "hi");
    size_t opened = fli_protobuf_open(&b, 7);
    fli_protobuf_number(&b, 20, 5);
    fli_protobuf_close(&b, opened);
    assert_non_null(fli_protobuf_room(&b, 9, 3));
    assert_ok(f->ctx, b.status);
    assert_int_equal(b.n, sizeof want);
    assert_memory_equal(b.p, want, sizeof want);
    fli_protobuf_fini(&b);
}

static void too_long(void **state)
{
    fixture *f = *state;
    fli_protobuf b = {.ctx = f->ctx};
    size_t opened = fli_protobuf_open(&b, 7), n = b.n;
    b.n += (size_t)3 << 30;
    fli_protobuf_close(&b, opened);
    b.n = n;
    assert_fails(f->ctx, b.status, FL_EFORMAT, "a message of 3221225472 bytes is too long for protocol buffers: 2 GiB");
    assert_null(fli_protobuf_room(&b, 1, 1)); /* a failure stays */
    fli_protobuf_fini(&b);
}

/* ---- reading it back ----------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *p, *end;
} message;

static uint64_t read_number(message *m)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(m->p < m->end && shift < 64);
        v |= (uint64_t)(*m->p & 127) << shift;
        if (!(*m->p++ & 128)) return v;
    }
}

/* The next field; 0 at the end. What it holds is a number, or bytes. */
static unsigned next(message *m, uint64_t *number, message *bytes)
{
    if (m->p == m->end) return 0;
    uint64_t key = read_number(m);
    *number = read_number(m);
    if ((key & 7) == 0) return (unsigned)(key >> 3);
    assert_int_equal(key & 7, 2);
    assert_true(*number <= (size_t)(m->end - m->p));
    *bytes = (message){m->p, m->p + *number};
    m->p += *number;
    return (unsigned)(key >> 3);
}

/* The n-th bytes of a field; the whole message must be well formed. */
static message find(message m, unsigned field, size_t n)
{
    uint64_t number;
    message bytes, found = {NULL, NULL};
    for (unsigned f; (f = next(&m, &number, &bytes));)
        if (f == field && !n--) found = bytes;
    return found;
}

static void add_words(char *out, size_t size, message m)
{
    snprintf(out + strlen(out), size - strlen(out), "%s%.*s", *out ? " " : "", (int)(m.end - m.p), (const char *)m.p);
}

/* The operators of the graph, in their order, by name. */
static const char *operators(message graph)
{
    static char out[1024];
    message node;
    *out = 0;
    for (size_t i = 0; (node = find(graph, 1, i)).p; i++) add_words(out, sizeof out, find(node, 4, 0));
    return out;
}

/* The shape of constant `name`, and its values. */
static message constant(message graph, const char *name, char *shape)
{
    message tensor, raw = {NULL, NULL}, bytes, label;
    uint64_t number;
    for (size_t i = 0; (tensor = find(graph, 5, i)).p; i++) {
        label = find(tensor, 8, 0);
        if ((size_t)(label.end - label.p) != strlen(name) || memcmp(label.p, name, strlen(name))) continue;
        raw = find(tensor, 9, 0);
        *shape = 0;
        for (unsigned f; (f = next(&tensor, &number, &bytes));)
            if (f == 1) sprintf(shape + strlen(shape), "%s%d", *shape ? "x" : "", (int)number);
        return raw;
    }
    fail_msg("no constant %s", name);
    return raw;
}

static float float_at(message raw, size_t i)
{
    float v;
    assert_true(raw.p + 4 * i + 4 <= raw.end);
    memcpy(&v, raw.p + 4 * i, 4);
    return v;
}

/* ---- models -------------------------------------------------------------------------------------------- */

typedef struct {
    fl_model *model;
    char *bytes;
    message graph;
} exported;

static fl_model *trained(fixture *f, const char *assignments)
{
    char path[600], all[1024];
    fl_model *model;
    snprintf(all, sizeof all, "output=%s/out;%s", f->folder, assignments);
    fl_run *run = run_done(f, COMMON, all);
    assert_ok(f->ctx, fl_run_prepare_save(run, 1));
    assert_ok(f->ctx, fl_run_save(run));
    snprintf(path, sizeof path, "%s/model.safetensors", fl_run_output(run));
    assert_ok(f->ctx, fl_model_load(f->ctx, path, &model));
    fl_run_free(run);
    return model;
}

static exported export(fixture *f, const char *assignments)
{
    exported e = {.model = trained(f, assignments)};
    size_t n;
    assert_ok(f->ctx, fl_model_export(f->ctx, e.model, fixture_path(f, "m.onnx")));
    assert_ok(f->ctx, fli_file_read(f->ctx, fixture_path(f, "m.onnx"), 1 << 26, &e.bytes, &n));
    e.graph = find((message){(uint8_t *)e.bytes, (uint8_t *)e.bytes + n}, 7, 0);
    assert_non_null(e.graph.p);
    return e;
}

static void exported_free(exported *e)
{
    fl_model_free(e->model);
    fli_free(e->bytes);
}

static int same(message a, message b) { return a.end - a.p == b.end - b.p && !memcmp(a.p, b.p, (size_t)(a.end - a.p)); }

/* Each operator has a name and an output of its own, and of its inputs the first is the last one's output. */
static void are_in_line(message graph)
{
    message node, before;
    for (size_t i = 0; (node = find(graph, 1, i)).p; i++) {
        assert_true(find(node, 3, 0).p < find(node, 3, 0).end);
        for (size_t k = 0; k < i; k++) {
            before = find(graph, 1, k);
            assert_false(same(find(node, 3, 0), find(before, 3, 0)));
            assert_false(same(find(node, 2, 0), find(before, 2, 0)));
        }
    }
}

static void has_operators(fixture *f, const char *assignments, const char *want)
{
    exported e = export(f, assignments);
    assert_string_equal(operators(e.graph), want);
    are_in_line(e.graph);
    exported_free(&e);
}

static void operators_of_every_kind(void **state)
{
    has_operators(*state, "model=softmax;data.normalize=none", "Flatten Gemm Softmax");
    has_operators(*state, "model={kind: mlp, hidden: [6, 5]}", "Mul Flatten Gemm Relu Gemm Relu Gemm Softmax");
    has_operators(*state,
                  "model={kind: cnn, layers: 'conv 4x5 same, pool 2, conv 6x3 stride 2, avgpool 2, fc 12'};"
                  "data.normalize=standard;data.crop=24",
                  "Mul Add Slice Conv Relu MaxPool Conv Relu AveragePool Flatten Gemm Relu Gemm Softmax");
    has_operators(*state, "model=softmax;data.normalize=image",
                  "ReduceMean Sub Mul ReduceMean Sqrt Max Div Flatten Gemm Softmax");
    has_operators(*state, "model=softmax;data={kind: blobs, classes: 3, features: 4, samples: 40, test_samples: 10}",
                  "Gemm Softmax");
}

/* Parameters are there by their names, as f32, whatever the run computed in. */
static void parameters_are_exported_as_f32(void **state)
{
    for (int wide = 0; wide < 2; wide++) {
        exported e =
            export(*state, wide ? "model={kind: mlp, hidden: [3]};precision=f64" : "model={kind: mlp, hidden: [3]}");
        fl_tensor t;
        const void *x;
        char shape[64];
        for (size_t k = 0; fl_model_tensor(e.model, k, &t, &x); k++) {
            char want[64] = "";
            size_t n = 1;
            message raw = constant(e.graph, t.name, shape);
            for (size_t i = 0; i < t.dims; i++, n *= t.shape[i - 1])
                sprintf(want + strlen(want), "%s%zu", i ? "x" : "", t.shape[i]);
            assert_string_equal(shape, want);
            for (size_t i = 0; i < n; i++)
                assert_true(float_at(raw, i) == (wide ? (float)((const double *)x)[i] : ((const float *)x)[i]));
        }
        assert_true(float_at(constant(e.graph, "input.scale", shape), 0) == (float)(1.0 / 255));
        assert_string_equal(shape, "1");
        exported_free(&e);
    }
}

/* ---- what is refused ----------------------------------------------------------------------------------- */

static void impossible_exports_are_refused(void **state)
{
    fixture *f = *state;
    fl_model *model = trained(f, "model=softmax");
    assert_fails(f->ctx, fl_model_export(f->ctx, model, fixture_path(f, "m.pt")), FL_ECONFIG,
                 "m.pt: models are exported as ONNX, to files whose names end in .onnx");
    assert_fails(f->ctx, fl_model_export(f->ctx, model, fixture_path(f, "no/m.onnx")), FL_EIO, "no/m.onnx");
    assert_fails(f->ctx, fl_model_export(f->ctx, NULL, "m.onnx"), FL_ECONFIG, "an export needs a model");
    fl_model_free(model);
    model = trained(f, "model=logistic;data={kind: blobs, classes: 2, features: 4, samples: 40, test_samples: 10}");
    assert_fails(f->ctx, fl_model_export(f->ctx, model, fixture_path(f, "m.onnx")), FL_ECONFIG,
                 "a model of kind logistic is not exported as ONNX: softmax, mlp and cnn are");
    fl_model_free(model);
}

/* A number of f64 that f32 has not; and every allocation that fails. */
static void failed_exports_return_an_error(void **state)
{
    fixture *f = *state;
    fl_tensor t;
    const void *x;
    fl_model *model = trained(f, "model={kind: mlp, hidden: [3]};precision=f64;data.normalize=standard");
    fl_status s = FL_ENOMEM;
    for (size_t k = 1; s; k++) {
        fli_ctx_fail_alloc(f->ctx, k);
        s = fl_model_export(f->ctx, model, fixture_path(f, "m.onnx"));
        fli_ctx_fail_alloc(f->ctx, 0);
        assert_true(s == FL_OK || s == FL_ENOMEM);
        assert_true(k < 1000);
    }
    assert_true(fl_model_tensor(model, 1, &t, &x));
    ((double *)(uintptr_t)x)[0] = 1e300;
    assert_fails(f->ctx, fl_model_export(f->ctx, model, fixture_path(f, "n.onnx")), FL_EFORMAT,
                 "layer1.bias has the number 1e+300, which is too large for f32");
    assert_int_equal(access(fixture_path(f, "n.onnx"), F_OK), -1);
    fl_model_free(model);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wire_format),
        TEST(too_long),
        TEST(operators_of_every_kind),
        TEST(parameters_are_exported_as_f32),
        TEST(impossible_exports_are_refused),
        TEST(failed_exports_return_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
