"""Read 16 adjacent frames of clips: `read_clips.py READER FOLDER THREADS SAMPLES`, in the environment that has READER.

With `--windows 4`, four windows of 16 frames are read of each clip, at equal distances: by a view of windows, the
sampler `clips_at_regular_indices` of TorchCodec, and `get_batch` of decord with all of their frames. A thread reads all
windows of a clip. Without it, it reads one.

Readers: bushel (FOLDER/packed, a bag), and torchcodec, decord and pyav (FOLDER/*.mp4). The first frames are drawn at
random, the same for all. THREADS threads read different clips, with one thread of FFmpeg each. For each line on
standard input, which is the number of a round, one JSON object is printed: items, wall and CPU seconds, and the shape.
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


def windows_with_bushel(folder: Path, windows: int) -> Read:
    """Read windows by a view: all windows of a clip in a batch are decoded together."""
    import bushel

    view = bushel.open(folder / "packed").windows("video", FRAMES, hop=1)
    each = len(view) // json.loads((folder / "clips.json").read_text())[0]
    starts = np.linspace(0, each - 1, windows, dtype=np.int64)
    return lambda clip, _: np.stack([one["video"] for one in view.read(clip * each + starts)])


def windows_with_torchcodec(folder: Path, windows: int, mode: str = "exact") -> Read:
    """Read windows with the sampler of TorchCodec."""
    from torchcodec.decoders import VideoDecoder
    from torchcodec.samplers import clips_at_regular_indices

    paths = [str(path) for path in sorted(folder.glob("*.mp4"))]

    def read(clip: int, _: int) -> Any:
        decoder = VideoDecoder(paths[clip], dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode=mode)
        return clips_at_regular_indices(decoder, num_clips=windows, num_frames_per_clip=FRAMES).data.numpy()

    return read


def windows_with_decord(folder: Path, windows: int) -> Read:
    """Read all frames of windows with one call of decord."""
    from decord import VideoReader

    paths = [str(path) for path in sorted(folder.glob("*.mp4"))]

    def read(clip: int, _: int) -> Any:
        reader = VideoReader(paths[clip], num_threads=1)
        starts = np.linspace(0, len(reader) - FRAMES, windows, dtype=np.int64)
        found = reader.get_batch((starts[:, None] + np.arange(FRAMES)).reshape(-1)).asnumpy()
        return found.reshape(windows, FRAMES, *found.shape[1:])

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

WINDOWS: dict[str, Callable[[Path, int], Read]] = {
    "bushel": windows_with_bushel,
    "torchcodec": windows_with_torchcodec,
    "torchcodec-approximate": partial(windows_with_torchcodec, mode="approximate"),
    "decord": windows_with_decord,
}


def main() -> None:
    """Serve rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("samples", type=int)
    parser.add_argument("--windows", type=int, metavar="N", help="read N windows of each clip")
    options = parser.parse_args()
    if options.windows is None:
        read = READERS[options.reader](options.folder)
    elif options.reader in WINDOWS:
        read = WINDOWS[options.reader](options.folder, options.windows)
    else:
        parser.error(f"{options.reader} does not read windows")
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
            print(json.dumps({**done, "items": options.samples, "shape": list(set(shapes))[0]}), flush=True)


if __name__ == "__main__":
    main()
