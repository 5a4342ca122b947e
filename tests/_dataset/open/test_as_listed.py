"""A dataset with a manifest is what its manifest lists."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests._dataset.views.models import make_samples, write

import bushel
from bushel._dataset.open.as_listed import discover
from bushel._dataset.open.shards import as_written
from bushel._index.saving import save_manifest
from bushel._index.sidecar import load_manifest
from bushel.errors import FormatError, IncompleteWarning


@pytest.fixture(params=["tar", "ffrecord", "recordio", "gulp"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A dataset of 9 samples in three shards."""
    write(tmp_path / "ds", request.param, make_samples(request.param, 9), shard_samples=3)
    return tmp_path / "ds"


def data_files(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.is_file() and path.suffix in (".tar", ".ffr", ".rec", ".gulp")
    )


def second(folder: Path) -> list[Path]:
    """The files of the second shard."""
    shard = bushel.open(folder).shards[1].shard
    return [Path(str(shard.path(number))) for number in range(len(shard.files))]


def test_a_listed_shard_that_is_gone(folder: Path) -> None:
    for path in second(folder):
        path.unlink()
    with pytest.raises(
        FormatError, match=r"1 shard \(.*\) is listed in the manifest, but missing.*allow_incomplete=True"
    ):
        bushel.open(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = bushel.open(folder, allow_incomplete=True)
    assert len(ds) == 6
    assert not ds.info.complete
    assert ds.info.expected == 9
    bushel.index(folder)
    assert len(bushel.open(folder)) == 6


def test_a_file_that_is_not_listed_is_not_read(folder: Path) -> None:
    files = second(folder)
    for path in files:
        shutil.copy(path, path.with_name(path.name.replace("1", "7", 1)))
    with pytest.warns(IncompleteWarning, match="not listed in the manifest, and not read") as caught:
        ds = bushel.open(folder)
    assert caught[0].filename == __file__
    assert [sample["__key__"] for sample in ds] == [f"k0/{number}" for number in range(9)]
    bushel.index(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(bushel.open(folder)) == 12


def test_a_foreign_file_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "ds", "tar", make_samples("tar", 6), shard_samples=3)
    spec = bushel.open(tmp_path / "ds").spec
    with bushel.Writer(tmp_path / "other.tar", {"photo": "bytes"}, sync=False) as writer:
        writer.append({"photo": b"x"}, key="x")
    shutil.move(tmp_path / "other.tar", tmp_path / "ds" / "aaa.tar")
    (tmp_path / "ds" / "zzz.tar").write_bytes(b"no tar")
    with pytest.warns(IncompleteWarning, match="2 shards"):
        ds = bushel.open(tmp_path / "ds")
    assert ds.spec == spec
    assert len(ds) == 6


def test_single_files_are_read_as_they_are(folder: Path) -> None:
    for path in second(folder):
        path.unlink()
    first, *_ = data_files(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(bushel.open(first)) == 3


def test_an_incomplete_dataset_is_what_is_there(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "ds", {"n": "int"}, container="tar", shard_samples=2, sync=False)
    with writer:
        for number in range(5):
            writer.append({"n": number}, key=str(number))
        with pytest.warns(IncompleteWarning, match="is incomplete"):
            assert len(bushel.open(tmp_path / "ds")) == 4
    assert len(bushel.open(tmp_path / "ds")) == 5


def test_a_writer_does_not_continue_another_dataset(folder: Path) -> None:
    spec = bushel.open(folder).spec
    files = second(folder)
    for path in files:
        shutil.copy(path, path.with_name(path.name.replace("1", "7", 1)))
    with pytest.raises(FormatError, match="is not listed in the manifest.*bushel index"):
        bushel.Writer(folder, spec, mode="append", sync=False)
    for path in files:
        shutil.move(path.with_name(path.name.replace("1", "7", 1)), path)
        path.unlink()
    for mode in ("append", "resume"):
        with pytest.raises(FormatError, match="is listed in the manifest, but missing.*bushel index"):
            bushel.Writer(folder, spec, mode=mode, sync=False)
    bushel.index(folder)
    with bushel.Writer(folder, spec, mode="append", sync=False) as writer:
        assert len(writer) == 6


def changed(**facts: object) -> Callable[[Path], object]:
    """Return a function that writes the manifest of a folder with other facts."""

    def change(folder: Path) -> None:
        path = folder / ".bushel/manifest.json"
        manifest = load_manifest(path)
        assert manifest is not None
        backwards = manifest.shards[::-1] if "shards" in facts else manifest.shards
        save_manifest(msgspec.structs.replace(manifest, **{**facts, "shards": backwards}), path)

    return change


@pytest.mark.parametrize(
    ("change", "is_usual"),
    [
        (lambda folder: None, True),
        (lambda folder: (folder / "README.md").write_text("A card."), True),
        (lambda folder: second(folder)[0].unlink(), False),
        (lambda folder: shutil.copy(second(folder)[0], folder / ".hidden.tar"), False),
        (lambda folder: (folder / "more.parquet").touch(), False),
        (lambda folder: (folder / "notes.txt").touch(), False),
        (lambda folder: (folder / ".bushel/staging").mkdir(), False),
        (lambda folder: (folder / ".bushel/overwrite/x").mkdir(parents=True), False),
        (lambda folder: (folder / ".bushel/manifest.json").unlink(), False),
        (changed(complete=False), False),
        (changed(container="zip"), False),
        (changed(shards="backwards"), False),
        (changed(spec={"image": "jpg(path)"}), False),
    ],
)
def test_the_usual_folder_gives_what_its_container_finds(
    folder: Path, change: Callable[[Path], object], is_usual: bool
) -> None:
    change(folder)
    written = as_written(folder, None) if (folder / ".bushel/manifest.json").exists() else None
    assert (written is not None) == is_usual
    if written is not None:
        assert written == discover([folder])
    assert as_written(folder, "npy") is None


def test_bags_that_were_written_side_by_side_are_one_dataset(tmp_path: Path) -> None:
    for number in range(2):
        with bushel.Writer(tmp_path / "m" / f"00000{number}", {"x": "int"}, container="bag") as writer:
            writer.append({"x": number}, key=f"k{number}")
    with bushel.open(tmp_path / "m") as ds:
        assert [(sample["__key__"], sample["x"]) for sample in ds] == [("k0", 0), ("k1", 1)]
    assert bushel.verify(tmp_path / "m").ok
