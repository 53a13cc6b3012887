/* PNG by libpng. It reports errors by a jump, so that all which must survive one is in a struct of the caller's. */
#include "base/number.h"
#include "base/text.h"
#include "data/load.h"
#include "data/source/picture.h"

#include <png.h>
#include <string.h>

typedef struct {
    png_structp png;
    png_infop info;
    const uint8_t *bytes; /* what is left of the file */
    size_t left;
    jmp_buf back;
    char why[120];
} reader;

static PNG_FUNCTION(void, on_error, (png_structp png, png_const_charp why), PNG_NORETURN)
{
    reader *r = png_get_error_ptr(png);
    fli_snprintf(r->why, sizeof r->why, "%s", why);
    longjmp(r->back, 1);
}

static void on_warning(png_structp png, png_const_charp why) { (void)png, (void)why; }

static void feed(png_structp png, png_bytep to, size_t n)
{
    reader *r = png_get_io_ptr(png);
    if (n > r->left) png_error(png, "it ends too early");
    memcpy(to, r->bytes, n);
    r->bytes += n;
    r->left -= n;
}

/* 0: libpng has complained. */
static int read_head(reader *r, fli_picture *out)
{
    if (setjmp(r->back)) return 0;
    png_set_read_fn(r->png, r, feed);
    png_read_info(r->png, r->info);
    out->height = png_get_image_height(r->png, r->info);
    out->width = png_get_image_width(r->png, r->info);
    out->channels = png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    return 1;
}

/* Bytes of grey, or of red, green and blue, whatever there is. */
static void ask_for_bytes(const reader *r)
{
    int type = png_get_color_type(r->png, r->info);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r->png);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_scale_16(r->png);
    png_set_strip_alpha(r->png);
}

static int read_rows(reader *r, const fli_picture *out)
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

static fl_status damaged(fl_ctx *ctx, const char *path, const reader *r)
{
    return fli_fail(ctx, FL_EFORMAT, "%s: the PNG image cannot be read: %s", path, fli_show(r->why).s);
}

fl_status fli_picture_png(fl_ctx *ctx, const char *path, const void *bytes, size_t n, size_t most, fli_picture *out)
{
    reader r = {.bytes = bytes, .left = n};
    fl_status s = FL_OK;
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (!r.info)
        s = fli_fail(ctx, FL_ENOMEM, "%s: out of memory: libpng cannot begin", path);
    else if (!read_head(&r, out))
        s = damaged(ctx, path, &r);
    if (!s) s = fli_picture_make(ctx, path, most, out);
    if (!s && !read_rows(&r, out)) s = damaged(ctx, path, &r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return s;
}
