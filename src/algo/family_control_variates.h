/* Common to FedCPSL and FedSHVR: control variates that are averages of a round's gradients, and averaging of
 * normalised changes.
 *
 *   client   SGD on f_i(z) + <c - c_i, z> from x                                              shift = c - c_i
 *            c_i <- c_i - (c + (x_i - x)/(lr Qt_i))
 *   server   x <- x + server_lr (N/m) sum_S w_i (x_i - x)/Qt_i
 *            c <- c - sum_S w_i (c + (x_i - x)/(lr Qt_i)), with the old c
 *
 * Qt_i is the gradients' total weight in the change: Q_i, or more with momentum. */
#ifndef FLI_ALGO_FAMILY_CONTROL_VARIATES_H
#define FLI_ALGO_FAMILY_CONTROL_VARIATES_H

#include "algo/algo.h"

enum { FLI_CONTROL_X, FLI_CONTROL_C };        /* server and broadcast */
enum { FLI_CONTROL_C_I, FLI_CONTROL_CLIENT }; /* client; a method's further vectors follow */
enum { FLI_CONTROL_DX, FLI_CONTROL_UP };      /* up; a method's further vectors follow */
enum { FLI_CONTROL_QT };                      /* scalar up */

extern const char *const fli_control_server[], *const fli_control_sums[];
extern const fl_part fli_control_down[];

#define FLI_CONTROL_PARTS .server = fli_control_server, .sums = fli_control_sums, .scalar_sums = 2, .work = 1

/* The part of an upload that all methods share. */
#define FLI_CONTROL_UPLOADS                                                                                            \
    {"x_i - x", FL_PART_VECTOR, FLI_CONTROL_DX, FL_PART_CHANGE},                                                       \
    {                                                                                                                  \
        "Qt_i", FL_PART_NUMBER, FLI_CONTROL_QT, FL_PART_VALUE                                                          \
    }

#define FLI_CONTROL_SERVER_LR(struct_)                                                                                 \
    FLI_KEY_REAL(struct_, server_lr, "0", 0, FLI_NO_MAX,                                                               \
                 "step size of the server; 0: the average number of local steps in the round")

int fli_control_pose(const fl_turn *t, fl_problem *p);
/* Uploads the change and its weight. `dc`, unless NULL, receives c_i+ - c_i. */
void fli_control_answer(const fl_turn *t, const fl_answer *a, void *dc);
int fli_control_absorb(const fl_coordinator *s, const fl_upload *t);
void fli_control_advance(const fl_coordinator *s, double server_lr);
/* The constants of [CPSL] (34) and of the bounds after it: one L, one largest and one smallest Qt, over all clients and
 * rounds. */
typedef struct {
    double l, qt, least_qt, most_rate, least_rate, share; /* rate: server_lr; share: m/N */
} fli_control_terms;
fli_control_terms fli_control_terms_of(double server_lr, const fl_facts_all *all);
/* The conditions of Theorem 1 of [CPSL] at one client, and (34) on all of them. */
void fli_control_check(const fl_facts *f, fl_conditions *out);
void fli_control_check_all(double server_lr, const fl_facts_all *all, fl_conditions *out);
/* (35): the number of rounds (fl_theory.promise). */
void fli_control_promise(double server_lr, const fl_facts_all *all, const fl_start_values *start, fl_promise *out);
void fli_control_fix(const void *params, const fl_facts *worst, fl_fixes *out);

#endif
