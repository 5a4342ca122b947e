"""A part of a finished run whose files are gone is missing, and the same call writes it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.cli.running import fails, run
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._pack.finish import finish_run
from bushel._pack.run_folder import find_run
from bushel.errors import FormatError, IncompleteWarning, StateError
from bushel.storage import AnyPath, as_path, remove, walk_names, write_whole
from bushel.storage.files import remove_tree

OPTIONS: dict[str, Any] = {"parts": 3, "shard_samples": 2}


def pack(target: str, **more: Any) -> bushel.runs.PackResult:
    return bushel.pack(Numbered(14), target, **{**OPTIONS, **more})


def lose(path: AnyPath) -> None:
    if isinstance(path, Path):
        remove_tree(path) if path.is_dir() else path.unlink()
        return
    for name in list(walk_names(path)):
        remove(path / name)
    remove(path)


def files(target: str) -> dict[str, bytes]:
    path = as_path(target)
    return files_of(path) if isinstance(path, Path) else objects_in(path)  # type: ignore[arg-type]


@pytest.fixture(params=["local", "s3"])
def out(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "local":
        return str(tmp_path / "out")
    Buckets(monkeypatch, tmp_path / "scratch")
    return "s3://bucket/out"


@pytest.mark.parametrize(("container", "generation"), [("tar", None), ("bag", "C"), ("recordio", None)])
def test_a_lost_part_is_written_again(out: str, container: str, generation: Any) -> None:
    options = {"container": container, "generation": generation}
    pack(out, **options)
    whole, keys = files(out), list(bushel.open(out).keys)
    lose(as_path(out) / "part-00001")
    with pytest.raises(
        FormatError, match=r"\(part-00001/.*\) are listed in the manifest, but missing.*writes them again"
    ):
        bushel.open(out)
    assert bushel.open(out, allow_incomplete=True).info.expected == 14
    files_of_run, plan = find_run(out)
    assert files_of_run.missing(plan) == [1]
    with pytest.raises(StateError, match=r"1 of 3 parts of .* are missing: 1\. Run the same"):
        finish_run(files_of_run, plan)
    done = pack(out, mode="resume", **options)
    assert (done.samples, done.kept) == (5, 9)
    assert files(out) == whole
    assert list(bushel.open(out, verify=True, index="require").keys) == keys
    assert bushel.verify(out).problems == ()
    assert files_of_run.missing(plan) == []
    assert pack(out, **options).samples == 0


def test_a_file_of_a_part_that_is_lost(out: str) -> None:
    pack(out, container="tar")
    whole = files(out)
    remove(as_path(out) / "part-00002/shard-000001.tar")
    with pytest.raises(FormatError, match=r"part-00002/shard-000001\.tar(\) is listed|: a file .* is missing)"):
        bushel.open(out)
    assert len(bushel.open(out, allow_incomplete=True)) == 12
    assert "missing" in {problem.kind for problem in bushel.verify(out).problems}
    remove(as_path(out) / "part-00000/.bushel/shard-000000.tar.safetensors")
    files_of_run, plan = find_run(out)
    assert files_of_run.missing(plan) == [0, 2]
    done = pack(out, container="tar", part=2)
    assert done.samples == 5
    assert files_of_run.missing(plan) == [0]
    assert files_of_run.load_result() is None
    assert pack(out, container="tar").samples == 4
    assert files(out) == whole
    assert bushel.verify(out).problems == ()


def test_parts_of_one_file_each(tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    bushel.pack(Numbered(14), out, parts=3)
    lost = tmp_path / "out-part-00001.tar"
    data = lost.read_bytes()
    lost.unlink()
    assert run("parts", out, "--missing") == "1\n"
    assert "2 of 3 parts of a run to tar, missing 1" in run("parts", out)
    assert "are missing: 1. Run the same" in fails("finish", out)
    bushel.pack(Numbered(14), out, parts=3, mode="resume")
    assert lost.read_bytes() == data
    assert "14 samples in 3 parts" in run("finish", out)


def test_a_shard_that_is_not_of_the_run(out: str) -> None:
    pack(out, container="tar")
    write_whole(as_path(out) / "part-00001/zzz.tar", b"no tar")
    if out.startswith("s3"):  # the folders of parts are not listed one by one
        assert len(bushel.open(out)) == 14
        return
    with pytest.warns(IncompleteWarning, match=r"1 shard \(part-00001/zzz\.tar\) is not listed"):
        assert len(bushel.open(out)) == 14
    assert "stray" in {problem.kind for problem in bushel.verify(out).problems}
