# The fuzz targets for libFuzzer, which needs clang.  `make fuzz` runs the programs in
# build/fuzz/fuzz.list.
add_compile_options(-fsanitize=fuzzer-no-link)
target_compile_options(weft PRIVATE -fsanitize=fuzzer-no-link)

# weft_fuzz(name source...): a fuzz target; its corpus is tests/fuzz/corpus/<name without fuzz_>.
function(weft_fuzz name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE src tests)
  target_link_libraries(${name} PRIVATE weft weft_flags)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_property(GLOBAL APPEND_STRING PROPERTY WEFT_FUZZ_LIST "$<TARGET_FILE:${name}>\n")
endfunction()

weft_fuzz(fuzz_address tests/fuzz/fuzz_address.c)
weft_fuzz(fuzz_buffer tests/fuzz/fuzz_buffer.c)
weft_fuzz(fuzz_http tests/fuzz/fuzz_http.c)
target_include_directories(fuzz_http PRIVATE ${PROJECT_SOURCE_DIR}) # it includes examples/http.h

get_property(list GLOBAL PROPERTY WEFT_FUZZ_LIST)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/fuzz.list CONTENT "${list}")
