"""The sections of a remote Parquet file: its row groups, small ones together, and large ones as runs of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from bushel.containers.features import Feature
from bushel.containers.parquet.footer import Chunk, Footer, RowGroup
from bushel.containers.parquet.page_index import PageStarts, cut, has_index, read_starts
from bushel.containers.parquet.schema import BYTE_ARRAYS, dtype_of, element_of
from bushel.containers.parquet.types import is_decoded
from bushel.containers.sections import Section
from bushel.spec import Field
from bushel.storage import File

# bytes of a section: of small row groups that follow each other, or of a run of rows of a large one
_SECTION = 8 << 20
_GAP = 64 << 10  # bytes between chunks that are read rather than left out by another request


@dataclass(frozen=True, slots=True)
class Groups:
    """The row groups of a section."""

    first: int  # number of the first one in the file
    footer: Footer  # the footer with only these, or with a run of rows of one
    features: Mapping[str, Feature]  # Hugging Face's metadata of columns
    fields: tuple[Field, ...]  # the fields of the file


def sections_of(
    footer: Footer,
    features: Mapping[str, Feature],
    fields: tuple[Field, ...],
    file: File,
    tail: bytes | None,
) -> Iterator[Section]:
    """Yield the sections of a file. The page index is read if the file has large row groups.

    Args:
        footer: Its footer.
        features: Hugging Face's metadata of columns.
        fields: Its fields.
        file: The file.
        tail: Its last bytes, if they have been read.

    Raises:
        FormatError: The page index is damaged, or does not fit the footer.
    """
    pages = _pages(footer, file, tail)
    groups = footer.groups
    first = number = 0
    while first < len(groups):
        runs = [groups[first]]
        if first in pages:
            runs = cut(
                groups[first], _cuttable(footer, fields, groups[first], pages[first]), _SECTION
            )
        if len(runs) > 1:
            for run in runs:
                footer_of_run = Footer(run.rows, footer.fields, (run,), {})
                spans = _together(run.chunks)
                details = Groups(first, footer_of_run, features, fields)
                yield Section(number, run.rows, spans[0][0], spans[-1][1], details, spans)
                number += 1
            first += 1
            continue
        last = first + 1
        while last < len(groups) and groups[last].stop - groups[first].start <= _SECTION:
            last += 1
        footer_of_run = footer.only(first, last)
        start, stop = (
            min(group.start for group in footer_of_run.groups),
            max(group.stop for group in footer_of_run.groups),
        )
        yield Section(
            number, footer_of_run.rows, start, stop, Groups(first, footer_of_run, features, fields)
        )
        first, number = last, number + 1


def narrowed(section: Section, names: Collection[str]) -> Section:
    """Return a section with only some columns: their chunks, and what lies in small gaps between these."""
    groups: Groups = section.details
    nodes = [node for node in groups.footer.fields if node.name in names]
    fields = tuple(field for field in groups.fields if field.name in names)
    numbers = [leaf.leaf for node in nodes for leaf in node.leaves()]
    spans = _together(group.chunks[number] for group in groups.footer.groups for number in numbers)
    details = replace(groups, footer=replace(groups.footer, fields=tuple(nodes)), fields=fields)
    return replace(
        section, details=details, spans=spans, fields=tuple(field.name for field in fields)
    )


def _pages(footer: Footer, file: File, tail: bytes | None) -> dict[int, list[PageStarts]]:
    """Return the pages of the chunks of large row groups that have a page index, by the numbers of the row groups."""
    large = {
        number: group
        for number, group in enumerate(footer.groups)
        if group.stop - group.start > 2 * _SECTION and has_index(group)
    }
    end = tail or b""
    first = file.size - len(end)

    def read(offset: int, length: int) -> bytes:
        if offset >= first:
            return end[offset - first :][:length]
        return bytes(file.read(offset, length))

    return dict(
        zip(large, read_starts(list(large.values()), read, file.size, file.path), strict=False)
    )


def _cuttable(
    footer: Footer, fields: tuple[Field, ...], group: RowGroup, pages: list[PageStarts]
) -> list[PageStarts | None]:
    """Return the pages of the chunks; None for a chunk that is read whole.

    pyarrow decodes whole row groups, and compressed numbers of lists are a block with their
    dictionary.
    """
    cuttable: list[PageStarts | None] = list(pages)
    for node, field in zip(footer.fields, fields, strict=True):
        leaf, above = element_of(node)
        if leaf is None or is_decoded(node, field):
            for node_leaf in node.leaves():
                cuttable[node_leaf.leaf] = None
        elif above is not None and (leaf.physical not in BYTE_ARRAYS or dtype_of(leaf) is not None):
            begin = group.chunks[leaf.leaf].offset
            if int(pages[leaf.leaf].offset[0]) > begin:
                cuttable[leaf.leaf] = None
    return cuttable


def _together(chunks: Iterable[Chunk]) -> tuple[tuple[int, int], ...]:
    """Return the ranges to read of chunks, ascending; ranges with only a small gap between them are joined."""
    ranges: list[tuple[int, int]] = []
    for start, stop in sorted(span for chunk in chunks for span in chunk.spans):
        if ranges and start <= ranges[-1][1] + _GAP:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], stop)
        else:
            ranges.append((start, stop))
    return tuple(ranges)
