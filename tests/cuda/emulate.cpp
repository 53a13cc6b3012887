/* A block's threads as fibers: see emulate.h. */
#include "emulate.h"
#include "order.h"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* ---- fibers ---- */
#ifdef __x86_64__
/* Saves what a called function must leave alone, and the stack; goes on where `to` was left. */
extern "C" void fli_emulated_switch(void **from, void *to);
asm(".text\n"
    ".globl fli_emulated_switch\n"
    ".hidden fli_emulated_switch\n"
    ".type fli_emulated_switch, @function\n"
    "fli_emulated_switch:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size fli_emulated_switch, . - fli_emulated_switch\n");
typedef void *context;
static void context_init(context *c, char *stack, size_t bytes, void (*entry)())
{
    void **top = (void **)(stack + bytes) - 1; /* the return address of a function is not on a line of 16 */
    *top = NULL;
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++) *--top = NULL;
    *c = top;
}
static void context_switch(context *from, context *to) { fli_emulated_switch(from, *to); }
#else
#include <ucontext.h>
typedef ucontext_t context;
static void context_init(context *c, char *stack, size_t bytes, void (*entry)())
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = bytes;
    c->uc_link = NULL;
    makecontext(c, entry, 0);
}
static void context_switch(context *from, context *to) { swapcontext(from, to); }
#endif

namespace
{
#ifdef WITH_ASAN
const size_t STACK = 512 * 1024;
#else
const size_t STACK = 128 * 1024;
#endif
const size_t PAGE = 64 * 1024, THREADS = 1024, SHARED = 227 * 1024, GUARD = 4096;
const int CLUSTER = 8;

enum { READY, BLOCK, WARP, ENDED, ALL };

struct copy {
    void *to;
    const void *from;
    int bytes, there, group;
};

struct fiber {
    context ctx;
    char *stack;
    uint3 thread;
    int number, rank, state, line; /* in its block, its block in the cluster */
    const char *file;
    unsigned mask;
    fli_emulated_party *party;
    void *mine;
    void *fake; /* of the address sanitizer */
    std::vector<copy> copies;
    int group;
};

/* A block of the cluster that runs. */
struct block_state {
    uint3 index;
    int at_barrier, said, answer;
};

struct {
    const char *kernel;
    void (*body)(void *);
    void *arg;
    int threads, blocks, all, at_all; /* of a block; blocks of a cluster; threads of all of them, and waiting for all */
    block_state block[CLUSTER];
    std::vector<fiber> fibers;
    std::vector<int> turn;
    uint32_t random;
    fiber *now;
    context scheduler;
    void *fake;
    const void *bottom;
    size_t size;
    size_t bytes;
    fli_order order;
    bool order_known;
} m;

struct alignas(256) shared_memory {
    unsigned char at[SHARED + GUARD];
} shared[CLUSTER];

const char *place_of(const fiber *f, char *text, size_t room)
{
    static const char *const what[] = {"can run", "waits for its block", "waits for its warp", "has ended",
                                       "waits for its cluster"};
    if (f->state == ENDED)
        snprintf(text, room, "thread %d has ended", f->number);
    else
        snprintf(text, room, "thread %d %s at %s:%d", f->number, what[f->state], f->file, f->line);
    return text;
}

[[noreturn]] void wrong(const char *what)
{
    fprintf(stderr, "kernel %s, block %u %u %u: %s\n", m.kernel, blockIdx.x, blockIdx.y, blockIdx.z, what);
    fflush(stderr);
    abort();
}
[[noreturn]] void differ(const char *what, const fiber *a, const fiber *b)
{
    char text[512], one[200], other[200];
    snprintf(text, sizeof text, "%s: %s, %s", what, place_of(a, one, sizeof one), place_of(b, other, sizeof other));
    wrong(text);
}

void to_scheduler()
{
    fiber *f = m.now;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(f->state == ENDED ? NULL : &f->fake, m.bottom, m.size);
#endif
    context_switch(&f->ctx, &m.scheduler);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(f->fake, &m.bottom, &m.size);
#endif
}

void fiber_main()
{
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(NULL, &m.bottom, &m.size);
#endif
    m.body(m.arg);
    m.now->state = ENDED;
    to_scheduler();
    abort(); /* nobody resumes it */
}

void resume(fiber *f)
{
    m.now = f;
    threadIdx = f->thread;
    blockIdx = m.block[f->rank].index;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&m.fake, f->stack, STACK);
#endif
    context_switch(&m.scheduler, &f->ctx);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(m.fake, NULL, NULL);
#endif
}

