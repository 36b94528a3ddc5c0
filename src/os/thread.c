/* SPDX-License-Identifier: MIT */
/*
 * os/thread.c - starting, naming and binding OS threads.
 *
 * A thread inherits the signal mask of its creator.  So the creator blocks signals around
 * pthread_create, and the new thread never runs with a signal unblocked.  The signals that report
 * a CPU fault keep the creator's mask: if a fault occurs while its signal is blocked, the kernel
 * kills the process, and the handlers of crash reporters and sanitizers never run.
 *
 * A child of fork(2) inherits the mask of the thread that forks, and a program that it executes
 * inherits it, too: there SIGTERM and SIGINT would do nothing.  So each thread knows the mask of
 * its starter, or, if that is a thread of the library, the mask that the starter knows: the mask of
 * the opener.  The child unblocks all signals that the opener does not block.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

/* The argument of thread_enter.  The new thread frees it. */
struct start {
    void *(*fn)(void *);
    void *arg;
    char name[WF_THREAD_NAME_MAX + 1]; /* empty: none given */
    sigset_t outer_mask;               /* see mask_outer */
    void (*on_exit)(void);             /* NULL: none */
};

/* The mask of the opener, in the frame of thread_enter.  NULL: not a thread of the library. */
static _Thread_local const sigset_t *mask_outer;

struct cpu_mask {
    cpu_set_t sets[WF_CPU_MAX / CPU_SETSIZE];
};

static int cpu_mask_of(struct cpu_mask *mask, int cpu)
{
    if (cpu < 0 || cpu >= WF_CPU_MAX) {
        return -EINVAL;
    }
    CPU_ZERO_S(sizeof(*mask), mask->sets);
    CPU_SET_S((size_t)cpu, sizeof(*mask), mask->sets);
    return 0;
}

/* A cleanup of thread_enter: the function of the thread did not return. */
static void thread_exits(void *memory)
{
    const struct start *start = memory;
    if (start->on_exit != NULL) {
        start->on_exit();
    }
}

static void *thread_enter(void *memory)
{
    void *result;
    struct start start = *(struct start *)memory;
    wf_free(memory);
    if (start.name[0] != '\0') {
        (void)wf_thread_set_name(start.name); /* the name is only for tools */
    }
    mask_outer = &start.outer_mask;
    pthread_cleanup_push(thread_exits, &start);
    result = start.fn(start.arg);
    pthread_cleanup_pop(0);
    mask_outer = NULL;
    return result;
}

static struct start *start_new(void *(*fn)(void *), void *arg,
                               const struct wf_thread_options *options)
{
    struct start *start = wf_alloc_zeroed(1, sizeof(*start));
    if (start == NULL) {
        return NULL;
    }
    start->fn = fn;
    start->arg = arg;
    start->on_exit = options->on_exit;
    if (options->name != NULL) {
        memcpy(start->name, options->name, strnlen(options->name, WF_THREAD_NAME_MAX));
    }
    return start;
}

static int attributes_bind(pthread_attr_t *attributes, int cpu)
{
    struct cpu_mask mask;
    int rc = cpu_mask_of(&mask, cpu);
    if (rc != 0) {
        return rc;
    }
    if (WF_FAULT("pthread_attr_setaffinity")) {
        return -ENOMEM;
    }
    return -pthread_attr_setaffinity_np(attributes, sizeof(mask), mask.sets);
}

/* On error there is nothing to destroy. */
static int attributes_init(pthread_attr_t *attributes, const struct wf_thread_options *options)
{
    int rc = WF_FAULT("pthread_attr_init") ? -ENOMEM : -pthread_attr_init(attributes);
    if (rc != 0) {
        return rc;
    }
    if (options->stack_size != 0) {
        rc = -pthread_attr_setstacksize(attributes, options->stack_size);
    }
    if (rc == 0 && options->is_bound) {
        rc = attributes_bind(attributes, options->cpu);
    }
    if (rc != 0) {
        (void)pthread_attr_destroy(attributes); /* never fails */
    }
    return rc;
}

static int create_without_signals(pthread_t *out, const pthread_attr_t *attributes,
                                  struct start *start)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked;
    sigset_t old;
    (void)sigfillset(&blocked); /* sigfillset and sigdelset do not fail for valid signals */
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        (void)sigdelset(&blocked, faults[i]);
    }
    WEFT_CHECK(pthread_sigmask(SIG_BLOCK, &blocked, &old) == 0);
    start->outer_mask = mask_outer != NULL ? *mask_outer : old;
    int rc = WF_FAULT("pthread_create") ? -EAGAIN
                                        : -pthread_create(out, attributes, thread_enter, start);
    WEFT_CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    return rc;
}

int wf_thread_start(pthread_t *out, void *(*fn)(void *), void *arg,
                    const struct wf_thread_options *options)
{
    static const struct wf_thread_options defaults;
    options = options != NULL ? options : &defaults;

    pthread_attr_t attributes;
    int rc = attributes_init(&attributes, options);
    if (rc != 0) {
        return rc;
    }
    struct start *start = start_new(fn, arg, options);
    if (start == NULL) {
        rc = -ENOMEM;
        goto destroy_attributes;
    }
    pthread_t thread;
    rc = create_without_signals(&thread, &attributes, start);
    if (rc != 0) {
        wf_free(start);
        goto destroy_attributes;
    }
    *out = thread;

destroy_attributes:
    (void)pthread_attr_destroy(&attributes); /* never fails */
    return rc;
}

void wf_thread_unblock_in_child(void)
{
    if (mask_outer == NULL) {
        return;
    }
    sigset_t unblocked;
    (void)sigfillset(&unblocked); /* as in create_without_signals */
    for (int number = 1; number < NSIG; number++) {
        if (sigismember(mask_outer, number) == 1) {
            (void)sigdelset(&unblocked, number);
        }
    }
    WEFT_CHECK(pthread_sigmask(SIG_UNBLOCK, &unblocked, NULL) == 0);
}

int wf_thread_join(pthread_t thread)
{
    return -pthread_join(thread, NULL);
}

int wf_thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

unsigned wf_thread_count(void)
{
    struct stat info;
    if (WF_FAULT("stat") || stat("/proc/self/task", &info) != 0 || info.st_nlink < 3) {
        return 0;
    }
    return (unsigned)info.st_nlink - 2; /* the links `.` of the folder and its name in the parent */
}

__attribute__((noinline)) uintptr_t wf_thread_key(void)
{
    static _Thread_local alignas(16) char key;
    return (uintptr_t)&key;
}

int wf_thread_set_name(const char *name)
{
    WEFT_ASSERT(name != NULL);
    if (WF_FAULT("prctl")) {
        return -EPERM;
    }
    /* The kernel truncates to WF_THREAD_NAME_MAX. */
    return prctl(PR_SET_NAME, name, 0, 0, 0) == 0 ? 0 : -errno;
}

int wf_thread_bind(int cpu)
{
    struct cpu_mask mask;
    int rc = cpu_mask_of(&mask, cpu);
    if (rc != 0) {
        return rc;
    }
    if (WF_FAULT("sched_setaffinity")) {
        return -EPERM;
    }
    return sched_setaffinity(0, sizeof(mask), mask.sets) == 0 ? 0 : -errno;
}
