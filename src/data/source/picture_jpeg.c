/* JPEG by libjpeg. It reports errors by a function that must not return, so that all which must survive the jump out of
 * it is in a struct of the caller's. */
#include "base/number.h"
#include "base/text.h"
#include "data/load.h"
#include "data/source/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h */

#include <jerror.h>

enum { MOST_SCANS = 500 }; /* of a progressive image; each passes over all of it */

typedef struct {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char why[JMSG_LENGTH_MAX];
} reader;

static reader *reader_of(j_common_ptr jpeg) { return jpeg->client_data; }

static void on_error(j_common_ptr jpeg)
{
    reader *r = reader_of(jpeg);
    jpeg->err->format_message(jpeg, r->why);
    longjmp(r->back, 1);
}

/* libjpeg goes on with grey where data are missing. That is no image; other oddities are none of our business. */
static void on_message(j_common_ptr jpeg, int level)
{
    static const int lost[] = {JWRN_JPEG_EOF,    JWRN_HIT_MARKER,     JWRN_HUFF_BAD_CODE,
                               JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE, JWRN_NOT_SEQUENTIAL};
    for (size_t i = 0; level < 0 && i < sizeof lost / sizeof *lost; i++)
        if (jpeg->err->msg_code == lost[i]) on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg)
{
    reader *r = reader_of(jpeg);
    if (r->jpeg.input_scan_number <= MOST_SCANS) return;
    fli_snprintf(r->why, sizeof r->why, "it has more than %d scans", (int)MOST_SCANS);
    longjmp(r->back, 1);
}

/* 0: libjpeg has complained. */
static int read_head(reader *r, const void *bytes, size_t n, fli_picture *out)
{
    if (setjmp(r->back)) return 0;
    jpeg_create_decompress(&r->jpeg); /* keeps err and client_data */
    r->jpeg.progress = &r->progress;
    r->progress.progress_monitor = on_progress;
    jpeg_mem_src(&r->jpeg, bytes, n);
    jpeg_read_header(&r->jpeg, TRUE);
    out->height = r->jpeg.image_height;
    out->width = r->jpeg.image_width;
    out->channels = r->jpeg.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
    return 1;
}

static int read_rows(reader *r, const fli_picture *out)
{
    size_t row = out->width * out->channels;
    if (setjmp(r->back)) return 0;
    r->jpeg.out_color_space = out->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    r->jpeg.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&r->jpeg);
    while (r->jpeg.output_scanline < r->jpeg.output_height) {
        JSAMPROW to = out->pixel + r->jpeg.output_scanline * row;
        jpeg_read_scanlines(&r->jpeg, &to, 1);
    }
    jpeg_finish_decompress(&r->jpeg);
    return 1;
}

static fl_status check_colours(fl_ctx *ctx, const char *path, J_COLOR_SPACE space)
{
    if (space == JCS_GRAYSCALE || space == JCS_RGB || space == JCS_YCbCr) return FL_OK;
    return fli_fail(ctx, FL_EFORMAT, "%s: is a JPEG image in %s, which is not read; convert it to RGB", path,
                    space == JCS_CMYK || space == JCS_YCCK ? "CMYK" : "an unknown colour space");
}

static fl_status damaged(fl_ctx *ctx, const char *path, const reader *r)
{
    return fli_fail(ctx, FL_EFORMAT, "%s: the JPEG image cannot be read: %s", path, fli_show(r->why).s);
}

fl_status fli_picture_jpeg(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    reader r = {0};
    fl_status s = FL_OK;
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r;
    r.errors.error_exit = on_error;
    r.errors.emit_message = on_message;
    if (!read_head(&r, bytes, n, out)) s = damaged(ctx, path, &r);
    if (!s) s = check_colours(ctx, path, r.jpeg.jpeg_color_space);
    if (!s) s = fli_picture_make(ctx, path, most, out);
    if (!s && !read_rows(&r, out)) s = damaged(ctx, path, &r);
    jpeg_destroy_decompress(&r.jpeg);
    return s;
}
