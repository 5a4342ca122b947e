"""Writing WebDataset archives: small headers, and the same bytes for the same samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np
from msgspec import Struct
from typing_extensions import Buffer

from bushel import kernels
from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._runtime.arrays import I64, U8
from bushel.containers.base import Layout, ShardWriter, Values
from bushel.containers.stored_column import (
    LARGE,
    ColumnLimits,
    StoredColumn,
    StoredColumns,
    fitting,
)
from bushel.errors import SpecError
from bushel.spec import Field
from bushel.storage import Sink

from .members import BLOCK
from .names import check_key, comment_of, extension_of

_RECORD = 20 * BLOCK
_ZEROS = bytes(_RECORD)
_OCTAL_LIMIT = 8**11
_PLAIN_NAME = 100
_SMALL = 1 << 14
"""Size in bytes below which a copy costs less than two more writes."""
_TEMPLATE = (
    b"%b0000444\x000000000\x000000000\x00%011o\x0000000000000\x00%06o\x00 0"
    + bytes(100)
    + b"ustar\x0000"
    + b"bigdata".ljust(32, b"\0") * 2
    + bytes(BLOCK - 329)
)
"""A member's header without name, size and checksum. User, group, mode and time are as in TarWriter(mtime=0)."""
_FIXED_SUM = sum(
    _TEMPLATE.replace(b"%b", b"").replace(b"%011o", b"").replace(b"%06o\x00 ", b" " * 8)
)


def header_of(name: str, size: int) -> bytes:
    """Return the header blocks of a member.

    Names longer than 100 ASCII characters and sizes of 8 GiB or more get PAX records, with the
    bytes of Python's `tarfile`, which webdataset uses.

    Raises:
        SpecError: The name cannot be written as UTF-8.
    """
    if len(name) <= _PLAIN_NAME and size < _OCTAL_LIMIT and name.isascii():
        text, digits = name.encode().ljust(100, b"\0"), b"%011o" % size
        return _TEMPLATE % (text, size, _FIXED_SUM + sum(text) + sum(digits))
    import tarfile  # which few names need

    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uname, member.gname = size, 0o444, "bigdata", "bigdata"
    try:
        return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise SpecError(f"the name {name!r} cannot be encoded as UTF-8") from error


def _header_of_comment(comment: bytes) -> bytes:
    """Return the blocks of a global PAX record with a comment, for the members after it.

    The name in its header is the usual one. It has no dot, so readers without support for such
    records skip it.
    """
    size = len(comment) + len(" comment=\n")
    digits = len(str(size + len(str(size))))
    record = b"%d comment=%b\n" % (size + digits, comment)
    import tarfile

    member = tarfile.TarInfo("pax_global_header")
    member.type, member.size, member.mode = tarfile.XGLTYPE, len(record), 0o444
    member.uname = member.gname = "bigdata"
    return member.tobuf(tarfile.USTAR_FORMAT) + record + bytes(-len(record) % tarfile.BLOCKSIZE)


def end_of_archive(position: int) -> bytes:
    """Return the end of an archive: two empty blocks, and zeros up to a multiple of 10240 bytes."""
    return bytes(2 * BLOCK + -(position + 2 * BLOCK) % _RECORD)


class _Slot(Struct, frozen=True):
    """The members that the values of one field become.

    Attributes:
        field: The field.
        suffix: The part of the member's name after the key; for a sequence, up to the element's
            number.
        ending: The part after the element's number.
        column: The builder of its extents.
    """

    field: Field
    suffix: str
    ending: str
    column: FieldBuilder


