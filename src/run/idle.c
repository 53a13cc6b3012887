#include "run/idle.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

/* On the real clock ranks do not wait for each other, but a thread may have nothing to do. */
static double waited(const fl_run *run)
{
    int real = run->async && run->plan.settings.top.clock == FLI_CLOCK_REAL;
    return real ? fli_async_idle(run->async) : run->plan.waits.seconds;
}

void fli_idle_begin(fl_run *run)
{
    run->spell.seconds -= fli_clock_now();
    run->spell.waited -= waited(run);
}

void fli_idle_end(fl_run *run)
{
    run->spell.seconds += fli_clock_now();
    run->spell.waited += waited(run);
}

static double share(const fli_spell *s) { return s->seconds > 0 ? s->waited / s->seconds : 0; }

/* What a rank has, among those of all. */
static fl_status gather(fl_run *run, fli_spell *all)
{
    const fl_ranks *r = &run->plan.ranks;
    size_t *at = fli_alloc(run->ctx, r->count + 1, sizeof *at);
    if (!at) return FL_ENOMEM;
    for (uint32_t i = 0; i <= r->count; i++) at[i] = i * sizeof *all;
    all[r->rank] = run->spell;
    fl_status s = fli_ranks_gather(run->ctx, r, all, at);
    fli_free(at);
    return s;
}

fl_status fli_idle_take(fl_run *run)
{
    const fl_ranks *r = &run->plan.ranks;
    if (!fli_ranked(r)) return FL_OK;
    if (!run->spells && !(run->spells = fli_alloc(run->ctx, r->count, sizeof *run->spells))) return FL_ENOMEM;
    fli_spell *now = fli_alloc(run->ctx, r->count, sizeof *now);
    fl_status s = now ? gather(run, now) : FL_ENOMEM;
    double sum = 0, most = 0, passed = 0;
    for (uint32_t i = 0; !s && i < r->count; i++) {
        sum += share(&now[i]);
        most = fmax(most, share(&now[i]));
        passed += now[i].seconds;
        run->spells[i].seconds += now[i].seconds;
        run->spells[i].waited += now[i].waited;
    }
    run->counts.idle = passed > 0 ? sum / r->count : NAN;
    run->counts.idle_most = passed > 0 ? most : NAN;
    run->spell = (fli_spell){0};
    fli_free(now);
    return s;
}

void fli_idle_report(const fl_run *run)
{
    uint32_t count = run->plan.ranks.count, worst = 0;
    double sum = 0;
    if (!run->spells) return;
    for (uint32_t i = 0; i < count; i++) {
        sum += share(&run->spells[i]);
        if (share(&run->spells[i]) > share(&run->spells[worst])) worst = i;
    }
    fli_log(run->ctx, FL_LOG_INFO, "%u ranks: idle %.1f%% of the time, rank %u the most, %.1f%%", count,
            100 * sum / count, worst, 100 * share(&run->spells[worst]));
}

void fli_idle_csv(fli_text *t, const fl_run *run)
{
    const fli_plan *p = &run->plan;
    fli_text_add(t, "rank,clients,samples,seconds_at_work,seconds_idle\n");
    for (uint32_t i = 0; run->spells && i < p->ranks.count; i++) {
        const fli_spell *s = &run->spells[i];
        fli_text_addf(t, "%u,%zu,%zu,%.6f,%.6f\n", i, p->shards.of[i].clients, p->shards.of[i].samples,
                      s->seconds - s->waited, s->waited);
    }
}
