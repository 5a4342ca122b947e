"""The schema of a Parquet file: its elements, and the leaf that has the values of a field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bushel.filters.thrift import Struct

REQUIRED, OPTIONAL, REPEATED = range(3)
BOOLEAN, BYTE_ARRAY, FIXED = 0, 6, 7
"""The physical types BOOLEAN, BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY."""
BYTE_ARRAYS = (BYTE_ARRAY, FIXED)
UNSIGNED = (11, 12, 13, 14)
"""Converted types UINT_8 to UINT_64."""
# of the physical types INT32, INT64, FLOAT and DOUBLE
_DTYPES = {1: "<i4", 2: "<i8", 4: "<f4", 5: "<f8"}
_WHOLE = (1, 2)  # the physical types INT32 and INT64
_LIST_TYPE = 3  # the converted type and the logical one
_FLOAT16, _INTEGER = 15, 10  # logical types
_JSON = {"converted": 19, "logical": 12}
_DATE, _TIME, _TIMESTAMP = 6, 7, 8
"""The logical types of dates and times; DATE is the converted type, too."""
_CONVERTED_TIMES = {6: "datetime64(D)", 7: "timedelta64(ms)", 8: "timedelta64(us)"} | {
    9: "datetime64(ms)",
    10: "datetime64(us)",
}
_TIME_UNITS = {1: "ms", 2: "us", 3: "ns"}


@dataclass(frozen=True, slots=True)
class Node:
    """An element of the schema."""

    name: str
    path: tuple[str, ...]  # the names from the first level of the schema to this one
    repetition: int  # 0 for required, 1 for optional, 2 for repeated
    # physical type, 0 to 7, of a leaf: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY,
    # FIXED_LEN_BYTE_ARRAY. None for a group
    physical: int | None
    width: int  # bytes of a value of FIXED_LEN_BYTE_ARRAY, else 0
    converted: int | None  # converted type, or None
    logical: int | None  # the number of the logical type in its union, or None
    children: tuple[Node, ...]  # the elements of a group
    leaf: int  # number of the leaf among all leaves; -1 for a group
    definition: int  # definition level of a value that is there
    repeats: int  # number of repeated elements from the root to this one
    # codec of its values if they are dates or times, such as `datetime64(us)`
    time: str | None = None

    def leaves(self) -> Iterator[Node]:
        """Yield the leaves below this element, or the element itself if it is one."""
        if self.physical is not None:
            yield self
        for child in self.children:
            yield from child.leaves()


def read_schema(elements: Sequence[Struct]) -> Node:
    """Return the root of a schema, given its elements in the order of the footer.

    Raises:
        ValueError: They do not form a tree.
    """
    root, end, _ = _node(elements, 0, (), 0, 0, 0)
    if end != len(elements):
        raise ValueError(f"the schema has {len(elements)} elements, but {end} belong to its root")
    return root


def _node(
    elements: Sequence[Struct],
    at: int,
    above: tuple[str, ...],
    leaf: int,
    definition: int,
    repeats: int,
) -> tuple[Node, int, int]:
    """Return the element at a place of the schema, the place after it, and the number of the next leaf."""
    if at >= len(elements) or len(above) > 64:
        raise ValueError("the schema ends inside a group, or is nested too deep")
    element = elements[at]
    if not isinstance(raw := element.get(4), bytes):
        raise ValueError("an element of the schema has no name")  # noqa: TRY004 - of a file
    name = raw.decode("utf-8", "surrogateescape")
    repetition = element.get(3, REQUIRED) if at else REQUIRED
    if repetition not in (REQUIRED, OPTIONAL, REPEATED):
        raise ValueError(f"element {name!r} of the schema has repetition {repetition!r}")
    converted, union = element.get(6), element.get(10)
    group = Node(
        name,
        path=(*above, name) if at else (),
        repetition=repetition,
        physical=None,
        width=0,
        converted=converted if isinstance(converted, int) else None,
        logical=min(union) if isinstance(union, dict) and union else None,
        children=(),
        leaf=-1,
        definition=definition + (repetition != REQUIRED),
        repeats=repeats + (repetition == REPEATED),
    )
    count = count_in(element, 5) if 5 in element else 0
    if not count and at:
        return _leaf(group, element, leaf), at + 1, leaf + 1
    children: list[Node] = []
    at += 1
    for _ in range(count):
        child, at, leaf = _node(elements, at, group.path, leaf, group.definition, group.repeats)
        children.append(child)
    return replace(group, children=tuple(children)), at, leaf


def _leaf(node: Node, element: Struct, number: int) -> Node:
    """Return an element without children as the leaf of this number."""
    physical, width = count_in(element, 1), count_in(element, 2) if 2 in element else 0
    if physical > 7 or (physical == FIXED and not width):
        raise ValueError(
            f"element {node.name!r} of the schema has physical type {physical} of {width} bytes"
        )
    union, converted, time = element.get(10), node.converted, None
    if physical in _WHOLE:
        time = _time_codec(converted, union)
    if converted is None and isinstance(union, dict) and union.get(_INTEGER, {}).get(2) is False:
        converted = UNSIGNED[0]
    return replace(
        node, physical=physical, width=width, converted=converted, leaf=number, time=time
    )


def _time_codec(converted: int | None, union: object) -> str | None:
    """Return the codec of dates and times, by the converted type and the union of the logical one; None for others."""
    logical = union if isinstance(union, dict) else {}
    if _DATE in logical:
        return "datetime64(D)"
    for kind, base in ((_TIME, "timedelta64"), (_TIMESTAMP, "datetime64")):
        described = logical.get(kind)
        unit = described.get(2) if isinstance(described, dict) else None
        if isinstance(unit, dict) and unit:
            return f"{base}({_TIME_UNITS.get(min(unit), 'us')})"
    if converted is None:
        return None
    return _CONVERTED_TIMES.get(converted)


def holds_json(leaf: Node) -> bool:
    """Return whether the texts of a leaf are JSON."""
    return _JSON["converted"] == leaf.converted or _JSON["logical"] == leaf.logical


def count_in(parsed: Struct, number: int) -> int:
    """Return a field of a struct that is a count.

    Raises:
        ValueError: It is missing, or too large.
    """
    value = parsed.get(number)
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise ValueError(f"field {number} is {value!r}, not a count")
    return value


def dtype_of(leaf: Node) -> str | None:
    """Return NumPy's name of the type of the stored numbers of a leaf; None if they are not numbers."""
    if leaf.physical == FIXED and leaf.logical == _FLOAT16 and leaf.width == 2:
        return "<f2"
    return _DTYPES.get(-1 if leaf.physical is None else leaf.physical)


def element_of(node: Node) -> tuple[Node | None, Node | None]:
    """Return the leaf with the values of a field, and the list that it is the element of, if any.

    The leaf of a struct of bytes and path is the leaf of the bytes. None stands for other nested
    values.
    """
    if (leaf := _value_of(node)) is not None:
        return leaf, None
    is_list = node.converted == _LIST_TYPE or node.logical == _LIST_TYPE
    if is_list and len(node.children) == 1 and node.children[0].repeats == 1 and node.repeats == 0:
        repeated = node.children[0]
        element = repeated.children[0] if len(repeated.children) == 1 else repeated
        return _value_of(element, repeats=1), node
    return None, None


def _value_of(node: Node, repeats: int = 0) -> Node | None:
    if node.repeats != repeats:
        return None
    if node.physical is not None:
        return node
    names = {child.name: child for child in node.children}
    if (
        names.keys() == {"bytes", "path"}
        and names["bytes"].physical == 6
        and names["bytes"].repeats == repeats
    ):
        return names["bytes"]
    return None
