"""What recording columns costs a writer, in CPU time: with the usual columns and with none, in turn.

    python benchmarks/index_columns.py [--containers tar bag] [--runs 5]

Samples are photos of 65 kB with a label, records of 200 bytes with a label, arrays through `extend`, and short texts.
Times are CPU times of this process, user and system, per sample; medians of the runs. Data are written to memory.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel.codecs import get_codec

Spec = dict[str, str]


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def photos(count: int) -> list[bytes]:
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (24, 32, 3), np.int16)
    smooth = np.kron(coarse, np.ones((16, 16, 1), np.int16))
    noisy = (smooth + rng.integers(-12, 12, (count, *smooth.shape), np.int16)).clip(0, 255).astype(np.uint8)
    return [bytes(get_codec("jpg(90)").encode(image)) for image in noisy]


def cases() -> dict[str, tuple[Spec, int, Callable[[bushel.Writer], Any]]]:
    images, record = photos(64), bytes(200)
    rows = np.random.default_rng(0).integers(0, 256, (100_000, 784), np.uint8)
    labels = np.arange(len(rows)) % 1000

    def write_photos(writer: bushel.Writer) -> None:
        for number in range(4000):
            writer.append({"image": images[number % 64], "label": number % 1000}, key=f"n{number:08}")

    def write_records(writer: bushel.Writer) -> None:
        for number in range(100_000):
            writer.append({"data": record, "label": number % 1000})

    def write_texts(writer: bushel.Writer) -> None:
        for number in range(100_000):
            writer.append({"name": f"name {number}", "label": number % 1000})

    return {
        "photos": ({"image": "jpg", "label": "int"}, 4000, write_photos),
        "records": ({"data": "bytes", "label": "int"}, 100_000, write_records),
        "arrays": (
            {"data": "bytes", "label": "int"},
            100_000,
            lambda writer: writer.extend({"data": rows, "label": labels}),
        ),
        "texts": ({"name": "utf8", "label": "int"}, 100_000, write_texts),
    }


def microseconds(container: str, case: tuple[Spec, int, Callable[[bushel.Writer], Any]], columns: Any) -> float:
    spec, samples, write = case
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        before = cpu_seconds()
        with bushel.Writer(folder / "data", spec, container=container, sync=False, columns=columns) as writer:
            write(writer)
        return (cpu_seconds() - before) / samples * 1e6
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", nargs="+", default=["tar", "bag"])
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for container in arguments.containers:
        for name, case in cases().items():
            times: dict[Any, list[float]] = {(): [], None: []}
            microseconds(container, case, ())
            for _ in range(arguments.runs):
                for columns, own in times.items():
                    own.append(microseconds(container, case, columns))
            without, usual = (statistics.median(own) for own in times.values())
            print(
                f"{container:9}{name:9}{without:8.2f}{usual:8.2f} µs  {100 * (usual / without - 1):+.1f} %", flush=True
            )


if __name__ == "__main__":
    main()
