/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a switch goes where it shall, carries its word, keeps what the ABI says, and a fiber
 *         begins and ends as promised.
 * Method: fibers that hand a word to and fro; registers filled with random numbers on both sides of
 *         a switch; frames that need their alignment; a backtrace from inside.
 */
#include <errno.h>
#include <execinfo.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "aids.h"
#include "fiber_aids.h"

/* ---- switching ----------------------------------------------------------------------------- */

static struct wf_fiber_exit add_one_to_each(void *arg, void *message)
{
    struct fixture *f = arg;
    while (message != NULL) {
        message = wf_fiber_switch(&f->fiber, &f->thread, (char *)message + 1);
    }
    return (struct wf_fiber_exit){&f->thread, f};
}

static void a_message_goes_with_every_switch(void)
{
    struct fixture f;
    fixture_init(&f, add_one_to_each);
    for (intptr_t i = 1; i < 1000; i++) {
        char *message = (char *)i;
        CHECK(wf_fiber_switch(&f.thread, &f.fiber, message) == message + 1);
    }
    CHECK(wf_fiber_switch(&f.thread, &f.fiber, NULL) == &f);
    fixture_done(&f);
}

static struct wf_fiber_exit return_at_once(void *arg, void *message)
{
    struct fixture *f = arg;
    return (struct wf_fiber_exit){&f->thread, message};
}

static void a_function_that_returns_ends_its_fiber(void)
{
    struct fixture f;
    int word;
    fixture_init(&f, return_at_once);
    CHECK(wf_fiber_switch(&f.thread, &f.fiber, &word) == &word);
    CHECK(f.fiber.stack_pointer == NULL);
    fixture_done(&f);
}

enum { DEPTH = 300 };

static __attribute__((noinline)) int end_below(struct fixture *f, int depth, void *message)
{
    if (depth < 0) {
        return -1;
    }
    if (depth == 0) {
        wf_fiber_switch_final(&f->fiber, &f->thread, message);
    }
    int result = end_below(f, depth - 1, message);
    __asm__ volatile(""); /* no tail call */
    return result;
}

static struct wf_fiber_exit end_deep_inside(void *arg, void *message)
{
    (void)end_below(arg, DEPTH, message);
    tap_fail(__FILE__, __LINE__, "came back from the last switch");
}

static void a_fiber_can_end_from_any_depth(void)
{
    struct fixture f;
    int word;
    fixture_init(&f, end_deep_inside);
    CHECK(wf_fiber_switch(&f.thread, &f.fiber, &word) == &word);
    CHECK(f.fiber.stack_pointer == NULL);
    fixture_done(&f);
}

/* TSan has room for 65536 calls that did not return in each of its fibers, which stay with the
 * stacks: neither way to end may leave any behind. */
static void a_stack_is_used_by_one_fiber_after_the_other(void)
{
    enum { WELL = 70000, DEEP = 70000 / DEPTH };
    struct fixture f;
    fixture_init(&f, return_at_once);
    for (intptr_t i = 0; i < WELL + DEEP; i++) {
        wf_fiber_init(&f.fiber, f.stack, i < WELL ? return_at_once : end_deep_inside, &f);
        CHECK(wf_fiber_switch(&f.thread, &f.fiber, (void *)i) == (void *)i);
    }
    fixture_done(&f);
}

/* ---- any to any ---------------------------------------------------------------------------- */

enum { RING = 50, ROUNDS = 20 };

struct ring {
    struct wf_fiber thread;
    struct wf_fiber fibers[RING];
    struct wf_stack *stacks[RING];
    int visits[RING];
};

struct seat {
    struct ring *ring;
    int number;
};

/* Each goes straight to the next, and the last round ends them one after the other. */
static struct wf_fiber_exit visit(void *arg, void *message)
{
    struct seat *seat = arg;
    struct ring *ring = seat->ring;
    struct wf_fiber *self = &ring->fibers[seat->number];
    struct wf_fiber *next = &ring->fibers[(seat->number + 1) % RING];
    for (int round = 0; round < ROUNDS; round++) {
        ring->visits[seat->number]++;
        message = wf_fiber_switch(self, next, (char *)message + 1);
    }
    const bool is_last = seat->number + 1 == RING;
    return (struct wf_fiber_exit){is_last ? &ring->thread : next, (char *)message + 1};
}

