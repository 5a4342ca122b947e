"""How each field travels from one container to another. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bushel.codecs import get_codec
from bushel.containers import containers
from bushel.containers.base import Column, WriteOptions
from bushel.errors import CodecError, SpecError
from bushel.spec import Field, Spec, parse_spec

__all__ = ["Route", "encode_value", "holders", "plan_routes", "target_fields"]

_GRANULAR = {"cls": "int", "npy": "array", "float-text": "float", "jpeg": "jpg", "int(8)": "u64"}
"""Types that Granular does not know, and those of the same values that it does."""


@dataclass(frozen=True, slots=True)
class Route:
    """One field on its way.

    Attributes:
        source: The field in the source.
        target: The field in the target.
        codec: Codec of the bytes that the target stores.
        copied: Whether the stored bytes are the same in both.
        known_as: Codec of the source's bytes where the user says it and the source does not, else None.
    """

    source: Field
    target: Field
    codec: str
    copied: bool
    known_as: str | None


def target_fields(
    source: Spec, container: str, *, fields: Iterable[str] | None, rename: Mapping[str, str], spec: Mapping[str, str]
) -> dict[str, Field]:
    """The fields that the target is to have, by their names in the source.

    Args:
        source: The source's fields.
        container: Name of the target's container.
        fields: Those to keep; None for all.
        rename: New names, by names in the source.
        spec: New types, by names in the source.

    Raises:
        KeyError: There is no such field in the source.
        SpecError: Two fields get the same name, or a type is malformed.
    """
    wanted = list(source) if fields is None else list(dict.fromkeys(fields))
    for name in (*wanted, *rename, *spec):
        if name not in source:
            raise KeyError(f"there is no field {name!r}: the fields are {', '.join(source) or 'none'}")
    types = {}
    taken: dict[str, str] = {}
    for name in wanted:
        field = source[name]
        codec = _GRANULAR.get(field.codec, field.codec) if container == "bag" else field.codec
        types[name] = spec.get(name, Field(name, codec, field.sequence).type)
        new = rename.get(name, name)
        if taken.setdefault(new, name) != name:
            raise SpecError(f"fields {taken[new]!r} and {name!r} would both be called {new!r}")
    parsed = parse_spec({rename.get(name, name): kind for name, kind in types.items()})
    return {name: parsed[rename.get(name, name)] for name in wanted}


def plan_routes(
    source: Spec, codecs: Mapping[str, frozenset[str]], targets: Mapping[str, Field], columns: Iterable[Column]
) -> list[Route]:
    """How the fields travel.

    Args:
        source: The source's fields.
        codecs: The codecs of their stored bytes; a field may have another one in another shard.
        targets: From `target_fields`.
        columns: How the target stores its fields.
    """
    stored = {column.field.name: column.codec for column in columns}
    routes = []
    for name, target in targets.items():
        here = codecs[name]
        known_as = None
        if here == {"bytes"} and target.codec != "bytes":
            known_as, here = target.codec, frozenset({target.codec})
        codec = stored[target.name]
        routes.append(Route(source[name], target, codec, here == {codec}, known_as))
    return routes


def encode_value(route: Route, key: str, stored: Any, decoded: Any) -> Any:
    """What the target stores for one sample's value of a field.

    Args:
        route: The field.
        key: The sample's key, for messages.
        stored: The bytes, or list of bytes, from the source.
        decoded: Their value, or list of values; not looked at where bytes are copied.

    Raises:
        SpecError: A sequence that is to become one value has another number of elements.
        CodecError: A value cannot be held by the target's codec.
    """
    elements = stored if route.copied else decoded
    if not route.source.sequence:
        elements = [elements]
    elif not route.target.sequence and len(elements) != 1:
        raise SpecError(
            f"sample {key!r} has {len(elements)} elements in field {route.source.name!r}, which cannot be one "
            f"{route.target.codec}: keep it a sequence, {route.target.codec}[]"
        )
    if not route.copied:
        encode = get_codec(route.codec).encode
        try:
            elements = [encode(element) for element in elements]
        except CodecError as error:
            raise CodecError(f"sample {key!r}, field {route.target.name!r}: {error}", **error.details) from error
    return elements if route.target.sequence else elements[0]


def holders(spec: Spec, *, keyed: bool, sparse: bool) -> Iterator[str]:
    """The containers that can hold samples of this spec.

    Args:
        spec: The fields.
        keyed: Whether samples have keys.
        sparse: Whether samples may lack fields.
    """
    for candidate in containers():
        try:
            layout = candidate.layout(spec, WriteOptions(keyed=keyed))
        except SpecError:
            continue
        if layout.sparse or not sparse:
            yield candidate.name
