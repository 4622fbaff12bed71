# firstlight: `make help` lists the targets.
#
# One library of everything but main, one binary, one program per tests/**/test_*.c. All of them are
# found by pattern: adding a file needs no change here. CONFIG picks the build folder and flags:
# release (default), debug, asan, tsan, clang, fuzz, oss-fuzz.

CONFIG ?= release
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
PORT ?= 8080

B := build/$(CONFIG)
PKGS := libevent libevent_pthreads libevent_openssl libnghttp2 libprotobuf-c jansson libpcre2-8 \
        libutf8proc libcurl libssl libcrypto libseccomp zlib
VERSION := 0.1.0

# One short line per command; `make V=1` shows them whole.
SAY = $(if $(V),,@echo '  CC   $@'; )

# All cores, unless the caller chose a number.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wwrite-strings -Wvla -Werror=implicit-function-declaration -Werror=incompatible-pointer-types
# -ffp-contract=off: a multiply and an add become one fma only where the source says so, so that a
# row's bits never depend on how the compiler inlined a kernel.
BASE_FLAGS := -std=c17 -D_GNU_SOURCE -Isrc -Ibuild -g -fno-strict-aliasing -ffp-contract=off -fno-math-errno \
              -pthread $(WARN) $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
CONFIG_release := -O3 -DNDEBUG
CONFIG_debug := -O1 -DFIRSTLIGHT_DEBUG
CONFIG_asan := -O1 -DFIRSTLIGHT_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined \
               -fno-omit-frame-pointer
CONFIG_tsan := -O1 -DFIRSTLIGHT_DEBUG -fsanitize=thread
CONFIG_clang := -O0 -DFIRSTLIGHT_DEBUG
CONFIG_fuzz := -O1 -DFIRSTLIGHT_DEBUG -fsanitize=fuzzer-no-link,address,undefined
CONFIG_oss-fuzz := -DFIRSTLIGHT_DEBUG # contrib/oss-fuzz/build.sh: the rest comes in CFLAGS
# Sanitizers open files and start programs of their own, so such a build is never confined.
SANITIZED := $(if $(filter -fsanitize%,$(CONFIG_$(CONFIG)) $(CFLAGS)),-DFIRSTLIGHT_SANITIZED)
ALL_CFLAGS := $(BASE_FLAGS) $(CONFIG_$(CONFIG)) $(SANITIZED) $(CFLAGS)
ALL_LDFLAGS := $(filter -fsanitize%,$(CONFIG_$(CONFIG))) $(LDFLAGS)
LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread

# A file's name ends in the instruction set that it may use.
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avxvnni := $(ISA_avx2) -mavxvnni
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
ISA_avx512vnni := $(ISA_avx512) -mavx512vnni
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
isa_of = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $(1))))))
kernel_flags = $(if $(findstring kernels/x86/,$(1)),$(call isa_of,$(1))) \
               $(if $(findstring src/kernels/,$(1)),$(KERNELS_$(CONFIG)))
# Above -Og, gcc takes 95 s for attn_avx512.c alone with both sanitizers, 4 s with these flags, and the
# tests are no slower. What the three checks find, AddressSanitizer finds too.
KERNELS_asan := -Og -fno-sanitize=null,object-size,pointer-overflow
KERNELS_tsan := -Og
# No fuzz target runs a kernel, and instrumented ones take clang many minutes.
KERNELS_fuzz := -fno-sanitize=all
KERNELS_oss-fuzz := -fno-sanitize=all

SOURCES := $(filter-out src/cli/main.c,$(sort $(shell find src -name '*.c')))
PROTOS := firstlight grpc/health/v1/health grpc/reflection/v1/reflection
PROTO_OBJECTS := $(PROTOS:%=$(B)/proto/%.pb-c.o)
OBJECTS := $(SOURCES:%.c=$(B)/%.o) $(PROTO_OBJECTS)
TESTS := $(sort $(shell find tests/unit tests/kernels tests/sim -name 'test_*.c' 2>/dev/null))
TEST_BINS := $(TESTS:%.c=$(B)/%)
FUZZERS := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BINS := $(FUZZERS:%.c=$(B)/%)

