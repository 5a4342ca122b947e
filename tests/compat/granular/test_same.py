"""The same script with Granular and with Bushel prints the same."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat.originals import INTEROP, python_of

pytestmark = pytest.mark.interop


def printed(python: Path, script: str, package: str) -> str:
    command = [str(python), str(INTEROP / "same" / script), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("environment", "script", "package"),
    [
        ("granular-b", "granular_datasets.py", "bushel.compat.granular"),
        ("granular-b", "granular_loader.py", "bushel.compat.granular"),
        ("granular-c", "granular_v24.py", "bushel.compat.granular.v24"),
    ],
)
def test_the_same_script_prints_the_same(environment: str, script: str, package: str) -> None:
    wanted = printed(python_of(environment), script, "granular")
    found = printed(Path(sys.executable), script, package)
    assert found.splitlines() == wanted.splitlines()
    assert len(found.splitlines()) > 50
