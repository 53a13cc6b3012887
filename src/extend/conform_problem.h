/* Small generated federations on which conform.c tries methods. */
#ifndef FLI_EXTEND_CONFORM_PROBLEM_H
#define FLI_EXTEND_CONFORM_PROBLEM_H

#include "config/config.h"

typedef struct {
    const char *title; /* NULL ends the list */
    const char *yaml;
} fli_conform_problem;

/* In the order of trying: a method is tested on the first one that it supports. */
extern const fli_conform_problem fli_conform_problems[];

#endif
