#!/bin/bash -eu
# Builds every tests/fuzz/fuzz_*.c into $OUT, each with its corpus as seeds. OSS-Fuzz sets CC, CXX,
# CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE, SRC, OUT and WORK; by hand:
#
#     mkdir -p /tmp/oss/out /tmp/oss/work
#     CC=clang CXX=clang++ CFLAGS='-O1 -g -fsanitize=address,fuzzer-no-link' CXXFLAGS="$CFLAGS" \
#         LIB_FUZZING_ENGINE=-fsanitize=fuzzer SRC=$PWD/.. OUT=/tmp/oss/out WORK=/tmp/oss/work \
#         contrib/oss-fuzz/build.sh
#
# Targets run where the libraries are not installed, so those that they need go to $OUT/lib.
cd "${FIRSTLIGHT_DIR:-$SRC/firstlight}"

packages="libevent libevent_pthreads libevent_openssl libnghttp2 libprotobuf-c jansson libpcre2-8
          libutf8proc libcurl libssl libcrypto libseccomp zlib"
# shellcheck disable=SC2086 # a list of names, split on purpose
flags="-std=c17 -D_GNU_SOURCE -DFIRSTLIGHT_DEBUG -Isrc -Ibuild -Itests -pthread
       $(pkg-config --cflags $packages)"
# shellcheck disable=SC2086
libraries="$(pkg-config --libs $packages) -lm -pthread"

make -j"$(nproc)" CONFIG=oss-fuzz build/oss-fuzz/libfirstlight.a

mkdir -p "$OUT/lib"
tools/corpus unpack
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    # shellcheck disable=SC2086 # flags, split on purpose
    "$CC" $CFLAGS $flags -c "$source" -o "$WORK/$name.o"
    # C++'s linker: the engine may be a library written in it.
    # shellcheck disable=SC2016,SC2086
    "$CXX" $CXXFLAGS "$WORK/$name.o" build/oss-fuzz/libfirstlight.a $LIB_FUZZING_ENGINE \
        -Wl,--as-needed $libraries -Wl,--disable-new-dtags,-rpath,'$ORIGIN/lib' -o "$OUT/$name"
    rm -f "$OUT/${name}_seed_corpus.zip"
    (cd "build/corpus/${name#fuzz_}" && zip -qr "$OUT/${name}_seed_corpus.zip" .)
    # All but the C library, which the runner has, and what is there already.
    ldd "$OUT/$name" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
        grep -vE '^'"$OUT"'|/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' |
        xargs -r cp -Lu -t "$OUT/lib"
done