static void a_fiber_switches_straight_to_any_other(void)
{
    static struct ring ring;
    struct seat seats[RING];
    struct wf_stack_pool pool;
    struct wf_stack_cache cache;
    CHECK_EQ(wf_stack_pool_init(&pool, NULL), 0);
    wf_stack_cache_init(&cache, &pool);
    wf_fiber_init_thread(&ring.thread);
    for (int i = 0; i < RING; i++) {
        seats[i] = (struct seat){&ring, i};
        CHECK_EQ(wf_stack_get(&cache, 0, &ring.stacks[i]), 0);
        wf_fiber_init(&ring.fibers[i], ring.stacks[i], visit, &seats[i]);
    }
    void *hops = wf_fiber_switch(&ring.thread, &ring.fibers[0], NULL);
    CHECK_EQ((intptr_t)hops, RING * (ROUNDS + 1));
    for (int i = 0; i < RING; i++) {
        CHECK_EQ(ring.visits[i], ROUNDS);
        wf_stack_put(&cache, ring.stacks[i]);
    }
    wf_stack_cache_done(&cache);
    wf_stack_pool_done(&pool);
}

/* ---- registers ----------------------------------------------------------------------------- */

/* The registers that a function has to keep. */
#if defined(__x86_64__)
enum { REGISTERS = 6 };
#else
enum { REGISTERS = 19 };
#endif

struct registers {
    uint64_t value[REGISTERS];
};

#define VECTORS(v)                                                                                 \
    v "0", v "1", v "2", v "3", v "4", v "5", v "6", v "7", v "8", v "9", v "10", v "11", v "12",  \
        v "13", v "14", v "15"
#define ALL_VECTORS(v)                                                                             \
    VECTORS(v), v "16", v "17", v "18", v "19", v "20", v "21", v "22", v "23", v "24", v "25",    \
        v "26", v "27", v "28", v "29", v "30", v "31"

/* Fills the registers from `in`, switches, and reads them into `out`. */
static void switch_with_registers(struct wf_fiber *from, struct wf_fiber *to,
                                  const struct registers *in, struct registers *out)
{
#if defined(__x86_64__)
    void **a = &from->stack_pointer;
    void *b = to->stack_pointer;
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t" /* the compiler may keep something there */
                     "pushq %%rbp\n\t"
                     "pushq %[out]\n\t"
                     "movq 0(%[in]), %%rbx\n\t"
                     "movq 8(%[in]), %%r12\n\t"
                     "movq 16(%[in]), %%r13\n\t"
                     "movq 24(%[in]), %%r14\n\t"
                     "movq 32(%[in]), %%r15\n\t"
                     "movq 40(%[in]), %%rbp\n\t"
                     "call wf_context_switch\n\t"
                     "popq %%rcx\n\t"
                     "movq %%rbp, 40(%%rcx)\n\t"
                     "popq %%rbp\n\t"
                     "leaq 128(%%rsp), %%rsp\n\t"
                     "movq %%rbx, 0(%%rcx)\n\t"
                     "movq %%r12, 8(%%rcx)\n\t"
                     "movq %%r13, 16(%%rcx)\n\t"
                     "movq %%r14, 24(%%rcx)\n\t"
                     "movq %%r15, 32(%%rcx)"
                     : "+D"(a), "+S"(b), [in] "+c"(in), [out] "+d"(out)
                     :
                     : "rax", "rbx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                       VECTORS("xmm"), "memory", "cc");
#else
    register void **a __asm__("x0") = &from->stack_pointer;
    register void *b __asm__("x1") = to->stack_pointer;
    register struct registers *c __asm__("x2") = out;
    register const struct registers *d __asm__("x3") = in;
    __asm__ volatile("stp %[out], x29, [sp, #-16]!\n\t"
                     "ldp x19, x20, [%[in], #0]\n\t"
                     "ldp x21, x22, [%[in], #16]\n\t"
                     "ldp x23, x24, [%[in], #32]\n\t"
                     "ldp x25, x26, [%[in], #48]\n\t"
                     "ldp x27, x28, [%[in], #64]\n\t"
                     "ldp d8, d9, [%[in], #80]\n\t"
                     "ldp d10, d11, [%[in], #96]\n\t"
                     "ldp d12, d13, [%[in], #112]\n\t"
                     "ldp d14, d15, [%[in], #128]\n\t"
                     "ldr x29, [%[in], #144]\n\t"
                     "bl wf_context_switch\n\t"
                     "mov x10, x29\n\t"
                     "ldp x9, x29, [sp], #16\n\t"
                     "str x10, [x9, #144]\n\t"
                     "stp x19, x20, [x9, #0]\n\t"
                     "stp x21, x22, [x9, #16]\n\t"
                     "stp x23, x24, [x9, #32]\n\t"
                     "stp x25, x26, [x9, #48]\n\t"
                     "stp x27, x28, [x9, #64]\n\t"
                     "stp d8, d9, [x9, #80]\n\t"
                     "stp d10, d11, [x9, #96]\n\t"
                     "stp d12, d13, [x9, #112]\n\t"
                     "stp d14, d15, [x9, #128]"
                     : "+r"(a), "+r"(b), [out] "+r"(c), [in] "+r"(d)
                     :
                     : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
                       "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
                       "x28", "x30", ALL_VECTORS("v"), "memory", "cc");
#endif
}

