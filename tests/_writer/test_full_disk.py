"""A full disk: the error names the file and what to do, nothing gets a final name, and what was kept goes on."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests._dataset.views.models import CONTAINERS, SPECS, expected, files_of, make_samples, opened, plain, write
from tests.full_disk import little_room
from tests.sources.folders import image_folder

import bushel
from bushel._pack.encoder import BadItem
from bushel._pack.side_files import ErrorLog
from bushel._writer.target import Mode
from bushel.cli.app import app
from bushel.compat.granular import BagWriter
from bushel.compat.mxnet.recordio import MXRecordIO
from bushel.compat.webdataset import TarWriter
from bushel.errors import is_out_of_room
from bushel.storage import write_whole

FULL = Path("/dev/full")
ADVICE = "free some disk space, and continue with mode='resume': complete shards are kept"


def staged_files(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("staging/**/*")]


def kept_and_advised(error: OSError, folder: Path) -> None:
    """The error names a staged file of the folder, and what to do, once."""
    assert is_out_of_room(error)
    assert Path(error.filename).is_relative_to(folder / ".bushel" / "staging")
    assert [note for note in error.__notes__ if "not kept" not in note] == [ADVICE]
    assert str(error) == f"[Errno {error.errno}] {os.strerror(error.errno or 0)}: {error.filename!r}"


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("flushing", [False, True])
@pytest.mark.parametrize("room", [1000, 3000])
def test_a_writer_names_the_file_and_is_resumed(tmp_path: Path, container: str, flushing: bool, room: int) -> None:
    samples = make_samples(container, 40)
    options: dict[str, Any] = {"container": container, "sync": False}

    def pack() -> None:
        with bushel.Writer(tmp_path / "ds", SPECS[container], **options) as writer:
            for sample in samples:
                writer.append(sample)
                if flushing:
                    writer.flush()

    with little_room(room), pytest.raises(OSError, match="too large") as caught:
        pack()
    kept_and_advised(caught.value, tmp_path / "ds")
    assert files_of(tmp_path / "ds") == {}
    with bushel.Writer(tmp_path / "ds", SPECS[container], mode="resume", **options) as writer:
        for sample in samples[len(writer) :]:
            writer.append(sample)
    write(tmp_path / "whole", container, samples)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")
    assert staged_files(tmp_path / "ds") == []


@pytest.mark.parametrize(("container", "name"), [("tar", "x.tar"), ("ffrecord", "x.ffr"), ("recordio", "x.rec")])
def test_appending_leaves_the_file_as_it_was(tmp_path: Path, container: str, name: str) -> None:
    samples = make_samples(container, 60)
    write(tmp_path / name, container, samples[:40])
    before = (tmp_path / name).read_bytes()

    def append() -> None:
        with bushel.Writer(tmp_path / name, mode="append", sync=False) as writer:
            for sample in samples[40:]:
                writer.append(sample)

    with little_room(len(before) // 2), pytest.raises(OSError, match="too large") as caught:
        append()
    assert Path(caught.value.filename2 or caught.value.filename).is_relative_to(tmp_path / ".bushel" / "staging")
    assert (tmp_path / name).read_bytes() == before
    with bushel.Writer(tmp_path / name, mode="resume", sync=False) as writer:
        for sample in samples[len(writer) :]:
            writer.append(sample)
    assert plain(list(opened(tmp_path / name))) == expected(container, samples)


def test_an_index_that_cannot_be_written_is_named_and_no_half_of_it_stays(tmp_path: Path) -> None:
    write(tmp_path / "x.tar", "tar", make_samples("tar", 40))
    [sidecar] = tmp_path.rglob("*.safetensors")
    sidecar.unlink()
    with little_room(1500), pytest.raises(OSError, match="too large") as caught:
        bushel.index(tmp_path / "x.tar")
    assert (caught.value.filename, caught.value.filename2) == (str(sidecar), None)
    assert str(caught.value).endswith(f": {str(sidecar)!r}")
    assert not sidecar.parent.exists()
    with little_room(1500):
        assert len(opened(tmp_path / "x.tar")) == 40


def test_the_list_of_bad_items_is_named(tmp_path: Path) -> None:
    log = ErrorLog(tmp_path / "out.errors.jsonl")
    bad = BadItem(0, "a key", None, ValueError("x" * 500))
    with little_room(100), pytest.raises(OSError, match="too large") as caught:
        log.add(bad)
    assert caught.value.filename == str(log.path)


def commands(tmp_path: Path, container: str) -> dict[str, list[str]]:
    image_folder(tmp_path / "photos", 12)
    bushel.pack(tmp_path / "photos", tmp_path / "in", container=container, sync=False)
    photos, source, out = str(tmp_path / "photos"), str(tmp_path / "in"), str(tmp_path / "out")
    return {
        "pack": ["pack", photos, out, "-c", container],
        "convert": ["convert", source, out, "-c", container],
        "merge": ["merge", out, source],
        "split": ["split", source, out, "all=1"],
        "repair": ["repair", source, out],
    }


@pytest.mark.parametrize(
    ("command", "container"),
    [*(("pack", name) for name in CONTAINERS), *((name, "tar") for name in ("convert", "merge", "split", "repair"))],
)
def test_a_command_says_what_to_do_and_is_resumed(tmp_path: Path, command: str, container: str) -> None:
    arguments = [*commands(tmp_path, container)[command], "-q"]
    with little_room(2000):
        result = CliRunner().invoke(app, arguments)
    first, *rest = result.stderr.splitlines()
    assert result.exit_code == 2, result.stderr
    out = tmp_path / "out" / "all" if command == "split" else tmp_path / "out"
    assert first.startswith(f"bushel: {out}/.bushel/staging/")
    assert first.endswith(": File too large")
    assert [line.strip() for line in rest if "not kept" not in line] == [ADVICE.replace("mode='resume'", "--resume")]
    assert files_of(out) == {}
    assert CliRunner().invoke(app, [*arguments, "--resume"]).exit_code == 0
    assert plain(list(opened(out))) == plain(list(opened(tmp_path / "in")))
    assert staged_files(tmp_path) == []


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
class TestDevFull:
    @pytest.mark.parametrize(
        "arguments",
        ["ls x.tar", "cat x.tar", "info x.tar --json", "get x.tar 0 raw", "--version", "--help", "ls --help"],
    )
    def test_standard_output(self, tmp_path: Path, arguments: str) -> None:
        with bushel.Writer(tmp_path / "x.tar", {"raw": "bytes"}) as writer:
            writer.append({"raw": b"abc"})
        command = [sys.executable, "-m", "bushel", *arguments.split()]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        with FULL.open("w") as full:
            done = subprocess.run(
                command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False
            )
        assert (done.returncode, done.stderr) == (2, "bushel: standard output: No space left on device\n")

    def test_a_file_to_write(self, tmp_path: Path) -> None:
        with bushel.Writer(tmp_path / "x.tar", {"raw": "bytes"}) as writer:
            writer.append({"raw": b"abc"})
        result = CliRunner().invoke(app, ["get", str(tmp_path / "x.tar"), "0", "raw", "-o", str(FULL)])
        assert (result.exit_code, result.stderr) == (2, f"bushel: {FULL}: No space left on device\n")


def _tar(path: Path) -> None:
    with TarWriter(str(path)) as sink:
        for number in range(10):
            sink.write({"__key__": str(number), "bin": bytes(5000)})


def _record(path: Path) -> None:
    with MXRecordIO(str(path), "w") as sink:
        for _ in range(10):
            sink.write(bytes(5000))


def _bag(path: Path) -> None:
    with BagWriter(str(path)) as sink:
        for _ in range(10):
            sink.append(bytes(5000))


@pytest.mark.parametrize(("name", "work"), [("x.tar", _tar), ("x.rec", _record), ("x.bag", _bag)])
def test_the_drop_ins_name_the_file(tmp_path: Path, name: str, work: Callable[[Path], None]) -> None:
    path = tmp_path / name
    with little_room(8000), pytest.raises(OSError, match="too large") as caught:
        work(path)
    assert caught.value.filename.endswith(name)
    assert path.exists() == (name == "x.rec")  # which MXNet's own writer begins under its name, too


def test_a_small_file_system(tmp_path: Path) -> None:
    """Of 256 KiB, where the system lets this process mount one: a disk that is full, and not a limit of the process."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "bushel", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this process may not mount a file system")
    try:

        def pack() -> None:
            with bushel.Writer(tmp_path / "x.tar", {"raw": "bytes"}) as writer:
                for number in range(100):
                    writer.append({"raw": bytes(5000)}, key=f"{number}")

        with pytest.raises(OSError, match="No space left on device") as caught:
            pack()
        assert caught.value.errno == errno.ENOSPC
        kept_and_advised(caught.value, tmp_path)
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_other_errors_keep_their_name_and_get_no_advice(tmp_path: Path) -> None:
    def pack() -> None:
        with bushel.Writer(tmp_path / "x.tar", {"raw": "bytes"}) as writer:
            writer.append({"raw": b"1"}, key="a")
            os.stat(f"{tmp_path}/missing")

    with pytest.raises(FileNotFoundError) as caught:
        pack()
    assert caught.value.filename == str(tmp_path / "missing")
    assert ADVICE not in getattr(caught.value, "__notes__", [])


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("flushing", [False, True])
@pytest.mark.parametrize("room", [0, 300, 3000, 10_000, 30_000])
def test_a_full_disk(tmp_path: Path, container: str, flushing: bool, room: int) -> None:
    samples = make_samples(container, 60)
    write(tmp_path / "whole", container, samples, shard_samples=25)
    options: dict[str, Any] = {"container": container, "shard_samples": 25, "sync": False}

    def pack() -> None:
        with bushel.Writer(tmp_path / "ds", SPECS[container], **options) as writer:
            for number, sample in enumerate(samples):
                writer.append(sample)
                if flushing and number % 4 == 3:
                    writer.flush()

    with little_room(room), pytest.raises(OSError, match="too large") if room < 10_000 else suppress(OSError):
        pack()
    if files_of(tmp_path / "ds"):
        finished = opened(tmp_path / "ds", index="memory")
        assert plain(list(finished)) == expected(container, samples[: len(finished)])
    with bushel.Writer(tmp_path / "ds", SPECS[container], mode="resume", **options) as writer:
        assert len(writer) in (0, 25, 50, 60)
        for sample in samples[len(writer) :]:
            writer.append(sample)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")
    assert plain(list(opened(tmp_path / "ds"))) == expected(container, samples)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_a_sample_too_large_for_the_disk_is_left_out(tmp_path: Path, container: str) -> None:
    samples = make_samples(container, 12)
    huge = {**samples[5], "parts": [b"small", bytes(5 << 20), b"small"]}
    with bushel.Writer(tmp_path / "ds", SPECS[container], container=container, sync=False) as writer:
        for sample in samples[:5]:
            writer.append(sample)
        with little_room(1 << 20), pytest.raises(OSError, match="too large"):
            writer.append(huge)
        for sample in samples[5:]:
            writer.append(sample)
    write(tmp_path / "whole", container, samples)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")


