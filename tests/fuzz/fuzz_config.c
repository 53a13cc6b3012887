/* Anything as a configuration: the input's lines up to one that is "%%" are a YAML file, the lines after it are --set
 * assignments. Whatever is accepted is bound through a table, printed, read again and must bind to the same values.
 *
 * A libFuzzer target: clang -fsanitize=fuzzer,address,undefined. With -DFUZZ_REPLAY it has its own main(), which
 * mutates built-in seeds deterministically (argument: how many times) and needs no fuzzing library; further arguments
 * are files to replay as they are. */
#include "format/keys.h"
#include "base/rng.h"
#include "format/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int flag, mode;
    int64_t count;
    double rate;
    char *title;
    fl_ints sizes;
    fl_reals targets;
} params;

static const fl_key rows[] = {
    FLI_KEY_BOOL(params, flag, "false", "a flag"),
    FLI_KEY_CHOICE(params, mode, "two", "one|two|three", "a choice"),
    FLI_KEY_INT(params, count, "10", 0, 0, "a whole number"),
    FLI_KEY_REAL(params, rate, "0.1", 0, 0, "a number"),
    FLI_KEY_STRING(params, title, "", "a text"),
    FLI_KEY_INTS(params, sizes, "[3, 4]", 1, 100, "whole numbers"),
    FLI_KEY_REALS(params, targets, "[]", 0, 1, "numbers"),
    FLI_KEY_END,
};

/* What the input is merged over. */
static const char below[] = "a: {kind: x, b: 1}\nc: d\nrate: 1\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "fuzz_config: %s\n", what);
    abort();
}

static void print(fli_text *t, const params *p)
{
    for (const fl_key *row = rows; row->name; row++) {
        fli_text_addf(t, "%s: ", row->name);
        fli_key_print_value(t, row, p);
        fli_text_add(t, "\n");
    }
}

static void read_back(fl_ctx *ctx, fli_arena *a, const params *p)
{
    params q;
    fli_table table = {rows, &q};
    fli_node *root = NULL;
    fli_text first, second;
    fli_text_init(&first, ctx);
    fli_text_init(&second, ctx);
    print(&first, p);
    demand(!fli_yaml_parse(ctx, a, "printed", fli_text_get(&first), strlen(fli_text_get(&first)), &root),
           "what was printed is not YAML");
    demand(!fli_bind(ctx, a, "", root, NULL, &table, 1), "what was printed does not bind");
    print(&second, &q);
    demand(!strcmp(fli_text_get(&first), fli_text_get(&second)) && !strcmp(p->title, q.title),
           "what was printed binds to something else");
    fli_text_fini(&first);
    fli_text_fini(&second);
}

/* Applies the lines of `text`. */
static void set_lines(fl_ctx *ctx, fli_arena *a, char *text, fli_node *root)
{
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        if (fli_yaml_set(ctx, a, line, root)) demand(*fl_ctx_error(ctx) != 0, "a failure without a sentence");
        fli_clear(ctx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    fli_node *root = NULL, *base = NULL;
    params p = {0};
    fli_table table = {rows, &p};
    if (!ctx) return 0;
    fli_arena_init(&arena, ctx);
    char *text = malloc(size + 1);
    demand(text != NULL, "out of memory");
    if (size) memcpy(text, data, size);
    text[size] = 0;
    char *sets = strstr(text, "%%\n");
    size_t n = sets ? (size_t)(sets - text) : size;
    if (fli_yaml_parse(ctx, &arena, "input", text, n, &root)) {
        demand(*fl_ctx_error(ctx) && !root, "a failure without a sentence, or with a tree");
        fli_clear(ctx);
        demand(!fli_yaml_parse(ctx, &arena, "empty", "", 0, &root), "the empty file is refused");
    }
    if (sets) set_lines(ctx, &arena, sets + 3, root);
    demand(!fli_yaml_parse(ctx, &arena, "base", below, sizeof below - 1, &base), "the base is refused");
    demand(!fli_yaml_merge(ctx, &arena, base, root), "merging failed");
    if (fli_bind(ctx, &arena, "", root, "kind", &table, 1))
        demand(*fl_ctx_error(ctx) != 0, "a failure without a sentence");
    else
        read_back(ctx, &arena, &p);
    free(text);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
    return 0;
}

#ifdef FUZZ_REPLAY

enum { LONGEST = 4096 };

static const char *const seeds[] = {
    "",
    "flag: on\nmode: three\ncount: 12\nrate: 1e-3\ntitle: a b\nsizes: [1, 2]\ntargets: [0.5, 0.9]\n",
    "title: \"\\u2028\\x01 \\\"q\\\"\"\nkind: x\n",
    "title: |\n  one\n  two\ncount: 1e6\n%%\nrate=3\nsizes=[4, 5]\n",
    "a: {kind: x, b: [1, {c: d}]}\n%%\na=x\na=y\na.b=2\na.kind=z\nc.d.e=[]\n",
    "a: &x [1]\nb: *x\nc: !!int 3\n? [k]\n: v\n---\n",
    "a:\n  b:\n    - 1\n    -\n      c: 'it''s'\n# comment\n",
};

static const char *const tokens[] = {": ", "\n", "- ", "[",    "]",     "{",     "}",     "'",        "\"", "&a",
                                     "*a", "!!", "|",  ">",    "%%\n",  "---\n", "  ",    "\t",       "#",  "?",
                                     "=",  ".",  "~",  "null", "title", "kind",  "1e999", "\xC2\x85", "\\0"};

static size_t mutate(fli_rng *r, uint8_t *buf, size_t n)
{
    size_t at = (size_t)fli_rng_below(r, n + 1), count = (size_t)fli_rng_below(r, 8) + 1;
    const char *token = tokens[fli_rng_below(r, sizeof tokens / sizeof *tokens)];
    switch (fli_rng_below(r, 5)) {
    case 0:
        if (at < n) buf[at] = (uint8_t)fli_rng_u32(r);
        return n;
    case 1: /* cut */
        if (count > n - at) count = n - at;
        memmove(buf + at, buf + at + count, n - at - count);
        return n - count;
    case 2: /* double a piece */
        if (count > n - at) count = n - at;
        if (n + count > LONGEST) return n;
        memmove(buf + at + count, buf + at, n - at);
        return n + count;
    case 3: /* cross over with another seed */ token = seeds[fli_rng_below(r, sizeof seeds / sizeof *seeds)]; break;
    default: break;
    }
    count = strlen(token);
    if (n + count > LONGEST) return n;
    memmove(buf + at + count, buf + at, n - at);
    memcpy(buf + at, token, count);
    return n + count;
}

static int replay(const char *path)
{
    static uint8_t buf[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), 1;
    size_t n = fread(buf, 1, sizeof buf, f);
    fclose(f);
    LLVMFuzzerTestOneInput(buf, n);
    return 0;
}

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 20000;
    int failed = 0;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        uint8_t buf[LONGEST];
        const char *seed = seeds[fli_rng_below(&r, sizeof seeds / sizeof *seeds)];
        size_t n = strlen(seed);
        memcpy(buf, seed, n);
        for (uint64_t k = fli_rng_below(&r, 12); k; k--) n = mutate(&r, buf, n);
        LLVMFuzzerTestOneInput(buf, n);
    }
    for (int i = 2; i < argc; i++) failed += replay(argv[i]);
    printf("fuzz_config: %ld inputs, no failure\n", times);
    return failed != 0;
}

#endif
