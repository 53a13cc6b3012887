/* Registrations by users while the process runs, in addition to the lists of built-in things: one list per kind, for
 * the whole process. Safe from any thread. */
#ifndef FLI_BASE_USER_REGISTRY_H
#define FLI_BASE_USER_REGISTRY_H

#include "base/ctx.h"
#include "fedloom_extend.h"

#include <pthread.h>

typedef struct fli_registry_item fli_registry_item;

typedef struct {
    pthread_mutex_t lock;
    fli_registry_item *first; /* in the order of their names' first registration */
    fli_registry_item *gone;  /* forgotten items: other threads may still be reading the list */
    void (*free)(void *item); /* frees an item that could not be added */
} fli_registry;

#define FLI_REGISTRY_INIT(free)                                                                                        \
    {                                                                                                                  \
        PTHREAD_MUTEX_INITIALIZER, NULL, NULL, free                                                                    \
    }

/* Takes the item; on failure it frees it. `at` and `find` give the newest item of a name; older ones stay valid for the
 * runs that use them. */
fl_status fli_registry_add(fl_ctx *ctx, fli_registry *list, const char *name, void *item);
/* Removes all items of that name: later searches do not find them. Returns 0 if there was none. */
int fli_registry_forget(fli_registry *list, const char *name);
/* The number of changes of all lists: while it stays the same, a name stands for the same item. */
unsigned fli_registry_changes(void);
/* Item k, and the item of a name; NULL if there is none. Indices change when another thread forgets an item, so only a
 * search by name is reliable. "NAME@2" is the second that was registered under that name, the newest or not. */
const void *fli_registry_at(fli_registry *list, size_t k);
const void *fli_registry_find(fli_registry *list, const char *name);

/* Checks that the name needs no quotes in a configuration: letters, digits, _ and -, a letter first, at most 48. */
fl_status fli_registry_check_name(fl_ctx *ctx, const char *what, const char *name);

/* The sentence of a user's function that failed. The first one is kept. Zero: no failure. */
struct fl_failure {
    char text[512];
};
static inline int fli_has_failed(const fl_failure *f) { return f->text[0] != 0; }
/* Whether a user's function has failed: by its return value or by fl_failed. */
static inline int fli_failed_by(int returned, const fl_failure *f) { return returned || fli_has_failed(f); }

/* fl_failed with a format; returns 1. */
int fli_refuse(fl_failure *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Enclose every call of a user's function: with FL_SERIAL among its traits, one call at a time in the whole process.
 * Such a function may call another one: the same thread may enter again. */
void fli_registry_enter(unsigned traits);
void fli_registry_leave(unsigned traits);

#endif