static void fill(struct registers *registers, struct wf_random *random)
{
    for (int i = 0; i < REGISTERS; i++) {
        registers->value[i] = wf_random_next(random);
    }
}

static void switch_and_compare(struct wf_fiber *from, struct wf_fiber *to, struct wf_random *random)
{
    struct registers in;
    struct registers out = {{0}};
    fill(&in, random);
    switch_with_registers(from, to, &in, &out);
    CHECK(memcmp(&in, &out, sizeof(in)) == 0);
}

enum { SWITCHES = 1000 };

static struct wf_fiber_exit keep_registers(void *arg, void *message)
{
    struct fixture *f = arg;
    struct wf_random random;
    (void)message;
    wf_random_init(&random, tap_seed() + 1);
    for (int i = 1; i < SWITCHES; i++) {
        switch_and_compare(&f->fiber, &f->thread, &random);
    }
    return (struct wf_fiber_exit){&f->thread, NULL};
}

/* The bare switch: notices are for those who go through wf_fiber_switch. */
static void registers_survive_a_switch(void)
{
#ifdef WF_SWITCH_NOTICED
    tap_skip("sanitizers have to hear of every switch");
#endif
    struct fixture f;
    struct wf_random random;
    fixture_init(&f, keep_registers);
    wf_random_init(&random, tap_seed());
    for (int i = 0; i < SWITCHES; i++) {
        switch_and_compare(&f.thread, &f.fiber, &random);
    }
    fixture_done(&f);
}

enum { BELOW = 14 }; /* words of a red zone, but for two */

/* Calls nothing, so that the compiler keeps its locals below the stack pointer where the ABI allows
 * that; the switch is no call to it. */
static __attribute__((noinline)) uint64_t switch_from_leaf(struct wf_fiber *from,
                                                           struct wf_fiber *to)
{
    volatile uint64_t locals[BELOW];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < BELOW; i++) {
        locals[i] = i;
    }
    (void)wf_context_switch_here(&from->stack_pointer, to->stack_pointer, NULL);
    for (uint64_t i = 0; i < BELOW; i++) {
        sum += locals[i];
    }
    return sum;
}

static void what_lies_below_the_stack_survives_a_switch(void)
{
#ifdef WF_SWITCH_NOTICED
    tap_skip("sanitizers have to hear of every switch");
#endif
    struct fixture f;
    fixture_init(&f, return_at_once);
    CHECK_EQ(switch_from_leaf(&f.thread, &f.fiber), BELOW * (BELOW - 1) / 2);
    fixture_done(&f);
}

/* ---- floating point control ---------------------------------------------------------------- */

static uint64_t fp_control(void)
{
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return (uint64_t)(mxcsr & 0xffc0u) << 16 | x87; /* the low bits of mxcsr are no control */
#else
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#endif
}

static struct wf_fiber_exit round_upward(void *arg, void *message)
{
    struct fixture *f = arg;
    (void)message;
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    const uint64_t own = fp_control();
    for (int i = 0; i < 3; i++) {
        (void)wf_fiber_switch(&f->fiber, &f->thread, NULL);
        CHECK_EQ(fp_control(), own);
        CHECK_EQ(fegetround(), FE_UPWARD);
    }
    return (struct wf_fiber_exit){&f->thread, NULL};
}

static void control_words_are_kept_on_request(void)
{
    struct fixture f;
    fixture_init(&f, round_upward);
    const uint64_t outside = fp_control();
    wf_fiber_keep_fp_control(&f.fiber);
    for (int i = 0; i < 4; i++) { /* three times suspended, then ended */
        (void)wf_fiber_switch(&f.thread, &f.fiber, NULL);
        CHECK_EQ(fp_control(), outside);
        CHECK_EQ(fegetround(), FE_TONEAREST);
    }
    fixture_done(&f);
}

