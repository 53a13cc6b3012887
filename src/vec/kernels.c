#include "vec/kernels.h"

#include "base/number.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
/* Each tests for the instructions that its files are compiled with, see cmake/levels.cmake. */
static int has_v2(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("popcnt");
}

static int has_v3(void)
{
    return has_v2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static int has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

static void look_at_processor(void) { __builtin_cpu_init(); }

/* An older processor with the same instructions, which OpenBLAS knows. */
static const char *similar_core(void) { return has_v4() ? "SkylakeX" : has_v3() ? "Haswell" : NULL; }
#else
static void look_at_processor(void) {}

static const char *similar_core(void) { return NULL; }
#endif

#if FLI_LEVELS_X86
extern const fli_ops fli_ops_f32_v2, fli_ops_f32_v3, fli_ops_f32_v4, fli_ops_f64_v2, fli_ops_f64_v3, fli_ops_f64_v4;

const fli_kernels fli_kernels_list[] = {
    {"x86-64-v2", &fli_ops_f32_v2, &fli_ops_f64_v2, has_v2},
    {"x86-64-v3", &fli_ops_f32_v3, &fli_ops_f64_v3, has_v3},
    {"x86-64-v4", &fli_ops_f32_v4, &fli_ops_f64_v4, has_v4},
    {NULL, NULL, NULL, NULL},
};
#else
extern const fli_ops fli_ops_f32_own, fli_ops_f64_own;

static int yes(void) { return 1; }

const fli_kernels fli_kernels_list[] = {
    {FLI_LEVEL_NAME, &fli_ops_f32_own, &fli_ops_f64_own, yes},
    {NULL, NULL, NULL, NULL},
};
#endif

fli_ops fli_ops_f32, fli_ops_f64;
static const fli_kernels *now;
static char wish[32]; /* FEDLOOM_KERNELS when the program was loaded; "": not set */
static char all[96];  /* the text of fli_kernels_all */

const fli_kernels *fli_kernels_now(void) { return now; }
const char *fli_kernels_all(void) { return all; }

static const fli_kernels *highest(void)
{
    const fli_kernels *best = NULL;
    for (const fli_kernels *l = fli_kernels_list; l->name; l++)
        if (l->runs_here()) best = l;
    return best;
}

static int is_called(const fli_kernels *l, const char *word)
{
    const char *version = strrchr(l->name, '-');
    return !strcmp(l->name, word) || (version && !strcmp(version + 1, word));
}

static const fli_kernels *find(const char *word)
{
    for (const fli_kernels *l = fli_kernels_list; l->name; l++)
        if (is_called(l, word)) return l;
    return NULL;
}

/* Runs before main, so that the tables are constants. fli_kernels_check reports a wrong FEDLOOM_KERNELS. */
__attribute__((constructor)) static void choose(void)
{
    const char *word = getenv("FEDLOOM_KERNELS");
    look_at_processor();
    fli_snprintf(wish, sizeof wish, "%s", word ? word : "");
    const fli_kernels *asked = find(wish), *best = highest();
    now = asked && asked->runs_here() ? asked : best ? best : fli_kernels_list;
    fli_ops_f32 = *now->f32;
    fli_ops_f64 = *now->f64;
    fli_blas_look_again(similar_core());
    char blas[64];
    fli_blas_name(blas, sizeof blas);
    fli_snprintf(all, sizeof all, "%s, %s", now->name, blas);
}

static fl_status unknown(fl_ctx *ctx, const char *word)
{
    fli_text names;
    fli_text_init(&names, ctx);
    for (const fli_kernels *l = fli_kernels_list; l->name; l++)
        fli_text_addf(&names, "%s%s", l == fli_kernels_list ? "" : l[1].name ? ", " : " and ", l->name);
    fl_status s = fli_text_ok(&names);
    if (!s)
        s = fli_fail(ctx, FL_ECONFIG, "FEDLOOM_KERNELS is %s, but this program has kernels for %s only", word,
                     fli_text_get(&names));
    fli_text_fini(&names);
    return s;
}

fl_status fli_kernels_find(fl_ctx *ctx, const char *word, const fli_kernels **out)
{
    *out = find(word);
    if (!*out) return unknown(ctx, word);
    if ((*out)->runs_here()) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "FEDLOOM_KERNELS is %s, but this processor cannot run kernels for %s", word,
                    (*out)->name);
}

fl_status fli_kernels_check(fl_ctx *ctx)
{
    const fli_kernels *asked;
    if (*wish) return fli_kernels_find(ctx, wish, &asked);
    if (now->runs_here()) return FL_OK;
    return fli_fail(ctx, FL_ESYSTEM, "this processor is too old: the lowest that fedloom has kernels for is %s",
                    now->name);
}

fl_status fl_kernels(fl_ctx *ctx, const char **name)
{
    fli_clear(ctx);
    *name = now->name;
    return fli_kernels_check(ctx);
}
