/* Settings that satisfy what a theorem asks for: what `check` advises, and what `check --fix` writes. */
#ifndef FLI_ALGO_FIXES_H
#define FLI_ALGO_FIXES_H

#include <stddef.h>

enum { FLI_FIXES_MAX = 24, FLI_FIX_VALUE = 48 };

/* One key and its value. It counts where one of the conditions fails: names as `check` has them, separated by '|'; a
 * name also stands for those that go on after a space, "(18)" for "(18) first". */
typedef struct {
    const char *conditions, *key;
    const char *why; /* in brackets behind it; NULL: nothing to add */
    int relative;    /* what the key was, times a factor: where there is one per client they stay as they are */
    char value[FLI_FIX_VALUE]; /* as YAML */
} fli_fix;

typedef struct {
    const struct fli_conditions *found; /* what `check` said */
    fli_fix at[FLI_FIXES_MAX];
    size_t count;
} fli_fixes;

/* A number, rounded to four digits: downwards where less is safe, upwards where more is. One that is not finite, or not
 * above 0, is no setting: nothing is added. */
void fli_fix_most(fli_fixes *out, const char *conditions, const char *key, double value, const char *why);
void fli_fix_least(fli_fixes *out, const char *conditions, const char *key, double value, const char *why);
/* The key's value now, divided or multiplied by how many times too large the left sides of these conditions are. For
 * conditions whose sides have a ratio that grows with the key (falls, for `grow`); whatever else they depend on is
 * looked at when they are checked again. */
void fli_fix_shrink(fli_fixes *out, const char *conditions, const char *key, double now, const char *why);
void fli_fix_grow(fli_fixes *out, const char *conditions, const char *key, double now, const char *why);
/* The same for conditions whose ratio grows with the key's square. */
void fli_fix_shrink_root(fli_fixes *out, const char *conditions, const char *key, double now, const char *why);
/* A value as it stands in a file. */
void fli_fix_word(fli_fixes *out, const char *conditions, const char *key, const char *value, const char *why);

/* What several theorems ask for: everyone in every round, local steps over all samples, no momentum, the same step size
 * in all rounds. */
void fli_fix_everyone(fli_fixes *out, const char *conditions);
void fli_fix_full_batch(fli_fixes *out, const char *conditions);
void fli_fix_plain_steps(fli_fixes *out, const char *conditions);
void fli_fix_constant_lr(fli_fixes *out, const char *conditions);

/* Whether this condition is among those that a row is for. */
int fli_fix_is_for(const fli_fix *f, const char *condition);

#endif
