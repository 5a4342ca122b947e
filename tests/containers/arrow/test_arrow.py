"""Arrow IPC, read in place."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.containers.read_in_place import FOREIGN, check_damaged, check_expected

import bushel
from bushel._runtime.arrays import GrowingArrays
from bushel.containers import row_table
from bushel.containers.arrow import container
from bushel.errors import FormatError
from bushel.testing import READABLE_CHECKS, Golden, Readable

HF = FOREIGN / "hf-arrow"


def test_what_hugging_face_saved() -> None:
    check_expected("hf-arrow", HF, index="memory")


def test_extents_lie_in_the_buffers_of_the_file() -> None:
    dataset = bushel.open(HF, index="memory")
    assert dataset.info.container == "arrow"
    assert dataset.where("label == 4").read(range(1))[0]["label"] == 4
    stored = dataset.read([1], decode=False)[0]["image"]
    assert stored in (HF / "data-00000-of-00002.arrow").read_bytes()


@pytest.fixture
def temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables go to temporary files, though they are small."""
    for module in (container, row_table):
        monkeypatch.setattr(module, "GrowingArrays", partial(GrowingArrays, 0))
    monkeypatch.setattr(row_table, "_STEP", 5)


@pytest.mark.usefixtures("temporary_files")
def test_tables_in_temporary_files_are_those_in_memory() -> None:
    check_expected("hf-arrow", HF, index="memory")


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_conformance(check: str, tmp_path: Path) -> None:
    with bushel.open(HF, index="memory") as dataset:
        samples = [{name: value for name, value in each.items() if name != "__key__"} for each in dataset]
    READABLE_CHECKS[check](Readable("arrow", Golden(HF, samples), tmp_path))


def test_the_order_of_files_is_that_of_the_state(tmp_path: Path) -> None:
    for path in HF.iterdir():
        text = path.read_bytes()
        if path.name == "state.json":
            text = text.replace(b"00000-of", b"x").replace(b"00001-of", b"00000-of").replace(b"x", b"00001-of")
        (tmp_path / path.name).write_bytes(text)
    swapped, first = bushel.open(tmp_path, index="memory"), bushel.open(HF, index="memory")
    assert [each["caption"] for each in swapped][-12:] == [each["caption"] for each in first][:12]
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../x.arrow"}]}')
    with pytest.raises(FormatError, match="which is not in the folder"):
        bushel.open(tmp_path)
    (tmp_path / "state.json").write_text('{"_data_files": [], "_indices_data_files": [{}]}')
    with pytest.raises(FormatError, match="flatten_indices"):
        bushel.open(tmp_path)


