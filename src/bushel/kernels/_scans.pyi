"""Kernels for scans: headers of images and archives. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from bushel.kernels._files import MappedFile

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

def image_header(data: _Bytes) -> bytes:
    """Return the header of an image as the bytes of a row of `image_headers`."""

def image_headers(
    file: MappedFile, offset: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Read the headers of many images of a file. Only the pages with the headers are touched.

    Args:
        file: The file.
        offset: int64[rows], bytes.
        length: int64[rows], bytes; -1 for a missing image.

    Returns:
        int32[rows, 5]: the format (0 unknown, 1 JPEG, 2 PNG), the width and height as stored, the channels of the
        decoded image (1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha), and the Exif orientation, 1 to 8. All of a
        missing image are 0. The format is unknown of a damaged image, of a PNG with a palette or with Exif data, of
        other formats, and if the file system cannot map the file.

    Raises:
        ExtentError: An extent is not inside the file, or the file has shrunk.
    """

def mp3_frames(data: _Bytes, start: int, first: int, step: int) -> tuple[NDArray[np.int64], int]:
    """Find the frames of an MP3 file by their headers. Nothing is decoded.

    The scan ends before the first bytes that are not a complete frame of Layer III with the MPEG version, sample rate
    and number of channels of the first frame. Frames of free format, whose size is not in the header, end it, too.

    Args:
        data: The file.
        start: Where the first frame begins, in bytes.
        first: Number of the second frame whose offset is returned; the first one is frame 0.
        step: Number of frames from there to the next one whose offset is returned.

    Returns:
        int64[n]: offsets of frame 0, of frame ``first`` and every ``step``-th one after it, followed by the end of the
        last frame; and the number of all frames.

    Raises:
        ValueError: ``start`` is not inside the data, or another number is not positive.
    """

class TarMembers:
    """The members of a tar archive, in the order of the archive: the result of a scan."""

    @property
    def names(self) -> NDArray[np.uint8]:
        """uint8: the bytes of all names, usually UTF-8. Prefixes are joined, and long names (GNU, pax) resolved."""
    @property
    def name_offsets(self) -> NDArray[np.int64]:
        """int64[members + 1]: name i is ``names[name_offsets[i]:name_offsets[i + 1]]``."""
    @property
    def offset(self) -> NDArray[np.int64]:
        """int64[members]: offset of each member's data."""
    @property
    def size(self) -> NDArray[np.int64]:
        """int64[members]: bytes of data; 0 for links, directories, devices and pipes."""
    @property
    def header(self) -> NDArray[np.int64]:
        """int64[members]: offset of each member's first header block, which may have a long name or pax records."""
    @property
    def type(self) -> NDArray[np.uint8]:
        """uint8[members]: type flags. 0, ``ord("0")`` and ``ord("7")`` are regular files.

        In two cases the value differs from the header: a member of type 0 whose name ends in a slash is a directory
        (``ord("5")``), and a sparse file in pax format has GNU's ``ord("S")``. The data of a sparse file are in a
        packed form.
        """
    @property
    def end(self) -> int:
        """End of the last member, with padding; ``start`` without members."""
    @property
    def zero_blocks(self) -> int:
        """Number of zero blocks at the end: 2 in a complete archive, 1 or 0 in a truncated one."""
    @property
    def terminated(self) -> bool:
        """Whether the archive ends with two zero blocks."""
    @property
    def trailing_bytes(self) -> int:
        """Bytes from the first non-zero byte after the end marker to the end of the file; 0 if only zeros follow."""
    @property
    def problem(self) -> str | None:
        """The problem that ended the scan, or None. The members before it are complete."""
    @property
    def problem_offset(self) -> int:
        """Offset of the damaged block, or -1. To scan the rest, pass a later multiple of 512 as ``start``."""
    @property
    def comment(self) -> bytes:
        """The last ``comment`` of global pax records, which are for the whole archive; empty without such records."""
    def __len__(self) -> int:
        """Number of members."""

