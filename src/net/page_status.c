/* For those who look on. */
#include "net/pages.h"

#include "base/clock.h"
#include "base/number.h"

#include <jansson.h>
#include <string.h>

fli_reply fli_page_health(void *arg, fli_request *r)
{
    (void)arg;
    (void)r;
    return fli_reply_text(200, "text/plain; charset=utf-8", strdup("ok\n"));
}

static json_t *counted(const fli_net_counters *c)
{
    const struct {
        const char *name;
        const atomic_uint_fast64_t *value;
    } all[] = {
        {"requests", &c->requests},
        {"bytes_in", &c->bytes_in},
        {"bytes_out", &c->bytes_out},
        {"asks", &c->asks},
        {"deliveries", &c->deliveries},
        {"answers", &c->answers},
        {"repeated", &c->repeated},
        {"late", &c->late},
        {"malformed", &c->malformed},
        {"rejected", &c->rejected},
        {"refused", &c->refused},
        {"dropped", &c->dropped},
        {"unauthorized", &c->unauthorized},
        {"turned_away", &c->turned_away},
        {"busy", &c->busy},
        {"cut_off", &c->cut_off},
        {"connections", &c->connections},
        {"waiting", &c->waiting},
        {"body_bytes", &c->body_bytes},
    };
    json_t *j = json_object();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        json_object_set_new(j, all[i].name, json_integer((json_int_t)atomic_load(all[i].value)));
    return j;
}

fli_reply fli_page_status(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    (void)r;
    pthread_mutex_lock(&d->lock);
    size_t round = d->round, rounds = d->rounds;
    pthread_mutex_unlock(&d->lock);
    locale_t before = fli_locale_enter();
    json_t *j = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "state",
                          fli_net_phase_name(fli_dispatch_phase(d->dispatch)), "round", (json_int_t)round, "rounds",
                          (json_int_t)rounds, "clients", (json_int_t)d->outline.clients, "missing",
                          (json_int_t)(d->outline.clients - fli_roster_kept(d->roster)), "awaited",
                          (json_int_t)fl_server_awaited(d->server, NULL, 0), "seconds", fli_clock_now() - d->begun,
                          "counters", counted(&d->counters));
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    fli_locale_leave(before);
    return fli_reply_json(text);
}
