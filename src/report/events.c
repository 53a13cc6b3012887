/* TensorBoard event files: the scalars of one run, which `tensorboard --logdir` shows beside those of others.
 *
 * The file is a sequence of TFRecords, all numbers little-endian,
 *
 *   length (8 bytes) | masked CRC-32C of the length (4) | message | masked CRC-32C of the message (4)
 *
 * and every message is a protocol buffer: first Event{file_version}, then an Event{step, summary} per measured row,
 * with the finite quantities of the row. Scalars are floats in this format: byte counts have seven digits.
 *
 * step is the round. wall_time is the run's start plus the seconds of the row, and never decreases. If the curve has no
 * start, it is assumed to end now, which is true of a run that has just finished; if the folder already has the same
 * events, they keep their times. The number in the file's name, by convention the start time, is always 0: a new
 * file replaces the old one. Each run has its own folder: TensorBoard merges all event files of a folder. */
#include "report/report.h"

#include "base/digest.h"
#include "base/file.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- protocol buffers ------------------------------------------------------------------------------------ */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */

/* Field numbers of tensorflow.Event, .Summary and .Summary.Value. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2 };

static void put_fixed(fli_text *t, uint64_t v, size_t bytes)
{
    char little[8];
    for (size_t i = 0; i < bytes; i++) little[i] = (char)(v >> 8 * i & 0xFF);
    fli_text_addn(t, little, bytes);
}

static void put_varint(fli_text *t, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) put_fixed(t, (v & 0x7F) | 0x80, 1);
    put_fixed(t, v, 1);
}

static void put_tag(fli_text *t, unsigned field, unsigned wire) { put_varint(t, field << 3 | wire); }

static void put_bytes(fli_text *t, unsigned field, const char *s, size_t n)
{
    put_tag(t, field, BYTES);
    put_varint(t, n);
    fli_text_addn(t, s, n);
}

static void put_double(fli_text *t, unsigned field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_tag(t, field, FIXED64);
    put_fixed(t, bits, sizeof bits);
}

static void put_float(fli_text *t, unsigned field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_tag(t, field, FIXED32);
    put_fixed(t, bits, sizeof bits);
}

/* ---- messages -------------------------------------------------------------------------------------------- */

/* Buffers for one message, from the innermost part to the whole; reused from row to row. */
typedef struct {
    fli_text value, summary, event;
    const fl_metric *metrics[FL_METRICS_MAX + 1]; /* metrics with a tag, then NULL */
} parts;

static void restart(fli_text *t) { t->n = 0; }

static void put_value(parts *p, const char *tag, float v)
{
    restart(&p->value);
    put_bytes(&p->value, VALUE_TAG, tag, strlen(tag));
    put_float(&p->value, VALUE_SIMPLE, v);
    put_bytes(&p->summary, SUMMARY_VALUE, fli_text_get(&p->value), p->value.n);
}

static void make_version(parts *p, double wall_time)
{
    static const char version[] = "brain.Event:2";
    restart(&p->event);
    put_double(&p->event, EVENT_WALL_TIME, wall_time);
    put_bytes(&p->event, EVENT_FILE_VERSION, version, sizeof version - 1);
}

static void make_row(parts *p, const fl_row *row, double wall_time)
{
    restart(&p->summary);
    for (size_t k = 0; p->metrics[k]; k++) {
        double v = fl_row_value(row, p->metrics[k]);
        if (fabs(v) <= FLT_MAX) put_value(p, p->metrics[k]->shown[FL_VIEW_EVENTS].label, (float)v);
    }
    restart(&p->event);
    put_double(&p->event, EVENT_WALL_TIME, wall_time);
    put_tag(&p->event, EVENT_STEP, VARINT);
    put_varint(&p->event, fl_row_round(row));
    put_bytes(&p->event, EVENT_SUMMARY, fli_text_get(&p->summary), p->summary.n);
}

/* ---- records --------------------------------------------------------------------------------------------- */

/* The format rotates and shifts the CRCs that it stores, because a CRC of data that contain CRCs is weak. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8; }

static void put_record(fli_text *file, const fli_text *message)
{
    size_t at = file->n;
    if (fli_text_ok(message)) file->failed = 1;
    put_fixed(file, message->n, 8);
    if (file->failed) return;
    put_fixed(file, masked(fli_crc32c(file->s + at, 8)), 4);
    fli_text_addn(file, fli_text_get(message), message->n);
    put_fixed(file, masked(fli_crc32c(fli_text_get(message), message->n)), 4);
}

static fl_status make_file(const fli_curve *curve, double begun, parts *p, fli_text *file)
{
    double spent = 0;
    restart(file);
    make_version(p, begun);
    put_record(file, &p->event);
    for (size_t i = 0; i < curve->count; i++) {
        spent = fmax(spent, fl_row_get(&curve->rows[i], "seconds"));
        make_row(p, &curve->rows[i], begun + spent);
        if (fli_text_ok(&p->value) || fli_text_ok(&p->summary)) return FL_ENOMEM;
        put_record(file, &p->event);
    }
    return fli_text_ok(file);
}

/* ---- the file -------------------------------------------------------------------------------------------- */

