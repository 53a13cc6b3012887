/* IDX, the format of MNIST and its relatives: two zero bytes, a type byte, the number of dimensions, one big-endian
 * 32-bit size per dimension, then the values, the last dimension running fastest. Images keep their type: bytes, floats
 * or doubles. */
#include "base/number.h"
#include "data/label_names.h"
#include "data/load.h"
#include "data/source.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
    char *dir, *train_images, *train_labels, *test_images, *test_labels, *groups;
    int64_t groups_column, limit, test_limit, classes;
} params;

enum { TYPE_U8 = 0x08, TYPE_I32 = 0x0C, TYPE_F32 = 0x0D, TYPE_F64 = 0x0E, MOST_DIMS = 3 };

/* The types that a file may have, and the words for them in an error. */
typedef struct {
    const char *types, *words;
} kinds;

static const kinds of_labels = {"\x08", "0x08 (bytes) is"};
static const kinds of_groups = {"\x0c", "0x0c (32-bit integers) is"};
static const kinds of_images = {"\x08\x0d\x0e", "0x08 (bytes), 0x0d (floats) or 0x0e (doubles) is"};

typedef struct {
    int type;
    size_t element; /* bytes of a value */
    size_t dims;
    uint64_t size[MOST_DIMS];
    size_t values; /* product of the sizes */
} header;

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static fl_status read_header(fl_ctx *ctx, fli_stream *s, const kinds *of, size_t least_dims, size_t most_dims,
                             header *h)
{
    const char *path = fli_stream_path(s);
    uint8_t b[4];
    fl_status status = fli_stream_need(s, b, 4, "an IDX header");
    if (status) return status;
    if (b[0] || b[1])
        return fli_fail(ctx, FL_EFORMAT, "%s: starts with 0x%02x%02x at offset 0, but an IDX file starts with 0x0000",
                        path, b[0], b[1]);
    if (!b[2] || !strchr(of->types, b[2]))
        return fli_fail(ctx, FL_EFORMAT, "%s: has values of IDX type 0x%02x at offset 2 where %s expected", path, b[2],
                        of->words);
    if (b[3] < least_dims || b[3] > most_dims)
        return fli_fail(ctx, FL_EFORMAT, "%s: has %u dimensions at offset 3 where %zu to %zu are expected", path, b[3],
                        least_dims, most_dims);
    h->type = b[2];
    h->element = h->type == TYPE_U8 ? 1 : h->type == TYPE_F64 ? 8 : 4;
    h->dims = b[3];
    for (size_t i = 0; i < h->dims; i++) {
        if ((status = fli_stream_need(s, b, 4, "the sizes in the IDX header"))) return status;
        h->size[i] = big_endian(b);
    }
    return fli_load_volume(ctx, path, h->size, h->dims, h->element, &h->values);
}

/* out[i] = the class of byte i. */
static fl_status number_labels(const char *path, const uint8_t *bytes, size_t n, fli_label_names *labels, int32_t *out)
{
    fl_status status = FL_OK;
    for (size_t i = 0; status == FL_OK && i < n; i++)
        status = fli_label_names_read_number(labels, bytes[i], (fli_origin){path, FLI_SAMPLE, i}, &out[i]);
    return status ? status : fli_label_names_order(labels, out, n);
}

/* Reads all labels of a file; *count = how many. */
static fl_status load_labels(fl_ctx *ctx, const char *dir, const char *name, fli_label_names *labels, size_t *count,
                             int32_t **out)
{
    fli_stream *s = NULL;
    header h;
    void *bytes = NULL;
    *out = NULL;
    fl_status status = fli_load_open(ctx, dir, name, &s);
    if (status == FL_OK) status = read_header(ctx, s, &of_labels, 1, 1, &h);
    if (status == FL_OK) status = fli_load_body(ctx, s, h.values, "the labels its header promises", &bytes);
    if (status == FL_OK) status = fli_stream_end(s);
    if (status == FL_OK && !(*out = fli_alloc(ctx, h.values, sizeof **out))) status = FL_ENOMEM;
    if (status == FL_OK) status = number_labels(fli_stream_path(s), bytes, h.values, labels, *out);
    if (status == FL_OK) *count = h.values;
    fli_free(bytes);
    fli_stream_close(s);
    return status;
}