/* Stacks are kept for the next launch; below each is a page that nobody may touch. */
void need_fibers(size_t count)
{
    while (m.fibers.size() < count) {
        fiber f = {};
        char *p = (char *)mmap(NULL, PAGE + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                               -1, 0);
        if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE)) wrong("no memory for a stack");
        f.stack = p + PAGE;
        m.fibers.push_back(f);
    }
}

void turns_of_block()
{
    m.turn.resize((size_t)m.all);
    for (int i = 0; i < m.all; i++) m.turn[(size_t)i] = m.order == FLI_ORDER_REVERSE ? m.all - 1 - i : i;
}
void shuffle()
{
    for (int i = m.all - 1; i > 0; i--) {
        m.random = m.random * 1664525u + 1013904223u;
        std::swap(m.turn[(size_t)i], m.turn[(size_t)((uint64_t)m.random * (unsigned)(i + 1) >> 32)]);
    }
}

void begin_fiber(fiber *f, int rank, int number)
{
    unsigned x = (unsigned)number;
    f->thread = uint3{x % blockDim.x, x / blockDim.x % blockDim.y, x / blockDim.x / blockDim.y};
    f->number = number;
    f->rank = rank;
    f->state = READY;
    f->copies.clear();
    f->group = 0;
    context_init(&f->ctx, f->stack, STACK, fiber_main);
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(f->stack, STACK);
#endif
}

/* The first block's index is in blockIdx; those of a cluster are neighbours. */
void begin_cluster()
{
    m.at_all = 0;
    for (int i = 0; i < m.all; i++) begin_fiber(&m.fibers[(size_t)i], i / m.threads, i % m.threads);
    for (int k = 0; k < m.blocks; k++) {
        unsigned char *memory = shared[k].at;
        m.block[k] = block_state{uint3{blockIdx.x + (unsigned)k, blockIdx.y, blockIdx.z}, 0, 0, 0};
        memset(memory, 0xff, m.bytes);
#ifdef WITH_ASAN
        __asan_poison_memory_region(memory + m.bytes, sizeof shared[k] - m.bytes);
#else
        memset(memory + m.bytes, 0xa5, GUARD);
#endif
    }
}

void end_cluster()
{
    for (int k = 0; k < m.blocks; k++) {
#ifdef WITH_ASAN
        __asan_unpoison_memory_region(&shared[k], sizeof shared[k]);
#else
        for (size_t i = 0; i < GUARD; i++)
            if (shared[k].at[m.bytes + i] != 0xa5) wrong("wrote behind its dynamic shared memory");
#endif
    }
    blockIdx = m.block[0].index;
}

/* Nobody can run: some have ended or wait where others do not come. */
[[noreturn]] void stuck()
{
    const fiber *waits = NULL;
    for (int i = 0; i < m.all && !waits; i++)
        if (m.fibers[(size_t)i].state != ENDED) waits = &m.fibers[(size_t)i];
    for (int i = 0; i < m.all; i++) {
        const fiber *f = &m.fibers[(size_t)i];
        if (f->state != waits->state || f->line != waits->line) differ("some threads do not come", waits, f);
    }
    differ("a lane of the mask does not come", waits, waits);
}

