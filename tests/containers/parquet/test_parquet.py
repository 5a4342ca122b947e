"""Parquet: files of pyarrow and Hugging Face datasets, read in place."""

from __future__ import annotations

import base64
import json
import math
import random
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN, PARQUET, check_damaged, check_expected

import bushel
from bushel.errors import FormatError, SpecError
from bushel.testing import READABLE_CHECKS, Golden, Readable

each_dataset = pytest.mark.parametrize("name", PARQUET)


@each_dataset
def test_what_the_writer_wrote_comes_out(name: str) -> None:
    check_expected(name, FOREIGN / name, index="memory")
    dataset = bushel.open(FOREIGN / name, index="memory")
    assert dataset.info.container == "parquet"
    order = random.Random(7).sample(range(len(dataset)), len(dataset))
    stored = dataset.read(range(len(dataset)), decode=False)
    assert dataset.read(order, decode=False) == [stored[place] for place in order]
    assert [dataset.read([place], decode=False)[0] for place in order] == [stored[place] for place in order]


@each_dataset
def test_after_indexing_without_scanning_again(name: str, tmp_path: Path) -> None:
    shutil.copytree(FOREIGN / name, tmp_path / "data")
    bushel.index(tmp_path / "data")
    assert list((tmp_path / "data/.bushel").rglob("*.safetensors"))
    check_expected(name, tmp_path / "data", index="require", verify=True)
    assert bushel.verify(tmp_path / "data").problems == ()


def test_photos_of_plain_pages_are_extents_of_the_file() -> None:
    dataset = bushel.open(FOREIGN / "hf-parquet", index="memory")
    file, offset = dataset.location(1, "image")
    length = int(dataset.lengths([1], "image")[0])
    assert Path(file).read_bytes()[offset : offset + length] == dataset.read([1], decode=False)[0]["image"]
    assert dataset.spec["image"] == "image"
    assert dataset[1]["image"].ndim == 3


def test_scalars_are_columns() -> None:
    dataset = bushel.open(FOREIGN / "hf-parquet", index="memory")
    assert {"label", "score"} <= set(dataset.columns)
    assert len(dataset.where("label == 3")) == sum(sample["label"] == 3 for sample in dataset)


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_conformance(check: str, tmp_path: Path) -> None:
    path = FOREIGN / "hf-parquet"
    samples = [
        {name: value for name, value in sample.items() if name != "__key__"}
        for sample in bushel.open(path, index="memory")
    ]
    READABLE_CHECKS[check](Readable("parquet", Golden(path, samples), tmp_path))


def test_several_splits_in_one_folder_are_named(tmp_path: Path) -> None:
    source = FOREIGN / "hf-parquet/data/train-00000-of-00001.parquet"
    for split in ("test", "train"):
        shutil.copy(source, tmp_path / f"{split}-00000-of-00001.parquet")
    with pytest.raises(SpecError, match=r"several splits: train, test.*split='train'.*split='all'"):
        bushel.open(tmp_path)
    assert len(bushel.open(f"{tmp_path}/test-*.parquet")) == 24


def test_a_folder_of_files_with_the_short_suffix_is_packed(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "set").mkdir()
    for number in range(2):
        table = pyarrow.table({"x": [number]})
        parquet.write_table(table, tmp_path / f"set/{number}.pq")
    bushel.pack(tmp_path / "set", tmp_path / "out", container="bag")
    assert [sample["x"] for sample in bushel.open(tmp_path / "out")] == [0, 1]


def test_no_parquet_file(tmp_path: Path) -> None:
    for data, message in (
        (b"", "it has 0 bytes"),
        (b"x" * 100, "not in b'PAR1'"),
        (b"PAR1" + bytes(100) + (1 << 31).to_bytes(4, "little") + b"PAR1", "the footer is said to have 2147483648"),
        (b"PAR1" + bytes(100) + bytes(4) + b"PARE", "encrypted"),
    ):
        (tmp_path / "x.parquet").write_bytes(data)
        with pytest.raises(FormatError, match=message):
            bushel.open(tmp_path / "x.parquet")


@each_dataset
def test_damage_gives_an_error_that_names_the_file_or_other_values(name: str, tmp_path: Path) -> None:
    source = min((FOREIGN / name).rglob("*.parquet"))
    data = source.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    check_damaged(data, tmp_path / "x.parquet", footer, name)


