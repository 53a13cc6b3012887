/* Fuzz target: what a server says to a client before it joins, from any bytes: its federation, and replies in JSON. */
#include "base/rng.h"
#include "net/client/http_client.h"
#include "net/common/federation_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_offer: %s\n", what);
    abort();
}

static void check_offer(const fli_federation_info *o)
{
    const size_t *shape = o->wanted.shape;
    demand(!*o->method || fli_net_name_ok(o->method), "a method's name is none");
    demand(!*o->model || fli_net_name_ok(o->model), "a model's name is none");
    demand(!*o->name || fli_net_name_ok(o->name), "a client's name is none");
    demand(shape[0] <= 1000000000 && shape[1] <= 1000000000 && shape[2] <= 1000000000, "a shape is beyond its bounds");
    demand(o->clients <= UINT32_MAX && o->wanted.classes <= 1000000, "a count is beyond its bounds");
    for (size_t i = 0; o->class_name && i < o->wanted.classes; i++)
        demand(strlen(o->class_name[i]) < FLI_NET_SMALL_BODY, "a class has a name that cannot be");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_ctx *ctx = fl_ctx_new();
    fli_federation_info offer;
    char said[20];
    if (!ctx) return 0;
    fl_status s = fli_federation_info_read(ctx, data, size, &offer);
    demand(!s == !*fl_ctx_error(ctx), "a failure without a sentence, or the other way round");
    if (!s) check_offer(&offer);
    fli_federation_info_fini(&offer);
    fli_http_answer heard = {.code = 200, .body = (unsigned char *)data, .n = size};
    fli_http_answer_text(&heard, "state", said, sizeof said);
    for (const char *c = said; *c; c++) demand((unsigned char)*c >= ' ' && *c != 127, "a text is not printable");
    demand(fli_http_answer_flag(&heard, "join", 0) == fli_http_answer_flag(&heard, "join", 0), "a flag is two things");
    fli_peek_number(data, size);
    fl_ctx_free(ctx);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

enum { LONGEST = 4096 };

static const char seed[] = "{\"protocol\":1,\"oldest\":1,\"run\":null,\"state\":\"joining\",\"method\":\"fedavg\","
                           "\"model\":\"mlp\",\"clients\":10,\"missing\":3,\"you\":{\"name\":\"ann\",\"client\":null},"
                           "\"samples\":{\"shape\":[1,28,28],\"classes\":10,\"class_names\":[\"a\",\"b\",\"c\",\"d\","
                           "\"e\",\"f\",\"g\",\"h\",\"i\",\"j\"]},"
                           "\"join\":true}";

static const char *const tokens[] = {
    "{",    "}",     "[",       "]",       ",",    "\"",     ":",    "null",
    "-1",   "1e999", "\\u0000", "\\u0007", "[7]",  "[[[",    "\xff", "9223372036854775808",
    "true", "false", "\\ud800", "0.5",     "over", "\"you\""};

static const dialect json = {tokens, sizeof tokens / sizeof *tokens, LONGEST, 0};

int main(int argc, char **argv) { return fuzz_texts("fuzz_offer", argc, argv, &json, seed, LLVMFuzzerTestOneInput); }

#endif
