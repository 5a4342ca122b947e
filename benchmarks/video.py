"""Benchmark of packing videos as frames: 12 per second, shorter edge of 256 pixels, against GulpIO2's adapter.

    python benchmarks/video.py --out video.json        48 clips
    python benchmarks/video.py --small                 12, fewer rounds
    python benchmarks/video.py --videos FOLDER         of these clips

The clips are from the folder, from the sample data beside the repository, or generated, and are copied under other
names until there are enough. GulpIO2 needs an installed `ffmpeg`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bushel.codecs import get_codec
from measure import (
    ROOT,
    SCRATCH,
    Timing,
    console,
    how_to_make,
    in_turns,
    interpreter,
    options_parser,
    run_packer,
    save,
    show,
)

SAMPLE_VIDEOS = ROOT.parent / "shared" / "data" / "videos"
PACKER = Path(__file__).resolve().parent / "peers" / "pack_videos.py"
GULPIO2 = interpreter("gulpio2")


def clips(source: Path | None, count: int) -> Path:
    """Return a folder of `count` clips in two classes."""
    folder = SCRATCH / f"videos-{count}"
    if folder.exists():
        return folder
    found = sorted((source or SAMPLE_VIDEOS).rglob("*.mp4"))
    datas = [path.read_bytes() for path in found] or [_made(seed) for seed in range(3)]
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for number in range(count):
        path = part / f"class-{number % 2}" / f"{number:04d}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(datas[number % len(datas)])
    return part.rename(folder)


def _made(seed: int) -> bytes:
    """Return a clip of four seconds and 640 × 360 pixels in which everything moves."""
    scene = np.random.default_rng(seed).integers(0, 256, (70, 110, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    frames = np.stack([scene[at : at + 360, 2 * at : 2 * at + 640] for at in range(100)])
    return bytes(get_codec("mp4(25)").encode(frames))


def packing(packer: str, python: Path, folder: Path, frames: dict[str, int]) -> Callable[[int], Timing]:
    """Return a contestant that counts its frames."""

    def measure(number: int) -> Timing:
        out = SCRATCH / "packed-videos"
        done = run_packer([str(python), str(PACKER), packer, str(folder), str(out)], out)
        frames[packer] = done["frames"]
        return Timing(done["frames"], done["wall"], done["cpu"])

    return measure


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Packing videos as frames.", "12 clips, fewer rounds")
    parser.add_argument("--videos", type=Path, metavar="FOLDER", help="where to take clips from")
    options = parser.parse_args()
    folder = clips(options.videos, 12 if options.small else 48)
    frames: dict[str, int] = {}
    contestants = {"bushel": packing("bushel", Path(sys.executable), folder, frames)}
    skipped: dict[str, str] = {}
    if not GULPIO2.exists():
        skipped["gulpio2"] = how_to_make("gulpio2")
    elif shutil.which("ffmpeg") is None:
        skipped["gulpio2"] = "ffmpeg, which it runs, is not installed"
    else:
        contestants["gulpio2"] = packing("gulpio2", GULPIO2, folder, frames)
    rates = in_turns(contestants, 2 if options.small else 5)
    show(f"{folder.name} to frames: 12 a second, shorter edge 256", "frames", rates, ["gulpio2"])
    console.print(f"frames made: {frames}")
    save(options.out, {"rates": rates, "frames": frames}, skipped)


if __name__ == "__main__":
    main()
