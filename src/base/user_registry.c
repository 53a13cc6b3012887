#include "base/user_registry.h"

#include "base/number.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
enum { LONGEST = 48 };

struct fli_registry_item {
    char name[LONGEST + 1];
    void *item;
    unsigned long number;     /* within its name, from 1 */
    fli_registry_item *older; /* of the same name */
    fli_registry_item *next;
};

fl_status fli_registry_check_name(fl_ctx *ctx, const char *what, const char *name)
{
    if (!name || !*name) return fli_fail(ctx, FL_ECONFIG, "%s needs a name", what);
    size_t n = strspn(name, LETTERS "0123456789_-");
    if (name[n] || n > LONGEST || !strspn(name, LETTERS))
        return fli_fail(ctx, FL_ECONFIG,
                        "%s is called '%.60s', but a name has letters, digits, _ and -, a letter first, and at most %d "
                        "of them",
                        what, name, LONGEST);
    return FL_OK;
}

/* Compares the first n letters of `name`: all of it, or the part before the @. */
static fli_registry_item **slot_of(fli_registry *list, const char *name, size_t n)
{
    fli_registry_item **p = &list->first;
    while (*p && (strncmp((*p)->name, name, n) || (*p)->name[n])) p = &(*p)->next;
    return p;
}

static atomic_uint changes;

unsigned fli_registry_changes(void) { return changes; }

fl_status fli_registry_add(fl_ctx *ctx, fli_registry *list, const char *name, void *item)
{
    fl_status s = fli_registry_check_name(ctx, "what is registered", name);
    fli_registry_item *new = s ? NULL : fli_alloc(ctx, 1, sizeof *new);
    if (!new) {
        list->free(item);
        return s ? s : FL_ENOMEM;
    }
    memcpy(new->name, name, strlen(name) + 1);
    new->item = item;
    new->number = 1;
    pthread_mutex_lock(&list->lock);
    fli_registry_item **p = slot_of(list, name, strlen(name));
    if (*p) {
        new->number = (*p)->number + 1;
        new->older = *p;
        new->next = (*p)->next;
        new->older->next = NULL;
    }
    *p = new;
    changes++;
    pthread_mutex_unlock(&list->lock);
    return FL_OK;
}

int fli_registry_forget(fli_registry *list, const char *name)
{
    pthread_mutex_lock(&list->lock);
    fli_registry_item **p = slot_of(list, name, strlen(name)), *gone = *p;
    if (gone) {
        *p = gone->next;
        gone->next = list->gone;
        list->gone = gone;
        changes++;
    }
    pthread_mutex_unlock(&list->lock);
    return gone != NULL;
}

const void *fli_registry_at(fli_registry *list, size_t k)
{
    pthread_mutex_lock(&list->lock);
    const fli_registry_item *i = list->first;
    while (i && k--) i = i->next;
    const void *item = i ? i->item : NULL;
    pthread_mutex_unlock(&list->lock);
    return item;
}

const void *fli_registry_find(fli_registry *list, const char *name)
{
    size_t n = strcspn(name, "@");
    unsigned long number = name[n] ? strtoul(name + n + 1, NULL, 10) : 0;
    pthread_mutex_lock(&list->lock);
    const fli_registry_item *i = *slot_of(list, name, n);
    while (i && name[n] && i->number != number) i = i->older;
    const void *item = i ? i->item : NULL;
    pthread_mutex_unlock(&list->lock);
    return item;
}

static pthread_mutex_t serial;
static pthread_once_t serial_ready = PTHREAD_ONCE_INIT;

static void make_serial(void)
{
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&serial, &again);
    pthread_mutexattr_destroy(&again);
}

void fli_registry_enter(unsigned traits)
{
    if (!(traits & FL_SERIAL)) return;
    pthread_once(&serial_ready, make_serial);
    pthread_mutex_lock(&serial);
}

void fli_registry_leave(unsigned traits)
{
    if (traits & FL_SERIAL) pthread_mutex_unlock(&serial);
}

void fl_failed(fl_failure *f, const char *sentence)
{
    if (f->text[0]) return;
    fli_snprintf(f->text, sizeof f->text, "%s", sentence && *sentence ? sentence : "no reason was given");
    for (char *c = f->text; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' '; /* one sentence is one line */
}

int fli_refuse(fl_failure *f, const char *fmt, ...)
{
    char text[sizeof f->text];
    va_list args;
    va_start(args, fmt);
    fli_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fl_failed(f, text);
    return 1;
}
