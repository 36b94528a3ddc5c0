# The compiler flags of all targets: warnings, sanitizers, test aids.
add_library(weft_flags INTERFACE)
target_compile_definitions(weft_flags INTERFACE _GNU_SOURCE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wundef -Wvla -Wpointer-arith
  -Wcast-qual -Wwrite-strings -Wstrict-prototypes -Wmissing-prototypes -Wformat=2
  $<$<BOOL:${WEFT_WERROR}>:-Werror>
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fno-common -fvisibility=hidden -fstack-clash-protection)

# Frame pointers are for debuggers and profilers.  In a release build they cost 2 ns of the 14 ns of
# a push and pop of the deque, whose fence waits for all earlier stores.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(weft_flags INTERFACE -fno-omit-frame-pointer)
else()
  # The same sources give the same library in any folder.
  target_compile_options(weft_flags INTERFACE -fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.
    -fdebug-prefix-map=${PROJECT_BINARY_DIR}=.)
endif()

if(WEFT_TEST_AIDS)
  target_compile_definitions(weft_flags INTERFACE WF_TEST_HOOKS WF_SLOW_ASSERT)
endif()
if(WEFT_HOSTILE)
  target_compile_definitions(weft_flags INTERFACE WF_HOSTILE)
endif()
if(WEFT_PARK_TIMEOUT_MS)
  target_compile_definitions(weft_flags INTERFACE WEFT_PARK_TIMEOUT_MS=${WEFT_PARK_TIMEOUT_MS})
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE}
    -fno-sanitize-recover=all -g)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
if(WEFT_COVERAGE)
  target_compile_options(weft_flags INTERFACE --coverage -fprofile-update=atomic)
  # tests/tap.c has a weak reference to __gcov_dump, for which the linker loads no archive member.
  target_link_options(weft_flags INTERFACE --coverage -Wl,--undefined=__gcov_dump)
endif()
