/* Fuzzing the loaders. The first byte chooses a loader and its settings, the next two the length of the first file; the
 * rest is a second file, for loaders that take two. Whatever the bytes are, a loader must return, must not touch memory
 * it does not own, must leak nothing, and what it accepts must pass fli_dataset_check.
 *
 * With libFuzzer:   clang -fsanitize=fuzzer,address,undefined ...
 * Without:          any compiler with -DFUZZ_REPLAY; the program mutates built-in seeds, the same way every time.
 *                   Arguments: rounds (default 20000), `seeds FOLDER` to write the seeds, or files to run once each. */
#include "format/keys.h"
#include "data/source.h"

#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MOST_KEYS = 12, HEAD = 3 };
#define FIRST  "@1" /* stands for the file with the first part of the input */
#define SECOND "@2"
#define LABELS "@3" /* a good IDX file with two labels */

typedef struct {
    const fli_source *source;
    const char *keys[2 * MOST_KEYS + 1];
    int wide; /* precision f64 */
} setting;

static const setting settings[] = {
    {&fli_source_idx,
     {"train_images", FIRST, "train_labels", SECOND, "test_images", FIRST, "test_labels", SECOND, "test_limit", "1"}},
    {&fli_source_idx,
     {"train_images", SECOND, "train_labels", LABELS, "test_images", "", "test_labels", "", "groups", FIRST,
      "groups_column", "0", "limit", "2"}},
    {&fli_source_libsvm, {"train", FIRST, "test", SECOND}},
    {&fli_source_libsvm, {"train", FIRST, "task", "regression", "features", "50", "storage", "dense"}},
    {&fli_source_csv, {"train", FIRST, "test", SECOND, "header", "true"}},
    {&fli_source_csv, {"train", FIRST, "separator", "semicolon", "group_column", "0", "storage", "f64"}},
    {&fli_source_csv, {"train", FIRST, "separator", "space", "label", "0", "task", "regression"}},
    {&fli_source_npy, {"train_x", FIRST, "train_y", SECOND}},
    {&fli_source_npy, {"train_x", FIRST, "train_y", SECOND, "test_x", FIRST, "test_y", SECOND, "task", "regression"}},
    {&fli_source_leaf, {"train", FIRST}},
    {&fli_source_leaf, {"train", FIRST, "test", SECOND}},
    {&fli_source_cifar10, {"dir", "", "batches", "1"}}, /* dir is set below */
    {&fli_source_idx,
     {"train_images", SECOND, "train_labels", FIRST, "test_images", "", "test_labels", ""}}, /* floats */
    {&fli_source_npy, {"train_x", FIRST, "train_y", SECOND, "train_groups", SECOND}},        /* 13: converted types */
    {&fli_source_npz, {"train", FIRST, "groups", "y"}},                                      /* 14: stored */
    {&fli_source_npz, {"train", FIRST, "task", "regression"}},                               /* 15: deflated, 64-bit */
    {&fli_source_csv, {"train", FIRST, "test", SECOND, "label", "c", "group_column", "a"}, 1},
    {&fli_source_libsvm,
     {"train", FIRST, "test", SECOND, "index", "zero", "groups", "qid", "classes", "3", "storage", "sparse"},
     1},
    {&fli_source_leaf, {"train", FIRST, "classes", "3"}, 1},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* A file that exists only in memory, and its path. */
static int memory_file(const uint8_t *data, size_t n, char *path, size_t size)
{
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || (n && write(fd, data, n) != (ssize_t)n)) abort();
    snprintf(path, size, "/proc/self/fd/%d", fd);
    return fd;
}

/* cifar10 wants names in a folder. */
static void link_folder(char *dir, const char *first, const char *second)
{
    char path[128];
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/data_batch_1.bin", dir);
    if (symlink(first, path)) abort();
    snprintf(path, sizeof path, "%s/test_batch.bin", dir);
    if (symlink(second, path)) abort();
}

