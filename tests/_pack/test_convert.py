"""convert: bytes, keys and order from any container to any other."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import FORMAT_NAMES, FORMATS
from tests.integrity.small import SPEC, flip, jpeg, key, reading, sample, tree, write

import bushel
import bushel.transforms
from bushel._dataset.open.shards import open_shards
from bushel._pack import PackResult
from bushel._pack.part import batch_slices
from bushel.codecs import get_codec
from bushel.errors import CodecError, CorruptError, SpecError, StateError
from bushel.kernels import crc32_rows

Generation = Literal["B", "C"] | None
each_source = pytest.mark.parametrize(("source", "old"), FORMATS, ids=FORMAT_NAMES)
each_target = pytest.mark.parametrize(("target", "new"), FORMATS, ids=FORMAT_NAMES)


def without_index(folder: Path) -> dict[str, bytes]:
    return {name: data for name, (data, _) in tree(folder).items() if ".bushel" not in name}


@each_target
@each_source
def test_all_pairs(tmp_path: Path, source: str, old: Generation, target: str, new: Generation) -> None:
    write(tmp_path / "in", source, old)
    done = bushel.convert(
        tmp_path / "in", tmp_path / "out", container=target, generation=new, shard_samples=4, sync=False
    )
    assert (done.container, done.samples, done.kept, done.spec) == (target, 7, 0, SPEC)
    before, after = reading(tmp_path / "in"), reading(tmp_path / "out", verify=True)
    assert after.info.container == target
    assert after.info.shards == 2
    assert after.info.checksums
    assert list(after.keys) == [key(number) for number in range(7)]
    assert after.spec == SPEC
    stored = after.read(range(7), ["image"], decode=False)
    assert stored == before.read(range(7), ["image"], decode=False)
    assert [each["image"] for each in stored] == [jpeg(number) for number in range(7)]
    assert [each["label"] for each in after] == [sample(number)["label"] for number in range(7)]
    bytes_after = after.read(range(7), decode=False)
    assert done.bytes == sum(len(each["image"]) + len(each["label"]) for each in bytes_after)


@each_target
def test_the_number_of_workers_changes_nothing(tmp_path: Path, target: str, new: Generation) -> None:
    write(tmp_path / "in", "tar", count=40, shard_samples=11)
    for threads in (1, 3):
        bushel.convert(
            tmp_path / "in",
            tmp_path / f"out{threads}",
            container=target,
            generation=new,
            threads=threads,
            shard_samples=15,
            sync=False,
        )
    one, three = without_index(tmp_path / "out1"), without_index(tmp_path / "out3")
    assert one == three
    assert sum(map(len, one.values())) > 40 * 500


def test_integers_are_text_in_a_tar_and_binary_in_a_bag(tmp_path: Path) -> None:
    write(tmp_path / "tar", "tar")
    bushel.convert(tmp_path / "tar", tmp_path / "bag", container="bag", sync=False)
    stored = [reading(tmp_path / name).read([5], ["label"], decode=False)[0]["label"] for name in ("tar", "bag")]
    assert stored == [b"185", get_codec("int").encode(185)]


def test_a_foreign_tar_keeps_its_names_and_becomes_a_bag_that_granular_reads(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, data in (("a.cls", b"7"), ("a.txt", b"hi"), ("b.cls", b"-12"), ("b.txt", b"")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    bushel.convert(tmp_path / "x.tar", tmp_path / "bag", container="bag", sync=False)
    dataset = reading(tmp_path / "bag")
    assert dataset.spec == {"cls": "int", "txt": "utf8"}
    assert list(dataset) == [{"__key__": "a", "cls": 7, "txt": "hi"}, {"__key__": "b", "cls": -12, "txt": ""}]
    bushel.convert(tmp_path / "x.tar", tmp_path / "y.tar", sync=False)
    with tarfile.open(tmp_path / "y.tar") as archive:
        assert [member.name for member in archive] == ["a.cls", "a.txt", "b.cls", "b.txt"]


def test_fields_are_chosen_renamed_and_retyped(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar", count=3)
    done = bushel.convert(
        tmp_path / "in",
        tmp_path / "out",
        container="ffrecord",
        fields=["label"],
        rename={"label": "class"},
        spec={"label": "float"},
        keys=False,
        sync=False,
    )
    assert done.spec == {"class": "float"}
    assert "keys are left out" in done.limits
    dataset = reading(tmp_path / "out")
    assert [each["class"] for each in dataset] == [0.0, 37.0, 74.0]
    assert list(dataset.keys) == ["0", "1", "2"]


def test_bytes_can_be_declared_to_be_of_a_type(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in.ffr", {"data": "bytes"}, sync=False) as writer:
        for number in range(3):
            writer.append({"data": jpeg(number)})
    bushel.convert(
        tmp_path / "in.ffr", tmp_path / "out.rec", spec={"data": "jpg"}, rename={"data": "image"}, sync=False
    )
    dataset = reading(tmp_path / "out.rec")
    assert dataset.spec == {"image": "jpg"}
    assert dataset.read([1], decode=False)[0]["image"] == jpeg(1)
    assert dataset[1]["image"].shape == (24, 25, 3)


def test_sequences_of_one_become_values_and_values_sequences(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"frames": "jpg[]"}, container="gulp", sync=False) as writer:
        writer.append({"frames": [jpeg(1)]}, key="a")
        writer.append({"frames": [jpeg(2)]}, key="b")
    bushel.convert(tmp_path / "in", tmp_path / "out.tar", spec={"frames": "jpg"}, rename={"frames": "jpg"}, sync=False)
    dataset = reading(tmp_path / "out.tar")
    assert dataset.read([1], decode=False) == [{"__key__": "b", "jpg": jpeg(2)}]
    bushel.convert(tmp_path / "out.tar", tmp_path / "back", container="bag", spec={"jpg": "jpg[]"}, sync=False)
    assert reading(tmp_path / "back").read([0], decode=False) == [{"__key__": "a", "jpg": [jpeg(1)]}]
    with bushel.Writer(tmp_path / "in", {"frames": "jpg[]"}, container="gulp", mode="append", sync=False) as writer:
        writer.append({"frames": [jpeg(1), jpeg(2)]}, key="two")
    with pytest.raises(SpecError, match=r"sample 'two' has 2 elements in field 'frames'.*keep the sequence, jpg\[\]"):
        bushel.convert(tmp_path / "in", tmp_path / "no", container="tar", spec={"frames": "jpg"}, sync=False)


def test_a_missing_field_is_named_before_anything_is_written(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"a": "utf8", "b": "utf8"}, container="tar", sync=False) as writer:
        writer.append({"a": "1", "b": "2"}, key="whole")
        writer.append({"a": "1"}, key="half")
        writer.append({"b": "1"}, key="other half")
    with pytest.raises(
        SpecError,
        match="sample 'half' lacks the field 'b': the container bag .* missing fields: tar, ffrecord, recordio",
    ):
        bushel.convert(tmp_path / "in", tmp_path / "bag", container="bag")
    assert not (tmp_path / "bag").exists()
    bushel.convert(tmp_path / "in", tmp_path / "ffr", container="ffrecord", sync=False)
    assert list(reading(tmp_path / "ffr")) == list(reading(tmp_path / "in"))


def test_what_a_container_cannot_hold_is_reported(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"x": "array"}, container="bag", sync=False) as writer:
        writer.append({"x": np.zeros(3)})
    with pytest.raises(SpecError, match="gulp .*; use bag, tar, ffrecord or recordio"):
        bushel.convert(tmp_path / "in", tmp_path / "out", container="gulp")
    with pytest.raises(KeyError, match="unknown field 'y': the fields are x"):
        bushel.convert(tmp_path / "in", tmp_path / "out", container="tar", fields=["y"])
    with pytest.raises(SpecError, match="unknown codec 'foo'"):
        bushel.convert(tmp_path / "in", tmp_path / "out", container="tar", spec={"x": "foo"})
    with pytest.raises(SpecError, match=r"field 'x' of x.bag is stored as array, and cannot be read as int"):
        bushel.convert(tmp_path / "in", tmp_path / "out", container="ffrecord", spec={"x": "int"})
    with pytest.raises(ValueError, match="container=: bag, tar"):
        bushel.convert(tmp_path / "in", tmp_path / "nothing")


def test_keys_are_made_kept_changed_or_dropped(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"x": "utf8"}, container="bag", sync=False) as writer:
        for number in range(3):
            writer.append({"x": str(number)})

    def keys(name: str, source: str, container: str, keep: bool | Callable[[str], str] | None = None) -> list[str]:
        bushel.convert(tmp_path / source, tmp_path / name, container=container, keys=keep, sync=False)
        return list(reading(tmp_path / name).keys)

    assert keys("tar", "in", "tar") == ["000000000", "000000001", "000000002"]
    assert keys("same", "in", "ffrecord") == ["0", "1", "2"]
    assert not reading(tmp_path / "same").info.keyed
    assert keys("made", "in", "ffrecord", True) == ["0", "1", "2"]
    assert reading(tmp_path / "made").info.keyed
    assert keys("dots", "made", "recordio", lambda key: f"{key}.x") == ["0.x", "1.x", "2.x"]
    with pytest.raises(SpecError, match="cannot hold the key '0.x'"):
        keys("no", "dots", "tar")
    assert keys("yes", "dots", "tar", lambda key: key.replace(".", "_")) == ["0_x", "1_x", "2_x"]
    assert keys("bare", "dots", "bag", False) == ["0", "1", "2"]


def test_views_and_joined_datasets(tmp_path: Path) -> None:
    write(tmp_path / "one", "tar")
    write(tmp_path / "two", "gulp", shard_samples=2)
    one, two = reading(tmp_path / "one"), reading(tmp_path / "two")
    joined = bushel.concat([one[5:1:-2], two.select_fields(["label", "image"])[[0, 6]]])
    bushel.convert(joined, tmp_path / "out", container="bag", sync=False)
    dataset = reading(tmp_path / "out")
    assert list(dataset.keys) == [key(5), key(3), key(0), key(6)]
    assert [each["label"] for each in dataset] == [sample(number)["label"] for number in (5, 3, 0, 6)]
    assert [each["image"] for each in dataset.read(range(4), decode=False)] == [jpeg(n) for n in (5, 3, 0, 6)]


@each_target
def test_empty_datasets(tmp_path: Path, target: str, new: Generation) -> None:
    write(tmp_path / "in", "recordio", count=0, shard_samples=None)
    done = bushel.convert(tmp_path / "in", tmp_path / "out", container=target, generation=new, sync=False)
    assert (done.samples, done.bytes) == (0, 0)
    assert len(reading(tmp_path / "out")) == 0
    assert reading(tmp_path / "out").spec == SPEC


@each_target
def test_resume_goes_on_where_it_stopped(
    tmp_path: Path, target: str, new: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", "tar", count=2500, shard_samples=None)

    def convert(name: str, **more: Any) -> PackResult:
        return bushel.convert(
            tmp_path / "in", tmp_path / name, container=target, generation=new, shard_samples=900, sync=False, **more
        )

    def stop(now: bushel.runs.Progress) -> None:
        assert now.total == 2500
        if now.done > 2000:
            raise KeyboardInterrupt

    monkeypatch.setattr("bushel._runtime.progress._INTERVAL_SECONDS", 0)

    threads = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        convert("out", progress=stop)
    assert set(threading.enumerate()) <= threads
    assert len(reading(tmp_path / "out", allow_incomplete=True)) in (1800, 900)
    with pytest.raises(FileExistsError):
        convert("out")
    done = convert("out", mode="resume")
    assert done.kept > 900
    assert done.samples + done.kept == 2500
    convert("whole")
    assert without_index(tmp_path / "out") == without_index(tmp_path / "whole")
    assert bushel.verify(tmp_path / "out").problems == ()
    assert convert("out", mode="resume").samples == 0
    with pytest.raises(StateError, match="had samples=2500, but this call has samples=7"):
        bushel.convert(
            reading(tmp_path / "in")[:7], tmp_path / "out", container=target, generation=new, mode="resume", sync=False
        )


def test_append(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar")
    source = reading(tmp_path / "in")
    bushel.convert(source[:3], tmp_path / "out", container="ffrecord", shard_samples=2, sync=False)
    done = bushel.convert(
        source[3:], tmp_path / "out", container="ffrecord", mode="append", shard_samples=2, sync=False
    )
    assert (done.kept, done.samples) == (3, 4)
    assert list(reading(tmp_path / "out").keys) == list(source.keys)
    with pytest.raises(ValueError, match="is in the dataset already"):
        bushel.convert(source[3:], tmp_path / "out", container="ffrecord", mode="append", sync=False)


@pytest.mark.parametrize("mode", ["append", "resume"])
def test_tables_of_a_dataset_that_is_continued_are_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Literal["append", "resume"]
) -> None:
    opened: list[int] = []

    def counted(container: str, shards: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(len(shards))
        return open_shards(container, shards, *arguments, **options)

    write(tmp_path / "in", "tar")
    bushel.convert(tmp_path / "in", tmp_path / "out", container="tar", shard_samples=3, sync=False)
    monkeypatch.setattr("bushel._writer.target.open_shards", counted)
    source: Any = tmp_path / "in"
    if mode == "append":
        write(tmp_path / "more", "tar", count=9)
        source = reading(tmp_path / "more")[7:]
    bushel.convert(source, tmp_path / "out", container="tar", mode=mode, shard_samples=3, sync=False)
    assert opened == [3]
    assert len(reading(tmp_path / "out")) == (9 if mode == "append" else 7)
    assert bushel.verify(tmp_path / "out").problems == ()


def test_damage_is_not_copied(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar")
    file, offset = reading(tmp_path / "in").location(4, "image")
    flip(Path(file), offset + 20)
    with pytest.raises(CorruptError) as caught:
        bushel.convert(tmp_path / "in", tmp_path / "out", container="bag")
    assert (caught.value.key, caught.value.field, caught.value.offset) == (key(4), "image", offset)


@each_target
@pytest.mark.parametrize("source", ["tar", "bag", "ffrecord", "recordio"])
def test_checksums_that_were_compared_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, new: Generation
) -> None:
    """The bytes of images that are copied are read with their checksums, which are not computed again."""
    computed: list[int] = []

    def counted(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        computed.append(int(offsets[-1] - offsets[0]))
        return crc32_rows(data, offsets)

    write(tmp_path / "in", source)
    monkeypatch.setattr("bushel.containers.stored_column.crc32_rows", counted)
    bushel.convert(tmp_path / "in", tmp_path / "out", container=target, generation=new, sync=False)
    assert sum(computed) < len(jpeg(0))  # of labels
    assert bushel.verify(tmp_path / "out").problems == ()
    file, offset = reading(tmp_path / "in").location(4, "image")
    flip(Path(file), offset + 20)
    for damaged in (tmp_path / "in", reading(tmp_path / "in", verify=True)):
        with pytest.raises(CorruptError, match=f"{key(4)!r}.*image"):
            bushel.convert(damaged, tmp_path / "damaged", container=target, generation=new, sync=False)
    bushel.convert(
        reading(tmp_path / "in", verify=False), tmp_path / "copy", container=target, generation=new, sync=False
    )
    assert bushel.verify(tmp_path / "copy").problems == ()


def test_values_that_do_not_decode_are_named(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in.tar", {"n": "int"}, sync=False) as writer:
        writer.append({"n": 1}, key="good")
        writer.append({"n": b"x"}, key="bad")
    with pytest.raises(CodecError, match="sample 'bad', field 'n'"):
        bushel.convert(tmp_path / "in.tar", tmp_path / "out", container="bag")


def test_limits_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar")
    done = bushel.convert(tmp_path / "in", tmp_path / "out", container="recordio", sync=False)
    assert any("32-bit floats" in limit for limit in done.limits)


# What it shares with packing


def test_packing_a_dataset_writes_the_same_files(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar", count=9)
    options: dict[str, Any] = {"container": "recordio", "rename": {"label": "class"}, "sync": False}
    bushel.convert(tmp_path / "in", tmp_path / "a", **options)
    bushel.pack(tmp_path / "in", tmp_path / "b", **options)
    bushel.pack(reading(tmp_path / "in"), tmp_path / "c", **options)
    one = without_index(tmp_path / "a")
    assert one == without_index(tmp_path / "b") == without_index(tmp_path / "c")


def test_in_random_order_with_transforms_in_worker_processes(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar", count=9)
    whole = reading(tmp_path / "in")
    options: dict[str, Any] = {"shuffle": True, "seed": 3, "transforms": bushel.transforms.CenterCrop(8), "sync": False}
    bushel.convert(whole, tmp_path / "out", container="bag", **options)
    bushel.convert(whole, tmp_path / "again", container="bag", processes=2, **options)
    assert without_index(tmp_path / "out") == without_index(tmp_path / "again")
    written = reading(tmp_path / "out")
    assert sorted(written.keys) == sorted(whole.keys) != list(written.keys)
    for each in written:
        assert each["image"].shape == (8, 8, 3)
        assert each["label"] == whole[each["__key__"]]["label"]


def test_damaged_samples_are_listed_and_left_out(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar")
    file, offset = reading(tmp_path / "in").location(4, "image")
    flip(Path(file), offset + 20)
    done = bushel.convert(tmp_path / "in", tmp_path / "out", container="bag", max_errors=1, sync=False)
    assert (done.samples, done.errors) == (6, 1)
    assert list(reading(tmp_path / "out").keys) == [key(number) for number in range(7) if number != 4]
    [line] = Path(done.error_logs[0]).read_text().splitlines()
    assert json.loads(line)["position"] == 4
    assert json.loads(line)["path"] == f"{file}@{offset}"


def test_a_key_function_sees_every_key_in_order_also_when_resuming(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar", count=40, shard_samples=None)
    source = reading(tmp_path / "in")

    def numbering(stop: int | None) -> Callable[[str], str]:
        count = itertools.count()

        def number(old: str) -> str:
            place = next(count)
            assert old == key(place)
            if place == stop:
                raise KeyboardInterrupt
            return f"n{place}"

        return number

    options: dict[str, Any] = {"container": "tar", "shard_samples": 10, "sync": False}
    with pytest.raises(KeyboardInterrupt):
        bushel.convert(source, tmp_path / "out", keys=numbering(25), **options)
    done = bushel.convert(source, tmp_path / "out", keys=numbering(None), mode="resume", **options)
    assert done.kept >= 20
    assert list(reading(tmp_path / "out").keys) == [f"n{place}" for place in range(40)]


# Streams


def test_a_stream_is_resumed(tmp_path: Path) -> None:
    path = packed(tmp_path, [{"cls": str(number).encode()} for number in range(50)])
    with pytest.raises(KeyboardInterrupt):
        bushel.convert(path, tmp_path / "out", container="tar", keys=_stops_at("s0031"), shard_samples=10, sync=False)
    done = bushel.convert(path, tmp_path / "out", container="tar", mode="resume", shard_samples=10, sync=False)
    assert done.kept >= 30
    assert done.kept + done.samples == 50
    assert [each["cls"] for each in reading(tmp_path / "out")] == list(range(50))


def _stops_at(last: str) -> Callable[[str], str]:
    def same(old: str) -> str:
        if old == last:
            raise KeyboardInterrupt
        return old

    return same


def packed(folder: Path, samples: list[dict[str, Any]]) -> Path:
    """A `.tar.gz` of samples."""
    with tarfile.open(folder / "in.tar.gz", "w:gz") as archive:
        for number, fields in enumerate(samples):
            for name, data in fields.items():
                info = tarfile.TarInfo(f"s{number:04d}.{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return folder / "in.tar.gz"


def test_a_stream(tmp_path: Path) -> None:
    samples = [{"jpg": jpeg(number), "cls": str(number).encode()} for number in range(1500)]
    samples[700]["txt"] = b"only here"
    path = packed(tmp_path, samples)
    seen: list[bushel.runs.Progress] = []
    done = bushel.convert(path, tmp_path / "out", container="tar", sync=False, progress=seen.append)
    assert (done.samples, seen[-1].done, seen[-1].total) == (1500, 1500, None)
    dataset = reading(tmp_path / "out")
    stored = [{k: v for k, v in each.items() if k != "__key__"} for each in dataset.read(range(1500), decode=False)]
    assert stored == samples
    for source in (bushel.open_stream(path), bushel.open_stream(str(path))):
        name = f"bag{id(source)}"
        bushel.convert(source, tmp_path / name, container="bag", fields=["cls"], sync=False)
        assert [each["cls"] for each in reading(tmp_path / name)] == list(range(1500))
    with pytest.raises(SpecError, match="sample 's0000' lacks the field 'txt'"):
        bushel.convert(path, tmp_path / "no", container="bag", sync=False)


def test_a_stream_whose_fields_come_late(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [{"txt": b"x"} for _ in range(1100)]
    samples[1099]["cls"] = b"1"
    path = packed(tmp_path, samples)
    with pytest.raises(SpecError, match="sample 's1099' has the field 'cls', which the first"):
        bushel.convert(path, tmp_path / "no", container="tar", sync=False)
    source = bushel.open_stream(path, spec={"txt": "utf8", "cls": "int"})
    bushel.convert(source, tmp_path / "out", container="ffrecord", sync=False)
    assert reading(tmp_path / "out")[1099] == {"__key__": "s1099", "txt": "x", "cls": 1}


def test_an_empty_stream(tmp_path: Path) -> None:
    done = bushel.convert(packed(tmp_path, []), tmp_path / "out", container="tar", sync=False)
    assert done.samples == 0
    assert len(reading(tmp_path / "out")) == 0


# Plans


@given(st.lists(st.integers(0, 40 << 20), max_size=30))
def test_batches_are_whole_and_bounded(lengths: list[int]) -> None:
    batches = list(batch_slices(np.array(lengths, np.int64), 16 << 20))
    assert [length for batch in batches for length in lengths[batch]] == lengths
    for batch in batches:
        assert sum(lengths[batch][1:]) < 16 << 20


def test_batches_have_at_most_1024_samples() -> None:
    batches = list(batch_slices(np.zeros(2500, np.int64), 1 << 20))
    assert sum(batch.stop - batch.start for batch in batches) == 2500
    assert max(batch.stop - batch.start for batch in batches) == 1024


def test_golden_datasets_survive_a_round_trip(golden: Path, tmp_path: Path) -> None:
    """From each original container to each other and the bytes are still the same."""
    for name in ("damaged/base/tar", "damaged/base/bag-c", "damaged/base/recordio", "damaged/base/gulp"):
        source = reading(golden / name / "data", index="memory")
        expected = source.read(range(len(source)), decode=False)
        for container in ("tar", "ffrecord", "recordio", "bag"):
            first, back = tmp_path / name / container, tmp_path / name / f"{container}-back"
            first.parent.mkdir(parents=True, exist_ok=True)
            bushel.convert(source, first, container=container, sync=False)
            bushel.convert(first, back, container=source.info.container, spec=source.spec, sync=False)
            again = reading(back)
            found = again.read(range(len(again)), decode=False)
            assert [{**each, "__key__": ""} for each in found] == [{**each, "__key__": ""} for each in expected]
