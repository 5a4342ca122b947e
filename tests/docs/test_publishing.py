"""The commands of docs/publishing.md, run by a shell with a key of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.example_data import make
from tests.docs.pages import blocks

PAGE = "docs/publishing.md"


def shell(commands: str) -> int:
    """Run commands in a shell that finds this environment's `bushel` first, and return the exit code."""
    path = f'PATH="{Path(sys.executable).parent}:$PATH"; set -e\n'
    return subprocess.run(["bash", "-c", path + commands], capture_output=True, check=False).returncode


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_changed_dataset_is_found() -> None:
    for name in ("ann", "bob"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name], check=True)
    Path("signers.txt").write_text(f"ann@example.com {Path('ann.pub').read_text()}")
    publish, check, _ = (block.replace("~/.ssh/id_ed25519", "ann") for block in blocks(PAGE, "sh"))
    assert shell(publish) == 0
    assert shell(check) == 0
    for file in sorted(path for path in Path("train").rglob("*") if path.is_file()):
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert shell(check) != 0, file
        file.write_bytes(data)
    assert shell(check) == 0
    Path("train.sha256.sig").unlink()
    assert shell(publish.replace("-f ann", "-f bob")) == 0
    assert shell(check) != 0


@pytest.mark.skipif(shutil.which("minisign") is None, reason="needs minisign")
def test_minisign() -> None:
    assert shell("minisign -G -W -p minisign.pub -s ~/.minisign/minisign.key") == 0
    publish, _, commands = blocks(PAGE, "sh")
    assert shell(publish.partition("ssh-keygen")[0]) == 0
    assert shell(commands) == 0