class TestByPyarrow:
    """Files that pyarrow writes here, with what the golden ones lack."""

    def written(self, path: Path, columns: dict[str, Any], **options: Any) -> bushel.Dataset:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table(columns), path, **options)
        return bushel.open(path, index="memory")

    def test_nested_values_are_json(self, tmp_path: Path) -> None:
        meta: list[Any] = [{"a": 1, "b": [{"c": "x"}]}, None, {"a": None, "b": []}]
        dataset = self.written(tmp_path / "x.parquet", {"meta": meta, "lists": [[[1], []], [], None]})
        assert [sample.get("meta") for sample in dataset] == meta
        assert [sample.get("lists") for sample in dataset] == [[[1], []], [], None]

    @pytest.mark.parametrize(
        ("head", "codec", "plain"),
        [
            (b"\xff\xfb\x90\x64", "mp3", "bytes"),
            (b"ID3\x04", "mp3", "mp3"),
            (b"fLaC", "flac", "flac"),
            (b"\0\0\0\x20ftypM4A ", "audio", "audio"),
        ],
    )
    def test_features_tell_sounds_from_other_bytes(self, tmp_path: Path, head: bytes, codec: str, plain: str) -> None:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pyarrow.table({"sound": [{"bytes": head + bytes(40), "path": None}]})
        for kind, wanted in (("Audio", codec), ("Other", plain)):
            metadata = {"huggingface": json.dumps({"info": {"features": {"sound": {"_type": kind}}}})}
            parquet.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
            assert bushel.open(tmp_path / "x.parquet", index="memory").spec["sound"] == wanted

    @pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
    @pytest.mark.parametrize("version", ["1.0", "2.0"])
    @pytest.mark.parametrize(
        ("encoding", "names"),
        [
            ("DELTA_BINARY_PACKED", ["int", "small", "unsigned", "day", "ints"]),
            ("DELTA_LENGTH_BYTE_ARRAY", ["text", "blob", "texts"]),
            ("DELTA_BYTE_ARRAY", ["text", "blob", "texts", "fixed"]),
            ("BYTE_STREAM_SPLIT", ["int", "real", "half", "halves", "fixed"]),
        ],
    )
    def test_the_encoding_of_a_column_does_not_change_its_type(
        self, tmp_path: Path, compression: str, version: str, encoding: str, names: list[str]
    ) -> None:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        rng = random.Random(encoding)
        count = 1000

        def some(make: Any) -> list[Any]:
            return [None if rng.random() < 0.1 else make() for _ in range(count)]

        def blob() -> bytes:
            return b"path/to/" + rng.randbytes(rng.randrange(20))

        columns = {
            "int": pa.array(some(lambda: rng.randrange(-(1 << 63), 1 << 63)), pa.int64()),
            "small": pa.array(some(lambda: rng.randrange(-(1 << 31), 1 << 31)), pa.int32()),
            "unsigned": pa.array(some(lambda: rng.randrange(1 << 64)), pa.uint64()),
            "day": pa.array(some(lambda: rng.randrange(-9999, 9999)), pa.int32()).cast(pa.date32()),
            "real": pa.array(some(rng.random)),
            "half": pa.array(some(lambda: np.float16(rng.random())), pa.float16()),
            "text": pa.array(some(lambda: "é" * rng.randrange(9))),
            "blob": pa.array(some(blob)),
            "fixed": pa.array(some(lambda: rng.randbytes(5)), pa.binary(5)),
            "ints": pa.array(some(lambda: [rng.randrange(9)] * rng.randrange(5)), pa.list_(pa.int32())),
            "halves": pa.array(some(lambda: [np.float16(0.5)] * rng.randrange(5)), pa.list_(pa.float16())),
            "texts": pa.array(some(lambda: ["", "ab", "abc"][: rng.randrange(4)])),
        }
        table = pa.table({name: columns[name] for name in names})
        leaf = {"ints": "ints.list.element", "halves": "halves.list.element", "texts": "texts.list.element"}
        found = []
        for number, encodings in enumerate((None, {leaf.get(name, name): encoding for name in names})):
            path = tmp_path / f"{number}.parquet"
            parquet.write_table(
                table,
                path,
                use_dictionary=False,
                column_encoding=encodings,
                compression=compression,
                data_page_version=version,
                data_page_size=1000,
                row_group_size=300,
            )
            found.append(bushel.open(path, index="memory"))
        plain, encoded = found
        assert encoded.spec == plain.spec
        assert "json" not in plain.spec.values()
        stored = plain.read(range(count), decode=False)
        order = rng.sample(range(count), count)
        assert encoded.read(range(count), decode=False) == stored
        assert encoded.read(order, decode=False) == [stored[place] for place in order]
        for name in {"int", "real", "text", "blob", "fixed"}.intersection(names):
            assert [sample.get(name) for sample in encoded] == table.column(name).to_pylist()

    def test_photos_after_their_lengths_are_photos(self, tmp_path: Path) -> None:
        photo = next((FOREIGN / "folder").rglob("*.jpg")).read_bytes()
        options: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"x": "DELTA_LENGTH_BYTE_ARRAY"}}
        for compression in ("none", "snappy"):
            values = {"x": [photo, photo[:-1]]}
            dataset = self.written(tmp_path / "x.parquet", values, compression=compression, **options)
            assert dataset.spec == {"x": "image"}
            assert [each["x"] for each in dataset.read([1, 0], decode=False)] == [photo[:-1], photo]

    @pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
    @pytest.mark.parametrize("version", ["1.0", "2.0"])
    def test_all_types_through_all_pages(self, tmp_path: Path, compression: str, version: str) -> None:
        rng = random.Random(compression + version)
        count = 3000
        columns: dict[str, list[Any]] = {
            "text": [None if rng.random() < 0.1 else "word " * rng.randrange(9) for _ in range(count)],
            "few": [rng.choice(["cat", "dog", "hen"]) for _ in range(count)],
            "blob": [rng.randbytes(rng.randrange(300)) for _ in range(count)],
            "number": [rng.randrange(-(1 << 62), 1 << 62) for _ in range(count)],
            "truth": [rng.random() < 0.5 for _ in range(count)],
            "real": [None if rng.random() < 0.5 else rng.random() for _ in range(count)],
            "tokens": [[rng.randrange(50) for _ in range(rng.randrange(40))] for _ in range(count)],
            "names": [
                None if rng.random() < 0.1 else ["x" * rng.randrange(5)] * rng.randrange(4) for _ in range(count)
            ],
        }
        options = {"compression": compression, "data_page_version": version, "data_page_size": 4096}
        dataset = self.written(tmp_path / "x.parquet", columns, row_group_size=700, **options)
        places = rng.sample(range(count), 500)
        for place, sample in zip(places, dataset.read(places), strict=True):
            for name, values in columns.items():
                found: Any = sample.get(name)
                assert (found.tolist() if name == "tokens" else found) == values[place], (place, name)


