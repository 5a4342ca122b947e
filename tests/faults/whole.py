"""Checks of a folder after a kill: its files are whole, and two folders hold the same."""

from __future__ import annotations

import json
import shutil
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel._index.removal_list import EMPTY, load_removal_list

__all__ = ["check_state", "comparable", "note_samples"]


def comparable(root: Path) -> dict[str, Any]:
    """Return the files below a folder by name. Times of modification and of removals are left out.

    So are temporary files among the sidecars, which no reader looks at, and which the next write of that file uses, the
    locks of writers that were killed, which the next writer takes over, and the plan of a run in parts and its random
    name.
    """
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if ".bushel/run/" in name or ".run/" in name or ".bushel/writers/" in name:
            continue
        if path.is_file() and not (path.parent.name == ".bushel" and path.name.endswith(".partial")):
            data: Any = path.read_bytes()
            if path.name == "removed.safetensors" or path.parent.name == "removed":
                known = load_removal_list(path) or EMPTY
                data = repr(([call.reason for call in known.calls], known.starts, known.names))
            elif path.suffix == ".safetensors" and path.parent.name != "views":
                data = _without_times(data)
            elif path.name.endswith("manifest.json"):
                data = json.loads(data)
                data.get("part", {}).pop("run", None)
                del data["crc32"]  # which the times are a part of
                for shard in data["shards"]:
                    shard["files"] = [file[:2] for file in shard["files"]]
            found[name] = data
    return found


def _without_times(data: bytes) -> Any:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    own = json.loads(header["__metadata__"].pop("bushel"))
    own["files"] = [file[:2] for file in own["files"]]
    del own["crc32"]  # which the times are a part of
    return header, own, data[8 + length :]


def check_state(root: Path, before: Path, whole: Path, dataset: Path) -> None:
    """Check a folder after a kill: what has a final name is whole, and the dataset knows whether it is complete.

    Args:
        root: The folder.
        before: What it was before the first run.
        whole: What it is after an undisturbed run.
        dataset: Path of the dataset in `root`.

    Raises:
        AssertionError: It is not so.
    """
    published = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if not path.is_file() or {"staging", "overwrite"} & set(name.parts) or path.name.endswith(".partial"):
            continue
        if ".bushel" in name.parts:
            if path.suffix == ".json":
                assert isinstance(json.loads(path.read_bytes()), dict), f"{name} is not whole"
            continue
        if path.name.endswith("errors.jsonl"):  # its last line may be cut: nobody reads it then
            continue
        published.append(name)
        data = path.read_bytes()
        wanted = [place / name for place in (before, whole)]
        there = any(each.exists() and each.read_bytes() == data for each in wanted)
        assert there, f"{name} has neither the bytes from before the first run nor the bytes of an undisturbed run"
    _check_opens(before, whole, dataset, published)


def note_samples(before: Path, whole: Path, name: Path) -> None:
    """Store digests of the samples of a dataset beside two folders in which it is, for `check_state`.

    Second, as they are read without the index, which does not fit while the files of a shard are renamed one by one.
    """
    for folder in (before, whole):
        bare = folder.with_name(f"{folder.name}-bare")
        shutil.copytree(folder, bare, ignore=_all_but_removed)
        places = [place / name for place in (folder, bare)]
        digests = [_digests(bushel.open(place, index="memory")) if place.exists() else [] for place in places]
        _note(folder).write_text(json.dumps(digests))
        shutil.rmtree(bare)


def _all_but_removed(folder: str, names: list[str]) -> list[str]:
    """Return what a copy without the index lacks: not the list of removed samples."""
    return [name for name in names if Path(folder).name == ".bushel" and "removed" not in name]


def _note(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.samples")


def _digests(dataset: bushel.Dataset) -> list[int]:
    return [
        zlib.crc32(repr(sorted((name, _comparable(value)) for name, value in each.items())).encode())
        for each in dataset
    ]


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return (value.shape, value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else value


def _check_opens(before: Path, whole: Path, dataset: Path, published: list[Path]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            opened = bushel.open(dataset)
        except (FileNotFoundError, bushel.errors.FormatError) as error:
            reported = not published or "interrupted" in str(error) or _says_incomplete(dataset)
            if not reported:
                raise AssertionError("open does not say that the dataset is incomplete") from error
            return
    found = _digests(opened)
    known = [json.loads(_note(folder).read_text()) for folder in (whole, before)]
    wanted = [with_index for with_index, _ in known]
    said = [str(warning.message) for warning in caught if issubclass(warning.category, bushel.errors.IncompleteWarning)]
    if said:
        assert any(_are_first(found, *both) for both in known), "the samples are not the first ones"
        return
    assert found in wanted, f"{len(found)} samples differ from a complete dataset, and nothing says so"
    result = bushel.verify(dataset)
    serious = [problem for problem in result.problems if not problem.warning]
    assert not serious, f"verify finds {serious[0]}"


def _are_first(found: list[int], with_index: list[int], bare: list[int]) -> bool:
    """Return whether samples are the first ones of a dataset, as they are read with its index or without it."""
    if found in (with_index[: len(found)], bare[: len(found)]):
        return True
    # a shard whose index has not been renamed yet is read without it, beside others that have theirs
    pairs = list(zip(with_index, bare, strict=False))[: len(found)]
    return (
        len(with_index) == len(bare)
        and len(pairs) == len(found)
        and all(sample in pair for sample, pair in zip(found, pairs, strict=True))
    )


def _says_incomplete(path: Path) -> bool:
    try:
        problems = bushel.verify(path).problems
    except (FileNotFoundError, bushel.errors.FormatError) as error:
        return "interrupted" in str(error)
    return any(problem.kind in ("incomplete", "unfinished") for problem in problems)
