"""One process of a campaign: it works through a range of cases. `main` lists the arguments.

A case that raises an error of Bushel's own is fine, every other error is written to
the file FAILURES. Memory is compared with the limit after each case. Crashes and hangs are up to the process that
watches this one (`watch.py`).
"""

from __future__ import annotations

import faulthandler
import functools
import json
import logging
import os
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from obstore.store import LocalStore
from tests.fuzz.campaign import board
from tests.fuzz.campaign.cases import Case, make_case
from tests.fuzz.campaign.check import Outcome, check
from tests.fuzz.campaign.kernels import check_kernels
from tests.fuzz.campaign.material import TIME, Material, make_materials, write_files
from tests.fuzz.campaign.names import make_run, run_names

from bushel.codecs import get_codec
from bushel.storage.expansion_cache import expansion_cache
from bushel.storage.objects import client

__all__ = ["MEMORY", "Bench", "record_failure"]

MEMORY = 256 << 20
"""Bytes that a case may use in addition to an idle process."""

_ADDRESSES = 4 << 30
"""Bytes of addresses that a worker may add: a case that takes more at once fails before all memory is used."""
_LOADING = 50
"""Number of the first cases of a process, in which it loads what is loaded on first use."""

_KEPT = 400
"""Damaged files to keep in a campaign; further failures are only listed."""


class Bench:
    """The folders in which the cases of one container are laid out and read.

    Args:
        container: Name of the container.
        seed: Seed of the campaign.
        folder: An empty folder, best in memory.
    """

    def __init__(self, container: str, seed: int, folder: Path) -> None:
        self.container, self.seed, self.folder = container, seed, folder
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "made").mkdir(parents=True)
        self._store = LocalStore(prefix=str(folder))
        self.materials = make_materials(container, folder / "made")
        for material in self.materials:
            self._lay_out(material, indexed=False)
            self._lay_out(material, indexed=True)

    def case(self, number: int) -> Case:
        """Return a case."""
        return make_case(self.container, self.seed, number, self.materials)

    def run(self, case: Case) -> Outcome:
        """Damage a file, read the dataset in the way of the case, and put the file back.

        Raises:
            Exception: The case fails.
        """
        material = self.materials[case.material]
        place = "indexed" if case.indexed else "plain"
        name = f"{place}/{material.name}"
        path = self.folder / name / case.file
        path.write_bytes(case.data)
        if case.keep_time:
            os.utime(path, ns=(TIME, TIME))
        source = f"s3://campaign/{name}" if case.remote else str(self.folder / name)
        expansion_cache().clear()  # which takes a file of the same size and time for the same
        try:
            with _connected(self._store) if case.remote else nullcontext():
                return check(case, self.container, material, source, self.folder / "repaired")
        finally:
            files = material.sidecars if case.sidecar else material.files
            write_files(self.folder / name, [(case.file, files[case.file])])

    def run_kernels(self, case: Case) -> Outcome:
        """Give the damaged file to the compiled functions.

        Raises:
            Exception: The case fails.
        """
        return check_kernels(case, self.container, self.materials[case.material], self.folder / "kernels")

    def run_names(self, case: Case) -> Outcome:
        """Forge names of codecs and files in the dataset of the case, and use it: see `names`.

        Raises:
            Exception: The case fails.
        """
        place = self.folder / "names"
        if not (place / "run").exists():
            make_run(place / "run", self.container)
        address = "s3://campaign/names" if case.remote else str(place)
        with _connected(self._store) if case.remote else nullcontext():
            return run_names(self.container, self.seed, case.number, self.materials[case.material], place, address)

    def _lay_out(self, material: Material, *, indexed: bool) -> None:
        folder = self.folder / ("indexed" if indexed else "plain") / material.name
        write_files(folder, material.files.items())
        if indexed:
            write_files(folder, material.sidecars.items())


@contextmanager
def _connected(store: LocalStore) -> Iterator[None]:
    """Let every bucket be a folder. Everything but the connection itself is as for any object store."""
    connect = client._make
    client._make = lambda *_: store  # type: ignore[assignment]
    try:
        yield
    finally:
        client._make = connect


def record_failure(failures: Path, case: Case, container: str, kind: str, signature: str, detail: str) -> None:
    """Add a line about a failed case to a file, and keep its damaged file beside it."""
    entry: dict[str, Any] = {
        "container": container,
        "case": case.number,
        "arm": case.arm,
        "material": case.material,
        "file": case.file,
        "mutations": case.mutations,
        "kind": kind,
        "signature": signature,
        "detail": detail[-3000:],
    }
    with open(failures, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")
    kept = failures.parent / "damaged"
    kept.mkdir(exist_ok=True)
    if sum(1 for _ in kept.iterdir()) < _KEPT:
        (kept / f"{container}-{case.number}-{case.file.replace('/', '-')}").write_bytes(case.data)


def _signature(error: BaseException) -> str:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "bushel" in frame.filename or "fuzz" in frame.filename
    ]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return f"{type(error).__name__} in {where}"


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _work(bench: Bench, run: Callable[[Case], Outcome], first: int, stop: int, shared: Any, failures: Path) -> None:
    baseline = _resident()
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # which takes terabytes of addresses
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _ADDRESSES, size + _ADDRESSES))
    shared[board.BASELINE] = baseline
    for number in range(first, stop):
        case = bench.case(number)
        shared[board.CASE] = number
        try:
            outcome = run(case)
        except Exception as error:
            shared[board.FAILED] += 1
            detail = "".join(traceback.format_exception(error))
            record_failure(failures, case, bench.container, "error", _signature(error), detail)
        else:
            shared[board.OPENED + case.arm] += outcome.opened
            shared[board.SAMPLES + case.arm] += outcome.samples
        peak = _resident()
        shared[board.PEAK] = max(int(shared[board.PEAK]), peak - baseline)
        shared[board.ARM + case.arm] += 1
        if peak > baseline + MEMORY:
            shared[board.FAILED] += 1
            detail = f"{peak - baseline >> 20} MiB above the memory of an idle process"
            record_failure(failures, case, bench.container, "memory", "memory", detail)
            shared[board.CASE] = number + 1
            os._exit(3)  # the peak of a process never falls: a fresh one goes on
        if number < first + _LOADING:
            baseline = peak
    shared[board.CASE] = stop


def main(arguments: list[str]) -> None:
    """Work through a range of cases."""
    suite, container, seed, first, stop, folder, numbers, failures = arguments
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    logging.disable()
    warnings.simplefilter("ignore")
    for codec in ("jpg", "json", "msgpack", "npy"):
        get_codec(codec)
    bench = Bench(container, int(seed), Path(folder))
    run = {"read": bench.run, "kernels": bench.run_kernels, "names": bench.run_names}[suite]
    try:
        _work(bench, functools.partial(run), int(first), int(stop), board.map_board(Path(numbers)), Path(failures))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
