/* SPDX-License-Identifier: MIT */
/*
 * Goal:   any text is an address or an error; an error leaves the output unchanged, and a printed
 *         address parses to the same bytes.
 * Method: the first byte selects the default port, the rest is the text.
 */
#include <string.h>

#include "base/base.h"
#include "fuzz/fuzz.h"
#include <weft/net.h>

enum { TEXT_MAX = 300, UNTOUCHED = 0x5a };

static void check_address(const char *text, int default_port)
{
    weft_address address;
    weft_address before;
    memset(&address, UNTOUCHED, sizeof(address));
    memset(&before, UNTOUCHED, sizeof(before));
    int rc = weft_address_parse(&address, text, default_port);
    WEFT_CHECK(rc <= 0);
    if (rc != 0) {
        WEFT_CHECK(memcmp(&address, &before, sizeof(address)) == 0);
        return;
    }
    char printed[WEFT_ADDRESS_TEXT_SIZE];
    int size = weft_address_print(&address, printed, sizeof(printed));
    WEFT_CHECK(size > 0);
    WEFT_CHECK((size_t)size < sizeof(printed));
    WEFT_CHECK((size_t)size == strlen(printed));
    weft_address again;
    WEFT_CHECK(weft_address_parse(&again, printed, -1) == 0);
    WEFT_CHECK(again.size == address.size);
    WEFT_CHECK(memcmp(&again.as, &address.as, address.size) == 0);
    char twice[WEFT_ADDRESS_TEXT_SIZE];
    WEFT_CHECK(weft_address_print(&again, twice, sizeof(twice)) == size);
    WEFT_CHECK(strcmp(printed, twice) == 0);
}

/* Any address that the kernel may return can be printed, into a buffer of any size. */
static void check_print(const uint8_t *data, size_t size)
{
    weft_address address;
    char text[WEFT_ADDRESS_TEXT_SIZE];
    memset(&address, 0, sizeof(address));
    address.size = (socklen_t)size;
    memcpy(&address.as, data, size < sizeof(address.as) ? size : sizeof(address.as));
    int needed = weft_address_print(&address, text, sizeof(text));
    WEFT_CHECK(needed < (int)sizeof(text));
    if (needed > 0) {
        /* one byte too small: the sanitizer checks its end */
        char *small = wf_alloc((size_t)needed);
        WEFT_CHECK(small != NULL);
        WEFT_CHECK(weft_address_print(&address, small, (size_t)needed) == needed);
        WEFT_CHECK(strncmp(small, text, (size_t)needed - 1) == 0);
        WEFT_CHECK(small[needed - 1] == '\0');
        wf_free(small);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int ports[] = {-1, 0, 443, 65535, 65536};
    char text[TEXT_MAX];
    if (size == 0) {
        return 0;
    }
    size_t length = size - 1 < sizeof(text) - 1 ? size - 1 : sizeof(text) - 1;
    memcpy(text, data + 1, length);
    text[length] = '\0';
    check_address(text, ports[data[0] % (sizeof(ports) / sizeof(ports[0]))]);
    check_print(data, size);
    return 0;
}
