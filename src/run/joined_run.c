#include "run/joined_run.h"

#include "exec/mailbox.h"
#include "run/member.h"

#include <string.h>

fl_status fli_joined_run_init(fl_config *cfg, const fli_settings *s, const fli_look *clients, const fli_digest *cards,
                              fli_joined_run *j)
{
    fli_fed_spec spec = fli_settings_fed(s, NULL);
    fli_dataset *test = NULL;
    *j = (fli_joined_run){.data.samples = *cards};
    fl_status status = cfg->memory.test.size ? fli_memory_borrow(cfg->ctx, &cfg->memory.test, &test)
                                             : fli_joined_test(cfg->ctx, &spec, clients, &test);
    if (!status) status = fli_fed_joined(cfg->ctx, &spec, clients, test, &j->data.fed);
    if (!status) status = fli_mailbox_new(cfg->ctx, cards, &s->server, &j->data.mailbox);
    if (!status) status = fli_run_new(cfg, &j->data, &j->run);
    if (status) fli_joined_run_fini(j);
    return status;
}

void fli_joined_run_fini(fli_joined_run *j)
{
    fl_run_free(j->run);
    fli_mailbox_free(j->data.mailbox);
    fli_fed_free(j->data.fed);
    *j = (fli_joined_run){0};
}

/* ---- before anybody has joined ---------------------------------------------------------------------------- */

/* Clients as they might be. What is said of all of them does not depend on what clients say of themselves, so a rule
 * needs no mark for that. Ordinary ones come first, as most settings are good for them and the others are not tried. */
static const struct {
    fli_xkind kind;
    size_t samples;
} imagined[] = {{FLI_X_F32, 1000}, {FLI_X_F32, 1}, {FLI_X_U8, 1000}, {FLI_X_CSR, 1000}};

static int has_line(const char *text, const char *line, size_t length)
{
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n");
        if (n == length && !memcmp(at, line, n)) return 1;
        at += n + (at[n] == '\n');
    }
    return 0;
}

/* Keeps the lines of `said` that are also in `now`. */
static void keep_common(char *said, const char *now)
{
    char *to = said;
    for (const char *at = said; *at;) {
        size_t n = strcspn(at, "\n"), step = n + (at[n] == '\n');
        if (has_line(now, at, n)) {
            memmove(to, at, step);
            to += step;
        }
        at += step;
    }
    while (to > said && to[-1] == '\n') to--;
    *to = 0;
}

/* A run of such clients, made and given up again. */
static fl_status try_with(fl_config *cfg, const fli_settings *s, fli_look client, fli_look *room)
{
    const fli_digest nobody = {{0}};
    fli_joined_run j;
    for (int64_t i = 0; i < s->partition.clients; i++) room[i] = client;
    fli_clear(cfg->ctx);
    fl_status status = fli_joined_run_init(cfg, s, room, &nobody, &j);
    if (!status) fli_joined_run_fini(&j);
    return status;
}

fl_status fli_joined_run_rehearse(fl_config *cfg, const fli_settings *s, const fli_look *all, fli_look *room)
{
    enum { WAYS = sizeof imagined / sizeof *imagined };
    fl_status status = FL_OK;
    char *said = NULL;
    if (fli_settings_name_pipe(s)) return FL_OK; /* it can be read once, and that is for the run */
    for (size_t k = 0; k < WAYS && (!said || *said); k++) {
        fli_look client = *all;
        client.kind = imagined[k].kind;
        client.samples = imagined[k].samples;
        if (!(status = try_with(cfg, s, client, room))) break;
        if (said) keep_common(said, fl_ctx_error(cfg->ctx));
        if (!said && !(said = fli_strdup(cfg->ctx, fl_ctx_error(cfg->ctx)))) return FL_ENOMEM;
    }
    fli_clear(cfg->ctx);
    status = status && *said ? fli_fail(cfg->ctx, status, "%s", said) : FL_OK;
    fli_free(said);
    return status;
}
