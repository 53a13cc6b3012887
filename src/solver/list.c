/* Every built-in solver. Methods choose among them; a configuration chooses those that have a title. */
#include "solver/solver.h"

const fl_solver *const fli_solver_list[] = {
    &fli_solver_sgd,
    &fli_solver_blocks,
    &fli_solver_gradient,
    &fli_solver_sgd_gradient,
    &fli_solver_pair,
    &fli_solver_exact,
    &fli_solver_accurate,
    &fli_solver_gram,
    &fli_solver_diagonal,
    &fli_solver_bilevel,
    NULL,
};
