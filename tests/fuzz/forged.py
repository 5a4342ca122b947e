"""Datasets whose files name a codec that runs code, and bytes that leave a trace if one is used."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.numpy import load, save
from tests.fuzz.mutations import with_own_crc32

from bushel._index.saving import sealed

__all__ = ["Bomb", "change_header", "header_of", "name_codec"]


class Bomb:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.trace), "w")

    @property
    def pickled(self) -> bytes:
        """The pickle."""
        return pickle.dumps(self, protocol=4)


def header_of(sidecar: Path) -> dict[str, Any]:
    """Return the header of a sidecar, or of a table of shards."""
    data = sidecar.read_bytes()
    entries = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    header: dict[str, Any] = json.loads(entries["__metadata__"]["bushel"])
    return header


def change_header(sidecar: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of a sidecar, which gets the CRC-32 that fits."""
    header = header_of(sidecar)
    change(header)
    if isinstance(header.get("crc32"), str):
        header["crc32"] = "00000000"
    text = json.dumps(header, separators=(",", ":"))
    data = save(dict(load(sidecar.read_bytes())), {"bushel": text})
    sidecar.write_bytes(with_own_crc32(data) if isinstance(header.get("crc32"), str) else data)


def name_codec(folder: Path, field: str, codec: str) -> int:
    """Have every file of a dataset name a codec for a field. Return the number of changed files.

    Sequences stay sequences. Files are sidecars, manifests, tables of shards, records of runs and `spec.json`.
    """

    def in_sidecar(header: dict[str, Any]) -> None:
        for entry in header.get("fields", ()):
            if entry["name"] == field:
                entry["codec"], entry["type"] = codec, _like(entry["type"], codec)

    def in_spec(header: dict[str, Any]) -> None:
        _put(header["spec"], field, codec)

    changed = 0
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".safetensors":
            change_header(path, in_spec if path.name == "shards.safetensors" else in_sidecar)
        elif path.name == "spec.json":
            types = json.loads(path.read_text())
            _put(types, field, codec)
            path.write_text(json.dumps(types))
        elif path.suffix == ".json" and path.is_file() and "spec" in (found := json.loads(path.read_text())):
            _put(found["spec"], field, codec)
            found["codecs"][field] = codec
            path.write_bytes(sealed(json.dumps(found).encode()))
        else:
            continue
        changed += 1
    return changed


def _put(spec: dict[str, str], field: str, codec: str) -> None:
    if field in spec:
        spec[field] = _like(spec[field], codec)


def _like(kind: str, codec: str) -> str:
    return f"{codec}[]" if kind.endswith("[]") else codec
