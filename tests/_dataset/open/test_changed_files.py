"""Files that change under an open dataset end in an error or in the bytes that were there, never in a dead process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.models import CONTAINERS, expected, make_samples, opened, plain, write

import bushel
from bushel._dataset.views.dataset import Dataset
from bushel.errors import BushelError, CorruptError, FormatError

COUNT = 12


@pytest.fixture(params=CONTAINERS)
def container(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def dataset(tmp_path: Path, container: str) -> Dataset:
    return write(tmp_path / "ds", container, make_samples(container, COUNT), shard_samples=5)


def data_files(dataset: Dataset) -> list[Path]:
    """The file of each shard that has the most values."""
    found = []
    for shard in dataset.shards:
        files = {column.file for column in shard.index.fields.values()}
        paths = [Path(str(shard.shard.path(number))) for number in files]
        found.append(max(paths, key=lambda path: path.stat().st_size))
    return found


def outcomes(dataset: Dataset) -> list[Any]:
    """What every sample gives, one by one and in a batch: a sample, or the error."""
    found: list[Any] = []
    for position in range(COUNT):
        for read in (lambda at: dataset[at], lambda at: dataset.read([at])[0], lambda at: next(iter(dataset[at:]))):
            try:
                found.append(plain(read(position)))
            except BushelError as error:
                found.append(error)
    return found


@pytest.mark.parametrize("keep", [0.0, 0.6])
@pytest.mark.parametrize("read_before", [False, True])
def test_a_file_that_shrinks(dataset: Dataset, container: str, keep: float, read_before: bool) -> None:
    samples = expected(container, make_samples(container, COUNT))
    if read_before:
        assert plain(list(dataset)) == samples
    for path in data_files(dataset):
        os.truncate(path, int(path.stat().st_size * keep))
    found = outcomes(dataset)
    errors = [each for each in found if isinstance(each, BushelError)]
    assert errors
    for error in errors:
        assert isinstance(error, FormatError)
        assert error.file is not None
        assert Path(error.file).exists()
    for number, each in enumerate(found):
        assert isinstance(each, BushelError) or each == samples[number // 3]


def test_a_file_that_was_replaced_is_read_as_it_was_until_it_is_opened_again(
    dataset: Dataset, container: str, tmp_path: Path
) -> None:
    samples = expected(container, make_samples(container, COUNT))
    assert plain(list(dataset)) == samples
    other = make_samples(container, COUNT, seed=5)
    write(tmp_path / "other", container, other, shard_samples=5)
    equal = []
    for path in data_files(dataset):
        source = tmp_path / "other" / path.relative_to(tmp_path / "ds")
        equal.append(source.read_bytes() == path.read_bytes())
        os.replace(source, path)
    assert equal.count(False) >= len(equal) - 1
    assert plain(list(dataset)) == samples
    dataset.close()
    for number, each in enumerate(outcomes(dataset)):
        if equal[number // 3 // 5]:  # the same bytes with another time
            assert each == samples[number // 3]
        else:
            assert isinstance(each, FormatError)
            assert "changed since the dataset was opened" in str(each)


def test_a_file_that_was_deleted(dataset: Dataset, container: str, tmp_path: Path) -> None:
    samples = expected(container, make_samples(container, COUNT))
    assert plain(list(dataset)) == samples
    shutil.rmtree(tmp_path / "ds")
    assert plain(list(dataset)) == samples, "what is open stays"
    dataset.close()
    for read in (lambda: dataset[0], lambda: dataset.read([0]), lambda: list(dataset)):
        with pytest.raises(FileNotFoundError):
            read()


def test_bytes_that_change_in_place(dataset: Dataset, container: str) -> None:
    samples = expected(container, make_samples(container, COUNT))
    position = next(at for at, sample in enumerate(samples) if sample.get("text"))
    file, offset = dataset.location(position, "text")
    if container == "gulp":  # the text is in the table, from which the index has its copy
        position, file, offset = next(at for at, sample in enumerate(samples) if sample["parts"]), "", 0
        file, offset = dataset.location(position, "parts")
    stamp = os.stat(file)
    with open(file, "r+b") as handle:
        handle.seek(offset + 2)
        handle.write(b"\xa5")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    name = "parts" if container == "gulp" else "text"
    for read in (
        lambda: dataset[position],
        lambda: dataset.read([position]),
        lambda: dataset.read(range(COUNT), [name], decode=False),
        lambda: dataset.gather(range(COUNT), name) if name == "text" else dataset[position],
    ):
        with pytest.raises(CorruptError) as caught:
            read()
        error = caught.value
        assert (error.key, error.field, error.file) == (samples[position]["__key__"], name, file)
        assert error.offset is not None
        assert error.offset <= offset
        assert error.expected != error.found


def test_the_corrupt_element_of_a_sequence_is_the_one_named(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", {"none": "utf8[]", "parts": "bytes[]"}, container="bag") as writer:
        writer.append({"none": [], "parts": [b"one", b"two", b"three"]})
    dataset = opened(tmp_path / "ds")
    file, offset = dataset.location(0, "parts")
    stamp = os.stat(file)
    with open(file, "r+b") as handle:
        handle.seek(offset + 6)
        handle.write(b"THREE")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    for read in (lambda: dataset[0], lambda: dataset.read([0]), lambda: dataset.read([0], {"parts": [2]})):
        with pytest.raises(CorruptError, match="CRC-32") as caught:
            read()
        assert (caught.value.field, caught.value.offset) == ("parts", offset + 6)
    assert dataset.read([0], {"parts": slice(2)})[0]["parts"] == [b"one", b"two"]


def test_a_dataset_that_changes_is_refused_by_what_was_pickled_before(dataset: Dataset, tmp_path: Path) -> None:
    import pickle

    copied = pickle.dumps(dataset)
    for path in data_files(dataset):
        os.utime(path, ns=(1, 1))
    assert plain(pickle.loads(copied)[0]) == plain(dataset[0]), "the bytes are the same"
    for path in data_files(dataset):
        path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(FormatError, match="changed since"):
        pickle.loads(copied)[0]


def _child(dataset: Dataset, results: Any) -> None:
    results.put([plain(sample) for sample in dataset])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_views_go_to_other_processes(tmp_path: Path, method: str) -> None:
    samples = make_samples("recordio", COUNT)
    whole = write(tmp_path / "ds", "recordio", samples, shard_samples=5)
    view = bushel.concat([whole[::-2], whole[[3, 3]]]).select_fields(["text"])
    shown = [
        {n: v for n, v in each.items() if n in ("text", "__key__")} for each in [*samples[::-2], samples[3], samples[3]]
    ]
    assert list(view) == shown
    context: Any = multiprocessing.get_context(method)
    results = context.Queue()
    process = context.Process(target=_child, args=(view, results))
    process.start()
    assert results.get(timeout=120) == shown
    process.join(60)
    assert process.exitcode == 0
    results.close()
    results.join_thread()


def test_checksums_are_compared_where_only_some_shards_have_them(tmp_path: Path) -> None:
    parts = []
    for name in ("checked", "bare"):
        with bushel.Writer(tmp_path / f"{name}.tar", {"txt": "utf8", "cls": "int"}) as writer:
            for number in range(3):
                writer.append({"txt": f"{name} text {number}", "cls": number}, key=f"{name}{number}")
        if name == "bare":
            shutil.rmtree(tmp_path / ".bushel")
        parts.append(opened(tmp_path / f"{name}.tar", index="memory"))
        assert parts[-1].info.checksums == (name == "checked")
    file, offset = parts[0].location(1, "txt")
    both = bushel.concat(parts)
    assert both.gather([4, 1, 0], "txt")[0].tobytes() == b"bare text 1checked text 1checked text 0"
    stamp = os.stat(file)
    with open(file, "r+b") as handle:
        handle.seek(offset)
        handle.write(b"C")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    for read in (lambda: both.read([4, 1]), lambda: both.gather([4, 1], "txt"), lambda: both[1]):
        with pytest.raises(CorruptError, match="'checked1', field 'txt'"):
            read()
    assert [sample["cls"] for sample in both.read([4, 1], ["cls"])] == [1, 1]


def test_more_shards_than_may_be_open(tmp_path: Path) -> None:
    import resource

    with bushel.Writer(
        tmp_path / "ds", {"a": "int", "b": "int"}, container="bag", shard_samples=1, sync=False
    ) as writer:
        for number in range(60):
            writer.append({"a": number, "b": -number})
    dataset = opened(tmp_path / "ds")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, hard))
    try:
        positions = np.random.default_rng(0).permutation(60)
        assert [sample["a"] for sample in dataset.read(positions)] == positions.tolist()
        dataset.prefetch(positions)
        assert len(dataset.gather(positions, "b")[1]) == 61
        assert dataset[59]["b"] == -59
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_index_of_another_shard_under_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = make_samples("tar", 10)
    write(tmp_path / "ds", "tar", samples, shard_samples=5)
    one, two = sorted((tmp_path / "ds" / ".bushel").glob("*.safetensors"))
    one.write_bytes(two.read_bytes())
    monkeypatch.setattr("bushel._dataset.open.shards._STAT_ALL", 0)
    dataset = bushel.open(tmp_path / "ds")
    with pytest.raises(FormatError, match="does not belong to"):
        dataset.read(range(5), decode=False)


def test_a_pickled_dataset_whose_sidecar_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "ds", "tar", make_samples("tar", 10))
    copied = pickle.dumps(opened(tmp_path / "ds"))
    shutil.rmtree(tmp_path / "ds" / ".bushel")
    with pytest.raises(FormatError, match="index of the shard is missing"):
        pickle.loads(copied)[0]
