/* TensorBoard event files, read back by a reader that shares no code with the writer: bitwise CRC, its own protobuf
 * walk. */
#include "check.h"
#include "row.h"

#include "base/digest.h"
#include "base/file.h"
#include "report/report.h"

#include <dirent.h>
#include <float.h>
#include <time.h>
#include <unistd.h>

/* ---- an independent reader ------------------------------------------------------------------------------- */

static uint32_t slow_crc(const unsigned char *p, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t low = (crc ^ (uint32_t)(p[i] >> bit)) & 1;
            crc = crc >> 1 ^ (low ? 0x82F63B78u : 0);
        }
    return ~crc;
}

typedef struct {
    const unsigned char *p, *end;
} bytes;

static uint64_t read_fixed(bytes *b, size_t n)
{
    uint64_t v = 0;
    assert_true((size_t)(b->end - b->p) >= n);
    for (size_t i = n; i--;) v = v << 8 | b->p[i];
    b->p += n;
    return v;
}

static uint64_t read_varint(bytes *b)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        uint64_t byte = read_fixed(b, 1);
        assert_true(shift < 64);
        v |= (byte & 0x7F) << shift;
        if (byte < 0x80) return v;
    }
}

/* One field: its number; a number goes to *v, a length-delimited one to *inside. */
static unsigned read_field(bytes *b, uint64_t *v, bytes *inside)
{
    uint64_t tag = read_varint(b);
    *v = 0;
    switch (tag & 7) {
    case 0: *v = read_varint(b); break;
    case 1: *v = read_fixed(b, 8); break;
    case 5: *v = read_fixed(b, 4); break;
    case 2:
        *v = read_varint(b);
        assert_true((uint64_t)(b->end - b->p) >= *v);
        *inside = (bytes){b->p, b->p + *v};
        b->p += *v;
        break;
    default: fail_msg("wire type %d", (int)(tag & 7));
    }
    return (unsigned)(tag >> 3);
}

static uint32_t unmask(uint32_t crc)
{
    uint32_t rotated = crc - 0xa282ead8u;
    return rotated >> 17 | rotated << 15;
}

/* The next record's message, its frame checked. */
static bytes read_record(bytes *b)
{
    const unsigned char *length = b->p;
    uint64_t n = read_fixed(b, 8);
    assert_int_equal(unmask((uint32_t)read_fixed(b, 4)), slow_crc(length, 8));
    assert_true((uint64_t)(b->end - b->p) >= n + 4);
    bytes message = {b->p, b->p + n};
    b->p += n;
    assert_int_equal(unmask((uint32_t)read_fixed(b, 4)), slow_crc(message.p, n));
    return message;
}

typedef struct {
    double wall_time;
    uint64_t step;
    char version[32];
    size_t values;
    struct {
        char tag[40];
        float v;
    } value[32];
} event;

static void copy_text(bytes b, char *out, size_t size)
{
    size_t n = (size_t)(b.end - b.p);
    assert_true(n < size);
    memcpy(out, b.p, n);
    out[n] = 0;
}

static void read_value(bytes b, event *e)
{
    uint64_t v;
    bytes inside = {0};
    assert_true(e->values < 32);
    while (b.p < b.end) {
        unsigned field = read_field(&b, &v, &inside);
        if (field == 1)
            copy_text(inside, e->value[e->values].tag, sizeof e->value[0].tag);
        else {
            uint32_t bits = (uint32_t)v;
            assert_int_equal(field, 2);
            memcpy(&e->value[e->values].v, &bits, 4);
        }
    }
    e->values++;
}

static event read_event(bytes b)
{
    event e = {0};
    uint64_t v;
    bytes inside = {0}, ignored;
    while (b.p < b.end) switch (read_field(&b, &v, &inside)) {
        case 1: memcpy(&e.wall_time, &v, 8); break;
        case 2: e.step = v; break;
        case 3: copy_text(inside, e.version, sizeof e.version); break;
        case 5:
            while (inside.p < inside.end) {
                assert_int_equal(read_field(&inside, &v, &ignored), 1);
                read_value(ignored, &e);
            }
            break;
        default: fail_msg("an unexpected field");
        }
    return e;
}

/* NAN if the event has no such value. */
static float value_of(const event *e, const char *tag)
{
    for (size_t i = 0; i < e->values; i++)
        if (!strcmp(e->value[i].tag, tag)) return e->value[i].v;
    return NAN;
}

