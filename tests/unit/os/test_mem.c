/* SPDX-License-Identifier: MIT */
/*
 * Goal:   mapped pages are zeroed, are given back, and fault where they must; a refused call
 *         changes nothing.
 * Method: reads and writes every page; accesses that must fault are made in child processes.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"
#include "os/os.h"

enum { PAGES = 8 };

static unsigned char *page_of(void *memory, size_t number)
{
    return (unsigned char *)memory + number * wf_page_size();
}

static void check_all_bytes(const unsigned char *bytes, size_t size, int expected)
{
    for (size_t i = 0; i < size; i++) {
        CHECK_EQ(bytes[i], expected);
    }
}

/* True if an access to the byte ends a child by SIGSEGV; false if the child survives. */
static volatile unsigned char *byte_to_access;
static bool is_write;

static void access_byte(void)
{
    (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would end the child otherwise */
    if (is_write) {
        *byte_to_access = 1;
    } else {
        (void)*byte_to_access;
    }
}

static bool is_faulting(unsigned char *byte, bool is_writing)
{
    char text[1024];
    byte_to_access = byte;
    is_write = is_writing;
    int status = tap_run_child(access_byte, text, sizeof(text));
    CHECK(WIFEXITED(status) || WTERMSIG(status) == SIGSEGV);
    return WIFSIGNALED(status);
}

static void page_size_is_the_kernels(void)
{
    CHECK(wf_is_power_of_two(wf_page_size()));
    CHECK_EQ(wf_page_size(), getpagesize());
}

static void memory_map_gives_zeroed_aligned_writable_pages(void)
{
    const size_t sizes[] = {1, wf_page_size() - 1, wf_page_size(), wf_page_size() + 1,
                            PAGES * wf_page_size()};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *memory = NULL;
        CHECK_EQ(wf_memory_map(&memory, sizes[i]), 0);
        CHECK_EQ((uintptr_t)memory % wf_page_size(), 0);
        const size_t rounded = (sizes[i] + wf_page_size() - 1) / wf_page_size() * wf_page_size();
        check_all_bytes(memory, rounded, 0);
        memset(memory, 0xa5, rounded);
        check_all_bytes(memory, rounded, 0xa5);
        CHECK_EQ(wf_memory_unmap(memory, sizes[i]), 0);
    }
}

static void memory_map_refuses_invalid_sizes(void)
{
    void *const untouched = &is_write;
    void *memory = untouched;
    CHECK_EQ(wf_memory_map(&memory, 0), -EINVAL);
    CHECK_EQ(wf_memory_map(&memory, SIZE_MAX), -ENOMEM); /* rounded up it would be 0 */
    CHECK_EQ(wf_memory_map(&memory, SIZE_MAX - wf_page_size()), -ENOMEM);
    CHECK_EQ(wf_memory_map(&memory, SIZE_MAX / 4), -ENOMEM);
    CHECK(memory == untouched);
}

static void memory_unmap_makes_only_its_page_fault(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, 3 * wf_page_size()), 0);
    CHECK_EQ(wf_memory_unmap(page_of(memory, 1), wf_page_size()), 0);
    CHECK(is_faulting(page_of(memory, 1), false));
    *page_of(memory, 0) = 1;
    *page_of(memory, 2) = 1;
    CHECK_EQ(wf_memory_unmap(memory, 3 * wf_page_size()), 0); /* including the hole */
    CHECK(is_faulting(page_of(memory, 0), false));
    CHECK(is_faulting(page_of(memory, 2), false));
}

static void memory_discard_zeroes_only_its_pages(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, PAGES * wf_page_size()), 0);
    memset(memory, 0xa5, PAGES * wf_page_size());
    CHECK_EQ(wf_memory_discard(page_of(memory, 2), 3 * wf_page_size()), 0);
    check_all_bytes(page_of(memory, 0), 2 * wf_page_size(), 0xa5);
    check_all_bytes(page_of(memory, 2), 3 * wf_page_size(), 0);
    check_all_bytes(page_of(memory, 5), 3 * wf_page_size(), 0xa5);
    *page_of(memory, 2) = 7; /* the page is usable again */
    CHECK_EQ(*page_of(memory, 2), 7);
    CHECK_EQ(wf_memory_unmap(memory, PAGES * wf_page_size()), 0);
}

