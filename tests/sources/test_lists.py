from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.sources.folders import image_folder, jpeg, png

from bushel.errors import FormatError
from bushel.sources import ListFile
from bushel.sources.lists import ListLine, format_line, parse_line
from bushel.testing import check_source


def written(tmp_path: Path, text: str) -> Path:
    image_folder(tmp_path, 3)
    path = tmp_path / "set.lst"
    path.write_text(text)
    return path


def test_one_label(tmp_path: Path) -> None:
    path = written(tmp_path, "7\t2.000000\tclass1/0001.jpg\r\n\n3\t0\tclass0/0000.jpg\n")
    source = ListFile(path)
    check_source(source)
    assert source.spec == {"image": "jpg", "label": "int"}
    assert [dict(source[at]) for at in range(2)] == [
        {"__key__": "7", "image": jpeg(1), "label": 2},
        {"__key__": "3", "image": jpeg(0), "label": 0},
    ]
    assert source.origin(0) == str(tmp_path / "class1/0001.jpg")


def test_a_label_that_is_no_whole_number_makes_all_of_them_real(tmp_path: Path) -> None:
    source = ListFile(written(tmp_path, "0\t0.5\tclass0/0000.jpg\n1\t2\tclass1/0001.jpg\n"))
    assert source.spec["label"] == "float"
    assert [source[at]["label"] for at in range(2)] == [0.5, 2.0]


def test_several_labels(tmp_path: Path) -> None:
    path = written(tmp_path, "0\t2\t5\t0.25\tclass0/0000.jpg\n1\t1\tclass1/0001.jpg\n")
    source = ListFile(path)
    check_source(source)
    assert source.spec["label"] == "array"
    np.testing.assert_array_equal(source[0]["label"], np.array([2, 5, 0.25], np.float32))
    np.testing.assert_array_equal(source[1]["label"], np.array([1], np.float32))
    assert ListFile(path, first_label=True).spec["label"] == "int"
    assert ListFile(path, first_label=True)[0]["label"] == 2


def test_paths_begin_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    path = tmp_path / "lists/set.lst"
    path.write_text("0\t1\tclass0/0000.jpg\n")
    image_folder(tmp_path / "photos", 1)
    with pytest.raises(FileNotFoundError):
        ListFile(path)[0]
    assert ListFile(path, root=tmp_path / "photos")[0]["image"] == jpeg(0)


def test_several_kinds_of_images(tmp_path: Path) -> None:
    path = written(tmp_path, "0\t1\tclass0/0000.jpg\n1\t1\tx.PNG\n")
    (tmp_path / "x.PNG").write_bytes(png(0))
    assert ListFile(path).spec["image"] == "image"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x\t1\ta.jpg", "the index 'x' is not a number"),
        ("0 1 a.jpg", "expected index, label and path with tabs between them, found '0 1 a.jpg'"),
        ("0\tcat\ta.jpg", r"the labels \['cat'\] are not all numbers"),
        ("0\t1\t", "the path is missing"),
    ],
)
def test_a_malformed_line_is_an_error_of_its_item_only(tmp_path: Path, line: str, message: str) -> None:
    path = written(tmp_path, f"0\t1\tclass0/0000.jpg\n\n{line}\n")
    source = ListFile(path)
    assert source.spec["label"] == "int"
    assert source[0]["label"] == 1
    with pytest.raises(FormatError, match=f"line 3: {message}"):
        source[1]
    assert source.origin(1) == str(path)


def test_lines_are_written_as_im2rec_does() -> None:
    line = ListLine(12, (1.0, 0.5), "a b/é.jpg")
    assert format_line(line) == "12\t1.000000\t0.500000\ta b/é.jpg\n"
    assert parse_line(format_line(line)[:-1]) == line
