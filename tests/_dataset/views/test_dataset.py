from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.descriptors import open_files

import bushel
from bushel._dataset.views.dataset import Dataset

CONTAINERS = ["bag", "tar", "ffrecord", "recordio"]


def text_of(number: int) -> str:
    return f"text {number} " * (number % 5)


def make(folder: Path, count: int = 20, *, container: str = "bag", keys: bool = True, shard: int | None = 6) -> Dataset:
    spec = {"text": "utf8", "label": "int", "raw": "bytes"}
    if container == "bag":
        spec["words"] = "utf8[]"
    with bushel.Writer(folder, spec, container=container, shard_samples=shard, sync=False) as writer:
        for number in range(count):
            sample: dict[str, Any] = {"text": text_of(number), "label": number * 3, "raw": bytes([number]) * number}
            if container == "bag":
                sample["words"] = [f"w{number}.{word}" for word in range(number % 4)]
            writer.append(sample, key=f"key/{number}" if keys else None)
    return bushel.open(folder)


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make(tmp_path_factory.mktemp("dataset") / "bag")


def test_a_range_that_is_not_the_whole_dataset(bag: Dataset) -> None:
    assert bag._is_whole
    for part in (slice(3), slice(None, None, -1), np.arange(20)):
        assert not bag[part]._is_whole


def test_a_position_is_no_key(bag: Dataset) -> None:
    with pytest.raises(TypeError, match="a key must be a str, not 0"):
        bag.select_keys([0])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a position must be an integer, not b'x'"):
        bag[b"x"]  # type: ignore[call-overload]


@pytest.mark.parametrize("container", CONTAINERS)
def test_position_and_key_give_the_same_sample(tmp_path: Path, container: str) -> None:
    dataset = make(tmp_path / "ds", container=container)
    assert len(dataset) == 20
    for number in (0, 5, 6, 19):
        sample = dataset[number]
        assert sample["__key__"] == f"key/{number}"
        assert (sample["text"], sample["label"], sample["raw"]) == (
            text_of(number),
            number * 3,
            bytes([number]) * number,
        )
        assert dataset[f"key/{number}"] == sample
        assert dataset[number - 20] == sample
        assert dataset[np.int32(number)] == sample


def test_a_dataset_without_keys_has_positions_as_keys(tmp_path: Path) -> None:
    dataset = make(tmp_path / "ds", keys=False)
    assert list(dataset.keys) == [str(number) for number in range(20)]
    assert dataset["13"]["label"] == 39
    assert "20" not in dataset
    assert "013" not in dataset
    assert dataset[10:][3]["__key__"] == "13"


def test_wrong_positions_and_keys_are_the_errors_python_expects(bag: Dataset) -> None:
    for position in (20, -21, 10**12):
        with pytest.raises(IndexError, match="20 samples") as refused:
            bag[position]
        assert refused.value.__suppress_context__
        with pytest.raises(IndexError):
            bag.read([0, position])
    with pytest.raises(KeyError, match="nope"):
        bag["nope"]
    with pytest.raises(KeyError, match="unknown field 'labels'"):
        bag[0, ["labels"]]
    with pytest.raises(TypeError):
        bag.read([0.5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="list or a dict"):
        bag[0, "label"]
    assert sum(1 for _ in bag) == 20, "iteration by position must end"


def test_masks(bag: Dataset) -> None:
    assert bag[7, ["label"]] == {"__key__": "key/7", "label": 21}
    assert bag[7, {"label": True, "text": False}] == {"__key__": "key/7", "label": 21}
    assert bag[7, []] == {"__key__": "key/7"}
    assert bag["key/7", ("raw", "label")]["raw"] == b"\7" * 7


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        (True, ["w7.0", "w7.1", "w7.2"]),
        (slice(1, 3), ["w7.1", "w7.2"]),
        (slice(None, None, -1), ["w7.2", "w7.1", "w7.0"]),
        (slice(-1, None), ["w7.2"]),
        (slice(5, 9), []),
        (range(0, 3, 2), ["w7.0", "w7.2"]),
        ([2, 0, 0, -1], ["w7.2", "w7.0", "w7.0", "w7.2"]),
        (np.array([1]), ["w7.1"]),
        ([], []),
    ],
)
def test_ranges_of_sequences(bag: Dataset, elements: Any, expected: list[str]) -> None:
    assert bag[7, {"words": elements}] == {"__key__": "key/7", "words": expected}


