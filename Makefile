# SPDX-License-Identifier: MIT
# The targets for developers; `make help` lists them.  CMakeLists.txt says how to build, and
# tools/setup.sh which packages each target needs.
.DEFAULT_GOAL := build
.PHONY: help run build install uninstall dist test stress marks asan tsan hostile wakeups clang aarch64 valgrind \
	cov model-build model fuzz bench bench-peers promises tidy lint format format-check check-all clean

JOBS ?= $(shell nproc)
# The prefix for `make install`.
PREFIX ?= /usr/local
# The number of runs of `make hostile`; each has another seed.
HOSTILE_RUNS ?= 3
# The tests for `make valgrind`: they count no instructions and make no system call that valgrind
# emulates.
VALGRIND_TESTS ?= test_tap test_alloc test_assert test_util test_cpu test_futex test_lock test_inject
# The folders of tests/unit for `make wakeups`: all that tests the scheduler.
WAKEUP_FOLDERS := task sched life fork future obs runtime
# The duration of each fuzz target in `make fuzz`.
FUZZ_SECONDS ?= 20
# The checks of `make check-all`, in this order.
CHECKS := test model fuzz stress asan tsan hostile wakeups clang aarch64 valgrind cov promises tidy lint \
	format-check

# $(call preset,NAME,TARGETS): configures a preset and builds these targets, or all.  Prints a
# notice if that takes more than two seconds, and the log if it fails.
preset = mkdir -p build; \
	{ sleep 2 >/dev/null 2>&1; echo "building build/$(1) ..." >&2; } & notice=$$!; \
	cmake --preset $(1) >build/$(1).log 2>&1 && \
		cmake --build build/$(1) $(if $(2),--target $(2)) -j $(JOBS) >build/$(1).log 2>&1; \
	built=$$?; \
	kill $$notice 2>/dev/null; [ $$built = 0 ] || { cat build/$(1).log; exit 1; }
sources = find src include tests bench examples -name '*.[ch]' 2>/dev/null

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

# ---- build and test ----------------------------------------------------------------------------

run: ## demonstrations: a server beside CPU hogs, a million tasks beside threads, an image
	@tools/setup.sh build
	@$(call preset,release,weft_example_crowded weft_example_demo weft_example_mandelbrot)
	@build/release/crowded && echo
	@build/release/demo
	@build/release/mandelbrot build/mandelbrot.ppm

build: ## build the library and the tests, with assertions
	@tools/setup.sh --check build
	@$(call preset,dev)

install: ## install libraries and headers into PREFIX (/usr/local), below DESTDIR
	@tools/setup.sh --check build
	@$(call preset,release,weft weft_shared)
	@cmake --install build/release --prefix $(PREFIX)

uninstall: ## remove what the last `make install` of this tree copied
	@[ -f build/release/install_manifest.txt ] || { echo "nothing was installed from here" >&2; exit 1; }
	@while read -r file || [ -n "$$file" ]; do rm -fv "$(DESTDIR)$$file"; done \
		<build/release/install_manifest.txt
	@rm build/release/install_manifest.txt

dist: ## write the sources of the last commit to build/weft-VERSION.tar.gz
	@mkdir -p build; version=$$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt); \
	git archive --format=tar.gz --prefix="weft-$$version/" -o "build/weft-$$version.tar.gz" HEAD && \
		echo "build/weft-$$version.tar.gz"

test: ## run all tests; the last line is the summary
	@tools/setup.sh build
	@tools/setup.sh --try uring
	@tools/setup.sh --try test install http
	@tools/setup.sh --try stacks
	@$(call preset,dev)
	@tests/run.sh --all build/dev

stress: build ## run the long tests: millions of items, fibers and tasks (also under TSan)
	@tests/run.sh --stress build/dev
	@$(call preset,tsan)
	@TSAN_OPTIONS=halt_on_error=1 WEFT_STRESS_SECONDS=2 WEFT_STRESS_CONNECTIONS=3000 \
		tests/run.sh --stress build/tsan stress_close stress_sched stress_fork stress_io \
		stress_signals

marks: ## list the rare branches, and the number of tests that reached each in `make test`
	@tests/marks.sh build/dev

# ---- the tests under other conditions ----------------------------------------------------------

asan: ## run the tests under AddressSanitizer, LeakSanitizer and UBSan
	@tools/setup.sh build
	@$(call preset,asan)
	@ASAN_OPTIONS=strict_string_checks=1 \
		UBSAN_OPTIONS=print_stacktrace=1 WEFT_TEST_TIME=5 tests/run.sh build/asan

tsan: ## run the tests under ThreadSanitizer
	@tools/setup.sh build
	@$(call preset,tsan)
	@TSAN_OPTIONS=halt_on_error=1 WEFT_TEST_TIME=10 tests/run.sh build/tsan

hostile: ## run the tests with random delays at race windows, HOSTILE_RUNS times
	@tools/setup.sh build
	@$(call preset,hostile)
	@for run in $$(seq $(HOSTILE_RUNS)); do \
		WEFT_TEST_TIME=5 tests/run.sh build/hostile || exit 1; done

