"""Kernels with SIMD variants give the same results as their scalar code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.jpegs import picture, row, save
from tests.kernels.some_lines import CELLS, LINES

from bushel import kernels


def results() -> dict[str, int]:
    """Return checksums of the results of all kernels with SIMD variants, for fixed inputs."""
    data = np.random.default_rng(0).integers(0, 256, 5000, np.uint8).tobytes()
    found = {f"crc32 of {length}": kernels.crc32(data[:length]) for length in (0, 1, 63, 64, 65, 255, 256, 257, 5000)}
    for name, jpeg in (("4:2:0", save(picture(149, 107), subsampling=2)), ("grey", save(picture(149, 107), "L"))):
        found[f"decode {name}"] = zlib.crc32(kernels.decode_jpeg(jpeg).tobytes())
        for size in ((20, 30), (200, 150)):
            out = np.empty((1, size[1], size[0], 3), np.uint8)
            assert kernels.decode_jpegs([jpeg], row((3, 5, 140, 100), size), out) == []
            found[f"{name} to {size}"] = zlib.crc32(out.tobytes())
    pixels = np.empty((26, 75, 3), np.uint8)
    kernels.yuv420_to_rgb(data[:2080], data[2080:2600], data[2600:3120], 80, 40, 709, pixels)
    found["frame of a video"] = zlib.crc32(pixels.tobytes())
    for name, lines, names in (("JSON", LINES, []), ("CSV", CELLS, [b"a", b"b", b"c"])):
        scanner = kernels.LineScanner(names, ord(",") if names else 0)
        assert scanner.feed(lines, 0, True) == len(lines)
        found[f"lines of {name}"] = zlib.crc32(scanner.take().tobytes())
    return found


@pytest.mark.parametrize("simd", ["scalar", ""])
def test_the_same_results_without_simd(simd: str) -> None:
    command = [sys.executable, "-c", "from tests.kernels.test_simd import results; print(results())"]
    environment, root = {**os.environ, "BUSHEL_SIMD": simd}, Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(results())


def test_vector_operations_equal_their_scalar_form(tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    root = Path(__file__).resolve().parents[2]
    source, headers = root / "tests/kernels/vectors_test.cpp", root / "src/bushel/kernels"
    program = str(tmp_path / "vectors_test")
    subprocess.run([compiler, "-std=c++17", "-O1", f"-I{headers}", str(source), "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode == 2:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith(" 0 differences\n")