/* ---- fixture --------------------------------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    char folder[64];
} place;

static int setup(void **state)
{
    place *p = calloc(1, sizeof *p);
    p->ctx = fl_ctx_new();
    strcpy(p->folder, "/tmp/fedloom-events-XXXXXX");
    *state = p;
    return !mkdtemp(p->folder);
}

static int teardown(void **state)
{
    place *p = *state;
    fli_remove_folder(p->ctx, p->folder);
    fl_ctx_free(p->ctx);
    free(p);
    return 0;
}

/* The only file of a folder; fails when there are others. */
static size_t read_only_file(const char *folder, char *name, size_t room, unsigned char *out, size_t capacity)
{
    char path[512];
    size_t files = 0, n;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            snprintf(name, room, "%s", e->d_name);
            files++;
        }
    closedir(dir);
    assert_int_equal(files, 1);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(out, 1, capacity, f);
    assert_true(n < capacity);
    fclose(f);
    return n;
}

static fl_row row_at(size_t round, double seconds)
{
    fl_row r = empty_row();
    *metric(&r, "round") = round;
    *metric(&r, "cohort") = 7;
    *metric(&r, "train_loss") = 0.5 + (double)round;
    *metric(&r, "test_loss") = 1.25;
    *metric(&r, "test_accuracy") = 0.8125;
    *metric(&r, "gradient2") = INFINITY;
    *metric(&r, "client_q10") = 0.1;
    *metric(&r, "client_q50") = 0.2;
    *metric(&r, "client_q90") = 0.3;
    *metric(&r, "bytes_up") = 1e12;
    *metric(&r, "bytes_down") = DBL_MAX; /* finite, but not as a float */
    *metric(&r, "local_steps") = 300;
    *metric(&r, "seconds") = seconds;
    *metric(&r, "regularizer") = 0.75;
    *metric(&r, "local_train_loss") = 2.5;
    *metric(&r, "local_train_accuracy") = 0.5;
    *metric(&r, "local_test_loss") = 3.5;
    *metric(&r, "local_test_accuracy") = 0.625;
    *metric(&r, "simulated_seconds") = 40;
    *metric(&r, "staleness") = 1.5;
    *metric(&r, "staleness_max") = 4;
    *metric(&r, "cluster_accuracy") = 0.375;
    *metric(&r, "cluster_nmi") = 0.25;
    *metric(&r, "communications") = 36;
    *metric(&r, "evaluation_bytes_up") = 640;
    *metric(&r, "evaluation_bytes_down") = 1280;
    return r;
}

/* ---- tests ----------------------------------------------------------------------------------------------- */

static void crc_known_answers(void **state)
{
    (void)state;
    unsigned char b[32] = {0};
    assert_int_equal(fli_crc32c("123456789", 9), 0xE3069283);
    assert_int_equal(fli_crc32c("", 0), 0);
    assert_int_equal(fli_crc32c(b, 32), 0x8A9136AA); /* RFC 3720, B.4 */
    memset(b, 0xFF, sizeof b);
    assert_int_equal(fli_crc32c(b, 32), 0x62A8AB43);
    for (unsigned i = 0; i < 32; i++) b[i] = (unsigned char)i;
    assert_int_equal(fli_crc32c(b, 32), 0x46DD794E);
    for (size_t n = 0; n <= 32; n++) assert_int_equal(fli_crc32c(b, n), slow_crc(b, n));
}

static void rows_come_back(void **state)
{
    place *p = *state;
    unsigned char file[16384];
    char name[256];
    /* The clock of a resumed run may step back; a round may need more than one byte, or two. */
    const fl_row rows[] = {row_at(0, 0), row_at(127, 2.5), row_at(128, 2.25), row_at(1000000, 9)};
    const double begun = 1.7e9, times[] = {begun, begun + 2.5, begun + 2.5, begun + 9};
    fli_curve curve = {1, rows, 4, begun};
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &curve));
    bytes b = {file, file + read_only_file(p->folder, name, sizeof name, file, sizeof file)};
    unsigned digits;
    int end = 0;
    assert_int_equal(sscanf(name, "events.out.tfevents.%u.fedloom%n", &digits, &end), 1);
    assert_int_equal(name[end], 0);

    event e = read_event(read_record(&b));
    assert_string_equal(e.version, "brain.Event:2");
    assert_near(e.wall_time, begun, 0);
    assert_int_equal(e.values, 0);
    for (size_t i = 0; i < 4; i++) {
        e = read_event(read_record(&b));
        assert_string_equal(e.version, "");
        assert_int_equal(e.step, fl_row_round(&rows[i]));
        assert_near(e.wall_time, times[i], 0);
        assert_int_equal(e.values, 23); /* all but the NaN, the infinity and the overflow */
        assert_near(value_of(&e, "train/loss"), (float)fl_row_get(&rows[i], "train_loss"), 0);
        assert_near(value_of(&e, "test/loss"), 1.25, 0);
        assert_near(value_of(&e, "test/accuracy"), 0.8125, 0);
        assert_near(value_of(&e, "clients/q10"), 0.1f, 0);
        assert_near(value_of(&e, "clients/q50"), 0.2f, 0);
        assert_near(value_of(&e, "clients/q90"), 0.3f, 0);
        assert_near(value_of(&e, "clients/cohort"), 7, 0);
        assert_near(value_of(&e, "communication/bytes_up"), 1e12f, 0);
        assert_near(value_of(&e, "work/local_steps"), 300, 0);
        assert_near(value_of(&e, "work/seconds"), fl_row_get(&rows[i], "seconds"), 0);
        assert_near(value_of(&e, "train/regularizer"), 0.75, 0);
        assert_near(value_of(&e, "local/train_loss"), 2.5, 0);
        assert_near(value_of(&e, "local/train_accuracy"), 0.5, 0);
        assert_near(value_of(&e, "local/test_loss"), 3.5, 0);
        assert_near(value_of(&e, "local/test_accuracy"), 0.625, 0);
        assert_near(value_of(&e, "work/simulated_seconds"), 40, 0);
        assert_near(value_of(&e, "async/staleness"), 1.5, 0);
        assert_near(value_of(&e, "async/staleness_max"), 4, 0);
        assert_near(value_of(&e, "clusters/accuracy"), 0.375, 0);
        assert_near(value_of(&e, "clusters/nmi"), 0.25, 0);
        assert_near(value_of(&e, "communication/round_trips"), 36, 0);
        assert_near(value_of(&e, "communication/evaluation_bytes_up"), 640, 0);
        assert_near(value_of(&e, "communication/evaluation_bytes_down"), 1280, 0);
        assert_true(isnan(value_of(&e, "train/accuracy")) && isnan(value_of(&e, "gradient/norm2")));
    }
    assert_true(b.p == b.end);
}

