# The benchmarks.  `make bench` runs the programs in build/release/bench.list.
add_library(weft_bench STATIC bench/bench.c bench/line.c bench/measure.c)
target_include_directories(weft_bench PUBLIC bench PRIVATE src)
target_link_libraries(weft_bench PUBLIC weft PRIVATE weft_flags)

# weft_bench_program(name source...): a program that prints rows of results.
function(weft_bench_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE src)
  target_link_libraries(${name} PRIVATE weft_bench weft weft_flags)
  set_property(GLOBAL APPEND_STRING PROPERTY WEFT_BENCH_LIST "$<TARGET_FILE:${name}>\n")
endfunction()

weft_bench_program(bench_queue bench/bench_queue.c bench/rivals.c)
weft_bench_program(bench_fiber bench/bench_fiber.c)
weft_bench_program(bench_time bench/bench_time.c)
weft_bench_program(bench_sched bench/bench_sched.c)
weft_bench_program(bench_chan bench/bench_chan.c)
weft_bench_program(bench_sync bench/bench_sync.c)
weft_bench_program(bench_fork bench/bench_fork.c)
weft_bench_program(bench_io bench/bench_io.c)
add_executable(bench_load bench/load.c)
target_link_libraries(bench_load PRIVATE weft_flags)
add_dependencies(bench_io bench_load)

get_property(list GLOBAL PROPERTY WEFT_BENCH_LIST)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/bench.list CONTENT "${list}")

# Rows that only peer programs implement.  Not in the list: it measures nothing of Weft.
add_executable(bench_peers bench/bench_peers.c)
target_link_libraries(bench_peers PRIVATE weft_bench weft_flags)

# The peer programs: Go, Tokio and others.  bench/peers/build.sh skips what it cannot build.
add_custom_target(weft_peers
  COMMAND ${PROJECT_SOURCE_DIR}/bench/peers/build.sh ${PROJECT_SOURCE_DIR}/build/peers
  SOURCES bench/peers/tbb.cc bench/peers/fiber.cc bench/peers/libuv.c)
