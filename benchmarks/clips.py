"""Benchmark of 16 adjacent frames of stored clips, and of windows of them, against TorchCodec, decord and PyAV.

    python benchmarks/clips.py --torchcodec PYTHON --decord PYTHON --out clips.json
    python benchmarks/clips.py --small

PYTHON is the interpreter of an environment that has the package; without it, the package is skipped. PyAV is that of
this environment. Each clip of the folder (by default the sample clips beside the repository) is a case of its own: 16
copies of it, as files and packed in a bag, and the first frame is drawn at random. With one thread and with two. Then
four windows of 16 frames of each clip, at equal distances, are read together, with TorchCodec's sampler. The clip with
the most frames is also encoded as HEVC (x265) and AV1 (SVT-AV1), if PyAV has the encoders. `--only` names some clips.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bushel
from measure import ROOT, SCRATCH, Rate, Serving, Timing, in_turns, options_parser, save, show

SAMPLE_VIDEOS = ROOT.parent / "shared" / "data" / "videos"
READER = Path(__file__).resolve().parent / "peers" / "read_clips.py"
COPIES = 16
WINDOWS = 4
ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "hevc": ("libx265", {"crf": "26", "x265-params": "log-level=error:pools=1"}),
    "av1": ("libsvtav1", {"preset": "6", "crf": "32"}),
}


def fill(path: Path) -> Path:
    """Return a folder with copies of a clip, as files and packed, and with the numbers of clips and frames."""
    folder = SCRATCH / f"clips-{path.stem}"
    if (folder / "clips.json").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = path.read_bytes()
    with bushel.Writer(folder / "packed", {"video": "mp4"}, container="bag") as writer:
        for number in range(COPIES):
            (folder / f"{number:02d}.mp4").write_bytes(data)
            writer.append({"video": data}, key=f"{number:02d}")
    frames = len(bushel.open(folder / "packed")[0]["video"])
    (folder / "clips.json").write_text(json.dumps([COPIES, frames]))
    return folder


def recoded(path: Path, name: str) -> Path:
    """Return a clip as another encoder makes it, which is made if it is not there."""
    import av

    encoder, settings = ENCODERS[name]
    made = SCRATCH / f"{path.stem}-{name}.mp4"
    if made.exists():
        return made
    SCRATCH.mkdir(exist_ok=True)
    part = made.with_suffix(".part")
    with av.open(path) as source, av.open(part, "w", format="mp4") as output:
        stream: Any = output.add_stream(encoder, rate=source.streams.video[0].average_rate, options=settings)
        first: Any = source.streams.video[0]
        stream.width, stream.height, stream.pix_fmt = first.width, first.height, "yuv420p"
        stream.codec_context.thread_count = 1
        for number, frame in enumerate(source.decode(first)):
            plain = frame.reformat(format="yuv420p")
            plain.pts, plain.time_base, plain.pict_type = number, 1 / first.average_rate, 0
            output.mux(stream.encode(plain))
        output.mux(stream.encode(None))
    return part.rename(made)


def cases(folder: Path, skipped: dict[str, str]) -> list[Path]:
    """Return the clips of a folder, and the longest one of them as other encoders make it."""
    import av

    paths = sorted(folder.glob("*.mp4"))
    longest = max(paths, key=lambda path: av.open(path).streams.video[0].frames)
    for name in ENCODERS:
        try:
            paths.append(recoded(longest, name))
        except av.codec.codec.UnknownCodecError as error:
            skipped[name] = f"PyAV has no encoder {error}"
    return paths


def contest(
    folder: Path,
    threads: int,
    pythons: dict[str, Path | None],
    options: argparse.Namespace,
    skipped: dict[str, str],
    windows: int | None = None,
) -> dict[str, Rate]:
    """Measure all readers in turns: 16 frames of clips, or several windows of each."""
    more = [] if windows is None else ["--windows", str(windows)]
    serving: dict[str, Serving] = {}
    for reader, python in pythons.items():
        if python is None:
            skipped[reader] = "no interpreter was given"
            continue
        try:
            samples = str((8 if options.small else 48) // (windows or 1))
            serving[reader] = Serving([str(python), str(READER), reader, str(folder), str(threads), samples, *more])
        except RuntimeError as error:
            skipped[reader] = str(error)
    contestants: dict[str, Callable[[int], Timing]] = dict(serving)
    try:
        return in_turns(contestants, 2 if options.small else 5)
    finally:
        for each in serving.values():
            each.close()


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Reading 16 frames of stored clips.", "fewer clips and rounds")
    parser.add_argument("--videos", type=Path, default=SAMPLE_VIDEOS, metavar="FOLDER", help="where to take clips from")
    parser.add_argument("--only", nargs="+", metavar="CLIP", help="names of clips, without the suffix")
    parser.add_argument("--torchcodec", type=Path, metavar="PYTHON", help="an interpreter with TorchCodec")
    parser.add_argument("--decord", type=Path, metavar="PYTHON", help="an interpreter with decord")
    options = parser.parse_args()
    pythons: dict[str, Path | None] = {
        "bushel": Path(sys.executable),
        "torchcodec": options.torchcodec,
        "torchcodec-approximate": options.torchcodec,
        "decord": options.decord,
        "pyav": Path(sys.executable),
    }
    skipped: dict[str, str] = {}
    results: dict[str, Any] = {}
    for path in cases(options.videos, skipped):
        if options.only and path.stem not in options.only:
            continue
        folder = fill(path)
        for threads in (1, 2):
            rates = contest(folder, threads, pythons, options, skipped)
            _, frames = json.loads((folder / "clips.json").read_text())
            show(f"{path.name}: 16 of {frames} frames, threads: {threads}", "clips", rates, ["bushel"])
            results[f"{path.name}, {threads}"] = rates
        each = {name: python for name, python in pythons.items() if name != "pyav"}
        rates = contest(folder, 1, each, options, skipped, WINDOWS)
        show(f"{path.name}: {WINDOWS} windows of 16 of {frames} frames, one thread", "clips", rates, ["bushel"])
        results[f"{path.name}, windows"] = rates
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
