"""Runs that cannot pack anything: the errors name the reason, and nothing is left that disturbs the corrected call."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests._pack.pack_sources import Numbered
from tests.cli.running import fails, run
from tests.sources.folders import image_folder

import bushel
from bushel.errors import FormatError, MissingPackageError, StateError, TooManyErrors


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table in another folder than the photos that it names."""
    image_folder(tmp_path / "photos", 6)
    path = tmp_path / "lists/train.csv"
    path.parent.mkdir()
    path.write_text("path,age\nclass0/0000.jpg,3\nclass1/0001.jpg,4\n")
    return path


@pytest.mark.parametrize("target", ["out", "out.tar"])
@pytest.mark.parametrize("allowed", ["0", "all"])
def test_the_corrected_call_works(table: Path, tmp_path: Path, target: str, allowed: str) -> None:
    call = ["pack", table, tmp_path / "new" / target, "-c", "tar", "--max-errors", allowed]
    said = fails(*call, code=1)
    assert f"relative paths start from {table.parent}, the folder of the table: --root names another folder" in said
    assert "othing was written" in said
    assert sorted(path.name for path in (tmp_path / "new").rglob("*")) in (
        [f"{target}.errors.jsonl"],
        [target, f"{target}.errors.jsonl"],
    )
    assert "2 samples written" in run(*call, "--root", tmp_path / "photos")
    assert len(bushel.open(tmp_path / "new" / target)) == 2


@pytest.mark.parametrize("target", ["out", "out.tar"])
@pytest.mark.parametrize("allowed", ["0", "all"])
def test_an_append_of_nothing_leaves_the_dataset_as_it_was(tmp_path: Path, target: str, allowed: str) -> None:
    """As if the same folder is given twice: all of its keys are there already."""
    image_folder(tmp_path / "photos", 6)
    call = ["pack", tmp_path / "photos", tmp_path / target, "-c", "tar"]
    run(*call)
    said = fails(*call, "--append", "--max-errors", allowed, code=1)
    assert "is in the dataset already" in said
    assert "othing was written" in said
    assert "incomplete" not in said
    ds = bushel.open(tmp_path / target)
    assert (len(ds), ds.info.complete, bushel.verify(tmp_path / target).problems) == (6, True, ())
    image_folder(tmp_path / "more/new", 2)
    call[1] = tmp_path / "more"
    assert "2 samples written as tar after 6 from before" in run(*call, "--append")


def test_the_corrected_call_works_in_parts(table: Path, tmp_path: Path) -> None:
    call = ["pack", table, tmp_path / "out", "-c", "tar", "--parts", 2]
    assert "1 of the first 1 items cannot be packed" in fails(*call, code=1)
    assert "2 samples written" in run(*call, "--root", tmp_path / "photos")
    assert len(bushel.open(tmp_path / "out")) == 2


def test_a_plan_that_waits_for_its_parts_stays(table: Path, tmp_path: Path) -> None:
    call = ["pack", table, tmp_path / "out", "-c", "tar", "--parts", 2]
    run(*call, "--part", "plan")
    assert "has the plan of another run" in fails(*call, "--root", tmp_path / "photos")
    fails(*call, "--part", 0, code=1)  # another machine may write the other part
    with pytest.raises(StateError):
        bushel.pack(table, tmp_path / "out", container="tar", parts=2, seed=1)


def test_parts_without_any_sample_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(TooManyErrors, match="none of the 4 items can be packed"):
        bushel.pack(Numbered(4, bad=(0, 1, 2, 3)), tmp_path / "out", container="tar", parts=2, max_errors=None)
    assert not bushel.open(tmp_path / "out", allow_incomplete=True).info.complete