static char *name_in(fl_ctx *ctx, const char *folder)
{
    return fli_strf(ctx, "%s/events.out.tfevents.0000000000.fedloom", folder);
}

/* Start time of a file's events: the first field of its first record; 0 if it is no event file. */
static double beginning_of(const char *path)
{
    enum { FRAME = 12 }; /* length and its checksum */
    unsigned char head[FRAME + 9];
    uint64_t bits = 0;
    double begun;
    FILE *f = fli_file_open(path, O_RDONLY);
    size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f) fclose(f);
    if (n < sizeof head || head[FRAME] != (EVENT_WALL_TIME << 3 | FIXED64)) return 0;
    for (size_t i = 8; i--;) bits = bits << 8 | head[FRAME + 1 + i];
    memcpy(&begun, &bits, sizeof begun);
    return isfinite(begun) && begun > 0 ? begun : 0;
}

static int holds(const char *path, const fli_text *text)
{
    char piece[4096];
    size_t at = 0, n;
    FILE *f = fli_file_open(path, O_RDONLY);
    if (!f) return 0;
    while ((n = fread(piece, 1, sizeof piece, f)) && n <= text->n - at && !memcmp(piece, text->s + at, n)) at += n;
    fclose(f);
    return !n && at == text->n;
}

/* Start time, in seconds since 1970, of a run that ends now. */
static double ending_now(const fli_curve *curve)
{
    struct timespec now;
    double spent = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < curve->count; i++) spent = fmax(spent, fl_row_get(&curve->rows[i], "seconds"));
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - spent;
}

/* *same: the file with these events already exists; it keeps its times. */
static fl_status make_events(fl_ctx *ctx, const char *folder, const fli_curve *curve, parts *p, fli_text *file,
                             int *same)
{
    char *path = name_in(ctx, folder);
    if (!path) return FL_ENOMEM;
    double before = curve->begun > 0 ? 0 : beginning_of(path);
    fl_status s = before > 0 ? make_file(curve, before, p, file) : FL_OK;
    *same = !s && before > 0 && holds(path, file);
    fli_free(path);
    if (s || *same) return s;
    return make_file(curve, curve->begun > 0 ? curve->begun : ending_now(curve), p, file);
}

/* Writes under a name that TensorBoard, which may be watching, ignores, and renames the complete file. */
static fl_status put_in_place(fl_ctx *ctx, const char *folder, const fli_text *file)
{
    fli_writer out;
    char *path = name_in(ctx, folder);
    char *partial = fli_strf(ctx, "%s/events.partial", folder);
    fl_status s = path && partial ? fli_make_folders(ctx, folder) : FL_ENOMEM;
    if (!s) unlink(partial); /* so that a link of that name cannot redirect the writing */
    if (!s) s = fli_writer_open(ctx, partial, &out);
    if (s) goto done;
    fli_writer_bytes(&out, fli_text_get(file), file->n);
    s = fli_writer_close(&out);
    if (!s && rename(partial, path)) {
        s = fli_fail(ctx, FL_EIO, "%s: cannot be put in place: %s", path, strerror(errno));
        unlink(partial);
    }
done:
    fli_free(path);
    fli_free(partial);
    return s;
}

fl_status fli_events_write(fl_ctx *ctx, const char *folder, const fli_curve *curve)
{
    fli_text file;
    parts p;
    int same = 0;
    for (size_t k = 0; (p.metrics[k] = fl_metric_shown(FL_VIEW_EVENTS, k));) k++;
    fli_text_init(&file, ctx);
    fli_text_init(&p.value, ctx);
    fli_text_init(&p.summary, ctx);
    fli_text_init(&p.event, ctx);
    fl_status s = make_events(ctx, folder, curve, &p, &file, &same);
    if (!s && !same) s = put_in_place(ctx, folder, &file);
    fli_text_fini(&file);
    fli_text_fini(&p.value);
    fli_text_fini(&p.summary);
    fli_text_fini(&p.event);
    return s;
}
