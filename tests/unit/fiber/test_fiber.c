/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a switch goes to its target, passes its message and keeps the registers that the ABI
 *         names; a fiber begins and ends as fiber.h says.
 * Method: fibers that pass a message back and forth; registers filled with random numbers on both
 *         sides of a switch; frames that need their alignment; a backtrace from inside.
 */
#include <errno.h>
#include <execinfo.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "fiber_helpers.h"
#include "helpers.h"

/* ---- switching ----------------------------------------------------------------------------- */

static struct wf_fiber_exit add_one_to_each(void *arg, void *message)
{
    struct fixture *f = arg;
    while (message != NULL) {
        message = wf_fiber_switch(&f->fiber, &f->thread, (char *)message + 1);
    }
    return (struct wf_fiber_exit){&f->thread, f};
}

static void fiber_switch_passes_a_message(void)
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

static void fiber_ends_when_its_function_returns(void)
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
    tap_fail(__FILE__, __LINE__, "returned from the last switch");
}

static void fiber_can_end_from_any_depth(void)
{
    struct fixture f;
    int word;
    fixture_init(&f, end_deep_inside);
    CHECK(wf_fiber_switch(&f.thread, &f.fiber, &word) == &word);
    CHECK(f.fiber.stack_pointer == NULL);
    fixture_done(&f);
}

/* TSan has space for 65536 calls that did not return in each of its fibers, which stay with the
 * stacks: neither way to end may leave such a call behind. */
static void fiber_reuses_a_stack_after_another_fiber(void)
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

/* ---- fiber to fiber ------------------------------------------------------------------------ */

enum { RING = 50, ROUNDS = 20 };

struct ring {
    struct wf_fiber thread;
    struct wf_fiber fibers[RING];
    struct wf_stack *stacks[RING];
    int visits[RING];
};

struct member {
    struct ring *ring;
    int number;
};

/* Each fiber switches directly to the next; the last iteration ends all fibers one after the
 * other. */
static struct wf_fiber_exit run_member(void *arg, void *message)
{
    struct member *member = arg;
    struct ring *ring = member->ring;
    struct wf_fiber *self = &ring->fibers[member->number];
    struct wf_fiber *next = &ring->fibers[(member->number + 1) % RING];
    for (int round = 0; round < ROUNDS; round++) {
        ring->visits[member->number]++;
        message = wf_fiber_switch(self, next, (char *)message + 1);
    }
    const bool is_last = member->number + 1 == RING;
    return (struct wf_fiber_exit){is_last ? &ring->thread : next, (char *)message + 1};
}

static void fiber_switches_directly_to_any_other(void)
{
    static struct ring ring;
    struct member seats[RING];
    struct wf_stack_pool pool;
    struct wf_stack_cache cache;
    CHECK_EQ(wf_stack_pool_init(&pool, NULL), 0);
    wf_stack_cache_init(&cache, &pool);
    wf_fiber_init_thread(&ring.thread);
    for (int i = 0; i < RING; i++) {
        seats[i] = (struct member){&ring, i};
        CHECK_EQ(wf_stack_get(&cache, 0, &ring.stacks[i]), 0);
        wf_fiber_init(&ring.fibers[i], ring.stacks[i], run_member, &seats[i]);
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

/* The callee-saved registers. */
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
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t" /* the compiler may keep data in the red zone */
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

/* The bare switch: sanitizers are notified only in wf_fiber_switch. */
static void fiber_switch_keeps_callee_saved_registers(void)
{
#ifdef WF_SWITCH_SANITIZED
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

enum { BELOW = 14 }; /* words of a red zone, minus two */

/* Calls nothing, so that the compiler keeps its locals in the red zone where the ABI allows that;
 * the compiler does not see the switch as a call. */
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

static void fiber_switch_keeps_the_red_zone(void)
{
#ifdef WF_SWITCH_SANITIZED
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
    /* the low bits of mxcsr are status, not control */
    return (uint64_t)(mxcsr & 0xffc0u) << 16 | x87;
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

static void fiber_keeps_fp_control_words_on_request(void)
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

/* The switch does not save them: without the request all fibers share the thread's control
 * words. */
static void fiber_shares_fp_control_words_by_default(void)
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
    /* Faults unless the stack is aligned as the compiler assumes. */
    struct {
        _Alignas(16) char bytes[16];
    } local;
    __asm__ volatile("movaps %%xmm0, %0" : "=m"(local));
#endif
    return return_at_once(arg, message);
}

static void fiber_begins_on_an_aligned_stack(void)
{
    struct fixture f;
    fixture_init(&f, look_at_frame);
    for (int i = 0; i < 100; i++) { /* of every cache color */
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
static void fiber_backtrace_ends_at_its_first_frame(void)
{
    struct fixture f;
    fixture_init(&f, trace);
    /* The words above the first frame look like return addresses; the backtrace must not use
     * them. */
    uintptr_t *above = (uintptr_t *)(void *)(wf_stack_high(f.stack) - f.stack->color);
    above[-1] = above[-2] = (uintptr_t)fiber_backtrace_ends_at_its_first_frame;
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

static void fiber_resume_after_end_panics(void)
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
    TAP_TEST(fiber_switch_passes_a_message),
    TAP_TEST(fiber_ends_when_its_function_returns),
    TAP_TEST(fiber_can_end_from_any_depth),
    TAP_TEST(fiber_reuses_a_stack_after_another_fiber),
    TAP_TEST(fiber_switches_directly_to_any_other),
    TAP_TEST(fiber_switch_keeps_callee_saved_registers),
    TAP_TEST(fiber_switch_keeps_the_red_zone),
    TAP_TEST(fiber_keeps_fp_control_words_on_request),
    TAP_TEST(fiber_shares_fp_control_words_by_default),
    TAP_TEST(fiber_begins_on_an_aligned_stack),
    TAP_TEST(fiber_backtrace_ends_at_its_first_frame),
    TAP_TEST(fiber_resume_after_end_panics),
};
TAP_MAIN(tests)
