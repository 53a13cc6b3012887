/* Parameters of a descriptor for a test: the defaults of its table, and what the test sets. */
#ifndef TESTS_BOUND_H
#define TESTS_BOUND_H

#include "check.h"

#include "format/keys.h"

/* Further arguments: key, value, key, value, ..., NULL. The struct lives in the arena. */
static inline void *bound(fli_arena *a, const fl_key *keys, size_t size, ...)
{
    void *out = fli_arena_alloc(a, 1, size ? size : 1);
    fli_node *map = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    fli_table table = {keys, out};
    va_list ap;
    va_start(ap, size);
    for (const char *key; (key = va_arg(ap, const char *));)
        fli_node_append(map, fli_node_new(a, FLI_NODE_SCALAR, key, va_arg(ap, const char *)));
    va_end(ap);
    assert_ok(a->ctx, fli_bind(a->ctx, a, "test", map, NULL, &table, 1));
    return out;
}

#endif
