# SPDX-License-Identifier: MIT
# The front door.  `make help` lists what there is; CMakeLists.txt knows how things are built.
.DEFAULT_GOAL := build
.PHONY: help build test promises run clean

JOBS ?= $(shell nproc)
# $(call preset,NAME): configure and build one preset, quietly unless it fails.
preset = cmake --preset $(1) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }; \
	cmake --build build/$(1) -j $(JOBS) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

build/:
	@mkdir -p build

build: | build/ ## the library and the tests, with assertions
	@$(call preset,dev)

test: | build/ ## all tests; the last line counts them
	@$(call preset,dev)
	@tests/run.sh build/dev

promises: ## which promises of docs/promises.md the tests keep
	@tools/promises.py

clean: ## removes what was built
	rm -rf build
