"""Every golden dataset reads exactly, and every damaged one is found out, through the public functions."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.paths import GOLDEN

import bushel
from bushel.errors import BushelError, UnsupportedError


def _manifests() -> list[Any]:
    found = []
    for path in sorted(GOLDEN.rglob("manifest.json")):
        manifest = json.loads(path.read_text())
        if manifest["container"] != "lst":
            found.append(pytest.param(path, manifest, id=path.parent.relative_to(GOLDEN).as_posix()))
    return found


def _cases() -> list[Any]:
    cases = json.loads((GOLDEN / "damaged" / "damaged.json").read_text())["cases"]
    return [pytest.param(case, id=case["open"].removeprefix("cases/")) for case in cases]


def _digest(stored: Any) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(stored).hexdigest(), "length": len(bytes(stored))}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _check(sample: dict[str, Any], stored: dict[str, Any], expected: dict[str, Any]) -> None:
    assert sample.pop("__key__") == stored.pop("__key__") == expected["key"]
    assert sample.keys() == stored.keys() == expected["fields"].keys()
    for name, wanted in expected["fields"].items():
        if isinstance(wanted, list):
            hashes = [{part: each[part] for part in ("sha256", "length")} for each in wanted]
            assert [_digest(each) for each in stored[name]] == hashes
            assert len(sample[name]) == len(wanted)
            for value, each in zip(sample[name], wanted, strict=True):
                assert "value" not in each or _plain(value) == each["value"]
            continue
        if "sha256" in wanted:
            assert _digest(stored[name]) == {part: wanted[part] for part in ("sha256", "length")}
        if "value" in wanted:
            assert _plain(sample[name]) == wanted["value"], name


@pytest.mark.parametrize(("path", "manifest"), _manifests())
def test_golden_dataset(path: Path, manifest: dict[str, Any]) -> None:
    source = str(path.parent / manifest["open"])
    expected = manifest["samples"]
    if manifest.get("stream"):
        decoded: Iterable[Any] = bushel.open_stream(source)
        stored: Iterable[Any] = bushel.open_stream(source, decode=False)
    else:
        dataset: Any = bushel.open(source, index="memory")
        assert dataset.info.samples == len(dataset) == len(expected)
        assert dataset.info.container == manifest["container"].removesuffix("-file")
        assert list(dataset.keys) == [sample["key"] for sample in expected]
        decoded, stored = dataset, dataset.read(range(len(dataset)), decode=False)
        _check_random_access(dataset, expected)
    for sample, raw, wanted in zip(decoded, stored, expected, strict=True):
        _check(sample, raw, wanted)


def _check_random_access(dataset: Any, expected: list[dict[str, Any]]) -> None:
    for position in range(len(expected) - 1, -1, -3):
        sample, raw = dataset[position], dataset.read([position], decode=False)[0]
        _check(sample, raw, expected[position])
        assert dataset.position(expected[position]["key"]) == position


@pytest.mark.parametrize(("path", "manifest"), [each for each in _manifests() if each.values[1].get("stream")])
def test_golden_stream_says_what_it_cannot_do(path: Path, manifest: dict[str, Any]) -> None:
    stream: Any = bushel.open_stream(str(path.parent / manifest["open"]))
    with pytest.raises(UnsupportedError):
        stream[0]
    with pytest.raises(UnsupportedError):
        len(stream)


@pytest.mark.parametrize("case", _cases())
def test_golden_damage(case: dict[str, Any], tmp_path: Path) -> None:
    broken = GOLDEN / "damaged" / case["open"]
    folder = tmp_path / "data"
    if case["revealed_by"] == "index":  # it looks intact: only a checksum from before the damage differs
        shutil.copytree(GOLDEN / "damaged" / "base" / case["base"] / "data", folder)
        bushel.index(folder, checksums=True)
        assert bushel.verify(folder).ok
        stat = (folder / case["file"]).stat()
        shutil.copyfile(broken / case["file"], folder / case["file"])
        os.utime(folder / case["file"], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    else:
        shutil.copytree(broken, folder)
    report = bushel.verify(folder)
    assert not report.ok
    named = {Path(str(problem.file)).name for problem in report.problems}
    assert named & set(case["named"]), (named, report.problems)


@pytest.mark.filterwarnings("ignore::bushel.errors.DamagedWarning")
@pytest.mark.parametrize("case", _cases())
def test_reading_golden_damage_gives_samples_or_a_bushel_error(case: dict[str, Any]) -> None:
    try:
        dataset: Any = bushel.open(GOLDEN / "damaged" / case["open"], index="memory")
    except BushelError:
        return
    for position in range(len(dataset)):
        try:
            dataset[position]
        except BushelError:
            continue


def test_golden_data_is_complete() -> None:
    assert len(_manifests()) >= 50
    assert len(_cases()) == 78