/* Converts big-endian reals to the host's byte order, in place. */
static fl_status turn_reals(fl_ctx *ctx, const char *path, const header *h, fli_dataset *ds)
{
    uint8_t *p = ds->x;
    for (size_t i = 0; i < ds->n * ds->dim; i++, p += h->element) {
        uint32_t high = big_endian(p);
        uint64_t bits = h->element == 4 ? high : (uint64_t)high << 32 | big_endian(p + 4);
        float f;
        double d;
        if (h->element == 4) {
            memcpy(&f, &high, sizeof f);
            memcpy(p, &high, sizeof high);
            d = (double)f;
        } else {
            memcpy(&d, &bits, sizeof d);
            memcpy(p, &bits, sizeof bits);
        }
        if (!isfinite(d))
            return fli_fail(ctx, FL_EFORMAT, "%s: value %zu of image %zu is not finite", path, i % ds->dim,
                            i / ds->dim);
    }
    return FL_OK;
}

/* Reads the first `limit` images (0: all); *count = how many the file has. */
static fl_status load_images(fl_ctx *ctx, const char *dir, const char *name, size_t limit, int map, fli_dataset *ds,
                             size_t *count)
{
    fli_stream *s = NULL;
    header h;
    fl_status status = fli_load_open(ctx, dir, name, &s);
    if (status == FL_OK) status = read_header(ctx, s, &of_images, 2, 3, &h);
    if (status == FL_OK) {
        *count = (size_t)h.size[0];
        ds->kind = h.type == TYPE_U8 ? FLI_X_U8 : h.type == TYPE_F32 ? FLI_X_F32 : FLI_X_F64;
        ds->n = limit && limit < *count ? limit : *count;
        ds->dim = h.values / *count;
        ds->shape[0] = 1;
        ds->shape[1] = h.dims == 3 ? (size_t)h.size[1] : 1;
        ds->shape[2] = h.dims == 3 ? (size_t)h.size[2] : ds->dim;
        status = fli_load_values(ctx, s, ds->n * ds->dim * h.element, h.element, "the images its header promises",
                                 map && h.type == TYPE_U8, ds);
    }
    if (status == FL_OK) status = fli_load_origin(ctx, fli_stream_path(s), ds);
    if (status == FL_OK && h.type != TYPE_U8) status = turn_reals(ctx, fli_stream_path(s), &h, ds);
    if (status == FL_OK && ds->n == *count) status = fli_stream_end(s);
    fli_stream_close(s);
    return status;
}

/* Classes come from all labels of the training file, so that a limit does not change the task. */
static fl_status load_part(fl_ctx *ctx, const params *p, const char *images, const char *names, int64_t limit, int map,
                           fli_label_names *labels, size_t *images_in_file, fli_dataset **out)
{
    size_t count = 0;
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status status = load_images(ctx, p->dir, images, (size_t)limit, map, *out, images_in_file);
    if (status == FL_OK) status = load_labels(ctx, p->dir, names, labels, &count, &(*out)->label);
    if (status) return status;
    if (count != *images_in_file)
        return fli_fail(ctx, FL_EFORMAT, "%s: has %zu labels, but %s has %zu images", names, count, images,
                        *images_in_file);
    (*out)->classes = labels->classes;
    return FL_OK;
}

/* The ids of one column, in sample order, become 0 .. groups-1 in ascending order of the ids. */
static fl_status number_groups(fl_ctx *ctx, const char *path, const uint8_t *matrix, size_t columns, size_t column,
                               fli_dataset *ds)
{
    fli_label_names ids;
    char text[16];
    fl_status status = FL_OK;
    fli_groups_init(&ids, ctx);
    for (size_t i = 0; status == FL_OK && i < ds->n; i++) {
        fli_snprintf(text, sizeof text, "%" PRId32, (int32_t)big_endian(matrix + 4 * (i * columns + column)));
        status = fli_label_names_read(&ids, text, (fli_origin){path, FLI_SAMPLE, i}, &ds->group[i]);
    }
    if (status == FL_OK) status = fli_label_names_order(&ids, ds->group, ds->n);
    ds->groups = ids.classes;
    fli_label_names_fini(&ids);
    return status;
}