def test_damage_gives_an_error_that_names_the_file_or_other_values(tmp_path: Path) -> None:
    data = (HF / "data-00000-of-00002.arrow").read_bytes()
    check_damaged(data, tmp_path / "x.arrow", len(data) // 2, "arrow")
    check_damaged(data, tmp_path / "x.arrow", 0, "arrow again")


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(b"no stream of Arrow")
    with pytest.raises(FormatError, match="metadata of a message takes"):
        bushel.open(tmp_path / "x.arrow")
    (tmp_path / "x.arrow").write_bytes(b"\xff\xff\xff\xff" + (1 << 30).to_bytes(4, "little"))
    with pytest.raises(FormatError, match="metadata of a message takes"):
        bushel.open(tmp_path / "x.arrow")


class TestByPyarrow:
    """What pyarrow writes, in all its forms."""

    @pytest.fixture(autouse=True)
    def _needs_pyarrow(self) -> None:
        pytest.importorskip("pyarrow")

    def test_damaged_offsets_inside_nested_values_are_found_before_pyarrow_follows_them(self, tmp_path: Path) -> None:
        import pyarrow as pa

        table = pa.table({"nested": pa.array([{"text": "x"}] * 10)})
        with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        data, offsets = (tmp_path / "x.arrow").read_bytes(), np.arange(11, dtype="<i4")
        wrong = offsets.copy()
        wrong[5] = 1 << 20
        assert data.count(offsets.tobytes()) == 1
        (tmp_path / "x.arrow").write_bytes(data.replace(offsets.tobytes(), wrong.tobytes()))
        with pytest.raises(FormatError, match="column 'nested'") as caught:
            bushel.open(tmp_path / "x.arrow", index="memory")
        assert caught.value.file == str(tmp_path / "x.arrow")

    def test_values_without_a_type_inside_lists_and_structs_are_no_damage(self, tmp_path: Path) -> None:
        import pyarrow as pa

        rows: list[Any] = [
            [{"role": "user", "calls": None}],
            [{"role": "a", "calls": None}, {"role": "b", "calls": None}],
        ]
        table = pa.table({"nested": pa.array(rows)})
        with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        opened = bushel.open(tmp_path / "x.arrow", index="memory")
        assert [[member["role"] for member in sample["nested"]] for sample in opened] == [["user"], ["a", "b"]]

    @pytest.mark.parametrize("inside", ["struct", "list", "large list"])
    def test_values_beyond_the_limits_of_their_types_are_no_damage_but_damage_beside_them_is(
        self, tmp_path: Path, inside: str
    ) -> None:
        import pyarrow as pa

        times = pa.array([0, 86_400_000_000], pa.int64()).view(pa.time64("us"))  # PostgreSQL's 24:00:00
        numbers = np.array([123456, 0, -7, -1], "<i8").tobytes()
        prices = pa.Array.from_buffers(pa.decimal128(3, 1), 2, [None, pa.py_buffer(numbers)])
        offsets = np.array([0, 1, 2], "<i4")

        def write(offsets: np.ndarray) -> Path:
            buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"ab")]
            texts = pa.Array.from_buffers(pa.string(), 2, buffers)
            column = pa.StructArray.from_arrays([times, prices, texts], ["closes", "price", "text"])
            if inside == "list":
                column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column)
            if inside == "large list":
                column = pa.LargeListArray.from_arrays(pa.array([0, 1, 2], pa.int64()), column)
            table = pa.table({"nested": column})
            with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            return tmp_path / "x.arrow"

        rows = [
            {"closes": "00:00:00", "price": price, "text": text} for price, text in (("12345.6", "a"), ("-0.7", "b"))
        ]
        stored = [each["nested"] for each in bushel.open(write(offsets), index="memory")]
        assert stored == (rows if inside == "struct" else [[row] for row in rows])
        with pytest.raises(FormatError, match="column 'nested'"):
            bushel.open(write(np.array([0, 1 << 20, 2], "<i4")), index="memory")

    def test_a_damaged_scale_of_decimals_is_an_error_of_the_column(self, tmp_path: Path) -> None:
        import pyarrow as pa

        table = pa.table({"price": pa.array([Decimal("1.5")] * 4, pa.decimal128(23, 7))})
        with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        scale, wrong = (number.to_bytes(4, "little") for number in (7, 0x7F000007))
        (tmp_path / "x.arrow").write_bytes((tmp_path / "x.arrow").read_bytes().replace(scale, wrong))
        with pytest.raises(FormatError, match="column 'price'"):
            bushel.open(tmp_path / "x.arrow", index="memory")

    @pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("in_files", [False, True])
    def test_all_types(
        self, compression: str | None, stream: bool, in_files: bool, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        import pyarrow as pa

        if in_files:
            request.getfixturevalue("temporary_files")
        rows = 50
        values: dict[str, Any] = {
            "text": pa.array([None if i % 7 == 3 else f"text {i}" * (i % 5) for i in range(rows)]),
            "large": pa.array([b"x" * i * 50 for i in range(rows)], pa.large_binary()),
            "fixed": pa.array([b"abc"] * rows, pa.binary(3)),
            "i8": pa.array([None if i == 9 else i - 25 for i in range(rows)], pa.int8()),
            "u64": pa.array([2**63 + i for i in range(rows)], pa.uint64()),
            "f16": pa.array(np.arange(rows, dtype=np.float16)),
            "f64": pa.array([i / 3 for i in range(rows)]),
            "yes": pa.array([i % 3 == 0 for i in range(rows)]),
            "day": pa.array(range(rows), pa.date32()),
            "list": pa.array([None if i % 11 == 2 else list(range(i % 4)) for i in range(rows)], pa.list_(pa.int16())),
            "matrix": pa.array([[[i, 1.0], [2.0, 3.0]] for i in range(rows)], pa.list_(pa.list_(pa.float32(), 2), 2)),
            "texts": pa.array([[f"t{i}", None][: i % 3] for i in range(rows)], pa.large_list(pa.string())),
            "words": pa.array(["a", None, "b", "a", ""] * (rows // 5)).dictionary_encode(),
            "codes": pa.array([7, 8, None, 7, 9] * (rows // 5)).dictionary_encode(),
            "nested": pa.array([{"a": i, "b": [None, b"x"]} for i in range(rows)]),
            "map": pa.array([[("k", i)] for i in range(rows)], pa.map_(pa.string(), pa.int64())),
            "holes": pa.array([[1, None], [2]] * (rows // 2), pa.list_(pa.int32())),
            "view": pa.array([f"a longer text, number {i}" for i in range(rows)], pa.string_view()),
            "short": pa.array([None if i % 5 == 1 else "x" * (i % 20) for i in range(rows)], pa.string_view()),
            "bytes": pa.array([bytes([255, i]) * (i % 9) for i in range(rows)], pa.binary_view()),
            "many": pa.array([["é", "a text that is longer than a view"][: i % 3] for i in range(rows)]).cast(
                pa.list_(pa.string_view())
            ),
            "null": pa.nulls(rows),
        }
        table = pa.table(values)
        options = pa.ipc.IpcWriteOptions(compression=compression)
        path = tmp_path / "x.arrow"
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        with new(path, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=20)
        dataset = bushel.open(path, index="memory")
        assert len(dataset) == rows
        types = {name: field for name, field in dataset.spec.items()}
        assert (types["list"], types["texts"], types["map"], types["words"]) == ("array", "json", "json", "utf8")
        assert [types[name] for name in ("view", "short", "bytes", "many")] == ["utf8", "utf8", "bytes", "utf8[]"]
        found = dataset.read(range(rows))
        for name, column in values.items():
            for position, wanted in enumerate(column.to_pylist()):
                _compare(found[position].get(name), wanted, name)
        assert dataset[30]["matrix"].shape == (2, 2)

    def test_feather_of_version_1_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "x.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
        with pytest.raises(FormatError, match=r"version 1 of Feather.*write_feather"):
            bushel.open(tmp_path / "x.feather")

    def test_damaged_views_are_errors(self, tmp_path: Path) -> None:
        import pyarrow as pa

        table = pa.table({"v": pa.array(["a text that is longer than a view"] * 2, pa.string_view())})
        with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
            writer.write_table(table)
        data = (tmp_path / "x.arrow").read_bytes()
        at = data.index(b"a te", data.index(b"\x21\0\0\0a te")) - 4
        for offset, number in ((0, -5), (0, 1 << 30), (8, 7), (8, -1), (12, -9), (12, 1 << 20)):
            changed = bytearray(data)
            changed[at + offset : at + offset + 4] = number.to_bytes(4, "little", signed=True)
            (tmp_path / "x.arrow").write_bytes(changed)
            with pytest.raises(FormatError, match="view of value"):
                bushel.open(tmp_path / "x.arrow", index="memory")

    def test_dictionaries_whose_entries_have_dictionaries(self, tmp_path: Path) -> None:
        import pyarrow as pa

        words = pa.array(["a", "b", "a", "c"]).dictionary_encode()
        lists = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), words)
        column = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), lists)
        table = pa.table({"x": column, "n": [1, 2, 3]})
        with pa.ipc.new_stream(tmp_path / "x.arrow", table.schema) as writer:
            writer.write_table(table)
        dataset = bushel.open(tmp_path / "x.arrow", index="memory")
        assert [sample["x"] for sample in dataset] == [["a", "c"], ["a", "b"], ["a", "c"]]
        assert [sample["n"] for sample in dataset] == [1, 2, 3]

    def test_dictionaries_that_grow_or_are_replaced(self, tmp_path: Path) -> None:
        import pyarrow as pa

        for delta in (True, False):
            texts = [["a", "b"], ["b", "c"], ["a", "b", "c", "d"]]
            known: list[str] = []
            path = tmp_path / f"{delta}.arrow"
            schema = pa.schema([("w", pa.dictionary(pa.int8(), pa.string()))])
            options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=delta)
            with pa.ipc.new_stream(path, schema, options=options) as writer:
                for each in texts:
                    known = [*known, *(text for text in each if text not in known)] if delta else each
                    numbers = pa.array([known.index(text) for text in each], pa.int8())
                    column = pa.DictionaryArray.from_arrays(numbers, pa.array(known))
                    writer.write_batch(pa.record_batch([column], schema=schema))
            assert [sample["w"] for sample in bushel.open(path, index="memory")] == [x for each in texts for x in each]

    def test_no_rows_and_no_columns(self, tmp_path: Path) -> None:
        import pyarrow as pa

        schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.list_(pa.int8()))])
        with pa.ipc.new_file(tmp_path / "x.arrow", schema) as writer:
            writer.write_batch(pa.record_batch([[], [], []], schema=schema))
        assert len(bushel.open(tmp_path / "x.arrow", index="memory")) == 0
        with pa.ipc.new_stream(tmp_path / "y.arrow", schema):
            pass
        dataset = bushel.open(tmp_path / "y.arrow", index="memory")
        assert (len(dataset), list(dataset.spec)) == (0, ["a", "b", "c"])

    @given(st.lists(st.none() | st.binary(max_size=9), max_size=30), st.integers(1, 9), st.integers(0, 5))
    @settings(deadline=None, max_examples=40)
    def test_any_values_in_any_slices(
        self, tmp_path_factory: pytest.TempPathFactory, values: list[bytes | None], size: int, skip: int
    ) -> None:
        import pyarrow as pa

        table = pa.table(
            {"x": pa.array(values, pa.binary()), "y": pa.array([[v] for v in values], pa.list_(pa.binary()))}
        )
        path = tmp_path_factory.mktemp("any") / "x.arrow"
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table.slice(skip), max_chunksize=size)
        found = bushel.open(path, index="memory").read(range(len(values[skip:])), decode=False)
        assert [each.get("x") for each in found] == values[skip:]
        lists = [None if value is None else [value] for value in values[skip:]]  # no list has a null
        assert [each.get("y") for each in found] == lists

    def test_damaged_files_with_all_parts(self, tmp_path: Path) -> None:
        import pyarrow as pa

        table = pa.table({"w": pa.array(["a", "b"] * 30).dictionary_encode(), "l": pa.array([[1, 2], None] * 30)})
        with pa.ipc.new_file(
            tmp_path / "w.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
        ) as writer:
            writer.write_table(table)
        check_damaged((tmp_path / "w.arrow").read_bytes(), tmp_path / "x.arrow", 0, "dictionary")


def _compare(found: Any, wanted: Any, name: str) -> None:
    if name == "day":
        assert found == np.datetime64(wanted)
    elif name == "nested":
        assert found == {"a": wanted["a"], "b": [None, "eA=="]}
    elif name == "map":
        assert found == [list(pair) for pair in wanted]
    elif isinstance(found, np.ndarray):
        assert found.tolist() == wanted
    elif isinstance(wanted, float):
        assert math.isclose(found, wanted, rel_tol=0) or found == wanted
    else:
        assert found == wanted
