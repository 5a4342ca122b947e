"""Usual Examples, whose table is blocks of lines: the same values as by the scan that reads all Examples."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.tfrecords import bytes_list, example, float_list, framed, int_list, piece

import bushel
from bushel._index.line_arrays import LineArray
from bushel.containers import Shard, read_forward
from bushel.containers.base import ReadOptions
from bushel.containers.tfrecord import container
from bushel.containers.tfrecord.container import CONTAINER
from bushel.errors import FormatError, SpecError
from bushel.kernels import ExampleScanner
from bushel.spec import parse_spec

VALUES = {
    "text": st.binary(max_size=200).map(bytes_list),
    "few": st.lists(st.binary(max_size=9), max_size=1).map(lambda values: bytes_list(*values)),
    "id": st.integers(-(1 << 63), (1 << 63) - 1).map(int_list),
    "small": st.integers(0, 300).map(lambda value: int_list(value, packed=value % 9 > 0)),
    "score": st.floats(width=32).map(float_list),
    "many": st.lists(st.integers(0, 1 << 40), max_size=70).map(lambda values: int_list(*values)),
    "reals": st.lists(st.floats(width=32), max_size=40).map(lambda values: float_list(*values)),
    "a name of more than fifty characters, whose entry takes more than a vector": st.integers(0, 9).map(int_list),
}


@st.composite
def records(draw: st.DrawFn) -> list[bytes]:
    """Return Examples with some of the features, in the same order or in any, all of them or some."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=6))
    gaps, shuffled = draw(st.booleans()), draw(st.booleans())
    found = []
    for _ in range(draw(st.integers(1, 12))):
        own = draw(st.permutations(names)) if shuffled else names
        own = [name for name in own if not gaps or draw(st.booleans())]
        found.append(example({name: draw(VALUES[name]) for name in own}))
    return found


def read(path: Path) -> tuple[list[tuple[str, str]], list[Any]]:
    """Return the spec, and the values as text, which compares NaN, too."""
    ds = bushel.open(path, index="memory")
    columns = [repr(ds.column(name).tolist()) for name, codec in ds.spec.items() if codec in ("int", "float")]
    return sorted(ds.spec.items()), [repr(dict(ds[number])) for number in range(len(ds))] + columns


@given(records(), st.sampled_from([100, 1 << 20]), st.booleans())
def test_values_are_those_of_the_other_scan(
    tmp_path_factory: pytest.TempPathFactory, made: list[bytes], chunk: int, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("a") / ("x.tfrecord.gz" if packed else "x.tfrecord")
    path.write_bytes(gzip.compress(framed(made)) if packed else framed(made))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_forward, "_CHUNK", chunk)
        found = read(path)
        patch.setattr(container, "usual_examples", lambda *_: None)
        assert read(path) == found


def written(path: Path, *features: dict[str, bytes]) -> Path:
    path.write_bytes(framed([example(each) for each in features]))
    return path


def is_of_lines(path: Path, spec: Any = None) -> bool:
    """Return whether the extents of all fields are in blocks of lines."""
    shard = Shard(path.parent, path.name, (path.name,))
    table = CONTAINER.index(shard, ReadOptions(spec=None if spec is None else parse_spec(spec)))
    return all(isinstance(each.offset, LineArray) for each in table.fields.values())


USUAL = [
    {"t": bytes_list(b"a" * 130), "i": int_list(1 << 40), "f": float_list(0.5), "many": int_list(1, 2)},
    {"i": int_list(-1), "t": bytes_list(b""), "many": int_list()},
    {},
]


@pytest.mark.parametrize(
    "other",
    [
        {"t": bytes_list(b"1", b"2")},
        {"many": piece(3, piece(1, b"\1") + piece(1, b"\2"))},
        {"i": int_list()},
        {"f": float_list()},
    ],
)
def test_other_records_take_the_other_scan(other: dict[str, bytes], tmp_path: Path) -> None:
    assert is_of_lines(written(tmp_path / "x.tfrecord", *USUAL))
    path = written(tmp_path / "y.tfrecord", *USUAL, other)
    assert not is_of_lines(path)
    assert [each["__key__"] for each in bushel.open(path)] == ["0", "1", "2", "3"]


