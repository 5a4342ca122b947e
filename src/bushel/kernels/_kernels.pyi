"""Documentation of the compiled kernels (C++17).

Array arguments must be C-contiguous and of exactly the documented dtype and shape; read-only arrays are accepted as
input. Anything else raises `TypeError`; arguments are never copied silently. Functions release the GIL while they work
on more than about 64 KiB. All of them may be called from several threads at once, and after a fork.

An extent is (file, offset, length). ``file`` is an index into the list ``files``, or one int if all rows are in the
same file; ``offset`` and ``length`` are in bytes. A length of -1 marks a missing field: nothing is read, and its file
and offset are ignored. Only those elements of ``files`` that rows refer to are used.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class ExtentError(ValueError):
    """An extent cannot be read.

    Attributes:
        row: Index of the extent in the arguments.
        reason: ``"beyond"``: the extent is not inside its file, or is negative. ``"checksum"``: the CRC-32 of the bytes
            differs. ``"shrunk"``: the file is smaller than when it was opened.
        expected: beyond: the end of the extent (offset + length). checksum: the given CRC-32. shrunk: the file size
            when it was opened, in bytes.
        found: beyond: the file size in bytes. checksum: the CRC-32 of the bytes. shrunk: the current file size.
    """

    row: int
    reason: Literal["beyond", "checksum", "shrunk"]
    expected: int
    found: int

class JpegError(ValueError):
    """A JPEG cannot be parsed, decoded or encoded. The message says what is wrong with "it"."""

class JpegHeader(NamedTuple):
    """The result of `jpeg_header`.

    Attributes:
        width: Columns of the stored image. For orientations 5 to 8, the upright image has width and height exchanged.
        height: Rows of the stored image.
        components: 1 (grey), 3 (colour) or 4 (CMYK) in files that can be decoded.
        orientation: Exif orientation, 1 to 8; 1 if none is recorded.
    """

    width: int
    height: int
    components: int
    orientation: int

class MappedFile:
    """A read-only local file that is mapped into memory.

    A MappedFile records (one bit per 4 KiB) which pages it has read. Rows of a batch on such pages are copied from the
    map, without a system call. For other rows it first tries to read without waiting; the pages that are not in memory
    are requested for the whole batch at once (``posix_fadvise``) and then read. If pages have left memory meanwhile,
    which the thread's count of major page faults shows, the record is cleared.

    A file that grows is read up to its size at opening. A file that shrinks raises `ExtentError` at the next batch:
    each batch checks the sizes of its files first. Only truncation between that check and the copy kills the process.

    Args:
        path: The file. It may be empty.

    Raises:
        OSError: The file cannot be opened (`FileNotFoundError`, `IsADirectoryError`, …) or is not a regular file.
    """

    def __init__(self, path: str | bytes | PathLike[str]) -> None: ...
    @property
    def path(self) -> str:
        """The path that was opened."""
    @property
    def size(self) -> int:
        """Size in bytes at opening."""
    @property
    def mtime_ns(self) -> int:
        """Modification time in nanoseconds at opening."""
    def read(self, offset: int, length: int) -> bytes:
        """Read one extent.

        Raises:
            ExtentError: The extent is not inside the file, or the file has shrunk.
            ValueError: ``length`` is negative.
        """
    def check(self) -> None:
        """Raise `ExtentError` ("shrunk") if the file is smaller than at opening."""

def read_many(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> list[bytes | None]:
    """Read many extents; None stands for a missing one.

    Args:
        files: The files that ``file`` refers to.
        file: int32[rows], indices into ``files``; or one int for all rows.
        offset: int64[rows], bytes.
        length: int64[rows], bytes, or -1.
        crc32: uint32[rows], the expected CRC-32 of each row. None (the default): checksums are not compared.

    Raises:
        ExtentError: The first row that cannot be read. All rows are checked against the sizes of their files before any
            memory is allocated.
        OSError: The system could not read a file.
        ValueError: A file index is out of range, or arrays have different lengths.
        TypeError: An array has another dtype or shape.
    """

def read_samples(
    files: Sequence[MappedFile],
    fields: Sequence[
        tuple[str, NDArray[np.int32] | int, NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32] | None]
    ],
    rows: NDArray[np.int64] | None,
    key_name: str,
    keys: list[str] | tuple[NDArray[np.uint8], NDArray[np.int64]],
) -> list[dict[str, str | bytes]]:
    """Read a batch of samples: a dict for each, with its key and the bytes of the fields that it has.

    Args:
        files: The files that the fields refer to.
        fields: For each field: its name, and file, offset, length and crc32 of its values, as in `read_many`. The
            crc32 is None for all fields, or for none.
        rows: int64[samples], the rows of these arrays to read; None if they are the samples.
        key_name: The name of the key in each dict.
        keys: The key of each sample; or the keys of all rows, as text (uint8[total]) and offsets (int64[rows + 1]).

    Raises:
        ExtentError: As `read_many`; ``row`` counts the samples of the first field, then of the second, and so on.
        IndexError: A row is out of range.
        OSError: The system could not read a file.
        ValueError: A file index is out of range, arrays have different lengths, or keys overlap or are invalid.
        TypeError: An array has another dtype or shape.
    """

def gather(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read many extents into one buffer. Arguments and errors are those of `read_many`.

    Returns:
        ``data`` (uint8, the sum of the lengths) and ``offsets`` (int64, rows + 1). Row i is
        ``data[offsets[i]:offsets[i + 1]]``, which is empty for a missing one.
    """

