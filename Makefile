# A short front to scripts/ and Meson. `make help` lists what there is.
SHELL := /bin/bash
BUILD ?= build
PREFIX ?= /usr/local

.PHONY: help setup build demo check bench format tidy bundle install clean

help:
	@echo 'make demo      set this machine up, build, judge one problem and a few attacks'
	@echo 'make check     set up, build with warnings as errors, run every test'
	@echo 'make setup     packages and a Python with torch (nothing, where they are there)'
	@echo 'make build     build/kbv'
	@echo 'make bench     what kbv itself costs'
	@echo 'make bundle    dist/: runs on any x86-64 or arm64 Linux with glibc 2.36 or newer'
	@echo 'make install   into PREFIX (/usr/local); "pip install ." puts it beside a torch'
	@echo 'make format    clang-format over the C files that git knows'
	@echo 'make tidy      clang-tidy over the same'
	@echo 'make clean     remove what the targets above built; keeps .venv'

setup:
	@scripts/setup.sh $(BUILD)

build: setup
	@scripts/build.sh $(BUILD)

demo: build
	@$(BUILD)/kbv demo

check: setup
	@python3 scripts/check.py --build $(BUILD)

bench: build
	@. scripts/tools.sh && run_meson test -C $(BUILD) --benchmark --verbose

bundle: setup
	@scripts/bundle.sh

install: build
	@. scripts/tools.sh && run_meson configure $(BUILD) -Dprefix=$(PREFIX) \
	  && run_meson install -C $(BUILD) --quiet

format:
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

tidy: build
	@git ls-files -z 'src/*.c' | xargs -0 clang-tidy --quiet -p $(BUILD)

clean:
	@rm -rf build build-check-sanitize build-check-fuzz build-bundle dist