static fl_status load_groups(fl_ctx *ctx, const params *p, size_t images, fli_dataset *ds)
{
    fli_stream *s = NULL;
    header h;
    void *matrix = NULL;
    fl_status status = fli_load_open(ctx, p->dir, p->groups, &s);
    if (status == FL_OK) status = read_header(ctx, s, &of_groups, 2, 2, &h);
    if (status == FL_OK && h.size[0] != images)
        status = fli_fail(ctx, FL_EFORMAT, "%s: has %" PRIu64 " rows, but there are %zu training images",
                          fli_stream_path(s), h.size[0], images);
    if (status == FL_OK && (uint64_t)p->groups_column >= h.size[1])
        status = fli_fail(ctx, FL_EFORMAT, "%s: has columns 0 .. %" PRIu64 ", but groups_column is %" PRId64,
                          fli_stream_path(s), h.size[1] - 1, p->groups_column);
    if (status == FL_OK) status = fli_load_body(ctx, s, 4 * h.values, "the rows its header promises", &matrix);
    if (status == FL_OK) status = fli_stream_end(s);
    if (status == FL_OK && !(ds->group = fli_alloc(ctx, ds->n, sizeof *ds->group))) status = FL_ENOMEM;
    if (status == FL_OK)
        status = number_groups(ctx, fli_stream_path(s), matrix, (size_t)h.size[1], (size_t)p->groups_column, ds);
    fli_free(matrix);
    fli_stream_close(s);
    return status;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const params *p = request->params;
    fli_dataset *a = NULL, *b = NULL;
    fli_label_names labels;
    size_t images = 0;
    *train = *test = NULL;
    if (!*p->test_images != !*p->test_labels)
        return fli_fail(ctx, FL_ECONFIG, "test_images is '%s' and test_labels is '%s': give both or neither",
                        p->test_images, p->test_labels);
    fli_label_names_init(&labels, ctx, (size_t)p->classes);
    fl_status status =
        load_part(ctx, p, p->train_images, p->train_labels, p->limit, request->map, &labels, &images, &a);
    if (status == FL_OK && *p->groups) status = load_groups(ctx, p, images, a);
    if (status == FL_OK && *p->test_images) {
        status = load_part(ctx, p, p->test_images, p->test_labels, p->test_limit, 0, &labels, &images, &b);
        if (status == FL_OK) status = fli_load_check_test(ctx, p->test_images, a, b);
    }
    if (status == FL_OK) status = fli_label_names_name(&labels, p->train_labels, a);
    fli_label_names_fini(&labels);
    return fli_load_hand_out(status, a, b, train, test);
}

static const fl_key keys[] = {
    FLI_KEY_STRING(params, dir, "/usr/share/datasets/fashion-mnist", "folder with the files"),
    FLI_KEY_STRING(params, train_images, "train-images-idx3-ubyte",
                   "training images of 2 or 3 dimensions; bytes, floats or doubles"),
    FLI_KEY_STRING(params, train_labels, "train-labels-idx1-ubyte", "training labels, one byte per image"),
    FLI_KEY_STRING(params, test_images, "t10k-images-idx3-ubyte", "test images; '' for no test set"),
    FLI_KEY_STRING(params, test_labels, "t10k-labels-idx1-ubyte", "test labels; '' for no test set"),
    FLI_KEY_INT(params, classes, "0", 0, 256, FLI_CLASSES_HELP),
    FLI_KEY_STRING(params, groups, "", "matrix of 32-bit integers, one row per training image, with its owner"),
    FLI_KEY_INT(params, groups_column, "2", 0, 1e6, "column of that matrix, from 0, with the owner's id (QMNIST: 2)"),
    FLI_KEY_INT(params, limit, "0", 0, FLI_NO_MAX, "use only the first N training images; 0 for all"),
    FLI_KEY_INT(params, test_limit, "0", 0, FLI_NO_MAX, "use only the first N test images; 0 for all"),
    FLI_KEY_END,
};

const fli_source fli_source_idx = {
    .name = "idx",
    .title = "MNIST, Fashion-MNIST, EMNIST, QMNIST: images and labels in IDX files",
    .citation = "Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten digits; "
                "H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, 2017",
    .needs =
        "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte in dir, "
        "plain or as .gz, .xz or .zip (Debian: package dataset-fashion-mnist)",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
