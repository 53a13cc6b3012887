/* Pictures: decodes PNG and JPEG, converts colours and sizes.
 *
 * libpng and libjpeg decode, if the build has them (FEDLOOM_IMAGES). Both report errors by longjmp, so all that must
 * survive an error is in a struct of the caller's. */
#include "data/source/picture.h"

#include "base/number.h"
#include "base/text.h"
#include "data/load.h"

#include <math.h>
#include <string.h>

#ifdef FEDLOOM_IMAGES
#include <png.h>
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h> /* needs stdio.h */

#include <jerror.h>
#endif

/* ==== decoding ============================================================================================== */

fl_status fli_picture_make(fl_ctx *ctx, const char *path, size_t most, fli_picture *p)
{
    if (!p->height || !p->width || p->width > most / p->height)
        return fli_fail(ctx, FL_EFORMAT, "%s: is an image of %zu x %zu pixels, but 1 to %zu are read", path, p->height,
                        p->width, most);
    p->pixel = fli_alloc(ctx, p->height * p->width, p->channels);
    return p->pixel ? FL_OK : FL_ENOMEM;
}

#ifdef FEDLOOM_IMAGES

/* ---- PNG ----------------------------------------------------------------------------------------------------- */

typedef struct {
    png_structp png;
    png_infop info;
    const uint8_t *bytes; /* the unread rest of the file */
    size_t left;
    jmp_buf back;
    char why[120];
} png_reader;

static PNG_FUNCTION(void, on_error, (png_structp png, png_const_charp why), PNG_NORETURN)
{
    png_reader *r = png_get_error_ptr(png);
    fli_snprintf(r->why, sizeof r->why, "%s", why);
    longjmp(r->back, 1);
}

static void on_warning(png_structp png, png_const_charp why) { (void)png, (void)why; }

static void feed(png_structp png, png_bytep to, size_t n)
{
    png_reader *r = png_get_io_ptr(png);
    if (n > r->left) png_error(png, "it ends too early");
    memcpy(to, r->bytes, n);
    r->bytes += n;
    r->left -= n;
}

/* Returns 0 after an error of libpng. */
static int read_png_head(png_reader *r, fli_picture *out)
{
    if (setjmp(r->back)) return 0;
    png_set_read_fn(r->png, r, feed);
    png_read_info(r->png, r->info);
    out->height = png_get_image_height(r->png, r->info);
    out->width = png_get_image_width(r->png, r->info);
    out->channels = png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    return 1;
}

/* Asks libpng for 8-bit grey or RGB, whatever the file has. */
static void ask_for_bytes(const png_reader *r)
{
    int type = png_get_color_type(r->png, r->info);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r->png);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_scale_16(r->png);
    png_set_strip_alpha(r->png);
}

static int read_png_rows(png_reader *r, const fli_picture *out)
{
    size_t row = out->width * out->channels;
    if (setjmp(r->back)) return 0;
    ask_for_bytes(r);
    int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != row)
        png_error(r->png, "its rows have another length than its header says");
    for (int k = 0; k < passes; k++)
        for (size_t y = 0; y < out->height; y++) png_read_row(r->png, out->pixel + y * row, NULL);
    png_read_end(r->png, NULL);
    return 1;
}

static fl_status png_damaged(fl_ctx *ctx, const char *path, const png_reader *r)
{
    return fli_fail(ctx, FL_EFORMAT, "%s: the PNG image cannot be read: %s", path, fli_quote(r->why).s);
}

