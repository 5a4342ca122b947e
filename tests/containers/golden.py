"""Comparing what a container reads with the manifests of the golden datasets."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.containers.summed import summed_table
from tests.containers.writing import stored_samples

from bushel.codecs import get_codec
from bushel.containers.base import Container


def check_manifest(container: Container, manifest: Path) -> None:
    """Assert keys, order, fields, stored bytes and values of a golden dataset of plain fields."""
    wanted = json.loads(manifest.read_text())
    read: list[tuple[str, dict[str, Any], dict[str, str]]] = []
    for shard in container.shards(manifest.parent / wanted["open"]) or []:
        index = summed_table(container, shard)
        codecs = {name: column.codec for name, column in index.fields.items()}
        assert all(column.crc32 is not None for column in index.fields.values())
        for key, fields in stored_samples(shard, index):
            read.append((key if index.keys is not None else str(len(read)), fields, codecs))
    assert [key for key, _, _ in read] == [sample["key"] for sample in wanted["samples"]], manifest
    for (_, fields, codecs), sample in zip(read, wanted["samples"], strict=True):
        assert set(fields) == set(sample["fields"]), manifest
        for name, expected in sample["fields"].items():
            if "sha256" in expected:
                assert hashlib.sha256(fields[name]).hexdigest() == expected["sha256"], (manifest, name)
            if "value" in expected and container.name == "recordio":
                value = get_codec(codecs[name]).decode(fields[name])
                assert getattr(value, "tolist", lambda value=value: value)() == expected["value"], (manifest, name)
