"""What a person types, and what the commands make of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests._pack.pack_sources import Numbered
from tests.cli.running import fails, run
from tests.sources.folders import image_folder

import bushel
from bushel.cli.app import app


@pytest.fixture
def tars(tmp_path: Path) -> list[Path]:
    for number in range(3):
        with bushel.Writer(tmp_path / f"train-{number}.tar", {"n": "int"}, sync=False) as writer:
            for each in range(4):
                writer.append({"n": 10 * number + each}, key=f"{number}/{each}")
    return sorted(tmp_path.glob("*.tar"))


def test_several_paths_are_one_dataset(tars: list[Path]) -> None:
    assert json.loads(run("info", *tars, "--json"))["samples"] == 12
    assert "samples    12" in run("info", *tars)
    assert len(run("ls", *tars).splitlines()) == 12
    assert len(run("cat", *tars).splitlines()) == 12
    assert "and 1 more: ok" in run("verify", *tars)
    assert run("index", *tars).count("12 samples") == 1
    run("convert", *tars, tars[0].parent / "out", "-c", "bag")
    assert len(bushel.open(tars[0].parent / "out")) == 12
    assert run("get", *tars, "5", "n") == run("get", tars[1], "1", "n")
    assert run("get", "--raw", *tars, "5", "n", "-o", "-") == run("get", tars[1], "1", "n")
    assert "Missing argument 'SAMPLE'" in fails("get", tars[0])
    run("split", *tars, tars[0].parent / "split", "a=0.5", "b=0.5")
    assert len(bushel.open(tars[0].parent / "split/b")) == 6
    run("repair", "-q", *tars, tars[0].parent / "all.tar")
    assert len(bushel.open(tars[0].parent / "all.tar")) == 12


def test_a_negative_position(tars: list[Path]) -> None:
    assert run("get", tars[0], "-1", "n") == run("get", "--", tars[0], "-1", "n") == run("get", tars[0], "3", "n")
    assert json.loads(run("get", tars[0], "-2"))["n"] == 2
    assert "position -9" in fails("get", tars[0], "-9")
    assert "No such option" in fails("get", tars[0], "-x")


def test_parts_open_as_one(tmp_path: Path) -> None:
    bushel.pack(Numbered(10), tmp_path / "out", container="bag", parts=3)
    assert json.loads(run("info", tmp_path / "out", "--json"))["samples"] == 10
    assert [sample["label"] for sample in bushel.open(tmp_path / "out")] == list(range(10))
    assert run("verify", tmp_path / "out").endswith("compared with checksums\n")
    os.rename(tmp_path / "out/part-00001", tmp_path / "away")
    with pytest.raises(bushel.errors.FormatError, match="part-00001/.* listed in the manifest, but missing"):
        bushel.open(tmp_path / "out")
    assert len(bushel.open(tmp_path / "out", allow_incomplete=True)) == 7
    assert [problem.kind for problem in bushel.verify(tmp_path / "out").problems] == ["missing"]


def test_parts_of_one_file_are_named(tmp_path: Path) -> None:
    bushel.pack(Numbered(10), tmp_path / "x.tar", parts=2)
    pattern = str(tmp_path / "x-part-*.tar")
    assert f"it was packed in parts: open '{pattern}'" in fails("info", tmp_path / "x.tar")
    assert json.loads(run("info", pattern, "--json"))["samples"] == 10


def test_absolute_paths_in_a_table(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 3)
    (tmp_path / "lists").mkdir()
    names = sorted(str(path) for path in photos.rglob("*.jpg"))
    (tmp_path / "lists/x.csv").write_text("path,label\n" + "".join(f"{name},a\n" for name in names))
    run("pack", tmp_path / "lists/x.csv", tmp_path / "x.ffr", "--root", "/")
    assert list(bushel.open(tmp_path / "x.ffr").keys) == [name[1:-4] for name in names]


def test_errors_are_json_with_json(tmp_path: Path, tars: list[Path]) -> None:
    for arguments, code, kind in (
        (["info", tmp_path / "none.tar"], 2, "FileNotFoundError"),
        (["info", tars[0], "--colour"], 2, "UsageError"),
        (["verify", tmp_path / "lists"], 2, "FileNotFoundError"),
    ):
        result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
        assert (result.exit_code, result.stderr) == (code, "")
        told = json.loads(result.stdout)["error"]
        assert (told["type"], told["exit_code"]) == (kind, code)
        assert told["message"]


def test_version_help_and_verbosity(tars: list[Path]) -> None:
    assert run("--version") == f"{bushel.__version__}\n"
    assert run("info", "-h") == run("info", "--help")
    assert "--verbose" in run("ls", "--help")
    assert run("ls", "-q", "-n", 1, tars[0]) == run("ls", "-v", "-n", 1, tars[0])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_BUSHEL_COMPLETE" in completed("", f"{shell}_source")
    assert "plain,convert" in completed("bushel conv").split()


def completed(line: str, asked: str = "bash_complete") -> str:
    """What the script for bash is given for a line: the kind and the value of each word; or the script."""
    place = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from bushel.cli import main; main()"],
        env={**os.environ, "_BUSHEL_COMPLETE": asked, **place},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bushel info tra", ["file,tra"]),
        ("bushel merge all/ tra", ["file,tra"]),
        ("bushel pack photos/ ou", ["file,ou"]),
        ("bushel im2rec tra", ["file,tra"]),
        ("bushel pack --root pho", ["file,pho"]),
        ("bushel info --container par", []),
        ("bushel bench a --shuffle ex", ["plain,exact"]),
        ("bushel split all/ out/ tra", []),
    ],
)
def test_completion_of_files_and_values(line: str, words: list[str]) -> None:
    assert completed(line).split() == words


def test_abbreviated_and_unknown_options_of_the_originals(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 3)
    (tmp_path / "x.rec").write_bytes(b"precious")
    for arguments in (
        ["im2rec", "--lis", tmp_path / "x", photos],
        ["gulp2_image_folder", "--imge_size=3", photos, tmp_path / "out"],
    ):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == 2
        assert str(arguments[1]).partition("=")[0] in result.stderr
    assert (tmp_path / "x.rec").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pack train-0.tar out -c tar --resize 0", "--resize"),
        ("pack photos out -c tar --parts 3 --part 7", "--part 7 does not exist: the parts are 0 to 2"),
        ("pack photos out -c tar --engine nothing", "unknown engine 'nothing'"),
        ("cat train-0.tar 0", "`bushel get PATH KEY` prints one sample"),
        ("info empty", "this folder is empty"),
        ("views train-0.tar --delete x", "unknown view 'x': no view is saved"),
        ("split train-0.tar out ../other=1", "'../other' cannot be the name of a dataset in the target"),
        ("split train-0.tar out a=0.5 /b=0.5", "'/b' cannot be the name of a dataset in the target"),
    ],
)
def test_what_is_typed_by_mistake(tars: list[Path], monkeypatch: pytest.MonkeyPatch, line: str, said: str) -> None:
    folder = tars[0].parent
    monkeypatch.chdir(folder)
    image_folder(folder / "photos", 3)
    (folder / "empty").mkdir()
    there = sorted(folder.rglob("*"))
    assert said in fails(*line.split(), code=1 if line.startswith("info") else 2)
    assert sorted(folder.rglob("*")) == there


def test_messages_name_options_and_not_arguments_of_python(tars: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tars[0].parent
    monkeypatch.chdir(folder)
    image_folder(folder / "photos", 3)
    run("pack", "photos", "out", "-c", "tar")
    assert "but --max-errors allows 0" in fails("pack", "photos", "out", "-c", "tar", "--append", code=1)
    assert "invalid --resize 0" in fails("pack", "photos", "other", "-c", "tar", "--resize", "0")
    assert "max_errors" in fails("ls", "out", "--where", "max_errors == 3")  # which is a name of the user here
    writer = bushel.Writer("out", container="tar", mode="append", sync=False)
    writer.append({"image": b"\xff\xd8\xff", "label": 1}, key="new")
    assert "continue the run that wrote it with --resume" in run("verify", "out", code=1)
    writer.suspend()


def test_info_without_a_dataset(tmp_path: Path) -> None:
    assert "no such file or folder:" in fails("info", tmp_path / "nowhere")
    assert "this folder is empty" in fails("info", tmp_path, code=1)
    (tmp_path / "x.py").write_text("x")
    assert "any container that Bushel reads" in fails("info", tmp_path / "x.py", code=1)
    (tmp_path / "x.tar.gz").write_bytes(b"")
    assert "bushel.open_stream" in fails("info", tmp_path / "x.tar.gz")
    assert "bushel.open_stream" in fails("get", tmp_path / "x.tar.gz", 0)
    assert "pass --allow-commands" in fails("ls", "pipe:echo hello")


def test_repair_names_its_option_for_the_container(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    message = fails("repair", tmp_path / "rows.jsonl", tmp_path / "out")
    assert "name the container of the repaired one with --to: bag, tar" in message


def test_a_folder_without_a_complete_shard_has_no_data(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "out", {"n": "int"}, container="tar")
    writer.append({"n": 1}, key="a")
    writer.flush()
    message = fails("info", tmp_path / "out", code=1)
    writer.close()
    assert "this folder has no data" in message
    assert "a write of it was interrupted" in message


def test_options_that_would_do_nothing(tars: list[Path]) -> None:
    out = tars[0].parent / "out"
    assert "'a' is given twice" in fails("split", tars[0], out, "a=0.5", "a=0.5", "b=0.5")
    assert "--forget-removed needs --overwrite" in fails("convert", tars[0], out, "-c", "tar", "--forget-removed")
    assert "unknown generation 'C': tar has none" in fails("convert", tars[0], out, "-c", "tar", "--generation", "C")
    assert not out.exists()


def test_an_error_of_a_transform_is_no_bug(tars: list[Path]) -> None:
    error = fails("convert", tars[0], tars[0].parent / "out.tar", "--transform", "n=os:getcwd")
    assert error.splitlines()[1].strip() == "in the transform posix.getcwd of field 'n'"
    assert error.startswith("bushel: TypeError: posix.getcwd()")
