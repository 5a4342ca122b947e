"""The plan of a run in parts: the contents of every part, and the call that made it. Nothing here does I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import msgspec

from bushel.errors import FormatError, StateError

_VERSION = 1
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SHOWN = 80


class RunPlan(msgspec.Struct, frozen=True):
    """The plan of a run, as `plan.json` keeps it."""

    kind: str  # `pack`
    container: str  # name of the container of the target
    samples: int  # number of items of the source
    # index of the first item of each part in the order of the run, followed by `samples`
    starts: list[int]
    # the inputs that decide the bytes of the parts: fingerprint of the source, spec, transforms and
    # options
    arguments: dict[str, Any]
    # CRC-32 of the listing of the source that is beside the plan; None if the source is not a
    # folder
    listing: int | None = None
    version: int = _VERSION  # version of this layout
    id: str = ""  # a random name of the run, which the manifests of its parts have

    @property
    def parts(self) -> int:
        """Number of parts."""
        return len(self.starts) - 1

    def encode(self) -> bytes:
        """Return the content of `plan.json`."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"

    @property
    def fingerprint(self) -> str:
        """A name of the call, the same in all processes that take part, for their locks."""
        import hashlib  # which imports OpenSSL

        return hashlib.sha256(self.of_call().encode()).hexdigest()[:16]

    def of_call(self) -> RunPlan:
        """Return the plan without its id and its listing: equal calls have equal ones."""
        return msgspec.structs.replace(self, listing=None, id="")


_DECODER = msgspec.json.Decoder(RunPlan)


def decode_plan(data: bytes, path: str) -> RunPlan:
    """Parse `plan.json`. Raise FormatError if it is damaged, or its version is newer than this Bushel."""
    try:
        plan = _DECODER.decode(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"not the plan of a run: {error}", path, hint="start the run again elsewhere"
        ) from error
    if plan.version != _VERSION:
        raise FormatError(f"version {plan.version} of a plan; this Bushel knows {_VERSION}", path)
    ascending = all(first <= last for first, last in pairwise(plan.starts))
    if not plan.starts or plan.starts[0] != 0 or plan.starts[-1] != plan.samples or not ascending:
        message = f"the parts of the plan do not divide its {plan.samples} items"
        raise FormatError(message, path, hint="start the run again elsewhere")
    return plan


def part_starts(samples: int, parts: int) -> list[int]:
    """Return the index of the first item of each part, followed by the number of samples. Sizes differ by one."""
    return [samples * number // parts for number in range(parts + 1)]


def refuse_difference(known: RunPlan, wanted: RunPlan, target: str) -> None:
    """Raise `StateError` for the first difference between the plan of a target and the plan of a call."""
    before, now = _flat(known), _flat(wanted)
    for name in dict.fromkeys((*now, *before)):
        if before.get(name) != now.get(name):
            raise StateError(
                f"{target} has the plan of another run, with {name}={_shown(before.get(name))}; "
                f"this call has {name}={_shown(now.get(name))}. Call it with the same "
                "arguments, write to another path, or start again with mode='overwrite'"
            )


def _flat(plan: RunPlan) -> dict[str, Any]:
    return {
        "kind": plan.kind,
        "parts": plan.parts,
        "container": plan.container,
        **plan.arguments,
        "samples": plan.samples,
    }


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > _SHOWN:
        return f"{text[:_SHOWN]}…"
    return text


def describe(value: Any) -> Any:
    """Return a value as JSON that is the same in every process: of functions and objects, their names and parameters.

    Two calls with equal descriptions are taken to be the same call.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): describe(element) for name, element in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return list(map(describe, sorted(value) if isinstance(value, set | frozenset) else value))
    if isinstance(value, partial):
        return [describe(value.func), describe(value.args), describe(value.keywords)]
    if isinstance(value, FunctionType):
        name = f"{value.__module__}.{value.__qualname__}"
        local = "<" in value.__qualname__ or value.__module__ == "__main__"
        if not local:
            return name
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [
            f"{name} {_digest_of_code(value.__code__)}",
            describe(cells),
            describe(value.__defaults__),
        ]
    if isinstance(value, MethodType):
        return [describe(value.__func__), describe(value.__self__)]
    if isinstance(value, type | BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    names = getattr(value, "__struct_fields__", None)
    if names is None and is_dataclass(value):
        names = [member.name for member in fields(value)]
    if names is not None:
        return {"": kind, **{name: describe(getattr(value, name)) for name in names}}
    return f"{kind} {_ADDRESS.sub('', repr(value))}"


def _digest_of_code(code: CodeType) -> str:
    import hashlib

    digest = hashlib.sha256(code.co_code)
    for constant in code.co_consts:
        text = repr(constant)
        if isinstance(constant, CodeType):
            text = _digest_of_code(constant)
        digest.update(text.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]
