/* Methods of a user's that fail in one of their functions. */
#ifndef TESTS_SABOTEUR_H
#define TESTS_SABOTEUR_H

#include "own_methods.h"

#include <string.h>

/* Fails in one call, and counts calls after that. */
typedef struct {
    const char *where;
    unsigned client;
    uint64_t round;
    int silent, any;
    _Atomic int failed, later;
} saboteur;

static int sabotage(saboteur *s, const char *where, const fl_ask *ask, fl_failure *f)
{
    s->later += s->failed;
    if (strcmp(s->where, where) || (ask && (ask->client != s->client || (!s->any && ask->round != s->round)))) return 0;
    s->failed = 1;
    if (!s->silent) fl_failed(f, "the disk is on fire");
    fl_failed(f, "a later sentence");
    return 7;
}

static int bad_start(const fl_coordinator *s) { return sabotage(s->arg, "start", NULL, s->failure); }
static int bad_pose(const fl_turn *t, fl_problem *p)
{
    scaffold_pose(t, p);
    return sabotage(t->arg, "pose", &t->ask, t->failure);
}
static int bad_answer(const fl_turn *t, const fl_answer *a)
{
    scaffold_answer(t, a);
    return sabotage(t->arg, "answer", &t->ask, t->failure);
}
static int bad_absorb(const fl_coordinator *s, const fl_upload *u)
{
    scaffold_absorb(s, u);
    return sabotage(s->arg, "absorb", &u->ask, s->failure);
}
static int bad_advance(const fl_coordinator *s)
{
    scaffold_advance(s);
    return sabotage(s->arg, "advance", NULL, s->failure);
}

/* SCAFFOLD that fails where the saboteur says. */
static inline fl_method bad_method(saboteur *s)
{
    fl_method m = own_scaffold;
    m.name = "bad";
    m.arg = s;
    m.start = bad_start;
    m.pose = bad_pose;
    m.answer = bad_answer;
    m.absorb = bad_absorb;
    m.advance = bad_advance;
    return m;
}

static int async_bad_pose(const fl_turn *t, fl_problem *p)
{
    fedasync_pose(t, p);
    return sabotage(t->arg, "pose", &t->ask, t->failure);
}
static int async_bad_absorb(const fl_coordinator *s, const fl_upload *u)
{
    fedasync_absorb(s, u);
    return sabotage(s->arg, "absorb", NULL, s->failure);
}
static int async_bad_start(const fl_coordinator *s) { return sabotage(s->arg, "start", NULL, s->failure); }

/* And FedAsync: in start, pose or absorb. */
static inline fl_method bad_async_method(saboteur *s)
{
    fl_method m = own_fedasync;
    m.name = "bad";
    m.arg = s;
    m.start = async_bad_start;
    m.pose = async_bad_pose;
    m.absorb = async_bad_absorb;
    return m;
}

#endif
