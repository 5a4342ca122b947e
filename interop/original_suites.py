"""Run the originals' own tests with their imports mapped to the drop-ins.

    python interop/original_suites.py                                every suite of original_suites.toml
    python interop/original_suites.py granular --from ~/granular     a suite, from a folder or URL of one's own
    python interop/original_suites.py --list                         the tests that fail, as docs/compat.md has them

The tests are copied into a temporary folder, and run by this Python, which needs Bushel and pytest. A test that fails
without being in the list, and one of the list that passes, are errors: the exit status is then 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIST = HERE / "original_suites.toml"
SHARD = "testdata/imagenet-000000.tgz"
"""A shard of webdataset's tests that copies of its repository may lack, because it is large."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tests that do not pass for the same reason."""

    reason: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of an original: see the beginning of original_suites.toml."""

    name: str
    url: str
    commit: str
    copy: list[str]
    tests: list[str]
    imports: dict[str, str]
    packages: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    not_passing: tuple[Group, ...] = ()

    def left_out(self, *, network: bool) -> list[str]:
        """Return the tests that cannot run on this machine."""
        missing = [need for need in self.needs if not (network if need == "network" else shutil.which(need))]
        return [test for need in missing for test in self.needs[need]]

    def expected(self) -> dict[str, str]:
        """Return the tests that do not pass, with their reasons."""
        return {test: group.reason for group in self.not_passing for test in group.tests}


class SuiteError(Exception):
    """A suite cannot be run. The message says what to do."""


def suites() -> dict[str, Suite]:
    """Return the suites of the list."""
    found = tomllib.loads(LIST.read_text("utf-8"))
    for values in found.values():
        groups = values.pop("not_passing", ())
        values["not_passing"] = tuple(Group(group["reason"], tuple(group["tests"])) for group in groups)
    return {name: Suite(name=name, **values) for name, values in found.items()}


def as_markdown() -> str:
    """Return the tests that do not pass, for docs/compat.md."""
    lines = []
    for suite in suites().values():
        if suite.not_passing:
            lines += [f"**{suite.name}**", ""]
            for group in suite.not_passing:
                lines += [f"- {group.reason}", *(f"    - `{test}`" for test in group.tests)]
            lines += [""]
    return "\n".join(lines)


def fetch(suite: Suite, source: str, target: Path) -> None:
    """Copy the tests from a folder, or from a Git repository at the commit of the suite."""
    folder = Path(source).expanduser()
    if not (folder / suite.copy[0]).exists():
        folder = target.parent / "checkout"
        git = ["git", "-C", str(folder)]
        _run(["git", "init", "--quiet", str(folder)])
        _run([*git, "fetch", "--quiet", "--depth", "1", source, suite.commit])
        _run([*git, "checkout", "--quiet", "FETCH_HEAD", "--", *suite.copy])
    for name in suite.copy:
        if (folder / name).is_dir():
            shutil.copytree(folder / name, target / name)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / name, target / name)
    if (target / SHARD).parent.is_dir() and not (target / SHARD).exists():
        print(f"{suite.name}: {SHARD} is missing there, and made from noise", flush=True)
        make_shard(target / SHARD)


def make_shard(path: Path) -> None:
    """Write a shard like webdataset's: 47 samples, of which the first has a large image (793 x 600)."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0)
    with tarfile.open(path, "w:gz") as shard:
        for number in range(47):
            pixels = np.zeros((793, 600, 3) if number == 0 else (40, 60, 3), np.uint8)
            pixels[:, :100] = noise.integers(0, 256, pixels[:, :100].shape)
            image = io.BytesIO()
            Image.fromarray(pixels).save(image, "PNG")
            contents = {"cls": b"%d" % (number % 10), "png": image.getvalue(), "wnid": b"n01440764", "xml": b"<a/>"}
            for extension, content in contents.items():
                member = tarfile.TarInfo(f"{number:06}.{extension}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SuiteError(f"{' '.join(command)} exited with {done.returncode}: {done.stderr.strip()}")


def run(suite: Suite, folder: Path, *, network: bool, seconds: float) -> dict[str, str]:
    """Run the tests in ``folder`` and return their outcomes: passed, skipped, failed or error, by name."""
    missing = [name for name in ("pytest", *suite.packages) if importlib.util.find_spec(name) is None]
    if missing:
        raise SuiteError(f"its tests need packages: install the modules {', '.join(missing)} for {sys.executable}")
    outcomes = folder.parent / "outcomes.json"
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        **suite.environment,
        "MAPPED_IMPORTS": json.dumps(suite.imports),
        "RECORDED_OUTCOMES": str(outcomes),
        "SECONDS_PER_TEST": str(seconds),
        "PYTHONPATH": os.pathsep.join(paths),
        "TMPDIR": str(folder.parent),
    }
    command = [sys.executable, "-m", "pytest", "-p", "mapped_imports", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["--quiet", "--no-header", "--tb=short", "--rootdir", str(folder), "--continue-on-collection-errors"]
    command += [f"--deselect={test}" for test in suite.left_out(network=network)]
    done = subprocess.run([*command, *suite.tests], cwd=folder, env=environment, check=False)
    if not outcomes.exists():
        raise SuiteError(f"pytest exited with {done.returncode}, without running a test")
    found: dict[str, str] = json.loads(outcomes.read_text("utf-8"))
    return found


def surprises(suite: Suite, outcomes: Mapping[str, str], *, network: bool) -> list[str]:
    """Return the differences from the list."""
    expected, left_out = suite.expected(), set(suite.left_out(network=network))
    failed = {test for test, outcome in outcomes.items() if outcome in ("failed", "error")}
    return [
        *(f"{test} failed" for test in sorted(failed - expected.keys())),
        *(
            f"{test} {outcomes.get(test, 'is not there')}, though the list says that it fails"
            for test in sorted(expected.keys() - failed - left_out)
        ),
    ]


def main() -> int:
    """Run the suites of the command line. Return 0, or 1 after a surprise or if one cannot be run."""
    known = suites()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="*", help=f"one or more of: {', '.join(known)} (default: all)")
    parser.add_argument("--from", dest="source", help="folder or URL of the original's repository (one suite only)")
    parser.add_argument("--network", action="store_true", help="run the tests that download too")
    parser.add_argument("--seconds", type=float, default=300, help="a test that takes longer fails (default: 300)")
    parser.add_argument("--list", action="store_true", help="print the tests that do not pass, as Markdown")
    options = parser.parse_args()
    wanted: list[str] = options.suite or list(known)
    if unknown := sorted(set(wanted) - known.keys()):
        parser.error(f"unknown suite {', '.join(unknown)}; known suites: {', '.join(known)}")
    if options.source is not None and len(wanted) != 1:
        parser.error("--from needs the name of one suite")
    if options.list:
        print(as_markdown(), end="")
        return 0
    summary: list[str] = []
    failed = False
    for suite in map(known.__getitem__, wanted):
        with tempfile.TemporaryDirectory(prefix=f"{suite.name}-tests-") as name:
            folder = Path(name) / "tests"
            try:
                fetch(suite, options.source or suite.url, folder)
                outcomes = run(suite, folder, network=options.network, seconds=options.seconds)
            except SuiteError as error:
                summary.append(f"{suite.name}: could not be run: {error}")
                failed = True
                continue
        counts = Counter(outcomes.values())
        wrong = surprises(suite, outcomes, network=options.network)
        failed = failed or bool(wrong)
        parts = [f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "error", "skipped")]
        left_out = len(suite.left_out(network=options.network))
        summary.append(f"{suite.name}: {', '.join(parts)}, {left_out} left out, {len(wrong)} surprises")
        summary += [f"    {line}" for line in wrong]
    print("\n" + "\n".join(summary))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
