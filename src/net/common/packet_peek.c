#include "net/common/packet_peek.h"

#include "algo/message.h"
#include "base/bytes.h"
#include "base/number.h"
#include "data/federation/remote_data.h"
#include "remote/packet.h"

#include <string.h>

fl_status fli_peek_ask(fl_ctx *ctx, const void *packet, size_t n, fli_peeked_ask *out)
{
    fli_packet p;
    fl_ask ask;
    fl_status s = fli_packet_read(ctx, FLI_PACKET_ASK, packet, n, &p);
    if (!s && p.head_bytes != FLI_ASK_BYTES)
        s = fli_fail(ctx, FL_EFORMAT, "this is no ask: its head has another length");
    if (s) return s;
    fli_ask_read(p.head, &ask);
    *out = (fli_peeked_ask){p.number, ask.round, ask.steps, ask.kind == FLI_ASK_TURN};
    return FL_OK;
}

uint64_t fli_peek_number(const void *beginning, size_t n)
{
    enum { NUMBER_AT = 16 }; /* see remote/packet.h */
    uint64_t number = 0;
    if (n < NUMBER_AT + sizeof number || memcmp(beginning, "flpacket", 8)) return 0;
    fli_get_u64((const unsigned char *)beginning + NUMBER_AT, &number, sizeof number);
    return number;
}

fl_status fli_peek_terms(fl_ctx *ctx, const void *packet, size_t n, fli_digest *run)
{
    fli_packet p;
    fl_status s = fli_packet_read(ctx, FLI_PACKET_TERMS, packet, n, &p);
    if (!s) *run = p.run;
    return s;
}

static fl_status read_card(fl_ctx *ctx, const void *card, size_t n, fli_card *out)
{
    fli_packet p;
    fl_status s = fli_packet_read(ctx, FLI_PACKET_CARD, card, n, &p);
    if (!s && p.head_bytes != FLI_CARD_BYTES)
        s = fli_fail(ctx, FL_EFORMAT, "this is no card: its head has another length");
    return s ? s : fli_card_read(ctx, p.head, out);
}

fl_status fli_peek_samples(fl_ctx *ctx, const void *card, size_t n, fli_digest *samples)
{
    fli_card c;
    fl_status s = read_card(ctx, card, n, &c);
    if (!s && !c.digested) s = fli_fail(ctx, FL_EFORMAT, "this card was made without a digest");
    if (!s) *samples = c.digest;
    return s;
}

const char *fli_peek_card_wrong(fl_ctx *ctx, const void *card, size_t n, const fli_wanted_samples *wanted,
                                char *sentence, size_t size)
{
    fli_card c;
    if (read_card(ctx, card, n, &c)) return "its card is damaged";
    fli_data_shape all = {.classes = wanted->classes};
    fli_data_shape own = {.samples = (size_t)c.samples, .classes = (size_t)c.classes, .kind = (fli_xkind)c.kind};
    for (size_t k = 0; k < 3; k++) {
        all.shape[k] = wanted->shape[k];
        own.shape[k] = (size_t)c.shape[k];
    }
    const char *wrong = fli_joined_wrong(&all, NULL, &own);
    if (!wrong && own.classes > all.classes) wrong = "its samples have more classes";
    if (!wrong) return NULL;
    fli_snprintf(sentence, size,
                 "%s; they are %zu x %zu x %zu with %zu classes, and the federation's %zu x %zu x %zu with %zu", wrong,
                 own.shape[0], own.shape[1], own.shape[2], own.classes, all.shape[0], all.shape[1], all.shape[2],
                 all.classes);
    return sentence;
}
