"""Reading a damaged dataset, and comparing what comes out with what is true."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.campaign.cases import Case
from tests.fuzz.campaign.material import Material, Value, plain, repaired_as

import bushel
from bushel.errors import BushelError

__all__ = ["Outcome", "WrongError", "check"]

_SOME = 30
"""Number of samples to read: more than any undamaged dataset has."""

Samples = list[tuple[str, Mapping[str, Value]]]


class WrongError(Exception):
    """Bushel gave bytes that it could have known to be wrong, or called them right."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        opened: Whether `bushel.open` succeeded.
        samples: Number of samples that could be read.
    """

    opened: bool
    samples: int


def check(case: Case, container: str, material: Material, source: str, spare: Path) -> Outcome:
    """Open, read, and in some cases verify and repair the dataset at `source`.

    Raises:
        WrongError: Wrong bytes where a checksum was known.
        Exception: Whatever is not a `BushelError` is a bug, too.
    """
    found = _read(case, source)
    same_size = len(case.data) == len(material.files.get(case.file, b""))
    fits = case.indexed and case.verify is True and case.keep_time and same_size
    if found is not None and not case.believed and (fits or container == "ffrecord"):  # which has its own checksums
        _compare(found, material, "read", by_key=fits)
    if case.check:
        _verify(case, container, material, source, found)
    if case.repair:
        _repair(case, container, material, source, spare)
    return Outcome(found is not None, len(found or ()))


def _read(case: Case, source: str) -> Samples | None:
    """Return the samples that can be read; None if the dataset cannot be opened."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bushel.errors.DamagedWarning)
            dataset = bushel.open(source, index="memory", verify=case.verify, pickle=True)
    except BushelError:
        return None
    with dataset:
        count = min(len(dataset), _SOME)
        positions = list(range(count))
        read = []
        try:
            read = dataset.read(positions, decode=False)
        except BushelError:
            for position in positions:
                try:
                    read += dataset.read([position], decode=False)
                except BushelError:
                    continue
        if count:
            try:
                sample = dataset[case.decode % count]
                dataset.position(sample["__key__"])
            except BushelError:
                pass
            except KeyError:  # a damaged index has a key that its own table for lookup does not have
                if not case.believed:
                    raise
        return [
            (sample["__key__"], {name: plain(value) for name, value in sample.items() if name != "__key__"})
            for sample in read
        ]


def _compare(found: Samples, material: Material, what: str, *, by_key: bool) -> None:
    for key, sample in found:
        if by_key and dict(sample) != material.samples.get(key):
            raise WrongError(f"{what}: sample {key!r} has other values: {_short(sample)}")
        for name, value in sample.items():
            parts = value if isinstance(value, tuple) and value not in material.values else (value,)
            if any(part not in material.values for part in parts):
                raise WrongError(
                    f"{what}: field {name!r} of sample {key!r} is {_short(value)}, which was never written"
                )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:120]}…{text[-60:]} ({len(text)} characters)"


def _verify(case: Case, container: str, material: Material, source: str, found: Samples | None) -> None:
    try:
        result = bushel.verify(source, threads=1, pickle=True)
    except BushelError:
        return
    if result.verdict != "ok":
        return
    if found is None:
        raise WrongError("verify: says ok of a dataset that cannot be opened")
    if case.indexed and not case.believed and len(found) != min(len(material.samples), _SOME):
        raise WrongError(f"verify: says ok, but {len(found)} of {len(material.samples)} samples can be read")
    _compare(found, material, "verify says ok", by_key=case.indexed and not case.believed)


def _repair(case: Case, container: str, material: Material, source: str, spare: Path) -> None:
    shutil.rmtree(spare, ignore_errors=True)
    try:
        done = bushel.repair(source, spare, threads=1, to=repaired_as(container))
    except BushelError:
        if spare.exists() and any(path.is_file() for path in spare.iterdir()):
            raise WrongError("repair: failed, and left files in its target") from None
        return
    result = bushel.verify(spare, threads=1)
    if not result.ok and not case.believed:
        raise WrongError(f"repair: verify finds {result.problems[0]} in the repaired dataset")
    with bushel.open(spare, index="memory", verify=True) as dataset:
        if len(dataset) != done.samples:
            raise WrongError(f"repair: says {done.samples} samples, and wrote {len(dataset)}")
        if done.checked and not case.believed:
            read = dataset.read(range(min(len(dataset), _SOME)), decode=False)
            found: Samples = [
                (each.pop("__key__"), {name: plain(value) for name, value in each.items()}) for each in read
            ]
            _compare(found, material, "repair", by_key=False)