def scan_snappy(
    data: _Bytes, spacing: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Divide a raw Snappy stream into parts that refer to no bytes before them.

    The parts end at multiples of ``spacing`` expanded bytes that no literal and no copy reaches across. Literals
    are skipped without reading them.

    Args:
        data: The stream, which begins with its expanded size.
        spacing: Usual size of a part when it is expanded: 65536 for streams of Snappy itself.

    Returns:
        start: int64[parts + 1], expanded bytes before each part, and all of them.
        offset: int64[parts], where the tags of the part begin in ``data``; of a single literal, where its bytes begin.
        length: int64[parts], number of these bytes.
        literal: uint8[parts], 1 for a part that is a single literal, whose bytes are those it expands to.

    Raises:
        ValueError: The stream is damaged, or ``spacing`` is less than 1.
    """

class Inflater:
    """Expands raw deflate (RFC 1951) from front to back, and notes where a reader may begin again.

    ::

        inflater = Inflater(1 << 20)
        while not inflater.done:
            used, expanded = inflater.feed(data, last=data is the end)
            data = data[used:] + more

    Args:
        spacing: Least number of expanded bytes between two restart points.

    Raises:
        ValueError: ``spacing`` is less than 1.
    """

    def __init__(self, spacing: int) -> None: ...
    def feed(self, data: _Bytes, last: bool = False) -> tuple[int, bytes]:
        """Expand bytes that follow those which earlier calls used.

        Args:
            data: Bytes of the stream. With less than 320 bytes, and without ``last``, nothing may be used.
            last: Whether no more bytes follow.

        Returns:
            How many bytes are used, and what they expand to, at most some 256 KiB. At the end of the stream, bytes
            after it are not used.

        Raises:
            ValueError: The bytes are not deflate, or are the last ones and end within the stream. The object cannot be
                used after that.
        """
    @property
    def done(self) -> bool:
        """Whether the end of the stream has been reached."""
    @property
    def points(self) -> list[tuple[int, int]]:
        """The restart points of the last call: bits from the start of the stream, and expanded bytes before."""

class TarScanner:
    """The scan of `scan_tar` in steps, for an archive whose bytes the caller fetches, or of many members.

    ::

        scanner = TarScanner(size)
        while (window := scanner.next_window()) is not None:
            scanner.feed(fetch(*window))
        members = scanner.take()

        scanner = TarScanner(file.size)
        while not scanner.over:
            some_members = scanner.read(file, 1000)

    Args:
        size: Size of the archive in bytes.
        start: Offset of a header, a multiple of 512.

    Raises:
        ValueError: ``start`` is not a multiple of 512, or not inside the archive.
    """

    def __init__(self, size: int, start: int = 0) -> None: ...
    def next_window(self) -> tuple[int, int] | None:
        """Return offset and length of the bytes to feed next, or None if the scan is over."""
    def feed(self, data: _Bytes) -> None:
        """Scan the bytes of the window.

        Raises:
            ValueError: ``data`` is too short, or the scan is over.
        """
    def read(self, file: MappedFile, most: int) -> TarMembers:
        """Scan a file until there are ``most`` members, or a few more, or the scan is over. Then return as `take` does.

        Raises:
            ExtentError: The file shrank during the scan.
            OSError: The system could not read the file.
            ValueError: The file is of another size than the archive.
        """
    def take(self) -> TarMembers:
        """Return the members since the last call, and the facts about the end of the archive so far."""
    @property
    def members(self) -> int:
        """Number of members since the last call of `take`."""
    @property
    def over(self) -> bool:
        """Whether the scan is over."""
    @property
    def need(self) -> int:
        """Number of bytes of the next window that have to be fed at least; 0 if the scan is over."""

class SampleNames:
    """Groups the members of an archive into samples by their names, and numbers the extensions of these names.

    Names are split as by `bushel.containers.tar.names.split_name`. Members of one key that follow each other are a
    sample.
    """

    def __init__(self) -> None: ...
    def group(
        self, names: NDArray[np.uint8], offsets: NDArray[np.int64], last: bool
    ) -> tuple[
        int,
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.uint8],
        NDArray[np.int64],
    ]:
        """Group some members.

        Args:
            names: uint8, the bytes of all names.
            offsets: int64[members + 1]: name i is ``names[offsets[i]:offsets[i + 1]]``.
            last: Whether no members follow. If some do, the members from the last sample on are to be passed again, in
                front of these.

        Returns:
            used: The number of members that are grouped.
            row: int64[rows], the numbers of the members among them that belong to a sample.
            sample: int64[rows], the number of the sample of each, from 0 on.
            extension: int64[rows], the number of the extension of each.
            text: uint8, the keys of the samples.
            ends: int64[samples], where each key ends.

        Raises:
            ValueError: Offsets descend or are outside ``names``.
        """
    @property
    def extensions(self) -> list[bytes]:
        """The extensions so far, in the order of their first members."""

def scan_tar(file: MappedFile | _Bytes, start: int = 0) -> TarMembers:
    """Read the headers of a tar archive (ustar, pax, GNU, and the older format).

    Large members are skipped header by header; small ones are read in windows of 256 KiB. A problem in the archive ends
    the scan and is reported in the result: a wrong header checksum, a truncated header, data beyond the end of the
    file, a malformed pax record, an invalid size, or a long name or pax block over 1 MiB. The memory used is bounded by
    the size of the archive.

    Args:
        file: The archive, or its bytes.
        start: Offset of a header, a multiple of 512.

    Raises:
        ExtentError: The file shrank during the scan.
        OSError: The system could not read the file.
        ValueError: ``start`` is not a multiple of 512, or not inside the archive.
    """

class RecordioRecords:
    """The records of a RecordIO file, in the order of the file: the result of `scan_recordio`."""

    @property
    def offset(self) -> NDArray[np.int64]:
        """int64[records]: offset of the header of each record's first part, as in an ``.idx`` file."""
    @property
    def span(self) -> NDArray[np.int64]:
        """int64[records]: bytes from the start of the payload, at ``offset + 8``, to the end of the last part.

        A record of one part has its payload there. For a record of several parts, pass the bytes from ``offset`` to
        ``offset + 8 + span`` to `join_recordio`.
        """
    @property
    def parts(self) -> NDArray[np.int32]:
        """int32[records]: number of parts: 1, plus the number of aligned magic words in the payload."""
    @property
    def end(self) -> int:
        """End of the last complete record, with padding; ``start`` if no record is complete."""
    @property
    def problem(self) -> str | None:
        """The problem that ended the scan, or None. The records before it are complete."""
    @property
    def problem_offset(self) -> int:
        """Offset of the damaged or missing part header, or -1."""
    def __len__(self) -> int:
        """Number of records."""

class RiegeliChunks:
    """The chunks of simple records that `scan_riegeli` has found. A position counts bytes without headers of blocks."""

    @property
    def start(self) -> NDArray[np.int64]:
        """int64[chunks], position of the data of each, after its header."""
    @property
    def length(self) -> NDArray[np.int64]:
        """int64[chunks], bytes of the data."""
    @property
    def records(self) -> NDArray[np.int64]:
        """int64[chunks], number of records, at least 1."""
    @property
    def expanded(self) -> NDArray[np.int64]:
        """int64[chunks], bytes of all records, expanded."""
    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64[chunks], bytes of the lengths of the records, as they are stored."""
    @property
    def values(self) -> NDArray[np.int64]:
        """int64[chunks], position of the first record, after these lengths."""
    @property
    def compression(self) -> NDArray[np.uint8]:
        """uint8[chunks], the byte that stands for the compression: 0, or one of ``b"zbs"``."""
    @property
    def end(self) -> int:
        """Position after the last chunk, also of another kind, that was read."""

def scan_riegeli(file: MappedFile, position: int, end: int, most: int) -> RiegeliChunks:
    """Read the headers of the chunks of an ArrayRecord file, up to the first chunk of another form.

    Such a chunk is transposed or damaged, and the caller finds out which. All ranges are in the file. The records
    of a chunk that is not compressed have as many bytes as it says.

    Args:
        file: The file.
        position: Where the first chunk begins.
        end: Where no more chunks begin.
        most: Greatest number of chunks of records.

    Raises:
        ExtentError: The file shrank during the scan.
        OSError: The system could not read the file.
        ValueError: ``position`` or ``most`` is negative.
    """

def scan_recordio(file: MappedFile | _Bytes, start: int = 0) -> RecordioRecords:
    """Read the part headers of an MXNet (dmlc) RecordIO file.

    A problem ends the scan and is reported in the result: a wrong magic word, a truncated header or part, or parts in
    the wrong order. Missing padding after the last record is accepted.

    Args:
        file: The file, or its bytes.
        start: Offset of a part header, a multiple of 4.

    Raises:
        ExtentError: The file shrank during the scan.
        OSError: The system could not read the file.
        ValueError: ``start`` is not a multiple of 4, or not inside the file.
    """

def join_recordio(raw: _Bytes) -> bytes:
    """Return the payload of one record.

    Args:
        raw: The framed bytes, from the header of the first part to the end of the last part's payload, without padding.

    Raises:
        ValueError: ``raw`` is not exactly one record.
    """
