"""Samples that are appended to a dataset and lack a field that all of its samples have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests._dataset.views.models import CONTAINERS
from tests.faults.jobs import SUFFIXES
from tests.faults.ways import JPEG, spec_of

import bushel
from bushel._index.saving import sealed
from bushel._writer.target import Mode

SPARSE = ("tar", "ffrecord", "gulp")


def value(container: str) -> bytes:
    return JPEG if container == "gulp" else b"x"


def write(path: Path, container: str, samples: list[dict[str, Any]], **options: Any) -> None:
    with bushel.Writer(path, container=container, sync=False, **options) as writer:
        for sample in samples:
            writer.append(sample)


def whole(container: str) -> list[dict[str, Any]]:
    return [{"__key__": f"k{n}", "data": value(container), "label": n} for n in range(3)]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("with_spec", [False, True])
def test_a_sample_that_lacks_a_field_is_refused(tmp_path: Path, container: str, with_spec: bool) -> None:
    spec = spec_of(container)
    write(tmp_path / "ds", container, whole(container), spec=spec)
    with (
        pytest.raises(bushel.errors.SpecError, match=r"lacks 'label'"),
        bushel.Writer(tmp_path / "ds", spec if with_spec else None, container=container, mode="append") as writer,
    ):
        writer.append({"data": value(container)}, key="new")
    assert len(bushel.open(tmp_path / "ds")) == 3


@pytest.mark.parametrize("container", SPARSE)
def test_none_says_that_it_has_no_value(tmp_path: Path, container: str) -> None:
    write(tmp_path / "ds", container, whole(container), spec=spec_of(container))
    lacking = {"data": value(container), "label": None}
    write(tmp_path / "ds", container, [{"__key__": "new", **lacking}], mode="append")
    assert "label" not in bushel.open(tmp_path / "ds").read([3], decode=False)[0]
    with pytest.raises(bushel.errors.SpecError, match="data"):
        write(tmp_path / "ds", container, [{"__key__": "newer", "label": 1}], mode="append")
    del lacking["label"]  # as a sample of the dataset does
    write(tmp_path / "ds", container, [{"__key__": "newest", **lacking}], mode="append")
    assert len(bushel.open(tmp_path / "ds")) == 5


def test_lists_and_other_shards(tmp_path: Path) -> None:
    spec = {"x": "int", "names": "utf8[]", "late": "int"}
    write(tmp_path / "ds", "tar", [{"__key__": "a", "x": 1, "names": ["n"]}], spec={"x": "int", "names": "utf8[]"})
    write(tmp_path / "ds", "tar", [{"__key__": "b", "x": 1, "names": [], "late": 1}], spec=spec, mode="append")
    write(tmp_path / "ds", "tar", [{"__key__": "c", "x": 1}], mode="append")
    with pytest.raises(bushel.errors.SpecError, match="lacks 'x'"):
        write(tmp_path / "ds", "tar", [{"__key__": "d", "late": 1}], mode="append")


def test_columns(tmp_path: Path) -> None:
    write(tmp_path / "ds", "tar", whole("tar"), spec=spec_of("tar"))
    with (
        pytest.raises(bushel.errors.SpecError, match="lacks 'label'"),
        bushel.Writer(tmp_path / "ds", container="tar", mode="append") as writer,
    ):
        writer.extend({"data": [b"y", b"z"]}, keys=["y", "z"])


def test_a_writer_that_creates_or_resumes_takes_it(tmp_path: Path) -> None:
    spec = spec_of("tar")
    writer = bushel.Writer(tmp_path / "ds", spec, container="tar", sync=False, shard_samples=1)
    for sample in whole("tar"):
        writer.append(sample)
    writer.suspend()
    write(tmp_path / "ds", "tar", [{"__key__": "new", "data": b"x"}], spec=spec, mode="resume")
    assert len(bushel.open(tmp_path / "ds")) == 4


@pytest.mark.parametrize("container", SPARSE)
@pytest.mark.parametrize("appended", [1, 2, 3])
def test_an_append_that_is_resumed(tmp_path: Path, container: str, appended: int) -> None:
    """Also when it is interrupted more than once."""
    path, spec = tmp_path / "ds", spec_of(container)
    options: dict[str, Any] = {"container": container, "sync": False, "shard_samples": 1}
    lacking = {"data": value(container)}
    with bushel.Writer(path, spec, **options) as writer:
        for sample in whole(container):
            writer.append(sample)
    modes: tuple[Mode, ...] = ("append", "resume", "resume")
    for number, mode in enumerate(modes):
        writer = bushel.Writer(path, mode=mode, **options)
        with pytest.raises(bushel.errors.SpecError, match="lacks 'label'"):
            writer.append(lacking, key="lacking")
        for each in range(appended):
            writer.append({**lacking, "label": None if each == 1 else 1}, key=f"{number} {each}")
        writer.suspend()
    with (
        pytest.raises(bushel.errors.SpecError, match="lacks 'label'"),
        bushel.Writer(path, mode="resume", **options) as writer,
    ):
        writer.append(lacking, key="lacking")
    bushel.Writer(path, mode="resume", **options).close()
    ds = bushel.open(path)
    assert len(ds) == 3 + 3 * appended
    assert ds.info.complete
    assert "before" not in str(manifest_of(path))


def manifest_of(path: Path) -> dict[str, Any]:
    if path.is_file():
        return {}
    found: dict[str, Any] = json.loads((path / ".bushel" / "manifest.json").read_text())
    return found


@pytest.mark.parametrize("container", SPARSE)
def test_a_complete_dataset_that_is_resumed(tmp_path: Path, container: str) -> None:
    write(tmp_path / "ds", container, whole(container), spec=spec_of(container))
    with pytest.raises(bushel.errors.SpecError, match="lacks 'label'"):
        write(tmp_path / "ds", container, [{"__key__": "new", "data": value(container)}], mode="resume")


@pytest.mark.parametrize("before", [-1, "3", 2.5, [3], True, (1 << 64) - 1])
def test_a_forged_number_of_samples(tmp_path: Path, before: Any) -> None:
    write(tmp_path / "ds", "tar", whole("tar"), spec=spec_of("tar"))
    writer = bushel.Writer(tmp_path / "ds", container="tar", mode="append", sync=False, shard_samples=1)
    writer.append(whole("tar")[0], key="new")
    writer.suspend()
    manifest = tmp_path / "ds" / ".bushel" / "manifest.json"
    manifest.write_bytes(sealed(json.dumps({**json.loads(manifest.read_text()), "before": before}).encode()))
    with pytest.raises(bushel.BushelError, match="before|lacks 'label'"):
        write(tmp_path / "ds", "tar", [{"__key__": "newer", "data": b"x"}], mode="resume")


def test_pack_reports_it(tmp_path: Path) -> None:
    target, new = tmp_path / "ds", {"__key__": "new", "data": b"x"}
    write(target, "tar", whole("tar"), spec=spec_of("tar"))
    options: dict[str, Any] = {"container": "tar", "mode": "append", "sync": False}
    with pytest.raises(bushel.errors.StateError, match="the new samples lack label"):
        bushel.pack([new], target, **options)
    both = [{**new, "__key__": "whole", "label": 9}, new]
    said = re.escape(f"lacks 'label', which every sample of {target} has")
    with pytest.raises(bushel.BushelError, match=said):
        bushel.pack(both, target, **options)


@pytest.mark.parametrize("container", SPARSE)
@pytest.mark.parametrize("single", [False, True])
def test_an_append_that_was_killed(tmp_path: Path, container: str, single: bool) -> None:
    """It leaves staged files, which the next writer removes."""
    name = f"data_0{SUFFIXES.get(container, '.gulp')}" if single else "ds"
    path = tmp_path / name
    write(path, container, whole(container), spec=spec_of(container))
    staged = (tmp_path if single else path) / ".bushel" / "staging" / (name if single else "000001")
    staged.mkdir(parents=True)
    (staged / "half").write_bytes(b"a half")
    with pytest.raises(bushel.errors.SpecError, match="lacks 'label', which every sample of"):
        write(path, container, [{"__key__": "new", "data": value(container)}], mode="resume")
    assert not staged.exists()
    write(path, container, [{"__key__": "new", "data": value(container), "label": 9}], mode="resume")
    assert list(bushel.open(path).keys) == ["k0", "k1", "k2", "new"]