/* Where the kernel supports it; if not, the call changes nothing. */
static void memory_discard_pieces_discards_all_or_none(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, PAGES * wf_page_size()), 0);
    memset(memory, 0xa5, PAGES * wf_page_size());
    const struct iovec pieces[2] = {{page_of(memory, 1), wf_page_size()},
                                    {page_of(memory, 4), 2 * wf_page_size()}};
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_discard_ranges(pieces, 2), -ENOSYS);
    wf_fault_arm(0);
    check_all_bytes(memory, PAGES * wf_page_size(), 0xa5);
    const int rc = wf_memory_discard_ranges(pieces, 2);
    const unsigned char left = rc == 0 ? 0 : 0xa5;
    check_all_bytes(page_of(memory, 0), wf_page_size(), 0xa5);
    check_all_bytes(page_of(memory, 1), wf_page_size(), left);
    check_all_bytes(page_of(memory, 2), 2 * wf_page_size(), 0xa5);
    check_all_bytes(page_of(memory, 4), 2 * wf_page_size(), left);
    check_all_bytes(page_of(memory, 6), 2 * wf_page_size(), 0xa5);
    CHECK_EQ(wf_memory_unmap(memory, PAGES * wf_page_size()), 0);
    if (rc != 0) {
        /* the library does not try the system call again */
        CHECK_EQ(wf_memory_discard_ranges(pieces, 2), -ENOSYS);
        tap_skip("this kernel has no process_madvise for itself");
    }
}

static void memory_protect_makes_reads_and_writes_fault(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, 3 * wf_page_size()), 0);
    CHECK(!is_faulting(page_of(memory, 1), true));
    CHECK_EQ(wf_memory_protect(page_of(memory, 1), wf_page_size()), 0);
    CHECK(is_faulting(page_of(memory, 1), false));
    CHECK(is_faulting(page_of(memory, 1), true));
    CHECK(is_faulting(page_of(memory, 2) - 1, true));
    CHECK(!is_faulting(page_of(memory, 1) - 1, true));
    CHECK(!is_faulting(page_of(memory, 2), true));
    CHECK_EQ(wf_memory_unmap(memory, 3 * wf_page_size()), 0);
}

/* Where the kernel supports it.  Under an emulator that ignores the advice no access faults, and
 * the probe must report that guards do not work. */
static void memory_guard_faults_without_splitting_the_mapping(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, 3 * wf_page_size()), 0);
    memset(memory, 0xa5, 3 * wf_page_size());
    const bool is_known = wf_memory_guard(page_of(memory, 1), wf_page_size()) == 0;
    const bool is_guarded = is_known && is_faulting(page_of(memory, 1), false);
    CHECK_EQ(wf_memory_can_guard(), is_guarded);
    if (!is_guarded) {
        tap_skip("this kernel has no MADV_GUARD_INSTALL");
    }
    CHECK(is_faulting(page_of(memory, 1), true));
    CHECK(is_faulting(page_of(memory, 2) - 1, true));
    check_all_bytes(page_of(memory, 0), wf_page_size(), 0xa5);
    check_all_bytes(page_of(memory, 2), wf_page_size(), 0xa5);
    CHECK_EQ(wf_memory_discard(memory, 3 * wf_page_size()), 0);
    CHECK(is_faulting(page_of(memory, 1), true));
    CHECK(!is_faulting(page_of(memory, 2), true));
    CHECK_EQ(wf_memory_unmap(memory, 3 * wf_page_size()), 0);
}

