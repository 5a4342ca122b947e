"""The index is untrusted data as well: any sidecar or manifest raises only Bushel's own errors."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests._dataset.views.models import CONTAINERS, SPECS, make_samples, opened, write
from tests._index.forging import Header, exercise, forge, modest, parsed, tried

import bushel
from bushel._index.saving import sealed
from bushel._index.sidecar import load_index
from bushel.errors import BushelError, FormatError

EXTREMES = [-1, -2, 7, 2**31, 2**62, 2**63 - 1, -(2**63)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A dataset of every container, of 9 samples in two shards."""
    base = tmp_path_factory.mktemp("forged")
    for container in CONTAINERS:
        write(base / container, container, make_samples(container, 9), shard_samples=5)
    return {container: base / container for container in CONTAINERS}


def sidecars_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


@contextmanager
def as_it_was(folder: Path) -> Iterator[None]:
    """Put every sidecar back in the end."""
    kept = {path: path.read_bytes() for path in [*sidecars_of(folder), *folder.rglob("manifest.json")]}
    try:
        yield
    finally:
        for path, data in kept.items():
            path.write_bytes(data)


def put_value(array: npt.NDArray[Any], at: int, value: int) -> npt.NDArray[Any]:
    if not array.size:
        return array
    forged = array.copy()
    flat = forged.reshape(-1)
    bits = array.dtype.itemsize * 8
    forced = np.array([value % 2**bits], np.uint64).astype(f"u{bits // 8}")
    flat[at % flat.size] = (forced % 2 if bits == 8 else forced).view(array.dtype)[0]
    return forged


CHANGES: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "empty": lambda array: array[..., :0],
    "shorter": lambda array: array[..., :-1],
    "longer": lambda array: np.concatenate([array, array], axis=-1),
    "reversed": lambda array: array[..., ::-1],
    "flat": lambda array: array.reshape(-1),
    "column": lambda array: array.reshape(*array.shape, 1),
    "transposed": lambda array: array.T,
    "zeros": np.zeros_like,
    "bytes": lambda array: array.astype(np.uint8),
    "unsigned": lambda array: array.astype(np.uint64),
    "signed": lambda array: array.astype(np.int64),
    "bools": lambda array: array.astype(np.bool_),
}