static void remove_folder(const char *dir)
{
    char path[128];
    snprintf(path, sizeof path, "%s/data_batch_1.bin", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/test_batch.bin", dir);
    unlink(path);
    rmdir(dir);
}

static const char *file_for(const char *value, char (*path)[64])
{
    return *value == '@' ? path[value[1] - '1'] : value;
}

static fl_status run(const setting *set, char (*path)[64], const char *dir)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    fli_dataset *train = NULL, *test = NULL;
    fli_arena_init(&arena, ctx);
    void *params = fli_arena_alloc(&arena, 1, set->source->params_size);
    fli_node *map = fli_node_new(&arena, FLI_NODE_MAP, NULL, NULL);
    for (const char *const *k = set->keys; *k; k += 2) {
        const char *value = strcmp(*k, "dir") ? file_for(k[1], path) : dir;
        fli_node_append(map, fli_node_new(&arena, FLI_NODE_SCALAR, *k, value));
    }
    fli_table table = {set->source->keys, params};
    if (fli_bind(ctx, &arena, "", map, NULL, &table, 1)) abort();
    fl_status s =
        set->source->load(ctx, &(fli_source_request){.params = params, .seed = 1, .wide = set->wide}, &train, &test);
    if (s == FL_OK && (fli_dataset_check(ctx, train, "train") || (test && fli_dataset_check(ctx, test, "test")))) {
        fprintf(stderr, "%s accepted what the check refuses: %s\n", set->source->name, fl_ctx_error(ctx));
        abort();
    }
    if (s != FL_OK && (train || test || !*fl_ctx_error(ctx))) abort();
    fli_dataset_free(train);
    fli_dataset_free(test);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
    return s;
}

static fl_status run_input(const uint8_t *data, size_t n)
{
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};
    const setting *set = &settings[data[0] % SETTINGS];
    size_t cut = data[1] | (size_t)data[2] << 8;
    char path[3][64], dir[] = "/tmp/fedloom-fuzz-XXXXXX";
    data += HEAD;
    n -= HEAD;
    if (cut > n) cut = n;
    int fd[] = {memory_file(data, cut, path[0], sizeof path[0]),
                memory_file(data + cut, n - cut, path[1], sizeof path[1]),
                memory_file(labels, sizeof labels, path[2], sizeof path[2])};
    int folder = set->source == &fli_source_cifar10;
    if (folder) link_folder(dir, path[0], path[1]);
    fl_status s = run(set, path, dir);
    if (folder) remove_folder(dir);
    for (size_t i = 0; i < 3; i++) close(fd[i]);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n >= HEAD) run_input(data, n);
    return 0;
}

#ifdef FUZZ_REPLAY

/* A good pair of files for a setting. */
typedef struct {
    uint8_t b[2][4096];
    size_t n[2];
    int at; /* the file that `add` adds to */
} seed;

static void add(seed *s, const void *p, size_t n)
{
    memcpy(s->b[s->at] + s->n[s->at], p, n);
    s->n[s->at] += n;
}

#define ADD(s, literal) add(s, literal, sizeof literal - 1)

static void npy_seed_as(seed *s, const char *type, const char *order, const char *shape, size_t body)
{
    char dict[160];
    int n = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", type, order, shape);
    ADD(s, "\x93NUMPY\1\0");
    add(s, (const uint8_t[]){(uint8_t)n, 0}, 2);
    add(s, dict, (size_t)n);
    s->n[s->at] += body; /* zeros */
}

static void npy_seed(seed *s, const char *type, const char *shape, size_t body)
{
    npy_seed_as(s, type, "False", shape, body);
}

static void leaf_seed(seed *s)
{
    ADD(s, "{\"users\": [\"a\", \"b\"], \"num_samples\": [2, 1], \"user_data\": {\"a\": {\"x\": [[1, 2], [3, 4]], "
           "\"y\": [0, 1]}, \"b\": {\"x\": [[5, 6.5]], \"y\": [2]}}}");
}

