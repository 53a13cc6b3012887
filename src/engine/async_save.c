#include "engine/async_inside.h"

#include "message/piece.h"

#include <math.h>

/* What has not come up may be about to: somebody writes there. */
static void save_flight(const fli_async *a, const fli_flight *f, fli_saver *out)
{
    fli_exchange_save(&a->space, a->algo, &f->x, f->worked, out);
    fli_save_count(out, f->version);
    fli_save_count(out, f->number);
    fli_save_real(out, f->arrival);
    fli_save_count(out, (uint64_t)(f->from - a->copies));
}

void fli_async_save(fli_async *a, fli_saver *out)
{
    size_t flying = 0;
    for (const fli_flight *f = a->oldest; f; f = f->after) flying++;
    a->saves++;
    fli_save_part(out, "arrivals");
    fli_save_count(out, a->version);
    fli_save_count(out, a->sent);
    fli_save_count(out, a->held);
    fli_save_real(out, a->clock);
    fli_save_bytes(out, &a->count, sizeof a->count);
    fli_save_count(out, flying);
    for (const fli_flight *f = a->oldest; f; f = f->after) save_flight(a, f, out);
    fli_save_count(out, a->current ? (uint64_t)(a->current - a->copies) : a->copy_count);
    for (size_t i = 0; i < a->copy_count; i++) {
        fli_save_count(out, a->copies[i].users != 0);
        if (!a->copies[i].users) continue;
        fli_save_count(out, a->copies[i].version);
        fli_save_piece(&a->space, a->copies[i].model.vec[0], a->bytes, out);
        fli_save_reals(a->copies[i].model.num, a->numbers, out);
    }
}

static fl_status load_flight(fli_async *a, fli_flight *f, fli_loader *in)
{
    f->worked = fli_exchange_load(&a->space, a->algo, a->spec.clients, &f->x, in);
    f->version = f->read = (size_t)fli_load_count(in, a->version);
    f->number = (size_t)fli_load_count(in, a->sent);
    f->arrival = fli_load_real(in);
    f->from = &a->copies[fli_load_count(in, a->copy_count - 1)];
    if (!fli_loader_status(in) && (fli_async_busy(a, f->x.ask.client) || !isfinite(f->arrival)))
        fli_loader_refuse(in, "does not fit this run: a client at work is impossible");
    if (fli_loader_status(in)) return fli_loader_status(in);
    f->x.down = &f->from->model;
    f->from->users++;
    fli_async_flip(a, f->x.ask.client);
    f->before = a->newest;
    *(a->newest ? &a->newest->after : &a->oldest) = f;
    a->newest = f;
    if (!a->spec.real) fli_async_enqueue(a, f);
    return FL_OK;
}

/* The models that went out; those that nobody has are spare. */
static void load_copies(fli_async *a, fli_loader *in)
{
    size_t current = (size_t)fli_load_count(in, a->copy_count);
    a->current = current < a->copy_count ? &a->copies[current] : NULL;
    if (a->current) a->current->users++;
    a->spare = NULL;
    for (size_t i = 0; i < a->copy_count; i++) {
        fli_sent_model *c = &a->copies[i];
        if ((int)fli_load_count(in, 1) != (c->users != 0))
            fli_loader_refuse(in, "does not fit this run: a model that went out is missing");
        if (!c->users) {
            c->next = a->spare;
            a->spare = c;
            continue;
        }
        c->version = (size_t)fli_load_count(in, a->version);
        fli_load_piece(&a->space, c->model.vec[0], a->bytes, in);
        fli_load_reals(c->model.num, a->numbers, in);
        c->model.start = fli_coordinator_broadcast(fli_exec_coordinator(a->spec.exec))->start;
    }
}

fl_status fli_async_load(fli_async *a, fli_loader *in)
{
    fl_status s = FL_OK;
    fli_load_part(in, "arrivals");
    a->version = (size_t)fli_load_count(in, SIZE_MAX);
    a->sent = (size_t)fli_load_count(in, SIZE_MAX);
    a->held = (size_t)fli_load_count(in, a->spec.pace.buffer - 1);
    a->clock = fli_load_real(in);
    fli_load_bytes(in, &a->count, sizeof a->count);
    size_t flying = (size_t)fli_load_count(in, a->spec.at_work);
    if (flying != (a->sent ? a->spec.at_work : 0))
        fli_loader_refuse(in, "does not fit this run: another number of clients is at work");
    for (size_t i = 0; i < flying && !s; i++) s = load_flight(a, &a->flights[i], in);
    if (s) return s;
    load_copies(a, in);
    if ((s = fli_loader_status(in)) || !a->sent) return s;
    fli_step step = fli_async_step(a);
    fli_coordinator_resume(fli_exec_coordinator(a->spec.exec), &step);
    return FL_OK;
}
