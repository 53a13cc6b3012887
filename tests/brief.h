/* Tests that repeat the same at many places do less of it where they are asked to be brief: under sanitizers, which
 * make all of it slower. tests/run.sh asks (FEDLOOM_BRIEF=1); tests/README.md has the list. */
#ifndef TESTS_BRIEF_H
#define TESTS_BRIEF_H

#include <stdlib.h>

static inline int brief(void)
{
    const char *asked = getenv("FEDLOOM_BRIEF");
    return asked && *asked && *asked != '0';
}

#endif