static void make_seed(size_t k, seed *s)
{
    memset(s, 0, sizeof *s);
    switch (k) {
    case 0:
        ADD(s, "\0\0\x08\3\0\0\0\3\0\0\0\2\0\0\0\2abcdefghijkl");
        s->at = 1;
        ADD(s, "\0\0\x08\1\0\0\0\3\0\1\2");
        break;
    case 1:
        ADD(s, "\0\0\x0c\2\0\0\0\2\0\0\0\1\0\0\0\7\0\0\0\3");
        s->at = 1;
        ADD(s, "\0\0\x08\2\0\0\0\2\0\0\0\3abcdef");
        break;
    case 2:
    case 3:
        ADD(s, "+1 1:0.5 7:2 # c\r\n-1 2:1e-3\n\n1 3:1 \n");
        s->at = 1;
        ADD(s, "-1 9:1\n1\n");
        break;
    case 4:
        ADD(s, "a,b,c\n1,\"2\",x\n3,4,\"y\"\"z\"\n");
        s->at = 1;
        ADD(s, "a,b,c\n5,6,x\n");
        break;
    case 5: ADD(s, "u;1;2.5;yes\nv;-3;4;no\r\nu;5;6;yes\n"); break;
    case 6: ADD(s, "1.5  2 3\n-4\t5 6\n"); break;
    case 7:
    case 8:
        npy_seed(s, "<f4", "(2, 1, 2, 2)", 32);
        s->at = 1;
        npy_seed(s, "<i4", "(2,)", 8);
        break;
    case 9:
    case 10:
        leaf_seed(s);
        s->at = 1;
        leaf_seed(s);
        break;
    case 11: s->n[0] = s->n[1] = 3073; break;
    case 12:
        ADD(s, "\0\0\x08\1\0\0\0\2\0\1");
        s->at = 1;
        ADD(s, "\0\0\x0d\2\0\0\0\2\0\0\0\2\x3f\x80\0\0\xc0\0\0\0\0\0\0\0\x40\x49\x0f\xdb");
        break;
    case 13:
        npy_seed_as(s, ">f2", "True", "(2, 3, 2)", 24);
        s->at = 1;
        npy_seed(s, ">u8", "(2, 1)", 16);
        break;
    case 14:
    case 15: /* put into an archive later */
        npy_seed_as(s, k == 14 ? "|b1" : ">i4", "True", "(2, 3)", k == 14 ? 6 : 24);
        s->at = 1;
        npy_seed(s, "<f4", "(2,)", 8);
        break;
    case 16:
        ADD(s, "a,b,c\nu,1,x\nv,2,\"y\"\n");
        s->at = 1;
        ADD(s, "a,b,c\nu,5,x\n");
        break;
    case 17:
        ADD(s, "\xef\xbb\xbf# c\n2 qid:1 0:0.5 7:2\n0 qid:2 2:1e-3\n");
        s->at = 1;
        ADD(s, "1 9:1\n1\n");
        break;
    case 18: leaf_seed(s); break;
    }
}

static void put_little(uint8_t **p, size_t bytes, uint64_t v)
{
    for (; bytes; bytes--, v >>= 8) *(*p)++ = (uint8_t)v;
}

/* An archive under construction. */
typedef struct {
    uint8_t *at, *start;
    uint8_t directory[1024], *record;
    unsigned count;
} archive;

