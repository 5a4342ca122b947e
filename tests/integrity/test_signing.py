"""Digests of datasets, and their signatures by the real `ssh-keygen`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli.running import fails, run
from tests.integrity.removed import keys, write

import bushel

needs_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


def messages(path: Path) -> list[str]:
    return [problem.message for problem in bushel.check_digest(path)]


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "gulp", "recordio"])
def test_the_digest_is_that_of_the_data(container: str, tmp_path: Path) -> None:
    path = write(tmp_path / "data", container)
    digest = bushel.sign(path)
    before = digest.read_bytes()
    assert digest.parent == path / ("000000" if container == "bag" else "") / ".bushel"
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    for folder in list(copy.rglob(".bushel")):
        shutil.rmtree(folder)
    bushel.index(copy) if container != "recordio" else shutil.copytree(path / ".bushel", copy / ".bushel")
    if container in ("gulp", "tar"):
        assert bushel.sign(copy).read_bytes() == before
    assert messages(path) == []
    assert subprocess.run(["sha256sum", "-c", "--quiet", digest], cwd=path, check=True).returncode == 0


def test_every_change_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    bushel.sign(path)
    data = bytearray((file := path / "shard-000001.tar").read_bytes())
    data[600] ^= 1
    file.write_bytes(data)
    [problem] = bushel.check_digest(path)
    assert (problem.kind, problem.file) == ("digest", str(file))
    assert "SHA-256" in problem.message
    data[600] ^= 1
    file.write_bytes(data)
    assert messages(path) == []
    bushel.remove(path, keys=keys([1]), reason="opt-out")
    assert messages(path) == ["removed was 0, and is 1 now", "the digest does not list this file"]
    bushel.restore(path)
    digest = path / ".bushel/digest.txt"
    digest.write_text(digest.read_text() + "\n")
    assert messages(path) == ["the digest has other lines than `bushel sign` writes"]
    digest.write_text("else")
    assert messages(path) == ["this is not a digest of version 1"]
    digest.unlink()
    assert messages(path) == ["the digest is missing: `bushel sign` writes one"]
    bushel.sign(path)
    (path / "shard-000000.tar").write_bytes(bytes(2048) + b"x")
    assert "the dataset cannot be opened" in messages(path)[0]


def test_files_are_compared_even_if_the_dataset_does_not_open(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    digest = bushel.sign(path)
    first, second = sorted(path.glob("*.tar"))[:2]
    second.unlink()
    first.write_bytes(bytes(2048) + b"x")
    digest.write_text(digest.read_text() + f"{'0' * 64}  ../data/{first.name}\n")
    problems = bushel.check_digest(path)
    assert "the dataset cannot be opened" in problems[0].message
    found = {problem.file: problem.message for problem in problems[1:]}
    assert found[str(second)] == "the digest lists this file, which is gone"
    assert "should have the SHA-256" in found[str(first)]
    assert "is not the name of a file in this folder" in found[str(path)]


def test_each_file_has_a_digest_of_its_own(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        bushel.pack({"x": [1, 2]}, tmp_path / name, sync=False)
        assert bushel.sign(tmp_path / name) == tmp_path / ".bushel" / f"{name}.digest.txt"
    path = write(tmp_path / "data")
    whole = bushel.sign(path)
    before = whole.read_bytes()
    bushel.sign(path / "shard-000000.tar")
    assert whole.read_bytes() == before
    with (tmp_path / "a.tar").open("r+b") as file:
        file.seek(700)
        file.write(b"damage")
    assert messages(tmp_path / "a.tar")
    assert messages(tmp_path / "b.tar") == messages(path) == messages(path / "shard-000000.tar") == []


def test_forged_digests_lead_nowhere(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    (tmp_path / "secret").write_text("outside")
    digest = bushel.sign(path)
    digest.write_text(digest.read_text() + f"{'0' * 64}  ../secret\n{'0' * 64}\n# \n")
    assert not any("outside" in message for message in messages(path))
    assert len(messages(path)) >= 1


@needs_keygen
def test_signatures(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    for name in ("ann", "bob"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    signers = tmp_path / "signers.txt"
    signers.write_text(f"ann@example.com {(tmp_path / 'ann.pub').read_text()}")
    said = run("sign", path, "--key", tmp_path / "ann")
    assert "signed in digest.txt.sig" in said
    given = ("--allowed-signers", signers, "--signer", "ann@example.com")
    assert "ok;" in run("verify", path, *given)
    assert bushel.check_digest(path, allowed_signers=signers, signer="ann@example.com") == ()
    assert "is not signed by bob" in run("verify", path, *given[:3], "bob@example.com", code=1)
    run("sign", path, "--key", tmp_path / "bob")
    assert "is not signed by ann" in run("verify", path, *given, code=1)
    assert json.loads(run("sign", path, "--json"))["signature"] is None
    assert "the signature is missing" in run("verify", path, *given, code=1)
    run("sign", path, "--key", tmp_path / "ann")
    digest = path / ".bushel/digest.txt"
    digest.write_text(digest.read_text().replace("# samples", "#  samples"))
    assert "is not signed by ann" in run("verify", path, *given, code=1)


def test_wrong_use(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    assert "--signer" in fails("verify", path, "--signer", "ann")
    with pytest.raises(ValueError, match="together"):
        bushel.check_digest(path, signer="ann")
    with pytest.raises(bushel.UnsupportedError, match="one local folder"):
        bushel.sign([path, path])
    with pytest.raises(bushel.UnsupportedError, match="ssh-keygen"):
        bushel.sign(path, key=tmp_path / "nothing")
