"""Datasets of every container beside a plain list of what they hold."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import bushel
from bushel._dataset.views.dataset import Dataset
from bushel.codecs import get_codec

Sample: TypeAlias = dict[str, Any]

SPECS = {
    "bag": {"label": "int", "text": "utf8", "parts": "bytes[]"},
    "tar": {"label": "int", "text": "utf8", "parts": "bytes[]"},
    "ffrecord": {"label": "int", "text": "utf8", "parts": "bytes[]"},
    "recordio": {"label": "int", "text": "utf8", "parts": "bytes[]"},
    "gulp": {"parts": "jpg[]", "label": "int", "text": "utf8"},
}
CONTAINERS = list(SPECS)
SPARSE = ("tar", "ffrecord", "recordio")
MAGIC = b"\x0a\x23\xd7\xce"
"""RecordIO's magic word: a record that has it, aligned, is stored in pieces."""


def frame(number: int) -> bytes:
    """A small JPEG, another one for each number."""
    pixels = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
    return bytes(get_codec("jpg").encode(pixels))


def make_samples(container: str, count: int, *, seed: int = 0) -> list[Sample]:
    """Samples with lists of all lengths, empty values, and, where the container can, without some fields."""
    rng = random.Random(f"{container}/{seed}")
    samples = []
    for number in range(count):
        sample: Sample = {
            "__key__": f"k{seed}/{number}",
            "label": number * 7,
            "text": f"text é {number} " * (number % 3),
        }
        if container == "gulp":
            sample["parts"] = [frame(number * 5 + each) for each in range(rng.choice([0, 1, 2, 4]))]
        else:
            sizes = [rng.choice([0, 1, 4, 40]) for _ in range(rng.choice([0, 1, 2, 5]))]
            sample["parts"] = [(MAGIC * 10 if rng.random() < 0.3 else rng.randbytes(40))[:size] for size in sizes]
        if container in SPARSE:
            for name in ("text", "parts"):
                if rng.random() < 0.25:
                    del sample[name]
        samples.append(sample)
    return samples


def write(folder: Path, container: str, samples: list[Sample], **options: Any) -> Dataset:
    """Write a dataset, and open it."""
    options = {"sync": False, "container": container, **options}
    with bushel.Writer(folder, SPECS[container], **options) as writer:
        for number, sample in enumerate(samples):
            assert writer.append(sample) == number
    return opened(folder)


def opened(path: Path, **options: Any) -> Dataset:
    """Open a dataset with checksums compared."""
    return bushel.open(path, **{"verify": True, **options})


def plain(value: Any) -> Any:
    """Arrays as nested lists, within lists and dicts too."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def expected(container: str, samples: list[Sample]) -> list[Sample]:
    """Written samples as reading gives them, in values that compare with `==`."""
    if container != "gulp":
        return samples
    decode = get_codec("jpg").decode
    return [{**sample, "parts": [plain(decode(each)) for each in sample["parts"]]} for sample in samples]


def files_of(path: Path) -> dict[str, bytes]:
    """The data files: all but what Bushel keeps beside them."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and ".bushel" not in file.parts)
    return {str(file.relative_to(path)): file.read_bytes() for file in files}
