/* Everything that a configuration chooses by `kind:`, in one form: one line per section that has kinds. The
 * configuration, the listing and the reference use this table. */
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
    /* Prints further facts of its descriptor for a person, as lines "label: text". May be NULL. */
    void (*more)(fli_text *t, const void *desc);
    int by_user; /* it is registered (fedloom_extend.h); such items come last */
    /* For registered methods (algo/user_method.h): the size of the header before the parameters, and a function to be
     * called on the parameters after binding, also after a failure; may be NULL. */
    size_t params_head;
    void (*bound)(const void *desc, void *params);
} fli_item;

typedef struct {
    const char *section; /* or a key; also the singular name in `fedloom list` */
    const char *plural, *title;
    const char *within;                            /* the section of this key; NULL: a section of its own */
    int (*item)(size_t i, fli_item *out);          /* 0 past the last */
    int (*users)(const char *name, fli_item *out); /* the registered item of that name; NULL: users cannot register */
} fli_kind;

extern const fli_kind fli_kinds[]; /* ends with section NULL */

const fli_kind *fli_kind_find(const char *section); /* singular or plural; NULL if unknown */
int fli_item_find(const fli_kind *kind, const char *name, fli_item *out);
/* Memory for its parameters, zeroed; NULL after FL_ENOMEM. */
void *fli_item_params(fli_arena *a, const fli_item *item);
int fli_item_has_key(const fli_item *item, const char *key); /* its own key, not one of its section */
/* fl_name_fn over the items of a kind, for suggestions. */
const char *fli_item_name(const void *kind, size_t i);

#endif
