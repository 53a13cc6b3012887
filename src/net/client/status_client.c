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

static fl_status open_call(fli_status_client *w, const fli_status_client_spec *spec)
{
    fl_status s = spec->certs ? fli_tls_load(w->ctx, spec->certs, FLI_CERT_VIEWER, &w->tls) : FL_OK;
    if (s) return s;
    fli_http_call_spec call = {.url = spec->url,
                               .ca_path = w->tls.ca_path,
                               .cert_path = w->tls.cert_path,
                               .key_path = w->tls.key_path,
                               .plain = spec->insecure};
    return fli_http_call_new(w->ctx, &call, &w->call);
}

fl_status fli_status_client_new(fl_ctx *ctx, const fli_status_client_spec *spec, fli_status_client **out)
{
    fli_status_client *w = fli_alloc(ctx, 1, sizeof *w);
    *out = NULL;
    if (!w) return FL_ENOMEM;
    w->ctx = ctx;
    fl_status s = open_call(w, spec);
    if (s)
        fli_status_client_free(w);
    else
        *out = w;
    return s;
}

void fli_status_client_free(fli_status_client *w)
{
    if (!w) return;
    fli_http_call_free(w->call);
    fli_tls_free(&w->tls);
    fli_free(w);
}

fl_status fli_status_client_look(fli_status_client *w, json_t **out)
{
    fli_http_answer heard;
    *out = NULL;
    fli_clear(w->ctx);
    fli_http_call_end end = fli_http_call_get(w->call, FLI_NET_STATUS, -1, MOST, &heard);
    if (end != FLI_CALL_DONE)
        return fli_fail(w->ctx, end == FLI_CALL_WRONG ? FL_EREFUSED : FL_EIO, "%s", fli_http_call_why(w->call));
    locale_t before = fli_locale_enter();
    json_t *j = heard.code == 200 && !heard.cut ? json_loadb((const char *)heard.body, heard.n, 0, NULL) : NULL;
    fli_locale_leave(before);
    if (json_is_object(j)) {
        *out = j;
        return FL_OK;
    }
    json_decref(j);
    return fli_fail(w->ctx, FL_EREFUSED, "what the server says is no status of a federation");
}
