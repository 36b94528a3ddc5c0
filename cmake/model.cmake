# The model programs: the checker, the file under test compiled against the checker's atomics
# (WF_MODEL), and the kernel tests.  `make model` runs them.
set(WEFT_MODEL_ENGINE tests/model/fiber.c tests/model/memory.c tests/model/heap.c
  tests/model/search.c tests/model/race.c tests/model/mutant.c tests/model/main.c)
set_source_files_properties(tests/model/fiber.c PROPERTIES COMPILE_OPTIONS "-U_FORTIFY_SOURCE")

function(weft_model name)
  add_executable(${name} ${ARGN} ${WEFT_MODEL_ENGINE} src/base/util.c)
  target_compile_definitions(${name} PRIVATE WF_MODEL)
  target_compile_options(${name} PRIVATE -O2)
  target_include_directories(${name} PRIVATE src tests)
  target_link_libraries(${name} PRIVATE weft_flags)
  set_property(GLOBAL APPEND_STRING PROPERTY WEFT_MODEL_LIST "$<TARGET_FILE:${name}>\n")
endfunction()

weft_model(model_litmus tests/model/model_litmus.c)
weft_model(model_ring tests/model/model_ring.c src/queue/ring.c)
weft_model(model_deque tests/model/model_deque.c src/queue/deque.c)
weft_model(model_mpsc tests/model/model_mpsc.c src/queue/mpsc.c)

get_property(list GLOBAL PROPERTY WEFT_MODEL_LIST)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/model.list CONTENT "${list}")