static void written_again_gives_the_same_bytes(void **state)
{
    place *p = *state;
    unsigned char first[4096], second[4096];
    char name[256];
    const fl_row row = row_at(3, 1);
    fli_curve curve = {1, &row, 1, 1.7e9}, empty = {1, NULL, 0, 1.7e9};
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &curve));
    size_t n = read_only_file(p->folder, name, sizeof name, first, sizeof first);
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &empty));
    size_t m = read_only_file(p->folder, name, sizeof name, second, sizeof second);
    assert_true(m && m < n && !memcmp(first, second, m)); /* the version record alone */
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &curve));
    assert_int_equal(read_only_file(p->folder, name, sizeof name, second, sizeof second), n);
    assert_memory_equal(first, second, n);
}

/* The times of a file's first and last event. */
static void times_of(place *p, double *first, double *last)
{
    unsigned char file[4096];
    char name[256];
    bytes b = {file, file + read_only_file(p->folder, name, sizeof name, file, sizeof file)};
    *first = *last = read_event(read_record(&b)).wall_time;
    while (b.p < b.end) *last = read_event(read_record(&b)).wall_time;
}

/* Of a run that has just ended the last event is now; written again later, it keeps its times; another run does not. */
static void times_are_those_of_the_run(void **state)
{
    place *p = *state;
    fl_row rows[] = {row_at(1, 1), row_at(2, 30)};
    fli_curve curve = {1, rows, 2, 0};
    double now = (double)time(NULL), first, last, again_first, again_last;
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &curve));
    times_of(p, &first, &last);
    assert_near(last, now, 10); /* a clock of the day may be set meanwhile, and its coarse reading may lag */
    assert_near(last - first, 30, 1e-5);
    usleep(20000);
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &curve));
    times_of(p, &again_first, &again_last);
    assert_true(again_first == first && again_last == last);
    *metric(&rows[1], "train_loss") += 1;
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &curve));
    times_of(p, &again_first, &again_last);
    assert_true(again_last != last);
}

static void failures_leave_nothing(void **state)
{
    place *p = *state;
    char inside[384], name[256];
    unsigned char before[4096], after[4096];
    const fl_row rows[] = {row_at(1, 1), row_at(2, 2)};
    fli_curve curve = {1, rows, 2, 1.7e9};
    assert_ok(p->ctx, fli_events_write(p->ctx, p->folder, &curve));
    size_t n = read_only_file(p->folder, name, sizeof name, before, sizeof before);
    snprintf(inside, sizeof inside, "%s/%s", p->folder, name);
    assert_fails(p->ctx, fli_events_write(p->ctx, inside, &curve), FL_EIO, inside);
    fl_status s = FL_ENOMEM;
    for (size_t k = 1; s == FL_ENOMEM && k < 1000; k++) {
        fli_ctx_fail_alloc(p->ctx, k);
        s = fli_events_write(p->ctx, p->folder, &curve);
        fli_ctx_fail_alloc(p->ctx, 0);
        if (s) assert_non_null(strstr(fl_ctx_error(p->ctx), "memory"));
        fli_clear(p->ctx);
        assert_int_equal(read_only_file(p->folder, name, sizeof name, after, sizeof after), n);
        assert_memory_equal(before, after, n);
    }
    assert_int_equal(s, FL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_known_answers),
        cmocka_unit_test_setup_teardown(rows_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(written_again_gives_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(times_are_those_of_the_run, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_leave_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
