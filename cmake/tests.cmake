# The test programs.  Each prints TAP; tests/run.sh adds them up.
add_library(weft_tap STATIC tests/tap.c tests/step.c)
target_include_directories(weft_tap PUBLIC tests PRIVATE src)
target_link_libraries(weft_tap PUBLIC weft PRIVATE weft_flags)

set(WEFT_TEST_LIST "")

# A program of tests, and its path in the list that tests/run.sh reads.
function(weft_tap_program list name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE src tests)
  target_link_libraries(${name} PRIVATE weft_tap weft weft_flags)
  set_property(GLOBAL APPEND_STRING PROPERTY ${list} "$<TARGET_FILE:${name}>\n")
endfunction()

# weft_test(name source...): a program of unit tests that `make test` runs.
function(weft_test name)
  weft_tap_program(WEFT_TEST_LIST ${name} ${ARGN})
endfunction()

# weft_stress(name source...): a long one that `make stress` runs; built everywhere.
function(weft_stress name)
  weft_tap_program(WEFT_STRESS_LIST ${name} ${ARGN})
endfunction()

# weft_test_script(path): a Python program of tests that `make test` runs; without Python it is
# listed all the same, and tests/run.sh reports it as skipped.
function(weft_test_script path)
  set_property(GLOBAL APPEND_STRING PROPERTY WEFT_TEST_LIST "${CMAKE_SOURCE_DIR}/${path}\n")
endfunction()

weft_test(test_tap tests/unit/test_tap.c)
weft_test(test_alloc tests/unit/base/test_alloc.c)
weft_test(test_assert tests/unit/base/test_assert.c)
weft_test(test_atomic tests/unit/base/test_atomic.c)
weft_test(test_util tests/unit/base/test_util.c)
weft_test(test_clock tests/unit/os/test_clock.c)
weft_test(test_cpu tests/unit/os/test_cpu.c)
weft_test(test_file tests/unit/os/test_file.c)
weft_test(test_futex tests/unit/os/test_futex.c)
weft_test(test_lock tests/unit/os/test_lock.c)
weft_test(test_park tests/unit/os/test_park.c)
weft_test(test_mem tests/unit/os/test_mem.c)
weft_test(test_thread tests/unit/os/test_thread.c)
weft_test(test_wheel tests/unit/time/test_wheel.c)
weft_test(test_trace tests/unit/trace/test_trace.c)
weft_test(test_deque tests/unit/queue/test_deque.c)
weft_test(test_inject tests/unit/queue/test_inject.c)
weft_test(test_ledger tests/unit/queue/test_ledger.c tests/ledger.c)
weft_test(test_mpsc tests/unit/queue/test_mpsc.c)
weft_test(test_ring tests/unit/queue/test_ring.c)
weft_test(test_green tests/unit/sched/test_green.c)
weft_test(test_idle tests/unit/sched/test_idle.c)
weft_test(test_state tests/unit/sched/test_state.c)
weft_test(test_faults tests/unit/sched/test_faults.c)
weft_test(test_obs tests/unit/sched/test_obs.c)
weft_test(test_shapes tests/unit/sched/test_shapes.c)
weft_test(test_programs tests/unit/sched/test_programs.c)
weft_test(test_plan tests/unit/sched/test_plan.c)
weft_test(test_fairness tests/unit/sched/test_fairness.c)
weft_test(test_misuse tests/unit/sched/test_misuse.c)
weft_test(test_order tests/unit/sched/test_order.c)
weft_test(test_world tests/unit/sched/test_world.c)
weft_test(test_shutdown tests/unit/sched/test_shutdown.c)
weft_test(test_runtime tests/unit/sched/test_runtime.c)
weft_test(test_failure tests/unit/sched/test_failure.c)
weft_test(test_scope tests/unit/sched/test_scope.c)
weft_test(test_cancel tests/unit/sched/test_cancel.c)
weft_test(test_deadlock tests/unit/sched/test_deadlock.c)
weft_test(test_join tests/unit/sched/test_join.c)
weft_test(test_task tests/unit/sched/test_task.c)
target_link_libraries(test_task PRIVATE m) # rounding modes

weft_test(test_fiber tests/unit/fiber/test_fiber.c)
target_link_libraries(test_fiber PRIVATE m) # rounding modes
weft_test(test_migrate tests/unit/fiber/test_migrate.c)
weft_test(test_overflow tests/unit/fiber/test_overflow.c)
weft_test(test_stack tests/unit/fiber/test_stack.c)

weft_stress(stress_fiber tests/stress/stress_fiber.c)
weft_stress(stress_queue tests/stress/stress_queue.c tests/ledger.c)

if(WEFT_EXAMPLES)
  weft_test_script(tests/tools/test_examples.py)
endif()
weft_test_script(tests/tools/test_install.py)
weft_test_script(tests/tools/test_promises.py)
weft_test_script(tests/tools/test_scripts.py)
weft_test_script(tests/tools/test_tidy.py)

if(WEFT_BENCH)
  weft_test(test_bench tests/unit/bench/test_bench.c)
  target_link_libraries(test_bench PRIVATE weft_bench)
endif()

get_property(list GLOBAL PROPERTY WEFT_TEST_LIST)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/tests.list CONTENT "${list}")
get_property(list GLOBAL PROPERTY WEFT_STRESS_LIST)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/stress.list CONTENT "${list}")
