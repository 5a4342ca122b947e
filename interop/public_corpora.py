"""Read public test corpora, and compare every value with what a reference reader finds.

    python interop/public_corpora.py                               every corpus
    python interop/public_corpora.py parquet --from ~/parquet      a corpus, from a folder or URL of one's own

Corpora are fetched by Git at the commits below into a temporary folder, and never copied into this repository. A file
that Bushel reads must have the values of the reference reader; one that it refuses needs an error of Bushel's own. A
file that the reference reader reads and Bushel refuses is counted, and may not be more than the corpus allows. The exit
status is 1 after another value, an error of another kind, or too many refusals.
"""

from __future__ import annotations

import argparse
import binascii
import csv
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

import bushel
from bushel.errors import BushelError

Rows = list[dict[str, Any]]
Read = Callable[[Path], Any]
_EXTENSION = re.compile(r"(^|/)[^/.]+\.[^/]+$")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files of a repository, and the reader that tells what they hold."""

    url: str
    commit: str
    folders: tuple[str, ...]
    suffixes: tuple[str, ...]
    reference: Callable[[Path], Any]
    ours: Callable[[Path], Any]
    refusals: int = 0  # files that the reference reader reads, and Bushel refuses with its reason
    different: tuple[str, ...] = ()  # files of which Bushel gives other values, for a reason


# What the readers find


def _rows_of_arrow(path: Path) -> Any:
    from pyarrow import ArrowInvalid, ipc

    with path.open("rb") as file:
        try:
            table = ipc.open_file(file).read_all()
        except ArrowInvalid:
            file.seek(0)
            table = ipc.open_stream(file).read_all()
        return _plain(table.to_pylist())


def _rows_of_parquet(path: Path) -> Any:
    from pyarrow.parquet import read_table

    return _plain(read_table(path, partitioning=None).to_pylist())


def _rows_of_csv(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]


def _text_rows(path: Path) -> Rows:
    names = bushel.open(path, index="memory").spec
    rows = _rows(path, spec=dict.fromkeys(names, "utf8"))
    return [{name: value for name, value in row.items() if value} for row in rows]


def _json_value(path: Path) -> Any:
    return _plain(json.loads(path.read_bytes()))


def _json_as_line(path: Path) -> Any:
    """Return the value of a file as Bushel reads it in a line."""
    text = path.read_bytes()
    with tempfile.TemporaryDirectory() as place:
        line = Path(place, "x.jsonl")
        line.write_bytes(b'{"x": ' + text.replace(b"\n", b" ").replace(b"\r", b" ") + b"}\n")
        [row] = _rows(line, spec={"x": "json"})
    return row.get("x")


def _members_of_tar(path: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        files = [(each.name.removeprefix("./"), archive.extractfile(each)) for each in archive if each.isreg()]
        # as in WebDataset, a name without an extension is no member of a sample
        return sorted((name, file.read()) for name, file in files if file is not None and _EXTENSION.search(name))


def _members(path: Path) -> list[tuple[str, bytes]]:
    dataset = bushel.open(path, container="zip" if path.suffix == ".zip" else "tar", index="memory")
    return sorted(
        (f"{row['__key__']}.{name}".removeprefix("./"), bytes(value))
        for row in dataset.read(range(len(dataset)), decode=False)
        for name, value in row.items()
        if name != "__key__"
    )


def _members_of_zip(path: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        names = [each.filename for each in archive.infolist() if not each.is_dir()]
        return sorted((name.removeprefix("./"), archive.read(name)) for name in names if _EXTENSION.search(name))


def _of_archive(read_tar: Read, read_zip: Read) -> Read:
    """Return a reader of archives that are kept as text by uuencode. Names have no case: extensions lose theirs."""

    def read(path: Path) -> Any:
        inner = path.name.removesuffix(".uu")
        lines = path.read_bytes().splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith(b"begin "))
        with tempfile.TemporaryDirectory() as place:
            archive = Path(place, f"x{inner[inner.rindex('.t') :] if '.t' in inner else '.zip'}")
            archive.write_bytes(b"".join(map(_line_of_uuencode, lines[first + 1 : lines.index(b"end")])))
            members = (read_zip if archive.suffix == ".zip" else read_tar)(archive)
        return sorted((name.lower(), data) for name, data in members)

    return read


def _line_of_uuencode(line: bytes) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:  # with characters at its end that stand for nothing
        return binascii.a2b_uu(line[: ((line[0] - 32 & 63) * 4 + 5) // 3])


def _sound_by_soundfile(path: Path) -> Any:
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return rate, samples.shape, np.round(samples * 2**15).astype(np.int64).sum(axis=0).tolist()


def _sound(path: Path) -> Any:
    from bushel.codecs import get_codec
    from bushel.codecs.audio import sample_rate

    data = path.read_bytes()
    samples = np.asarray(get_codec("flac").decode(data))
    samples = samples.reshape(len(samples), -1)
    if samples.dtype == np.int16:
        samples = (samples / np.float32(2**15)).astype(np.float32)
    return sample_rate(data, "flac"), samples.shape, np.round(samples * 2**15).astype(np.int64).sum(axis=0).tolist()


def _pixels_by_pillow(path: Path) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).tobytes()


def _pixels(path: Path) -> Any:
    from bushel.codecs import get_codec

    pixels = np.asarray(get_codec("image").decode(path.read_bytes()))
    return None if pixels.ndim != 3 or pixels.shape[2] != 3 else pixels.tobytes()


def _rows(path: Path, **options: Any) -> Any:
    return _plain(
        [{n: v for n, v in row.items() if n != "__key__"} for row in bushel.open(path, index="memory", **options)]
    )


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, without what is missing; of binary values and times, their texts."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in sorted(value.items()) if each is not None}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        is_text = any(isinstance(each, str) for each in value)  # a null among texts is an empty one
        return ["" if each is None and is_text else _plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return value.bytes.hex()
    if isinstance(value, float) and value != value:
        return "nan"
    return value if isinstance(value, int | float | str | bool) or value is None else _as_text(value)


def _as_text(value: Any) -> str:
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


CORPORA: dict[str, Corpus] = {
    "parquet": Corpus(
        "https://github.com/apache/parquet-testing",
        "1a2a75127be06fc0123f03ebd36c966f7beda27d",
        ("data", "bad_data"),
        (".parquet",),
        _rows_of_parquet,
        _rows,
        refusals=3,  # a malformed dictionary, a repeated field without a list, a logical type without a name
    ),
    "arrow": Corpus(
        "https://github.com/apache/arrow-testing",
        "9cfebfef8982fb8612e0a2c59059752bd32321a3",
        ("data/arrow-ipc-stream",),
        (".arrow_file", ".stream"),
        _rows_of_arrow,
        lambda path: _rows(path, container="arrow"),
        refusals=42,  # big-endian numbers, unions, and streams of before 0.15
        # dates with hours, which the format forbids
        different=("0.14.1/generated_datetime.arrow_file", "0.14.1/generated_datetime.stream"),
    ),
    "json": Corpus(
        "https://github.com/nst/JSONTestSuite",
        "1ef36fa01286573e846ac449e8683f8833c5b26a",
        ("test_parsing",),
        (".json",),
        _json_value,
        _json_as_line,
        refusals=4,  # UTF-16, and a mark of byte order inside of a line
    ),
    "csv": Corpus(
        "https://github.com/max-mapper/csv-spectrum",
        "d30e80f8b99d2eecb3778f1d7b9ed1cb425502ec",
        ("csvs",),
        (".csv",),
        _rows_of_csv,
        _text_rows,
    ),
    "flac": Corpus(
        "https://github.com/ietf-wg-cellar/flac-test-files",
        "aa7b0c6cf32994c106ae517a08134c28a96ff5b2",
        ("subset", "uncommon", "faulty"),
        (".flac",),
        _sound_by_soundfile,
        _sound,
        refusals=2,
        different=("05 - wrong total number of samples.flac",),  # soundfile stops where the header says
    ),
    "tar": Corpus(
        "https://github.com/alexcrichton/tar-rs",
        "2349b494827807791473f3c6ca9b2fc5ef274cdb",
        ("tests/archives",),
        (".tar",),
        _members_of_tar,
        _members,
        refusals=3,  # sparse files, and a member without a name
    ),
    "archives": Corpus(
        "https://github.com/libarchive/libarchive",
        "4fe6c584b6e5d0028877b3b58872e5474629bc74",
        ("libarchive/test", "tar/test", "unzip/test"),
        (".tar.uu", ".tgz.uu", ".tar.gz.uu", ".tar.zst.uu", ".zip.uu"),
        _of_archive(_members_of_tar, _members_of_zip),
        _of_archive(_members, _members),
        # sparse files, archives after others or without an end, codes and passwords of zip
        refusals=20,
        # a size that begins with zero bytes; WebDataset takes `C:/` as the name in `C:/..x`
        different=("timestamp_overflow.tar.uu", "test_patterns_4.tar.uu"),
    ),
    "images": Corpus(
        "https://github.com/python-pillow/test-images",
        "7077675d2cda485d63de4aefe0fefbf6f655c5a0",
        (".",),
        (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"),
        _pixels_by_pillow,
        _pixels,
    ),
}


# Running


def fetch(corpus: Corpus, source: str, folder: Path) -> Path:
    """Return a folder with the files of a corpus: the one that is named, or a new one from Git."""
    is_bare = Path(source, "HEAD").is_file()  # a repository without files: the folder `.` is in any
    if Path(source, corpus.folders[0]).is_dir() and not is_bare:
        return Path(source)
    git = ["git", "-C", str(folder)]
    for command in (
        ["git", "init", "--quiet", str(folder)],
        [*git, "fetch", "--quiet", "--depth", "1", source, corpus.commit],
    ):
        subprocess.run(command, check=True)
    packed = subprocess.run([*git, "archive", "FETCH_HEAD", *corpus.folders], check=True, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def compare(corpus: Corpus, path: Path) -> str:
    """Return how a file compares: `same`, `other` values, `refused` by both, `stricter`, `more` or an error."""
    warnings.simplefilter("ignore")
    try:
        expected = corpus.reference(path)
    except Exception:  # of any reader
        expected = _UNREADABLE
    try:
        found = corpus.ours(path)
    except (BushelError, OSError):
        return "refused" if expected is _UNREADABLE else "stricter"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if found is None and expected is not None:
        return "another form"
    if expected is _UNREADABLE:
        return "more"
    if found != expected:
        return "different, as known" if str(path).endswith(corpus.different or "/") else "other"
    return "same"


_UNREADABLE = object()
_LARGE = ("sparse-large", "large_string_map")
FINE = ("same", "refused", "stricter", "more", "another form", "different, as known")


def files_of(corpus: Corpus, folder: Path) -> Iterator[Path]:
    """Yield the files of a corpus. A sparse file of a terabyte and texts of 2 GiB are left out."""
    for top in corpus.folders:
        paths = (path for path in sorted((folder / top).rglob("*")) if path.name.lower().endswith(corpus.suffixes))
        yield from (path for path in paths if path.is_file() and not path.name.startswith(_LARGE))


def main() -> int:
    """Compare the corpora of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="*", help=f"one or more of: {', '.join(CORPORA)} (default: all)")
    parser.add_argument("--from", dest="source", help="URL or folder of the repository (one corpus only)")
    options = parser.parse_args()
    wrong = 0
    sys.setrecursionlimit(10_000)  # for values that are nested 500 times
    for name in options.corpus or CORPORA:
        corpus = CORPORA[name]
        with tempfile.TemporaryDirectory() as place:
            folder = fetch(corpus, options.source or corpus.url, Path(place))
            outcomes: dict[str, list[str]] = {}
            for path in files_of(corpus, folder):
                outcomes.setdefault(compare(corpus, path), []).append(str(path.relative_to(folder)))
        print(
            f"{name}: {', '.join(f'{len(files)} {outcome}' for outcome, files in outcomes.items() if outcome in FINE)}"
        )
        if not outcomes:
            print(f"  no file of {corpus.url} is there: --from takes a folder with its files, or a URL")
            wrong += 1
        for outcome, files in outcomes.items():
            if outcome not in FINE or (outcome == "stricter" and len(files) > corpus.refusals):
                wrong += len(files)
                print(*(f"  {file}: {outcome}" for file in files), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
