"""The bag container: layouts of bags 0.5.1 and Granular 0.16 to 0.24 byte for byte, both ways."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.bag.samples import (
    SAMPLES,
    SHUFFLED,
    SPEC,
    SPLIT_SPEC,
    Samples,
    dataset,
    files_of,
    index_of,
    read,
    refs_bag,
    split,
    table,
)
from tests.containers.summed import summed_table
from tests.containers.writing import ShardInProgress, same_table, stored_samples, write_shard

import bushel
from bushel.codecs import get_codec
from bushel.containers.bag import CONTAINER
from bushel.containers.bag.tables import decode_refs
from bushel.containers.base import ReadOptions, WriteOptions
from bushel.errors import SpecError
from bushel.spec import Field, parse_spec

GOLDEN_FILES = {
    "A": ({"x.bag": b"helloabc" + table(0, 5, 5, 8)}, [b"hello", b"", b"abc"]),
    "A without records": ({"x.bag": table(0)}, []),
    "A of an empty record": ({"x.bag": table(0, 0)}, [b""]),
    "B": ({"x.bag": b"helloabc" + table(5, 8)}, [b"hello", b"abc"]),
    "B without records": ({"x.bag": b""}, []),
    "C": ({"x.bag": b"helloabc", "x.idx": table(5, 5, 8)}, [b"hello", b"", b"abc"]),
    "C without records": ({"x.bag": b"", "x.idx": b""}, []),
    "C with an uncommitted tail": ({"x.bag": b"helloabcde", "x.idx": table(5, 8)}, [b"hello", b"abc"]),
}


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_a_bag_file_is_one_field(name: str, tmp_path: Path) -> None:
    files, records = GOLDEN_FILES[name]
    dataset(tmp_path, files)
    shard, index = index_of(tmp_path / "x.bag", checksums=True)
    assert shard.name == "x.bag"
    assert index.fields["record"].field == Field("record", "bytes")
    assert stored_samples(shard, index) == [(str(i), {"record": record}) for i, record in enumerate(records)]
    assert CONTAINER.generation(shard) == name[0]


def test_a_bag_file_is_of_the_type_that_the_user_gives(tmp_path: Path) -> None:
    dataset(tmp_path, GOLDEN_FILES["B"][0])
    _, index = index_of(tmp_path / "x.bag", spec=parse_spec({"word": "utf8"}))
    assert index.fields["word"].codec == "utf8"


def test_generation_b_has_the_bytes_of_granular(tmp_path: Path) -> None:
    shard, index = write_shard(CONTAINER, tmp_path / "out", SPEC, SAMPLES, single=True)
    assert files_of(tmp_path / "out") == {
        "abc.bag": b"x" * 6 + table(1, 3, 6),
        "bar.bag": b"hello" * 3 + table(5, 10, 15),
        "baz.bag": b"\x81\xa1a\x01" * 3 + table(4, 8, 12),
        "foo.bag": b"\0\1\2" + table(1, 2, 3),
        "refs.bag": bytes.fromhex("9400900000 940192000101 01".replace(" ", ""))
        + bytes.fromhex("94029201020202")
        + table(5, 12, 19),
        "spec.json": b'{"abc": "bytes", "bar": "utf8[]", "baz": "msgpack", "foo": "int"}',
    }
    same_table(index, index_of(tmp_path / "out")[1])
    assert stored_samples(shard, index) == [(str(i), fields) for i, (_, fields) in enumerate(SAMPLES)]


def test_generation_a_has_the_bytes_of_granular(tmp_path: Path) -> None:
    samples: Samples = [(None, {"n": b""}), (None, {"n": b"\xc8"})]
    _, index = write_shard(CONTAINER, tmp_path / "out", {"n": "int"}, samples, single=True, generation="A")
    assert files_of(tmp_path / "out") == {
        "n.bag": b"\xc8" + table(0, 0, 1),
        "refs.bag": b"\x91\0\x91\1" + table(0, 2, 4),
        "spec.json": b'{"n": "int"}',
    }
    assert index.fields["n"].codec == "uint"
    again = index_of(tmp_path / "out")[1].fields["n"]
    assert again.codec == "uint"
    assert again.field == Field("n", "int")


def test_generation_c_has_the_bytes_of_granular(tmp_path: Path) -> None:
    samples: Samples = [
        (None, {"b": b"hello", "a": b""}),
        (None, {"b": b"", "a": b"x"}),
        (None, {"b": b"abc", "a": b""}),
    ]
    spec = {"b": "bytes", "a": "utf8"}
    _, index = write_shard(CONTAINER, tmp_path / "out", spec, samples, single=True, generation="C")
    assert files_of(tmp_path / "out") == {
        "a.bag": b"x",
        "a.idx": table(0, 1, 1),
        "b.bag": b"helloabc",
        "b.idx": table(5, 5, 8),
        "spec.json": b'{"a": "utf8", "b": "bytes"}',
    }
    same_table(index, index_of(tmp_path / "out")[1])


def test_an_empty_record_gives_its_bag_a_table_of_starts(tmp_path: Path) -> None:
    samples: Samples = [(None, {"a": b"", "b": b"x", "c": [b""]}), (None, {"a": b"y", "b": b"z", "c": []})]
    spec = {"a": "bytes", "b": "bytes", "c": "utf8[]"}
    shard, _ = write_shard(CONTAINER, tmp_path / "out", spec, samples, single=True)
    files = files_of(tmp_path / "out")
    assert files["a.bag"] == b"y" + table(0, 0, 1)
    assert files["b.bag"] == b"xz" + table(1, 2)
    assert files["c.bag"] == table(0, 0)
    assert CONTAINER.generation(shard) == "B"
    assert [fields for _, fields in read(tmp_path / "out")] == [fields for _, fields in samples]


def test_a_bag_without_records_is_an_empty_file(tmp_path: Path) -> None:
    write_shard(CONTAINER, tmp_path / "b", {"a": "bytes", "c": "utf8[]"}, [], single=True)
    assert files_of(tmp_path / "b") == {
        "a.bag": b"", "c.bag": b"", "refs.bag": b"", "spec.json": b'{"a": "bytes", "c": "utf8[]"}'
    }  # fmt: skip
    assert read(tmp_path / "b") == []
    write_shard(CONTAINER, tmp_path / "c", {"a": "bytes"}, [], single=True, generation="C")
    assert files_of(tmp_path / "c") == {"a.bag": b"", "a.idx": b"", "spec.json": b'{"a": "bytes"}'}
    assert read(tmp_path / "c") == []
    write_shard(CONTAINER, tmp_path / "a", {"a": "bytes"}, [], single=True, generation="A")
    assert files_of(tmp_path / "a")["refs.bag"] == table(0)
    assert read(tmp_path / "a") == []


def test_keys_are_a_bag_of_their_own(tmp_path: Path) -> None:
    samples: Samples = [("katze/é", {"a": b"1", "Z": b"2"}), ("", {"a": b"3", "Z": b"4"})]
    shard, index = write_shard(
        CONTAINER, tmp_path / "out", {"a": "bytes", "Z": "bytes"}, samples, single=True, keyed=True
    )
    assert shard.files == ("Z.bag", "__key__.bag", "a.bag", "refs.bag", "spec.json")
    assert (tmp_path / "out" / "__key__.bag").read_bytes() == "katze/é".encode() + table(0, 8, 8)
    assert (tmp_path / "out" / "spec.json").read_bytes() == b'{"Z": "bytes", "__key__": "utf8", "a": "bytes"}'
    assert stored_samples(shard, index) == samples
    assert read(tmp_path / "out") == samples


def test_shards_are_numbered_folders(tmp_path: Path) -> None:
    root = tmp_path / "out"
    for number in range(2):
        shard, index = write_shard(CONTAINER, root, SPEC, SAMPLES, number=number)
        same_table(index, CONTAINER.index(shard, ReadOptions()))
    assert sorted(path.name for path in root.iterdir()) == ["000000", "000001"]  # nothing else, or Granular fails
    shards = CONTAINER.shards(root)
    assert shards is not None
    assert [(shard.root, shard.name, shard.sidecars) for shard in shards] == [
        (root, "000000", "000000/.bushel"),
        (root, "000001", "000001/.bushel"),
    ]
    assert shards[1].files[0] == "000001/abc.bag"
    assert [fields for _, fields in read(root)] == [fields for _, fields in SAMPLES] * 2


def test_a_shard_is_a_dataset_by_itself(tmp_path: Path) -> None:
    write_shard(CONTAINER, tmp_path, SPEC, SAMPLES)
    shard, _ = index_of(tmp_path / "000000")
    assert (shard.root, shard.name, shard.sidecars) == (tmp_path / "000000", "", ".bushel")
    assert [fields for _, fields in read(tmp_path / "000000")] == [fields for _, fields in SAMPLES]


def test_entries_that_are_no_shards_do_not_matter(tmp_path: Path) -> None:
    write_shard(CONTAINER, tmp_path, SPEC, SAMPLES)
    (tmp_path / ".bushel").mkdir()
    (tmp_path / "README.md").write_text("notes")
    assert len(read(tmp_path)) == 3


def test_other_folders_and_files_are_not_bags(tmp_path: Path) -> None:
    assert CONTAINER.shards(tmp_path) is None
    (tmp_path / "000000").mkdir()
    (tmp_path / "000000" / "photo.jpg").write_bytes(b"")
    assert CONTAINER.shards(tmp_path) is None
    (tmp_path / "000001").write_bytes(b"a file")
    assert CONTAINER.shards(tmp_path) is None
    (tmp_path / "x.tar").write_bytes(b"")
    assert CONTAINER.shards(tmp_path / "x.tar") is None


@pytest.mark.parametrize("spec", [{}, {"refs": "int"}, {".a": "int"}, {"a/b": "int"}, {"a": "int", "A": "int"},
                                  {"x" * 252: "int"}, {"\udc80": "int"}, {"a": "no-such-codec"}])  # fmt: skip
def test_what_no_bag_can_hold_is_refused(spec: dict[str, str]) -> None:
    with pytest.raises(SpecError):
        CONTAINER.layout(parse_spec(spec), WriteOptions(keyed=False))


def test_generation_c_refuses_sequences() -> None:
    with pytest.raises(SpecError, match="generation='B'"):
        CONTAINER.layout(parse_spec(SPEC), WriteOptions(keyed=False, generation="C"))
    with pytest.raises(SpecError, match="unknown generation 'D': bag has A, B, C"):
        bushel.Writer("out", SPEC, container="bag", generation="D")


@pytest.mark.parametrize("generation", ["A", "B", "C"])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_plain_dataset_is_continued(generation: str, keyed: bool, tmp_path: Path) -> None:
    spec, samples = (SPLIT_SPEC, split(SAMPLES)) if generation == "C" else (SPEC, SAMPLES)
    samples = [(f"k{i}" if keyed else None, fields) for i, (_, fields) in enumerate(samples)]
    options: dict[str, Any] = {"single": True, "generation": generation, "keyed": keyed}
    write_shard(CONTAINER, tmp_path / "whole", spec, samples, **options)
    write_shard(CONTAINER, tmp_path / "parts", spec, samples[:1], **options)
    progress = ShardInProgress(CONTAINER, tmp_path / "parts", spec, **options)
    progress.reopen()
    progress.append(samples[1:])
    same_table(progress.finish(), index_of(tmp_path / "parts")[1])
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")


def test_another_generation_or_other_fields_are_not_continued(tmp_path: Path) -> None:
    shard, _ = write_shard(CONTAINER, tmp_path, SPLIT_SPEC, split(SAMPLES), single=True, generation="C")
    with pytest.raises(SpecError, match="generation='C'"):
        ShardInProgress(CONTAINER, tmp_path, SPLIT_SPEC, single=True).reopen(shard)
    with pytest.raises(SpecError, match=r"__key__\.bag"):
        ShardInProgress(CONTAINER, tmp_path, SPLIT_SPEC, single=True, generation="C", keyed=True).reopen(shard)


@pytest.mark.parametrize("generation", ["A", "B", "C"])
def test_a_killed_writer_and_a_failed_append_leave_nothing(generation: str, tmp_path: Path) -> None:
    spec, samples = (SPLIT_SPEC, split(SAMPLES)) if generation == "C" else (SPEC, SAMPLES)
    write_shard(CONTAINER, tmp_path / "whole", spec, samples, generation=generation)
    progress = ShardInProgress(CONTAINER, tmp_path / "parts", spec, generation=generation)
    for sample in samples:
        positions, count = progress.staging.positions, progress.builder.samples
        with pytest.raises(KeyError):
            progress.append([(None, {"abc": b"abc", "bar": [b"d", b"e"]})])
        progress.abandon(count, positions)
        progress.append([sample])
        progress.kill_and_resume()
    progress.finish()
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")


def test_refs_may_go_anywhere(tmp_path: Path) -> None:
    dataset(tmp_path, SHUFFLED)
    assert [fields for _, fields in read(tmp_path, checksums=True)] == [
        {"a": b"three", "s": [b"b", b"c"]}, {"a": b"one", "s": []}, {"a": b"three", "s": [b"a"]}
    ]  # fmt: skip
    with pytest.raises(SpecError, match="records that no sample refers to"):
        ShardInProgress(CONTAINER, tmp_path, {"a": "bytes", "s": "bytes[]"}, single=True).reopen()


def test_keys_may_lie_anywhere(tmp_path: Path) -> None:
    files = {
        "__key__.bag": b"onetwo" + table(3, 6),
        "refs.bag": refs_bag([1], [0]),
        "spec.json": b'{"__key__": "utf8"}',
    }
    assert [key for key, _ in read(dataset(tmp_path, files))] == ["two", "one"]


number = st.one_of(st.integers(0, 300), st.integers(0, 2**17), st.integers(0, 2**64 - 1))


@given(st.data())
def test_refs_are_decoded_as_msgpack_does(data: st.DataObject) -> None:
    sequences = data.draw(st.lists(st.booleans(), max_size=20))
    element = {False: number, True: st.one_of(st.just([]), st.lists(number, min_size=2, max_size=2))}
    refs = data.draw(st.lists(st.tuples(*(element[sequence] for sequence in sequences)), max_size=6))
    records = [msgpack.packb(ref) for ref in refs]
    borders = np.cumsum([0, *map(len, records)])
    columns = decode_refs(b"".join(records), borders, sequences, "refs.bag")
    for place, (sequence, column) in enumerate(zip(sequences, columns, strict=True)):
        wanted = [ref[place] or [0, 0] if sequence else [ref[place], None] for ref in refs]
        assert column.first.tolist() == [first for first, _ in wanted]
        if sequence:
            assert column.count is not None
            assert column.count.tolist() == [count for _, count in wanted]


def test_types_that_only_their_author_has_are_bytes(tmp_path: Path) -> None:
    files = {"a.bag": b"xy" + table(2), "refs.bag": refs_bag([0]), "spec.json": b'{"a": "my type!"}'}
    _, index = index_of(dataset(tmp_path, files))
    assert index.fields["a"].field == Field("a", "my type!")
    assert index.fields["a"].codec == "bytes"


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[int] = []
    index_of(dataset(tmp_path, SHUFFLED), report=seen.append)
    assert sum(seen) == sum(map(len, SHUFFLED.values()))


def test_any_path_with_open_will_do() -> None:
    upath = pytest.importorskip("upath")
    root = upath.UPath("memory://bushel-test-bag/data")
    (root / "000000").mkdir(parents=True)
    for name, data in SHUFFLED.items():
        (root / "000000" / name).write_bytes(data)
    assert [fields["a"] for _, fields in read(root, checksums=True)] == [b"three", b"one", b"three"]


texts = st.text(st.characters(codec="utf-8"), max_size=12)


@given(data=st.data())
def test_samples_come_back(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    generation = data.draw(st.sampled_from("ABC"))
    names = data.draw(
        st.lists(st.from_regex(r"[a-zé][a-z_ .-]{0,5}", fullmatch=True), min_size=1, max_size=4, unique=True)
    )
    names = [name for name in names if name != "refs"] or ["x"]
    kinds = ["bytes"] if generation == "C" else ["bytes", "bytes[]"]
    spec = {name: data.draw(st.sampled_from(kinds)) for name in names}
    value = {"bytes": st.binary(max_size=300), "bytes[]": st.lists(st.binary(max_size=9), max_size=4)}
    fields = st.fixed_dictionaries({name: value[kind] for name, kind in spec.items()})
    keyed = data.draw(st.booleans())
    contents = data.draw(st.lists(fields, max_size=8))
    keys = data.draw(st.lists(texts, min_size=len(contents), max_size=len(contents), unique=True)) if keyed else []
    samples: Samples = [(keys[i] if keyed else None, fields) for i, fields in enumerate(contents)]
    root = tmp_path_factory.mktemp("bag")
    options: dict[str, Any] = {"generation": generation, "keyed": keyed, "single": data.draw(st.booleans())}
    shard, index = write_shard(CONTAINER, root, spec, samples, **options)
    wanted = [(str(i) if key is None else key, fields) for i, (key, fields) in enumerate(samples)]
    assert stored_samples(shard, index) == wanted
    assert read(root) == wanted
    same_table(index, index_of(root)[1])


# Datasets of the original packages


def manifests(golden: Path) -> list[tuple[Path, dict[str, Any]]]:
    found = [(path.parent, json.loads(path.read_text())) for path in sorted(golden.glob("**/manifest.json"))]
    return [(folder, manifest) for folder, manifest in found if manifest["container"] in ("bag", "bag-file")]


def assert_field(stored: bytes, codec: str, wanted: Mapping[str, Any]) -> None:
    assert (hashlib.sha256(stored).hexdigest(), len(stored)) == (wanted["sha256"], wanted["length"])
    if "value" in wanted:
        value = get_codec(codec).decode(stored)
        assert (value.tolist() if isinstance(value, np.ndarray) else value) == wanted["value"]


def test_golden_datasets_are_read_exactly(golden: Path) -> None:
    for folder, manifest in manifests(golden):
        shards = CONTAINER.shards(folder / manifest["open"])
        assert shards is not None
        rows = []
        for shard in shards:
            index = summed_table(CONTAINER, shard)
            if "spec" in manifest:
                assert {name: column.field.type for name, column in index.fields.items()} == manifest["spec"]
            if manifest["container"] == "bag" and "generation" in manifest:
                assert CONTAINER.generation(shard) == manifest["generation"]
            rows += [(fields, index) for _, fields in stored_samples(shard, index)]
        assert len(rows) == len(manifest["samples"])
        for position, ((fields, index), wanted) in enumerate(zip(rows, manifest["samples"], strict=True)):
            assert wanted["key"] == str(position)
            assert set(fields) == set(wanted["fields"])
            for name, field in wanted["fields"].items():
                codec = index.fields[name].codec
                if isinstance(field, list):
                    for stored, element in zip(fields[name], field, strict=True):
                        assert_field(stored, codec, element)
                else:
                    assert_field(fields[name], codec, field)


def test_golden_datasets_are_written_exactly(golden: Path, tmp_path: Path) -> None:
    """What Granular wrote and what we write for the same records are the same files."""
    for number, (folder, manifest) in enumerate(manifests(golden)):
        if manifest["container"] == "bag-file" or folder.name == "uncommitted-tail":
            continue
        shards = CONTAINER.shards(folder / manifest["open"])
        assert shards is not None
        root = tmp_path / str(number)
        for position, shard in enumerate(shards):
            index = CONTAINER.index(shard, ReadOptions())
            spec = {name: column.field.type for name, column in index.fields.items()}
            samples = [(None, fields) for _, fields in stored_samples(shard, index)]
            options: dict[str, Any] = {"generation": CONTAINER.generation(shard), "single": not shard.name}
            write_shard(CONTAINER, root, spec, samples, number=position, **options)
        assert files_of(root) == files_of(folder / manifest["open"])


def test_golden_plain_datasets_are_continued(golden: Path, tmp_path: Path) -> None:
    for number, (folder, manifest) in enumerate(manifests(golden)):
        if manifest["container"] == "bag-file" or folder.name == "sharded":
            continue
        root = tmp_path / str(number)
        shutil.copytree(folder / manifest["open"], root, copy_function=shutil.copyfile)
        root.chmod(0o755)
        shard, index = index_of(root)
        before = stored_samples(shard, index)
        spec = {name: column.field.type for name, column in index.fields.items()}
        progress = ShardInProgress(CONTAINER, root, spec, single=True, generation=CONTAINER.generation(shard))
        progress.reopen()
        progress.append([(None, fields) for _, fields in before])
        progress.finish()
        assert [fields for _, fields in read(root)] == [fields for _, fields in before] * 2
