#!/bin/bash -eu
# Builds tests/fuzz/*_target.cpp with the flags of OSS-Fuzz: CXX, CXXFLAGS, LIB_FUZZING_ENGINE, OUT.
cd "$SRC/bushel"
# The same sources as of jpeg_fuzz in CMakeLists.txt, asked of CMake rather than repeated here.
python3 -m venv /tmp/venv
/tmp/venv/bin/pip install --quiet nanobind
cmake -S . -B /tmp/fuzz -DCMAKE_BUILD_TYPE=Release -DBUSHEL_FUZZ=ON -DBUSHEL_FUZZ_FLAGS="" \
    -DBUSHEL_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DPython_EXECUTABLE=/tmp/venv/bin/python \
    -Dnanobind_DIR="$(/tmp/venv/bin/python -m nanobind --cmake_dir)"
cmake --build /tmp/fuzz --target jpeg_fuzz
cp /tmp/fuzz/jpeg_fuzz "$OUT/"
