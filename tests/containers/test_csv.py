"""Records of CSV and TSV, read in place, as Python's `csv` reads them."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.read_in_place import check_damaged

import bushel
from bushel.errors import FormatError, SpecError
from bushel.testing import READABLE_CHECKS, Golden, Readable

TABLE = 'id,text,score,"n ""x"""\r\n1,"a, ""b""\nc",0.5,\r\n\r\n-2,plain,2,7\r\n'
SAMPLES = [{"id": 1, "text": 'a, "b"\nc', "score": 0.5}, {"id": -2, "text": "plain", "score": 2.0, 'n "x"': 7}]


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    with bushel.open(path, index="memory", **options) as dataset:
        samples = [dict(each) for each in dataset]
        assert dataset.read(range(len(dataset))) == samples
    return [{name: value for name, value in sample.items() if name != "__key__"} for sample in samples]


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.filterwarnings("ignore:the order")  # of so small a block
@pytest.mark.parametrize("check", READABLE_CHECKS)
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv.gz"])
def test_conformance(name: str, check: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "checked").mkdir()
    path, data = tmp_path / "in" / name, TABLE.encode()
    path.write_bytes(gzip.compress(data.replace(b",", b"\t")) if name.endswith("gz") else data)
    samples = [{**each, "text": str(each["text"]).replace(",", "\t")} for each in SAMPLES] if "tsv" in name else SAMPLES
    READABLE_CHECKS[check](Readable("csv", Golden(path, samples), tmp_path / "checked"))


def test_cells_and_types(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", TABLE)
    assert read(path) == SAMPLES
    dataset = bushel.open(path, index="memory")
    assert dict(dataset.spec) == {"id": "int", "text": "utf8", "score": "float", 'n "x"': "int"}
    assert dataset.columns == ("id", "score", 'n "x"')
    assert dataset.column("score").tolist() == [0.5, 2.0]


def test_other_text_than_a_number_stays_text(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", 'zip,quoted,mixed,big,empty\n007,"1",1,18446744073709551616,""\n010,"2",x,1,\n')
    assert read(path) == [
        {"zip": "007", "quoted": "1", "mixed": "1", "big": 1 << 64, "empty": ""},
        {"zip": "010", "quoted": "2", "mixed": "x", "big": 1},
    ]
    assert [each["quoted"] for each in read(path, spec={"quoted": "int"})] == [1, 2]


def test_a_file_without_a_header(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "1,a\n2,b\n")
    assert read(path, spec={"id": "int", "name": "utf8"}) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert read(path) == [{"1": 2, "a": "b"}]
    with pytest.raises(SpecError, match="no column 'id': its first line has 1, a"):
        bushel.open(path, index="memory", spec={"id": "int"})
    # declared fields do not change the delimiter
    path = written(tmp_path / "y.csv", '"id",a|b,label\n1,x|y,2\n')
    assert read(path, spec={"id": "int", "label": "int"}) == [{"id": 1, "a|b": "x|y", "label": 2}]
    with pytest.raises(SpecError, match="no columns? 'ids'"):
        bushel.open(path, index="memory", spec={"ids": "int", "labels": "int"})


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters(delimiter: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "a,b\n1,2\n".replace(",", delimiter))
    assert read(path) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ('"Name, first";Age', ["Name, first", "Age"]),
        ('Age;"Name, ""first"""', ["Age", 'Name, "first"']),
        ('"two\nlines";Age', ["two\nlines", "Age"]),
        ('"a;b","c|d"', ["a;b", "c|d"]),
        ('5" disk;"a,b"', ['5" disk', "a,b"]),
    ],
)
def test_the_delimiter_is_not_looked_for_in_quotes(header: str, names: list[str], tmp_path: Path) -> None:
    delimiter = "," if '","' in header else ";"
    path = written(tmp_path / "x.csv", f"{header}\nx{delimiter}3\n")
    assert bushel.open(path, index="memory")[0] == {"__key__": "0", names[0]: "x", names[1]: 3}


