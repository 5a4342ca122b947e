"""The compiled hot loops of Bushel (C++17).

Array arguments are contiguous, one-dimensional and of exactly the dtype named here (read-only ones too, such as the
arrays of a memory-mapped index); anything else is a `TypeError`, never a silent copy. Whatever works on more than some
64 KiB releases the GIL. All functions may be called from several threads at once and after a fork.

An extent is (file, offset, length): ``file`` a position in the list ``files``, or one int when all rows lie in the same
file, ``offset`` and ``length`` in bytes. Only the elements of ``files`` that rows refer to are looked at. ``length`` -1
marks a missing
field: nothing is read, and its file and offset are ignored.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares no __buffer__ before Python 3.12

class ExtentError(ValueError):
    """An extent that cannot be read as asked.

    Attributes:
        row: The position of the extent among the arguments.
        reason: ``"beyond"``: it is not inside its file (or negative). ``"checksum"``: the bytes have another CRC-32.
            ``"shrunk"``: the file became smaller since it was opened.
        expected: beyond: where the extent ends (offset + length). checksum: the CRC-32 given. shrunk: the size at
            opening.
        found: beyond: the size of the file. checksum: the CRC-32 of the bytes. shrunk: the size now.
    """

    row: int
    reason: Literal["beyond", "checksum", "shrunk"]
    expected: int
    found: int

class JpegError(ValueError):
    """Bytes that are no JPEG, or one that cannot be decoded as asked; the message says what is wrong with "it"."""

class JpegHeader(NamedTuple):
    """The result of `jpeg_header`.

    Attributes:
        width: Pixels of the stored image.
        height: Pixels of the stored image.
        components: 1 (grey), 3 (colour) or 4 (CMYK).
        orientation: Exif orientation, 1 to 8; 1 if it is not recorded.
    """

    width: int
    height: int
    components: int
    orientation: int

class MappedFile:
    """A read-only local file, mapped into memory, whose pages are only touched when they are known to be there.

    It remembers (one bit per 4 KiB) which pages it has read. A batch that lies on such pages is copied from the map
    without a system call per record. Other pages are first asked for without waiting; those that are not in memory are
    announced to the system for the whole batch at once (``posix_fadvise``) and then read. When pages have left memory
    meanwhile, which shows in the thread's count of major faults, it starts to learn anew.

    A file that grows is read up to its size at opening; one that shrinks is an `ExtentError` at the next batch. (Each
    batch asks for the sizes first: only a file that is cut between that and the copy still kills the process.)

    Args:
        path: The file. Empty files are allowed.

    Raises:
        OSError: It cannot be opened (`FileNotFoundError`, `IsADirectoryError`, …) or is no regular file.
    """

    def __init__(self, path: str | bytes | PathLike[str]) -> None: ...
    @property
    def path(self) -> str:
        """The path it was opened by."""
    @property
    def size(self) -> int:
        """Bytes, at opening."""
    @property
    def mtime_ns(self) -> int:
        """Time of the last change in nanoseconds, at opening."""
    def read(self, offset: int, length: int) -> bytes:
        """One extent.

        Raises:
            ExtentError: It is not inside the file, or the file has shrunk.
            ValueError: ``length`` is negative.
        """
    def check(self) -> None:
        """Raises `ExtentError` ("shrunk") when the file is smaller than at opening."""

def read_many(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> list[bytes | None]:
    """Reads many extents at once; None for a missing one.

    Args:
        files: The files that ``file`` counts.
        file: Per row the position in ``files``; or one int for all.
        offset: Per row, bytes.
        length: Per row, bytes, or -1.
        crc32: Per row, the CRC-32 that the bytes must have; None: not checked.

    Raises:
        ExtentError: The first row that cannot be read. All rows are checked against the sizes of their files before
            anything is allocated or read.
        OSError: The system could not read a file.
        ValueError: A file number out of range, or arrays of different lengths.
        TypeError: An array of another dtype or shape.
    """

def gather(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """As `read_many`, but into one buffer.

    Returns:
        ``data`` (uint8, the sum of the lengths) and ``offsets`` (int64, rows + 1): row i is
        ``data[offsets[i]:offsets[i + 1]]``, empty for a missing one.
    """

def gather_into(
    files: Sequence[MappedFile],
    file: NDArray[np.int32] | int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    crc32: NDArray[np.uint32] | None,
    out: NDArray[np.uint8],
) -> NDArray[np.int64]:
    """As `gather`, into an array of the caller's.

    After an `ExtentError` of reason "checksum" or "shrunk", and after an `OSError`, what ``out`` holds is undefined.

    Returns:
        ``offsets`` (int64, rows + 1).

    Raises:
        ValueError: ``out`` is too small.
    """

def map_array(path: str | PathLike[str]) -> NDArray[np.uint8]:
    """Maps a whole local file as a read-only array, without keeping it open.

    Its pages are asked for at once, in the background. For files that are replaced as a whole and never cut, such as
    sidecars: touching a page that is no longer there kills the process.

    Returns:
        uint8[size of the file].

    Raises:
        OSError: The file cannot be opened or mapped.
    """

def prefetch(
    files: Sequence[MappedFile], file: NDArray[np.int32] | int, offset: NDArray[np.int64], length: NDArray[np.int64]
) -> None:
    """Starts reading the extents of a future batch in the background, and returns at once.

    Raises:
        ExtentError: As `read_many`.
    """

def crc32_many(
    files: Sequence[MappedFile], file: NDArray[np.int32] | int, offset: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The CRC-32 of each extent (uint32, rows), 0 for a missing one.

    Reads in pieces of 256 KiB, whatever the lengths, and in the order of the rows: fastest in the order of the file.

    Raises:
        ExtentError: As `read_many`.
    """

