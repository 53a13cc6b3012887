#include "net/client/join_settings.h"

#include "config/config.h"

#include <string.h>

const fli_key fli_join_keys[] = {
    FLI_KEY_STRING(fli_join_settings, url, "", "the server, such as https://host:8443"),
    FLI_KEY_STRING(fli_join_settings, certs, "",
                   "folder with this client's ca.pem, cert.pem and key.pem, as `fedloom cert client` makes it"),
    FLI_KEY_STRING(fli_join_settings, name, "", "over plain HTTP: the client's name; else its certificate says it"),
    FLI_KEY_BOOL(fli_join_settings, insecure_http, "false",
                 "lets the URL be http://, to this machine itself alone: for trials"),
    FLI_KEY_STRING(fli_join_settings, keep, "",
                   "folder for what the client keeps between turns; '' for fedloom-NAME in the current folder"),
    FLI_KEY_STRING(fli_join_settings, proxy, "", "URL of a proxy; '' for none, whatever the environment says"),
    FLI_KEY_REAL(fli_join_settings, patience, "0", 0, FLI_NO_MAX,
                 "seconds without a server after which to give up; 0: never"),
    FLI_KEY_BOOL(fli_join_settings, digest, "false",
                 "tells the server a digest of the samples, so that it notices if they are others than before"),
    FLI_KEY_END,
};

/* Moves the child with that key from one map to the other. */
static void move(fli_node *from, const char *key, fli_node *to)
{
    for (fli_node **at = &from->first; *at; at = &(*at)->next)
        if (!strcmp((*at)->key, key)) {
            fli_node *n = *at;
            *at = n->next;
            n->next = NULL;
            fli_node_append(to, n);
            return;
        }
}

fl_status fli_join_settings_take(fl_config *cfg, fli_join_settings *out)
{
    const fli_table table = {fli_join_keys, out};
    fli_arena *a = &out->arena;
    memset(out, 0, sizeof *out);
    fli_arena_init(a, cfg->ctx);
    fli_clear(cfg->ctx);
    fli_node *own = fli_node_new(a, FLI_NODE_MAP, NULL, NULL), *limits = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    if (!own || !limits) return FL_ENOMEM;
    for (const fli_key *k = fli_join_keys; k->name; k++) move(cfg->root, k->name, own);
    move(cfg->root, "limits", limits);
    fl_status s = fli_bind(cfg->ctx, a, "", own, NULL, &table, 1);
    fl_status t = fli_join_limits_bind(cfg->ctx, a, limits->first, &out->limits);
    return s ? s : t;
}

void fli_join_settings_fini(fli_join_settings *s) { fli_arena_fini(&s->arena); }
