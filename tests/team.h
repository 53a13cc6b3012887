/* Ranks as threads of one process: a table for fl_config_ranks without MPI. Every rank is a thread with a context of
 * its own; they meet at a barrier for what is done together, and messages are copied from one to the other. */
#ifndef TESTS_TEAM_H
#define TESTS_TEAM_H

#include "fedloom_ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct team_message {
    uint32_t from, to, number;
    size_t n;
    struct team_message *next;
    unsigned char bytes[];
} team_message;

typedef struct {
    uint32_t from, number;
    void *bytes;
    size_t n, mark;
} team_wait;

typedef struct {
    uint32_t count;
    pthread_barrier_t meet;
    pthread_mutex_t lock;
    pthread_cond_t news;
    team_message *first, **last;
    void *shown[64];
    size_t bytes; /* that were sent, by all ranks together */
} team;

typedef struct {
    team *team;
    uint32_t rank;
    team_wait *waits;
    size_t waiting, room;
    void *sum;
} team_rank;

static inline void team_count(team *t, size_t bytes)
{
    pthread_mutex_lock(&t->lock);
    t->bytes += bytes;
    pthread_mutex_unlock(&t->lock);
}

static inline fl_status team_gather(void *arg, void *all, const size_t *at)
{
    team_rank *r = arg;
    team *t = r->team;
    t->shown[r->rank] = all;
    team_count(t, (at[r->rank + 1] - at[r->rank]) * (t->count - 1));
    pthread_barrier_wait(&t->meet);
    for (uint32_t i = 0; i < t->count; i++)
        if (i != r->rank && at[i + 1] > at[i])
            memcpy((char *)all + at[i], (char *)t->shown[i] + at[i], at[i + 1] - at[i]);
    pthread_barrier_wait(&t->meet);
    return FL_OK;
}

static inline fl_status team_add(void *arg, void *v, size_t n, size_t real)
{
    team_rank *r = arg;
    team *t = r->team;
    void *sum = calloc(n, real);
    t->shown[r->rank] = v;
    team_count(t, n * real);
    pthread_barrier_wait(&t->meet);
    for (uint32_t k = 0; k < t->count; k++)
        for (size_t i = 0; i < n; i++)
            if (real == 4)
                ((float *)sum)[i] += ((float *)t->shown[k])[i];
            else
                ((double *)sum)[i] += ((double *)t->shown[k])[i];
    pthread_barrier_wait(&t->meet);
    memcpy(v, sum, n * real);
    free(sum);
    return FL_OK;
}

static inline fl_status team_send(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n)
{
    team_rank *r = arg;
    team *t = r->team;
    team_message *m = malloc(sizeof *m + n);
    *m = (team_message){.from = r->rank, .to = to, .number = number, .n = n};
    memcpy(m->bytes, bytes, n);
    pthread_mutex_lock(&t->lock);
    *t->last = m;
    t->last = &m->next;
    t->bytes += n;
    pthread_cond_broadcast(&t->news);
    pthread_mutex_unlock(&t->lock);
    return FL_OK;
}

static inline fl_status team_expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark)
{
    team_rank *r = arg;
    if (r->waiting == r->room) {
        r->room = 2 * r->room + 16;
        r->waits = realloc(r->waits, r->room * sizeof *r->waits);
    }
    r->waits[r->waiting++] = (team_wait){from, number, bytes, n, mark};
    return FL_OK;
}

/* The first message that somebody waits for here; the earliest wait of those for the same. */
static inline int team_match(team_rank *r, size_t *mark)
{
    team *t = r->team;
    for (team_message **at = &t->first; *at; at = &(*at)->next) {
        team_message *m = *at;
        for (size_t i = 0; m->to == r->rank && i < r->waiting; i++) {
            team_wait w = r->waits[i];
            if (w.from != m->from || w.number != m->number) continue;
            if (w.n != m->n) {
                fprintf(stderr, "rank %u expects %zu bytes of rank %u, which sends %zu\n", r->rank, w.n, m->from, m->n);
                abort();
            }
            memcpy(w.bytes, m->bytes, m->n);
            *mark = w.mark;
            memmove(r->waits + i, r->waits + i + 1, (--r->waiting - i) * sizeof *r->waits);
            if (!(*at = m->next)) t->last = at;
            free(m);
            return 1;
        }
    }
    return 0;
}

static inline fl_status team_arrived(void *arg, int wait, size_t *mark, int *there)
{
    team_rank *r = arg;
    team *t = r->team;
    pthread_mutex_lock(&t->lock);
    while (!(*there = team_match(r, mark)) && wait && r->waiting) pthread_cond_wait(&t->news, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return FL_OK;
}

static inline fl_status team_flush(void *arg)
{
    (void)arg;
    return FL_OK;
}

typedef struct {
    void (*work)(const fl_ranks *ranks, void *arg);
    fl_ranks ranks;
    team_rank rank;
    void *arg;
    pthread_t thread;
} team_thread;

static inline void *team_main(void *arg)
{
    team_thread *t = arg;
    t->work(&t->ranks, t->arg);
    return NULL;
}

/* Calls `work` as every rank of so many at the same time, with args[rank]. Returns the bytes that they sent. */
static inline size_t team_run(uint32_t count, void (*work)(const fl_ranks *ranks, void *arg), void *const *args)
{
    team t = {.count = count, .last = &t.first};
    team_thread *threads = calloc(count, sizeof *threads);
    pthread_barrier_init(&t.meet, NULL, count);
    pthread_mutex_init(&t.lock, NULL);
    pthread_cond_init(&t.news, NULL);
    for (uint32_t i = 0; i < count; i++) {
        threads[i].work = work;
        threads[i].arg = args[i];
        threads[i].rank = (team_rank){.team = &t, .rank = i};
        threads[i].ranks = (fl_ranks){.size = sizeof(fl_ranks),
                                      .rank = i,
                                      .count = count,
                                      .local = i,
                                      .neighbours = count,
                                      .arg = &threads[i].rank,
                                      .gather = team_gather,
                                      .add = team_add,
                                      .send = team_send,
                                      .expect = team_expect,
                                      .arrived = team_arrived,
                                      .flush = team_flush};
        if (pthread_create(&threads[i].thread, NULL, team_main, &threads[i])) abort();
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i].thread, NULL);
        free(threads[i].rank.waits);
    }
    pthread_cond_destroy(&t.news);
    pthread_mutex_destroy(&t.lock);
    pthread_barrier_destroy(&t.meet);
    free(threads);
    return t.bytes;
}

#endif
