"""Benchmark of loading numbers: shuffled epochs of tokens, uint16[4096], and of records of 200 bytes, batches of 256.

python benchmarks/columns.py --out columns.json        60,000 × 4096 tokens and 1,000,000 × 200 B, in memory
python benchmarks/columns.py --small                   a tenth of them, fewer rounds

Every loader runs in its own process and environment. They take turns; the first epoch of each is not counted. CPU time
is that of the process and its children. `--python NAME=PATH` names the interpreter of a peer's environment, whose
packages interop/requirements/columns.txt lists.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measure import ROOT, SCRATCH, InEnvironment, Timing, console, how_to_make, in_turns, options_parser, save, show
from served import PEERS, remember

CLOCK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Kind:
    """The data that are loaded.

    Attributes:
        name: `tokens` or `records`.
        dtype: Type of the numbers.
        length: Numbers in a sample.
        samples: Number of samples.
    """

    name: str
    dtype: str
    length: int
    samples: int

    @property
    def folder(self) -> Path:
        """The folder of its datasets."""
        return SCRATCH / f"columns-{self.name}-{self.samples}"

    @property
    def source(self) -> Path:
        """The file with all numbers."""
        return self.folder / "numbers.bin"

    def make(self) -> None:
        """Write the file with all numbers, if it does not exist."""
        if self.source.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        rng, part = np.random.default_rng(0), self.source.with_suffix(".part")
        with part.open("wb") as file:
            for first in range(0, self.samples, 10_000):
                rows = min(10_000, self.samples - first)
                file.write(rng.integers(0, np.iinfo(self.dtype).max, (rows, self.length), self.dtype).tobytes())
        part.rename(self.source)


@dataclass(frozen=True, slots=True)
class Contestant(InEnvironment):
    """One way to load.

    Attributes:
        name: Its name in tables.
        peer: The module `peers/peer_columns_….py`.
        variant: An option of the module, such as the number of workers.
        data: Name of its dataset.
        kinds: The kinds that it can load.
        environment: Folder of `.interop` with its packages; None for this interpreter.
    """

    name: str
    peer: str
    variant: str
    data: str
    kinds: tuple[str, ...] = ("tokens", "records")
    environment: str | None = None


CONTESTANTS = [
    Contestant("memmap", "memmap", "index", "numbers.bin"),
    Contestant("memmap, numpy.take", "memmap", "take", "numbers.bin"),
    Contestant("bushel bag, 0 workers", "bushel", "bag 0", "bag"),
    Contestant("bushel bag, 1 worker", "bushel", "bag 1", "bag"),
    Contestant("bushel bag, 2 workers", "bushel", "bag 2", "bag"),
    Contestant("bushel tar, 1 worker", "bushel", "tar 1", "tar"),
    Contestant("bushel recordio, 1 worker", "bushel", "recordio 1", "recordio"),
    Contestant("bushel ffrecord + CRC, 1 worker", "bushel", "ffrecord 1", "ffrecord"),
    Contestant("bushel bag with keys, 1 worker", "bushel", "bag 1 keys", "bag"),
    Contestant("grain + array_record", "grain", "", "array_record", environment="columns"),
    Contestant("Hugging Face datasets", "hf", "", "hf", environment="columns"),
    Contestant("MosaicML MDS", "mds", "", "mds", environment="mds"),
    Contestant("LitData tokens", "litdata", "", "litdata", ("tokens",), "columns"),
]


class Loading:
    """A process that loads epochs on request."""

    def __init__(self, contestant: Contestant, kind: Kind, python: Path) -> None:
        path = kind.folder / contestant.data
        command = [str(python), str(PEERS / "serve_columns.py"), contestant.peer, contestant.variant, str(path)]
        done = path.with_name(path.name + ".done")
        described = [kind.dtype, str(kind.length), str(kind.source)]
        if path != kind.source and not done.exists():
            shutil.rmtree(path, ignore_errors=True)
            console.print(f"writing {path.relative_to(ROOT)}")
            subprocess.run([*command, *described, "write"], check=True, stdout=subprocess.DEVNULL)
            done.touch()
        remember(path)
        self._name, self._samples, self._path = contestant.name, kind.samples, path
        self._process = subprocess.Popen(
            [*command, *described, "load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self._name} has ended with status {self._process.wait()}")
        return json.loads(line)

    def epoch(self, seed: int) -> Timing:
        """Load one epoch, of data in memory: some of them may have left it since the last turn."""
        remember(self._path)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()
        answer = self._answer()
        if not 0.95 * self._samples <= answer["samples"] <= self._samples:
            raise ValueError(f"{self._name}: {answer['samples']} samples in an epoch of {self._samples}")
        return Timing(answer["samples"], answer["wall"], answer["cpu"])

    def close(self) -> None:
        """Stop the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def measure(kind: Kind, pythons: dict[str, Path], rounds: int, skipped: dict[str, str]) -> Any:
    """Measure all loaders of one kind."""
    kind.make()
    with ExitStack() as stack:
        turns: dict[str, Callable[[int], Timing]] = {}
        for one in CONTESTANTS:
            python = pythons.get(one.peer, one.python)
            if kind.name not in one.kinds:
                skipped[f"{one.name}, {kind.name}"] = "it has no loader of them"
                continue
            if not python.exists():
                skipped[one.name] = how_to_make(one.environment)
                continue
            try:
                loading = Loading(one, kind, python)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                skipped[f"{one.name}, {kind.name}"] = str(error)
                continue
            stack.callback(loading.close)
            loading.epoch(99)  # make everything that is made on first use
            turns[one.name] = loading.epoch
        return in_turns(turns, rounds)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Loading numbers.", "a tenth of the samples, fewer rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", choices=("tokens", "records"), help="load only these")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="interpreter of a peer")
    options = parser.parse_args()
    rounds, part = options.rounds or (3 if options.small else 5), 10 if options.small else 1
    pythons = {name: Path(path) for name, _, path in (given.partition("=") for given in options.python)}
    skipped: dict[str, str] = {}
    results = {}
    for kind in (Kind("tokens", "uint16", 4096, 60_000 // part), Kind("records", "uint8", 200, 1_000_000 // part)):
        if options.only not in (None, kind.name):
            continue
        results[kind.name] = measure(kind, pythons, rounds, skipped)
        title = f"shuffled epochs of {kind.samples:,} × {kind.dtype}[{kind.length}], batches of 256"
        show(title, "samples", results[kind.name], ["memmap"])
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