def test_declared_types(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tfrecord", *USUAL)
    assert is_of_lines(path, {"t": "utf8", "i": "array(int64,-1)", "f": "f32", "many": "array(int64,-1)"})
    assert bushel.open(path, spec={"i": "array(int64,-1)"})[1]["i"].tolist() == [-1]
    assert bushel.open(path, spec={"t": "bytes[]"})[0]["t"] == [b"a" * 130]
    assert [each.get("i") for each in bushel.open(path, spec={"i": "float"})][1] == -1.0
    for wrong in ({"f": "int"}, {"many": "int"}, {"f": "array(int64,-1)"}, {"i": "array(int32,-1)"}):
        with pytest.raises(SpecError, match="cannot be read"):
            bushel.open(path, spec=wrong)


def test_bytes_are_no_integers_of_any_length(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tfrecord", {"t": bytes_list(b"12")}, {"t": bytes_list(b"7")})
    assert [sample["t"] for sample in bushel.open(path, spec={"t": "cls"})] == [12, 7]
    for declared in ("int", "int[]"):
        with pytest.raises(SpecError, match=r"x\.tfrecord: feature 't' has bytes, the first ones b'12'.*'cls' reads"):
            bushel.open(path, spec={"t": declared})


def test_a_stored_table_has_the_same_values(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tfrecord", *USUAL * 20)
    before = read(path)
    bushel.index(path)
    assert bushel.verify(path).ok
    stored = bushel.open(path, index="require")
    assert [repr(dict(each)) for each in stored] == before[1][:60]
    batch = next(iter(bushel.Loader(stored[[3, 0, 57]], 3, fields=["i", "f"])))
    assert batch["i"].tolist() == [1 << 40] * 3
    bushel.convert(path, tmp_path / "out", container="ffrecord")
    copied = bushel.open(tmp_path / "out")
    assert [each.get("i") for each in copied] == [each.get("i") for each in stored]
    assert [each["many"].tolist() if "many" in each else None for each in copied] == [[1, 2], [], None] * 20


def test_more_than_one_block(tmp_path: Path) -> None:
    rng = random.Random(2)
    texts = [b"x" * rng.choice([1, 130, 20_000 if number % 999 == 5 else 3]) for number in range(20_000)]
    path = written(
        tmp_path / "x.tfrecord", *({"i": int_list(number), "t": bytes_list(text)} for number, text in enumerate(texts))
    )
    ds = bushel.open(path)
    assert ds.column("i").tolist() == list(range(20_000))
    assert [each["t"] for each in ds.read(list(range(20_000)), ["t"])] == texts


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    usual = written(tmp_path / "x.tfrecord", *USUAL * 1000)
    other = written(tmp_path / "y.tfrecord", *USUAL * 1000, {"t": bytes_list(b"1", b"2")})
    for path in (usual, other):
        found: list[int] = []
        CONTAINER.index(Shard(path.parent, path.name, (path.name,)), ReadOptions(report=found.append))
        assert sum(found) == path.stat().st_size


def test_sparse_features_and_their_number(tmp_path: Path) -> None:
    """A table of blocks would be far larger than such a file, too."""
    scanner = ExampleScanner()
    data = framed([example({f"{number}": int_list(1)}) for number in range(513)])
    scanner.feed(data, 0)
    assert scanner.unusual
    path = written(tmp_path / "x.tfrecord", *({f"{number % 500}": int_list(1)} for number in range(50_000)))
    with pytest.raises(FormatError, match="50000 records have 500 features, but only 50000 values"):
        bushel.open(path)


def test_vectors_make_no_difference(tmp_path: Path) -> None:
    program = "import sys, hashlib; from bushel.kernels import ExampleScanner\ns = ExampleScanner()\n"
    program += (
        "d = open(sys.argv[1], 'rb').read()\nassert s.feed(d, 0) == len(d)\nprint(hashlib.sha256(s.take()).digest())"
    )
    path = written(tmp_path / "x.tfrecord", *USUAL * 300)
    command = [sys.executable, "-c", program, str(path)]
    found = {
        subprocess.run(command, env={**os.environ, "BUSHEL_SIMD": simd}, capture_output=True, check=True).stdout
        for simd in ("", "scalar")
    }
    assert len(found) == 1
