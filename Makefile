# The front door. Everything is built by CMake in build/; these are the commands people type.
#   make          build build/fedloom (the first time in a folder: installing what is missing)
#   make run      a real federation on Fashion-MNIST, several methods, a table
#   make deps     install the Debian packages that are missing
#   make test     all tests
#   make test-quick those that take less than two minutes on two cores
#   make test-gpu the tests of kernels, on a GPU
#   make test-faults everything that can go wrong on a network: tests/net/faults.sh, all of it
#   make mutants  changes one thing at a time in src, and looks whether a test notices; MUTANTS="--minutes 30": tests/README.md
#   make bench    speed and memory, as ratios within one run
#   make bench-gpu rounds on a GPU, beside JAX and PyTorch; MODELS="60-32-10 cnn": those alone
#   make bench-net a server over the network: 1,000 clients, 10,000 that wait; beside Flower, where it is installed
#   make bench-mpi one run in many processes, beside as many threads, and a model of many more; APPFL=DIR: beside APPFL
#   make python   the Python package: built, installed into build-python and tested
#   make client   the small program for machines that only join: build-client/fedloom-client
#   make fresh    README.md and the guide in an empty Debian (root, debootstrap, a mirror); STEPS="packages run": those alone
#   make tidy     clang-tidy on src; make format, format-check, check: CONTRIBUTING.md
#   make fuzz     every fuzz target for 10 seconds, or SECONDS=600; needs clang
#   make docs     renew the reference and the manual pages
#   make dist     the release's source: build-dist/fedloom-VERSION.tar.xz, of what is committed
#   make deb      Debian packages of it, checked by lintian: build-deb
#   make install  the program, both libraries, headers, examples, manual pages and completion, into PREFIX
BUILD ?= build
JOBS  ?= $(shell nproc)
export JOBS # tests/run.sh
CMAKE_FLAGS ?=
PREFIX ?= /usr/local

MAKEFLAGS += --no-print-directory

.PHONY: all deps build run test test-gpu test-faults mutants bench bench-gpu bench-net bench-mpi python asan tsan clang client fuzz kernels aarch64 format format-check check docs symbols dist deb install clean

all: program

deps:
	@tools/install-deps.sh
	@echo "deps: every package is installed"

# Packages are installed before the first build in a folder; later, what is missing is only named.
.PHONY: configure program
configure:
	@tools/install-deps.sh $(if $(wildcard $(BUILD)/CMakeCache.txt),--check,--first)
	@cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release $(CMAKE_FLAGS) >$(BUILD).log 2>&1 || { \
	    cat $(BUILD).log; tools/install-deps.sh --check; exit 1; }
	@rm -f $(BUILD).log

# The program alone: half of what `build` compiles, which has the tests, too.
program: configure
	@tools/build.sh $(BUILD) $(JOBS) fedloom_program

build: configure
	@tools/build.sh $(BUILD) $(JOBS) all

run: program
	$(BUILD)/fedloom compare examples/fashion-methods.yaml

test: build
	@tests/run.sh $(BUILD)

.PHONY: test-quick
test-quick: build
	@tests/run.sh $(BUILD) quick

test-gpu: build
	@tests/run-gpu.sh $(BUILD)

# SEED=N: another schedule of cuts and kills.
test-faults: build
	@tests/net/faults.sh $(BUILD)/fedloom $(BUILD)/tests/relay $(BUILD)/tests/odd_client all $(SEED)

# It builds in build-mutants, in a copy of the tree; what has a result there is not tried again.
mutants: deps
	@tests/mutants/run.py $(MUTANTS)

bench: build
	@bench/run.sh $(BUILD)

bench-gpu: build
	@bench/gpu.sh $(BUILD) $(MODELS)

# FLOWER=DIR: a virtual environment that has flwr (and numpy) from PyPI; without it, that comparison is left out.
bench-net: build
	@bench/net_load.sh $(BUILD)
	@bench/net_flower.sh $(BUILD) $(FLOWER)

