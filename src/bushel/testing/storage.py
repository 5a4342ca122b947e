"""Conformance checks of storage back-ends: anything whose paths have `open()`."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bushel.kernels import crc32
from bushel.storage import AnyPath, ExtentError, Extents, File, gather, open_file, read_many

from .expect import expect, expect_equal, expect_raises

_SPECS = {
    "bag": {"label": "int", "txt": "utf8", "words": "utf8[]"},
    "tar": {"txt": "utf8"},  # a name that a tar without a sidecar gives
}


def check_storage(folder: Callable[[], AnyPath]) -> None:
    """Check a kind of storage: reads by position, batches, threads, and writing and reading a dataset.

    Args:
        folder: Called for the path of an empty folder in that storage, another one each time.

    Raises:
        ConformanceError: A check failed.

    Examples:
        >>> import tempfile
        >>> from bushel.testing import check_storage
        >>> check_storage(lambda: Path(tempfile.mkdtemp(dir=".")))
    """
    _check_files(folder())
    for container, spec in _SPECS.items():
        _check_dataset(folder(), container, spec)


def _check_files(folder: AnyPath) -> None:
    rng = random.Random(0)
    contents = {
        f"file-{number}": rng.randbytes(size) for number, size in enumerate([0, 1, 5000, 200_000])
    }
    for name, content in contents.items():
        with (folder / name).open("wb") as handle:
            handle.write(content)
        expect(
            (folder / name).exists() and (folder / name).is_file(),
            f"{name} does not exist after it was written",
        )
        expect_equal(int((folder / name).stat().st_size), len(content), f"size of {name}")
    expect_equal(
        sorted(path.name for path in folder.iterdir()), sorted(contents), "names in the folder"
    )
    expect(not (folder / "absent").exists(), "a file that was never written exists")
    with expect_raises(FileNotFoundError, what="opening a missing file"):
        open_file(folder / "absent")
    files = [open_file(folder / name) for name in contents]
    _check_reads(files, list(contents.values()), rng)


def _check_reads(files: list[File], contents: list[bytes], rng: random.Random) -> None:
    number, offset, length = [], [], []
    for _ in range(300):
        at = rng.randrange(len(contents))
        start = rng.randrange(len(contents[at]) + 1)
        number.append(at)
        offset.append(start)
        length.append(
            rng.choice(
                [
                    -1,
                    0,
                    min(1, len(contents[at]) - start),
                    rng.randint(0, len(contents[at]) - start),
                ]
            )
        )
    expected = [
        None if size < 0 else contents[at][start : start + size]
        for at, start, size in zip(number, offset, length, strict=True)
    ]
    checks = np.array([crc32(value or b"") for value in expected], np.uint32)
    extents = Extents(
        np.array(number, np.int32), np.array(offset, np.int64), np.array(length, np.int64), checks
    )
    expect_equal(read_many(files, extents), expected, "a batch of extents")
    buffer, ends = gather(files, extents)
    joined = b"".join(value or b"" for value in expected)
    expect(buffer.tobytes() == joined, "gathered bytes differ from the files")
    expect_equal(
        np.diff(ends).tolist(),
        [len(value or b"") for value in expected],
        "lengths of gathered extents",
    )
    for at, content in enumerate(contents):
        expect_equal(files[at].size, len(content), f"size of file {at}")
        expect_equal(files[at].read(0, len(content)), content, f"the whole of file {at}")
        for start, size in ((0, len(content) + 1), (len(content) + 1, 0), (-1, 1), (0, 2**62)):
            with expect_raises(ExtentError, what=f"{size} bytes at {start} of {len(content)}"):
                files[at].read(start, size)
    wrong = Extents(0, np.array([0], np.int64), np.array([0], np.int64), np.array([1], np.uint32))
    with expect_raises(ExtentError, what="bytes that do not match their CRC"):
        read_many(files, wrong)

    def read(row: int) -> bytes | None:
        if length[row] < 0:
            return None
        return files[number[row]].read(offset[row], length[row])

    with ThreadPoolExecutor(8) as pool:
        expect_equal(list(pool.map(read, range(300))), expected, "extents read by eight threads")


def _check_dataset(folder: AnyPath, container: str, spec: dict[str, str]) -> None:
    import bushel

    samples = []
    with bushel.Writer(folder, spec, container=container, shard_samples=4) as writer:
        for number in range(9):
            values = {"label": number, "txt": "word " * number, "words": ["☕"] * number}
            samples.append({name: values[name] for name in spec})
            writer.append(samples[-1], key=f"key{number}")
    read = [dict(sample) for sample in bushel.open(folder, verify=True)]
    keys = [sample.pop("__key__") for sample in read]
    expect_equal(keys, [f"key{number}" for number in range(9)], f"keys of a {container} dataset")
    expect_equal(read, samples, f"samples of a {container} dataset")
    with expect_raises(FileExistsError, what="a second dataset at the same place"):
        bushel.Writer(folder, spec, container=container)
