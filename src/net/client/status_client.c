#include "net/client/status_client.h"

#include "base/number.h"
#include "net/cert/trust.h"
#include "net/client/http_client.h"

enum { MOST = 8 << 20 }; /* bytes */

struct fli_status_client {
    fl_ctx *ctx;
    fli_tls_files tls;
    fli_http_call *call;
};

static fl_status open_call(fli_status_client *c, const fli_status_client_spec *spec)
{
    fl_status s = spec->certs ? fli_tls_load(c->ctx, spec->certs, FLI_CERT_VIEWER, &c->tls) : FL_OK;
    if (s) return s;
    fli_http_call_spec call = {.url = spec->url,
                               .ca_path = c->tls.ca_path,
                               .cert_path = c->tls.cert_path,
                               .key_path = c->tls.key_path,
                               .plain = spec->insecure};
    return fli_http_call_new(c->ctx, &call, &c->call);
}

fl_status fli_status_client_new(fl_ctx *ctx, const fli_status_client_spec *spec, fli_status_client **out)
{
    fli_status_client *c = fli_alloc(ctx, 1, sizeof *c);
    *out = NULL;
    if (!c) return FL_ENOMEM;
    c->ctx = ctx;
    fl_status s = open_call(c, spec);
    if (s)
        fli_status_client_free(c);
    else
        *out = c;
    return s;
}

void fli_status_client_free(fli_status_client *c)
{
    if (!c) return;
    fli_http_call_free(c->call);
    fli_tls_free(&c->tls);
    fli_free(c);
}

fl_status fli_status_client_look(fli_status_client *c, json_t **out)
{
    fli_http_answer answer;
    *out = NULL;
    fli_clear(c->ctx);
    fli_http_call_end end = fli_http_call_get(c->call, FLI_NET_STATUS, -1, MOST, &answer);
    if (end != FLI_CALL_DONE)
        return fli_fail(c->ctx, end == FLI_CALL_WRONG ? FL_EREFUSED : FL_EIO, "%s", fli_http_call_why(c->call));
    locale_t before = fli_locale_enter();
    json_t *j = answer.code == 200 && !answer.cut ? json_loadb((const char *)answer.body, answer.n, 0, NULL) : NULL;
    fli_locale_leave(before);
    if (json_is_object(j)) {
        *out = j;
        return FL_OK;
    }
    json_decref(j);
    return fli_fail(c->ctx, FL_EREFUSED, "what the server says is no status of a federation");
}
