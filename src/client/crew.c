#include "client/crew.h"

static fl_status check_blas(fl_ctx *ctx, size_t threads)
{
    if (threads == 1 || fli_blas_thread_safe()) return FL_OK;
    return fli_fail(ctx, FL_ESYSTEM,
                    "this OpenBLAS is a serial build, which computes wrong numbers when called from several threads; "
                    "install its pthread flavour, or set threads to 1");
}

fl_status fli_crew_init(fl_ctx *ctx, const fli_model *m, const fli_site *site, size_t threads, fli_crew *crew)
{
    *crew = (fli_crew){0};
    fl_status s = fli_pool_new(ctx, site ? 1 : threads, &crew->pool);
    if (s) return s;
    crew->threads = fli_pool_threads(crew->pool);
    s = check_blas(ctx, crew->threads);
    if (!s && !(crew->evals = fli_alloc(ctx, crew->threads, sizeof *crew->evals))) s = FL_ENOMEM;
    for (size_t i = 0; !s && i < crew->threads; i++) {
        s = fli_eval_init(ctx, m, &crew->evals[i]);
        crew->evals[i].elsewhere = site ? site->elsewhere : NULL;
    }
    if (s) fli_crew_fini(crew);
    return s;
}

void fli_crew_fini(fli_crew *crew)
{
    for (size_t i = 0; crew->evals && i < crew->threads; i++) fli_eval_fini(&crew->evals[i]);
    fli_free(crew->evals);
    fli_pool_free(crew->pool);
    *crew = (fli_crew){0};
}