static void memory_keep_small_touches_single_pages(void)
{
    unsigned char pages[PAGES];
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, PAGES * wf_page_size()), 0);
    /* a kernel may have no large pages */
    (void)wf_memory_no_huge_pages(memory, PAGES * wf_page_size());
    CHECK_EQ(wf_memory_resident(memory, PAGES * wf_page_size(), pages), 0);
    check_all_bytes(pages, PAGES, 0);
    *page_of(memory, 2) = 1;
    *page_of(memory, PAGES - 1) = 1;
    CHECK_EQ(wf_memory_resident(memory, PAGES * wf_page_size(), pages), 0);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(pages[i], i == 2 || i == PAGES - 1);
    }
    CHECK_EQ(wf_memory_discard(memory, PAGES * wf_page_size()), 0);
    CHECK_EQ(wf_memory_resident(memory, PAGES * wf_page_size(), pages), 0);
    check_all_bytes(pages, PAGES, 0);
    CHECK_EQ(wf_memory_unmap(memory, PAGES * wf_page_size()), 0);
    CHECK_EQ(wf_memory_resident(memory, PAGES * wf_page_size(), pages), -ENOMEM);
}

static void memory_map_limit_is_the_kernels(void)
{
    unsigned long expected = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file == NULL) {
        tap_skip("no /proc/sys here");
    }
    CHECK_EQ(fscanf(file, "%lu", &expected), 1); // NOLINT(cert-err34-c): the kernel wrote it
    (void)fclose(file);
    CHECK_EQ(wf_mapping_count_max(), expected);
}

static void memory_calls_refuse_unmapped_or_unaligned_pages(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, 2 * wf_page_size()), 0);
    unsigned char *inside = page_of(memory, 0) + 1;
    CHECK_EQ(wf_memory_unmap(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_unmap(memory, 0), -EINVAL);
    CHECK_EQ(wf_memory_discard(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_protect(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_no_huge_pages(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_unmap(memory, 2 * wf_page_size()), 0);
    CHECK_EQ(wf_memory_protect(memory, wf_page_size()), -ENOMEM); /* no page is mapped there */
}

#ifdef WF_TEST_HOOKS
static void memory_calls_report_every_injected_failure(void)
{
    void *const untouched = &is_write;
    void *memory = untouched;
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_map(&memory, 1), -ENOMEM);
    CHECK(memory == untouched);
    CHECK_EQ(wf_memory_map(&memory, 1), 0);
    unsigned char *byte = memory;
    *byte = 9;
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_discard(memory, 1), -EINVAL);
    CHECK_EQ(*byte, 9);
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_protect(memory, 1), -ENOMEM);
    CHECK_EQ(*byte, 9);
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_guard(memory, 1), -EINVAL);
    CHECK_EQ(*byte, 9);
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_no_huge_pages(memory, 1), -EINVAL);
    unsigned char is_touched = 7;
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_resident(memory, 1, &is_touched), -EAGAIN);
    CHECK_EQ(is_touched, 7);
    for (uint64_t nth = 1; nth <= 2; nth++) { /* opening the file, and reading it */
        wf_fault_arm(nth);
        CHECK_EQ(wf_mapping_count_max(), 65530);
        CHECK(wf_fault_hit(NULL));
    }
    for (uint64_t nth = 1; nth <= 2; nth++) {
        wf_fault_arm(nth);
        CHECK(!wf_memory_can_guard());
    }
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_unmap(memory, 1), -ENOMEM);
    CHECK_EQ(*byte, 9);
    CHECK_EQ(wf_memory_unmap(memory, 1), 0);
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(page_size_is_the_kernels),
    TAP_TEST(memory_map_gives_zeroed_aligned_writable_pages),
    TAP_TEST(memory_map_refuses_invalid_sizes),
    TAP_TEST(memory_unmap_makes_only_its_page_fault),
    TAP_TEST(memory_discard_zeroes_only_its_pages),
    TAP_TEST(memory_discard_pieces_discards_all_or_none),
    TAP_TEST(memory_protect_makes_reads_and_writes_fault),
    TAP_TEST(memory_guard_faults_without_splitting_the_mapping),
    TAP_TEST(memory_keep_small_touches_single_pages),
    TAP_TEST(memory_map_limit_is_the_kernels),
    TAP_TEST(memory_calls_refuse_unmapped_or_unaligned_pages),
#ifdef WF_TEST_HOOKS
    TAP_TEST(memory_calls_report_every_injected_failure),
#endif
};
TAP_MAIN(tests)