# APPFL=DIR: a virtual environment that has appfl and mpi4py from PyPI; without it, that comparison is left out.
bench-mpi: build
	@bench/mpi.sh $(BUILD)
	@bench/mpi_state.sh $(BUILD)
	@bench/mpi_appfl.sh $(BUILD) $(APPFL)

# Needs what tools/install-deps.sh --python installs, and PyPI: python/test.sh has the list.
python: build
	@tools/install-deps.sh --python
	@python/test.sh $(BUILD)

# The suites of .ci/run, one by one. ASan and TSan need their own builds.
asan: deps
	@cmake --preset asan >/dev/null && cmake --build --preset asan -j $(JOBS) && tests/run.sh build-asan

tsan: deps
	@cmake --preset tsan >/dev/null && cmake --build --preset tsan -j $(JOBS) --target threaded && tests/run.sh build-tsan threaded

clang: deps
	@cmake --preset clang >/dev/null && cmake --build --preset clang -j $(JOBS)

# libFuzzer on everything that is read from strangers; TARGETS=fuzz_packet: that one alone.
SECONDS ?= 10
fuzz: deps
	@cmake --preset fuzz >/dev/null && cmake --build --preset fuzz -j $(JOBS) --target fuzz
	@tests/fuzz/run.sh build-fuzz $(SECONDS) $(TARGETS)

# What those searches found joins the packed inputs, tests/fuzz/corpus.
.PHONY: fuzz-merge
fuzz-merge:
	@tests/fuzz/merge.sh build-fuzz $(TARGETS)

# The client alone, without OpenBLAS, oneDNN and images, in a federation with a server that has them.
client: build
	@cmake -S . -B build-client -DCMAKE_BUILD_TYPE=Release -DFEDLOOM_CLIENT_ONLY=ON -DFEDLOOM_BLAS=OFF -DFEDLOOM_ONEDNN=OFF \
	    -DFEDLOOM_IMAGES=OFF >/dev/null
	@cmake --build build-client -j $(JOBS) && tests/net/client.sh $(BUILD)/fedloom build-client/fedloom-client

# CI runs its first part without root: tools/check-programs.sh, in `make check`.
.PHONY: fresh
fresh:
	@tools/fresh.sh $(STEPS)

# What shows that the kernels for every x86-64 level compute what they should; a few seconds.
kernels: build
	@tests/run.sh $(BUILD) kernels

# For 64-bit ARM: cross-compiled, and tested in an emulator.
aarch64:
	@tools/install-deps.sh --aarch64
	@tools/aarch64-sysroot.sh build-aarch64-sysroot
	@cmake --preset aarch64 >/dev/null && cmake --build --preset aarch64 -j $(JOBS) && tests/run.sh build-aarch64

format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.inc' '*.cu' '*.cuh' '*.cpp')

format-check:
	@clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h' '*.inc' '*.cu' '*.cuh' '*.cpp')
	@awk 'length > 120 { print FILENAME ":" FNR ": longer than 120 columns"; bad = 1 } END { exit bad }' \
	    $$(git ls-files '*.c' '*.h' '*.inc' '*.cu' '*.cuh' '*.cpp')
	@echo "format: ok"

# clang-tidy on all of src, with the checks of .clang-tidy.
.PHONY: tidy
tidy: configure
	@tools/tidy.sh $(BUILD)

check:
	@tools/check-layers.sh
	@tools/check-packaging.sh
	@tools/check-programs.sh
	@tests/mutants/run.py --names
	@tools/check-words.py

# What the program prints about itself; tools/check-docs.sh holds the files to it.
docs: build
	@tools/check-docs.sh --write $(BUILD)

# What the shared library exports; tools/check-symbols.sh holds it to the public headers.
symbols: build
	@tools/check-symbols.sh --write $(BUILD)

dist:
	@tools/dist.sh build-dist

deb:
	@tools/install-deps.sh --deb
	@tools/deb.sh build-deb

install: build
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || : # so that programs find the library, where that is for us to do

clean:
	rm -rf build build-python build-asan build-tsan build-clang build-client build-fuzz build-fresh build-debug build-aarch64 build-aarch64-sysroot build-dist build-deb build-mutants