.PHONY: all
all: build/firstlight ## build build/firstlight

build/firstlight: $(if $(filter release,$(CONFIG)),$(B)/firstlight,)
ifeq ($(CONFIG),release)
	@cp --remove-destination $(B)/firstlight $@ # one that runs is busy, not lost
endif

$(B)/firstlight: $(B)/src/cli/main.o $(B)/libfirstlight.a
	$(SAY)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libfirstlight.a: $(OBJECTS) $(B)/objects
	@rm -f $@
	@ar rcs $@ $(OBJECTS)

$(B)/src/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(SAY)$(CC) $(ALL_CFLAGS) $(call kernel_flags,$<) -MMD -MP -c -o $@ $<

# C of the messages of gRPC. Texts that may hold a NUL are read as bytes, which are the same on the
# wire: protobuf-c ends a string at it. The descriptors of all files are for reflection.
PROTO_TEXTS := prompt|content|text|stop|cache_salt|token|piece
PROTO_FILES := $(shell find proto -name '*.proto')
build/proto/%.pb-c.c: proto/%.proto
	@mkdir -p build/proto/in/$(*D)
	@sed -E 's/\bstring ($(PROTO_TEXTS)) /bytes \1 /' $< > build/proto/in/$*.proto
	@protoc-c -I build/proto/in --c_out=build/proto build/proto/in/$*.proto
build/proto/%.pb-c.h: build/proto/%.pb-c.c ;
.SECONDARY: $(PROTOS:%=build/proto/%.pb-c.c)
build/proto/descriptors.bin: $(PROTO_FILES)
	@mkdir -p $(@D)
	@protoc -I proto --include_imports --descriptor_set_out=$@ $(PROTO_FILES:proto/%=%)

$(B)/proto/%.pb-c.o: build/proto/%.pb-c.c $(B)/flags
	@mkdir -p $(@D)
	$(SAY)$(CC) $(ALL_CFLAGS) -w -Ibuild/proto -c -o $@ $<
# Any source may include them, and what one does is known only once it was compiled.
$(SOURCES:%.c=$(B)/%.o): | $(PROTOS:%=build/proto/%.pb-c.h)
$(B)/src/grpc/grpc_reflection.o: build/proto/descriptors.bin

