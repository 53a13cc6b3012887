#include "net/server/state.h"

static const unsigned codes[FLI_NET_CODES] = {200, 204, 400, 403, 404, 405, 409, 410, 411, 413, 422, 426, 503};

void fli_net_tally_add(fli_net_tally *t, size_t page, unsigned code)
{
    size_t k = 0;
    while (k < FLI_NET_CODES - 1 && codes[k] != code) k++;
    atomic_fetch_add(&t->n[page < FLI_NET_PAGES ? page : FLI_NET_PAGES][k], 1);
}

unsigned fli_net_tally_code(size_t k) { return codes[k]; }