static fl_status decode_png(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    png_reader r = {.bytes = bytes, .left = n};
    fl_status s = FL_OK;
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (!r.info)
        s = fli_fail(ctx, FL_ENOMEM, "%s: out of memory: libpng cannot start", path);
    else if (!read_png_head(&r, out))
        s = png_damaged(ctx, path, &r);
    if (!s) s = fli_picture_make(ctx, path, most, out);
    if (!s && !read_png_rows(&r, out)) s = png_damaged(ctx, path, &r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return s;
}

/* ---- JPEG ---------------------------------------------------------------------------------------------------- */

enum { MOST_SCANS = 500 }; /* of a progressive image; each scan passes over all of it */

typedef struct {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char why[JMSG_LENGTH_MAX];
} jpeg_reader;

static jpeg_reader *reader_of(j_common_ptr jpeg) { return jpeg->client_data; }

static void on_jpeg_error(j_common_ptr jpeg)
{
    jpeg_reader *r = reader_of(jpeg);
    jpeg->err->format_message(jpeg, r->why);
    longjmp(r->back, 1);
}

/* Where data are missing, libjpeg only warns and fills with grey: an error here. Other warnings are ignored. */
static void on_message(j_common_ptr jpeg, int level)
{
    static const int lost[] = {JWRN_JPEG_EOF,    JWRN_HIT_MARKER,     JWRN_HUFF_BAD_CODE,
                               JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE, JWRN_NOT_SEQUENTIAL};
    for (size_t i = 0; level < 0 && i < sizeof lost / sizeof *lost; i++)
        if (jpeg->err->msg_code == lost[i]) on_jpeg_error(jpeg);
}

static void on_progress(j_common_ptr jpeg)
{
    jpeg_reader *r = reader_of(jpeg);
    if (r->jpeg.input_scan_number <= MOST_SCANS) return;
    fli_snprintf(r->why, sizeof r->why, "it has more than %d scans", (int)MOST_SCANS);
    longjmp(r->back, 1);
}

/* Returns 0 after an error of libjpeg. */
static int read_jpeg_head(jpeg_reader *r, const void *bytes, size_t n, fli_picture *out)
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

static int read_jpeg_rows(jpeg_reader *r, const fli_picture *out)
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

static fl_status jpeg_damaged(fl_ctx *ctx, const char *path, const jpeg_reader *r)
{
    return fli_fail(ctx, FL_EFORMAT, "%s: the JPEG image cannot be read: %s", path, fli_quote(r->why).s);
}

static fl_status decode_jpeg(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    jpeg_reader r = {0};
    fl_status s = FL_OK;
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r;
    r.errors.error_exit = on_jpeg_error;
    r.errors.emit_message = on_message;
    if (!read_jpeg_head(&r, bytes, n, out)) s = jpeg_damaged(ctx, path, &r);
    if (!s) s = check_colours(ctx, path, r.jpeg.jpeg_color_space);
    if (!s) s = fli_picture_make(ctx, path, most, out);
    if (!s && !read_jpeg_rows(&r, out)) s = jpeg_damaged(ctx, path, &r);
    jpeg_destroy_decompress(&r.jpeg);
    return s;
}

#else

/* ---- builds without the libraries ---------------------------------------------------------------------------- */

static fl_status refuse(fl_ctx *ctx, const char *path, const char *what, const char *library)
{
    return fli_fail(ctx, FL_ESYSTEM, "%s: is a %s image, but this fedloom was built without %s (FEDLOOM_IMAGES)", path,
                    what, library);
}

static fl_status decode_png(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    (void)bytes, (void)n, (void)most, (void)out;
    return refuse(ctx, path, "PNG", "libpng");
}

static fl_status decode_jpeg(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    (void)bytes, (void)n, (void)most, (void)out;
    return refuse(ctx, path, "JPEG", "libjpeg");
}

#endif

/* ==== pictures of any format and colour ===================================================================== */

void fli_picture_fini(fli_picture *p)
{
    fli_free(p->pixel);
    *p = (fli_picture){0};
}

/* The first bytes decide the format, not the file's name. */
fl_status fli_picture_read(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    fl_status s;
    *out = (fli_picture){0};
    if (n >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8))
        s = decode_png(ctx, path, bytes, n, most, out);
    else if (n >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3))
        s = decode_jpeg(ctx, path, bytes, n, most, out);
    else
        s = fli_fail(ctx, FL_EFORMAT, "%s: is neither a PNG nor a JPEG image, by its first bytes", path);
    if (s) fli_picture_fini(out);
    return s;
}

/* Weights 299/1000, 587/1000 and 114/1000 in units of 2^-16: exactly what Pillow computes. */
static uint8_t grey(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

fl_status fli_picture_recolour(fl_ctx *ctx, fli_picture *p, size_t channels)
{
    size_t n = p->height * p->width;
    if (channels == p->channels) return FL_OK;
    uint8_t *to = fli_alloc(ctx, n, channels);
    if (!to) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (channels == 1)
            to[i] = grey(p->pixel + 3 * i);
        else
            memset(to + 3 * i, p->pixel[i], 3);
    }
    fli_free(p->pixel);
    p->pixel = to;
    p->channels = channels;
    return FL_OK;
}

