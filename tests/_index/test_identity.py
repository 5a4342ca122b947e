"""Digests of samples and tables: contents enter, places do not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import bushel
from bushel._index.identity import sample_digests, table_digest
from bushel._index.saving import sealed
from bushel._index.table import ShardIndex

SPEC = {"label": "int", "text": "utf8", "words": "utf8[]"}
SAMPLES: list[dict[str, Any]] = [
    {"label": number, "text": "x" * number, "words": ["a", "bc"][: number % 3]} for number in range(7)
]


def table_of(path: Path, samples: list[dict[str, Any]] = SAMPLES, container: str = "bag", **options: Any) -> ShardIndex:
    with bushel.Writer(path, SPEC, container=container, **options) as writer:
        for number, sample in enumerate(samples):
            writer.append(sample, key=f"k{number}")
    [shard] = bushel.open(path).shards
    return shard.index


def rows_of(index: ShardIndex) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(index.samples)


def test_places_do_not_enter(tmp_path: Path) -> None:
    first, second = table_of(tmp_path / "a"), table_of(tmp_path / "b")
    moved = {name: replace(own, offset=own.offset + 1) for name, own in reversed(list(second.fields.items()))}
    times = [replace(stamp, mtime_ns=1, name="other") for stamp in second.files]
    second = replace(second, fields=moved, files=times, columns={}, container="other")
    assert table_digest(first) == table_digest(second)
    assert (sample_digests(first, rows_of(first)) == sample_digests(second, rows_of(second))).all()


def test_the_order_of_fields_does_not_enter_the_fingerprint(tmp_path: Path) -> None:
    """A bag lists its fields by their names, so that its states were refused after `bushel index`."""
    with bushel.Writer(tmp_path / "a", {"x": "int", "label": "int"}, container="bag", shard_samples=2) as writer:
        for number in range(5):
            writer.append({"x": number, "label": 0}, key=f"k{number}")
    written = bushel.open(tmp_path / "a")
    loader = bushel.Loader(written, 2, shuffle=True)
    next(iter(loader))
    indexed = bushel.index(tmp_path / "a", force=True)
    assert (list(written.spec), list(indexed.spec)) == (["x", "label"], ["label", "x"])
    assert indexed.fingerprint == written.fingerprint
    assert indexed[:2].fingerprint == written[:2].fingerprint != indexed[:3].fingerprint
    bushel.Loader(indexed, 2, shuffle=True).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("field", sorted(SPEC))
def test_each_value_enters(tmp_path: Path, field: str) -> None:
    others = {"label": 99, "text": "y" * 5, "words": ["a", "bd"]}
    changed = [*SAMPLES[:5], {**SAMPLES[5], field: others[field]}, SAMPLES[6]]
    first, second = table_of(tmp_path / "a"), table_of(tmp_path / "b", changed)
    assert table_digest(first) != table_digest(second)
    differ = sample_digests(first, rows_of(first)) != sample_digests(second, rows_of(second))
    assert differ.tolist() == [False] * 5 + [True, False]


def test_elements_enter_in_their_order(tmp_path: Path) -> None:
    orders = [["a", "b"], ["b", "a"], ["a"], [], ["a", "b", ""], ["a", ""], ["", "a"]]
    index = table_of(tmp_path / "a", [{"label": 0, "text": "", "words": words} for words in orders])
    assert len(set(sample_digests(index, rows_of(index)).tolist())) == len(orders)


def test_a_sample_is_the_same_wherever_it_stands(tmp_path: Path) -> None:
    first, second = table_of(tmp_path / "a"), table_of(tmp_path / "b", SAMPLES[::-1])
    assert (sample_digests(first, rows_of(first)) == sample_digests(second, rows_of(second)[::-1])).all()
    assert table_digest(first) != table_digest(second)
    some = np.array([4, 0, 4])
    assert (sample_digests(first, some) == sample_digests(first, rows_of(first))[some]).all()


def test_keys_types_and_classes_enter_the_digest_of_a_table(tmp_path: Path) -> None:
    index = table_of(tmp_path / "a")
    label = index.fields["label"]
    others = [
        index,
        replace(index, keys=None),
        replace(index, labels={"label": ("cat", "dog")}),
        replace(index, labels={"label": ("dog", "cat")}),
        replace(index, fields={**index.fields, "label": replace(label, field=replace(label.field, codec="float"))}),
        index.select(["label", "text"]),
    ]
    assert len({table_digest(each) for each in others}) == len(others)


def test_without_checksums_sizes_and_stamps_enter(tmp_path: Path) -> None:
    index = table_of(tmp_path / "a")
    bare = replace(index, fields={name: replace(own, crc32=None) for name, own in index.fields.items()})
    other = replace(bare, files=[replace(stamp, crc32=7) for stamp in bare.files])
    assert len({table_digest(each) for each in (index, bare, other)}) == 3


def test_a_field_that_a_sample_lacks_does_not_enter(tmp_path: Path) -> None:
    index = table_of(tmp_path / "a")
    text = index.fields["text"]
    lacking = replace(text, length=np.where(np.arange(7) == 2, -1, text.length), crc32=text.crc32)
    both = replace(index, fields={**index.fields, "text": lacking})
    without = index.select(["label", "words"])
    row = np.array([2])
    assert sample_digests(both, row) == sample_digests(without, row)
    assert sample_digests(both, row) != sample_digests(index, row)


@pytest.mark.parametrize("kind", ["png", "bmp"])
def test_tables_in_memory_know_other_files_by_their_stamps(kind: str, tmp_path: Path) -> None:
    for name, content in (("a", b"1234"), ("b", b"4321")):
        (tmp_path / name).mkdir()
        for key in "xyz":
            (tmp_path / name / f"{key}.{kind}").write_bytes(b"\x89PNG\r\n\x1a\n" * (kind == "png") + content)
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    known = [bushel.open(tmp_path / name, index="memory").fingerprint for name in "abc"]
    assert (known[0] == known[1], known[0] == known[2]) == (False, True)
    bushel.index(tmp_path / "c", checksums=False)
    stored = bushel.open(tmp_path / "c")
    assert (stored.fingerprint, stored.info.checksums) == (known[0], False)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio", "gulp"])
@pytest.mark.parametrize("damage", ["nothing", "no such type", "other container"])
def test_a_manifest_tells_the_types_of_shards_without_a_table(container: str, damage: str, tmp_path: Path) -> None:
    """`bushel index` gives the digest of the writer's table, also for files that do not tell types themselves."""
    spec = {"image": "jpg", "label": "int"}
    path = tmp_path / "data"
    with bushel.Writer(path, spec, container=container, labels={"label": ["cat", "dog"]}) as writer:
        for number in range(4):
            writer.append({"image": np.full((8, 8, 3), 60 * number, np.uint8), "label": number % 2}, key=f"k{number}")
    [shard] = bushel.open(path).shards
    Path(str(shard.shard.sidecar)).unlink()
    manifest = next(path.rglob("manifest.json"))
    if damage != "nothing":
        text = manifest.read_text()
        old, new = {"no such type": ("int", "imt"), "other container": (container, "arrow")}[damage]
        manifest.write_bytes(sealed(text.replace(f'"{old}"', f'"{new}"').encode()))
    opened = bushel.open(path)
    assert len(opened) == 4
    if damage == "nothing":
        assert (opened.spec, opened.labels) == (spec, {"label": ("cat", "dog")})
        [again] = bushel.index(path).shards  # with checksums
        assert (again.digest, bushel.verify(path).ok) == (shard.digest, True)
