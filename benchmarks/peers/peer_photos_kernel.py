"""Upper limit of Bushel's loader: the decoding kernel alone, in a C++ loop that `make ceiling` builds.

Nothing is read, shuffled or passed on: two threads decode bytes and boxes in memory into buffers that they reuse,
without Python. The boxes of an epoch equal the Loader's in `peer_photos_bushel`.
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
from bushel.kernels import jpeg_header, jpeg_seek_table
from bushel.loader.decode.sample_transforms import generator
from bushel.transforms import EachFrame, RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fused import frame_geometries, plan_decode

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "ceiling" / "jpeg_ceiling"

EPOCHS = 16
"""Epochs for which there are crops; later epochs use the same crops again."""

_running: list[subprocess.Popen[str]] = []


def prepare(path: str, variant: str) -> None:
    """Send all images to the program, with a crop for each epoch. The frames of a clip share a crop."""
    if not PROGRAM.exists():
        raise FileNotFoundError("`make ceiling` builds the C++ loop")
    with tempfile.NamedTemporaryFile(suffix=".work") as work:
        work.write(struct.pack("<q", EPOCHS))
        for data, rows, table in _work(path, variant):
            work.write(np.array(rows, "<i4").tobytes())
            for part in (data, table):
                work.write(struct.pack("<q", len(part)) + part)
        work.flush()
        command = [str(PROGRAM), work.name, str(crop.SIDE), str(crop.THREADS)]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert program.stdout is not None
        if program.stdout.readline().strip() != "ready":
            raise RuntimeError(f"jpeg_ceiling ended with {program.wait()}")
    _running.append(program)


def _work(path: str, variant: str) -> Iterator[tuple[bytes, list[tuple[int, ...]], bytes]]:
    """Yield each image, its geometry in each epoch, and its seek table, which is empty unless the dataset has them."""
    frames = EachFrame([RandomResizedCrop(crop.SIDE), RandomHorizontalFlip()])
    plan = plan_decode(frames.transforms)
    dataset = bushel.open(path)
    for number, sample in enumerate(dataset.read(range(len(dataset)), decode=False)):
        datas = sample["frames"] if variant == "clips" else [sample["image"]]
        sizes = [jpeg_header(data)[:2] for data in datas]
        drawn = [frame_geometries(frames, plan, sizes, generator(0, epoch, number)) for epoch in range(EPOCHS)]
        for data, *geometries in zip(datas, *drawn, strict=True):
            table = jpeg_seek_table(data).tobytes() if Path(path).name == "seek" else b""
            yield data, [geometry.row for geometry in geometries], table


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield one batch without data, which stands for all images."""
    [program] = _running
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{seed % EPOCHS}\n")
    program.stdin.flush()
    images = int(program.stdout.readline())
    yield np.broadcast_to(np.zeros(1, np.uint8), (images, crop.SIDE, crop.SIDE, 3))
