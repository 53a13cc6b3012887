/* Images in a folder per class: train/CLASS/NAME.png, or train/CLIENT/CLASS/NAME.png with a folder per client. All
 * names are listed first. Then the first image determines what the others must be like, and the memory for all of
 * them. */
#include "base/file.h"
#include "data/label_names.h"
#include "data/load.h"
#include "data/source.h"
#include "data/source/picture.h"

#include <string.h>
#include <strings.h>

enum { MOST_BYTES = 1 << 28, MOST_SIDE = 16384 }; /* of a file; of height and width in `resize` */
enum { BY_CLASS, BY_CLIENT };
static const size_t channels_of[] = {0, 1, 3}; /* indexed by the choices of `channels`; 0: as the first image */

typedef struct {
    char *train, *test;
    int layout, channels;
    fl_ints resize;
    int64_t classes;
} params;

typedef struct {
    char *path;
    int32_t label, group;
} image;

/* A train or test part being read. */
typedef struct {
    fl_ctx *ctx;
    const params *p;
    fli_label_names *labels;
    fli_label_names *clients; /* NULL: clients are not needed */
    fli_array images;         /* image */
    char *odd;                /* the first entry that was left out, and */
    size_t odds;              /* how many were */
} reader;

/* ---- names ---------------------------------------------------------------------------------------------- */

static int is_image_name(const char *name)
{
    static const char *const ending[] = {".png", ".jpg", ".jpeg"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        size_t m = strlen(ending[i]);
        if (n > m && !strcasecmp(name + n - m, ending[i])) return 1;
    }
    return 0;
}

static fl_status walk(reader *r, const char *path, int depth, image like);

/* Handles one entry: like.path is an image if depth is 0, else a folder. The reader keeps a copy of the path. */
static fl_status enter(reader *r, const char *name, fli_origin at, int depth, image like)
{
    fl_status s = FL_OK;
    void *room;
    if (depth ? fli_path_kind(like.path) != 1 : !is_image_name(name))
        return r->odds++ || (r->odd = fli_strdup(r->ctx, like.path)) ? FL_OK : FL_ENOMEM;
    if (!depth) {
        if ((s = fli_array_add(r->ctx, &r->images, 1, &room))) return s;
        *(image *)room = (image){fli_strdup(r->ctx, like.path), like.label, like.group};
        return ((image *)room)->path ? FL_OK : FL_ENOMEM;
    }
    if (depth == 1)
        s = fli_label_names_read(r->labels, name, at, &like.label);
    else if (r->clients)
        s = fli_label_names_read(r->clients, name, at, &like.group);
    return s ? s : walk(r, like.path, depth - 1, like);
}

/* A folder without images is usually a mistake: an interrupted copy or another layout. */
static fl_status refuse_empty(const reader *r, const char *path, int depth)
{
    const char *layout = r->p->layout == BY_CLASS ? "class" : "client/class";
    if (depth)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: has no folder in it, where layout: %s expects some", path, layout);
    return fli_fail(r->ctx, FL_EFORMAT, "%s: has no image in it (*.png, *.jpg, *.jpeg), where layout: %s expects some",
                    path, layout);
}

static fl_status walk(reader *r, const char *path, int depth, image like)
{
    fli_listing list;
    size_t before = r->images.n;
    fl_status s = fli_listing_read(r->ctx, path, &list);
    for (size_t i = 0; !s && i < list.n; i++) {
        like.path = fli_strf(r->ctx, "%s/%s", path, list.name[i]);
        s = like.path ? enter(r, list.name[i], (fli_origin){path, ": entry ", i}, depth, like) : FL_ENOMEM;
        fli_free(like.path);
    }
    if (!s && r->images.n == before) s = refuse_empty(r, path, depth);
    fli_listing_fini(&list);
    return s;
}

/* ---- images --------------------------------------------------------------------------------------------- */

static fl_status read_image(const reader *r, const char *path, fli_picture *out)
{
    char *bytes = NULL;
    size_t n, channels = channels_of[r->p->channels];
    const fl_ints *size = &r->p->resize;
    *out = (fli_picture){0};
    fl_status s = fli_file_read(r->ctx, path, MOST_BYTES, &bytes, &n);
    if (!s) s = fli_picture_read(r->ctx, path, bytes, n, FLI_PICTURE_PIXELS, out);
    if (!s && channels) s = fli_picture_recolour(r->ctx, out, channels);
    if (!s && size->n) s = fli_picture_resize(r->ctx, out, (size_t)size->v[0], (size_t)size->v[size->n - 1]);
    fli_free(bytes);
    return s;
}

static fl_status check_alike(const reader *r, const char *path, const char *first, const fli_picture *is,
                             const fli_dataset *ds)
{
    const size_t *was = ds->shape;
    if (is->height != was[1] || is->width != was[2])
        return fli_fail(r->ctx, FL_EFORMAT,
                        "%s: is %zu x %zu pixels, but %s is %zu x %zu; `resize` makes all of them one size", path,
                        is->height, is->width, first, was[1], was[2]);
    if (is->channels == was[0]) return FL_OK;
    return fli_fail(r->ctx, FL_EFORMAT, "%s: is %s, but %s is not; `channels: 1` and `channels: 3` make all alike",
                    path, is->channels == 1 ? "grey" : "in colour", first);
}

