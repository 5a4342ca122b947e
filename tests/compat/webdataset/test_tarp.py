"""`bushel tarp`."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.compat.webdataset.shards import archive, files_of, numbered, write_shards

from bushel.compat.webdataset.commands.tarp import tarp as main
from bushel.containers.tar.writer import header_of
from bushel.errors import FormatError, UnsupportedError


def keys(path: Path) -> list[str]:
    return list(dict.fromkeys(name.rpartition(".")[0] for name, _ in files_of(path)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BUSHEL_ALLOW_COMMANDS", raising=False)
    return tmp_path


def test_create_follows_a_recipe(folder: Path) -> None:
    (folder / "im 1.jpg").write_bytes(b"jpeg")
    (folder / "r").write_text("a.jpg im 1.jpg\na.cls text:3\n\nb.jpg\tfile:im 1.jpg\nb.txt pipe:printf out\n")
    with pytest.raises(UnsupportedError, match="allow_commands"):
        main(["create", "r", "-o", "out.tar"])
    assert not list(folder.glob("*out.tar"))
    assert main(["create", "r", "-o", "out.tar", "--allow-commands"]) == 0
    wanted = [("a.jpg", b"jpeg"), ("a.cls", b"3"), ("b.jpg", b"jpeg"), ("b.txt", b"out")]
    assert files_of(folder / "out.tar") == wanted
    assert main(["create", "r", "-o", "few.tar", "--count", "2"]) == 0
    assert files_of(folder / "few.tar") == wanted[:2]
    (folder / "r").write_text("a.jpg\n")
    with pytest.raises(FormatError, match="line 1 needs a name and a source"):
        main(["create", "r", "-o", "out.tar"])
    assert files_of(folder / "out.tar") == wanted  # a command that fails changes nothing


def test_shuffle_selects_renames_and_numbers(folder: Path) -> None:
    pattern = write_shards(folder, 3)
    main(["shuffle", pattern, "-o", "few.tar", "--slice", "2:20:5", "--rekey", "#", "-f", "n:nothing,cls"])
    assert (folder / "few.tar").read_bytes()[:512] == header_of("000000000.n", len(files_of(folder / "few.tar")[0][1]))
    assert keys(folder / "few.tar") == [f"{i:09d}" for i in range(4)]
    assert sorted(files_of(folder / "few.tar"), key=lambda file: int(file[1]))[1][1] == b"7"
    main(["shuffle", pattern, "-o", "one.tar", "--slice", "4", "-f", "txt"])
    assert files_of(folder / "one.tar") == [("s004.txt", b"t4")]
    with pytest.raises(FormatError, match="has none of the fields jpg, png"):
        main(["shuffle", pattern, "-o", "no.tar", "-f", "jpg,png"])
    assert not list(folder.glob("*no.tar"))


def test_it_goes_on_after_so_many_damaged_archives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shards(folder, 2)
    (folder / "bad.tar").write_bytes(archive(numbered(90, 95))[:2048])
    inputs = ["x-0000.tar", "bad.tar", "x-0001.tar"]
    with pytest.raises(FormatError, match=r"bad\.tar"):
        main(["shuffle", *inputs, "-o", "out.tar"])
    assert not (folder / "out.tar").exists()
    main(["shuffle", *inputs, "-o", "out.tar", "--maxerr", "1"])
    assert len(keys(folder / "out.tar")) >= 20
    assert "WARNING bad.tar@" in capsys.readouterr().err


def test_standard_streams_and_commands(folder: Path) -> None:
    code = "import sys; from bushel.compat.webdataset.commands.tarp import tarp as main; sys.exit(main(sys.argv[1:]))"
    content = archive(numbered(0, 3))
    done = subprocess.run(
        [sys.executable, "-c", code, "shuffle", "-", "-o", "-"], input=content, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        assert sorted(tar.getnames()) == sorted(name for name, _ in numbered(0, 3))
    (folder / "a.tar").write_bytes(content)
    main(["shuffle", "pipe:cat a.tar", "-o", "pipe:cat > b.tar", "--allow-commands"])
    assert sorted(files_of(folder / "b.tar")) == sorted(numbered(0, 3))


def test_split(folder: Path) -> None:
    (folder / "all.tar").write_bytes(archive(numbered(0, 10)))
    main(["split", "all.tar", "-c", "4", "-o", "s-%03d.tar", "-p", "echo %s >> done"])
    assert [files_of(folder / f"s-{i:03d}.tar") for i in range(3)] == [numbered(0, 4), numbered(4, 8), numbered(8, 10)]
    assert (folder / "done").read_text().split() == [f"s-{i:03d}.tar" for i in range(3)]
    main(["split", "all.tar", "-s", "6", "--slice", "0:5"])
    assert [len(keys(folder / f"split-{i:06d}.tar")) for i in range(3)] == [2, 2, 1]
    with pytest.raises(ValueError, match="no place for the number"):
        main(["split", "all.tar", "-o", "same.tar"])
    with pytest.raises(FormatError, match=r"split-000000\.tar: the command failed for the shard with exit status 1"):
        main(["split", "all.tar", "-p", "false"])


def test_a_split_that_fails_leaves_only_whole_shards(folder: Path) -> None:
    (folder / "cut.tar").write_bytes(archive(numbered(0, 5))[:-11000])
    with pytest.raises(FormatError, match=r"cut\.tar"):
        main(["split", "cut.tar", "-c", "2", "-o", "s-%d.tar"])
    whole = sorted(path.name for path in folder.iterdir() if path.name != "cut.tar")
    assert [(name, len(keys(folder / name))) for name in whole] == [("s-0.tar", 2)]


def test_a_full_shuffle_keeps_every_sample(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = write_shards(folder, 3)
    for name in ("a.tar", "b.tar"):
        main(["shuffle", pattern, pattern, "-o", name, "--seed", "1", "--tmpdir", str(folder)])
    found = files_of(folder / "a.tar")
    assert found == files_of(folder / "b.tar") != numbered(0, 30) * 2
    assert sorted(found) == sorted(numbered(0, 30) * 2)  # equal keys are two samples
    assert not list(folder.glob("tarp-shuffle-*"))
    main(["shuffle", pattern, "-o", "c.tar", "--tmpdir", str(folder), "--keepdb", "-f", "cls"])
    [kept] = folder.glob("tarp-shuffle-*/samples.tar")
    assert str(kept) in capsys.readouterr().err
    assert len(files_of(folder / "c.tar")) == 30


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["shuffle", "x"],
        ["shuffle", "x", "-o", "y", "--slice", "a:b"],
        ["cat", "x", "-o", "y"],
        ["sort", "x", "-o", "y"],
        ["proc", "x", "-o", "y", "-c", "true"],
        ["split"],
    ],
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: bushel tarp" in capsys.readouterr().err


def test_it_is_a_command_of_bushel(folder: Path) -> None:
    (folder / "a.tar").write_bytes(archive(numbered(0, 2)))
    run = [sys.executable, "-m", "bushel", "tarp", "shuffle", "a.tar", "-o", "b.tar"]
    assert subprocess.run(run, capture_output=True, check=False).returncode == 0
    assert sorted(files_of(folder / "b.tar")) == sorted(numbered(0, 2))
