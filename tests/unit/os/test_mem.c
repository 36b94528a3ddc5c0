/* SPDX-License-Identifier: MIT */
/*
 * Goal:   pages come zeroed, go back, fault where they shall, and a refusal changes nothing.
 * Method: reads and writes every page; accesses that must fault are made in child processes.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aids.h"
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

/* True when an access to the byte ends a child by SIGSEGV; false when it lives. */
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

static void the_page_size_is_the_kernels(void)
{
    CHECK(wf_is_power_of_two(wf_page_size()));
    CHECK_EQ(wf_page_size(), getpagesize());
}

static void a_mapping_is_zeroed_aligned_and_writable(void)
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

static void sizes_that_cannot_be_are_refused(void)
{
    void *const untouched = &is_write;
    void *memory = untouched;
    CHECK_EQ(wf_memory_map(&memory, 0), -EINVAL);
    CHECK_EQ(wf_memory_map(&memory, SIZE_MAX), -ENOMEM); /* rounded up it would be 0 */
    CHECK_EQ(wf_memory_map(&memory, SIZE_MAX - wf_page_size()), -ENOMEM);
    CHECK_EQ(wf_memory_map(&memory, SIZE_MAX / 4), -ENOMEM);
    CHECK(memory == untouched);
}

static void an_unmapped_page_faults_and_its_neighbours_do_not(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, 3 * wf_page_size()), 0);
    CHECK_EQ(wf_memory_unmap(page_of(memory, 1), wf_page_size()), 0);
    CHECK(is_faulting(page_of(memory, 1), false));
    *page_of(memory, 0) = 1;
    *page_of(memory, 2) = 1;
    CHECK_EQ(wf_memory_unmap(memory, 3 * wf_page_size()), 0); /* with the hole */
    CHECK(is_faulting(page_of(memory, 0), false));
    CHECK(is_faulting(page_of(memory, 2), false));
}

static void discarded_pages_read_as_zero_and_the_others_keep(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, PAGES * wf_page_size()), 0);
    memset(memory, 0xa5, PAGES * wf_page_size());
    CHECK_EQ(wf_memory_discard(page_of(memory, 2), 3 * wf_page_size()), 0);
    check_all_bytes(page_of(memory, 0), 2 * wf_page_size(), 0xa5);
    check_all_bytes(page_of(memory, 2), 3 * wf_page_size(), 0);
    check_all_bytes(page_of(memory, 5), 3 * wf_page_size(), 0xa5);
    *page_of(memory, 2) = 7; /* and can be used again */
    CHECK_EQ(*page_of(memory, 2), 7);
    CHECK_EQ(wf_memory_unmap(memory, PAGES * wf_page_size()), 0);
}

/* Where the kernel knows it; if not, nothing has changed. */
static void pieces_go_at_once_or_not_at_all(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, PAGES * wf_page_size()), 0);
    memset(memory, 0xa5, PAGES * wf_page_size());
    const struct iovec pieces[2] = {{page_of(memory, 1), wf_page_size()},
                                    {page_of(memory, 4), 2 * wf_page_size()}};
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_discard_pieces(pieces, 2), -ENOSYS);
    wf_fault_arm(0);
    check_all_bytes(memory, PAGES * wf_page_size(), 0xa5);
    const int rc = wf_memory_discard_pieces(pieces, 2);
    const unsigned char left = rc == 0 ? 0 : 0xa5;
    check_all_bytes(page_of(memory, 0), wf_page_size(), 0xa5);
    check_all_bytes(page_of(memory, 1), wf_page_size(), left);
    check_all_bytes(page_of(memory, 2), 2 * wf_page_size(), 0xa5);
    check_all_bytes(page_of(memory, 4), 2 * wf_page_size(), left);
    check_all_bytes(page_of(memory, 6), 2 * wf_page_size(), 0xa5);
    CHECK_EQ(wf_memory_unmap(memory, PAGES * wf_page_size()), 0);
    if (rc != 0) {
        CHECK_EQ(wf_memory_discard_pieces(pieces, 2), -ENOSYS); /* it is not asked again */
        tap_skip("this kernel has no process_madvise for itself");
    }
}

