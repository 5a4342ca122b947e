"""Read windows of sounds: `read_sounds.py READER FOLDER WINDOWS`, in the environment that has READER.

Readers: bushel (FOLDER/packed, a bag), torchcodec and soundfile (FOLDER/NN.SUFFIX). A window is one second, from a
random sample on, the same ones for all, as float32. For each line on standard input, the number of a round, one JSON
object is printed: windows, wall and CPU seconds, and the sum of the magnitudes of all samples.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Read = Callable[[int, int, int], Any]
"""Returns the samples of a sound from a number on, and how many: float32[samples, channels]."""


def files(folder: Path) -> list[str]:
    """Return the sounds of the folder."""
    return [str(path) for path in sorted(folder.glob("[0-9]*.*"))]


def with_bushel(folder: Path) -> Read:
    """Read parts of the values of a bag."""
    import bushel

    dataset = bushel.open(folder / "packed")
    return lambda sound, first, count: dataset[sound, {"audio": slice(first, first + count)}]["audio"]


def with_torchcodec(folder: Path) -> Read:
    """Read files with TorchCodec, from a time on."""
    from torchcodec.decoders import AudioDecoder

    paths = files(folder)

    def read(sound: int, first: int, count: int) -> Any:
        decoder = AudioDecoder(paths[sound])
        rate = decoder.metadata.sample_rate
        found = decoder.get_samples_played_in_range(first / rate, (first + count) / rate)
        return found.data.numpy().T

    return read


def with_soundfile(folder: Path) -> Read:
    """Read files with libsndfile."""
    import soundfile

    paths = files(folder)
    return lambda sound, first, count: soundfile.read(paths[sound], count, first, dtype="float32")[0]


READERS: dict[str, Callable[[Path], Read]] = {
    "bushel": with_bushel,
    "torchcodec": with_torchcodec,
    "soundfile": with_soundfile,
}


def main() -> None:
    """Serve rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("windows", type=int)
    options = parser.parse_args()
    read = READERS[options.reader](options.folder)
    sounds, samples, rate = json.loads((options.folder / "sounds.json").read_text())
    read(0, 0, rate)
    print("ready", flush=True)
    for line in sys.stdin:
        rng = np.random.default_rng(int(line))
        chosen = rng.integers(0, sounds, options.windows), rng.integers(0, samples - rate, options.windows)
        total, wall, cpu = 0.0, time.perf_counter(), time.process_time()
        found = [read(sound, first, rate) for sound, first in zip(*(each.tolist() for each in chosen), strict=True)]
        done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        total = float(sum(np.abs(each).sum(dtype=np.float64) for each in found))
        print(json.dumps({**done, "items": options.windows, "sum": total}), flush=True)


if __name__ == "__main__":
    main()
