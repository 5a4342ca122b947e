"""The sanity check: the promises of its page, file names, and the exit code."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.compat.gulpio2.frames import frame, videos, write

from bushel.compat.gulpio2 import GulpChunk, GulpDirectory, sanity_utils
from bushel.compat.gulpio2.commands import gulp2_sanity_check
from bushel.compat.gulpio2.errors import GulpWarning


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "d", videos(4), per_chunk=2)


def failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Messages of the checks that failed, and the text printed for them."""
    code = gulp2_sanity_check([str(folder)])
    lines = capsys.readouterr().out.splitlines()
    messages = [line.removeprefix("Sanity Check: ") for line in lines if line.startswith("Sanity Check: ")]
    outcomes = [line for line in lines if line.startswith("Test ")]
    assert messages[1:] == [
        "Check for empty meta files",
        "Check for empty data files",
        "Check data file size equals size in meta file",
        "Check presence of duplicate ids",
    ]
    wrong = {message: text for message, text in zip(messages, outcomes, strict=True) if text != "Test passed"}
    assert code == (1 if wrong else 0)
    details = "".join(line for line in lines if line.startswith("    "))
    return wrong | ({"details": details} if details else {})


def test_malformed_entries_have_ids_too() -> None:
    chunks = [SimpleNamespace(meta_dict={"0": "x", "1": {}}, serializer=None)]
    directory: Any = SimpleNamespace(chunks=lambda: chunks)
    assert sanity_utils.extract_all_ids(directory) == ["0", "1"]


def test_fine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(folder, capsys) == {}


@pytest.mark.parametrize("name", ["videos", "many-chunks", "image-folder", "odd-names"])
def test_directories_of_the_original(golden: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(golden / "gulpio2-0.0.4" / name / "data", capsys) == {}


def test_empty_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "meta_0.gmeta").write_bytes(b"")
    (folder / "data_1.gulp").write_bytes(b"")
    wrong = failed(folder, capsys)
    assert wrong["Check for empty meta files"] == f"Test failed for: ['{folder}/meta_0.gmeta']"
    assert wrong["Check for empty data files"] == f"Test failed for: ['{folder}/data_1.gulp']"
    assert "data_0.gulp" in wrong["Check data file size equals size in meta file"]


@pytest.mark.parametrize("change", [-1, 4])
def test_sizes(folder: Path, change: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "data_1.gulp"
    whole = path.read_bytes()
    path.write_bytes(whole[:change] if change < 0 else whole + bytes(change))
    assert failed(folder, capsys) == {
        "Check data file size equals size in meta file": f"Test failed for: ['{folder}/data_1.gulp']"
    }


def test_an_old_id_that_was_appended_to_ends_the_file(folder: Path) -> None:
    [chunk, *_] = GulpDirectory(folder)
    with chunk.open("ab"):
        chunk.append("v0", {}, [frame(1)])
    assert sanity_utils.check_data_file_size(GulpDirectory(folder)) == []
    assert sanity_utils.check_for_duplicate_ids(GulpDirectory(folder)) == ["v0"]


def test_an_id_in_two_chunks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, [("v1", {}, [frame(1)])])
    assert failed(folder, capsys) == {
        "Check presence of duplicate ids": "Test failed for: ['v1']",
        "details": f"    'v1' is in {folder}/meta_0.gmeta, {folder}/meta_2.gmeta",
    }
    with pytest.warns(GulpWarning):
        assert sanity_utils.check_for_duplicate_ids(GulpDirectory(folder)) == ["v1"]


def test_an_id_twice_in_the_text_of_a_meta_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "meta_0.gmeta"
    entry = json.dumps(json.loads(path.read_text())["v0"])
    path.write_text(f'{{"v0": {entry}, ' + path.read_text()[1:])
    assert failed(folder, capsys)["Check presence of duplicate ids"] == "Test failed for: ['v0']"


def test_files_that_cannot_be_opened(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "meta_0.gmeta").write_text("{")
    (folder / "data_7.gulp").touch()
    (folder / "meta_8.gmeta").write_text("{}")
    wrong = failed(folder, capsys)["Check that files come in pairs that can be opened"]
    for name in ("meta_0.gmeta: invalid JSON", "data_7.gulp: no .gmeta file", "meta_8.gmeta: no .gulp file"):
        assert name in wrong


def test_an_entry_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "meta_1.gmeta").write_text('{"a": {}}')
    assert "item 'a'" in failed(folder, capsys)["Check that files come in pairs that can be opened"]


def test_a_chunk_without_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "d", videos(1))
    [chunk] = GulpDirectory(folder).new_chunks(1)
    with chunk.open("wb"):
        pass
    assert failed(folder, capsys) == {"Check for empty data files": f"Test failed for: ['{folder}/data_1.gulp']"}


def test_no_such_directory(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError):
            gulp2_sanity_check([str(path)])
    with pytest.raises(SystemExit) as caught:
        gulp2_sanity_check([])
    assert caught.value.code == 2


def test_functions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = GulpDirectory(folder)
    assert sanity_utils.check_meta_file_size_larger_zero(directory) == []
    assert sanity_utils.check_data_file_size_larger_zero(directory) == []
    assert sanity_utils.extract_all_ids(directory) == ["v0", "v1", "v2", "v3"]
    assert sanity_utils.get_duplicate_entries(["a", "b", "a", "a"]) == ["a"]
    sanity_utils.check_for_failures({"message": "m", "failures": ["f"]})
    assert capsys.readouterr().out == "Sanity Check: m\nTest failed for: ['f']\n"
    assert all(isinstance(chunk, GulpChunk) for chunk in directory)