/* One member, `body` (already packed) being it; `wide`: with 64-bit sizes, as NumPy writes them. */
static void zip_member(archive *z, const char *name, int method, const uint8_t *body, size_t packed,
                       const uint8_t *data, size_t n, int wide)
{
    uint64_t sizes[] = {crc32(0, data, (unsigned)n), packed, n}, here = (uint64_t)(z->at - z->start);
    uint8_t **to[] = {&z->at, &z->record};
    put_little(&z->at, 4, 0x04034b50);
    put_little(&z->record, 6, 0x2d02014b50);
    for (size_t k = 0; k < 2; k++) {
        put_little(to[k], 4, 45);
        put_little(to[k], 6, (uint64_t)method);
        for (size_t i = 0; i < 3; i++) put_little(to[k], 4, wide && i ? UINT32_MAX : sizes[i]);
        put_little(to[k], 2, strlen(name));
        put_little(to[k], 2, wide ? 20 : 0);
        if (k) put_little(to[k], 10, 0), put_little(to[k], 4, here);
        memcpy(*to[k], name, strlen(name));
        *to[k] += strlen(name);
        if (!wide) continue;
        put_little(to[k], 4, 16 << 16 | 1);
        put_little(to[k], 8, sizes[2]);
        put_little(to[k], 8, sizes[1]);
    }
    memcpy(z->at, body, packed);
    z->at += packed;
    z->count++;
}

static size_t zip_end(archive *z)
{
    uint64_t here = (uint64_t)(z->at - z->start), n = (uint64_t)(z->record - z->directory);
    memcpy(z->at, z->directory, n);
    z->at += n;
    put_little(&z->at, 8, 0x06054b50);
    put_little(&z->at, 4, z->count << 16 | z->count);
    put_little(&z->at, 4, n);
    put_little(&z->at, 4, here);
    put_little(&z->at, 2, 0);
    return (size_t)(z->at - z->start);
}

/* A zip archive with one member; returns its length. */
static size_t zip(uint8_t *to, const uint8_t *body, size_t packed, const uint8_t *data, size_t n, int wide)
{
    archive z = {.at = to, .start = to};
    z.record = z.directory;
    zip_member(&z, "a", 8, body, packed, data, n, wide);
    return zip_end(&z);
}

static size_t deflated(const uint8_t *data, size_t n, int window_bits, uint8_t *out, size_t room)
{
    z_stream z = {
        .next_in = (uint8_t *)(uintptr_t)data, .avail_in = (unsigned)n, .next_out = out, .avail_out = (unsigned)room};
    if (deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) || deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    size_t made = z.total_out;
    deflateEnd(&z);
    return made;
}

static int is_archive(size_t k) { return settings[k].source == &fli_source_npz; }

/* Both files become the arrays x and y of one archive. */
static void put_into_archive(seed *s, int packed)
{
    static uint8_t out[4 * sizeof s->b[0]], body[2 * sizeof s->b[0]];
    static const char *const name[] = {"x.npy", "y.npy"};
    archive z = {.at = out, .start = out};
    z.record = z.directory;
    for (size_t i = 0; i < 2; i++) {
        size_t n = packed ? deflated(s->b[i], s->n[i], -MAX_WBITS, body, sizeof body) : s->n[i];
        zip_member(&z, name[i], packed ? 8 : 0, packed ? body : s->b[i], n, s->b[i], s->n[i], packed);
    }
    size_t n = zip_end(&z);
    if (n > sizeof s->b[0]) n = sizeof s->b[0];
    memcpy(s->b[0], out, n);
    s->n[0] = n;
    s->n[1] = 0;
}

/* Packs the first file: 1 gzip, 2 xz, 3 zip, 4 zip with 64-bit sizes. */
static void pack(seed *s, int how)
{
    static uint8_t out[sizeof s->b[0]];
    size_t n = 0;
    if (how != 2)
        n = deflated(s->b[0], s->n[0], how == 1 ? MAX_WBITS + 16 : -MAX_WBITS, out, sizeof out);
    else if (lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, s->b[0], s->n[0], out, &n, sizeof out))
        abort();
    if (how > 2) {
        static uint8_t packed[2 * sizeof out];
        n = zip(packed, out, n, s->b[0], s->n[0], how == 4);
        memcpy(out, packed, n);
    }
    memcpy(s->b[0], out, n);
    s->n[0] = n;
}

