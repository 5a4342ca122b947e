"""Benchmark of windows of one second of stored sounds, against TorchCodec and libsndfile.

    python benchmarks/sounds.py --python PYTHON --out sounds.json
    python benchmarks/sounds.py --small

PYTHON is the interpreter of an environment with torchcodec and soundfile; without it, these are skipped. Sounds of a
minute (44,100 samples a second, two channels) in WAV, FLAC and MP3, as files and packed in a bag, are in memory. Every
reader has a process of its own with one thread. Decoders of MP3 differ in where a sound begins, and so do the sums.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from measure import SCRATCH, Serving, console, in_turns, options_parser, save, show

READER = Path(__file__).resolve().parent / "peers" / "read_sounds.py"
SOUNDS, SECONDS, RATE = 2, 60, 44100
ENCODERS = {"wav": "pcm_s16le", "flac": "flac", "mp3": "libmp3lame"}


def made(kind: str, seed: int) -> bytes:
    """Return tones with noise, encoded."""
    import av

    rng, time = np.random.default_rng(seed), np.arange(SECONDS * RATE) / RATE
    tones = sum(np.sin(2 * np.pi * rng.uniform(80, 4000) * time) * np.sin(time * rng.uniform(0.1, 9)) for _ in range(6))
    sound = np.stack([np.asarray(tones), np.roll(tones, 99)]) / 9 + rng.normal(0, 0.01, (2, len(time)))
    samples = (sound.clip(-1, 1) * 32767).astype(np.int16)
    stored = io.BytesIO()
    with av.open(stored, "w", format=kind) as output:
        stream: Any = output.add_stream(ENCODERS[kind], rate=RATE, layout="stereo")
        frame = av.AudioFrame.from_ndarray(samples.T.reshape(1, -1).copy(), format="s16", layout="stereo")
        frame.sample_rate, frame.pts = RATE, 0
        resampler = av.AudioResampler(stream.format.name, "stereo", RATE, frame_size=stream.frame_size or 4096)
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    return stored.getvalue()


def fill(kind: str) -> Path:
    """Return a folder with sounds, as files and packed, which is made if it is not there."""
    folder = SCRATCH / f"sounds-{kind}"
    if (folder / "sounds.json").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with bushel.Writer(folder / "packed", {"audio": kind}, container="bag") as writer:
        for number in range(SOUNDS):
            data = made(kind, number)
            (folder / f"{number:02d}.{kind}").write_bytes(data)
            writer.append({"audio": data}, key=f"{number:02d}")
    (folder / "sounds.json").write_text(json.dumps([SOUNDS, SECONDS * RATE - 4096, RATE]))
    return folder


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Windows of stored sounds.", "fewer windows and rounds")
    parser.add_argument("--python", type=Path, help="an interpreter with torchcodec and soundfile")
    options = parser.parse_args()
    windows, rounds = ("8", 2) if options.small else ("48", 5)
    results: dict[str, Any] = {}
    skipped = {} if options.python else dict.fromkeys(("torchcodec", "soundfile"), "no interpreter was given")
    for kind in ENCODERS:
        folder, sums = fill(kind), dict[str, float]()
        pythons = {"bushel": Path(sys.executable), "torchcodec": options.python, "soundfile": options.python}
        with ExitStack() as stack:
            serving: dict[str, Serving] = {}
            for reader, python in pythons.items():
                if python is None:
                    continue
                try:
                    command = [str(python), str(READER), reader, str(folder), windows]
                    serving[reader] = stack.enter_context(Serving(command))
                except RuntimeError as error:
                    skipped[f"{reader}, {kind}"] = str(error)
            results[kind] = in_turns(serving, rounds)
            sums = {reader: round(each.answer["sum"], 1) for reader, each in serving.items()}
        show(f"windows of one second, {kind}", "windows", results[kind], ["bushel"])
        console.print(f"sums of magnitudes: {sums}")
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