def crc32(data: _Bytes, value: int = 0) -> int:
    """CRC-32 as `zlib.crc32`: the same polynomial, the same continuation from ``value``, many times the speed."""

def hash_keys(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A fixed 64-bit hash of each key (uint64, keys): part of the index format.

    FNV-1a, 64 bit, then the finaliser of splitmix64; all arithmetic modulo 2**64::

        h = 0xCBF29CE484222325
        for byte in key: h = (h ^ byte) * 0x100000001B3
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9
        h = (h ^ h >> 27) * 0x94D049BB133111EB
        h = h ^ h >> 31

    Args:
        data: The bytes of all keys.
        offsets: int64, keys + 1: key i is ``data[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: Offsets that descend or leave ``data``.
    """

def decode_keys(data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> list[str]:
    """The keys at ``rows``, decoded from UTF-8; bytes that are not UTF-8 become surrogates (``surrogateescape``).

    Raises:
        IndexError: A row that is negative or behind the last key.
        ValueError: Offsets that descend or leave ``data``.
    """

class TarMembers:
    """What a pass over a tar archive found: one row per member, in the order of the archive."""

    @property
    def names(self) -> NDArray[np.uint8]:
        """The bytes of all names, as stored: prefix joined, GNU and pax long names resolved, no NUL, usually UTF-8."""
    @property
    def name_offsets(self) -> NDArray[np.int64]:
        """int64, members + 1: name i is ``names[name_offsets[i]:name_offsets[i + 1]]``."""
    @property
    def offset(self) -> NDArray[np.int64]:
        """Where the data of each member begins."""
    @property
    def size(self) -> NDArray[np.int64]:
        """Bytes of data; 0 for links, directories, devices and pipes."""
    @property
    def header(self) -> NDArray[np.int64]:
        """Where the member begins: its first header block, that of its long name or pax records where it has them."""
    @property
    def type(self) -> NDArray[np.uint8]:
        """The type byte. 0, ``ord("0")`` and ``ord("7")`` are regular files.

        Changed from what the header says in two cases: an old header (type 0) whose name ends in a slash is a directory
        (``ord("5")``), and sparse files of the pax kind are given GNU's ``ord("S")``: the data of both kinds of sparse
        files is a packed form.
        """
    @property
    def end(self) -> int:
        """Where the last member ends, its padding included; ``start`` when there is none."""
    @property
    def zero_blocks(self) -> int:
        """Blocks of zeros at the end of the archive: 2 in a whole one, 1 or 0 where the end marker is cut."""
    @property
    def terminated(self) -> bool:
        """Whether the end marker of two zero blocks was found."""
    @property
    def trailing_bytes(self) -> int:
        """Bytes from the first that is not zero behind the end marker to the end of the file; 0: nothing but zeros."""
    @property
    def problem(self) -> str | None:
        """The fault that ended the scan, None when there is none. The members before it are whole."""
    @property
    def problem_offset(self) -> int:
        """Where the block at fault begins; -1 without a fault. Scan on from a later multiple of 512 with ``start``."""
    def __len__(self) -> int:
        """Members."""

class TarScanner:
    """The scan of `scan_tar` for bytes that come from elsewhere.

    ::

        scanner = TarScanner(size)
        while (window := scanner.next_window()) is not None:
            scanner.feed(fetch(*window))
        members = scanner.finish()

    Args:
        size: Of the archive in bytes.
        start: Where a header is expected; a multiple of 512.
        min_window: Ask for at least so many bytes at once, where the file has them: with object stores, whose
            requests take long, as much as is transferred in the time of a request (1 MiB).

    Raises:
        ValueError: ``start`` is no multiple of 512 or not inside.
    """

    def __init__(self, size: int, start: int = 0, min_window: int = 0) -> None: ...
    def next_window(self) -> tuple[int, int] | None:
        """Offset and length of the bytes to feed next; None when the scan is over."""
    def feed(self, data: _Bytes) -> None:
        """Takes the bytes of the window.

        Raises:
            ValueError: They are too few, or the scan is over.
        """
    def finish(self) -> TarMembers:
        """The members; once.

        Raises:
            ValueError: There is more to feed, or it was called before.
        """

def scan_tar(file: MappedFile | _Bytes, start: int = 0) -> TarMembers:
    """Reads the headers of a tar archive: ustar, pax, GNU, and the headers before them.

    Header by header where members are large, in windows of 256 KiB where they are small. A fault in the archive ends
    the scan and is in the result: a header with a wrong checksum or cut by the end of the file, data beyond the end of
    the file, a malformed pax record, a size that is none, a long name or pax block over 1 MiB. Memory is bounded by the
    size of the archive.

    Args:
        file: The archive, or its bytes.
        start: Where a header is expected; a multiple of 512.

    Raises:
        ExtentError: The file shrank while it was read.
        OSError: The system could not read the file.
        ValueError: ``start`` is no multiple of 512 or not inside.
    """

class RecordioRecords:
    """What a pass over a RecordIO file found: one row per record, in the order of the file."""

    @property
    def offset(self) -> NDArray[np.int64]:
        """Where the header of the record's first part begins (the offset in an ``.idx``)."""
    @property
    def span(self) -> NDArray[np.int64]:
        """Bytes from the first of the payload, at ``offset + 8``, to the last of the last part.

        With one part this is the payload. With more, bytes ``offset`` to ``offset + 8 + span`` go through
        `join_recordio`.
        """
    @property
    def parts(self) -> NDArray[np.int32]:
        """Parts of the record: 1, or one more than the aligned magic words in its payload."""
    @property
    def end(self) -> int:
        """Where the last whole record ends, its padding included; ``start`` when there is none."""
    @property
    def problem(self) -> str | None:
        """The fault that ended the scan, None when there is none. The records before it are whole."""
    @property
    def problem_offset(self) -> int:
        """Where the part header at fault begins or should begin; -1 without a fault."""
    def __len__(self) -> int:
        """Records."""

def scan_recordio(file: MappedFile | _Bytes, start: int = 0) -> RecordioRecords:
    """Reads the part headers of an MXNet (dmlc) RecordIO file.

    A fault ends the scan and is in the result: a wrong magic word, a cut header or part, parts in the wrong order.
    Missing padding behind the last record is accepted.

    Args:
        file: The file, or its bytes.
        start: Where a part header is expected; a multiple of 4.

    Raises:
        ExtentError: The file shrank while it was read.
        OSError: The system could not read the file.
        ValueError: ``start`` is no multiple of 4 or not inside.
    """

def join_recordio(raw: _Bytes) -> bytes:
    """The payload of one record from its framed bytes.

    Args:
        raw: From the first part's header to the end of the last part's payload.

    Raises:
        ValueError: ``raw`` is not exactly one record (padding behind it counts as too much).
    """

def contains_recordio_magic(payload: _Bytes) -> bool:
    """Whether an aligned word of a payload is the magic one, so that `split_recordio` would split it into parts."""

def split_recordio(payload: _Bytes) -> bytes:
    """The framed bytes of one record, ready to write: parts with their headers, and padding to a multiple of 4.

    Raises:
        ValueError: The payload is longer than 2**29 - 1 bytes, the limit of the format.
    """

def jpeg_header(data: _Bytes) -> JpegHeader:
    """Width, height, components and Exif orientation of a JPEG, from the bytes before its first scan.

    Width and height are those of the stored image: with an orientation of 5 to 8 the upright one has them exchanged.
    Components are 1 (grey), 3 (colour) or 4 (CMYK), as a rule; the orientation is 1 where none is recorded.

    Raises:
        JpegError: There is no frame header before the first scan, or it is malformed.
    """

def decode_jpeg(
    data: _Bytes,
    *,
    orient: bool = False,
    tolerant: bool = False,
    fast: bool = False,
    grey: bool = False,
    libjpeg: bool = False,
    max_pixels: int = 89478485,
) -> NDArray[np.uint8]:
    """Decodes a whole JPEG (accurate inverse DCT, smooth chroma upsampling).

    On x86 with AVX2, baseline images of the usual kind (grey or YCbCr; 4:4:4, 4:2:2 or 4:2:0) are decoded by Bushel's
    own decoder, to the same levels as libjpeg-turbo's; all others, and damaged ones, by libjpeg-turbo.

    Args:
        data: The JPEG.
        orient: Turn and mirror it as its Exif orientation says.
        tolerant: Let pass what libjpeg warns of, such as a premature end; what is missing is then grey, or repeats
            what is above it.
        fast: By libjpeg-turbo, with its fast inverse DCT and no smoothing of upsampled chroma, as simplejpeg does with
            ``fastdct`` and ``fastupsample``. Levels differ by a few.
        grey: Only the luma of a colour JPEG, without the work for its colours.
        libjpeg: Let libjpeg-turbo decode all images.
        max_pixels: Refuse larger images. The default is Pillow's limit.

    Returns:
        uint8, HxWx3 RGB, or HxW for a grey JPEG or with ``grey``. CMYK and YCCK become RGB as in Pillow.
        The memory of such arrays that are gone (64 MiB at most) is kept for the next ones.

    Raises:
        JpegError: The data is damaged, too large, or of a kind that libjpeg-turbo does not decode; or ``grey`` is asked
            of CMYK.
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
) -> list[tuple[int, str]]:
    """Decodes, crops, resizes and mirrors JPEGs, each into its slot of a batch array.

    Only what the crop needs is decoded: rows above it are skipped, those below it not read, columns beside it neither
    transformed nor converted. The pixels of the crop are those of a whole decoding, byte for byte. The resizing
    (bilinear, antialiased) is Pillow's, within one level: it is exact to the last bit with the same order of passes.

    Args:
        datas: The JPEGs.
        geometry: int32 of shape (n, 10), a row for each JPEG: left, top, right, bottom of a box of the image; width
            and height that the box is resized to; left and top of what the slot takes of the result; whether that is
            mirrored from left to right, and from top to bottom. Neither filter nor slot reach beyond the box.
        out: C-contiguous array of n slots, of shape (n, height, width, channels), or (n, channels, height, width) with
            layout ``"CHW"``. With 3 channels grey becomes RGB; with 1, every JPEG must be grey.
        layout: The order of the slots' dimensions.
        table: What to write for each level of each channel: shape (256, channels), dtype of ``out``. None: the levels
            themselves, as uint8.
        reducing_gap: Let the inverse DCT shrink by 2, 4 or 8 as long as both sides of the box stay at least so many
            times what they are resized to. None: never.
        orient: Turn and mirror as the Exif orientation says, before everything else.
        tolerant: As in `decode_jpeg`. The unread rest of a file is never an error.
        libjpeg: As in `decode_jpeg`.
        max_pixels: As in `decode_jpeg`.

    Returns:
        (row, what is wrong) for each JPEG that failed, ascending; their slots are as they were.

    Raises:
        TypeError: Arguments of another kind.
        ValueError: Shapes that do not fit each other.
    """

def resize(
    image: NDArray[np.uint8],
    geometry: NDArray[np.int32],
    out: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32],
    layout: Literal["HWC", "CHW"] = "HWC",
    table: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32] | None = None,
) -> None:
    """The last steps of `decode_jpegs` for an image that is decoded already.

    Args:
        image: uint8, C-contiguous, HxWxC with 1 to 4 channels.
        geometry: int32 of shape (1, 10), as in `decode_jpegs`.
        out: One slot, with its dimension for n = 1 and the channels of the image.
        layout: As in `decode_jpegs`.
        table: As in `decode_jpegs`.

    Raises:
        TypeError: Arguments of another kind.
        ValueError: Shapes that do not fit each other, a box that is not inside the image.
    """

def encode_jpeg(
    image: NDArray[np.uint8], quality: int = 95, sampling: tuple[int, int] = (2, 2), *, fast: bool = False
) -> bytes:
    """Encodes an image as a baseline JPEG, without holding the interpreter lock.

    Quality and chroma subsampling mean what they mean in Pillow, whose files decode to the same pixels.

    Args:
        image: uint8[height, width] or uint8[height, width, 3], C-contiguous.
        quality: 1 to 100.
        sampling: How many pixels across and down share their colour: (2, 2) is 4:2:0, (1, 1) is 4:4:4.
        fast: The fast DCT, as simplejpeg encodes by default.

    Raises:
        JpegError: libjpeg-turbo cannot write it: more than 65500 pixels in a direction.
        TypeError: The array is of another dtype or shape, or not contiguous.
        ValueError: Quality or sampling is out of range.
    """

def tile_jpeg(data: _Bytes, *, metadata: bool = False, max_pixels: int = 89478485) -> bytes:
    """Writes a JPEG anew, without loss, as a tiled one (docs/tiled-jpeg.md).

    The result is sequential, in one scan, with Huffman tables of its own, and has a restart marker behind every segment
    of MCUs: as many as divide a row of them and are nearest to 64 pixels, between 32 and 128, or else the whole row.

    Args:
        data: Any JPEG that libjpeg-turbo reads, progressive and arithmetic-coded ones too.
        metadata: Whether Exif, colour profile, comments and other application segments come along. Without them an
            orientation still does.
        max_pixels: As in `decode_jpeg`.

    Raises:
        JpegError: As in `decode_jpeg`.
    """

def is_tiled_jpeg(data: _Bytes) -> bool:
    """Whether a JPEG is tiled as `tile_jpeg` would do it.

    Raises:
        JpegError: As in `jpeg_header`.
    """

def jpeg_segment_offsets(data: _Bytes) -> NDArray[np.int64]:
    """Where the segments of a tiled JPEG begin, row by row of MCUs.

    Returns:
        One element more than there are segments: each segment ends two bytes, its restart marker, before the next one
        begins; the last element is where another one would. Empty when restart markers do not cut every row equally,
        or some are missing.

    Raises:
        JpegError: As in `jpeg_header`.
    """

def jpeg_segment_window(head: _Bytes, box: tuple[int, int, int, int]) -> tuple[int, int, int, int, int] | None:
    """Which segments of a tiled JPEG a box touches, or upsampling needs, from its header alone.

    Args:
        head: The JPEG, or as much of it as stands before the first segment.
        box: Left, top, right, bottom, in pixels.

    Returns:
        The first segment of each row of MCUs and the one behind the last, the first row and the one behind the last,
        and the number of segments in a row. None when the image is not tiled, or is needed as a whole.

    Raises:
        JpegError: As in `jpeg_header`.
        ValueError: The box is not inside the image.
    """

def splice_jpeg(
    data: _Bytes, box: tuple[int, int, int, int], segments: NDArray[np.int64] | None = None
) -> tuple[bytes, int, int] | None:
    """A smaller JPEG of the segments of a tiled one that a box touches, of which any decoder makes its crop.

    Where chroma is subsampled it shows an MCU more on each side, so that the pixels of the box are those of the image.

    Args:
        data: The JPEG. With ``segments``, only its header and the segments of `jpeg_segment_window` are looked at.
        box: Left, top, right, bottom, in pixels.
        segments: What `jpeg_segment_offsets` returned for it; None: they are searched.

    Returns:
        The JPEG, without metadata, and the column and row of the image at which it begins. None when the image is not
        tiled, or is needed as a whole.

    Raises:
        JpegError: As in `jpeg_header`.
        ValueError: The box is not inside the image, or ``segments`` are not those of such a JPEG.
    """

def jpeg_coefficients(data: _Bytes, *, max_pixels: int = 89478485) -> list[NDArray[np.int16]]:
    """The quantised DCT coefficients of each component: shape (rows, columns, 64) in blocks, natural order.

    Raises:
        JpegError: As in `decode_jpeg`.
    """