def test_odd_headers(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a.csv", "﻿,a\n0,5\n")) == [{"Unnamed: 0": 0, "a": 5}]
    assert read(written(tmp_path / "b.csv", "a,b\n")) == []
    assert read(written(tmp_path / "c.csv", "")) == []
    with pytest.raises(FormatError, match="two columns are called 'a'"):
        read(written(tmp_path / "d.csv", "a,a\n1,2\n"))
    with pytest.raises(FormatError, match="too many cells"):
        read(written(tmp_path / "e.csv", ",".join(map(str, range(1_000_000))) + "\n"))
    with pytest.raises(FormatError, match="quotes of a cell do not end"):
        read(written(tmp_path / "f.csv", '"a,b\n1,2\n'))
    assert read(written(tmp_path / "g.csv", '"a\rb",c\n1,2\n')) == [{"a\rb": 1, "c": 2}]


def test_lines_that_end_with_a_carriage_return_alone_are_not_a_header(tmp_path: Path) -> None:
    path = tmp_path / "mac.csv"
    path.write_bytes(b"a,b\r1,2\r3,4\r")
    with pytest.raises(FormatError, match=r"line 1: a carriage return .* in b'b\\r1'.*tr '\\r' '\\n'"):
        bushel.open(path)


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.zst"])
def test_a_compressed_file_of_no_bytes(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(FormatError, match="it has 0 bytes"):
        bushel.open(tmp_path / name)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("1", "fewer cells"),
        ("1,2,3", "more cells"),
        ('1,"a"b', "after a quoted cell"),
        ('1,"a', "quotes of a cell do not end"),
    ],
)
def test_a_damaged_record(record: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", f'a,b\n1,"x\ny"\n{record}\n5,6\n')
    with pytest.raises(FormatError, match=f"line 4: .*{message}") as caught:
        bushel.index(path)
    assert caught.value.offset in range(12, 12 + len(record) + 6)
    with pytest.warns(bushel.errors.DamagedWarning):
        dataset = bushel.open(path, index="memory")
    assert dataset[0]["b"] == "x\ny"


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8), st.booleans())
def test_any_cells(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], quote: bool) -> None:
    rows = [["x", "y"], *rows]  # spec= may not name a field that no record has
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL).writerows([["a", "b"], *rows])
    path = written(tmp_path_factory.mktemp("any") / "x.csv", text.getvalue())
    found = read(path, spec={"a": "utf8", "b": "utf8"})
    wanted = [dict(zip("ab", row, strict=True)) for row in rows]
    if not quote:  # an empty cell without quotes is a missing value
        wanted = [{name: cell for name, cell in row.items() if cell} for row in wanted]
    assert found == wanted


@pytest.mark.filterwarnings("ignore::bushel.errors.DamagedWarning")
def test_damage_gives_an_error_that_names_the_file_or_other_values(tmp_path: Path) -> None:
    data = TABLE.encode() + b"".join(b'%d,"text, %d",0.5,%d\n' % (i, i, i) for i in range(40))
    check_damaged(data, tmp_path / "x.csv", 20, "csv")


def test_repair_keeps_the_types_on_record(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "n,s\n1,a\n2,b\n3,c\n")
    bushel.index(path)
    path.write_bytes(path.read_bytes().replace(b"2,b", b"5.5,b"))
    assert bushel.open(path, index="memory").spec["n"] == "float"
    assert bushel.repair(path, tmp_path / "out.rec", to="recordio").samples == 2
    found = [each["n"] for each in bushel.open(tmp_path / "out.rec")]
    assert [(number, type(number)) for number in found] == [(1, int), (3, int)]


@pytest.mark.parametrize(
    ("one", "two", "is_table"),
    [
        ("x,y\n1,a\n", "2,b\n3,c\n", False),
        ("1.jpg,0\n2.jpg,1\n", "3.jpg,0\n4.jpg,1\n", False),  # a number in common means nothing
        ("x,y\n1,a\n", "y,z\n2,3\n", True),
        ("x,y\n1,a\n", "x\n2\n", True),
        ("0,1\n1,2\n", "0,1,2\n3,4,5\n", True),
        ("1999,2000\n1,2\n", "2000,2001\n3,4\n", True),  # years
        ("", "x\n1\n", True),
    ],
)
def test_a_file_without_a_header_is_not_taken_for_one_of_other_columns(
    one: str, two: str, is_table: bool, tmp_path: Path
) -> None:
    written(tmp_path / "a.csv", one)
    written(tmp_path / "b.csv", two)
    if is_table:
        assert len(bushel.open(tmp_path)) == one.count("\n") + two.count("\n") - 2 + (not one)
        return
    with pytest.raises(FormatError, match=r"b\.csv: its first line \(.*\) has no name of .*a\.csv .* spec="):
        bushel.open(tmp_path)
    assert len(bushel.open(tmp_path, spec={"x": "utf8", "y": "utf8"})) >= 3


@pytest.mark.parametrize("text", ["5.1,3.5,setosa\n4,3,setosa\n", "7,3\n1,2\n"])
def test_a_first_line_of_numbers_is_said_to_be_read_as_names(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bushel.open(written(tmp_path / "x.csv", text))
    assert "is read as the names of the columns" in caplog.text
    caplog.clear()
    bushel.open(written(tmp_path / "y.csv", "0,1\n4,3\n"))
    bushel.open(written(tmp_path / "z.csv", "country,1999,2000\nX,3,4\n"))
    assert not caplog.text