def test_a_range_of_many_samples_is_cut_for_each(bag: Dataset) -> None:
    samples = bag.read([4, 5, 6, 7, 3, 11], {"words": slice(1, 3)})
    assert [sample["words"] for sample in samples] == [
        [],
        [],
        ["w6.1"],
        ["w7.1", "w7.2"],
        ["w3.1", "w3.2"],
        ["w11.1", "w11.2"],
    ]


def test_elements_that_are_not_there(bag: Dataset) -> None:
    with pytest.raises(IndexError, match="3 elements"):
        bag[7, {"words": [3]}]
    with pytest.raises(TypeError, match="neither a sequence"):
        bag[7, {"label": slice(0, 1)}]
    with pytest.raises(TypeError, match="slice, a range or a list"):
        bag[7, {"words": 1}]


def test_available(bag: Dataset) -> None:
    assert bag.available(7) == {"text": True, "label": True, "raw": True, "words": range(3)}
    assert bag.available("key/4")["words"] == range(0)
    assert bag.select_fields(["words"]).available(-1) == {"words": range(3)}


def test_views_compose_without_reading(bag: Dataset) -> None:
    view = bag[4:16:3]
    assert [sample["label"] for sample in view] == [12, 21, 30, 39]
    assert [sample["label"] for sample in view[::-1]] == [39, 30, 21, 12]
    assert [sample["label"] for sample in view[[0, 3, 3, -1]]] == [12, 39, 39, 39]
    assert [sample["label"] for sample in view[np.array([True, False, True, False])]] == [12, 30]
    assert [sample["label"] for sample in bag[range(2, 8, 2)]] == [6, 12, 18]
    assert "key/4" in view
    assert "key/5" not in view
    assert view["key/10"]["label"] == 30
    assert view.position("key/10") == 2
    assert list(view.keys) == ["key/4", "key/7", "key/10", "key/13"]
    assert view[[3, 1]].position("key/7") == 1
    assert len(bag[:0]) == 0
    assert list(bag[:0]) == []
    with pytest.raises(IndexError):
        view[4]
    with pytest.raises(IndexError, match="boolean mask"):
        view[np.array([True])]


def test_select_filter_fields(bag: Dataset) -> None:
    assert [s["label"] for s in bag.select_keys(["key/9", "key/2"])] == [27, 6]
    with pytest.raises(KeyError):
        bag.select_keys(["key/9", "gone"])
    assert [s["__key__"] for s in bag.filter(lambda s: s["label"] % 2 == 0 and s["label"] > 30, ["label"])] == [
        "key/12",
        "key/14",
        "key/16",
        "key/18",
    ]
    assert bag.select_fields(["raw", "label"]).spec == {"raw": "bytes", "label": "int"}
    assert set(bag.select_fields(["label"])[3:5][0]) == {"__key__", "label"}
    with pytest.raises(KeyError):
        bag.select_fields(["label"]).select_fields(["raw"])