void run_cluster()
{
    begin_cluster();
    for (int ended = 0; ended < m.all;) {
        int ran = 0;
        if (m.order == FLI_ORDER_RANDOM) shuffle();
        for (int i = 0; i < m.all; i++) {
            fiber *f = &m.fibers[(size_t)m.turn[(size_t)i]];
            if (f->state != READY) continue;
            resume(f);
            ended += f->state == ENDED;
            ran++;
        }
        if (!ran) stuck();
    }
    end_cluster();
}

void check_launch(dim3 grid, dim3 block, size_t bytes)
{
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        wrong("a grid like that cannot be launched");
    if (!block.x || !block.y || !block.z || (size_t)block.x * block.y * block.z > THREADS || block.z > 64)
        wrong("a block like that cannot be launched");
    if (bytes > SHARED) wrong("a block has no more than 227 KiB of shared memory");
}

void find_order()
{
    const char *wish = getenv("FLI_CUDA_ORDER");
    if (m.order_known || !wish) return;
    m.order = !strcmp(wish, "reverse") ? FLI_ORDER_REVERSE : !strcmp(wish, "random") ? FLI_ORDER_RANDOM : m.order;
}
} // namespace

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

extern "C" void fli_emulated_order(fli_order order)
{
    m.order = order;
    m.order_known = true;
}

void fli_emulated_launch(const char *kernel, dim3 grid, dim3 block, size_t bytes, int cluster, void (*body)(void *),
                         void *arg)
{
    m.kernel = kernel;
    blockIdx = uint3{0, 0, 0};
    check_launch(grid, block, bytes);
    if (cluster < 1 || cluster > CLUSTER || grid.x % (unsigned)cluster) wrong("clusters like that cannot be launched");
    find_order();
    m.body = body;
    m.arg = arg;
    m.bytes = bytes;
    m.threads = (int)(block.x * block.y * block.z);
    m.blocks = cluster;
    m.all = m.threads * m.blocks;
    m.random = 1;
    gridDim = grid;
    blockDim = block;
    need_fibers((size_t)m.all);
    turns_of_block();
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x += (unsigned)cluster) run_cluster();
}

unsigned char *fli_emulated_shared(void) { return shared[m.now->rank].at; }

/* ---- barriers ---- */
/* Those from `first` to `last` are all here. */
static void go_on(const fiber *f, int first, int last)
{
    for (int i = first; i < last; i++) {
        fiber *o = &m.fibers[(size_t)i];
        if (o->state != f->state || o->line != f->line || strcmp(o->file, f->file)) differ("barriers differ", f, o);
    }
    for (int i = first; i < last; i++) m.fibers[(size_t)i].state = READY;
}

int fli_emulated_barrier(int said, const char *file, int line)
{
    fiber *f = m.now;
    block_state *b = &m.block[f->rank];
    f->state = BLOCK;
    f->file = file;
    f->line = line;
    b->said += said != 0;
    if (++b->at_barrier < m.threads) {
        to_scheduler();
        return b->answer;
    }
    go_on(f, f->rank * m.threads, (f->rank + 1) * m.threads);
    b->answer = b->said;
    b->at_barrier = b->said = 0;
    return b->answer;
}

void fli_cluster_sync(const char *file, int line)
{
    fiber *f = m.now;
    f->state = ALL;
    f->file = file;
    f->line = line;
    if (++m.at_all < m.all) return to_scheduler();
    go_on(f, 0, m.all);
    m.at_all = 0;
}

unsigned fli_cluster_rank(void) { return (unsigned)m.now->rank; }

void *fli_emulated_neighbour(void *p, unsigned rank)
{
    if (rank >= (unsigned)m.blocks) wrong("there is no such block in the cluster");
    return shared[rank].at + ((unsigned char *)p - shared[m.now->rank].at);
}

int fli_emulated_lane(void) { return m.now->number % 32; }

