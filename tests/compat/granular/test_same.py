"""The same script with Granular and with Bushel prints the same."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

INTEROP = Path(__file__).resolve().parents[3] / "interop"


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
    environments = runpy.run_path(str(INTEROP / "environments.py"))
    if not environments["is_current"](environment):
        pytest.skip(f"no up-to-date environment {environment}: run `make interop-env`")
    wanted = printed(environments["python_of"](environment), script, "granular")
    found = printed(Path(sys.executable), script, package)
    assert found.splitlines() == wanted.splitlines()
    assert len(found.splitlines()) > 50