# The page: every file of src/web/page, the rows of the sampling parameters, and libraries that Debian
# ships (tools/deps), gzipped.
LIBJS ?= /usr/share/javascript
PAGE_ROWS := build/page/rows/sampling_params.js
PAGE := $(sort $(wildcard src/web/page/*)) sampling_params.js=$(PAGE_ROWS) \
        chart.js=$(LIBJS)/chart.js/chart.min.js
PAGE_FILES := $(foreach file,$(PAGE),$(lastword $(subst =, ,$(file))))
build/page/assets.inc: tools/embed-page build/page/files $(PAGE_ROWS) $(wildcard $(PAGE_FILES))
	@tools/embed-page $(@D) $(PAGE)
$(B)/src/web/assets.o: build/page/assets.inc
$(PAGE_ROWS): src/web/sampling_params.js.in src/params/sampling_params.def src/base/limits.h
	@mkdir -p $(@D)
	@$(CC) -E -P -x c -Isrc $< > $@

# `firstlight version` says what it was built from.
COMMIT := $(shell git describe --always --dirty=+ --abbrev=12 --exclude '*' 2>/dev/null || echo unknown)
$(B)/src/base/version.o: private ALL_CFLAGS += -DFIRSTLIGHT_VERSION='"$(VERSION)"' \
                                      -DFIRSTLIGHT_COMMIT='"$(COMMIT)"'
$(B)/src/base/version.o: $(B)/commit
$(B)/commit: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION) $(COMMIT)' | cmp -s - $@ || echo '$(VERSION) $(COMMIT)' > $@

# Part of the binary, as it stands.
$(B)/src/bench/load/prompt_set.o: prompts/standard.json

# Tests and fuzz targets see the sources' private headers and cmocka. A fuzz target gets a main that
# replays its corpus, or libFuzzer's in CONFIG=fuzz.
FUZZ_MAIN := $(if $(filter fuzz,$(CONFIG)),-fsanitize=fuzzer,tests/fuzz/replay.c)
$(B)/tests/%: tests/%.c $(B)/libfirstlight.a $(B)/flags
	@mkdir -p $(@D)
	$(SAY)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Itests -MMD -MP -o $@ $< \
	    $(if $(filter tests/fuzz/%,$<),$(FUZZ_MAIN)) $(B)/libfirstlight.a \
	    $(LIBS) -lcmocka

# Rebuild when the flags change, or when a source comes or goes.
$(B)/flags: LINE = $(CC) $(ALL_CFLAGS)
$(B)/objects: LINE = $(OBJECTS)
build/page/files: LINE = $(PAGE)
$(B)/flags $(B)/objects build/page/files: FORCE
	@mkdir -p $(@D)
	@echo '$(LINE)' | cmp -s - $@ || echo '$(LINE)' > $@
.PHONY: FORCE
FORCE:

# ---- Set-up -------------------------------------------------------------------------------------

MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf
SUBMAKE := +@$(MAKE) --no-print-directory

.PHONY: run
run: ## install what is missing, build, fetch the model, serve on 127.0.0.1:$(PORT)
	@tools/deps build model
	$(SUBMAKE) all model
	@exec build/firstlight serve --model $(MODEL) --host 127.0.0.1 --port $(PORT)

.PHONY: deps
deps: ## install the missing Debian packages
	@tools/deps build model test

.PHONY: model
model: ## fetch the default model into models/
	@tools/fetch-model

.PHONY: venv
venv: .venv/ready ## make .venv, which the black box tests run in

.venv/ready: tools/requirements-test.txt
	@[ ! -L .venv ] || { echo '.venv is a link: make it where it lives, --clear would empty it' >&2; exit 1; }
	python3 -m venv --clear .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: install
install: all ## install under $(DESTDIR)$(PREFIX)
	install -D -m 755 build/firstlight $(DESTDIR)$(PREFIX)/bin/firstlight

# ---- Tests --------------------------------------------------------------------------------------

.PHONY: test
test: ## set up, build, run the checks and every quick test
	@tools/deps build model test
	$(SUBMAKE) all model venv
	+@MAKE='$(MAKE)' tools/test

# Kernels share nothing between threads, and under ThreadSanitizer their tests take minutes.
UNIT_BINS := $(filter-out $(if $(filter tsan,$(CONFIG)),$(B)/tests/kernels/%),$(TEST_BINS) $(FUZZ_BINS))
.PHONY: unit
unit: $(UNIT_BINS) ## unit, kernel and scheduler tests and fuzz replay, in CONFIG
	@tools/run-unit $(UNIT_BINS)

.PHONY: e2e
e2e: all model venv ## the black box tests alone
	@.venv/bin/python -m pytest -q tests/e2e

# Slower than `make test` wants, and with large packages; .ci/run runs it too.
.PHONY: test-page
test-page: ## the page in Debian's Chromium, and a Prometheus over a real server
	@tools/deps build model test page
	$(SUBMAKE) all model venv
	@node --test $(wildcard tests/page/units/*) > build/page/units.log || { cat build/page/units.log; exit 1; }
	@.venv/bin/python -m pytest -q $(wildcard tests/page tests/prometheus)

# Not under sanitizers, which have allocators of their own.
.PHONY: test-faults
test-faults: all venv build/release/tests/faults/shim.so ## calls that fail, one after the other: memory, files, sockets, threads
	@.venv/bin/python -m pytest -q tests/faults

build/release/tests/faults/shim.so: tests/faults/shim.c $(B)/flags
	@mkdir -p $(@D)
	$(SAY)$(CC) $(BASE_FLAGS) -O2 -fPIC -shared -o $@ $< -ldl

# Mixed clients for a long time, against a server under a sanitizer: make soak SECONDS=60.
.PHONY: soak soak-tsan
soak: SOAK_SECONDS := 1200
soak: ## mixed clients against a server under AddressSanitizer, for 20 minutes
soak-tsan: SOAK_SECONDS := 300
soak-tsan: ## the same under ThreadSanitizer, for 5 minutes
soak soak-tsan: soak%: model venv
	$(SUBMAKE) CONFIG=$(if $*,tsan,asan) build/$(if $*,tsan,asan)/firstlight
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 .venv/bin/python tests/soak/soak.py \
	    build/$(if $*,tsan,asan)/firstlight tests/golden/tiny/base.gguf $(or $(SECONDS),$(SOAK_SECONDS))

# Figures, not a test: make attacks SECONDS=5 ATTACKS="1 6". Nothing else may run meanwhile.
.PHONY: attacks
attacks: all model venv ## what attackers cost the other clients: gaps, TTFT, /health; SECONDS (10) a phase
	.venv/bin/python tests/soak/attacks.py build/firstlight $(MODEL) $(or $(SECONDS),10) 5 $(ATTACKS)

.PHONY: asan tsan
asan: ## the tests of `unit` under AddressSanitizer and UndefinedBehaviorSanitizer
tsan: ## the tests of `unit` under ThreadSanitizer
asan tsan:
	$(SUBMAKE) CONFIG=$@ unit

.PHONY: clang
clang: ## a build with clang
	$(SUBMAKE) CONFIG=clang CC=clang build/clang/firstlight
	@build/clang/firstlight version

# Bytes from outside, against a server with sanitizers.
E2E_SANITIZED := tests/e2e/test_http2_frames.py tests/e2e/test_http2_many.py
.PHONY: e2e-asan e2e-tsan
e2e-asan: ## the black box tests of HTTP/2 and gRPC by frames, the server under AddressSanitizer
e2e-tsan: ## the same under ThreadSanitizer
e2e-asan e2e-tsan: e2e-%: model venv
	$(SUBMAKE) CONFIG=$* build/$*/firstlight
	@FIRSTLIGHT_BIN=build/$*/firstlight TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
	    .venv/bin/python -m pytest -q $(E2E_SANITIZED)

.PHONY: test-all
test-all: ## everything, also what takes hours: soaks, fuzzing, every fault
	$(SUBMAKE) test tsan e2e-asan e2e-tsan test-page
	FIRSTLIGHT_FAULTS=all $(SUBMAKE) test-faults
	$(SUBMAKE) soak soak-tsan
	$(SUBMAKE) fuzz-all SECONDS=300

.PHONY: check
check: check-headers $(OBJECTS) ## layers, sizes, format, headers, names, scripts
	@CLANG_FORMAT=$(CLANG_FORMAT) OBJECTS_DIR=$(B)/src tools/check

CLANG_FORMAT ?= clang-format-14
.PHONY: format
format: ## rewrite the C sources with clang-format
	git ls-files -z --cached --others --exclude-standard '*.c' '*.h' | xargs -0 $(CLANG_FORMAT) -i

# Each header compiles alone.
HEADERS := $(sort $(shell find src -name '*.h'))
.PHONY: check-headers
check-headers: $(HEADERS:%.h=$(B)/headers/%.ok)
$(B)/headers/%.ok: %.h $(HEADERS) $(B)/flags
	@mkdir -p $(@D)
	$(SAY)$(CC) $(ALL_CFLAGS) $(call kernel_flags,$<) -Wno-unused-function \
	    -fsyntax-only -x c $<
	@touch $@

.PHONY: fuzz
fuzz: ## the fuzz targets with libFuzzer, build/fuzz/tests/fuzz/fuzz_X; see CONTRIBUTING.md
	@tools/deps build test fuzz
	$(SUBMAKE) CONFIG=fuzz CC=clang fuzzers
.PHONY: fuzzers
fuzzers: $(FUZZ_BINS)

.PHONY: fuzz-all
fuzz-all: fuzz ## every fuzz target and the page's markdown, SECONDS (60) each; fails when one finds something
	@tools/fuzz-all $(or $(SECONDS),60) $(FUZZERS:%.c=build/fuzz/%)

.PHONY: bench-tokenizers
bench-tokenizers: $(B)/tests/bench/tokenizers ## milliseconds for a megabyte of each kind of text
	@$<

.PHONY: golden
golden: ## make tests/golden/ anew (torch, transformers; see tools/golden/README.md)
	tools/golden/make-all

.PHONY: clean
clean: ## remove what was built (not models/ and .venv)
	rm -rf build

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
