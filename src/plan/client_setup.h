/* A client's setup: objective, method, parameters and solvers, made from the terms that it accepted when it joined. The
 * server makes its own objective in the same way (fli_objective_new). Samples and state are elsewhere:
 * half/client.c. */
#ifndef FLI_PLAN_CLIENT_SETUP_H
#define FLI_PLAN_CLIENT_SETUP_H

#include "client/card.h"
#include "config/settings.h"

/* The objective of the settings, for samples of that shape (channels, height, width), sparse or not. The settings must
 * outlive it. */
fl_status fli_objective_new(fl_ctx *ctx, const fli_settings *s, const size_t shape[3], size_t classes, int sparse,
                            fli_model **out);

/* The settings that are sent to clients: keys that name files are for the server alone, and are empty in them.
 * Allocated in the arena. */
fl_status fli_settings_for_clients(fli_arena *a, const fli_settings *s, fli_settings *out);

/* Whether a file that they name exists and is not a regular one: a pipe can be read only once. */
int fli_settings_name_pipe(const fli_settings *s);

extern const fli_builder fli_client_setup_builder;
/* `make` of the builder, for a client with its own solver, which replaces the terms' solver for SGD's problems; NULL:
 * it has none. */
fl_status fli_client_setup_make(fl_ctx *ctx, const fli_terms *t, const char *solver, fli_setup *out, void **made);
/* The settings in the terms from which `made` was made. */
const fli_settings *fli_client_setup_settings(const void *made);

#endif