/* ==== other sizes =========================================================================================== */

/* Every new pixel is a mean of old ones around its position, with triangular weights: two pixels wide to enlarge
 * (bilinear), wider in proportion to shrink, so that no pixel is left out. Rows are resized first, then columns, each
 * rounded to bytes. Weights are integers in units of 2^-22. Pillow's resize(..., BILINEAR), and so torchvision's
 * Resize, gives the same bits up to Pillow 12. Later versions take the columns of tall pictures first, so that some
 * bytes differ by one. */

enum { BITS = 22 };

/* The filter of one axis: new pixel o uses count[o] old ones from first[o], with weights from weight[o * most]. */
typedef struct {
    size_t in, out, most;
    size_t *first, *count;
    int32_t *weight;
} filter;

static void filter_fini(filter *f)
{
    fli_free(f->first);
    fli_free(f->count);
    fli_free(f->weight);
}

/* Sets the weights of new pixel o; w has room for `most` doubles. */
static void set_weights(filter *f, size_t o, double *w)
{
    double scale = (double)f->in / (double)f->out, reach = scale < 1 ? 1 : scale, sum = 0;
    double centre = ((double)o + 0.5) * scale, from = centre - reach + 0.5, to = centre + reach + 0.5;
    size_t first = from > 0 ? (size_t)from : 0, end = to < (double)f->in ? (size_t)to : f->in;
    f->first[o] = first;
    f->count[o] = end - first;
    for (size_t k = 0; k < end - first; k++) {
        double away = fabs(((double)(first + k) - centre + 0.5) * (1 / reach));
        sum += w[k] = away < 1 ? 1 - away : 0;
    }
    for (size_t k = 0; k < end - first; k++) f->weight[o * f->most + k] = (int32_t)(0.5 + w[k] / sum * (1 << BITS));
}

static fl_status filter_init(fl_ctx *ctx, size_t in, size_t out, filter *f)
{
    double reach = in > out ? (double)in / (double)out : 1;
    *f = (filter){.in = in, .out = out, .most = 2 * (size_t)ceil(reach) + 1};
    f->first = fli_alloc(ctx, out, sizeof *f->first);
    f->count = fli_alloc(ctx, out, sizeof *f->count);
    f->weight = fli_alloc(ctx, out * f->most, sizeof *f->weight);
    double *w = fli_alloc(ctx, f->most, sizeof *w);
    fl_status s = f->first && f->count && f->weight && w ? FL_OK : FL_ENOMEM;
    for (size_t o = 0; !s && o < out; o++) set_weights(f, o, w);
    fli_free(w);
    return s;
}

/* from: lines x f->in x inner; to: lines x f->out x inner */
static void apply_filter(const filter *f, size_t lines, size_t inner, const uint8_t *from, uint8_t *to)
{
    for (size_t l = 0; l < lines; l++, from += f->in * inner)
        for (size_t o = 0; o < f->out; o++) {
            const int32_t *w = f->weight + o * f->most;
            const uint8_t *p = from + f->first[o] * inner;
            for (size_t i = 0; i < inner; i++) {
                int32_t sum = 1 << (BITS - 1);
                for (size_t k = 0; k < f->count[o]; k++) sum += w[k] * p[k * inner + i];
                *to++ = sum >> BITS > 255 ? 255 : (uint8_t)(sum >> BITS);
            }
        }
}

/* Resizes one axis: lines x in x inner bytes become lines x out x inner. */
static fl_status resample_axis(fl_ctx *ctx, fli_picture *p, size_t lines, size_t in, size_t inner, size_t out)
{
    filter f;
    if (in == out) return FL_OK;
    fl_status s = filter_init(ctx, in, out, &f);
    uint8_t *to = s ? NULL : fli_alloc(ctx, lines * out, inner);
    if (to) {
        apply_filter(&f, lines, inner, p->pixel, to);
        fli_free(p->pixel);
        p->pixel = to;
    }
    filter_fini(&f);
    return to ? FL_OK : FL_ENOMEM;
}

fl_status fli_picture_resize(fl_ctx *ctx, fli_picture *p, size_t height, size_t width)
{
    fl_status s = resample_axis(ctx, p, p->height, p->width, p->channels, width);
    if (!s) p->width = width;
    if (!s) s = resample_axis(ctx, p, 1, p->height, p->width * p->channels, height);
    if (!s) p->height = height;
    return s;
}