def no_manifest(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file; a manifest finds no room."""
    if path.name.endswith("manifest.json"):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(path))
    write_whole(path, data, sync=sync)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("shard_samples", [None, 10])
def test_a_shard_is_published_with_the_manifest(
    tmp_path: Path, container: str, shard_samples: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the manifest cannot be written, the dataset is the old one, or says that it is incomplete."""
    out = tmp_path / "out"
    write(out, container, make_samples(container, 20), shard_samples=shard_samples)
    before = [plain(sample) for sample in bushel.open(out)]

    with monkeypatch.context() as patch:
        patch.setattr("bushel._index.saving.write_whole", no_manifest)
        with pytest.raises(OSError, match="quota"), bushel.Writer(out, mode="append", sync=False) as writer:
            writer.append(make_samples(container, 21)[20])
    assert [plain(sample) for sample in bushel.open(out)] == before
    assert not bushel.verify(out).problems


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_file_is_published_with_the_manifest_of_its_folder(
    tmp_path: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bushel index` has listed the file with others: this list and the file are old, or both are new."""

    def named(name: str, count: int) -> list[dict[str, Any]]:
        samples = make_samples("tar", count)
        return [{**sample, "__key__": f"{name}{number}"} for number, sample in enumerate(samples)]

    for name in "ab":
        write(tmp_path / f"{name}.tar", "tar", named(name, 3))
    bushel.index(tmp_path)
    before = [plain(sample) for sample in bushel.open(tmp_path)]

    def change() -> None:
        with bushel.Writer(tmp_path / "a.tar", SPECS["tar"], mode=mode, sync=False) as writer:
            writer.append(named("new", 1)[0])

    with monkeypatch.context() as patch:
        patch.setattr("bushel._index.saving.write_whole", no_manifest)
        with pytest.raises(OSError, match="quota"):
            change()
    assert [plain(sample) for sample in bushel.open(tmp_path)] == before
    assert not bushel.verify(tmp_path).problems
    change()
    assert len(bushel.open(tmp_path)) == {"append": 7, "overwrite": 4}[mode]
    assert not bushel.verify(tmp_path).problems
