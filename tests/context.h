/* A context and an arena for every test of a file: CONTEXT_TEST(name) in its list. */
#ifndef TESTS_CONTEXT_H
#define TESTS_CONTEXT_H

#include "check.h"

#include "base/memory.h"

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
} context;

static inline int context_setup(void **state)
{
    context *c = calloc(1, sizeof *c);
    if (!c) return -1;
    c->ctx = fl_ctx_new();
    fli_arena_init(&c->arena, c->ctx);
    *state = c;
    return 0;
}

static inline int context_teardown(void **state)
{
    context *c = *state;
    fli_arena_fini(&c->arena);
    fl_ctx_free(c->ctx);
    free(c);
    return 0;
}

#define CONTEXT_TEST(name) cmocka_unit_test_setup_teardown(name, context_setup, context_teardown)

#endif
