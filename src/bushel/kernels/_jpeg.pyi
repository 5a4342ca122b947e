"""Kernels for JPEG: headers, decoding, encoding, tiles and seek tables. `_kernels` documents their rules."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

class JpegError(ValueError):
    """A JPEG cannot be parsed, decoded or encoded. The message describes the error; it begins with "it"."""

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

def jpeg_header(data: _Bytes) -> JpegHeader:
    """Parse the header of a JPEG. The bytes up to the first scan suffice.

    Raises:
        JpegError: The frame header is missing before the first scan, or malformed.
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

    Bushel's own decoder decodes baseline and progressive images (grey or YCbCr; 4:4:4, 4:2:2 or 4:2:0), with the same
    result as libjpeg-turbo. That decodes all other images, damaged ones, and every image on x86 processors without
    AVX2.

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
        refused: A list to which 0 is appended if the seek table does not belong to the image.

    Returns:
        uint8[height, width, 3] (RGB), or uint8[height, width] for a grey JPEG or with ``grey``. CMYK and YCCK are
        converted to RGB as in Pillow. Memory of deleted arrays, at most 64 MiB, is kept for the next ones.

    Raises:
        JpegError: The JPEG is damaged, larger than ``max_pixels``, or of a kind that libjpeg-turbo does not decode; or
            ``grey`` is set for a CMYK image.
    """

def decode_jpeg_box(
    data: _Bytes,
    seek_table: _Bytes | NDArray[np.uint64],
    box: tuple[int, int, int, int],
    *,
    max_pixels: int = 89478485,
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
        refused: A list to which the index of each JPEG is appended whose seek table belongs to another one.

    Returns:
        (index, message) of each JPEG that failed, ascending. Their images in ``out`` are unchanged.

    Raises:
        TypeError: An argument has another type, dtype or number of dimensions.
        ValueError: Shapes do not match, or an option is out of range.
    """

def draw_crops(
    datas: Sequence[_Bytes],
    steps: Sequence[tuple[str | float, ...]],
    seed: int,
    epoch: int,
    samples: NDArray[np.int64],
    drawn: NDArray[np.int64],
    *,
    orient: bool = False,
) -> tuple[NDArray[np.int32], list[int]]:
    """Draw the crops, flips and sizes of JPEGs, from the random numbers of their samples (docs/order.md).

    Args:
        datas: n JPEGs; their headers suffice.
        steps: The transforms, in order, as `bushel.transforms.fused` gives them: ("resize", height, width),
            ("resize_shorter", edge), ("center_crop", height, width), ("random_crop", height, width),
            ("random_resized_crop", height, width, least scale, most scale, least ratio, most ratio, and the
            logarithms of the ratios), ("flip_x", probability), ("flip_y", probability).
        seed: The first word of the key, 0 to 2**64 - 1.
        epoch: The second word of the key.
        samples: int64[n], the number of each sample.
        drawn: int64[n], how many random numbers have been drawn from each sample; increased by those drawn now. -1 to
            leave out the image.
        orient: Take the size after the rotation by the Exif orientation.

    Returns:
        int32[n, 10], as `decode_jpegs` takes it; and the numbers of the images that are left to the caller, whose rows
        are 0: images that are not JPEGs or have no valid header, crops that do not fit, and second resizings.

    Raises:
        TypeError: An argument has another type, dtype or shape.
        ValueError: A step is unknown, or lengths differ.
    """

def encode_jpeg(
    image: NDArray[np.uint8],
    quality: int = 95,
    sampling: tuple[int, int] = (2, 2),
    *,
    fast: bool = False,
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

def baseline_jpeg(data: _Bytes, *, max_pixels: int = 89478485) -> bytes | None:
    """Rewrite a progressive or arithmetic-coded JPEG, without loss, as one with a single Huffman-coded scan.

    Metadata are kept. The Huffman tables are its own.

    Args:
        data: Any JPEG that libjpeg-turbo reads.
        max_pixels: As in `decode_jpeg`.

    Returns:
        The JPEG; None if it has such a scan already.

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
        Ranges (offset, length), ascending and not adjacent. None if the table does not belong to the image.

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

def jpeg_segment_window(
    head: _Bytes, box: tuple[int, int, int, int]
) -> tuple[int, int, int, int, int] | None:
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

    If chroma is subsampled, it shows one more MCU on each side, so that the pixels of the box equal the same
    pixels of the whole image.

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
