"""mode="overwrite": the old dataset stays until the new one is complete, whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests._dataset.views.models import SPECS, files_of, make_samples, opened, write
from tests._pack.pack_sources import Numbered
from tests.full_disk import little_room
from tests.paths import ROOT

import bushel
from bushel._dataset.open.completeness import overwrite_folder
from bushel.storage.publish import _swap

FORMS = [
    ("out", "bag"),
    ("out", "tar"),
    ("out", "gulp"),
    ("x.tar", "tar"),
    ("x.ffr", "ffrecord"),
    ("x.rec", "recordio"),
]
each = pytest.mark.parametrize(("name", "container"), FORMS)


@each
def test_the_old_dataset_is_readable_until_the_new_one_is_complete(tmp_path: Path, name: str, container: str) -> None:
    old, new = make_samples(container, 9, seed=1), make_samples(container, 12, seed=2)
    path = tmp_path / "a" / name
    write(path, container, old)
    before = opened(path)
    assert len(list(before)) == 9
    options: dict[str, Any] = {} if "." in name else {"shard_samples": 5}
    with bushel.Writer(path, SPECS[container], container=container, mode="overwrite", sync=False, **options) as writer:
        assert len(writer) == 0
        assert "mode 'overwrite'" in repr(writer)
        for number, sample in enumerate(new):
            writer.append(sample)
            if number == 7:
                assert [sample["__key__"] for sample in opened(path)] == [sample["__key__"] for sample in old]
    assert [sample["__key__"] for sample in before] == [sample["__key__"] for sample in old]
    write(tmp_path / "b" / name, container, new, **options)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert not (tmp_path / "a/.bushel/overwrite").exists()
    assert list(opened(path).keys) == [sample["__key__"] for sample in new]
    assert bushel.verify(path).problems == ()


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("out", "bag", "tar"),
        ("out", "tar", "gulp"),
        ("x.tar", "tar", "tar"),
        ("x.rec", "recordio", "recordio"),
        ("x.rec", "recordio", "bag"),
        ("x.tar", "bag", "tar"),
    ],
)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_one(
    tmp_path: Path, name: str, before: str, after: str, step: int
) -> None:
    command = [sys.executable, "-m", "tests._writer.killed_overwrite", str(tmp_path), name, before, after, str(step)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10, "hardly anything was killed"


def append(path: Path, samples: list[dict[str, Any]]) -> None:
    with bushel.Writer(path, container="bag", mode="append", sync=False) as writer:
        for sample in samples:
            writer.append(sample)


class NoLibrary:
    """A C library without renameat2."""

    def __init__(self, *arguments: object, **options: object) -> None: ...


def test_without_an_exchange_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", NoLibrary)
    for name, container in FORMS:
        path = tmp_path / container / name
        write(path, container, make_samples(container, 5, seed=1))
        write(path, container, make_samples(container, 6, seed=2), mode="overwrite")
        assert len(opened(path)) == 6


def test_a_swap_between_two_renames_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rename = tmp_path / "out", os.rename
    write(path, "bag", make_samples("bag", 5))

    def interrupt(source: Path, target: Path) -> None:
        if Path(target) == path:
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr("ctypes.CDLL", NoLibrary)
        patched.setattr("os.rename", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write(path, "bag", make_samples("bag", 6), mode="overwrite")
    assert not path.exists()
    append(path, make_samples("bag", 3, seed=1))
    assert len(opened(path)) == 9
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_an_interrupted_overwrite_cannot_be_resumed(tmp_path: Path) -> None:
    write(tmp_path / "out", "bag", make_samples("bag", 5))
    folder = overwrite_folder(tmp_path / "out")
    folder.mkdir(parents=True)
    (folder / "half").touch()
    with pytest.raises(bushel.errors.StateError, match="use mode='overwrite'"):
        write(tmp_path / "out", "bag", [], mode="resume")
    append(tmp_path / "out", make_samples("bag", 2, seed=1))
    assert not folder.exists()
    assert len(opened(tmp_path / "out")) == 7


@each
def test_errors_and_full_disks_leave_the_old_dataset(tmp_path: Path, name: str, container: str) -> None:
    old, new = make_samples(container, 9, seed=1), make_samples(container, 60, seed=2)
    write(tmp_path / name, container, old)
    before = files_of(tmp_path)

    def fail() -> None:
        with bushel.Writer(tmp_path / name, SPECS[container], container=container, mode="overwrite") as writer:
            writer.append(new[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with little_room(2000), pytest.raises(OSError, match="too large") as caught:
        write(tmp_path / name, container, new, mode="overwrite")
    assert caught.value.__notes__ == ["free some disk space, and run it again: the old dataset is unchanged"]
    assert files_of(tmp_path) == before
    assert not (tmp_path / ".bushel/overwrite").exists()
    assert len(opened(tmp_path / name)) == 9


def test_what_is_not_overwritten(tmp_path: Path) -> None:
    samples = make_samples("bag", 3)
    write(tmp_path / "out", "bag", samples)
    (tmp_path / "out/notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"contains notes.txt, which is not part of a dataset"):
        write(tmp_path / "out", "bag", samples, mode="overwrite")
    (tmp_path / "plain").write_text("text")
    with pytest.raises(FileExistsError, match="is a file, but not a dataset"):
        write(tmp_path / "plain", "bag", samples, mode="overwrite")
    with pytest.raises(ValueError, match="needs a spec"):
        bushel.Writer(tmp_path / "new", mode="overwrite", container="bag")
    with pytest.raises(FileExistsError, match="mode='overwrite' to replace it"):
        write(tmp_path / "out", "bag", samples)
    assert not (tmp_path / ".bushel").exists()
    write(tmp_path / "new", "bag", samples, mode="overwrite")
    assert len(opened(tmp_path / "new")) == 3


def test_unfinished_writes_are_replaced(tmp_path: Path) -> None:
    samples = make_samples("tar", 9)
    for name in ("out", "x.tar"):
        writer = bushel.Writer(tmp_path / name, SPECS["tar"], container="tar")
        writer.append(samples[0])
        writer.suspend()
        write(tmp_path / name, "tar", samples, mode="overwrite")
        assert len(opened(tmp_path / name)) == 9
        assert not list(tmp_path.rglob("staging"))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    samples = make_samples("bag", 9)
    write(tmp_path / "disk/out", "bag", samples[:2])
    (tmp_path / "link").symlink_to(tmp_path / "disk/out")
    write(tmp_path / "link", "bag", samples, mode="overwrite")
    assert (tmp_path / "link").is_symlink()
    assert len(opened(tmp_path / "disk/out")) == 9


@pytest.mark.parametrize(("old", "link"), [("real.tar", "link"), ("real", "link.tar")])
def test_a_link_does_not_become_one_to_another_kind(tmp_path: Path, old: str, link: str) -> None:
    """A file that another path names became a folder, and a folder a file."""
    write(tmp_path / old, "tar", make_samples("tar", 2))
    (tmp_path / link).symlink_to(old)
    before = files_of(tmp_path)
    with pytest.raises(FileExistsError, match=f"{tmp_path / link} is a f.*, but the new dataset is a"):
        write(tmp_path / link, "tar", make_samples("tar", 3), mode="overwrite")
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("suffix", [".tar", ".rec", ".ffr"])
@pytest.mark.parametrize("mode", ["append", "resume", "overwrite"])
def test_a_link_to_a_file_is_the_file(tmp_path: Path, suffix: str, mode: Any) -> None:
    """Appending replaced the link; its readers saw removed samples, and lost types of the index."""
    real, link = tmp_path / f"real/x{suffix}", tmp_path / f"link{suffix}"
    real.parent.mkdir()
    for number in range(2):
        with bushel.Writer(real, {"x": "int"}, mode="append" if number else "create", sync=False) as writer:
            writer.append({"x": number}, key=f"k{number}")
    link.symlink_to(real)
    assert [sample["x"] for sample in bushel.open(link)] == [0, 1]
    bushel.remove(link, keys=["k1"], reason="opt-out")
    with bushel.Writer(link, {"x": "int"}, mode=mode, sync=False) as writer:
        writer.append({"x": 2}, key="k2")
    wanted = [2] if mode == "overwrite" else [0, 2]
    assert link.is_symlink()
    for path in (link, real):
        assert [sample["x"] for sample in bushel.open(path)] == wanted
        assert bushel.verify(path).verdict == "ok"


def test_files_beside_a_link_are_its_own(tmp_path: Path) -> None:
    """The store of git-annex has each file in a folder of its own: the keys of a link were other ones."""
    keys = ["30", "10", "20"]
    with bushel.Writer(tmp_path / "x.rec", {"x": "int"}, container="recordio", sync=False) as writer:
        for number, key in enumerate(keys):
            writer.append({"x": number}, key=key)
    for suffix in ("rec", "idx"):
        (tmp_path / suffix).mkdir()
        (tmp_path / f"x.{suffix}").rename(tmp_path / f"{suffix}/sha.{suffix}")
        (tmp_path / f"link.{suffix}").symlink_to(f"{suffix}/sha.{suffix}")
    assert list(bushel.open(tmp_path / "link.rec").keys) == keys
    bushel.remove(tmp_path / "link.rec", keys=keys[:1], reason="opt-out")
    assert list(bushel.open(tmp_path / "link.rec").keys) == keys[1:]


@pytest.mark.parametrize(("name", "link"), [("x.tar", "x.rec"), ("blob", "x.tar")])
def test_a_link_to_a_file_of_another_name_is_refused(tmp_path: Path, name: str, link: str) -> None:
    write(tmp_path / "y.tar", "tar", make_samples("tar", 2))
    (tmp_path / "y.tar").rename(tmp_path / name)
    (tmp_path / link).symlink_to(name)
    before = files_of(tmp_path)
    container = {".rec": "recordio", ".tar": "tar"}[Path(link).suffix]
    with pytest.raises(FileExistsError):
        write(tmp_path / link, container, make_samples(container, 3), mode="overwrite")
    assert files_of(tmp_path) == before


def test_pack_and_convert(tmp_path: Path) -> None:
    bushel.pack(Numbered(5, bad=(1,)), tmp_path / "out", container="bag", max_errors=1)
    log = tmp_path / "out.errors.jsonl"
    assert log.exists()
    with pytest.raises(bushel.errors.TooManyErrors, match=r"out is unchanged"):
        bushel.pack(Numbered(9, bad=(7,)), tmp_path / "out", container="tar", mode="overwrite")
    assert '"position": 7' in log.read_text()
    assert len(opened(tmp_path / "out")) == 4
    done = bushel.pack(Numbered(7), tmp_path / "out", container="tar", mode="overwrite")
    assert (done.samples, done.kept, done.error_logs) == (7, 0, ())
    assert log.read_text().splitlines()[-1] == '{"run": 3, "mode": "overwrite"}'
    bushel.convert(tmp_path / "out", tmp_path / "out", container="recordio", mode="overwrite")
    assert opened(tmp_path / "out").info.container == "recordio"
    assert [sample["label"] for sample in opened(tmp_path / "out")] == list(range(7))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.errors.jsonl"]
    for parts in (3, 3):
        bushel.pack(Numbered(7), tmp_path / "parts", container="tar", parts=parts, mode="overwrite")
    with pytest.raises(FileExistsError, match="earlier run with more than 2 parts"):
        bushel.pack(Numbered(7), tmp_path / "parts", container="tar", parts=2, mode="overwrite")
    with pytest.raises(bushel.errors.TooManyErrors):
        bushel.pack(Numbered(7, bad=(3,)), tmp_path / "out", container="tar", mode="overwrite")
    assert len(opened(tmp_path / "out")) == 7


def test_a_recordio_that_is_half_replaced_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `.rec` and `.idx` cannot be replaced in one step, and between the two the old file has no keys."""
    path = tmp_path / "out.rec"
    write(path, "recordio", make_samples("recordio", 6))

    def die(staged: Path, target: Path, old: Path) -> None:
        if target.parent == tmp_path:
            raise KeyboardInterrupt
        _swap(staged, target, old)

    with monkeypatch.context() as patch:
        patch.setattr("bushel.storage.publish._swap", die)
        with pytest.raises(KeyboardInterrupt):
            write(path, "recordio", make_samples("recordio", 4, seed=2), mode="overwrite")
    with pytest.warns(bushel.errors.IncompleteWarning, match="or the writer with mode='overwrite'"):
        bushel.open(path)
    bushel.Writer(path, SPECS["recordio"], mode="resume").close()
    assert (len(bushel.open(path)), bushel.verify(path).verdict) == (4, "ok")