static struct wf_fiber_exit set_round_upward(void *arg, void *message)
{
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    return return_at_once(arg, message);
}

/* What it costs is what is not done: without the request the words of one are those of all. */
static void control_words_are_shared_without(void)
{
    struct fixture f;
    fixture_init(&f, set_round_upward);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    (void)wf_fiber_switch(&f.thread, &f.fiber, NULL);
    CHECK_EQ(fegetround(), FE_UPWARD);
    CHECK_EQ(fesetround(FE_TONEAREST), 0);
    fixture_done(&f);
}

/* ---- the first frame ----------------------------------------------------------------------- */

static struct wf_fiber_exit look_at_frame(void *arg, void *message)
{
    CHECK_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
#if defined(__x86_64__)
    /* Faults unless the stack is where the compiler believes it to be. */
    struct {
        _Alignas(16) char bytes[16];
    } local;
    __asm__ volatile("movaps %%xmm0, %0" : "=m"(local));
#endif
    return return_at_once(arg, message);
}

static void a_fiber_begins_on_an_aligned_stack(void)
{
    struct fixture f;
    fixture_init(&f, look_at_frame);
    for (int i = 0; i < 100; i++) { /* of every color */
        struct wf_stack *stack;
        CHECK_EQ(wf_stack_get(&f.cache, 0, &stack), 0);
        CHECK_EQ((uintptr_t)wf_stack_high(stack) % 16, 0);
        stack->next = f.stack; /* the fixture's list of stacks to give back */
        f.stack = stack;
        wf_fiber_init(&f.fiber, stack, look_at_frame, &f);
        (void)wf_fiber_switch(&f.thread, &f.fiber, NULL);
    }
    fixture_done(&f);
}

enum { TRACED = 8, FRAMES_MAX = 64 };
static void *frames[FRAMES_MAX];

static __attribute__((noinline)) int trace_below(int depth)
{
    int count = depth > 0 ? trace_below(depth - 1) : backtrace(frames, FRAMES_MAX);
    __asm__ volatile(""); /* no tail call */
    return count;
}

static struct wf_fiber_exit trace(void *arg, void *message)
{
    (void)message;
    return return_at_once(arg, (void *)(intptr_t)trace_below(TRACED));
}

/* TRACED + 1 times trace_below, trace, wf_fiber_main and the trampoline; sanitizers put a frame of
 * their own on top. */
static void a_backtrace_ends_where_the_fiber_began(void)
{
    struct fixture f;
    fixture_init(&f, trace);
    /* Whatever is above the first frame, even if it looks like a return address. */
    uintptr_t *above = (uintptr_t *)(void *)(wf_stack_high(f.stack) - f.stack->color);
    above[-1] = above[-2] = (uintptr_t)a_backtrace_ends_where_the_fiber_began;
    const int count = (int)(intptr_t)wf_fiber_switch(&f.thread, &f.fiber, NULL);
    CHECK(count == TRACED + 4 || count == TRACED + 5);
    CHECK((uintptr_t)frames[count - 1] - (uintptr_t)wf_fiber_trampoline < 32);
    fixture_done(&f);
}

/* ---- mistakes ------------------------------------------------------------------------------ */

static void resume_an_ended_fiber(void)
{
    struct fixture f;
    fixture_init(&f, return_at_once);
    (void)wf_fiber_switch(&f.thread, &f.fiber, NULL);
    (void)wf_fiber_switch(&f.thread, &f.fiber, NULL);
}

static void an_ended_fiber_is_not_resumed(void)
{
    char text[1024];
    if (!HAS_ASSERTS) {
        tap_skip("without assertions");
    }
    int status = tap_run_child(resume_an_ended_fiber, text, sizeof(text));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strstr(text, "to->stack_pointer") != NULL);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_message_goes_with_every_switch),
    TAP_TEST(a_function_that_returns_ends_its_fiber),
    TAP_TEST(a_fiber_can_end_from_any_depth),
    TAP_TEST(a_stack_is_used_by_one_fiber_after_the_other),
    TAP_TEST(a_fiber_switches_straight_to_any_other),
    TAP_TEST(registers_survive_a_switch),
    TAP_TEST(what_lies_below_the_stack_survives_a_switch),
    TAP_TEST(control_words_are_kept_on_request),
    TAP_TEST(control_words_are_shared_without),
    TAP_TEST(a_fiber_begins_on_an_aligned_stack),
    TAP_TEST(a_backtrace_ends_where_the_fiber_began),
    TAP_TEST(an_ended_fiber_is_not_resumed),
};
TAP_MAIN(tests)