class TarShardWriter(ShardWriter):
    """Writes samples as members, in the order of their extensions.

    Args:
        layout: The fields.
        name: The archive's path for error messages.
        sink: The file to write to.
        builder: The builder of the index.
        existing: Extensions of the dataset's existing samples: a field with the name of one of them
            keeps it.
        comment: The comment that the archive has (`description`); empty if it has none.
    """

    def __init__(
        self,
        layout: Layout,
        name: str,
        sink: Sink,
        builder: IndexBuilder,
        existing: frozenset[str],
        comment: bytes,
    ) -> None:
        self._name, self._sink, self._builder = name, sink, builder
        self._begin = sink.position
        slots = []
        for column in layout.columns:
            field, into = column.field, builder.columns[column.field.name]
            extension, _ = extension_of(field)
            if field.sequence:
                slots.append(_Slot(field, f".{field.name}.", f".{extension}", into))
            else:
                own_name = (
                    column.codec == "bytes" and field.name in existing and extension not in existing
                )
                slots.append(_Slot(field, "." + (field.name if own_name else extension), "", into))
        self._slots = sorted(slots, key=lambda slot: slot.suffix)
        fields = [(slot.field, slot.suffix[1:], slot.column.codec) for slot in slots]
        described = comment_of(fields, layout.options.labels)
        self._description = b""
        if described not in (b"", comment):
            self._description = _header_of_comment(described)

    def _describe(self) -> int:
        """Write the description of the fields before the first sample, and return its size, if it is missing."""
        if self._description and self._sink.position == self._begin:
            self._sink.write(self._description)
            return len(self._description)
        return 0

    def append(self, key: str | None, values: Values) -> None:
        """Write one sample.

        Raises:
            SpecError: No member name can hold the key, or the sample has no fields.
        """
        if key is None:
            raise SpecError("a tar stores every sample under a key, but this sample has none")
        check_key(key)
        self._describe()
        written = 0
        for slot in self._slots:
            value = values.get(slot.field.name)
            if value is None:
                slot.column.mark_absent()
            elif slot.field.sequence:
                for number, element in enumerate(cast("Iterable[Buffer]", value)):
                    self._member(
                        f"{key}{slot.suffix}{number:06d}{slot.ending}", element, slot.column.add
                    )
                    written += 1
            else:
                self._member(key + slot.suffix, cast("Buffer", value), slot.column.add)
                written += 1
        if not written:
            raise SpecError(f"sample {key!r} has no fields, so a tar would not contain it")
        self._builder.close_sample(key)

    @property
    def column_limits(self) -> ColumnLimits | None:
        """Samples whose members have plain headers."""
        if not self._slots or any(
            slot.field.sequence or not slot.suffix.isascii() for slot in self._slots
        ):
            return None
        longest_key = _PLAIN_NAME - max(len(slot.suffix) for slot in self._slots)
        if longest_key <= 0:
            return None
        return ColumnLimits(longest_key=longest_key)

    def extend(self, keys: StoredColumn | None, columns: StoredColumns, room: int | None) -> int:
        """Write many samples whose names and sizes fit plain headers."""
        limits = self.column_limits
        if keys is None or limits is None:
            return 0
        values = [columns[slot.field.name] for slot in self._slots]
        if int(keys.lengths.max()) > limits.longest_key or bool((keys.content >= 0x80).any()):
            return 0
        if any(int(column.lengths.max()) >= _OCTAL_LIMIT for column in values):
            return 0
        if not keys.harmless:
            for row in range(len(keys)):
                check_key(keys[row].decode())
        framed, ends, starts, places = kernels.frame_tar(
            header_of("", 0),
            keys.data,
            keys.offsets,
            [slot.suffix.encode() for slot in self._slots],
            [(column.data, column.offsets) for column in values],
            LARGE,
        )
        used = self._describe()
        count = fitting(ends, room if room is None else room - used)
        values = [column.rows(0, count) for column in values]
        base = self._write(framed, int(ends[count - 1]), places[: count * len(values)], values)
        starts = starts.reshape(len(keys), len(values))
        for number, (slot, stored) in enumerate(zip(self._slots, values, strict=True)):
            slot.column.add_rows(base + starts[:count, number], stored.lengths, stored.crc32)
        self._builder.close_samples(count, keys)
        return count

    def _write(self, framed: U8, size: int, places: I64, values: Sequence[StoredColumn]) -> int:
        """Write samples that `frame_tar` has framed.

        Args:
            framed: The members without large values.
            size: Bytes of the samples in the archive.
            places: int64[samples * fields], where each large value belongs, -1 for others.
            values: The values of each field.

        Returns:
            The offset of the first one.
        """
        apart = np.flatnonzero(places >= 0)
        if not len(apart):
            return self._sink.write(framed[:size].data)
        rows, fields = np.divmod(apart, len(values))
        of_fields = {field: values[field].pieces for field in set(fields.tolist())}
        pieces: list[memoryview] = []
        at = left_out = 0
        for place, row, field in zip(
            places[apart].tolist(), rows.tolist(), fields.tolist(), strict=True
        ):
            value = of_fields[field][row]
            pieces += [framed[at:place].data, value]
            at, left_out = place, left_out + len(value)
        pieces.append(framed[at : size - left_out].data)
        return self._sink.write_pieces(pieces)

    def _member(self, name: str, data: Buffer, add: Callable[[int, int, int], None]) -> None:
        size = len(data) if type(data) is bytes else memoryview(data).nbytes
        header, padding, crc32 = header_of(name, size), _ZEROS[: -size % BLOCK], kernels.crc32(data)
        if size < _SMALL:
            start = self._sink.write(b"".join((header, data, padding))) + len(header)
        else:
            self._sink.write(header)
            start = self._sink.write(data)
            self._sink.write(padding)
        add(start, size, crc32)

    def finish(self) -> Sequence[str]:
        """Write the end of the archive."""
        self._sink.write(end_of_archive(self._sink.position))
        return [self._name]
