"""A dataset in memory, with the methods of `bushel.Dataset` that a loader uses, and damage to order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from bushel.errors import CorruptError


def jitter(value: Any, rng: np.random.Generator) -> Any:
    """A transform that draws random numbers."""
    return value + rng.random(3)


def refuse_seven(number: int) -> int:
    """A transform that fails on the sample 7."""
    if number == 7:
        raise KeyError("seven")
    return number


class OwnError(Exception):
    """An exception that does not survive pickling, as many do not."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def refuse_oddly(number: int) -> int:
    """A transform that fails in a way that cannot be pickled."""
    raise OwnError(number, 2)


def die(number: int) -> int:
    """A transform that kills its process at the sample 7."""
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow(number: int) -> int:
    """A transform that takes its time."""
    time.sleep(0.05)
    return number


def widen(value: Any) -> Any:
    """A transform that makes arrays of 64 KiB."""
    return np.repeat(value[:1], 1 << 14)


def widen_by_position(value: Any) -> Any:
    """A transform whose arrays grow with the position, up to 25 MB in a batch of ten."""
    return np.full(10 * int(value[0]) ** 2, value[0], np.float32)


class MemoryDataset:
    """Sample i has `number` i, `name` "name i", `vector` of 3 floats i; reading or decoding some of them fails.

    Attributes:
        unreadable: Samples whose `number` raises CorruptError when read.
        undecodable: Samples that raise ValueError when decoded.
        prefetched: What has been prefetched, in order.
        reads: Number of samples in each `read`.
    """

    def __init__(
        self, samples: int, unreadable: Iterable[int] = (), undecodable: Iterable[int] = (), fingerprint: str = "memory"
    ) -> None:
        self.samples, self.fingerprint = samples, fingerprint
        self.unreadable, self.undecodable = frozenset(unreadable), frozenset(undecodable)
        self.prefetched: list[int] = []
        self.reads: list[int] = []
        self.spec = {"number": "int", "name": "utf8", "vector": "array"}
        self.keys = [f"key {position}" for position in range(samples)]

    def __len__(self) -> int:
        return self.samples

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        self.prefetched += np.asarray(positions).tolist()

    def read(self, positions: Any, fields: Any = None, *, decode: bool = True) -> list[dict[str, Any]]:
        self.reads.append(len(positions))
        found = []
        for position in np.asarray(positions).tolist():
            if position in self.unreadable:
                key, field = self.keys[position], "number"
                raise CorruptError("bad crc", key=key, field=field, file="memory.bin", offset=8 * position)
            stored = {"number": b"%d" % position, "name": b"name %d" % position, "vector": bytes([position % 256] * 3)}
            sample = {name: value for name, value in stored.items() if fields is None or name in fields}
            found.append({"__key__": self.keys[position], **sample})
        return self.decode_samples(found, positions) if decode else found

    def decode_samples(
        self, stored: Any, positions: Any, encoded: Any = (), fields: Any = None
    ) -> list[dict[str, Any]]:
        return [self.decode_sample(one) for one in stored]

    def decode_sample(self, stored: dict[str, Any]) -> dict[str, Any]:
        sample = dict(stored)
        if "number" in stored:
            sample["number"] = int(stored["number"])
            if sample["number"] in self.undecodable:
                raise ValueError("no number")
        if "name" in stored:
            sample["name"] = stored["name"].decode()
        if "vector" in stored:
            sample["vector"] = np.frombuffer(stored["vector"], np.uint8).astype(np.float32)
        return sample

    def position(self, key: str) -> int:
        if key not in self.keys:
            raise KeyError(f"unknown sample {key!r}")
        return self.keys.index(key)

    def location(self, position: int, field: str) -> tuple[str, int]:
        return "memory.bin", 8 * position
