"""Fetch public programs of the originals, and run them over the originals and over the drop-ins.

    python interop/public_programs.py                every program of public_programs.toml
    python interop/public_programs.py open_clip      only those named

Programs are fetched by Git at the commits of the list into `.interop/programs`, and never copied into this repository.
Where GitHub cannot be reached, `PROGRAMS_FROM` says where copies are, as a folder or URL in which `{owner}` and
`{name}` are those of the repository: `PROGRAMS_FROM=/copies/{owner}/{name}`. The exit status is 1 if outputs differ;
a program that could not be run is named with the reason.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import environments
import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
LIST = HERE / "public_programs.toml"


@dataclass(frozen=True, slots=True)
class Program:
    """A row of the list: see the beginning of public_programs.toml."""

    name: str
    title: str
    url: str
    commit: str
    files: list[str]
    imports: dict[str, str]
    environments: list[str]
    shared: bool = False


class NotRunError(Exception):
    """A program was not fetched, or an environment is not there. The message says what to do."""


class ProgramFailedError(Exception):
    """A program ended with an error. The message is its output."""


def programs() -> dict[str, Program]:
    """Return the programs of the list."""
    return {name: Program(name=name, **row) for name, row in tomllib.loads(LIST.read_text("utf-8")).items()}


def fetch(program: Program) -> Path:
    """Return the folder with a program's files; they are fetched if they are not there.

    Raises:
        NotRunError: Git cannot reach the repository.
    """
    folder = environments.ENVIRONMENTS / "programs" / f"{program.name}-{program.commit[:12]}"
    if folder.exists():
        return folder
    owner, name = program.url.split("/")[-2:]
    source = os.environ.get("PROGRAMS_FROM", "https://github.com/{owner}/{name}").format(owner=owner, name=name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        repository = Path(place, "repository.git")
        if Path(source).is_dir():
            repository = Path(source)
        else:
            _git(program, source, "init", "--quiet", "--bare", str(repository))
            _git(program, source, "-C", str(repository), "remote", "add", "origin", source)
            fetching = ["fetch", "--quiet", "--depth", "1", "--filter", "blob:none", "origin", program.commit]
            _git(program, source, "-C", str(repository), *fetching)
        files = ["archive", "--format", "tar", program.commit, "--", *program.files]
        with tarfile.open(fileobj=io.BytesIO(_git(program, source, "-C", str(repository), *files))) as archive:
            archive.extractall(Path(place, "files"), filter="data")
        Path(place, "files").rename(folder)
    return folder


def _git(program: Program, source: str, *arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], capture_output=True, check=False, timeout=300)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise NotRunError(
            f"{program.name} was not fetched from {source}: {' '.join(reason)}; PROGRAMS_FROM says where copies are"
        )
    return done.stdout


def output(program: Program, environment: str, *, dropin: bool) -> list[str]:
    """Return the lines that a program's driver prints, over the original or over the drop-in.

    Raises:
        NotRunError: The program was not fetched, or the environment is not there.
        ProgramFailedError: It ended with an error.
    """
    folder = fetch(program)
    if not environments.is_current(environment):
        raise NotRunError(f"no environment {environment}: run `python interop/environments.py {environment}`")
    original = environments.python_of(environment)
    values = {**os.environ, "MAPPED_IMPORTS": json.dumps(program.imports if dropin else {})}
    values |= {"BUSHEL_ALLOW_PICKLE": "1", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    if program.shared:
        packages = sysconfig.get_path("purelib", vars={"base": str(original.parent.parent)})
        values["ORIGINAL_PACKAGES"] = packages
    python = sys.executable if dropin or program.shared else original
    with tempfile.TemporaryDirectory(prefix=f"{program.name}-") as place:
        write_pictures(Path(place, "pictures"))
        done = subprocess.run(
            [str(python), str(HERE / "run_program.py"), program.name, str(folder)],
            cwd=place, env=values, capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
    if done.returncode:
        over = "the drop-in" if dropin else environment
        raise ProgramFailedError(f"{program.name} over {over} exited with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout.splitlines()


def write_pictures(folder: Path) -> None:
    """Write the JPEGs of which the drivers make their datasets."""
    folder.mkdir()
    noise = np.random.default_rng(0)
    for number in range(32):
        for shape, columns in (("wide", 8), ("square", 6)):
            pixels = noise.integers(0, 256, (6, columns, 3), np.uint8)
            image = Image.fromarray(np.kron(pixels, np.ones((4, 4, 1), np.uint8)))
            image.save(folder / f"{number:02}-{shape}.jpg")


def main() -> int:
    """Run the programs of the command line. Return 0, or 1 if outputs differ."""
    known = programs()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help=f"one or more of: {', '.join(known)} (default: all)")
    names: list[str] = parser.parse_args().program or list(known)
    if unknown := sorted(set(names) - known.keys()):
        parser.error(f"unknown program {', '.join(unknown)}; known programs: {', '.join(known)}")
    status = 0
    for program in map(known.__getitem__, names):
        for environment in program.environments:
            try:
                wanted = output(program, environment, dropin=False)
                found = output(program, environment, dropin=True)
            except NotRunError as error:
                print(f"NOT RUN: {error}")
                continue
            except ProgramFailedError as error:
                print(f"FAILED: {error}")
                status = 1
                continue
            if found != wanted:
                print(*difflib.unified_diff(wanted, found, environment, "drop-in", lineterm="", n=1), sep="\n")
                status = 1
            else:
                print(f"{program.name} over {environment}: {len(wanted)} lines are the same")
    return status


if __name__ == "__main__":
    sys.exit(main())