@pytest.mark.parametrize("count", [1, 3, 7, 25])
def test_parts_are_the_whole(bag: Dataset, count: int) -> None:
    parts = [bag.shard(index=number, num_shards=count) for number in range(count)]
    assert [s["label"] for part in parts for s in part] == [3 * number for number in range(20)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(ValueError, match="expected a whole number from 0 to"):
        bag.shard(count, count)


def test_read_is_the_same_as_one_by_one(bag: Dataset) -> None:
    positions = [3, 19, 0, 3, -1, 7, 6, 5]
    assert bag.read(positions) == [bag[position] for position in positions]
    assert bag.read(np.array(positions), ["label"]) == [bag[position, ["label"]] for position in positions]
    stored = bag.read(positions, decode=False)
    assert stored[0]["label"] == b"\x09"
    assert [bag.decode_sample(s, p % 20) for s, p in zip(stored, positions, strict=True)] == bag.read(positions)
    assert bag.read([]) == []


def test_gather(bag: Dataset) -> None:
    buffer, offsets = bag.gather([3, 0, 19, 3], "raw")
    assert buffer.dtype == np.uint8
    assert offsets.tolist() == [0, 3, 3, 22, 25]
    assert buffer.tobytes() == b"\3" * 3 + b"\x13" * 19 + b"\3" * 3
    with pytest.raises(TypeError, match="sequence"):
        bag.gather([0], "words")


def test_concat_mixes_containers_and_views(tmp_path: Path) -> None:
    bag, tar = make(tmp_path / "bag"), make(tmp_path / "tar", 5, container="tar")
    both = bushel.concat([bag[10:], tar, bag[:2]])
    assert len(both) == 17
    assert [s["label"] for s in both] == [3 * n for n in [*range(10, 20), *range(5), 0, 1]]
    assert both[12]["raw"] == b"\2\2"
    assert "words" not in both[12]
    assert both.info.container == "bag+tar"
    assert both["key/3"]["label"] == 9
    assert [s["label"] for s in bushel.concat([tar, tar])] == [0, 3, 6, 9, 12] * 2
    assert len(bushel.concat([bag.select_fields(["label"]), tar.select_fields(["label"])]).spec) == 1


def test_mixing_containers_in_one_open_says_what_to_do(tmp_path: Path) -> None:
    make(tmp_path / "bag")
    make(tmp_path / "tar", container="tar")
    with pytest.raises(bushel.errors.FormatError, match=r"one dataset has one container.*bushel\.concat"):
        bushel.open([tmp_path / "bag", tmp_path / "tar"])


def test_many_threads_read_the_right_bytes(tmp_path: Path) -> None:
    dataset = make(tmp_path / "ds", 200, container="tar", shard=50)
    expected = {number: bytes([number]) * number for number in range(200)}

    def work(seed: int) -> int:
        wrong = 0
        for position in np.random.default_rng(seed).integers(0, 200, 10_000 // 20).tolist():
            batch = [(position + step) % 200 for step in range(20)]
            for at, sample in zip(batch, dataset.read(batch, ["raw"]), strict=True):
                wrong += sample["raw"] != expected[at]
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 0


def test_pickled_copies_read(bag: Dataset) -> None:
    view = bag[3:9].select_fields(["label", "words"])
    copy = pickle.loads(pickle.dumps(view))
    assert list(copy) == list(view)
    assert copy.fingerprint == view.fingerprint
    assert len(pickle.dumps(bag)) < 20_000


def test_a_forked_child_reads_while_the_parent_does(bag: Dataset) -> None:
    bag[0]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"yes" if bag[19]["label"] == 57 and bag["key/3"]["label"] == 9 else b"no")
        os._exit(0)
    assert bag[19]["label"] == 57
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"yes"
    os.close(reader)
    os.close(writer)


def test_verify_finds_a_flipped_byte_and_names_everything(tmp_path: Path) -> None:
    make(tmp_path / "ds")
    file = tmp_path / "ds" / "000001" / "raw.bag"
    times = file.stat()
    data = bytearray(file.read_bytes())
    data[6 + 3] ^= 1  # in sample 7, the second of the second shard
    file.write_bytes(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert bushel.open(tmp_path / "ds")[7]["raw"] != b"\7" * 7
    with pytest.raises(bushel.errors.CorruptError) as caught:
        bushel.open(tmp_path / "ds", verify=True)[7]
    error = caught.value
    assert (error.key, error.field, error.file, error.offset) == ("key/7", "raw", str(file), 6)
    assert "bushel verify" in str(error)
    assert bushel.open(tmp_path / "ds", verify=True)[7, ["label"]]["label"] == 21
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.key, str(copied)) == ("key/7", str(error))


def test_a_file_that_shrinks_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    dataset = make(tmp_path / "ds", container="tar", shard=None)
    dataset[0]
    [file] = (tmp_path / "ds").glob("*.tar")
    os.truncate(file, 1024)
    with pytest.raises(bushel.errors.FormatError, match="shrunk"):
        dataset[19]


def test_undecodable_bytes_name_the_sample(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", {"a": "json", "b": "int"}, container="bag") as writer:
        writer.append({"a": [1], "b": 1}, key="good")
        writer.append({"a": b"{broken", "b": 2}, key="bad")
    dataset = bushel.open(tmp_path / "ds")
    with pytest.raises(bushel.errors.CodecError, match=r"sample 'bad', field 'a'.*a\.bag@3"):
        dataset.read([0, 1])
    assert dataset.read([0, 1], ["b"])[1]["b"] == 2


def test_info_and_size(bag: Dataset, tmp_path: Path) -> None:
    info = bag.info
    assert (info.container, info.shards, info.samples, info.checksums, info.keyed, info.indexed) == (
        "bag",
        4,
        20,
        True,
        True,
        True,
    )
    assert info.bytes == bag.size == sum(stamp.size for shard in bag.shards for stamp in shard.stamps)
    assert "20 samples" in repr(bag)


def test_fingerprint_distinguishes_datasets_but_not_copies(tmp_path: Path) -> None:
    one, two, other = make(tmp_path / "a"), make(tmp_path / "b"), make(tmp_path / "c", 19)
    assert one.fingerprint == two.fingerprint
    assert len({one.fingerprint, other.fingerprint, one[1:].fingerprint, one[[1, 0]].fingerprint}) == 4
    assert one.select_fields(["label"]).fingerprint != one.fingerprint


def test_closing_closes_files_and_reading_opens_them_again(tmp_path: Path) -> None:
    with make(tmp_path / "ds") as dataset:
        assert open_files(tmp_path) == []
        list(dataset)
        assert open_files(tmp_path)
    assert open_files(tmp_path) == []
    assert dataset[3]["label"] == 9


def test_more_shards_than_the_process_may_open(tmp_path: Path) -> None:
    import resource

    dataset = make(tmp_path / "ds", 90, container="tar", shard=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    try:
        dataset = bushel.open(tmp_path / "ds")
        assert [s["label"] for s in dataset] == [3 * n for n in range(90)]
        assert [s["label"] for s in dataset] == [3 * n for n in range(90)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_path_like_objects_are_read(tmp_path: Path) -> None:
    upath = pytest.importorskip("upath")
    make(tmp_path / "ds", container="tar")
    memory = upath.UPath("memory:///bushel-test")
    memory.mkdir(exist_ok=True)
    for file in (tmp_path / "ds").glob("*.tar"):
        (memory / file.name).write_bytes(file.read_bytes())
    dataset = bushel.open(memory, spec={"raw": "bytes", "label": "int", "text": "utf8"})
    assert dataset[7]["raw"] == b"\7" * 7
    assert [s["label"] for s in dataset.read(range(20), ["label"])] == [3 * n for n in range(20)]
    buffer, offsets = dataset.gather([2, 4], "raw")
    assert buffer.tobytes() == b"\2\2\4\4\4\4"
    assert offsets.tolist() == [0, 2, 6]


@pytest.mark.parametrize("action", [lambda d: d[3], lambda d: d["key/3"], lambda d: d.read([3])[0]])
def test_first_use_from_many_threads_at_once(tmp_path: Path, action: Callable[[Dataset], Any]) -> None:
    dataset = make(tmp_path / "ds")
    barrier = threading.Barrier(8)

    def work(_: int) -> Any:
        barrier.wait()
        return action(dataset)["label"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [9] * 8


@pytest.mark.parametrize("step", [1 << 63, -(1 << 62)])
def test_the_step_of_a_view_of_a_sample_is_any_number(step: int, tmp_path: Path) -> None:
    """Such a view was an OverflowError when it was read."""
    with bushel.Writer(tmp_path / "a.tar", {"x": "int"}) as writer:
        writer.append({"x": 7}, key="a")
    dataset = bushel.open(tmp_path / "a.tar")
    one = dataset[::step]
    assert ("a" in one, [sample["x"] for sample in bushel.concat([one, one])]) == (True, [7, 7])
    assert "a" not in dataset[:0][::step]
