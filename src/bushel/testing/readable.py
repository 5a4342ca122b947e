"""Conformance checks of containers that are only read, by a dataset and its expected samples."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct, field

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.stored_values import same_value
from bushel.containers import Container, ReadOptions, get_container
from bushel.errors import BushelError, DamagedWarning, SpecError

from .expect import InapplicableError, expect, expect_equal, expect_raises

_DAMAGES = 300  # damaged copies of all files together; each file has 12 to 60


class Golden(Struct, frozen=True):
    """A dataset that the original tool wrote, and its expected samples.

    Attributes:
        path: Its file or folder. It is copied before anything is done with it.
        samples: The decoded value of each field of each sample, in order.
        keys: The keys; None if a sample's key is its position.
        options: Options of `bushel.open` that it needs, such as `spec`.

    Examples:
        >>> from bushel.testing import Golden
        >>> Golden(Path("words.shelf"), [{"text": "one"}, {"text": "two"}], ["a", "b"]).all_keys
        ['a', 'b']
    """

    path: Path
    samples: Sequence[Mapping[str, Any]]
    keys: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_keys(self) -> list[str]:
        """The key of each sample."""
        if self.keys is None:
            return list(map(str, range(len(self.samples))))
        return list(self.keys)


class Readable(Struct, frozen=True):
    """A container under test.

    Attributes:
        container: Its name.
        golden: A path that it reads.
        folder: An empty folder.

    Examples:
        >>> from bushel.testing import Golden, Readable
        >>> Readable("shelf", Golden(Path("words.shelf"), []), Path("empty")).container
        'shelf'
    """

    container: str
    golden: Golden
    folder: Path

    @property
    def own(self) -> Container:
        """The container."""
        return get_container(self.container)

    def copied(self, name: str) -> Path:
        """Copy the dataset into a new folder of this name, and return its path."""
        place = self.folder / name / self.golden.path.name
        place.parent.mkdir()
        if self.golden.path.is_dir():
            return Path(
                shutil.copytree(self.golden.path, place, ignore=shutil.ignore_patterns(".bushel"))
            )
        shutil.copytree(
            self.golden.path.parent, place.parent, dirs_exist_ok=True, ignore=self._others
        )
        return place

    def _others(self, folder: str, names: list[str]) -> list[str]:
        """Return the files that do not belong to the one that is read, such as a table beside it."""
        shards = self.own.shards(self.golden.path) or []
        read_files = {file.partition("/")[0] for shard in shards for file in shard.files}
        if Path(folder) == self.golden.path.parent:
            return [name for name in names if name not in read_files]
        return []

    def open(self, path: Path, **options: Any) -> Dataset:
        """Open a dataset."""
        import bushel

        return bushel.open(path, **{**self.golden.options, **options})

    def compare(self, dataset: Dataset, what: str) -> None:
        """Fail unless a dataset has exactly the golden samples, in this order."""
        expect_equal(len(dataset), len(self.golden.samples), f"{what}: number of samples")
        expect_equal(list(dataset.keys), self.golden.all_keys, f"{what}: keys")
        for number, sample in enumerate(self.golden.samples):
            read_sample = dict(dataset[number])
            expect_equal(
                read_sample.pop("__key__"),
                self.golden.all_keys[number],
                f"{what}: __key__ of sample {number}",
            )
            expect_equal(sorted(read_sample), sorted(sample), f"{what}: fields of sample {number}")
            for name, value in sample.items():
                expect_equal(read_sample[name], value, f"{what}: field {name!r} of sample {number}")


def check_recognition(readable: Readable) -> None:
    """Check that the container recognises its own datasets and no others, and refuses to write."""
    path = readable.copied("own")
    expect_equal(
        readable.open(path).info.container,
        readable.container,
        "container that is found without a name",
    )
    named = readable.open(path, container=readable.container)
    expect_equal(named.info.container, readable.container, "container that is found by name")
    other = readable.folder / "other"
    other.mkdir()
    expect(readable.own.shards(other) is None, "an empty folder is recognised as a dataset")
    (other / "photo.of-nothing").write_bytes(b"\0")
    if readable.own.suffixes:
        expect(
            readable.own.shards(other / "photo.of-nothing") is None,
            "a file of another kind is recognised as a dataset",
        )
    if not readable.own.is_written:
        import bushel

        with expect_raises(ValueError, what="a Writer of a container that is only read"):
            bushel.Writer(readable.folder / "new", {"x": "int"}, container=readable.container)


def check_tables(readable: Readable) -> None:
    """Check that every extent is in its file, that a second pass finds the same, and that tables list their files."""
    shards = readable.own.shards(readable.copied("tables"))
    expect(shards, "no shards")
    samples = 0
    for shard in shards or ():
        index = readable.own.index(shard, ReadOptions())
        index.check(str(shard.root))
        expect_equal(index.container, readable.container, "container of the table")
        expect_equal([stamp.name for stamp in index.files], list(shard.files), "files of the table")
        for number, stamp in enumerate(index.files):
            expect_equal(
                stamp.size, shard.path(number).stat().st_size, f"size of {stamp.name} in the table"
            )
        again = pickle.loads(pickle.dumps(readable.own.index(shard, ReadOptions())))
        expect_equal(again.samples, index.samples, "number of samples of a second pass")
        expect_equal(list(again.fields), list(index.fields), "fields of a second pass")
        samples += index.samples
    expect_equal(samples, len(readable.golden.samples), "samples of all tables")


def check_values(readable: Readable) -> None:
    """Check every value, at random positions, from the end, by key, field by field, and in batches."""
    golden, rng = readable.golden, random.Random(0)
    dataset = readable.open(readable.copied("values"))
    readable.compare(dataset, "in order")
    if not golden.samples:
        return
    order = [
        rng.randrange(-len(golden.samples), len(golden.samples))
        for _ in range(2 * len(golden.samples))
    ]
    for position, sample in zip(order, dataset.read(order), strict=True):
        expected = golden.samples[position]
        for name, value in expected.items():
            expect_equal(sample[name], value, f"field {name!r} of sample {position} in a batch")
            expect_equal(
                dataset[position, [name]][name], value, f"field {name!r} of sample {position} alone"
            )
        key = golden.all_keys[position]
        if golden.all_keys.count(key) == 1:
            expect(
                same_value(dict(dataset[key]), dict(dataset[position])),
                f"ds[{key!r}] is not ds[{position}]",
            )
    for position in (len(golden.samples), -len(golden.samples) - 1):
        with expect_raises(IndexError, what=f"ds[{position}] of {len(golden.samples)} samples"):
            dataset[position]


def check_verifying(readable: Readable) -> None:
    """Check that `bushel.verify` finds nothing in the dataset, and finds a flipped bit when its values are indexed."""
    import bushel

    path = readable.copied("verifying")
    with suppress(ValueError):  # nothing has a checksum yet
        result = bushel.verify(path)
        expect(not result.problems, f"verify reports {result.problems} in an undamaged dataset")
    bushel.index(path, checksums=True)
    expect(bushel.verify(path).ok, "verify reports problems in an undamaged dataset with an index")
    readable.compare(readable.open(path, verify=True), "with an index")
    dataset = readable.open(path)
    for position in range(len(dataset)):
        for name in readable.golden.samples[position]:
            file, offset = dataset.location(position, name)
            if dataset.read([position], [name], decode=False)[0][name] and Path(file).is_file():
                flip(Path(file), offset)
                expect(
                    not bushel.verify(path).ok,
                    f"verify does not find a flipped bit in {name!r} of {position}",
                )
                flip(Path(file), offset)
                return


def check_epochs(readable: Readable) -> None:
    """Check that every sample is in each epoch of a loader once, and that a loader resumes from a state."""
    import bushel

    count = len(readable.golden.samples)
    if count < 2:
        raise InapplicableError("an epoch needs two samples")
    dataset = readable.open(readable.copied("epochs"))

    def loader() -> Any:
        return bushel.Loader(
            dataset, 1, shuffle=True, seed=1, rank=0, world_size=1, drop_last=False
        )

    first = loader()
    for epoch in range(2):
        keys = [key for batch in first for key in batch["__key__"]]
        expect_equal(sorted(keys), sorted(readable.golden.all_keys), f"keys of epoch {epoch}")
    begun, resumed = loader(), loader()
    keys = list(next(iter(begun))["__key__"])
    resumed.load_state_dict(begun.state_dict())
    keys += [key for batch in resumed for key in batch["__key__"]]
    expect_equal(
        sorted(keys),
        sorted(readable.golden.all_keys),
        "keys of an epoch that was resumed after a batch",
    )


def check_pickling(readable: Readable) -> None:
    """Check that a dataset is the same after pickling, as in worker processes."""
    dataset = readable.open(readable.copied("pickling"))
    readable.compare(pickle.loads(pickle.dumps(dataset)), "after pickling")
    readable.compare(pickle.loads(pickle.dumps(dataset[:])), "a view after pickling")


def check_conversion(readable: Readable) -> None:
    """Check that a converted dataset has the same samples and keys, also in the container itself if it is written."""
    import bushel

    dataset = readable.open(readable.copied("conversion"))
    if readable.own.is_written:
        rewritten = readable.folder / "rewritten"
        bushel.convert(dataset, rewritten, container=readable.container, keys=True)
        readable.compare(bushel.open(rewritten, verify=True), "written again")
    try:
        bushel.convert(dataset, readable.folder / "out", container="tar", keys=True)
    except SpecError:  # names and lists that tars cannot hold
        bushel.convert(dataset, readable.folder / "other-out", container="ffrecord", keys=True)
        readable.compare(bushel.open(readable.folder / "other-out"), "converted")
    else:
        readable.compare(bushel.open(readable.folder / "out", verify=True), "converted")


def check_damaged_files(readable: Readable) -> None:
    """Check that damaged files give errors of Bushel, or the samples that are left, and nothing else."""
    path, rng = readable.copied("damage"), random.Random(7)
    files = {
        shard.path(number): None
        for shard in readable.own.shards(path) or ()
        for number in range(len(shard.files))
    }
    copies = min(60, max(12, _DAMAGES // (len(files) or 1)))
    for file in files:
        whole = Path(str(file)).read_bytes()
        for number in range(copies):
            damaged = bytearray(whole)
            if number % 3 == 0:
                del damaged[rng.randrange(len(damaged) + 1) :]
            else:
                for _ in range(rng.choice([1, 1, 4])):
                    damaged[rng.randrange(min(len(damaged), rng.choice([64, 1 << 30])))] = (
                        rng.randrange(256)
                    )
            Path(str(file)).write_bytes(damaged)
            _read_all(readable, path)
        os.remove(Path(str(file)))
        with suppress(FileNotFoundError):  # a dataset that is one file
            _read_all(readable, path)
        Path(str(file)).write_bytes(whole)
    readable.compare(readable.open(path), "after the damage was undone")


def _read_all(readable: Readable, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedWarning)
        try:
            with readable.open(path, index="memory", pickle=False) as dataset:
                for position in range(min(len(dataset), 2 * len(readable.golden.samples) + 9)):
                    with suppress(BushelError):
                        dataset[position]
        except BushelError:
            return


def flip(file: Path, at: int) -> None:
    """Flip a bit as a failing disk does, without changing size and time."""
    stat = file.stat()
    with open(file, "r+b") as handle:
        handle.seek(at)
        [byte] = handle.read(1)
        handle.seek(at)
        handle.write(bytes([byte ^ 0x10]))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


READABLE_CHECKS: Mapping[str, Callable[[Readable], None]] = {
    name.removeprefix("check_"): check
    for name, check in list(vars().items())
    if name.startswith("check_")
}
"""Checks of containers, by name. A check raises `InapplicableError` if the container lacks what it tests."""


def check_readable(container: str, golden: Golden) -> list[str]:
    """Check a container that is read, whether or not Bushel writes it, by a dataset of its original tool.

    Recognition, tables, values at random, verifying, epochs, pickling, conversion and damage are
    checked, on copies of the dataset in a temporary folder.

    Args:
        container: Name of the container.
        golden: The dataset, and what must come out of it.

    Returns:
        The names of the checks that did not apply.

    Raises:
        ConformanceError: A check failed.

    Examples:
        >>> from bushel.testing import Golden, check_readable
        >>> with bushel.Writer("words.ffr", {"data": "bytes"}) as writer:
        ...     numbers = writer.append({"data": b"one"}), writer.append({"data": b"two"})
        >>> check_readable("ffrecord", Golden(Path("words.ffr"), [{"data": b"one"}, {"data": b"two"}]))
        []
    """
    skipped = []
    for name, check in READABLE_CHECKS.items():
        with TemporaryDirectory(prefix="bushel-check-") as folder:
            try:
                check(Readable(container, golden, Path(folder)))
            except InapplicableError:
                skipped.append(name)
    return skipped
