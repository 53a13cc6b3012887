/* A client's setup: objective, method, parameters and solvers, made from the terms that it accepted when it joined. The
 * server makes its own objective in the same way (fli_objective_new). Samples and state are not here; see
 * half/client.c. */
#ifndef FLI_PLAN_CLIENT_SETUP_H
#define FLI_PLAN_CLIENT_SETUP_H

#include "client/card.h"
#include "config/settings.h"

/* The objective that settings describe, for samples of that shape (channels, height, width), sparse or not. The
 * settings must outlive it. */
fl_status fli_objective_new(fl_ctx *ctx, const fli_settings *s, const size_t shape[3], size_t classes, int sparse,
                            fli_model **out);

/* The settings that are sent to clients: keys that name files are for the server alone, and are empty there. In the
 * arena. */
fl_status fli_settings_for_clients(fli_arena *a, const fli_settings *s, fli_settings *out);

/* Whether a file that they name is there and no regular one: a pipe can be read once. */
int fli_settings_name_pipe(const fli_settings *s);

extern const fli_builder fli_client_setup_builder;
/* The builder's `make` for a client with a solver of its own, which takes the place of what the terms say of SGD; NULL:
 * it has none. */
fl_status fli_client_setup_make(fl_ctx *ctx, const fli_terms *t, const char *solver, fli_setup *out, void **made);
/* The settings that came with the terms, of what the builder made. */
const fli_settings *fli_client_setup_settings(const void *made);

#endif
