"""Virtual environments with the original packages, for tests and benchmarks.

    python interop/environments.py            every environment
    python interop/environments.py mxnet      only those named

Each file ``requirements/NAME.txt`` becomes ``.interop/NAME`` at the root of the repository. An environment whose
requirements have not changed is kept. An environment that cannot be made does not stop the others; the exit
status is then 1, and the last lines say which failed and why. ``uv`` is used if it is installed, else venv and pip.

FFRecord comes from its repository. Where GitHub cannot be reached, Git takes a copy instead:

    git config --global url.COPIES/ffrecord.insteadOf https://github.com/HFAiLab/ffrecord
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = "3.11"  # the newest version on which most originals still run (mxnet 1.9.1 needs NumPy 1.23)
NEEDED = "# python: "
"""A first line of requirements that begins so names another version of Python."""
RECIPES = Path(__file__).resolve().parent / "requirements"
ENVIRONMENTS = RECIPES.parent.parent / ".interop"
STAMP = "requirements.sha256"
ON_REQUEST = frozenset(
    {
        "cloud-torch",
        "columns",
        "dali",
        "ffcv",
        "ffrecord",
        "foreign",
        "lerobot",
        "lerobot-0.6",
        "lerobot-lance",
        "loading",
        "mds",
        "megatron",
        "parquet",
    }
)
"""Environments that are made only by name: they take gigabytes, and FFCV and FFRecord need additional headers."""


class EnvironmentFailedError(Exception):
    """An environment could not be made. The message says what to do."""


def names() -> list[str]:
    """Return the names of the environments."""
    return sorted(recipe.stem for recipe in RECIPES.glob("*.txt"))


def python_of(name: str) -> Path:
    """Return the path of the interpreter of an environment, even if it does not exist."""
    return ENVIRONMENTS / name / "bin" / "python"


def version_of(name: str) -> str:
    """Return the version of Python of an environment."""
    first = (RECIPES / f"{name}.txt").read_text().partition("\n")[0]
    return first.removeprefix(NEEDED) if first.startswith(NEEDED) else PYTHON


def fingerprint(name: str) -> str:
    """Return the contents of the stamp of an up-to-date environment."""
    return hashlib.sha256(version_of(name).encode() + b"\n" + (RECIPES / f"{name}.txt").read_bytes()).hexdigest()


def is_current(name: str) -> bool:
    """Return whether an environment exists and was made from its current requirements."""
    stamp = ENVIRONMENTS / name / STAMP
    return python_of(name).exists() and stamp.is_file() and stamp.read_text() == fingerprint(name)


def make(name: str) -> None:
    """Make the environment ``name`` from scratch.

    Raises:
        EnvironmentFailedError: The Python version is missing, or a package cannot be installed.
    """
    folder, recipe = ENVIRONMENTS / name, RECIPES / f"{name}.txt"
    shutil.rmtree(folder, ignore_errors=True)
    packages = [line for line in recipe.read_text().splitlines() if line and not line.startswith("#")]
    steps = [["--requirement", str(recipe)]]
    if (published := [line for line in packages if " @ " not in line]) != packages:
        # a package from its repository does not say what building it needs: the others are there before it
        steps = [published, ["--no-build-isolation", *steps[0]]]
    uv = shutil.which("uv")
    if uv is not None:
        _run([uv, "venv", "--quiet", "--python", version_of(name), str(folder)])
        install = [uv, "pip", "install", "--quiet", "--python", str(python_of(name))]
    else:
        _run([_interpreter(version_of(name)), "-m", "venv", str(folder)])
        install = [str(python_of(name)), "-m", "pip", "install", "--quiet"]
    for step in steps:
        _run([*install, *step])
    (folder / STAMP).write_text(fingerprint(name))


def _interpreter(version: str) -> str:
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    of_pyenv = sorted(folder.glob(f"versions/{version}.*/bin/python{version}"))
    for python in (shutil.which(f"python{version}"), *of_pyenv):
        # A name that pyenv has on the PATH may be a script that says that the version is not chosen.
        if python and subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return str(python)
    raise EnvironmentFailedError(f"needs Python {version}: install python{version}, or uv, which fetches it")


def _run(command: list[str]) -> None:
    print("    " + " ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentFailedError(f"{' '.join(command[:3])} … exited with {done.returncode}:\n{done.stdout.strip()}")


def main() -> int:
    """Make the environments of the command line. Return 0, or 1 if one failed."""
    parser = argparse.ArgumentParser(description="Make virtual environments of the original packages.")
    parser.add_argument(
        "name",
        nargs="*",
        help=f"one or more of: {', '.join(names())} (default: all but {', '.join(sorted(ON_REQUEST))})",
    )
    wanted: list[str] = parser.parse_args().name or sorted(set(names()) - ON_REQUEST)
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        parser.error(f"no recipe for {', '.join(unknown)}; there is: {', '.join(names())}")
    failed: dict[str, str] = {}
    for name in wanted:
        if is_current(name):
            print(f"{name}: up to date", flush=True)
            continue
        print(f"{name}: making {ENVIRONMENTS / name}", flush=True)
        try:
            make(name)
        except EnvironmentFailedError as error:
            failed[name] = str(error)
            print(f"{name}: FAILED", flush=True)
        else:
            print(f"{name}: ready", flush=True)
    for name, reason in failed.items():
        print(f"\n{name} could not be made: {reason}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