static void a_protected_page_faults_on_read_and_write(void)
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

/* Where the kernel has it.  Under an emulator that ignores the advice nothing faults, and the
 * question whether it works has to be answered with no. */
static void a_guarded_page_faults_without_a_mapping_of_its_own(void)
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

static void pages_are_touched_one_by_one(void)
{
    unsigned char pages[PAGES];
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, PAGES * wf_page_size()), 0);
    (void)wf_memory_keep_small(memory, PAGES * wf_page_size()); /* a kernel may have no large */
    CHECK_EQ(wf_memory_touched(memory, PAGES * wf_page_size(), pages), 0);
    check_all_bytes(pages, PAGES, 0);
    *page_of(memory, 2) = 1;
    *page_of(memory, PAGES - 1) = 1;
    CHECK_EQ(wf_memory_touched(memory, PAGES * wf_page_size(), pages), 0);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(pages[i], i == 2 || i == PAGES - 1);
    }
    CHECK_EQ(wf_memory_discard(memory, PAGES * wf_page_size()), 0);
    CHECK_EQ(wf_memory_touched(memory, PAGES * wf_page_size(), pages), 0);
    check_all_bytes(pages, PAGES, 0);
    CHECK_EQ(wf_memory_unmap(memory, PAGES * wf_page_size()), 0);
    CHECK_EQ(wf_memory_touched(memory, PAGES * wf_page_size(), pages), -ENOMEM);
}

static void the_kernel_tells_how_many_mappings_it_allows(void)
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

static void what_is_no_page_of_ours_is_refused(void)
{
    void *memory;
    CHECK_EQ(wf_memory_map(&memory, 2 * wf_page_size()), 0);
    unsigned char *inside = page_of(memory, 0) + 1;
    CHECK_EQ(wf_memory_unmap(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_unmap(memory, 0), -EINVAL);
    CHECK_EQ(wf_memory_discard(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_protect(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_keep_small(inside, 1), -EINVAL);
    CHECK_EQ(wf_memory_unmap(memory, 2 * wf_page_size()), 0);
    CHECK_EQ(wf_memory_protect(memory, wf_page_size()), -ENOMEM); /* nothing is mapped there */
}

#ifdef WF_TEST_AIDS
static void every_failure_is_reported_and_changes_nothing(void)
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
    CHECK_EQ(wf_memory_keep_small(memory, 1), -EINVAL);
    unsigned char is_touched = 7;
    wf_fault_arm(1);
    CHECK_EQ(wf_memory_touched(memory, 1, &is_touched), -EAGAIN);
    CHECK_EQ(is_touched, 7);
    for (uint64_t nth = 1; nth <= 2; nth++) { /* to open the file, and to read it */
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
    TAP_TEST(the_page_size_is_the_kernels),
    TAP_TEST(a_mapping_is_zeroed_aligned_and_writable),
    TAP_TEST(sizes_that_cannot_be_are_refused),
    TAP_TEST(an_unmapped_page_faults_and_its_neighbours_do_not),
    TAP_TEST(discarded_pages_read_as_zero_and_the_others_keep),
    TAP_TEST(pieces_go_at_once_or_not_at_all),
    TAP_TEST(a_protected_page_faults_on_read_and_write),
    TAP_TEST(a_guarded_page_faults_without_a_mapping_of_its_own),
    TAP_TEST(pages_are_touched_one_by_one),
    TAP_TEST(the_kernel_tells_how_many_mappings_it_allows),
    TAP_TEST(what_is_no_page_of_ours_is_refused),
#ifdef WF_TEST_AIDS
    TAP_TEST(every_failure_is_reported_and_changes_nothing),
#endif
};
TAP_MAIN(tests)