/* Allocates all images, as large as the first. */
static fl_status make_room(const reader *r, const char *path, const fli_picture *first, fli_dataset *ds)
{
    uint64_t size[] = {r->images.n, first->channels, first->height, first->width};
    size_t values;
    fl_status s = fli_load_volume(r->ctx, path, size, 4, 1, &values);
    if (s) return s;
    for (size_t k = 0; k < 3; k++) ds->shape[k] = (size_t)size[k + 1];
    ds->dim = ds->shape[0] * ds->shape[1] * ds->shape[2];
    ds->x = fli_alloc(r->ctx, values, 1);
    return ds->x ? FL_OK : FL_ENOMEM;
}

/* Copies interleaved channels to one plane each. */
static void put_planes(const fli_picture *p, uint8_t *to)
{
    size_t pixels = p->height * p->width;
    for (size_t c = 0; c < p->channels; c++)
        for (size_t i = 0; i < pixels; i++) *to++ = p->pixel[i * p->channels + c];
}

static fl_status read_images(const reader *r, fli_dataset *ds)
{
    const image *all = r->images.p;
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < r->images.n; i++) {
        fli_picture p;
        s = read_image(r, all[i].path, &p);
        if (!s) s = i ? check_alike(r, all[i].path, all[0].path, &p, ds) : make_room(r, all[i].path, &p, ds);
        if (!s) put_planes(&p, (uint8_t *)ds->x + i * ds->dim);
        fli_picture_fini(&p);
    }
    return s;
}

/* ---- the source ----------------------------------------------------------------------------------------- */

static fl_status number_images(const reader *r, fli_dataset *ds)
{
    const image *all = r->images.p;
    ds->n = r->images.n;
    ds->label = fli_alloc(r->ctx, ds->n, sizeof *ds->label);
    ds->group = r->clients ? fli_alloc(r->ctx, ds->n, sizeof *ds->group) : NULL;
    if (!ds->label || (r->clients && !ds->group)) return FL_ENOMEM;
    for (size_t i = 0; i < ds->n; i++) {
        ds->label[i] = all[i].label;
        if (ds->group) ds->group[i] = all[i].group;
    }
    fl_status s = fli_label_names_order(r->labels, ds->label, ds->n);
    if (!s && r->clients) s = fli_label_names_order(r->clients, ds->group, ds->n);
    ds->classes = r->labels->classes;
    ds->groups = r->clients ? r->clients->classes : 0;
    return s;
}

static fl_status load_part(reader *r, const char *path, fli_dataset **out)
{
    fl_status s;
    *out = fli_alloc(r->ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    (*out)->kind = FLI_X_U8;
    s = walk(r, path, r->p->layout == BY_CLASS ? 1 : 2, (image){0});
    if (!s && r->odds)
        fli_log(r->ctx, FL_LOG_INFO, "%s: skipped what is no image by place and name: %s%s", path, r->odd,
                r->odds > 1 ? " and others" : "");
    if (!s) s = fli_load_origin(r->ctx, path, *out);
    if (!s) s = number_images(r, *out);
    if (!s) s = read_images(r, *out);
    for (size_t i = 0; i < r->images.n; i++) fli_free(((image *)r->images.p)[i].path);
    fli_array_fini(&r->images);
    fli_free(r->odd);
    return s;
}

static fl_status load_both(fl_ctx *ctx, const params *p, fli_label_names *labels, fli_label_names *clients,
                           fli_dataset **a, fli_dataset **b)
{
    reader train = {ctx, p, labels, p->layout == BY_CLIENT ? clients : NULL, {.size = sizeof(image)}};
    reader test = {ctx, p, labels, NULL, {.size = sizeof(image)}};
    fl_status s = load_part(&train, p->train, a);
    if (!s && *p->test) s = load_part(&test, p->test, b);
    if (!s && *p->test) s = fli_load_check_test(ctx, p->test, *a, *b);
    return s ? s : fli_label_names_name(labels, p->train, *a);
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const params *p = request->params;
    fli_dataset *a = NULL, *b = NULL;
    fli_label_names labels, clients;
    *train = *test = NULL;
    if (p->resize.n > 2)
        return fli_fail(ctx, FL_ECONFIG, "resize has %zu numbers, but takes one or two: height and width", p->resize.n);
    fli_label_names_init(&labels, ctx, (size_t)p->classes);
    fli_groups_init(&clients, ctx);
    fl_status s = load_both(ctx, p, &labels, &clients, &a, &b);
    fli_label_names_fini(&labels);
    fli_label_names_fini(&clients);
    return fli_load_hand_out(s, a, b, train, test);
}

static const fl_key keys[] = {
    FLI_KEY_STRING(params, train, NULL, "folder with a folder of training images per class"),
    FLI_KEY_STRING(params, test, "", "the same for test images; '' for no test set"),
    FLI_KEY_CHOICE(params, layout, "class", "class|client/class",
                   "folders are CLASS, or CLIENT/CLASS; clients are groups, for the partition `natural`, and only "
                   "those of `train` count"),
    {"resize", FL_KEY_INTS, "never", 1, MOST_SIDE, "never",
     "height and width that all images are brought to, as [32, 32], or one number for both; never: they must be of one "
     "size",
     offsetof(params, resize)},
    FLI_KEY_CHOICE(params, channels, "auto", "auto|1|3",
                   "1: convert all images to grey, 3: to colour; auto: all must be like the first one"),
    FLI_KEY_INT(params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_END,
};

const fli_source fli_source_image_folder = {
    .name = "image_folder",
    .title = "images in a folder per class: PNG and JPEG",
    .needs =
        "folders train/CLASS/ with *.png, *.jpg and *.jpeg, which are read in name order; the first bytes of a file "
        "decide its format",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
