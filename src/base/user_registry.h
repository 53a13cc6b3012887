/* What users register while the process runs, beside the lists of what comes with fedloom: one list per kind of thing,
 * for the whole process. Safe from any thread. */
#ifndef FLI_BASE_USER_REGISTRY_H
#define FLI_BASE_USER_REGISTRY_H

#include "base/ctx.h"
#include "fedloom_extend.h"

#include <pthread.h>

typedef struct fli_registry_item fli_registry_item;

typedef struct {
    pthread_mutex_t lock;
    fli_registry_item *first; /* in the order of their names' first registration */
    fli_registry_item *gone;  /* those forgotten: other threads may just be looking through the list */
    void (*free)(void *item); /* of an item that could not be added */
} fli_registry;

#define FLI_REGISTRY_INIT(free)                                                                                        \
    {                                                                                                                  \
        PTHREAD_MUTEX_INITIALIZER, NULL, NULL, free                                                                    \
    }

/* Takes the item, also on failure, when it is freed. The newest of a name is what `at` and `find` give; older ones stay
 * alive for the runs that have them. */
fl_status fli_registry_add(fl_ctx *ctx, fli_registry *list, const char *name, void *item);
/* Takes out all items of that name; nobody finds them from then on. 0: there was none. */
int fli_registry_forget(fli_registry *list, const char *name);
/* How often any list has changed: while it has not, a name stands for the same item. */
unsigned fli_registry_changes(void);
/* Number k, and by name; NULL: there is none. Numbers change when another thread forgets something, so that only a
 * name is sure to be found. "NAME@2" is the second that was registered under that name, the newest or not. */
const void *fli_registry_at(fli_registry *list, size_t k);
const void *fli_registry_find(fli_registry *list, const char *name);

/* A name that a configuration can have without quotes: letters, digits, _ and -, a letter first, at most 48. */
fl_status fli_registry_check_name(fl_ctx *ctx, const char *what, const char *name);

/* The message of a user's function that failed. The first one stays. Zeroed: nobody has failed. */
struct fl_failure {
    char text[512];
};
static inline int fli_has_failed(const fl_failure *f) { return f->text[0] != 0; }
/* Whether a function of the user's that returned this has failed: it may say so either way. */
static inline int fli_failed_by(int returned, const fl_failure *f) { return returned || fli_has_failed(f); }

/* The same in the words of a format; returns 1. */
int fli_refuse(fl_failure *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Around every call of a user's function: with FL_SERIAL among its traits one at a time, over the whole process. A
 * function may lead to another of the user's: the same thread may enter again. */
void fli_registry_enter(unsigned traits);
void fli_registry_leave(unsigned traits);

#endif
