"""The options of `pack` and `convert`: every argument is one, under its own name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import bushel
from bushel._pack.prepared import PackOptions
from bushel._runtime.threads import cpu_count
from bushel._writer.target import WriterOptions
from bushel.engines.local import LocalEngine

NOT_GROUPED = {"source", "split", "target", "progress"}


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a function's arguments."""
    return {
        name: each.default for name, each in inspect.signature(function).parameters.items() if name not in NOT_GROUPED
    }


@pytest.mark.parametrize("function", [bushel.pack, bushel.convert])
def test_every_argument_is_an_option(function: Callable[..., Any]) -> None:
    assert arguments(function).keys() <= {*PackOptions.__struct_fields__, *WriterOptions.__struct_fields__}
    assert len(inspect.signature(function).parameters) <= 2 + 26


def test_convert_is_pack_with_the_same_options() -> None:
    packing, converting = arguments(bushel.pack), arguments(bushel.convert)
    assert set(packing) - set(converting) == {"labels"}
    assert {name: packing[name] for name in converting} == converting
    assert PackOptions.of(packing) == PackOptions.of(converting, strict=False)


def test_arguments_reach_the_options() -> None:
    given = arguments(bushel.pack) | {
        "container": "tar", "fields": ["a"], "rename": {"a": "b"}, "spec": {"a": "int"},
        "images": ["check", "upright", "tile"], "keys": False, "seek": True, "shuffle": "blocks", "seed": 3,
        "parts": 4, "part": 1, "max_errors": 7, "shard_samples": 9, "shard_bytes": "1MB",
        "generation": "C", "labels": {"a": ["x", "y"]}, "mode": "resume",
        "threads": 2, "processes": 5, "sync": False, "columns": "a,auto",
    }  # fmt: skip
    assert PackOptions.of(given) == PackOptions(
        fields=("a",), rename={"a": "b"}, spec={"a": "int"}, transforms=None,
        images=frozenset({"check", "upright", "tile"}), keys=False, seek=True, shuffle="blocks", seed=3,
        max_errors=7, threads=2, processes=5, engine=None, parts=4, part=1,
        writer=WriterOptions(
            container="tar", mode="resume", shard_samples=9, shard_bytes="1MB", generation="C", sync=False,
            labels={"a": ("x", "y")}, columns=("a", "auto"),
        ),
    )  # fmt: skip
    assert PackOptions.of({**given, "images": "check"}).images == {"check"}
    assert PackOptions.of(given).at_once == 5


@pytest.mark.parametrize(("engine", "at_once"), [(None, cpu_count()), (LocalEngine(1), 1)])
def test_parts_on_an_engine_have_one_thread(engine: Any, at_once: int) -> None:
    assert PackOptions.of(arguments(bushel.pack) | {"engine": engine}).at_once == at_once