def gather_into(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None,
    out: NDArray[np.uint8],
) -> NDArray[np.int64]:
    """Read many extents into an array of the caller. Arguments and errors are those of `read_many`.

    After an `ExtentError` of reason "checksum" or "shrunk", or an `OSError`, the contents of ``out`` are undefined.

    Returns:
        ``offsets`` (int64, rows + 1), as `gather` returns them.

    Raises:
        ValueError: ``out`` is too small.
    """

class NumberForms:
    """The headers of a codec's stored values of numbers. It does not change.

    Args:
        headers: The header of stored values by their length in bytes, header and content together.

    Raises:
        ValueError: A header is longer than its value.
    """

    def __init__(self, headers: Mapping[int, bytes]) -> None: ...

def decode_numbers(
    data: _Bytes, length: NDArray[np.int64], kind: str, forms: NumberForms | None, out: NDArray[Any]
) -> NDArray[np.int64] | None:
    """Decode stored numbers in memory, as a `NumberTable` does.

    Args:
        data: The stored values, one after another.
        length: int64[n], bytes; -1 for a missing value.
        kind: As for `NumberTable`, except ``"bytes"``.
        forms: The headers, or None if no value has one.
        out: int64[n], or float64[n] for ``"real"``.

    Returns:
        int64[k], the rows that are missing or no such numbers, of which ``out`` holds anything; None if there are none.

    Raises:
        ValueError: The values do not fit into ``data``, or ``out`` has another size.
    """