wakeups: ## as hostile; fails if work is queued while a worker is parked (lost wake-up)
	@tools/setup.sh build
	@$(call preset,wakeups)
	@WEFT_TEST_TIME=5 tests/run.sh build/wakeups \
		$(notdir $(basename $(wildcard $(WAKEUP_FOLDERS:%=tests/unit/%/*.c))))

clang: ## run the tests built with clang, plain and under its ThreadSanitizer
	@tools/setup.sh build clang
	@$(call preset,clang)
	@tests/run.sh build/clang
	@$(call preset,clang-tsan)
	@TSAN_OPTIONS=halt_on_error=1 WEFT_TEST_TIME=10 tests/run.sh build/clang-tsan

aarch64: ## run the tests built for AArch64, under qemu
	@tools/setup.sh build aarch64
	@$(call preset,aarch64)
	@WEFT_TEST_WRAP=qemu-aarch64 WEFT_TEST_TIME=20 tests/run.sh build/aarch64

valgrind: build ## run VALGRIND_TESTS under memcheck
	@tools/setup.sh valgrind
	@WEFT_TEST_WRAP="valgrind -q --error-exitcode=99 --leak-check=full" WEFT_TEST_TIME=50 \
		tests/run.sh build/dev $(VALGRIND_TESTS)

model-build: ## build the programs of `model`; check that its faults still match the source
	@tools/setup.sh build tidy
	@$(call preset,model)
	@tests/model/faults.py --texts

model: model-build ## model-check the lock-free code; check that mutants and faults fail
	@tests/model/run.sh build/model

fuzz: ## fuzz every parser with libFuzzer, FUZZ_SECONDS each
	@tools/setup.sh build fuzz
	@$(call preset,fuzz)
	@for program in $$(cat build/fuzz/fuzz.list); do \
		name=$$(basename $$program); corpus=build/fuzz/corpus/$$name; mkdir -p $$corpus; \
		$$program -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=10 -print_final_stats=0 \
			-artifact_prefix=build/fuzz/$$name- $$corpus tests/fuzz/corpus/$${name#fuzz_} \
			>build/fuzz/$$name.log 2>&1 || { cat build/fuzz/$$name.log; exit 1; }; \
		echo "$$name: $$(grep -E '^Done ' build/fuzz/$$name.log)"; done

cov: ## measure line and branch coverage; fails below the limits in tools/cov.py
	@tools/setup.sh build cov
	@$(call preset,cov)
	@find build/cov -name '*.gcda' -delete
	@tests/run.sh build/cov
	@tools/cov.py build/cov

# ---- project rules -----------------------------------------------------------------------------

promises: ## count the promises of docs/promises.md that the tests keep
	@tools/setup.sh tidy
	@tools/promises.py

tidy: ## check layers, sizes, includes, atomics, names in documents (tools/tidy.py)
	@tools/setup.sh tidy
	@tools/tidy.py
	@tests/model/faults.py --texts

lint: ## run clang-tidy
	@tools/setup.sh build lint
	@mkdir -p build; cmake --preset clang >build/clang.log 2>&1 || { cat build/clang.log; exit 1; }
	@sed -n 's/^ *"file": "\([^"]*\.c\)".*/\1/p' build/clang/compile_commands.json | sort -u | \
		xargs -P $(JOBS) -n 1 clang-tidy-14 -p build/clang --quiet 2>build/lint.log

format: ## format every source file with clang-format
	@tools/setup.sh format
	@$(sources) | xargs clang-format-14 -i

format-check: ## fail if `make format` would change a file
	@tools/setup.sh format
	@$(sources) | xargs clang-format-14 --dry-run -Werror

# ---- benchmarks --------------------------------------------------------------------------------

bench: ## run the benchmarks (BENCH_FLAGS=--quick: shorter)
	@tools/setup.sh build
	@$(call preset,release)
	@for program in $$(cat build/release/bench.list); do \
		$$program --json build/$$(basename $$program).json $(BENCH_FLAGS) && echo || exit 1; done

bench-peers: ## run the benchmarks beside Go, Tokio and other runtimes that are installed
	@tools/setup.sh build
	@$(call preset,release)
	@bench/peers/build.sh build/peers
	@peers=$$(find build/peers -maxdepth 1 -type f -perm -u+x | sort | sed 's/^/--peer /'); \
	for program in $$(cat build/release/bench.list) build/release/bench_peers; do \
		$$program --json build/$$(basename $$program).json $(BENCH_FLAGS) $$peers; echo; done
	@bench/http.py --json build/bench_http.json

# ---- everything --------------------------------------------------------------------------------

check-all: ## run every check, then print a summary
	@mkdir -p build; failed=0; rm -f build/check-all; \
	for check in $(CHECKS); do \
		begin=$$(date +%s); echo "==== make $$check"; \
		if $(MAKE) --no-print-directory $$check; then result=ok; else result=FAILED; failed=1; fi; \
		printf '%-14s %-8s %5d s\n' $$check $$result $$(($$(date +%s) - begin)) >>build/check-all; \
	done; \
	echo "==== summary"; cat build/check-all; exit $$failed

clean: ## remove the build folder
	rm -rf build
