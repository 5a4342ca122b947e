"""A relative path means the same files after the current folder has changed, where other files have the same names."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.loader import MapView

NUMBERS = list(range(10))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Datasets in the current folder; and others of the same names in the folder that is returned."""
    for place, numbers in (("here", NUMBERS), ("elsewhere", [-1] * 3)):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        for container in ("bag", "tar", "ffrecord", "recordio"):
            with bushel.Writer(container, {"n": "int"}, container=container, shard_samples=4) as writer:
                for number in numbers:
                    writer.append({"n": number})
            bushel.index(container, columns="n")
        Path("rows.jsonl").write_text("".join(f'{{"n": {number}}}\n' for number in numbers))
        Path("rows.csv").write_text("n\n" + "".join(f"{number}\n" for number in numbers))
        np.save("n.npy", np.array(numbers))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "elsewhere"


def numbers_of(samples: Any) -> list[int]:
    return [int(sample["n"]) for sample in samples]


def numbers_of_batches(loader: Any) -> list[int]:
    return sorted(number for batch in loader for number in np.asarray(batch["n"]).tolist())


OPENED: dict[str, tuple[Callable[[], Any], Callable[[Any], list[int]]]] = {
    **{
        path: (lambda path=path: bushel.open(path), numbers_of)  # type: ignore[misc]
        for path in ("bag", "tar", "ffrecord", "recordio", "./bag", "tar/*.tar", "rows.jsonl", "rows.csv")
    },
    "array": (lambda: bushel.open("n.npy"), lambda ds: [int(sample["data"]) for sample in ds]),
    "list of files": (lambda: bushel.open(sorted(map(str, Path("tar").glob("*.tar")))), numbers_of),
    "index in a folder": (lambda: bushel.open("bag", index="./indexes"), numbers_of),
    "pickled": (lambda: bushel.open("bag"), lambda ds: numbers_of(pickle.loads(pickle.dumps(ds)))),
    "column": (lambda: bushel.open("bag"), lambda ds: ds.column("n").tolist()),
    "where": (lambda: bushel.open("tar"), lambda ds: numbers_of(ds.where("n >= 0"))),
    "map": (lambda: bushel.open("tar").map(dict), numbers_of),
    "stream": (lambda: bushel.open_stream("tar/*.tar"), numbers_of),
    "loader": (lambda: bushel.Loader(bushel.open("bag"), 2, shuffle=True), numbers_of_batches),
    "processes": (lambda: bushel.Loader(bushel.open("bag"), 2, shuffle=True, processes=1), numbers_of_batches),
    "map view": (lambda: MapView(bushel.open("bag")), lambda view: numbers_of(view[at] for at in range(10))),
}


@pytest.mark.parametrize("name", OPENED)
def test_reading_goes_on(elsewhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    make, read = OPENED[name]
    opened = make()
    before = sorted(map(str, elsewhere.rglob("*")))
    monkeypatch.chdir(elsewhere)
    assert read(opened) == NUMBERS
    assert sorted(map(str, elsewhere.rglob("*"))) == before


@pytest.mark.parametrize("path", ["new.tar", "new"])
def test_writing_goes_on(elsewhere: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    here, before = Path.cwd(), sorted(map(str, elsewhere.rglob("*")))
    with bushel.Writer(path, {"n": "int"}, container="tar", shard_samples=None if "." in path else 4) as writer:
        writer.append({"n": 0})
        monkeypatch.chdir(elsewhere)
        for number in NUMBERS[1:]:
            writer.append({"n": number})
    assert sorted(map(str, elsewhere.rglob("*"))) == before
    assert numbers_of(bushel.open(here / path)) == NUMBERS


def test_a_view_is_saved_beside_its_dataset(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, opened = Path.cwd(), bushel.open("bag")
    monkeypatch.chdir(elsewhere)
    opened[2:5].save_view("some")
    assert numbers_of(bushel.open(here / "bag", view="some")) == [2, 3, 4]


def test_a_sample_is_removed_after_opening_a_relative_file(elsewhere: Path) -> None:
    """The list of removed samples of one file is that of the file, however it is named."""
    bushel.pack({"n": NUMBERS}, "one.tar", sync=False)
    assert bushel.open("one.tar").fingerprint == bushel.open(Path.cwd() / "one.tar").fingerprint
    bushel.remove("one.tar", keys=["000000003"], reason="test")
    for path in ("one.tar", Path.cwd() / "one.tar"):
        assert numbers_of(bushel.open(path)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