class NumberTable:
    """Where the numbers of some fields (columns) are in some shards, for gathering them into arrays.

    It does not change and keeps the files and arrays that it is given alive, so threads may share it. A value can be
    gathered if its extent is inside its file, its length and header are known, and its checksum fits. Its content, the
    bytes after the header, becomes by kind:

    - ``"bytes"``: the same bytes;
    - ``"signed"``, ``"unsigned"``: int64, from a little-endian integer of at most 8 bytes;
    - ``"real"``: float64, from a little-endian float32 or float64;
    - ``"whole-real"``: int64, from the same, if it is an integer of at most 2**53;
    - ``"decimal"``: int64, from decimal text, which may have a sign and surrounding white space.

    Args:
        shards: Of each shard, in ascending order: the position of its first sample, the number of samples, and its
            columns. A column is a tuple of file, offset (int64[samples], bytes), length (int64[samples], bytes; -1 for
            a sample without the field), crc32 (uint32[samples] to compare with, or None), kind, and the headers (None:
            no value has a header).
        columns: Number of columns in each shard.

    Raises:
        ValueError: Shards overlap, an array has the wrong length, or a kind is unknown.
        TypeError: An argument has another type.
    """

    def __init__(
        self,
        shards: Sequence[
            tuple[
                int,
                int,
                Sequence[
                    tuple[
                        MappedFile,
                        NDArray[np.int64],
                        NDArray[np.int64],
                        NDArray[np.uint32] | None,
                        str,
                        NumberForms | None,
                    ]
                ],
            ]
        ],
        columns: int,
    ) -> None: ...
    def gather(
        self, samples: NDArray[np.int64], targets: Sequence[Sequence[NDArray[Any]] | None]
    ) -> tuple[list[NDArray[np.int64] | None], bool]:
        """Gather all columns of samples into arrays.

        Args:
            samples: int64[n], positions.
            targets: Of each column: writable C-contiguous arrays that have n rows of one size together. The first array
                gets the first samples, and so on. None: the column is not gathered.

        Returns:
            bad: Of each column: int64[k], the places in ``samples`` of those that could not be gathered, or that are in
                none of the shards; None if there are none. Their rows hold anything.
            waited: Whether a value was not in memory.

        Raises:
            ExtentError: A file has shrunk.
            OSError: The system could not read a file.
            ValueError: The arrays do not have the rows.
        """
    def gather_rows(
        self,
        column: int,
        samples: NDArray[np.int64],
        out: NDArray[Any],
        offsets: NDArray[np.int64],
        fill: bytes | None,
    ) -> tuple[NDArray[np.int64] | None, bool]:
        """Gather one column of samples into rooms of different sizes.

        Args:
            column: Number of the column.
            samples: int64[n], positions.
            out: A writable C-contiguous array.
            offsets: int64[n + 1], in bytes: the room of sample ``i`` is ``out[offsets[i]:offsets[i + 1]]``.
            fill: Fills the rest of each room, over and over. None: a content must have the size of its room.

        Returns:
            bad and waited, as `gather` for one column.

        Raises:
            IndexError: There is no such column.
            ValueError: Offsets are not ascending, or not inside ``out``.
            ExtentError, OSError: As `gather`.
        """
    def measure(self, column: int, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of content of each sample, -1 for one that cannot be gathered. No data are read."""
    def prefetch(self, samples: NDArray[np.int64]) -> None:
        """Start to read, in the background, the values that have not been in memory yet."""

def permute(
    values: NDArray[np.int64], size: int, key: int, tweak: NDArray[np.uint32] | None = None, inverse: bool = False
) -> NDArray[np.int64]:
    """Return the images of values under the keyed permutation of 0 to size - 1 that docs/order.md specifies.

    Args:
        values: int64[n], each in 0 to size - 1.
        size: Number of values that are permuted, 1 to 2**48.
        key: The key, 0 to 2**64 - 1.
        tweak: uint32[n], the member of the family of permutations to use for each value; None for 0.
        inverse: Whether to return the values whose images are given instead.

    Returns:
        int64[n].

    Raises:
        IndexError: A value is out of range.
        ValueError: ``size`` is out of range, or ``tweak`` has another length.
        TypeError: An array has another dtype or shape.
    """

def map_array(path: str | PathLike[str]) -> NDArray[np.uint8]:
    """Map a whole local file as a read-only array, without keeping it open.

    All of its pages are requested at once, in the background. Use it for files that are replaced as a whole and never
    truncated, such as sidecars: access to a page that no longer exists kills the process.

    Returns:
        uint8[size of the file].

    Raises:
        OSError: The file cannot be opened or mapped.
    """

def prefetch(
    files: Sequence[MappedFile], file: NDArray[np.int32] | int, offset: NDArray[np.int64], length: NDArray[np.int64]
) -> None:
    """Start to read the extents of a future batch in the background, and return at once.

    Raises:
        ExtentError: As in `read_many`.
    """

def crc32_many(
    files: Sequence[MappedFile], file: NDArray[np.int32] | int, offset: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return the CRC-32 of each extent (uint32[rows]); 0 for a missing one.

    Files are read in pieces of 256 KiB, in the order of the rows. Rows in the order of the file are fastest.

    Raises:
        ExtentError: As in `read_many`.
    """

def crc32(data: _Bytes, value: int = 0) -> int:
    """Return the CRC-32 of ``data``, continued from ``value``, as `zlib.crc32` does, but many times as fast."""

def join_crc32(beginning: int, rest: int, length: int) -> int:
    """Return the CRC-32 of bytes, given that of their beginning and that of the ``length`` bytes after it."""

def crc32_pieces(pieces: Sequence[_Bytes]) -> tuple[list[int], int]:
    """Return the CRC-32 of each of several pieces, and of all of them one after another."""

def hash_keys(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each key (uint64[keys]). The hash is part of the index format and never changes.

    It is FNV-1a, 64 bit, followed by the finaliser of splitmix64; all arithmetic is modulo 2**64::

        h = 0xCBF29CE484222325
        for byte in key: h = (h ^ byte) * 0x100000001B3
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9
        h = (h ^ h >> 27) * 0x94D049BB133111EB
        h = h ^ h >> 31

    Args:
        data: uint8, the bytes of all keys.
        offsets: int64[keys + 1]: key i is ``data[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: Offsets descend or are outside ``data``.
    """

def decode_keys(data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> list[str]:
    """Return the keys at ``rows`` as text. Bytes that are not UTF-8 become surrogates (``surrogateescape``).

    Args:
        data: As in `hash_keys`.
        offsets: As in `hash_keys`.
        rows: int64, indices of keys, in any order.

    Raises:
        IndexError: A row is negative, or not less than the number of keys.
        ValueError: Offsets descend or are outside ``data``.
    """

def number_texts(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], most: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
    """Number the distinct texts of many, in the order in which they first appear.

    Args:
        data: uint8, the bytes of all texts.
        offsets: int64[texts + 1]: text i is ``data[offsets[i]:offsets[i + 1]]``.
        most: The most distinct texts to number.

    Returns:
        ``numbers`` (uint32[texts]) and ``rows`` (int64[distinct], the first text of each number); None if there are
        more than ``most``.

    Raises:
        ValueError: Offsets descend or are outside ``data``.
    """

def image_header(data: _Bytes) -> bytes:
    """Return the header of an image as the bytes of a row of `image_headers`."""

def image_headers(file: MappedFile, offset: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int32]:
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
        """End of the last member, with padding; ``start`` if there are no members."""
    @property
    def zero_blocks(self) -> int:
        """Number of zero blocks at the end: 2 in a complete archive, 1 or 0 in a truncated one."""
    @property
    def terminated(self) -> bool:
        """Whether the archive ends with two zero blocks."""
    @property
    def trailing_bytes(self) -> int:
        """Bytes from the first non-zero byte after the end marker to the end of the file; 0 if there is none."""
    @property
    def problem(self) -> str | None:
        """The problem that ended the scan, or None. The members before it are complete."""
    @property
    def problem_offset(self) -> int:
        """Offset of the damaged block, or -1. To scan the rest, pass a later multiple of 512 as ``start``."""
    def __len__(self) -> int:
        """Number of members."""

class TarScanner:
    """The scan of `scan_tar` for an archive whose bytes the caller fetches.

    ::

        scanner = TarScanner(size)
        while (window := scanner.next_window()) is not None:
            scanner.feed(fetch(*window))
        members = scanner.finish()

    Args:
        size: Size of the archive in bytes.
        start: Offset of a header, a multiple of 512.
        min_window: Minimum size of a window in bytes, as far as the file has them. For object stores, use as many bytes
            as are transferred in the time of a request (1 MiB).

    Raises:
        ValueError: ``start`` is not a multiple of 512, or not inside the archive.
    """

    def __init__(self, size: int, start: int = 0, min_window: int = 0) -> None: ...
    def next_window(self) -> tuple[int, int] | None:
        """Return offset and length of the bytes to feed next, or None if the scan is over."""
    def feed(self, data: _Bytes) -> None:
        """Scan the bytes of the window.

        Raises:
            ValueError: ``data`` is too short, or the scan is over.
        """
    def finish(self) -> TarMembers:
        """Return the members. It can be called once.

        Raises:
            ValueError: The scan is not over, or `finish` was called before.
        """

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
        """End of the last complete record, with padding; ``start`` if there are none."""
    @property
    def problem(self) -> str | None:
        """The problem that ended the scan, or None. The records before it are complete."""
    @property
    def problem_offset(self) -> int:
        """Offset of the damaged or missing part header, or -1."""
    def __len__(self) -> int:
        """Number of records."""

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

def recordio_crc32(pieces: Sequence[_Bytes]) -> list[int] | None:
    """Return the CRC-32 of each piece of a payload, all of which go into one part as they are; None if they do not.

    They do if no piece has the magic word, aligned, and all but the last have a multiple of 4 bytes. If only that is
    missing, `split_recordio` may still make one part.
    """

def split_recordio(payload: _Bytes) -> bytes:
    """Return the framed bytes of one record: its parts with their headers, padded to a multiple of 4.

    Raises:
        ValueError: The payload is longer than 2**29 - 1 bytes, the limit of the format.
    """

def jpeg_header(data: _Bytes) -> JpegHeader:
    """Parse the header of a JPEG. The bytes up to the first scan suffice.

    Raises:
        JpegError: There is no frame header before the first scan, or the header is malformed.
    """

def decode_jpeg(
    data: _Bytes,
    seek_table: _Bytes | NDArray[np.uint64] | None = None,
    *,
    orient: bool = False,
    tolerant: bool = False,
    fast: bool = False,
    grey: bool = False,
    libjpeg: bool = False,
    max_pixels: int = 89478485,
    refused: list[int] | None = None,
) -> NDArray[np.uint8]:
    """Decode a whole JPEG, with an accurate inverse DCT and smooth chroma upsampling.

    Bushel's own decoder decodes baseline images (grey or YCbCr; 4:4:4, 4:2:2 or 4:2:0), with the same result as
    libjpeg-turbo. libjpeg-turbo decodes all other images, damaged ones, and every image on x86 processors without AVX2.

    Args:
        data: The JPEG.
        seek_table: The result of `jpeg_seek_table`, with which decoding is faster, or None. One of another image is not
            used, and never leads to other pixels, or to reads outside the data.
        orient: Apply the Exif orientation.
        tolerant: Ignore libjpeg-turbo's warnings, such as a premature end. Missing parts are grey, or repeat the rows
            above.
        fast: Use libjpeg-turbo's fast inverse DCT and no smoothing of chroma, as simplejpeg does with ``fastdct`` and
            ``fastupsample``. Levels differ by a few.
        grey: Decode only the luma of a colour JPEG, which is faster.
        libjpeg: Decode with libjpeg-turbo in any case.
        max_pixels: Refuse larger images. The default is Pillow's limit.
        refused: A list to which 0 is appended if the seek table is not that of the image.

    Returns:
        uint8[height, width, 3] (RGB), or uint8[height, width] for a grey JPEG or with ``grey``. CMYK and YCCK are
        converted to RGB as in Pillow. Memory of deleted arrays, at most 64 MiB, is kept for the next ones.

    Raises:
        JpegError: The JPEG is damaged, larger than ``max_pixels``, or of a kind that libjpeg-turbo does not decode; or
            ``grey`` is set for a CMYK image.
    """

def decode_jpeg_box(
    data: _Bytes, seek_table: _Bytes | NDArray[np.uint64], box: tuple[int, int, int, int], *, max_pixels: int = 89478485
) -> NDArray[np.uint8] | None:
    """Decode a box of a JPEG with its seek table. Only the header and the bytes of `jpeg_seek_ranges` are read.

    Args:
        data: The JPEG. The bytes that are not read may have any value.
        seek_table: The result of `jpeg_seek_table`.
        box: Left, top, right and bottom, in pixels; right and bottom are exclusive.
        max_pixels: Refuse larger images. The default is Pillow's limit.

    Returns:
        uint8[height, width, 3] (RGB), or uint8[height, width] of a grey image. None if the table is not that of the
        image, or if the bytes are damaged.

    Raises:
        JpegError: As in `jpeg_header`; or the image is larger than ``max_pixels``.
        ValueError: The box is not inside the image.
    """

def decode_jpegs(
    datas: Sequence[_Bytes],
    geometry: NDArray[np.int32],
    out: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32],
    layout: Literal["HWC", "CHW"] = "HWC",
    table: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32] | None = None,
    *,
    reducing_gap: float | None = 2.0,
    orient: bool = False,
    tolerant: bool = False,
    libjpeg: bool = False,
    max_pixels: int = 89478485,
    seek_tables: Sequence[_Bytes | NDArray[np.uint64] | None] | None = None,
    refused: list[int] | None = None,
) -> list[tuple[int, str]]:
    """Decode, crop, resize and flip JPEGs into the images of a batch array.

    Only the pixels of the crop are decoded: rows above it are skipped, rows below it are not read, columns beside it
    are neither transformed nor converted. The crop has the pixels of the whole decoded image, byte for byte. Resizing
    is Pillow's antialiased bilinear filter, within one level (the same bits if Pillow resizes the axes in the same
    order).

    Args:
        datas: n JPEGs.
        geometry: int32[n, 10]. Each row holds the left, top, right and bottom of a box of the image, in pixels; the
            width and height that the box is resized to; the left and top of the part of the result that is written; and
            whether that part is flipped from left to right, and from top to bottom. Pixels outside the box are not
            used.
        out: The batch array, C-contiguous: [n, height, width, channels], or [n, channels, height, width] with layout
            ``"CHW"``. With 3 channels, grey images become RGB; with 1, all images must be grey.
        layout: Order of the dimensions of an image in ``out``.
        table: The value to write for each level and channel: an array [256, channels] with the dtype of ``out``. None
            (the default): write the levels; then ``out`` must be uint8.
        reducing_gap: Let the inverse DCT scale down by 2, 4 or 8 while both sides of the box stay at least this many
            times their size after resizing. None: never.
        orient: Apply the Exif orientation before everything else.
        tolerant: As in `decode_jpeg`. Data after the crop are never checked.
        libjpeg: As in `decode_jpeg`.
        max_pixels: As in `decode_jpeg`.
        seek_tables: The seek table of each JPEG, as in `decode_jpeg`; an empty one stands for none.
        refused: A list to which the index of each JPEG is appended whose seek table is that of another one.

    Returns:
        (index, message) of each JPEG that failed, ascending. Their images in ``out`` are unchanged.

    Raises:
        TypeError: An argument has another type, dtype or number of dimensions.
        ValueError: Shapes do not match, or an option is out of range.
    """

def resize(
    image: NDArray[np.uint8],
    geometry: NDArray[np.int32],
    out: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32],
    layout: Literal["HWC", "CHW"] = "HWC",
    table: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32] | None = None,
) -> None:
    """Crop, resize and flip a decoded image, as `decode_jpegs` does.

    Args:
        image: uint8[height, width, channels], C-contiguous, with 1 to 4 channels.
        geometry: int32[1, 10], as in `decode_jpegs`.
        out: As in `decode_jpegs`, with n = 1 and the channels of the image.
        layout: As in `decode_jpegs`.
        table: As in `decode_jpegs`.

    Raises:
        TypeError: An argument has another type, dtype or number of dimensions.
        ValueError: Shapes do not match, or the box is not inside the image.
    """

def encode_jpeg(
    image: NDArray[np.uint8], quality: int = 95, sampling: tuple[int, int] = (2, 2), *, fast: bool = False
) -> bytes:
    """Encode an image as a baseline JPEG.

    Quality and chroma subsampling have the same meaning as in Pillow, and the result decodes to the same pixels.

    Args:
        image: uint8[height, width] or uint8[height, width, 3], C-contiguous.
        quality: 1 to 100.
        sampling: Horizontal and vertical sampling factor of the luma, 1 or 2: (2, 2) is 4:2:0, (1, 1) is 4:4:4.
        fast: Use the fast DCT, which is simplejpeg's default.

    Raises:
        JpegError: libjpeg-turbo cannot encode the image: a side is 0, or more than 65500 pixels.
        TypeError: The array has another dtype or shape, or is not contiguous.
        ValueError: ``quality`` or ``sampling`` is out of range, or a side is more than 65535 pixels.
    """

def tile_jpeg(data: _Bytes, *, metadata: bool = False, max_pixels: int = 89478485) -> bytes:
    """Rewrite a JPEG, without loss, as a tiled one (docs/tiled-jpeg.md).

    The result is sequential, has one scan and Huffman tables of its own, and has a restart marker after every segment.
    The number of MCUs in a segment divides the number in a row: the segment is as near as possible to 64 pixels wide,
    between 32 and 128, or else it is the whole row.

    Args:
        data: Any JPEG that libjpeg-turbo reads, also a progressive or arithmetic-coded one.
        metadata: Keep Exif, colour profile, comments and other application segments. Otherwise only the orientation is
            kept.
        max_pixels: As in `decode_jpeg`.

    Raises:
        JpegError: As in `decode_jpeg`.
    """

def is_tiled_jpeg(data: _Bytes) -> bool:
    """Return whether a JPEG is tiled as `tile_jpeg` would do it.

    Raises:
        JpegError: As in `jpeg_header`.
    """

def jpeg_seek_table(data: _Bytes, pixels: int = 64) -> NDArray[np.uint64]:
    """Return states of the entropy decoder at regular places of a plain JPEG (docs/seek-tables.md).

    The data are decoded once, without the inverse DCT.

    Args:
        data: The JPEG.
        pixels: Distance of two states in a row of MCUs. It is larger where the table would take more than 1 % of the
            image's bytes.

    Returns:
        uint64[words]. Empty if Bushel's own decoder does not read the image, if it has restart markers, is damaged, has
        too few bytes for a state or more than 32 MiB, or if the processor has neither AVX2 nor NEON.

    Raises:
        JpegError: As in `jpeg_header`.
    """

def jpeg_seek_ranges(
    head: _Bytes, size: int, seek_table: _Bytes | NDArray[np.uint64], box: tuple[int, int, int, int]
) -> list[tuple[int, int]] | None:
    """Return the bytes that decoding a box from the states of a seek table reads. The header suffices.

    Args:
        head: The JPEG, or the bytes before its entropy-coded data.
        size: Size of the JPEG in bytes.
        seek_table: The result of `jpeg_seek_table`.
        box: Left, top, right and bottom, in pixels; right and bottom are exclusive.

    Returns:
        Ranges (offset, length), ascending and not adjacent. None if the table is not that of the image.

    Raises:
        JpegError: As in `jpeg_header`.
        ValueError: The box is not inside the image.
    """

def jpeg_segment_offsets(data: _Bytes) -> NDArray[np.int64]:
    """Return the offset of each segment of a tiled JPEG, row by row of MCUs.

    Returns:
        int64[segments + 1]. A segment ends two bytes (its restart marker) before the next one; the last element is the
        offset that another segment would have. Empty if restart markers do not divide every row of MCUs into equal
        segments, or if some are missing.

    Raises:
        JpegError: As in `jpeg_header`.
    """

def jpeg_segment_window(head: _Bytes, box: tuple[int, int, int, int]) -> tuple[int, int, int, int, int] | None:
    """Return which segments of a tiled JPEG a box touches, or upsampling needs. The header suffices.

    Args:
        head: The JPEG, or the bytes before its first segment.
        box: Left, top, right and bottom, in pixels; right and bottom are exclusive.

    Returns:
        The first and last segment of each row, the first and last row of MCUs (the last ones are exclusive), and the
        number of segments in a row. None if the image is not tiled, or if all segments are needed.

    Raises:
        JpegError: As in `jpeg_header`.
        ValueError: The box is not inside the image.
    """

def splice_jpeg(
    data: _Bytes, box: tuple[int, int, int, int], segments: NDArray[np.int64] | None = None
) -> tuple[bytes, int, int] | None:
    """Return a smaller JPEG with the segments of a tiled one that a box touches, for any decoder.

    If chroma is subsampled, it shows one more MCU on each side, so that the pixels of the box are those of the whole
    image.

    Args:
        data: The JPEG. With ``segments``, only its header and the segments of `jpeg_segment_window` are read.
        box: Left, top, right and bottom, in pixels; right and bottom are exclusive.
        segments: The result of `jpeg_segment_offsets`. None (the default): search for the segments.

    Returns:
        The JPEG, without metadata, and the column and row of the image at which it begins. None if the image is not
        tiled, or if all segments are needed.

    Raises:
        JpegError: As in `jpeg_header`.
        ValueError: The box is not inside the image, or ``segments`` do not belong to this JPEG.
    """

def jpeg_coefficients(data: _Bytes, *, max_pixels: int = 89478485) -> list[NDArray[np.int16]]:
    """Return the quantised DCT coefficients of each component.

    Returns:
        int16[rows, columns, 64] for each component: rows and columns of blocks, coefficients in natural order.

    Raises:
        JpegError: As in `decode_jpeg`.
    """

def crc32_rows(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Compute the CRC-32 of many values in one buffer.

    Args:
        data: uint8[total].
        offsets: int64[n + 1]; value i is ``data[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: The offsets do not ascend, or are outside ``data``. So do the functions below.
    """

def frame_recordio(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Make a RecordIO record of each value, with its padding.

    Returns:
        The records (uint8[total]), the end of each one (int64[n]), and whether each value contains the magic word, so
        that its record consists of several parts (uint8[n], 0 or 1).

    Raises:
        ValueError: A value has 512 MiB or more.
    """

def frame_idx(
    keys: tuple[NDArray[np.uint8], NDArray[np.int64]] | None, first: int, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Make the lines of an ``.idx``, ``key TAB offset LF``, of records at ``offsets`` (int64[n]).

    Args:
        keys: Text and offsets of the keys; None for the numbers from ``first`` on.
        first: The first of these numbers.
        offsets: int64[n].

    Returns:
        The lines (uint8[total]), and the end of each one (int64[n]).
    """

def frame_tar(
    header: Buffer,
    keys: NDArray[np.uint8],
    key_offsets: NDArray[np.int64],
    suffixes: Sequence[bytes],
    columns: Sequence[tuple[NDArray[np.uint8], NDArray[np.int64]]],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Make the members of samples: for each, in the order of ``columns``, a header, the value, and padding.

    Args:
        header: 512 bytes, the header of a member. Name, size and checksum in it are replaced.
        keys: Text of the keys.
        key_offsets: int64[n + 1].
        suffixes: What follows the key in the names of each column.
        columns: Data and offsets of each column.

    Returns:
        The members (uint8[total]), the end of each sample (int64[n]), and where each value starts (int64[n × columns]).

    Raises:
        ValueError: A name has more than 100 bytes, or a value 8 GiB or more.
    """

class SampleBuffer:
    """Collects small samples, so that they can be written together.

    Args:
        fields: Name of each field, and the function that encodes its values to bytes. Bytes-like values are stored as
            they are.
        key_name: The entry of a sample with its key, which is used if `add` is given none.
        keyed: Whether samples have keys.
        numbered: Whether samples without a key get their position as one, in nine digits.
        longest_key: Bytes of the longest key.
        refused_start: Values that start with these bytes are refused; empty for none.
    """

    def __init__(
        self,
        fields: Sequence[tuple[str, Callable[[Any], Buffer]]],
        key_name: str,
        keyed: bool,
        numbered: bool,
        longest_key: int,
        refused_start: bytes,
    ) -> None: ...
    @property
    def count(self) -> int:
        """Number of samples collected."""

    def restart(self, samples: int, bytes: int, seconds: float) -> None:
        """Drop all samples, and take new ones.

        Args:
            samples: Number of samples to take at most.
            bytes: Number of bytes that the samples may have in any container before the buffer is full. The last one
                may exceed it.
            seconds: Time after which the next sample fills the buffer.
        """

    def add(self, sample: object, key: object, position: int, known: set[str] | None) -> int:
        """Encode and add one sample. If that fails, nothing of it is added.

        Args:
            sample: Field to value.
            key: Its key, or None.
            position: The number that it gets as its key if it has none.
            known: Keys of other samples, to which its key is added. Must be given if samples have keys.

        Returns:
            1 if the sample was added; 2 if it was added and fills the buffer; 0 if it was not added: the buffer is
            full, or the sample is not a dict with exactly these fields, or a value is None, or its stored values have
            more than 32 KiB or start with `refused_start`, or its key is missing, known, too long, or does not consist
            of ASCII letters, digits, ``-`` and, not first, ``_``.

        Raises:
            Exception: That of the function that encodes a value.
        """

    def drop_last(self) -> str | None:
        """Remove the last sample, and return its key. It stays in `known`.

        Raises:
            ValueError: There is none.
        """

    def rows(
        self, first: int
    ) -> tuple[
        tuple[NDArray[np.uint8], NDArray[np.int64]] | None, dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]
    ]:
        """Return the samples from number `first` on, as arrays that later calls do not change.

        Returns:
            Text and offsets of their keys, or None; and by field, bytes and offsets of their values.

        Raises:
            IndexError: There are fewer samples.
        """
