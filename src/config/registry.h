/* The things a configuration chooses from by `kind:`, seen alike: one line per section that has kinds. The
 * configuration, the listing and the reference all walk this table. */
#ifndef FLI_CONFIG_REGISTRY_H
#define FLI_CONFIG_REGISTRY_H

#include "base/text.h"
#include "format/keys.h"

typedef struct {
    const char *name, *title;
    const char *citation, *needs; /* NULL: none */
    const fl_key *keys;           /* NULL: none */
    size_t params_size;
    const void *desc; /* the descriptor itself, of the section's type */
    /* What its descriptor says beyond that, for a person: lines "label: text". NULL: nothing. */
    void (*more)(fli_text *t, const void *desc);
    int by_user; /* a user registered it (fedloom_extend.h); such things come last */
    /* Of methods that users registered (algo/user_method.h): what lies before its parameters, and what is called on
     * them once they have been bound, or could not be; NULL: nothing. */
    size_t params_head;
    void (*bound)(const void *desc, void *params);
} fli_item;

typedef struct {
    const char *section; /* or key; also the singular name in `fedloom list` */
    const char *plural, *title;
    const char *within;                            /* it is a key of this section; NULL: a section of its own */
    int (*item)(size_t i, fli_item *out);          /* 0 past the last */
    int (*users)(const char *name, fli_item *out); /* one that a user registered; NULL: users cannot register any */
} fli_kind;

extern const fli_kind fli_kinds[]; /* ends with section NULL */

const fli_kind *fli_kind_find(const char *section); /* singular or plural; NULL if unknown */
int fli_item_find(const fli_kind *kind, const char *name, fli_item *out);
/* Its parameters, zeroed; NULL: FL_ENOMEM. */
void *fli_item_params(fli_arena *a, const fli_item *item);
int fli_item_has_key(const fli_item *item, const char *key); /* of its own, not of its section */
/* fl_name_fn over the items of a kind, for suggestions. */
const char *fli_item_name(const void *kind, size_t i);

#endif
