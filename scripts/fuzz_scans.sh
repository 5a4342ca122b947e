#!/bin/sh
# Fuzzes the scans of containers: builds tests/fuzz/scan_target.cpp once for each scan, with libFuzzer, AddressSanitizer
# and UndefinedBehaviorSanitizer, and runs it. clang is installed if missing. The corpora stay in build/fuzz/scans; an
# input that fails is written there.
#
#   scripts/fuzz_scans.sh [SCAN ...]   names of functions of that file; all by default
#   FUZZ_SECONDS   duration of the run of each, 60 by default
#   FUZZ_RUNS      number of inputs of each after which its run ends earlier
#   CXX            a clang++, clang++ by default
set -eu
cd "$(dirname "$0")/.."
kernels=$PWD/src/bushel/kernels
build=build/fuzz/scans
compiler=${CXX:-clang++}

install() {
    root=
    if [ "$(id -u)" != 0 ]; then root="sudo -n"; fi
    $root apt-get -qq update
    DEBIAN_FRONTEND=noninteractive $root apt-get -qq install --no-install-recommends "$@" >/dev/null
}

command -v "$compiler" >/dev/null 2>&1 || install clang
runtime=$("$compiler" -print-file-name="libclang_rt.fuzzer-$(uname -m).a")
[ -f "$runtime" ] || install "libclang-rt-$("$compiler" -dumpversion | cut -d. -f1)-dev"
[ -f /usr/include/zlib.h ] || install zlib1g-dev

mkdir -p "$build"
sources="scans/byte_arrays scans/csv_lines scans/deltas scans/examples scans/fast_lines scans/fast_records scans/hybrid scans/image_headers
    scans/inflate scans/levels scans/line_blocks scans/line_values scans/lines scans/recordio scans/riegeli scans/snappy
    scans/tar scans/tfrecord scans/zip jpeg/header jpeg/orientation files/crc32 files/crc32c
    files/mapped_file files/direct_read"
flags="-std=c++17 -O1 -g -Wall -Wextra -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -I$kernels"
objects=
for source in $sources; do
    object=$build/$(basename "$source").o
    "$compiler" $flags -c "$kernels/$source.cpp" -o "$object"
    objects="$objects $object"
done

[ $# -gt 0 ] || set -- snappy tar recordio riegeli tfrecord inflate byte_arrays parquet_levels parquet_deltas json_lines csv_lines image_headers zip
for scan in "$@"; do
    "$compiler" $flags -Wno-unused-function -DBUSHEL_SCAN="$scan" tests/fuzz/scan_target.cpp $objects -o "$build/$scan" \
        -fsanitize=fuzzer,address,undefined -lz
    mkdir -p "$build/corpus-$scan"
done
PYTHONPATH=. .venv/bin/python -m tests.fuzz.scan_corpus "$build"
cd "$build"
for scan in "$@"; do
    echo "$scan"
    "./$scan" -max_total_time="${FUZZ_SECONDS:-60}" -runs="${FUZZ_RUNS:--1}" -timeout=20 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
        -verbosity=0 "corpus-$scan" >"$scan.log" 2>&1 || { cat "$scan.log"; exit 1; }
    grep number_of_executed_units "$scan.log"
done
