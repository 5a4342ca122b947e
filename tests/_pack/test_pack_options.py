"""The groups of arguments of `pack` and `convert`: every argument is in one group, under its own name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import bushel
from bushel._pack.pack_options import ErrorOptions, PackOptions, SampleOptions, Workers
from bushel._pack.scale_out import RunOptions
from bushel._writer.options import WriterOptions

NOT_GROUPED = {"source", "split", "target", "progress"}


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a function's arguments."""
    return {
        name: each.default for name, each in inspect.signature(function).parameters.items() if name not in NOT_GROUPED
    }


@pytest.mark.parametrize("function", [bushel.pack, bushel.convert])
def test_every_argument_is_in_a_group(function: Callable[..., Any]) -> None:
    known = {
        each.name for kind in (SampleOptions, ErrorOptions, WriterOptions, Workers, RunOptions) for each in fields(kind)
    }
    known |= {each.name for each in fields(PackOptions)}
    assert arguments(function).keys() <= known


def test_convert_is_pack_with_the_same_options() -> None:
    packing, converting = arguments(bushel.pack), arguments(bushel.convert)
    assert set(packing) - set(converting) == {"exif_rotate", "check", "labels"}
    assert {name: packing[name] for name in converting} == converting
    assert PackOptions.of(packing) == PackOptions.of(converting, strict=False)


def test_arguments_reach_their_groups() -> None:
    given = arguments(bushel.pack) | {
        "container": "tar", "fields": ["a"], "rename": {"a": "b"}, "spec": {"a": "int"}, "exif_rotate": True,
        "check": True,
        "jpeg": "tile", "keys": False, "seek": True, "shuffle": "blocks", "seed": 3, "parts": 4, "part": 1,
        "plan_only": True,
        "max_errors": 7, "shard_samples": 9, "shard_bytes": "1MB",
        "generation": "C", "labels": {"a": ["x", "y"]}, "mode": "resume",
        "threads": 2, "processes": 5, "sync": False, "columns": "a,auto",
        "retries": 6,
    }  # fmt: skip
    options = PackOptions.of(given)
    assert options.samples == SampleOptions(
        fields=("a",), rename={"a": "b"}, spec={"a": "int"}, transforms=None, exif_rotate=True, check=True, jpeg="tile",
        keys=False, seek=True,
    )  # fmt: skip
    assert (options.shuffle, options.seed) == ("blocks", 3)
    assert options.writer == WriterOptions(
        container="tar", mode="resume", shard_samples=9, shard_bytes="1MB", generation="C", sync=False,
        labels={"a": ("x", "y")}, columns=("a", "auto"),
    )  # fmt: skip
    assert options.errors == ErrorOptions(max_errors=7)
    assert options.workers == Workers(2, 5)
    run = options.run
    assert (run.engine, run.parts, run.part, run.plan_only) == (None, 4, 1, True)
    assert run.retries == 6
