# firstlight: `make help` lists the targets.
#
# One library of everything but main, one binary, one program per tests/**/test_*.c. All of them are
# found by pattern: adding a file needs no change here. CONFIG picks the build folder and flags:
# release (default), debug, asan, ubsan, tsan.

CONFIG ?= release
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
PORT ?= 8080

B := build/$(CONFIG)
PKGS := libevent libevent_pthreads jansson libpcre2-8 libutf8proc
VERSION := 0.1.0

# One short line per command; `make V=1` shows them whole.
SAY = $(if $(V),,@echo '  CC   $@'; )

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wwrite-strings -Wvla -Werror=implicit-function-declaration -Werror=incompatible-pointer-types
# -ffp-contract=off: a multiply and an add become one fma only where the source says so, so that a
# row's bits never depend on how the compiler inlined a kernel.
BASE_FLAGS := -std=c17 -D_GNU_SOURCE -Isrc -g -fno-strict-aliasing -ffp-contract=off -fno-math-errno \
              -pthread $(WARN) $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
CONFIG_release := -O3 -DNDEBUG
CONFIG_debug := -O1 -DFIRSTLIGHT_DEBUG
CONFIG_asan := -O1 -DFIRSTLIGHT_DEBUG -fsanitize=address -fno-omit-frame-pointer
CONFIG_ubsan := -O1 -DFIRSTLIGHT_DEBUG -fsanitize=undefined -fno-sanitize-recover=undefined
CONFIG_tsan := -O1 -DFIRSTLIGHT_DEBUG -fsanitize=thread
ALL_CFLAGS := $(BASE_FLAGS) $(CONFIG_$(CONFIG)) $(CFLAGS)
ALL_LDFLAGS := $(filter -fsanitize%,$(CONFIG_$(CONFIG))) $(LDFLAGS)
LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread

# A file's name ends in the instruction set that it may use.
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avxvnni := $(ISA_avx2) -mavxvnni
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
ISA_avx512vnni := $(ISA_avx512) -mavx512vnni
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
isa_of = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $(1))))))

SOURCES := $(filter-out src/cli/main.c,$(sort $(shell find src -name '*.c')))
OBJECTS := $(SOURCES:%.c=$(B)/%.o)
TESTS := $(sort $(shell find tests/unit tests/kernels tests/sim -name 'test_*.c' 2>/dev/null))
TEST_BINS := $(TESTS:%.c=$(B)/%)
FUZZERS := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BINS := $(FUZZERS:%.c=$(B)/%)

.PHONY: all
all: build/firstlight ## build build/firstlight

build/firstlight: $(if $(filter release,$(CONFIG)),$(B)/firstlight,)
ifeq ($(CONFIG),release)
	@cp $(B)/firstlight $@
endif

$(B)/firstlight: $(B)/src/cli/main.o $(B)/libfirstlight.a
	$(SAY)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libfirstlight.a: $(OBJECTS)
	@rm -f $@
	@ar rcs $@ $^

$(B)/src/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(SAY)$(CC) $(ALL_CFLAGS) $(if $(findstring kernels/x86/,$<),$(call isa_of,$<)) -MMD -MP -c -o $@ $<

# Tests and fuzz replayers see the sources' private headers and cmocka.
$(B)/tests/%: tests/%.c $(B)/libfirstlight.a $(B)/flags
	@mkdir -p $(@D)
	$(SAY)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Itests -MMD -MP -o $@ $< \
	    $(if $(filter tests/fuzz/%,$<),tests/fuzz/replay.c) $(B)/libfirstlight.a \
	    $(LIBS) -lcmocka

# Rebuild when the flags change.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS)' > $@
.PHONY: FORCE
FORCE:

-include $(shell find $(B) -name '*.d' 2>/dev/null)
