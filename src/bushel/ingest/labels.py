"""`label2idx.json`: the names behind the numbers of labels."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from bushel.errors import FormatError
from bushel.ingest.errorlog import beside

__all__ = ["labels_path", "load_labels", "save_labels"]


def labels_path(target: Path, container: str) -> Path:
    """Where it lies: in the folder of gulp chunks, as GulpIO has it; beside any other dataset."""
    if container == "gulp" and target.suffix != ".gulp":
        return target / "label2idx.json"
    return beside(target, "label2idx.json")


def load_labels(path: Path) -> dict[str, int]:
    """The labels in a file; none where there is no file.

    Raises:
        FormatError: It is malformed.
    """
    try:
        labels = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FormatError(f"this is no JSON: {error}", file=str(path)) from error
    if not isinstance(labels, dict) or not all(type(number) is int for number in labels.values()):
        raise FormatError("expected a map of label names to whole numbers", file=str(path))
    return labels


def save_labels(path: Path, labels: Mapping[str, int]) -> None:
    """Write the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(labels, ensure_ascii=False), "utf-8")
    part.replace(path)
