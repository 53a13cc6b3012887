/* Fuzz target: a manifest, from any bytes. Either a sentence, or a list of plain names that can be written and read
 * back. */
#include "base/rng.h"
#include "run/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_manifest: %s\n", what);
    abort();
}

static void check_names(const fli_manifest *m)
{
    for (size_t i = 0; i < m->count; i++) {
        const char *name = m->file[i].name;
        demand(*name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, ".."),
               "a name leads out of the folder");
        demand(fli_manifest_lists(m, name), "a file is not listed");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_manifest m;
    if (!ctx) return 0;
    fli_manifest_init(&m, ctx);
    fl_status s = fli_manifest_parse(&m, "input", (const char *)data, size);
    demand(!s == !*fl_ctx_error(ctx), "a failure without a sentence, or the other way round");
    check_names(&m);
    fli_manifest_fini(&m);
    fl_ctx_free(ctx);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

enum { LONGEST = 4096 };
#define DIGEST "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static const char seed[] = "{\n  \"fedloom\": \"0.2.0\",\n  \"data\": {\"sha256\": \"" DIGEST "\"},\n  \"files\": [\n"
                           "    {\"name\": \"config.yaml\", \"bytes\": 812, \"sha256\": \"" DIGEST "\"},\n"
                           "    {\"name\": \"metrics.csv\", \"bytes\": 0, \"sha256\": \"" DIGEST "\"}\n  ]\n}\n";

static const char *const tokens[] = {
    "{",        "}",        "[",       "]",       ",",    "\"",     ":",   "null",
    "-1",       "1e999",    "\\u0000", "../",     ".",    "\"..\"", "[[[", "9223372036854775808",
    "\"name\"", "\"data\"", "\xff",    "\\ud800", "true", "0.5"};

static const dialect json = {tokens, sizeof tokens / sizeof *tokens, LONGEST, 0};

int main(int argc, char **argv) { return fuzz_texts("fuzz_manifest", argc, argv, &json, seed, LLVMFuzzerTestOneInput); }

#endif
