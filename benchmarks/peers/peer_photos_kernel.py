"""Upper limit of Bushel's loader: the decoding kernel alone, in a C++ loop that `make ceiling` builds.

Nothing is read, shuffled or passed on: two threads decode bytes and boxes in memory into buffers that they reuse,
without Python.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crop
import numpy as np

import bushel
from bushel.kernels import jpeg_header
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fused import plan_decode

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "ceiling" / "jpeg_ceiling"

_running: list[subprocess.Popen[str]] = []


def prepare(path: str, variant: str) -> None:
    """Send all images to the program, with a crop for each. The frames of a clip share a crop."""
    if not PROGRAM.exists():
        raise FileNotFoundError("`make ceiling` builds the C++ loop")
    with tempfile.NamedTemporaryFile(suffix=".work") as work:
        for data, row in _work(path, variant):
            work.write(np.array(row, "<i4").tobytes() + struct.pack("<q", len(data)) + data)
        work.flush()
        command = [str(PROGRAM), work.name, str(crop.SIDE), str(crop.THREADS)]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert program.stdout is not None
        if program.stdout.readline().strip() != "ready":
            raise RuntimeError(f"jpeg_ceiling ended with {program.wait()}")
    _running.append(program)


def _work(path: str, variant: str) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    plan = plan_decode([RandomResizedCrop(crop.SIDE), RandomHorizontalFlip()])
    dataset = bushel.open(path)
    for number, sample in enumerate(dataset.read(range(len(dataset)), decode=False)):
        for data in sample["frames"] if variant == "clips" else [sample["image"]]:
            rng = np.random.Generator(np.random.Philox(number))
            yield data, plan.geometry(*jpeg_header(data)[:2], rng).row


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield one batch without data, which stands for all images."""
    [program] = _running
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{seed}\n")
    program.stdin.flush()
    images = int(program.stdout.readline())
    yield np.broadcast_to(np.zeros(1, np.uint8), (images, crop.SIDE, crop.SIDE, 3))
