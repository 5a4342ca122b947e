"""Stored values of samples: their lengths and locations, their bytes, parts of them, and how they are decoded."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._dataset.read.selection import Given, Mask
from bushel._dataset.views.samples import Sample, Samples
from bushel._index.elements import Elements, Group, element_rows
from bushel._index.table import MISSING
from bushel._runtime.arrays import offsets_of
from bushel.codecs.registry import holds_array, holds_elements

if TYPE_CHECKING:
    import numpy.typing as npt


class StoredValues(Samples):
    """Samples whose stored values can be found, measured, read in part and decoded later."""

    def location(self, position: int, field: str) -> tuple[str, int]:
        r"""Return the path of the file with a field of a sample, and the offset of its stored bytes.

        Examples:
            >>> file, offset = ds.location(0, "image")
            >>> Path(file).read_bytes()[offset : offset + 2]  # the first bytes of a JPEG
            b'\xff\xd8'
        """
        if field not in self._selection.fields:
            raise KeyError(
                f"unknown field {field!r}: the fields are"
                f" {', '.join(self._selection.fields) or 'none'}"
            )
        return self._reader.location(self._selection.at(position), field)

    def shard_of(self, position: int) -> int:
        """Return the number in `shards` of the shard that holds a sample."""
        return self._reader.row_of(self._selection.at(position))[0]

    def row_of(self, position: int) -> tuple[int, int]:
        """Return the number in `shards` of the shard that holds a sample, and the number of the sample there.

        Samples of the shard that were removed count, as do those that a view leaves out.

        Examples:
            >>> ds[8:].row_of(0)
            (0, 8)
        """
        return self._reader.row_of(self._selection.at(position))

    def available(self, item: int | str) -> dict[str, bool | range]:
        """Return the fields that a sample has: True, or the range of a sequence's elements or of a clip's frames.

        Nothing is decoded, and only clips are read whose frames are not in the index.

        Raises:
            SpecError: The sample has a clip, and PyAV, which counts its frames, is not installed.
            CodecError: A clip is damaged.

        Examples:
            >>> ds.available("dog/2")
            {'image': True, 'label': True}
        """
        from bushel._dataset.read.decoding import count_elements

        position = self.position(item) if isinstance(item, str) else operator.index(item)
        absolute = self._selection.at(position)
        available: dict[str, bool | range] = {}
        windows = self._reader.windows
        for name in self._selection.fields:
            if windows is not None and (window_range := windows.shape.available(name)) is not None:
                available[name] = window_range
                continue
            if (group := self._reader.group_of(absolute, name)) is None:
                continue
            column, row = group.index.fields[name], int(group.rows[0])
            if column.starts is not None:
                if column.absent is None or not column.absent[row]:
                    available[name] = range(int(column.starts[row + 1]) - int(column.starts[row]))
            elif column.length[row] >= 0:
                available[name] = (
                    range(count_elements(self._reader, absolute, name))
                    if holds_elements(column.codec) and not holds_array(column.codec)
                    else True
                )
        return available

    def lengths(self, positions: Given, field: str) -> npt.NDArray[np.int64]:
        """Return the number of stored bytes of one field in many samples. No data are read.

        Returns:
            int64[n]: for a sequence field, the bytes of all elements; -1 if a sample lacks the
            field.

        Examples:
            >>> bool(ds.lengths([0], "image")[0] == Path("photos/cat/0.jpg").stat().st_size)
            True
        """
        [name], samples = self._selection.wanted([field]), self._selection.all_of(positions)
        windows = self._reader.windows
        if windows is not None and name in windows.shape.pads:  # a byte for each element
            return np.full(
                len(samples), len(windows.shape.offsets[windows.shape.pads[name]]), np.int64
            )
        elements = self._reader.asked(samples, {name: None})[name]
        return _stored_lengths(self._reader.groups(samples, [name]), len(samples), name, elements)

    def gather(
        self, positions: Given, field: str
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Read the stored bytes of one plain field of many samples into one buffer: the fastest way to read.

        Returns:
            buffer: uint8[total].
            offsets: int64[n + 1]; sample `i` is `buffer[offsets[i]:offsets[i + 1]]`, empty if it
            lacks the field.

        Raises:
            TypeError: The field is a sequence.
            IndexError, CorruptError, FormatError: As `read`.

        Examples:
            >>> data, offsets = ds.gather([3, 0], "image")
            >>> photo = data[offsets[0] : offsets[1]].tobytes()
            >>> photo == Path("photos/cat/3.jpg").read_bytes()
            True
        """
        name = self._selection.plain(field, "gather() reads plain fields, read() reads both")
        return self._reader.gather(self._selection.all_of(positions), name)

    def read_crop(
        self, position: int, field: str, box: tuple[int, int, int, int]
    ) -> npt.NDArray[Any]:
        """Read and decode a part of an image.

        If the index has the segments or the seek table of a JPEG, only the header and the bytes of
        that part are read. Other images are read whole, and so are all images of a dataset with
        checksums opened with `verify=True`.

        Args:
            position: The position of the sample.
            field: A plain image field.
            box: Left, top, right and bottom in pixels, the last two exclusive.

        Returns:
            HxWx3, or HxW of a grey image, as in `ds[position][field]`.

        Raises:
            KeyError: The field does not exist, or the sample lacks it.
            TypeError: The field is a sequence, or does not hold images.
            ValueError: The box is not inside the image.
            IndexError, CorruptError, FormatError, CodecError: As `read`.

        Examples:
            >>> ds.read_crop(0, "image", (8, 4, 32, 24)).shape
            (20, 24, 3)
        """
        name = self._selection.plain(field, "read_crop() reads plain fields")
        from bushel._dataset.read.crops import read_crop_of

        return read_crop_of(self._reader, self._selection.at(position), name, box)

    def prefetch(self, positions: Given, fields: Mask = None, *, decode: bool = True) -> None:
        """Ask the operating system to load what a later `read` of these positions will need. Returns at once."""
        self._reader.prefetch(
            self._selection.all_of(positions), self._selection.wanted(fields), decode=decode
        )

    def decode_sample(self, stored: Sample, position: int) -> Sample:
        """Decode a sample that `read(..., decode=False)` returned for this position.

        Raises:
            CodecError: Stored bytes do not decode. The error names the sample, field and file.
        """
        from bushel._dataset.read.decoding import decode_samples

        return decode_samples(
            self._reader, [stored], np.array([self._selection.positions[position]], np.int64)
        )[0]

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: Given,
        encoded: Collection[str] = (),
        fields: Mask = None,
    ) -> list[Sample]:
        """Decode samples that `read(..., decode=False)` returned for these positions.

        Args:
            stored: The samples.
            positions: Their positions.
            encoded: Image fields whose stored bytes are kept, as `Seekable` where the index has
                their seek tables.
            fields: The mask that was given to `read`.

        Raises:
            CodecError: Stored bytes do not decode. The error names the sample, field and file.
        """
        from bushel._dataset.read.decoding import decode_samples

        numbers = self._selection.all_of(positions)
        return decode_samples(
            self._reader, stored, numbers, encoded, self._selection.wanted(fields)
        )


def _stored_lengths(
    groups: Sequence[Group], total: int, name: str, elements: Elements
) -> npt.NDArray[np.int64]:
    """Return the stored bytes of one field in each sample of a batch: int64[total], `MISSING` if a sample lacks it.

    Raises:
        FormatError: The table of a sequence field is damaged.
    """
    lengths = np.full(total, MISSING, np.int64)
    for group in groups:
        column = group.index.fields.get(name)
        if column is None:
            continue
        places = group.places_in(total)
        rows, counts = (
            (group.rows, None) if column.starts is None else element_rows(column, group, elements)
        )
        lengths_of_rows = column.length[rows]
        if counts is not None:
            ends, sums = np.cumsum(counts), offsets_of(lengths_of_rows)
            lengths_of_rows = sums[ends] - sums[ends - counts]
            if column.absent is not None:
                lengths_of_rows[column.absent[group.rows]] = MISSING
        lengths[places] = lengths_of_rows
    return lengths