void fli_emulated_meet(unsigned mask, fli_emulated_party *all, void *mine, const char *file, int line)
{
    fiber *f = m.now;
    int lane = f->number % 32, count = std::min(32, m.threads - (f->number - lane));
    fiber *warp = f - lane;
    if (!(mask >> lane & 1)) wrong("a lane is not in the mask that it gives");
    f->state = WARP;
    f->file = file;
    f->line = line;
    f->mask = mask;
    f->party = all;
    f->mine = mine;
    void *its[32] = {};
    for (int i = 0; i < count; i++) {
        if (!(mask >> i & 1)) continue;
        if (warp[i].state != WARP || warp[i].mask != mask) return to_scheduler();
        its[i] = warp[i].mine;
    }
    for (int i = 0; i < count; i++) {
        if (!its[i]) continue;
        if (warp[i].line != line || strcmp(warp[i].file, file)) differ("lanes of a warp differ", f, &warp[i]);
        warp[i].state = READY;
    }
    all(its);
}

unsigned __ballot_sync(unsigned mask, int p, const char *file, int line)
{
    int vote[2] = {p != 0, 0};
    fli_emulated_meet(
        mask,
        [](void *const *its) {
            unsigned r = 0;
            for (int i = 0; i < 32; i++)
                if (its[i] && *(int *)its[i]) r |= 1u << i;
            for (int i = 0; i < 32; i++)
                if (its[i]) ((unsigned *)its[i])[1] = r;
        },
        vote, file, line);
    return (unsigned)vote[1];
}

/* ---- copies ---- */
void fli_emulated_copy(void *to, const void *from, int bytes, int there)
{
    if ((uintptr_t)to % (unsigned)bytes) wrong("the target of an asynchronous copy is not on a line of its size");
    if (there && (uintptr_t)from % (unsigned)bytes)
        wrong("the source of an asynchronous copy is not on a line of its size");
    memset(to, 0xff, (size_t)bytes);
    m.now->copies.push_back(copy{to, from, bytes, there, m.now->group});
}

void fli_emulated_commit(void) { m.now->group++; }

void fli_emulated_wait(int but)
{
    fiber *f = m.now;
    size_t done = 0;
    for (; done < f->copies.size() && f->copies[done].group < f->group - but; done++) {
        const copy *c = &f->copies[done];
        if (c->there)
            memcpy(c->to, c->from, (size_t)c->bytes);
        else
            memset(c->to, 0, (size_t)c->bytes);
    }
    f->copies.erase(f->copies.begin(), f->copies.begin() + (ptrdiff_t)done);
}

/* ---- products ---- */
uint32_t fli_tf32(float a)
{
    uint32_t u = __float_as_uint(a);
    if ((u & 0x7f800000u) == 0x7f800000u) return u & 0x7fffffu ? 0x7fffe000u : u;
    return (u + 0x1000u) & 0xffffe000u;
}

namespace
{
struct operands {
    float *d;
    const uint32_t *a, *b;
};
/* Tensor cores look at the upper 19 bits alone. */
double operand(uint32_t u) { return (double)__uint_as_float(u & 0xffffe000u); }

void product(void *const *its)
{
    double a[16][8], b[8][8];
    for (int lane = 0; lane < 32; lane++) {
        const operands *o = (const operands *)its[lane];
        if (!o) wrong("a product needs all 32 lanes");
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) a[g + 8 * (i % 2)][t + 4 * (i / 2)] = operand(o->a[i]);
        for (int i = 0; i < 2; i++) b[t + 4 * i][g] = operand(o->b[i]);
    }
    for (int lane = 0; lane < 32; lane++) {
        const operands *o = (const operands *)its[lane];
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
            double sum = o->d[i];
            for (int k = 0; k < 8; k++) sum += a[row][k] * b[k][column];
            o->d[i] = (float)sum;
        }
    }
}
} // namespace

void fli_emulated_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file, int line)
{
    operands o = {d, a, b};
    fli_emulated_meet(0xffffffffu, product, &o, file, line);
}
