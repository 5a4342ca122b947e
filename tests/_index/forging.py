"""Forged sidecars: write one, and do everything with its dataset that one can do."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save
from tests.fuzz.mutations import with_own_crc32

import bushel
from bushel.errors import BushelError

ENOUGH = 1 << 30
"""Bytes of address space that nothing here needs on top of what the process has."""
PATIENCE = 30
"""Seconds of the processor that nothing here needs."""
Arrays = dict[str, npt.NDArray[Any]]
Header = dict[str, Any]


@contextmanager
def modest() -> Iterator[None]:
    """Have a `MemoryError` where something takes very much, and an error where it takes very long."""

    def late(*_: object) -> None:
        raise AssertionError(f"still not done after {PATIENCE} seconds")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ENOUGH, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def tried(use: Callable[[], object]) -> None:
    with suppress(BushelError, KeyError):
        use()


def exercise(path: Path, *, verify: bool) -> None:
    """Do everything with a dataset that one can do."""
    with modest():
        try:
            dataset = bushel.open(path, index="memory", verify=verify)
        except BushelError:
            return
        size = len(dataset)
        assert 0 <= size < 1000
        plain_fields = [name for name, kind in dataset.spec.items() if not kind.endswith("[]")]
        lists = [name for name, kind in dataset.spec.items() if kind.endswith("[]")]
        uses: list[Callable[[], object]] = [
            lambda: list(dataset.keys),
            lambda: dataset.keys[0] if size else None,
            lambda: dataset.read(range(size)),
            lambda: dataset.read(range(size), decode=False),
            lambda: dataset.prefetch(range(size)),
            lambda: list(dataset),
            lambda: dataset.select_keys(["k0/3"]),
            lambda: "k0/1" in dataset,
            lambda: repr((dataset, dataset.info, dataset.size, dataset.fingerprint)),
            lambda: bushel.concat([dataset, dataset]).read(range(2 * size)),
        ]
        for use in uses:
            tried(use)
        for position in {0, size // 2, size - 1} & set(range(size)):
            tried(lambda at=position: dataset[at])  # type: ignore[misc]
            tried(lambda at=position: dataset.available(at))  # type: ignore[misc]
            for name in dataset.spec:
                tried(lambda at=position, name=name: dataset.location(at, name))  # type: ignore[misc]
                tried(lambda at=position, name=name: dataset[at, [name]])  # type: ignore[misc]
        for name in lists:
            tried(lambda name=name: dataset.read(range(size), {name: slice(None, None, -1)}))  # type: ignore[misc]
            for elements in ([0], [-1]):
                with suppress(BushelError, IndexError):  # which a list too short is by right
                    dataset.read(range(size), {name: elements})
        for name in plain_fields:
            tried(lambda name=name: dataset.gather(range(size), name))  # type: ignore[misc]
        dataset.close()


def parsed(path: Path) -> tuple[Arrays, Header]:
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return dict(load(data)), json.loads(header["__metadata__"]["bushel"])


def forge(path: Path, arrays: Mapping[str, npt.NDArray[Any]], header: Header) -> None:
    """Write an index with the CRC-32 that fits it."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps({**header, "crc32": "00000000"}, separators=(",", ":"))
    path.write_bytes(with_own_crc32(save(contiguous, {"bushel": text})))