@pytest.mark.filterwarnings("ignore:the files of:bushel.errors.UntrustedWarning")
def test_removed_values_whose_types_run_code_stay_removed(tmp_path: Path) -> None:
    for container, mode in (("bag", "create"), ("tar", "overwrite")):
        with bushel.Writer(tmp_path / "ds", {"value": "pickle", "n": "int"}, container=container, mode=mode) as writer:  # type: ignore[arg-type]
            for number in range(3):
                writer.append({"value": {"n": number}, "n": number}, key=f"k{number}")
        if mode == "create":
            bushel.remove(tmp_path / "ds", keys=["k1"], reason="asked for")
        assert [sample["value"] for sample in bushel.open(tmp_path / "ds", pickle=True)] == [{"n": 0}, {"n": 2}]


@pytest.mark.parametrize("mode", ["append", "overwrite", "resume"])
def test_one_of_several_bags_is_not_written_alone(tmp_path: Path, mode: Any) -> None:
    """The first one has the manifest of all, which would then be that of one bag, and the others were not read."""
    with bushel.Writer(tmp_path / "data", {"label": "int"}, container="bag", shard_samples=2) as writer:
        for label in range(4):
            writer.append({"label": label}, key=f"k{label}")
    os.symlink(tmp_path / "data/000001", tmp_path / "link")
    bushel.remove(tmp_path / "data", keys=["k0", "k2"], reason="opt-out")
    for name in ("data/000000", "data/000001", "link"):
        with pytest.raises(FileExistsError, match=r"is one of the bags of .*data: name that folder"):
            bushel.Writer(tmp_path / name, {"label": "int"}, container="bag", mode=mode)
        with pytest.raises(FileExistsError, match=r"is one of the bags of"):
            bushel.erase(tmp_path / name)
    assert bushel.verify(tmp_path / "data").ok
    years = tmp_path / "2023", tmp_path / "2024"
    for year in years:
        with bushel.Writer(year, {"label": "int"}, container="bag") as writer:
            writer.append({"label": 1}, key="a")
    with bushel.Writer(years[1], {"label": "int"}, container="bag", mode=mode) as writer:
        writer.append({"label": 2}, key="b")
    assert len(bushel.open(years[1])) == (1 if mode == "overwrite" else 2)


def test_samples_removed_from_a_part_or_a_file_stay_out_of_the_new_dataset(tmp_path: Path) -> None:
    """Their lists were lost with the part, or were read with the new file of that name only."""
    source = tmp_path / "s.tar"
    with bushel.Writer(source, {"label": "int"}) as writer:
        for label in range(8):
            writer.append({"label": label}, key=f"k{label}")
    cases: list[tuple[str, dict[str, Any]]] = [("parts", {"parts": 2}), ("files", {"shard_samples": 4})]
    for name, options in cases:
        path = tmp_path / name
        bushel.pack(source, path, container="tar", sync=False, **options)
        part = "part-00001" if name == "parts" else "shard-000001.tar"
        bushel.remove(path / part, keys=["k6"], reason="one")
        if name == "parts":  # where earlier versions had it
            os.rename(path / ".bushel/removed.safetensors", path / part / ".bushel/removed.safetensors")
        bushel.remove(path, keys=["k1"], reason="all")
        bushel.pack(source, path, container="tar", mode="overwrite", shard_samples=3, sync=False)
        assert list(bushel.open(path).keys) == ["k0", "k2", "k3", "k4", "k5", "k7"]
        assert [call.reason for call in bushel.removals(path)] == ["one", "all"]
