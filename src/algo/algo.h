/* An algorithm is a descriptor. It poses local problems and reads the answers; it never trains, allocates, prints or
 * sends. Its tables name its vectors; the engine allocates, zeroes, ships and counts them.
 *
 * One round: for every client of the cohort, in parallel, `pose`, solve, `answer`; then on the server, in client order,
 * `absorb` for each, and `advance` once. */
#ifndef FLI_ALGO_ALGO_H
#define FLI_ALGO_ALGO_H

#include "algo/message.h"
#include "algo/theory.h"
#include "base/user_registry.h"
#include "bilevel/bilevel.h"
#include "format/keys.h"
#include "solver/solver.h"
#include "vec/space.h"

/* A trait in addition to those of fedloom_extend.h: the method is registered, so that a user's functions are called. */
#define FLI_METHOD_REGISTERED 0x80000000u

/* fl_coordinator.engine */
typedef struct {
    void (*prox)(const void *arg, double eta, void *x);
    double (*weight)(const void *arg, size_t client);
    const void *arg;
    int whole; /* fl_prox may be called: the step is for whole vectors, or there is no regulariser */
} fli_server_engine;

#define FLI_TUNE_LR                                                                                                    \
    {                                                                                                                  \
        "local.lr", 0.001, 1, 1                                                                                        \
    }

extern const fl_method *const fli_algo_list[]; /* NULL-terminated */

#define FLI_LOCAL_REMEDY "a smaller local.lr"
const char *fli_algo_remedy(const fl_method *a);        /* never NULL */
const fl_tune_range *fli_algo_tune(const fl_method *a); /* never NULL */
/* Word i of a list of solvers such as "gradient|sgd"; a single name counts for all i. 0: there is none. */
int fli_algo_solver_word(const char *list, size_t i, char *buf, size_t size);
/* The solver of that name, built in or registered; NULL if there is none. */
const fl_solver *fli_algo_solver_named(const char *name);
/* The solvers of local problems on this model: all that any stage uses, each once, and the index of each stage's
 * solver. `own` replaces SGD; it may be NULL. */
typedef struct {
    const fl_solver *at[FL_STAGES];
    size_t count;
    unsigned char of[FL_STAGES];
} fli_solvers;
fli_solvers fli_algo_solvers(const fl_method *a, const void *params, const fli_model *m, const fl_solver *own);
/* Whether the method poses problems for SGD only, so that a registered solver may replace SGD. */
int fli_algo_takes_solver(const fl_method *a, const void *params);
/* The moment of an ask, which determines the parts that are sent with it (message.h). */
unsigned fli_algo_moment(const fl_method *a, const void *params, const fl_ask *ask);
/* The phase after the last exchange with the cohort of this phase. */
size_t fli_algo_cohort_end(const fl_method *a, const void *params, size_t phase, size_t phases);
/* The cost of the turn of an ask, in gradients of mini-batches; `e` gives the mini-batches of an epoch. */
size_t fli_algo_cost(const fl_method *a, const void *params, const fli_solvers *all, const fl_ask *ask,
                     const fl_epochs *e);
/* The ask that the client gets: without data about other clients that its turn does not need. */
fl_ask fli_algo_tell(const fl_method *a, const fl_ask *ask);
/* Whether a client's first turn differs from others: it gets the start model, or other parts are sent either way. */
int fli_algo_shows_start(const fl_method *a);
size_t fli_names_count(const char *const *names); /* NULL counts as empty */
/* The size of a client's state; `watched`: in runs that measure the potential. */
size_t fli_algo_client_vectors(const fl_method *a, int watched);
size_t fli_algo_client_scalars(const fl_method *a, int watched);
size_t fli_algo_own_model(const fl_method *a); /* 1 + the index of the client vector that is its own model, or 0 */
int fli_algo_is_async(const fl_method *a);

/* ==== calling a method ==================================================================================== */

/* All calls of a method's functions go through these functions, or are placed between fli_algo_enter and
 * fli_algo_leave, so that a registered method with FL_SERIAL is called one at a time. */
void fli_algo_enter(const fl_method *a);
void fli_algo_leave(const fl_method *a);

/* Steps. A failure leaves a sentence in the failure of the turn or the server. */
void fli_algo_start(const fl_method *a, const fl_coordinator *s); /* optional function */
void fli_algo_pose(const fl_method *a, const fl_turn *t, fl_problem *p);
void fli_algo_answer(const fl_method *a, const fl_turn *t, const fl_answer *answer);
void fli_algo_absorb(const fl_method *a, const fl_coordinator *s, const fl_upload *u);
void fli_algo_advance(const fl_method *a, const fl_coordinator *s);

/* Groups; each call applies the default of a missing function. */
int fli_algo_warms_up(const fl_method *a, const void *params);
int fli_algo_exchanges(const fl_method *a, const void *params, size_t round, double coin);
size_t fli_algo_phases(const fl_method *a, const void *params, double coin);
int fli_algo_redraws(const fl_method *a, const void *params, size_t phase, size_t phases);
size_t fli_algo_stage(const fl_method *a, const void *params, size_t phase, size_t phases);
size_t fli_algo_steps(const fl_method *a, const void *params, double coin); /* of methods with rounds.steps */
fl_pace fli_algo_pace(const fl_method *a, const void *params);              /* {0}: there are rounds */
double fli_algo_mix(const fl_method *a, const void *params, size_t client, const double *scalars);

/* ==== the list of algorithms ============================================================================== */

/* To add one: its file, a line here, a line in list.c. */

extern const fl_method fli_algo_fedavg;
extern const fl_method fli_algo_local_sgd;
extern const fl_method fli_algo_fedprox;
extern const fl_method fli_algo_fednova;
extern const fl_method fli_algo_scaffold;
extern const fl_method fli_algo_vrl_sgd;
extern const fl_method fli_algo_feddyn;
extern const fl_method fli_algo_fedpd;
extern const fl_method fli_algo_fedvra;
extern const fl_method fli_algo_fedadmm;
extern const fl_method fli_algo_feddr;
extern const fl_method fli_algo_fedsplit;
extern const fl_method fli_algo_fedgia;
extern const fl_method fli_algo_asyncfeddr;
extern const fl_method fli_algo_fedasync;
extern const fl_method fli_algo_fedbuff;
extern const fl_method fli_algo_fedvra_u;
extern const fl_method fli_algo_fedcpsl;
extern const fl_method fli_algo_fedshvr;
extern const fl_method fli_algo_fedshvrp;
extern const fl_method fli_algo_apfl;
extern const fl_method fli_algo_apsfl;
extern const fl_method fli_algo_simfbo;
extern const fl_method fli_algo_shrofbo;
extern const fl_method fli_algo_fednest;
extern const fl_method fli_algo_lfednest;
extern const fl_method fli_algo_fbo_aggitd;
extern const fl_method fli_algo_fedadam;
extern const fl_method fli_algo_fedyogi;
extern const fl_method fli_algo_fedadagrad;
extern const fl_method fli_algo_mime_lite;
extern const fl_method fli_algo_fedlin;
extern const fl_method fli_algo_scaffnew;

#endif
