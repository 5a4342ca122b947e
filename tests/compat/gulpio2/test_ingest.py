"""GulpIngestor and ChunkWriter: chunks, several processes, and failures."""

from pathlib import Path

import pytest
from tests.compat.gulpio2.frames import Numbers

from bushel.compat.errors import WrongUseError
from bushel.compat.gulpio2 import ChunkWriter, GulpDirectory, GulpIngestor
from bushel.compat.gulpio2.errors import GulpWarning
from bushel.compat.gulpio2.fileio import calculate_chunk_slices


def numbers_in(folder: Path) -> list[list[int]]:
    return [[meta["n"] for _, meta in chunk] for chunk in GulpDirectory(folder)]


@pytest.mark.parametrize("workers", [1, 2])
def test_chunks(tmp_path: Path, workers: int) -> None:
    GulpIngestor(Numbers(7), tmp_path / "new" / "out", 3, workers)()
    assert numbers_in(tmp_path / "new" / "out") == [[0, 1, 2], [3, 4, 5], [6]]
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == [
        *("data_0.gulp", "data_1.gulp", "data_2.gulp"),
        *("meta_0.gmeta", "meta_1.gmeta", "meta_2.gmeta"),
    ]


def test_the_bytes_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    for workers in (1, 3):
        GulpIngestor(Numbers(7), str(tmp_path / str(workers)), "2", str(workers))()
    files = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert [(tmp_path / "1" / name).read_bytes() for name in files] == [
        (tmp_path / "3" / name).read_bytes() for name in files
    ]


def test_extending(tmp_path: Path) -> None:
    GulpIngestor(Numbers(3), tmp_path, 2, 1)()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    GulpIngestor(Numbers(1), tmp_path, 2, 1)()
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    with pytest.warns(GulpWarning):
        assert numbers_in(tmp_path) == [[0, 1], [2], [0]]


def test_an_item_without_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GulpIngestor(Numbers(3, empty=1), tmp_path, 10, 1)()
    assert numbers_in(tmp_path) == [[0, 2]]
    assert "Failed to write video with id: 1; no frames" in capsys.readouterr().out


@pytest.mark.parametrize("workers", [1, 2])
def test_an_item_that_fails(tmp_path: Path, workers: int) -> None:
    with pytest.raises(RuntimeError, match="item 3 cannot be read") as caught:
        GulpIngestor(Numbers(6, failing=3), tmp_path, 2, workers)()
    assert numbers_in(tmp_path) == [[0, 1], [2], [4, 5]]
    [note] = [note for note in caught.value.__notes__ if note.startswith("while")]
    assert "items 2 to 3" in note
    assert "2 of 3 chunks are complete" in note


def test_write_chunk(tmp_path: Path) -> None:
    [chunk] = GulpDirectory(tmp_path).new_chunks(1)
    ChunkWriter(Numbers(9)).write_chunk(chunk, slice(2, 5))
    assert numbers_in(tmp_path) == [[2, 3, 4]]


def test_slices() -> None:
    assert calculate_chunk_slices(3, 7) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert calculate_chunk_slices(10, 7) == [slice(0, 7)]
    for wrong in ((0, 7), (3, 0), (-1, 2)):
        with pytest.raises(WrongUseError) as caught:
            calculate_chunk_slices(*wrong)
        assert isinstance(caught.value, AssertionError)


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="at least one worker"):
        GulpIngestor(Numbers(1), tmp_path, 1, 0)
    with pytest.raises(AssertionError, match="no items"):
        GulpIngestor(Numbers(0), tmp_path, 1, 1)()
