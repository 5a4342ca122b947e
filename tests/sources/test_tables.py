from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.sources.folders import image_folder, jpeg

import bushel
from bushel.errors import FormatError
from bushel.sources import Frames, Table
from bushel.sources.opening import recognised
from bushel.sources.tables import first_row, read_rows
from bushel.testing import check_source


def test_csv_with_a_line_of_names(tmp_path: Path) -> None:
    image_folder(tmp_path, 2)
    path = tmp_path / "set.csv"
    path.write_text('path,label,weight,note\nclass0/0000.jpg,cat,0.5,"a, b"\nclass1/0001.jpg,ant,2,c\n')
    source = Table(path)
    check_source(source)
    assert source.spec == {"image": "jpg", "label": "utf8", "weight": "float", "note": "utf8", "idx": "int"}
    assert source.label2idx == {"ant": 0, "cat": 1}
    assert source[0] == {
        "__key__": "class0/0000",
        "image": jpeg(0),
        "label": "cat",
        "weight": 0.5,
        "note": "a, b",
        "idx": 1,
    }


def test_rows_for_one_file_and_files_of_one_name_have_keys_of_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image_folder(tmp_path, 2)
    (tmp_path / "class0/0000.png").write_bytes(jpeg(0))
    path = tmp_path / "set.csv"
    rows = ["class0/0000.jpg,1", "class1/0001.jpg,2", "class1/0001.jpg,3", "class0/0000.png,4"]
    path.write_text("\n".join(["path,n", *rows]))
    bushel.pack(path, tmp_path / "out.bag", container="bag")
    assert "files with several rows: 1" in caplog.text
    packed = bushel.open(tmp_path / "out.bag")
    keys = ["class0/0000.jpg", "class1/0001#0", "class1/0001#1", "class0/0000.png"]
    assert [(sample["__key__"], sample["n"]) for sample in packed] == [(key, at) for at, key in enumerate(keys, 1)]
    assert [Table(path, key="{n}")[at]["__key__"] for at in range(4)] == ["1", "2", "3", "4"]


def test_csv_without_names_and_with_semicolons(tmp_path: Path) -> None:
    for number in (5, 6):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(number))
    path = tmp_path / "set.csv"
    path.write_text("5;Pushing something\n6;Holding, then dropping\n")
    source = Table(path, columns=["id", "label"], file="{id}.jpg", key="{id}")
    check_source(source)
    assert source.spec == {"image": "jpg", "label": "utf8", "idx": "int"}
    assert [source[at]["__key__"] for at in range(2)] == ["5", "6"]
    assert source[1]["label"] == "Holding, then dropping"


@pytest.mark.parametrize("name", ["set.json", "set.json.gz", "set.jsonl"])
def test_json(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(0))
    rows = [{"path": "a.jpg", "boxes": [[1, 2]], "label": 4}]
    text = "\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows)
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    source = Table(tmp_path / name)
    check_source(source)
    assert source.spec == {"image": "jpg", "boxes": "json", "label": "int"}
    assert source[0] == {"__key__": "a", "image": jpeg(0), "boxes": [[1, 2]], "label": 4}


def test_folders_of_frames(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "77").mkdir(exist_ok=True)
        (tmp_path / f"77/{number:02d}.jpg").write_bytes(jpeg(number))
    source = Table([{"id": "77"}], Frames(stride=2), root=tmp_path, file="{id}", key="{id}")
    check_source(source)
    assert source.spec == {"frames": "jpg[]"}
    assert source[0]["frames"] == [jpeg(0), jpeg(2)]


def test_a_star_stands_for_the_one_file_that_fits(tmp_path: Path) -> None:
    (tmp_path / "7[1]").mkdir()
    (tmp_path / "7[1]/any.jpg").write_bytes(jpeg(1))
    source = Table([{"id": "7[1]"}], root=tmp_path, file="{id}/*.jpg", key="{id}")
    assert source[0]["image"] == jpeg(1)
    (tmp_path / "7[1]/two.jpg").write_bytes(jpeg(1))
    with pytest.raises(FileNotFoundError, match="2 files match .* but exactly one should"):
        source[0]


def test_known_labels_keep_their_numbers(tmp_path: Path) -> None:
    source = Table([{"path": "a.jpg", "label": "x"}], root=tmp_path, label2idx={"y": 3})
    assert source.label2idx == {"y": 3, "x": 4}