/* The seed as one input; returns its length. */
static size_t join(size_t k, const seed *s, uint8_t *input)
{
    input[0] = (uint8_t)k;
    input[1] = (uint8_t)s->n[0];
    input[2] = (uint8_t)(s->n[0] >> 8);
    memcpy(input + HEAD, s->b[0], s->n[0]);
    memcpy(input + HEAD + s->n[0], s->b[1], s->n[1]);
    return HEAD + s->n[0] + s->n[1];
}

/* Our own generator: the same mutations everywhere. */
static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

/* Flips, overwrites, deletes, doubles or cuts something, one to four times. */
static void mutate(uint8_t *b, size_t *n, size_t room, uint64_t *rng)
{
    static const char spice[] = "0123456789-+.eE:,;\"'#{}[]()\\ \t\r\n\xff\x80\x1f\x8b";
    for (uint32_t times = 1 + draw(rng, 4); times && *n; times--) {
        size_t i = draw(rng, (uint32_t)*n), k = 1 + draw(rng, 8);
        switch (draw(rng, 6)) {
        case 0: b[i] ^= (uint8_t)(1u << draw(rng, 8)); break;
        case 1: b[i] = (uint8_t)draw(rng, 256); break;
        case 2: b[i] = (uint8_t)spice[draw(rng, sizeof spice - 1)]; break;
        case 3:
            if (i + k > *n) k = *n - i;
            memmove(b + i, b + i + k, *n - i - k);
            *n -= k;
            break;
        case 4:
            if (i + k > *n || *n + k > room) break;
            memmove(b + i + k, b + i, *n - i);
            *n += k;
            break;
        default:
            if (!draw(rng, 4)) *n = i;
        }
    }
}

static int run_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 1;
    }
    size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    return LLVMFuzzerTestOneInput(data, n);
}

/* The seeds themselves must load; with a folder given, they are written there, as a start for libFuzzer. */
static int run_seeds(const char *dir)
{
    static uint8_t input[sizeof(seed)];
    for (size_t k = 0; k < 5 * SETTINGS; k++) {
        seed s;
        char path[512];
        make_seed(k % SETTINGS, &s);
        if (is_archive(k % SETTINGS))
            put_into_archive(&s, k % SETTINGS == 15);
        else if (k >= SETTINGS)
            pack(&s, (int)(k / SETTINGS));
        size_t n = join(k % SETTINGS, &s, input);
        if (run_input(input, n)) {
            fprintf(stderr, "seed %zu of %s does not load\n", k, settings[k % SETTINGS].source->name);
            return 1;
        }
        if (!dir) continue;
        snprintf(path, sizeof path, "%s/seed-%zu", dir, k);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(input, 1, n, f) != n || fclose(f)) return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t rng = 2024;
    long rounds = 20000;
    static uint8_t input[sizeof(seed)];
    if (argc == 3 && !strcmp(argv[1], "seeds")) return run_seeds(argv[2]);
    if (argc > 1 && strspn(argv[1], "0123456789") != strlen(argv[1])) {
        int bad = 0;
        for (int i = 1; i < argc; i++) bad |= run_file(argv[i]);
        return bad;
    }
    if (run_seeds(NULL)) return 1;
    if (argc > 1) rounds = atol(argv[1]);
    for (long r = 0; r < rounds; r++) {
        size_t k = (size_t)r % SETTINGS;
        seed s;
        make_seed(k, &s);
        uint32_t packing = draw(&rng, 8);
        int part = s.n[1] && draw(&rng, 3) == 0, inside = is_archive(k) && draw(&rng, 2);
        if (inside) mutate(s.b[part], &s.n[part], sizeof s.b[part], &rng);
        if (is_archive(k))
            put_into_archive(&s, k == 15), part = 0;
        else if (packing >= 1 && packing <= 4)
            pack(&s, (int)packing);
        if (!inside) mutate(s.b[part], &s.n[part], sizeof s.b[part], &rng);
        LLVMFuzzerTestOneInput(input, join(k, &s, input));
    }
    printf("%ld inputs, no failure\n", rounds);
    return 0;
}

#endif
