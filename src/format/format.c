#include "format/format.h"

#include <string.h>

#define FROM_PANDAS "; convert it, for instance with pandas: " /* + reader + TO_CSV */
#define TO_CSV      ".to_csv(\"data.csv\", index=False)"

#define IN_FOLDERS " here; put images into a folder per class, for `kind: image_folder`"

typedef struct {
    const char *name;
    const char *magic; /* the first bytes */
    size_t length;
    const char *member; /* of zip archives: how the name of a file in it ends; NULL: no archive */
    const char *way_out;
} format;

#define BYTES(literal) literal, sizeof literal - 1, NULL
#define MEMBER(name)   NULL, 0, name
#define PICKLE(protocol)                                                                                               \
    {                                                                                                                  \
        "a Python pickle", BYTES(protocol),                                                                            \
            "; open it in Python and write numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"                   \
    }

static const format known[] = {
    {"a Parquet file", BYTES("PAR1\x15"), FROM_PANDAS "pandas.read_parquet(...)" TO_CSV},
    {"an Arrow (Feather) file", BYTES("ARROW1\0\0"), FROM_PANDAS "pandas.read_feather(...)" TO_CSV},
    {"a Feather file", BYTES("FEA1\0\0\0\0"), FROM_PANDAS "pandas.read_feather(...)" TO_CSV},
    {"an HDF5 file", BYTES("\x89HDF\r\n\x1a\n"),
     "; convert it, for instance with h5py: numpy.savez(\"data.npz\", x=f[\"x\"], y=f[\"y\"]), for `kind: npz`"},
    {"a MATLAB 7.3 file", BYTES("MATLAB 7.3 MAT-file"),
     "; it is HDF5 inside: convert it with h5py and numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"},
    {"a MATLAB file", BYTES("MATLAB 5.0 MAT-file"),
     "; convert it with scipy.io.loadmat and numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"},
    PICKLE("\x80\2"),
    PICKLE("\x80\3"),
    PICKLE("\x80\4"),
    PICKLE("\x80\5"),
    {"a PyTorch file", MEMBER("/data.pkl"),
     "; open it with torch.load and write numpy.savez(\"data.npz\", x=..., y=...), for `kind: npz`"},
    {"an Excel workbook", MEMBER("[Content_Types].xml"),
     "; save it as CSV, or convert it with pandas: pandas.read_excel(...)" TO_CSV},
    {"an Excel workbook (or another old Office file)", BYTES("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
     "; save it as CSV, or convert it with pandas: pandas.read_excel(...)" TO_CSV},
    {"an SQLite database", BYTES("SQLite format 3\0"), FROM_PANDAS "pandas.read_sql(...)" TO_CSV},
    {"a PNG image", BYTES("\x89PNG\r\n\x1a\n"), IN_FOLDERS},
    {"a JPEG image", BYTES("\xff\xd8\xff"), IN_FOLDERS},
    {"text in UTF-16", BYTES("\xff\xfe"), "; convert it: iconv -f UTF-16 -t UTF-8"},
    {"text in UTF-16", BYTES("\xfe\xff"), "; convert it: iconv -f UTF-16 -t UTF-8"},
    {"compressed by bzip2", BYTES("BZh"), "; unpack it, or pack it with gzip or xz"},
    {"compressed by zstd", BYTES("\x28\xb5\x2f\xfd"), "; unpack it, or pack it with gzip or xz"},
};
enum { KNOWN = sizeof known / sizeof *known };

static fl_status refuse(fl_ctx *ctx, const char *path, const format *f)
{
    return fli_fail(ctx, FL_EFORMAT, "%s: is %s, which is not read%s", path, f->name, f->way_out);
}

fl_status fli_format_check(fl_ctx *ctx, const char *path, const uint8_t *first, size_t n, int numpy)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (known[i].magic && n >= known[i].length && !memcmp(first, known[i].magic, known[i].length))
            return refuse(ctx, path, &known[i]);
    if (!numpy && n >= 6 && !memcmp(first, "\x93NUMPY", 6))
        return fli_fail(ctx, FL_EFORMAT, "%s: is a NumPy array, which `kind: npy` reads", path);
    return FL_OK;
}

static int ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && !strcmp(name + n - m, ending);
}

fl_status fli_format_refuse_zip(fl_ctx *ctx, const char *path, const fli_zip *zip)
{
    size_t arrays = 0, n = fli_zip_count(zip);
    fli_text names;
    for (size_t i = 0; i < n; i++) {
        arrays += (size_t)ends_with(fli_zip_name(zip, i), ".npy");
        for (size_t k = 0; k < KNOWN; k++)
            if (known[k].member && ends_with(fli_zip_name(zip, i), known[k].member))
                return refuse(ctx, path, &known[k]);
    }
    if (!n) return fli_fail(ctx, FL_EFORMAT, "%s: the zip archive holds no file", path);
    fli_text_init(&names, ctx);
    fli_zip_print_names(zip, arrays == n ? ".npy" : "", &names);
    fl_status s = fli_text_ok(&names);
    if (!s && arrays == n)
        s = fli_fail(ctx, FL_EFORMAT, "%s: is a NumPy archive with the arrays %s; `kind: npz` reads it", path,
                     fli_text_get(&names));
    if (!s)
        s = fli_fail(ctx, FL_EFORMAT, "%s: the zip archive holds %zu files: %s; unpack it and name the file to read",
                     path, n, fli_text_get(&names));
    fli_text_fini(&names);
    return s;
}
