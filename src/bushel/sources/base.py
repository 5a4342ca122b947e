"""The protocol of a source: samples by position, for `bushel.pack`.

A source is any object with a length, samples by position and a spec. It needs no base class and no
registration:

    class Captions:
        spec = {"image": "jpg", "caption": "utf8"}

        def __init__(self, rows): self.rows = rows
        def __len__(self): return len(self.rows)
        def __getitem__(self, position):
            name, caption = self.rows[position]
            return {"__key__": name, "image": Path(name).read_bytes(), "caption": caption}

`bushel.testing.check_source` checks one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

Sample = Mapping[str, Any]
"""Field names to values, and optionally the key under `__key__`. A bytes-like value is already encoded with the codec
that the spec names; `pack` stores it as it is wherever the container allows that."""


@runtime_checkable
class Source(Protocol):
    """Samples by position.

    `pack` calls `__getitem__` from several threads at once, in any order, and with `processes=` it
    pickles the source. An exception from `__getitem__` is the error of that sample, which
    `max_errors` of `pack` may tolerate.

    A source may have more, which `pack` then uses:

    - `origin(position)`, the path of a sample, or another text that identifies it, without reading
      it: error reports name it;
    - `labels`, field to the names of its classes in the order of their numbers, which are kept in
      the dataset. A dataset that they are added to keeps its numbers, and theirs are mapped;
    - `remote`, whether the samples are remote, and `fetched(positions)`, the same source with the
      data of these samples in memory. It raises nothing: data that could not be fetched are an
      error of their sample;
    - `has_columns`, whether there are columns, and `columns(positions)`, these samples as
      `Writer.extend` takes them: a column for each field, and their keys or None. They may be fewer
      than asked for: the first ones, before a file that cannot be read. `file_field` is the field
      whose column has the bytes of files; None if columns are in memory. A subclass with a
      `__getitem__` of its own is asked for single samples;
    - `fingerprint`, a text that is the same for the same items in the same order, in every process,
      so that the calls of one run can be recognised;
    - `listing`, the names of files and folders from which it can be made again (`listing=`);
    - `folders`, paths of empty folders, if the samples are the files of a folder, with their paths
      as keys: `ffrecord` keeps empty folders, too;
    - `skipped` and `first_skipped`, the number of files that are skipped, by kind, and the path
      of one of them, or None.

    Examples:
        >>> class Squares:
        ...     spec = {"x": "int", "square": "int"}
        ...     def __len__(self):
        ...         return 100
        ...     def __getitem__(self, position):
        ...         return {"x": position, "square": position**2}
        >>> bushel.pack(Squares(), "squares.tar").samples
        100
    """

    @property
    def spec(self) -> Mapping[str, str]:
        """Field names to types."""
        ...

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def __getitem__(self, position: int, /) -> Sample:
        """Return the sample at a position from 0 to `len(self) - 1`, the same one every time.

        Raises:
            IndexError: The position is out of range.
            Exception: The sample is missing or damaged.
        """
        ...


def extend_labels(names: Iterable[str], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Number the names of labels: known ones keep their numbers, new ones follow in sorted order.

    Examples:
        >>> from bushel.sources import extend_labels
        >>> extend_labels(["dog", "ant", "cat"], {"cat": 0})
        {'cat': 0, 'ant': 1, 'dog': 2}
    """
    labels = dict(known or {})
    following = max(labels.values(), default=-1) + 1
    for number, name in enumerate(sorted(set(names) - labels.keys())):
        labels[name] = following + number
    return labels
