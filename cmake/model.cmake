# The model programs: the checker, the file under test compiled against the checker's atomics
# (WF_MODEL), and the model tests.  `make model` runs them.
set(WEFT_MODEL_ENGINE tests/model/fiber.c tests/model/cell.c tests/model/memory.c
  tests/model/access.c tests/model/heap.c
  tests/model/search.c tests/model/race.c tests/model/mutant.c tests/model/main.c
  src/base/util.c)

function(weft_model_target name)
  target_compile_definitions(${name} PRIVATE WF_MODEL)
  target_compile_options(${name} PRIVATE -O2 -fomit-frame-pointer)
  target_include_directories(${name} PRIVATE src tests include)
  target_link_libraries(${name} PRIVATE weft_flags)
endfunction()

# Compiled once, for the model programs and for their copies with a fault (tests/model/faults.py).
add_library(model_engine STATIC ${WEFT_MODEL_ENGINE})
weft_model_target(model_engine)

function(weft_model_program name)
  add_executable(${name} ${ARGN})
  weft_model_target(${name})
  target_link_libraries(${name} PRIVATE model_engine)
endfunction()

# weft_model(name source...): a program that `make model` runs and whose sources it mutates.
function(weft_model name)
  weft_model_program(${name} ${ARGN})
  set_property(GLOBAL APPEND_STRING PROPERTY WEFT_MODEL_LIST "$<TARGET_FILE:${name}>\n")
endfunction()

# Has a mutant for each verdict; tests/model/run.sh compares the verdicts with verdicts.txt.
weft_model_program(model_verdicts tests/model/model_verdicts.c)

weft_model(model_litmus tests/model/model_litmus.c)
weft_model(model_self tests/model/model_self.c)
weft_model(model_ring tests/model/model_ring.c src/queue/ring.c)
weft_model(model_deque tests/model/model_deque.c src/queue/deque.c)
weft_model(model_mpsc tests/model/model_mpsc.c src/queue/mpsc.c)
weft_model(model_lock tests/model/model_lock.c src/os/lock.c)
weft_model(model_park tests/model/model_park.c src/os/park.c)
weft_model(model_inject tests/model/model_inject.c src/queue/inject.c src/os/lock.c)
weft_model(model_sleep tests/model/model_sleep.c src/queue/inject.c src/os/lock.c)
weft_model(model_idle tests/model/model_idle.c src/sched/idle.c src/queue/mpsc.c src/os/park.c)
weft_model(model_state tests/model/model_state.c src/task/state.c src/os/park.c)
weft_model(model_fork tests/model/model_fork.c src/fork/fork_shared.c)
weft_model(model_lifo tests/model/model_lifo.c)
weft_model(model_bias tests/model/model_bias.c src/queue/bias.c src/queue/runq.c src/queue/deque.c
  src/queue/inject.c src/queue/stats.c src/sched/idle.c src/queue/ring.c
  src/os/lock.c src/os/park.c)
weft_model(model_monitor tests/model/model_monitor.c src/runtime/monitor.c src/sched/spare.c src/queue/bias.c
  src/sched/safepoint.c src/sched/idle.c src/queue/mpsc.c src/os/lock.c src/os/park.c)
weft_model(model_join tests/model/model_join.c src/life/join.c src/life/spawn.c src/life/end.c
  src/task/extra.c src/task/state.c
  src/os/lock.c src/os/park.c)
weft_model(model_scope tests/model/model_scope.c src/life/scope.c src/task/state.c
  src/os/lock.c src/os/park.c)
weft_model(model_blocking tests/model/model_blocking.c src/life/blocking.c src/task/state.c
  src/os/lock.c src/os/park.c)
weft_model(model_timers tests/model/model_timers.c src/sched/timers.c src/time/wheel.c src/sched/idle.c
  src/os/lock.c src/os/park.c)
weft_model(model_fd tests/model/model_fd.c src/io/fd.c src/io/select.c src/sync/select.c
  src/sync/waitq.c src/sync/spin.c src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_driver tests/model/model_driver.c src/sched/driver.c src/sched/idle.c src/os/park.c)
weft_model(model_close tests/model/model_close.c src/task/pool.c src/obs/quiescence.c src/task/state.c
  src/os/lock.c src/os/park.c)
weft_model(model_limit tests/model/model_limit.c src/life/limit.c src/os/lock.c src/os/park.c)
weft_model(model_world tests/model/model_world.c src/sched/safepoint.c src/task/state.c src/os/lock.c
  src/os/park.c)
weft_model(model_waitq tests/model/model_waitq.c src/sync/waitq.c src/sync/spin.c src/task/state.c
  src/os/lock.c src/os/park.c)
weft_model(model_sem tests/model/model_sem.c src/sync/sem.c src/sync/waitq.c src/sync/spin.c
  src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_chan tests/model/model_chan.c src/sync/chan.c src/sync/select.c src/sync/spin.c
  src/sync/waitq.c src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_mutex tests/model/model_mutex.c src/sync/mutex.c src/sync/spin.c src/sync/waitq.c
  src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_rwlock tests/model/model_rwlock.c src/sync/rwlock.c src/sync/spin.c src/sync/waitq.c
  src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_cond tests/model/model_cond.c src/sync/cond.c src/sync/mutex.c src/sync/spin.c
  src/sync/waitq.c src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_once tests/model/model_once.c src/sync/once.c src/sync/spin.c src/sync/waitq.c
  src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_oneshot tests/model/model_oneshot.c src/sync/oneshot.c src/sync/spin.c
  src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_broadcast tests/model/model_broadcast.c src/sync/broadcast.c src/sync/spin.c
  src/sync/waitq.c src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_watch tests/model/model_watch.c src/sync/watch.c src/sync/spin.c src/sync/waitq.c
  src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_event tests/model/model_event.c src/sync/notify.c src/sync/group.c src/sync/spin.c
  src/sync/waitq.c src/task/state.c src/os/lock.c src/os/park.c)
weft_model(model_trace tests/model/model_trace.c src/trace/ring.c src/os/lock.c)
weft_model(model_registry tests/model/model_registry.c src/fiber/registry.c src/os/lock.c)

get_property(list GLOBAL PROPERTY WEFT_MODEL_LIST)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/model.list CONTENT "${list}")