def test_row_groups_without_rows(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"n": [1, 2, 3], "t": ["a", "b", "c"], "l": [[1], [], None], "j": [{"x": 1}] * 3})
    parquet.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    empty = bushel.open(tmp_path / "none.parquet", index="memory")
    assert (len(empty), list(empty), list(bushel.Loader(empty, 4, shuffle=True))) == (0, [], [])
    with parquet.ParquetWriter(tmp_path / "some.parquet", table.schema) as writer:
        for first, last in ((0, 0), (0, 1), (0, 0), (1, 3), (0, 0)):
            writer.write_table(table.slice(first, last - first))
    dataset = bushel.open(tmp_path / "some.parquet", index="memory")
    assert parquet.ParquetFile(tmp_path / "some.parquet").num_row_groups == 5
    assert [(sample["n"], sample["t"], sample["j"]) for sample in dataset] == [
        (1, "a", {"x": 1}),
        (2, "b", {"x": 1}),
        (3, "c", {"x": 1}),
    ]


def test_columns_of_the_same_name_are_refused(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table([[1], [2], [3]], names=["a", "b", "a"]), tmp_path / "x.parquet")
    with pytest.raises(FormatError, match="several columns have the name 'a'"):
        bushel.open(tmp_path / "x.parquet", index="memory")


def test_encrypted_files_are_not_called_damaged(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    wrapping = {
        "wrap_key": lambda _, key, __: base64.b64encode(key),
        "unwrap_key": lambda _, key, __: base64.b64decode(key),
    }
    keys = type("Keys", (encryption.KmsClient,), wrapping)
    factory = encryption.CryptoFactory(lambda _: keys())
    table = pa.table({"a": [1], "b": [2]})
    for plain in (False, True):
        configuration = encryption.EncryptionConfiguration("f", column_keys={"c": ["a"]}, plaintext_footer=plain)
        properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)
        parquet.write_table(table, tmp_path / "x.parquet", encryption_properties=properties)
        with pytest.raises(FormatError, match="encrypted, which Bushel does not read.*without encryption") as caught:
            bushel.open(tmp_path / "x.parquet", index="memory")
        assert "damaged" not in str(caught.value)


