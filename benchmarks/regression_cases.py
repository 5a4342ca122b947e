"""The cases of benchmarks/regression.py: the data, and the operations on them.

Each version of Bushel writes the data that it reads, by `make`, so the cases use only what all compared versions have,
under the name that each has for it.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import bushel

__all__ = ["CASES", "make"]

PHOTOS, TEXTS, TOKENS, VIDEOS, SHARDS = 200, 20_000, 2000, 20, 2000

TWO_THREADS: dict[str, Any] = {"threads" if "threads" in inspect.signature(bushel.Loader).parameters else "workers": 2}
"""The option of a loader that decodes in two threads: `workers` until November 2026."""


def make(folder: Path) -> None:
    """Write the datasets that the cases read: photos, short texts, rows of tokens, and sequences of frames."""
    import PIL.Image

    rng = np.random.default_rng(0)
    noise, ramp = rng.integers(0, 40, (375, 500, 3)), np.linspace(0, 200, 500)[None, :, None]
    photos: list[bytes] = []
    for number in range(PHOTOS):
        written = io.BytesIO()
        PIL.Image.fromarray((noise + np.roll(ramp, number, 1)).astype(np.uint8)).save(written, "JPEG", quality=90)
        photos.append(written.getvalue())
        tree = folder / "tree" / f"class{number % 10}"
        tree.mkdir(parents=True, exist_ok=True)
        (tree / f"{number:04d}.jpg").write_bytes(photos[-1])
    PIL.Image.fromarray(noise[:16, :16].astype(np.uint8)).save(folder / "small.jpg", "JPEG")
    with bushel.Writer(folder / "photos", {"image": "jpg", "label": "int"}, container="tar", shard_samples=100) as out:
        for number, photo in enumerate(photos):
            out.append({"image": photo, "label": number % 10}, key=f"{number:04d}")
    with bushel.Writer(folder / "texts", {"text": "utf8", "label": "int"}, container="bag") as out:
        for number in range(TEXTS):
            out.append({"text": "word " * int(rng.integers(1, 60)), "label": number}, key=f"text{number}")
    with bushel.Writer(folder / "tokens", {"tokens": "array"}, container="bag") as out:
        for _ in range(TOKENS):
            out.append({"tokens": rng.integers(0, 50_000, 2048).astype(np.uint16)})
    with bushel.Writer(folder / "videos", {"frames": "jpg[]", "label": "int"}, container="gulp") as out:
        for number in range(VIDEOS):
            out.append({"frames": photos[number : number + 30], "label": number}, key=f"clip{number}")
    with bushel.Writer(folder / "shards", {"label": "int"}, container="tar", shard_samples=1, sync=False) as out:
        for number in range(SHARDS):
            out.append({"label": number}, key=str(number))
    for name in ("tar", "recordio"):  # without an index, so that `index` scans them
        bushel.convert(folder / "texts", folder / f"plain-{name}", container=name)
        shutil.rmtree(folder / f"plain-{name}" / ".bushel", ignore_errors=True)
    if find_spec("cramjam") is not None:
        _make_compressed(folder)
    _make_arrays(folder)


def _make_compressed(folder: Path) -> None:
    """Write lines of text that others have compressed: a zip of deflated members, and frames of zstd."""
    import cramjam

    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(1000)]
    lines = [
        json.dumps({"number": number, "text": " ".join(words[one] for one in rng.integers(0, 1000, 250))}) + "\n"
        for number in range(2000)
    ]
    with zipfile.ZipFile(folder / "texts.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, line in enumerate(lines):
            archive.writestr(f"{number:04d}.json", line)
    with (folder / "lines.jsonl.zst").open("wb") as file:
        for first in range(0, len(lines), 100):
            file.write(bytes(cramjam.zstd.compress("".join(lines[first : first + 100]).encode())))


def _make_arrays(folder: Path) -> None:
    """Write documents of tokens that differ in length, episodes of states, labels for photos, and rows of Parquet."""
    rng = np.random.default_rng(0)
    with bushel.Writer(folder / "documents", {"tokens": "array"}, container="bag") as writer:
        for length in rng.integers(10, 2000, 3000).tolist():
            writer.append({"tokens": np.arange(length, dtype=np.uint16)})
    with bushel.Writer(folder / "episodes", {"states": "array"}, container="bag") as writer:
        for _ in range(50):
            writer.append({"states": rng.normal(size=(400, 32)).astype(np.float32)})
    rows = [json.dumps({"photo": f"{number:04d}", "caption": f"photo {number}"}) for number in range(200)]
    (folder / "captions.jsonl").write_text("\n".join(rows) + "\n")
    if find_spec("pyarrow") is not None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = [f"text {number} " * 50 for number in range(20_000)]
        pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), folder / "rows.parquet", row_group_size=2000)


def start(data: Path) -> None:
    """Import Bushel in new processes, and read a sample."""
    code = "import sys, bushel; bushel.open(sys.argv[1])[3]"
    # installed packages are compiled: else the time would be that of compiling the source
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(4):
        command = [sys.executable, "-c", code, str(data / "photos")]
        subprocess.run(command, check=True, env=environment)


def open_(data: Path) -> None:
    """Open a dataset many times."""
    for _ in range(1000):
        len(bushel.open(data / "photos").keys)


def open_shards(data: Path) -> None:
    """Open a dataset of many shards."""
    for _ in range(20):
        bushel.open(data / "shards")["7"]


def append(data: Path) -> None:
    """Append to a folder of shards, and to a dataset that is one file."""
    with _Scratch() as folder:
        for name in ("texts", "photos"):
            shutil.copytree(data / name, folder / name)
        photo = (data / "small.jpg").read_bytes()
        for number in range(20):
            with bushel.Writer(folder / "texts", {"text": "utf8", "label": "int"}, mode="append", sync=False) as out:
                out.append({"text": "word", "label": 0}, key=f"new{number}")
            with bushel.Writer(folder / "photos", {"image": "jpg", "label": "int"}, mode="append", sync=False) as out:
                out.append({"image": photo, "label": 0}, key=f"new{number}")


def sample(data: Path) -> None:
    """Read samples one by one."""
    ds = bushel.open(data / "texts")
    for position in np.random.default_rng(0).integers(0, len(ds), 100_000).tolist():
        ds[position]


def read(data: Path) -> None:
    """Read stored photos in batches."""
    ds, rng = bushel.open(data / "photos"), np.random.default_rng(0)
    for _ in range(2000):
        ds.read(rng.integers(0, len(ds), 64), decode=False)


def decoded(data: Path) -> None:
    """Read decoded texts and numbers in batches."""
    ds, rng = bushel.open(data / "texts"), np.random.default_rng(0)
    for _ in range(2000):
        ds.read(rng.integers(0, len(ds), 256))


def ranges(data: Path) -> None:
    """Read ranges of frames."""
    ds, rng = bushel.open(data / "videos"), np.random.default_rng(0)
    for _ in range(100):
        ds[int(rng.integers(0, VIDEOS)), {"frames": slice(8, 16)}]


def load(data: Path) -> None:
    """Load epochs of random crops."""
    from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop

    crop, flip = RandomResizedCrop(224), RandomHorizontalFlip()
    loader = bushel.Loader(
        bushel.open(data / "photos"), 32, shuffle=True, seed=0, transforms=[crop, flip], **TWO_THREADS
    )
    _epochs(loader, 6)


def load_texts(data: Path) -> None:
    """Load epochs of short texts and numbers."""
    _epochs(bushel.Loader(bushel.open(data / "texts"), 256, shuffle=True, seed=0, **TWO_THREADS), 10)


def load_tokens(data: Path) -> None:
    """Load epochs of rows of tokens."""
    _epochs(bushel.Loader(bushel.open(data / "tokens"), 32, shuffle=True, seed=0, **TWO_THREADS), 150)


def stream(data: Path) -> None:
    """Read tars from the beginning to the end."""
    [archive] = (data / "plain-tar").glob("*.tar")
    for _ in range(3):
        for _sample in bushel.open_stream(archive):
            pass


def index(data: Path) -> None:
    """Scan files that have no index."""
    for name in ("tar", "recordio") * 4:
        with _Scratch() as folder:
            shutil.copytree(data / f"plain-{name}", folder / name)
            bushel.index(folder / name)


def verify(data: Path) -> None:
    """Compare the checksums of all datasets."""
    for _ in range(10):
        for name in ("photos", "texts", "tokens", "videos"):
            bushel.verify(data / name)


def pack(data: Path) -> None:
    """Pack a folder of photos, unchanged and resized."""
    from bushel.transforms import Resize

    for _ in range(4):
        with _Scratch() as folder:
            bushel.pack(data / "tree", folder / "same", container="bag")
            bushel.pack(data / "tree", folder / "small", container="tar", transforms=[Resize(64)])


def convert(data: Path) -> None:
    """Copy photos, and write texts in another form."""
    for _ in range(3):
        with _Scratch() as folder:
            bushel.convert(data / "photos", folder / "photos.rec", container="recordio")
            bushel.convert(data / "texts", folder / "texts", container="tar")


def deflate(data: Path) -> None:
    """Read members of a zip at random. Each is a deflated block."""
    _read_at_random(data / "texts.zip", 40)


def zstd(data: Path) -> None:
    """Read lines at random from compressed frames, which are expanded into the cache of blocks."""
    _read_at_random(data / "lines.jsonl.zst", 80)


def parquet(data: Path) -> None:
    """Read rows of Parquet at random."""
    _read_at_random(data / "rows.parquet", 40)


def join(data: Path) -> None:
    """Join photos to their captions, and read samples of both."""
    for _ in range(10):
        both = bushel.join(bushel.open(data / "captions.jsonl"), bushel.open(data / "photos"), on=("photo", "__key__"))
        both.read(range(0, 200, 2), decode=False)


def packs(data: Path) -> None:
    """Load epochs of rows that are packed with whole documents."""
    ds = bushel.open(data / "documents")
    loader = bushel.Loader(ds, 8, shuffle=True, seed=0, pack_by="tokens.length", pack_tokens=4096, **TWO_THREADS)
    _epochs(loader, 10)


def windows(data: Path) -> None:
    """Load epochs of windows."""
    windows = bushel.open(data / "episodes").windows("states", 16, hop=8)
    for _ in range(4):
        _epochs(bushel.Loader(windows, 64, shuffle=True, seed=0, **TWO_THREADS), 1)


def write(container: str, samples: int) -> Callable[[Path], None]:
    """Return a case that appends small samples."""

    def case(data: Path) -> None:
        gulp = container == "gulp"
        spec = {"frames" if gulp else "text": "jpg[]" if gulp else "bytes", "label": "int"}
        value: Any = [(data / "small.jpg").read_bytes()] * 2 if gulp else b"x" * 200
        [name, _] = spec
        with _Scratch() as folder, bushel.Writer(folder / "x", spec, container=container) as out:
            for number in range(samples):
                out.append({name: value, "label": number}, key=str(number))

    return case


CASES: dict[str, Callable[[Path], None]] = {
    "start": start,
    "open": open_,
    "open shards": open_shards,
    "append": append,
    "sample": sample,
    "read": read,
    "decoded": decoded,
    "ranges": ranges,
    "load": load,
    "load texts": load_texts,
    "load tokens": load_tokens,
    "stream": stream,
    "index": index,
    "verify": verify,
    "pack": pack,
    "convert": convert,
    "deflate": deflate,
    "zstd": zstd,
    "parquet": parquet,
    "join": join,
    "packs": packs,
    "windows": windows,
    "write bag": write("bag", 300_000),
    "write tar": write("tar", 200_000),
    "write ffrecord": write("ffrecord", 60_000),
    "write gulp": write("gulp", 50_000),
    "write recordio": write("recordio", 200_000),
}
"""The measurements, by name."""


def _read_at_random(path: Path, reads: int) -> None:
    ds, rng = bushel.open(path), np.random.default_rng(0)
    for _ in range(reads):
        ds.read(rng.integers(0, len(ds), 64))


def _epochs(loader: Any, epochs: int) -> None:
    for _ in range(epochs):
        for _batch in loader:
            pass


class _Scratch:
    """A new folder in memory, where the system has one."""

    def __init__(self) -> None:
        place = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self._folder = tempfile.TemporaryDirectory(dir=place)

    def __enter__(self) -> Path:
        return Path(self._folder.name)

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()
