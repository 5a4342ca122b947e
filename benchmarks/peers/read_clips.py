"""Read 16 adjacent frames of clips: `read_clips.py READER FOLDER THREADS SAMPLES`, in the environment that has READER.

Readers: bushel (FOLDER/packed, a bag), and torchcodec, decord and pyav (FOLDER/*.mp4). The first frames are drawn at
random, the same for all. THREADS threads read different clips, with one thread of FFmpeg each. For each line on
standard input, which is the number of a round, one JSON object is printed: clips, wall and CPU seconds, and the shape.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FRAMES = 16

Read = Callable[[int, int], Any]
"""Returns the frames of a clip from a number on, as 16xHxWx3 or 16x3xHxW of uint8."""


def with_bushel(folder: Path) -> Read:
    """Read by the index of a bag."""
    import bushel

    dataset = bushel.open(folder / "packed")
    return lambda clip, first: dataset[clip, {"video": slice(first, first + FRAMES)}]["video"]


def with_torchcodec(folder: Path, mode: str = "exact") -> Read:
    """Read files with TorchCodec, which scans the packets of each first (`exact`), or trusts the header."""
    from torchcodec.decoders import VideoDecoder

    paths = [str(path) for path in sorted(folder.glob("*.mp4"))]

    def read(clip: int, first: int) -> Any:
        decoder = VideoDecoder(paths[clip], dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode=mode)
        return decoder.get_frames_in_range(first, first + FRAMES).data.numpy()

    return read


def with_decord(folder: Path) -> Read:
    """Read files with decord."""
    from decord import VideoReader

    paths = [str(path) for path in sorted(folder.glob("*.mp4"))]
    return lambda clip, first: VideoReader(paths[clip], num_threads=1).get_batch(range(first, first + FRAMES)).asnumpy()


def with_pyav(folder: Path) -> Read:
    """Read files with PyAV, as its documentation does it: seek to the keyframe before, decode up to the frames."""
    import av

    paths = [str(path) for path in sorted(folder.glob("*.mp4"))]

    def read(clip: int, first: int) -> Any:
        with av.open(paths[clip]) as source:
            stream: Any = source.streams.video[0]
            stream.codec_context.thread_count = 1
            step = round(1 / (stream.average_rate * stream.time_base))
            source.seek(first * step + (stream.start_time or 0), stream=stream)
            frames = []
            for frame in source.decode(stream):
                if (frame.pts or 0) >= first * step + (stream.start_time or 0):
                    frames.append(frame.to_ndarray(format="rgb24"))
                if len(frames) == FRAMES:
                    break
            return np.stack(frames)

    return read


READERS: dict[str, Callable[[Path], Read]] = {
    "bushel": with_bushel,
    "torchcodec": with_torchcodec,
    "torchcodec-approximate": partial(with_torchcodec, mode="approximate"),
    "decord": with_decord,
    "pyav": with_pyav,
}


def main() -> None:
    """Serve rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("samples", type=int)
    options = parser.parse_args()
    read = READERS[options.reader](options.folder)
    clips, frames = json.loads((options.folder / "clips.json").read_text())
    read(0, 0)
    print("ready", flush=True)
    with ThreadPoolExecutor(options.threads) as pool:
        for line in sys.stdin:
            rng = np.random.default_rng(int(line))
            wanted = rng.integers(0, clips, options.samples).tolist(), rng.integers(0, frames - FRAMES, options.samples)
            wall, cpu = time.perf_counter(), time.process_time()
            shapes = list(pool.map(lambda *each: read(*each).shape, wanted[0], wanted[1].tolist()))
            done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            print(json.dumps({**done, "clips": options.samples, "shape": list(set(shapes))[0]}), flush=True)


if __name__ == "__main__":
    main()