@pytest.mark.parametrize("integers", [False, True], ids=["bytes", "integers"])
def test_decimals_are_texts_of_their_value(integers: bool, tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = [Decimal("1.25"), None, Decimal("-3.50")]
    columns = {f"d{digits}": pa.array(values, pa.decimal128(digits, 2)) for digits in (9, 18, 38)}
    columns["list"] = pa.array([values, [], None], pa.list_(pa.decimal128(9, 2)))
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet", store_decimal_as_integer=integers)
    dataset = bushel.open(tmp_path / "rows.parquet")
    assert dataset.spec == dict.fromkeys(columns, "json")
    texts = ["1.25", None, "-3.50"]
    for digits in (9, 18, 38):
        assert [sample.get(f"d{digits}") for sample in dataset] == texts
    assert [sample.get("list") for sample in dataset] == [texts, [], None]


def test_numbers_of_16_bits_are_numbers(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    halves = np.array([0.5, -2.0, 65504.0], np.float16)
    columns = {"half": pa.array(halves), "list": pa.array([list(halves), [], None], pa.list_(pa.float16()))}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    dataset = bushel.open(tmp_path / "rows.parquet")
    assert [sample["half"] for sample in dataset] == [0.5, -2.0, 65504.0]
    lists = [sample["list"] for sample in dataset[:2]]
    assert [(each.dtype, each.tolist()) for each in lists] == [("float16", [0.5, -2.0, 65504.0]), ("float16", [])]
    assert "list" not in dataset[2]
    assert dataset.spec == {"half": "float", "list": "array"}
    assert dataset.column("half").tolist() == [0.5, -2.0, 65504.0]
    batch = next(iter(bushel.Loader(dataset, 3, fields=["half"])))
    assert np.array_equal(batch["half"], [0.5, -2.0, 65504.0])


def test_nan_and_infinity_inside_other_values_are_no_nulls(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"x": math.nan, "y": -math.inf, "t": "ü"}, {"x": None, "y": 1.5, "t": None}]
    parquet.write_table(pa.table({"row": pa.array(rows)}), tmp_path / "rows.parquet")
    dataset = bushel.open(tmp_path / "rows.parquet")
    assert repr([sample["row"] for sample in dataset]) == repr(rows)


def test_a_column_of_which_pyarrow_has_too_few_values_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has none of lists of truth values whose pages have the encoding RLE (version 26)."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"flags": [[True], [False, True], []]}), tmp_path / "a.parquet")
    monkeypatch.setattr("bushel.containers.parquet.table.Table.pieces", lambda _table, _name: iter(()))
    with pytest.raises(FormatError, match="column 'flags': pyarrow reads 0 of 3 values") as caught:
        bushel.open(tmp_path / "a.parquet", index="memory")
    assert "without this column" in (caught.value.hint or "")


def test_a_column_of_paths_beside_no_bytes_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    rows = [{"bytes": None, "path": "a.jpg"}, {"bytes": None, "path": "b.jpg"}]
    parquet.write_table(pyarrow.table({"image": pyarrow.array(rows, kind), "n": [1, 2]}), tmp_path / "x.parquet")
    assert [sample["n"] for sample in bushel.open(tmp_path / "x.parquet")] == [1, 2]
    assert "x.parquet: no row of the column 'image' has bytes, only paths of files" in caplog.text


YEARS = {"x": [1, 2, 3, 4], "year": [2020, 2021, 2021, None], "m n": ["01", "02", "a b", "\u00e9"]}


@pytest.mark.parametrize("columns", [["year"], ["year", "m n"], ["m n", "year"]])
def test_columns_that_folders_hold(columns: list[str], tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({name: YEARS[name] for name in ("x", *columns)})
    pq.write_to_dataset(table, str(tmp_path / "set"), partition_cols=columns)
    rows = {row["x"]: row for row in pq.read_table(str(tmp_path / "set")).to_pylist()}
    bushel.pack(tmp_path / "set", tmp_path / "packed.tar")
    for path in ("set", "packed.tar", "set"):
        ds = bushel.open(tmp_path / path)
        assert {sample["x"]: {name: sample.get(name) for name in rows[1]} for sample in ds} == rows
        assert {row["x"] for row in ds.where("year == 2021")} == {2, 3}
        assert bushel.index(tmp_path / path).fingerprint == bushel.open(tmp_path / path).fingerprint
        assert bushel.verify(tmp_path / path).ok


def test_a_column_of_a_file_is_not_taken_from_its_folder(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in ("x=1/a.parquet", "x=1/_metadata.parquet", "x=2/y/b.parquet", "x=2/c.PARQUET"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [7]}), tmp_path / name)
    assert [sample["x"] for sample in bushel.open(tmp_path)] == [7, 7]


def test_folders_of_a_partitioned_dataset_are_listed_once_for_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    listed: list[Path] = []
    listing = Path.iterdir

    def counted(path: Path) -> Iterator[Path]:
        listed.append(path)
        return iter(listing(path))

    monkeypatch.setattr(Path, "iterdir", counted)

    def listings_of(files: int) -> int:
        root = tmp_path / f"of {files}"
        for number in range(files):
            folder = root / f"year={number}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"n": [number]}), folder / "part-0.parquet")
        listed.clear()
        dataset = bushel.open(root, index="memory")
        assert [sample["year"] for sample in dataset] == sorted(range(files), key=str)
        return listed.count(root)

    assert listings_of(12) == listings_of(3)


def test_folders_of_one_name_at_other_depths_are_other_columns(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for folder in ("k=1", "k=2/k=zz"):
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(pa.table({"v": [1]}), tmp_path / folder / "a.parquet")
    assert [sample["k"] for sample in bushel.open(tmp_path, index="memory")] == [1, 2]