def test_a_list_says_where_its_paths_start(tmp_path: Path) -> None:
    (tmp_path / "a.lst").write_text("0\t0\tcat/00.jpg\n")
    with pytest.raises(TooManyErrors, match="the folder of the list: root= names another folder"):
        bushel.pack(tmp_path / "a.lst", tmp_path / "out.rec")
    with pytest.raises(TooManyErrors, match="as root= says"):
        bushel.pack(bushel.sources.ListFile(tmp_path / "a.lst", root=tmp_path / "b"), tmp_path / "out.rec")


def test_a_table_says_how_to_name_its_column_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("photo\nx.jpg\n")
    said = fails("pack", tmp_path / "a.csv", tmp_path / "out", "-c", "tar", code=1)
    assert "row 0 has no 'path': it has photo" in said
    assert "--file '{COLUMN}' names the column of the files" in said
    with pytest.raises(FormatError, match="file=.{COLUMN}. of bushel.sources.Table names the column of the files"):
        bushel.pack(tmp_path / "a.csv", tmp_path / "out", container="tar")


def test_videos_without_pyav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips/a.avi").write_bytes(b"RIFF")
    said = fails("pack", tmp_path / "clips", tmp_path / "out", "-c", "tar", "--max-errors", "all", "--frames")
    assert said == ("bushel: reading frames of videos needs av, which is not installed: pip install 'bushel[video]'\n")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.errors.jsonl").exists()


class _NeedsMore(Numbered):
    def __getitem__(self, position: int) -> dict[str, object]:
        with bushel.errors.needed_by("this source", "that"):
            import bushel_that_is_not_installed  # type: ignore[import-not-found] # noqa: F401
        return {}


@pytest.mark.parametrize("parts", [None, 2])
def test_a_missing_package_is_not_a_bad_item(tmp_path: Path, parts: int | None) -> None:
    with pytest.raises(MissingPackageError, match="pip install 'that'"):
        bushel.pack(_NeedsMore(4), tmp_path / "out", container="tar", max_errors=None, parts=parts)
    assert bushel.pack(Numbered(4), tmp_path / "out", container="tar", parts=parts).samples == 4


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_engines_without_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"bushel.engines.{engine}", raising=False)
    image_folder(tmp_path / "photos", 6)
    said = fails("pack", tmp_path / "photos", tmp_path / "out", "-c", "tar", "--engine", engine)
    assert (
        said == f"bushel: --engine {engine} needs {package}, which is not installed: pip install 'bushel[{engine}]'\n"
    )
    assert "6 samples written" in run("pack", tmp_path / "photos", tmp_path / "out", "-c", "tar")


@pytest.mark.parametrize(
    ("module", "package", "install"),
    [
        ("bushel.integrations.torch_data", "torch", "bushel[torch]"),
        ("bushel.integrations.torchdata_nodes", "torchdata", "torchdata"),
    ],
)
def test_integrations_without_their_package(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, install: str
) -> None:
    from importlib import import_module

    for loaded in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    for known in ("torch_data", "torchdata_nodes"):
        monkeypatch.delitem(sys.modules, f"bushel.integrations.{known}", raising=False)
    with pytest.raises(MissingPackageError) as caught:
        import_module(module)
    assert f"needs {package}, which is not installed: pip install '{install}'" in str(caught.value)


def test_hugging_face_without_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    bushel.pack(Numbered(4), tmp_path / "out", container="tar")
    with pytest.raises(MissingPackageError, match=r"to_hf needs datasets, .*: pip install 'bushel\[hf\]'"):
        bushel.to_hf(bushel.open(tmp_path / "out"))


def test_a_loader_does_not_skip_samples_for_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bushel.Writer(tmp_path / "out.tar", {"video": "mp4"}) as writer:
        writer.append({"video": b"\0\0\0\x18ftypmp42"}, key="a")
    monkeypatch.setitem(sys.modules, "av", None)
    loader = bushel.Loader(bushel.open(tmp_path / "out.tar"), 1, on_error="skip", max_errors=None)
    with pytest.raises(MissingPackageError, match="codec 'mp4' needs av"):
        list(loader)
