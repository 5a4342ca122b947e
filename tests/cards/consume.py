"""Read metadata with mlcroissant, in a process of its own whose cache is a folder of the test: prints JSON.

python consume.py METADATA     # {"warnings": […], "records": {RECORD_SET: [RECORD, …]}}
"""

from __future__ import annotations

import json
import sys
from typing import Any

import mlcroissant


def plain(value: Any) -> Any:
    """Return a value of a record as JSON: bytes as text, images as their mode and size."""
    if isinstance(value, dict):
        return {name: plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [plain(own) for own in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if hasattr(value, "mode"):
        return [value.mode, *value.size]
    return value.item() if hasattr(value, "item") else value


def main() -> None:
    """Validate metadata, read the records of each record set, and print both."""
    dataset = mlcroissant.Dataset(jsonld=sys.argv[1])
    records = {each.uuid: [plain(one) for one in dataset.records(each.uuid)] for each in dataset.metadata.record_sets}
    print(json.dumps({"warnings": sorted(dataset.metadata.ctx.issues.warnings), "records": records}))


if __name__ == "__main__":
    main()
