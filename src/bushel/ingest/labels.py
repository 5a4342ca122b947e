"""`label2idx.json`: the names behind the numbers of labels."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bushel.errors import FormatError
from bushel.ingest.errorlog import beside
from bushel.storage import AnyPath, read_whole, write_whole

__all__ = ["labels_path", "load_labels", "save_labels"]


def labels_path(target: AnyPath, container: str) -> AnyPath:
    """Where it lies: in the folder of gulp chunks, as GulpIO has it; beside any other dataset."""
    if container == "gulp" and not target.name.endswith(".gulp"):
        return target / "label2idx.json"
    return beside(target, "label2idx.json")


def load_labels(path: AnyPath) -> dict[str, int]:
    """The labels in a file; none where there is no file.

    Raises:
        FormatError: It is malformed.
    """
    try:
        labels = json.loads(read_whole(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FormatError(f"this is no JSON: {error}", file=str(path)) from error
    if not isinstance(labels, dict) or not all(type(number) is int for number in labels.values()):
        raise FormatError("expected a map of label names to whole numbers", file=str(path))
    return labels


def save_labels(path: AnyPath, labels: Mapping[str, int]) -> None:
    """Write the file, whole or not at all."""
    write_whole(path, json.dumps(labels, ensure_ascii=False).encode())
