"""Arrays of JSON are read like lines: the same samples, and an error for everything that is no array of objects."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bushel
from bushel.containers import read_forward

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('ab"\\{}[],: \n\té😀'), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["aa", 'b"', "\\]"]), VALUES, max_size=3), max_size=6)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the samples without keys and without missing values."""
    dataset = bushel.open(path, index="memory", on_damage="raise")
    return [{name: value for name, value in sample.items() if name != "__key__"} for sample in dataset]


@given(ROWS, st.sampled_from([None, 0, 3]), st.booleans(), st.sampled_from(["", "\n", " \r\n\t"]), st.integers(1, 40))
@example([{"a": "\\\\"}, {"a": '\\"'}], None, False, "", 8)
def test_any_array_has_the_samples_of_its_lines(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    indent: int | None,
    raw: bool,
    space: str,
    chunk: int,
) -> None:
    folder = tmp_path_factory.mktemp("arrays")
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = json.dumps(rows, indent=indent, ensure_ascii=not raw, separators=(space + ",", ": ") if space else None)
    (folder / "x.json").write_text(space + text + space, newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_forward, "_CHUNK", chunk)
        found = read(folder / "x.json")
    assert found == read(folder / "x.jsonl")


@given(ROWS, st.data())
def test_a_damaged_array_is_refused_or_is_what_json_says(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    text = json.dumps(rows)
    at = data.draw(st.integers(0, len(text) - 1))
    text = text[:at] + data.draw(st.sampled_from(["", ",", "]", "}", '"', "[", "{", "5", " "])) + text[at + 1 :]
    path = tmp_path_factory.mktemp("damaged") / "x.json"
    path.write_text(text)
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if not isinstance(expected, list) or not all(isinstance(row, dict) for row in expected):
        with pytest.raises((bushel.errors.FormatError, bushel.errors.CodecError)):
            read(path)
        return
    found = read(path)
    assert len(found) == len(expected)
    for sample, row in zip(found, expected, strict=True):
        assert sample == {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize("suffix", [".json.gz", ".json"])
def test_compressed_files_columns_and_packing(tmp_path: Path, suffix: str) -> None:
    rows = [{"id": number, "text": f"photo {number}"} for number in range(2000)]
    path, text = tmp_path / f"rows{suffix}", json.dumps(rows).encode()
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    dataset = bushel.open(path)
    assert (len(dataset), dataset.spec) == (2000, {"id": "int", "text": "utf8"})
    assert [sample["text"] for sample in dataset.where("id >= 1998")] == ["photo 1998", "photo 1999"]
    assert bushel.pack(path, tmp_path / "out", container="bag").samples == 2000
    assert bushel.verify(path).ok


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"images": [{"id": 1}]}', r"is an object, not an array of objects.*jq -c '\.NAME\[\]'"),
        ('"x"', "is not an array of objects"),
        ("", "is not an array of objects"),
        ("[1, 2]", "@1: object 1: expected an object"),
        ('[{"a": 1}, 5]', "object 2: expected an object"),
        ('[{"a": 1},]', "object 2: expected an object"),
        ('[{"a": 1},, {"a": 2}]', "object 2: expected an object"),
        ('[{"a": 1} {"a": 2}]', "object 1: expected the end"),
        ('[{"a": 1}] [{"a": 2}]', "@11: something follows the array"),
        ('[{"a": 1}, {"a": 2}', "the array does not end"),
    ],
)
def test_the_errors_say_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(bushel.errors.FormatError, match=says):
        read(tmp_path / "x.json")
    if text.startswith('[{"a": 1}, {"a": 2}'):
        with pytest.warns(bushel.errors.DamagedWarning, match="does not end"):
            assert [sample["a"] for sample in bushel.open(tmp_path / "x.json")] == [1, 2]


def test_a_long_run_of_spaces_takes_no_long_time(tmp_path: Path) -> None:
    text = "[" + ",".join('{"a": 1}' + " " * 20_000 for _ in range(500)) + "]"
    (tmp_path / "x.json").write_text(text)
    assert len(read(tmp_path / "x.json")) == 500


def test_json_in_a_folder_is_no_dataset_of_rows(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"a": 1}]')
    with pytest.raises(bushel.errors.FormatError):
        bushel.open(tmp_path)
    assert set(read_forward.ARRAYS) == {".json", ".json.gz", ".json.zst"}


def test_lines_in_a_file_that_is_named_like_an_array(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}\n{"a": [2]}\n\n')
    assert [sample["a"] for sample in bushel.open(tmp_path / "x.json")] == [1, [2]]
    for text in ('{"a": 1}\n', '{\n"a": 1}\n{}', '{"a": [\n{}]}', '{"a": 1}\n[2]'):
        (tmp_path / "y.json").write_text(text)
        with pytest.raises(bushel.errors.FormatError, match="its text is an object, not an array"):
            bushel.open(tmp_path / "y.json")