def rewritten(header: Header, data: st.DataObject) -> Header:
    changed: Header = json.loads(json.dumps(header))
    field = data.draw(st.sampled_from(changed["fields"]))
    what = data.draw(st.sampled_from(["samples", "file", "type", "codec", "container", "name", "files"]))
    if what == "samples":
        changed["samples"] = data.draw(st.sampled_from([*EXTREMES, 10**30, 0.5, None, "3"]))
    elif what == "file":
        field["file"] = data.draw(st.sampled_from(EXTREMES))
    elif what == "type":
        field["type"] = data.draw(
            st.sampled_from(["jpg", "bytes[]", "int", "bytes", "nonsense", "", "int[]", "msgpack"])
        )
    elif what == "codec":
        field["codec"] = data.draw(st.sampled_from(["jpg", "nonsense", "npz", "msgpack", "array", "pickle", ""]))
    elif what == "container":
        changed["container"] = data.draw(st.sampled_from([*CONTAINERS, "nonsense"]))
    elif what == "name":
        field["name"] = data.draw(st.sampled_from(["__key__", "", "other", changed["fields"][0]["name"]]))
    else:
        changed["files"] = data.draw(st.sampled_from([[], changed["files"] * 2, [["../../etc/passwd", 1, 1]]]))
    return changed


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("verify", [False, True])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_forged_sidecars(container: str, verify: bool, data: st.DataObject, folders: dict[str, Path]) -> None:
    folder = folders[container]
    with as_it_was(folder):
        path = data.draw(st.sampled_from(sidecars_of(folder)))
        arrays, header = parsed(path)
        for _ in range(data.draw(st.integers(1, 3))):
            name = data.draw(st.sampled_from(sorted(arrays)))
            how = data.draw(st.sampled_from(["value", "value", "value", "change", "drop", "header"]))
            if how == "value":
                value = data.draw(st.sampled_from(EXTREMES) | st.integers(-20, 2000))
                arrays[name] = put_value(arrays[name], data.draw(st.integers(0, 30)), value)
            elif how == "change":
                arrays[name] = data.draw(st.sampled_from(list(CHANGES.values())))(arrays[name])
            elif how == "drop":
                arrays[name] = arrays[name][:0]
            else:
                header = rewritten(header, data)
        forge(path, arrays, header)
        exercise(folder, verify=verify)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    "name",
    [
        "parts.starts",
        "parts.offset",
        "parts.length",
        "label.offset",
        "__key__.offsets",
        "__key__.order",
        "parts.fragments",
    ],
)
def test_every_extreme_in_every_place(container: str, name: str, folders: dict[str, Path]) -> None:
    folder = folders[container]
    [first, *_] = sidecars_of(folder)
    arrays, header = parsed(first)
    if name not in arrays:
        pytest.skip("this container has no such array")
    with as_it_was(folder):
        for value in EXTREMES:
            for at in (0, arrays[name].size // 2, arrays[name].size - 1):
                forge(first, {**arrays, name: put_value(arrays[name], at, value)}, header)
                exercise(folder, verify=True)


@pytest.mark.parametrize("container", ["bag", "recordio"])
def test_changed_bytes_of_a_sidecar(container: str, folders: dict[str, Path]) -> None:
    folder = folders[container]
    [first, *_] = sidecars_of(folder)
    whole = first.read_bytes()
    with as_it_was(folder):
        for at in range(0, len(whole), len(whole) // 60):
            first.write_bytes(whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :])
            exercise(folder, verify=False)


def test_a_sidecar_that_names_an_unknown_container(folders: dict[str, Path]) -> None:
    folder = folders["ffrecord"]
    with as_it_was(folder):
        for sidecar in sidecars_of(folder):
            arrays, header = parsed(sidecar)
            forge(sidecar, arrays, {**header, "container": "nonsense"})
        labels = bushel.open(folder, spec={"label": "int"}, index="memory").read(range(9), ["label"])
        assert [sample["label"] for sample in labels] == [number * 7 for number in range(9)]
        with pytest.raises(FormatError, match="bushel index"):
            bushel.open(folder, spec={"label": "int"}, index="require")
        problem = bushel.verify(folder).problems[0]
        assert (problem.kind, "says nonsense" in problem.message) == ("index", True)


def test_borders_whose_difference_overflows(folders: dict[str, Path]) -> None:
    folder = folders["bag"]
    [first, *_] = sidecars_of(folder)
    arrays, header = parsed(first)
    starts = arrays["parts.starts"].copy()
    starts[1:3] = 1, -(2**63)
    with as_it_was(folder):
        forge(first, {**arrays, "parts.starts": starts}, header)
        dataset = bushel.open(folder)
        for use in (lambda: dataset[1], lambda: dataset.read([0, 1], {"parts": [0]})):
            with modest(), pytest.raises(FormatError, match="offsets of its sequences"):
                use()


def test_an_extent_after_the_end_of_its_file(folders: dict[str, Path]) -> None:
    folder = folders["tar"]
    [first, *_] = sidecars_of(folder)
    arrays, header = parsed(first)
    with as_it_was(folder):
        forge(first, {**arrays, "label.length": put_value(arrays["label.length"], 2, 2**62)}, header)
        dataset = opened(folder, verify=False)
        for use in (
            lambda: dataset.gather([2], "label"),
            lambda: dataset.read([2], decode=False),
            lambda: dataset.prefetch([2], decode=False),
        ):
            with modest(), pytest.raises(FormatError, match="'k0/2', field 'label' ends at byte") as caught:
                use()
            assert caught.value.file == str(next(iter(sorted(folder.glob("*.tar")))))


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"__metadata__": {"bushel": "' + b"[" * 100_000 + b'"}}',
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"bushel": 3}}',
        b'{"a": "\xff\xfe"}',
        b"null",
    ],
)
def test_headers_that_are_none(text: bytes, folders: dict[str, Path]) -> None:
    folder = folders["bag"]
    [first, *_] = sidecars_of(folder)
    with as_it_was(folder):
        first.write_bytes(len(text).to_bytes(8, "little") + text)
        with pytest.raises(FormatError, match="index"):
            load_index(first)
        exercise(folder, verify=True)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "I64", "shape": [1], "data_offsets": [0, 1e400]},
        {"dtype": "I64", "shape": [2**62, 4], "data_offsets": [0, 8]},
        {"dtype": "U8", "shape": [1], "data_offsets": [2**40, 2**40 + 1]},
        {"dtype": "U8", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "I64", "shape": [1], "data_offsets": [0, 8, 16]},
        {"dtype": "O", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": ["I64"], "shape": [1], "data_offsets": [0, 8]},
        {"shape": []},
        [],
        None,
    ],
)
def test_arrays_that_are_none(entry: Any, tmp_path: Path, folders: dict[str, Path]) -> None:
    folder = folders["bag"]
    data = sidecars_of(folder)[0].read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for name in ("label.offset", "__inline__"):
        text = json.dumps({**header, name: entry}).encode()
        (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
        with modest(), pytest.raises(FormatError) as caught:
            load_index(tmp_path / "x")
        assert caught.value.file == str(tmp_path / "x")


def forged_manifests() -> dict[str, Callable[[dict[str, Any]], object]]:
    def first(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
        return lambda manifest: manifest["shards"][0].update({key: value})

    return {
        **{f"samples {value}": first("samples", value) for value in (-1, 0, 3, 10**6, 2**47, 2**63 - 1, 10**30, None)},
        "no files": first("files", []),
        "other files": first("files", [["../../etc/passwd", 5, 5]]),
        "unkeyed": first("keyed", False),
        "unchecked": first("checksums", False),
        "another name": first("name", "other"),
        "no shards": lambda manifest: manifest.update(shards=[]),
        "shards twice": lambda manifest: manifest.update(shards=manifest["shards"] * 2),
        "another container": lambda manifest: manifest.update(container="gulp"),
        "another spec": lambda manifest: manifest.update(spec={"gone": "jpg"}),
        "sequences": lambda manifest: manifest.update(spec={name: "int[]" for name in SPECS["bag"]}),
        "no sequences": lambda manifest: manifest.update(spec={name: "int" for name in SPECS["bag"]}),
        "a malformed spec": lambda manifest: manifest.update(spec={"a": "("}),
        "an unknown codec": lambda manifest: manifest.update(spec={"label": "nonsense"}),
        "a later version": lambda manifest: manifest.update(version=99),
    }


@pytest.mark.parametrize("container", ["bag", "tar"])
@pytest.mark.parametrize("name", list(forged_manifests()))
def test_forged_manifests(container: str, name: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel._dataset.open.shards._STAT_ALL", 0)
    folder = folders[container]
    [path] = folder.rglob("manifest.json")
    with as_it_was(folder):
        manifest = msgspec.json.decode(path.read_bytes())
        forged_manifests()[name](manifest)
        path.write_bytes(sealed(json.dumps(manifest).encode()))
        with modest():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", bushel.errors.IncompleteWarning)
                    dataset = bushel.open(folder)
                positions = sorted({0, 1, len(dataset) // 2, len(dataset) - 1} & set(range(min(len(dataset), 9))))
                for position in positions:
                    tried(lambda at=position: dataset[at])  # type: ignore[misc]
                    tried(lambda at=position: dataset.read([at]))  # type: ignore[misc]
                    tried(lambda at=position: dataset.available(at))  # type: ignore[misc]
                tried(lambda: dataset["k0/1"])
                if len(dataset):
                    tried(lambda: dataset[-1])
                    tried(lambda: dataset.keys[-1])
                for field in dataset.spec:
                    with suppress(BushelError, TypeError):  # TypeError: the manifest says that it is a sequence
                        dataset.gather(positions, field)
            except BushelError:
                pass


def test_a_sidecar_of_another_shard(folders: dict[str, Path], tmp_path: Path) -> None:
    """Where the manifest is trusted, a shard's own index is compared with its files all the same."""
    folder = folders["bag"]
    shutil.copytree(folder, tmp_path / "ds", copy_function=shutil.copy2)
    one, two = sidecars_of(tmp_path / "ds")
    one.write_bytes(two.read_bytes())
    exercise(tmp_path / "ds", verify=True)
    dataset = bushel.open(tmp_path / "ds", index="memory")
    assert [sample["__key__"] for sample in dataset] == [f"k0/{number}" for number in range(9)]
