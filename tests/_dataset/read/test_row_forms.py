"""Windows of arrays with headers of their own: their header and the rows are read, and nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.counted import counted

import bushel
from bushel._index.part_plan import RowForms
from bushel.codecs import get_codec
from bushel.codecs.parts import RowForm
from bushel.loader.read.batch_reader import BatchReader

HEADER = 128  # bytes of the header of a .npy file
ROW = 7 * 4
LOOKED_AT = 1024  # bytes of one value of a shard, before anything is known of its arrays
GAP = 1 << 16  # bytes between two extents of a remote file that are requested as one
LENGTHS = [9000, 9000, 6000, 7000]


def arrays(path: Path, container: str, lengths: list[int], kind: str = "npy") -> list[np.ndarray[Any, Any]]:
    """Write arrays [length, 7]."""
    own = [np.random.default_rng(rows).random((rows, 7), np.float32) for rows in lengths]
    if container == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for number, value in enumerate(own):
                archive.writestr(f"e{number}.actions.npy", bytes(get_codec("npy").encode(value)))
    elif container == "folder":
        path.mkdir()
        for number, value in enumerate(own):
            np.save(path / f"e{number}.actions.npy", value)
            (path / f"e{number}.jpg").write_bytes(get_codec("jpg").encode(np.zeros((8, 8, 3), np.uint8)))
    else:
        spec = {"actions": kind, "label": "int"}
        with bushel.Writer(path, spec, container=container, sync=False) as writer:
            for number, value in enumerate(own):
                writer.append({"actions": value, "label": number}, key=f"e{number}")
    return own


def planned(ds: bushel.Dataset, positions: list[int], mask: Any) -> int:
    """Return the bytes that a read needs of the files."""
    both = BatchReader(ds).extents(positions, mask)
    return sum(int(np.maximum(extents.length, 0).sum()) for _, extents in both)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio", "zip", "folder"])
def test_only_the_header_and_the_rows_are_read(tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ("x.zip" if container == "zip" else "x")
    own = arrays(path, container, LENGTHS)
    name = "actions" if container in ("bag", "tar", "ffrecord", "recordio") else "actions.npy"
    ds = bushel.open(path, container=container)
    assert list(ds.keys) == [f"e{number}" for number in range(4)]
    for elements in (slice(3000, 3016), [5, -1, 5], slice(None, None, -1000), slice(7, 7)):
        for sample, value in zip(ds.read(range(4), {name: elements}), own, strict=True):
            np.testing.assert_array_equal(sample[name], value[elements])
    assert planned(ds, [0, 1, 2, 3], {name: slice(3000, 3016)}) == 4 * (HEADER + 16 * ROW)
    assert planned(ds, [1], {name: [8999, 0, -2]}) == HEADER + 3 * ROW
    assert planned(ds, [1], {name: slice(None)}) == HEADER + 9000 * ROW
    if container == "folder":  # the files of a folder are opened as parts of a block file
        return
    asked = counted(monkeypatch)
    ds = bushel.open(path)
    for sample, value in zip(ds.read(range(4), {name: slice(3000, 3016)}), own, strict=True):
        np.testing.assert_array_equal(sample[name], value[3000:3016])
    assert sum(length for _, length in asked) <= 4 * (HEADER + 16 * ROW) + LOOKED_AT


def test_windows_and_random_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = arrays(tmp_path / "x", "bag", LENGTHS)
    asked = counted(monkeypatch)
    ds = bushel.open(tmp_path / "x")
    windows = ds.windows("actions", 16, hop=3000)
    places = [(0, 3000), (1, 6000), (2, 3000), (3, 6000)]
    keys = [f"e{sample}@{start}" for sample, start in places]
    for key, (sample, start) in zip(keys, places, strict=True):
        np.testing.assert_array_equal(windows[key]["actions"], own[sample][start : start + 16])
    assert sum(length for _, length in asked) <= 4 * (HEADER + 16 * ROW) + LOOKED_AT
    asked.clear()
    fields: Any = {"actions": bushel.loader.RandomWindow(16)}
    for batch in bushel.Loader(ds, 2, fields=fields, shuffle=True, threads=1):
        for key, value in zip(batch["__key__"], batch["actions"], strict=True):
            whole = own[ds.keys.index(key)]
            [begin] = np.flatnonzero((whole == value[0]).all(axis=1)).tolist()
            np.testing.assert_array_equal(value, whole[begin : begin + 16])
    assert sum(length for _, length in asked) <= 4 * (HEADER + 16 * ROW + GAP)


@pytest.mark.parametrize("kind", ["npy", "array"])
def test_headers_that_differ_from_what_is_expected(tmp_path: Path, kind: str) -> None:
    """The form of an array is guessed by that of another one. A wrong guess gives the right rows all the same."""
    values: list[Any] = [
        np.arange(4000, dtype=np.uint8),
        np.arange(4000, dtype=np.uint8).reshape(1000, 4),
        np.asfortranarray(np.arange(4000, dtype=np.uint8).reshape(1000, 4)),
        np.arange(500, dtype="<u8"),
        np.arange(500, dtype=">u8"),
        np.array([f"{number:02d}" for number in range(500)]),
    ]
    values += [np.arange(size, dtype=np.uint8) for size in (3, 100, 200, 255, 256, 300, 65500, 65536, 70000)]
    with bushel.Writer(tmp_path / "x", {"a": kind}, container="bag") as writer:
        for value in values:
            writer.append({"a": value})
    ds = bushel.open(tmp_path / "x")
    for positions in ([0], range(len(values)), reversed(range(len(values))), range(len(values))):
        chosen = list(positions)
        for place, sample in zip(chosen, ds.read(chosen, {"a": slice(1, 3)}), strict=True):
            np.testing.assert_array_equal(sample["a"], values[place][1:3])
    both = ds.read([1, 1, 0, 0], {"a": [2, 0]})
    for place, sample in zip([1, 1, 0, 0], both, strict=True):
        np.testing.assert_array_equal(sample["a"], values[place][[2, 0]])
    if kind == "npy":  # 65,500 bytes and its header; 16 rows of it
        assert planned(ds, [12], {"a": slice(16)}) == HEADER + 16


def test_a_damaged_header_is_an_error_that_names_the_sample(tmp_path: Path) -> None:
    own = arrays(tmp_path / "x", "bag", [50, 50])
    with bushel.Writer(tmp_path / "y", {"actions": "npy"}, container="bag") as writer:
        good = bytes(get_codec("npy").encode(own[0]))
        writer.append({"actions": good}, key="good")
        writer.append({"actions": bytes(20) + good[20:]}, key="bad")
    ds = bushel.open(tmp_path / "y")
    np.testing.assert_array_equal(ds["good", {"actions": slice(3)}]["actions"], own[0][:3])
    with pytest.raises(bushel.errors.CodecError, match="'bad'"):
        ds.read([0, 1], {"actions": slice(3)})
    with pytest.raises(IndexError, match="50 rows"):
        ds["good", {"actions": [50]}]


def test_the_known_forms_are_bounded_and_the_nearest_is_taken() -> None:
    forms = RowForms()
    assert forms.of(100) is None
    assert forms.needs(100)
    forms.add(100, RowForm(10, 3))
    assert not forms.needs(100)
    assert forms.of(40) == forms.of(1000) == RowForm(10, 3)
    assert not forms.needs(40)
    assert forms.needs(41)
    forms.add(200, None)
    assert forms.of(190) is None
    assert forms.of(149) == RowForm(10, 3)
    forms.add(200, RowForm(20, 1))
    assert forms.of(190) == RowForm(20, 1)
    for size in range(1000, 2000):
        forms.add(size, None)
    assert forms.of(1062) is None
    assert not forms.needs(5000)
    assert RowForm(10, 3).count(9) is None
    assert RowForm(10, 0).count(10) is None
    assert RowForm(10, 3).count(10) == 0