def test_malformed_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("path,label\na.jpg,1\nb.jpg,1,2\n")
    with pytest.raises(FormatError, match=r"set\.csv: line 3: 3 values for the 2 columns"):
        Table(path)
    path = tmp_path / "set.json"
    path.write_text('{"a": 1}')
    with pytest.raises(FormatError, match="expected a list of objects"):
        Table(path)
    path.write_text("[")
    with pytest.raises(FormatError, match="invalid JSON"):
        Table(path)
    path = tmp_path / "set.json.gz"
    path.write_bytes(b"[]")
    with pytest.raises(FormatError, match="invalid gzip file"):
        read_rows(path)


def test_a_row_without_a_column(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="row 1 has no 'path': it has label"):
        Table([{"path": "a.jpg", "label": 1}, {"label": 2}], root=tmp_path)


ROWS = {"id": ["a", "b"], "n": [1, 2], "text": ["hi", "ho, ho"]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", 'id,n,text\na,1,hi\nb,2,"ho, ho"\n'),
        ("rows.tsv", "id\tn\ttext\na\t1\thi\nb\t2\tho, ho\n"),
        ("rows.json", '[{"id": "a", "n": 1, "text": "hi"},\n{"id": "b", "n": 2, "text": "ho, ho"}]'),
        ("rows.jsonl", '\n{"id": "a", "n": 1, "text": "hi"}\n{"id": "b", "n": 2, "text": "ho, ho"}\n'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_rows_that_name_no_files_are_a_dataset(tmp_path: Path, name: str, text: str, packed: bool) -> None:
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert recognised(path)[0] == "dataset"
    done = bushel.pack(path, tmp_path / "out", container="bag")
    assert done.samples == 2
    written = bushel.open(tmp_path / "out")
    assert {field: [sample[field] for sample in written] for field in ROWS} == ROWS
    bushel.convert(bushel.open(path), tmp_path / "again", container="bag")
    assert bushel.diff(written, bushel.open(tmp_path / "again")).same


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", "path,n\nx.jpg,1\n", ()),
        ("a.csv", "photo,n\nx.JPG,1\n", ()),  # whose error tells how to name the column
        ("a.csv", "id,n\nx,1\n", ("file",)),
        ("a.jsonl", '{"clip": "x.mp4"}\n', ()),
        ("a.json", '\n [{"id": 1, "file": "x.png"}]', ()),
    ],
)
def test_rows_that_name_files_are_a_table(tmp_path: Path, name: str, text: str, options: tuple[str, ...]) -> None:
    (tmp_path / name).write_text(text)
    assert recognised(tmp_path / name, options)[0] == "table"


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b'"', b'{"a": ', b"[1]\n", b"[[[{"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.csv.gz", "a.json"])
def test_the_first_row_of_a_malformed_table_is_empty(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert first_row(tmp_path / name) == {}


def test_a_column_has_numbers_as_json_writes_them(tmp_path: Path) -> None:
    """As in a table that is read in place, or beside photos: a text that is like a number stays one."""
    image_folder(tmp_path, 1)
    columns = {
        "int": "-7",
        "float": "2.5e3",
        "a": "nan",
        "b": "inf",
        "c": "1_000",
        "d": "007",
        "e": "+1",
        "f": "",
        "g": ".5",
    }
    path = tmp_path / "set.csv"
    path.write_text(f"path,{','.join(columns)}\nclass0/0000.jpg,{','.join(columns.values())}\n")
    spec = Table(path).spec
    assert [spec[name] for name in columns] == ["int", "float", *["utf8"] * 7]
    rows = [{"path": "class0/0000.jpg", "x": 1, "y": 1}, {"path": "class0/0000.jpg", "x": 0.5, "y": "1"}]
    assert [Table(rows, root=tmp_path).spec[name] for name in "xy"] == ["float", "json"]


def test_the_delimiter_is_that_of_csv_files(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('id,"a;b;c"\n1,2\n')
    assert read_rows(tmp_path / "rows.csv") == [{"id": "1", "a;b;c": "2"}]
    assert bushel.open(tmp_path / "rows.csv")[0] == {"__key__": "0", "id": 1, "a;b;c": 2}
