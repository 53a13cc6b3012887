#include "message/fault.h"

#include "base/number.h"

void fli_fault_note(fli_fault *f, const fl_failure *why)
{
    int nobody = 0;
    if (!fli_has_failed(why) || !atomic_compare_exchange_strong(&f->taken, &nobody, 1)) return;
    f->first = *why;
    atomic_store_explicit(&f->there, 1, memory_order_release);
}

void fli_fault_word(fl_failure *why, const fli_algo *a, const char *call, const fli_ask *ask, size_t round)
{
    fl_failure message = *why;
    char client[32] = "";
    if (ask) fli_snprintf(client, sizeof client, ", client %u", ask->client);
    fli_snprintf(why->text, sizeof why->text, "method %s failed in %s%s, round %zu: %s", a->name, call, client,
                 round + 1, message.text);
}
