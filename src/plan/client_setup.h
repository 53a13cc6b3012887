/* A client's part of a run, made from what it was told when it joined: the objective, the method and its parameters.
 * The server makes its own objective in the same way. */
#ifndef FLI_PLAN_CLIENT_SETUP_H
#define FLI_PLAN_CLIENT_SETUP_H

#include "client/card.h"
#include "config/settings.h"

/* The objective that settings describe, for samples of that shape (channels, height, width), sparse or not. The
 * settings must outlive it. */
fl_status fli_objective_new(fl_ctx *ctx, const fli_settings *s, const size_t shape[3], size_t classes, int sparse,
                            fli_model **out);

/* Settings as clients are told them: what names a file is the server's alone, and empty there. In the arena. */
fl_status fli_settings_tell(fli_arena *a, const fli_settings *s, fli_settings *told);

/* Whether a file that they name is there and no regular one: a pipe can be read once. */
int fli_settings_name_pipe(const fli_settings *s);

extern const fli_builder fli_client_setup_builder;
/* The builder's `make` for a client with a solver of its own, which takes the place of what the terms say of SGD; NULL:
 * it has none. */
fl_status fli_client_setup_make(fl_ctx *ctx, const fli_terms *t, const char *solver, fli_clients_spec *out, void **own);
/* The settings that came with the terms, of what the builder made. */
const fli_settings *fli_client_setup_settings(const void *own);

#endif
