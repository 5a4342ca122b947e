"""Helpers of the scripts for Granular 0.20.3 and 0.24.2, which have the same calls. The package is an argument."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import Any

import lines


def read(granular: Any) -> None:
    """Print one line for each datapoint, in order; a directory with a folder ``000000`` is a sharded dataset."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--decode", action="store_true", help="also decode every value with Granular's own decoders")
    options = parser.parse_args()
    sharded = (Path(options.directory) / "000000").is_dir()
    reader = granular.ShardedDatasetReader if sharded else granular.DatasetReader
    dataset = reader(options.directory, decoders=None)
    values = reader(options.directory, decoders=granular.decoders) if options.decode else None
    for position in range(len(dataset)):
        fields = {name: _field(content) for name, content in dataset[position].items()}
        if values is not None:
            for name, value in values[position].items():
                _add(fields[name], value)
        lines.show(str(position), fields)
    dataset.close()
    if values is not None:
        values.close()


def write(granular: Any) -> None:
    """Write the samples of a plan: bytes unchanged, values with Granular's own encoders."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("directory")
    parser.add_argument("--shard-samples", type=int, help="write a sharded dataset with this many samples a shard")
    options = parser.parse_args()
    plan = lines.read_plan(options.plan)
    encoders = {name: functools.partial(_encode, encoder) for name, encoder in granular.encoders.items()}
    if options.shard_samples is None:
        writer = granular.DatasetWriter(options.directory, plan["spec"], encoders)
    else:
        writer = granular.ShardedDatasetWriter(options.directory, plan["spec"], encoders, options.shard_samples)
    with writer:
        for sample in plan["samples"]:
            writer.append(sample["fields"])


def _encode(encoder: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else encoder(value)


def _field(content: Any) -> Any:
    return [lines.stored(element) for element in content] if isinstance(content, list) else lines.stored(content)


def _add(field: Any, value: Any) -> None:
    if isinstance(field, dict):
        field.update(lines.decoded(value))
        return
    for element, part in zip(field, value, strict=True):
        element.update(lines.decoded(part))
