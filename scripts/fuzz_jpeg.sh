#!/bin/sh
# Fuzzes the JPEG decoders, with and without seek tables: builds jpeg_fuzz (tests/fuzz/jpeg_target.cpp) with libFuzzer,
# AddressSanitizer and UndefinedBehaviorSanitizer, and runs it. clang is installed if missing. The corpus stays in
# build/fuzz/corpus; an input that fails is written to build/fuzz.
#
#   FUZZ_SECONDS   duration of the run, 60 by default
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python

install() {
    root=
    if [ "$(id -u)" != 0 ]; then root="sudo -n"; fi
    $root apt-get -qq update
    DEBIAN_FRONTEND=noninteractive $root apt-get -qq install --no-install-recommends "$@" >/dev/null
}

command -v clang++ >/dev/null 2>&1 || install clang
runtime=$(clang++ -print-file-name="libclang_rt.fuzzer-$(uname -m).a")
[ -f "$runtime" ] || install "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"

"$python" -m cmake -S . -B build/fuzz -DCMAKE_BUILD_TYPE=Release -DBUSHEL_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++ \
    -DPython_EXECUTABLE="$python" -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)"
"$python" -m cmake --build build/fuzz --target jpeg_fuzz

mkdir -p build/fuzz/corpus
PYTHONPATH=. "$python" - <<'PYTHON'
import random
from pathlib import Path

from tests.kernels.jpegs import all_kinds
from tests.kernels.progressive_damage import originals, written

from bushel.kernels import tile_jpeg

rng = random.Random(0)
for name, data in all_kinds().items():
    for kind, jpeg in (("plain", data), ("tiled", tile_jpeg(data))):
        path = Path("build/fuzz/corpus", f"{name}-{kind}".replace("/", "-").replace(" ", "-"))
        path.write_bytes(jpeg + rng.randbytes(12))  # the last bytes choose the crop, the options and the table
for number, parts in enumerate(originals()):
    Path(f"build/fuzz/corpus/scans-{number}").write_bytes(written(parts) + rng.randbytes(12))
PYTHON
cd build/fuzz
./jpeg_fuzz -max_total_time="${FUZZ_SECONDS:-60}" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 corpus
