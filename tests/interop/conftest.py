"""The original packages, each in its own environment, called through the scripts of ``interop/``."""

import json
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "interop"

Lines = list[dict[str, Any]]
Original = Callable[..., Lines]


class OriginalFailedError(AssertionError):
    """A script that used an original package ended with an error; the message is its output."""


def _runner(python: Path) -> Original:
    def run(script: str, *arguments: str | Path) -> Lines:
        command = [str(python), str(SCRIPTS / script), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OriginalFailedError(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture(scope="session")
def original() -> Callable[[str], Original]:
    """``original("mxnet")("read_mxnet.py", path)``: the lines that a script prints in the environment named."""
    environments = runpy.run_path(str(SCRIPTS / "environments.py"))

    def find(name: str) -> Original:
        if not environments["is_current"](name):
            pytest.skip(f"no up-to-date environment {name}: run `python interop/environments.py {name}`")
        return _runner(environments["python_of"](name))

    return find


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    """``plan(samples, spec)`` writes a plan for the ``write_*.py`` scripts; bytes in the samples become files."""

    def item(value: Any) -> Any:
        if isinstance(value, bytes):
            path = folder / str(len(list(folder.iterdir())))
            path.write_bytes(value)
            return {"file": f"{folder.name}/{path.name}"}
        if isinstance(value, list):
            return [item(element) for element in value]
        if hasattr(value, "dtype"):
            return {"value": value.tolist(), "dtype": str(value.dtype)}
        return {"value": value}

    def write(samples: list[tuple[str, dict[str, Any]]], spec: dict[str, str] | None = None) -> Path:
        rows = [
            {"key": key, "fields": {name: item(value) for name, value in fields.items()}} for key, fields in samples
        ]
        path = tmp_path / f"plan-{len(list(tmp_path.glob('plan-*.json')))}.json"
        path.write_text(json.dumps({"spec": spec or {}, "samples": rows}), encoding="utf-8")
        return path

    folder = tmp_path / "plan-files"
    folder.mkdir()
    return write
