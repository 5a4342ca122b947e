"""The JSON lines that the scripts here print, and the plans that they read. Standard library only.

A line is one sample: ``{"key": …, "fields": {name: FIELD}}``. A FIELD is ``{"sha256", "length"}`` of the stored bytes,
a list of these for a sequence, or ``{"value"}`` for values without stored bytes. A decoded value is added as ``value``
if JSON can hold it, and as ``array`` (``{"dtype", "shape", "sha256"}``) if it is an array.

A plan is what a ``write_*.py`` script writes: ``{"spec": {name: type}, "samples": [SAMPLE]}``, where a SAMPLE is
``{"key": …, "fields": {name: ITEM}}`` and an ITEM is ``{"file": path}`` (bytes to store, relative to the plan),
``{"value": …}`` (a value to encode; a NumPy array if there is a ``dtype``), or a list of ITEMs for a sequence.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def stored(content: bytes) -> dict[str, Any]:
    """Return the FIELD of stored bytes."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "length": len(content)}


def decoded(value: Any) -> dict[str, Any]:
    """Return the entries that a decoded value adds to its FIELD. Empty if neither JSON nor an array can hold it."""
    if hasattr(value, "tobytes") and hasattr(value, "shape"):
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return {"array": {"dtype": str(value.dtype), "shape": list(value.shape), "sha256": digest}}
    if isinstance(value, bytes):
        return {"decoded_sha256": hashlib.sha256(value).hexdigest()}
    try:
        json.dumps(value)
    except TypeError:
        return {"type": type(value).__name__}
    return {"value": value}


def show(key: str, fields: dict[str, Any]) -> None:
    """Print the line of one sample."""
    sys.stdout.write(json.dumps({"key": key, "fields": fields}) + "\n")


def read_plan(path: str) -> dict[str, Any]:
    """Return the plan at ``path``, with the contents of files in its samples."""
    folder = Path(path).resolve().parent
    plan: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    for sample in plan["samples"]:
        sample["fields"] = {name: _content(item, folder) for name, item in sample["fields"].items()}
    return plan


def chunked(samples: list[Any], size: int | None) -> Iterator[list[Any]]:
    """Yield ``samples`` in lists of ``size``, or in one list."""
    step = size or max(len(samples), 1)
    for start in range(0, len(samples), step):
        yield samples[start : start + step]


def existing(paths: Iterable[str], pattern: str) -> list[str]:
    """Return ``paths``, with each directory replaced by its files that match ``pattern``, sorted by name."""
    found: list[str] = []
    for path in paths:
        found += sorted(map(str, Path(path).glob(pattern))) if Path(path).is_dir() else [path]
    return found


def _content(item: Any, folder: Path) -> Any:
    if isinstance(item, list):
        return [_content(element, folder) for element in item]
    if "file" in item:
        return (folder / item["file"]).read_bytes()
    if "dtype" in item:
        import numpy as np

        return np.array(item["value"], dtype=item["dtype"])
    return item["value"]
