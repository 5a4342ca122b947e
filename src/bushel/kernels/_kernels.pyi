"""Documentation of the compiled kernels (C++17).

Array arguments must be C-contiguous and of exactly the documented dtype and shape; read-only arrays are accepted as
input. Anything else raises `TypeError`; arguments are never copied silently. Functions release the GIL while they work
on more than about 64 KiB. All of them may be called from several threads at once, and after a fork.

An extent is (file, offset, length). ``file`` is an index into the list ``files``, or one int if all rows are in the
same file; ``offset`` and ``length`` are in bytes. A length of -1 marks a missing field: nothing is read, and its file
and offset are ignored. Only those elements of ``files`` that rows refer to are used.

There is a stub for each subject, and this one for the compiled module, which has all of their names.
"""

from bushel.kernels._checksums import (
    crc32 as crc32,
)
from bushel.kernels._checksums import (
    crc32_many as crc32_many,
)
from bushel.kernels._checksums import (
    crc32_pieces as crc32_pieces,
)
from bushel.kernels._checksums import (
    crc32_rows as crc32_rows,
)
from bushel.kernels._checksums import (
    join_crc32 as join_crc32,
)
from bushel.kernels._files import (
    ExtentError as ExtentError,
)
from bushel.kernels._files import (
    MappedFile as MappedFile,
)
from bushel.kernels._files import (
    RangeValues as RangeValues,
)
from bushel.kernels._files import (
    cold_reads as cold_reads,
)
from bushel.kernels._files import (
    first_outside as first_outside,
)
from bushel.kernels._files import (
    gather as gather,
)
from bushel.kernels._files import (
    gather_into as gather_into,
)
from bushel.kernels._files import (
    gather_pieces as gather_pieces,
)
from bushel.kernels._files import (
    map_array as map_array,
)
from bushel.kernels._files import (
    prefetch as prefetch,
)
from bushel.kernels._files import (
    read_files as read_files,
)
from bushel.kernels._files import (
    read_many as read_many,
)
from bushel.kernels._files import (
    read_pieces as read_pieces,
)
from bushel.kernels._files import (
    read_samples as read_samples,
)
from bushel.kernels._files import (
    read_small_files as read_small_files,
)
from bushel.kernels._framing import (
    KeySet as KeySet,
)
from bushel.kernels._framing import (
    SampleBuffer as SampleBuffer,
)
from bushel.kernels._framing import (
    bytes_offsets as bytes_offsets,
)
from bushel.kernels._framing import (
    contain_magic as contain_magic,
)
from bushel.kernels._framing import (
    frame_idx as frame_idx,
)
from bushel.kernels._framing import (
    frame_recordio as frame_recordio,
)
from bushel.kernels._framing import (
    frame_tar as frame_tar,
)
from bushel.kernels._framing import (
    join_bytes as join_bytes,
)
from bushel.kernels._framing import (
    recordio_crc32 as recordio_crc32,
)
from bushel.kernels._framing import (
    split_recordio as split_recordio,
)
from bushel.kernels._jpeg import (
    JpegError as JpegError,
)
from bushel.kernels._jpeg import (
    JpegHeader as JpegHeader,
)
from bushel.kernels._jpeg import (
    baseline_jpeg as baseline_jpeg,
)
from bushel.kernels._jpeg import (
    decode_jpeg as decode_jpeg,
)
from bushel.kernels._jpeg import (
    decode_jpeg_box as decode_jpeg_box,
)
from bushel.kernels._jpeg import (
    decode_jpegs as decode_jpegs,
)
from bushel.kernels._jpeg import (
    draw_crops as draw_crops,
)
from bushel.kernels._jpeg import (
    encode_jpeg as encode_jpeg,
)
from bushel.kernels._jpeg import (
    is_tiled_jpeg as is_tiled_jpeg,
)
from bushel.kernels._jpeg import (
    jpeg_coefficients as jpeg_coefficients,
)
from bushel.kernels._jpeg import (
    jpeg_header as jpeg_header,
)
from bushel.kernels._jpeg import (
    jpeg_seek_ranges as jpeg_seek_ranges,
)
from bushel.kernels._jpeg import (
    jpeg_seek_table as jpeg_seek_table,
)
from bushel.kernels._jpeg import (
    jpeg_segment_offsets as jpeg_segment_offsets,
)
from bushel.kernels._jpeg import (
    jpeg_segment_window as jpeg_segment_window,
)
from bushel.kernels._jpeg import (
    splice_jpeg as splice_jpeg,
)
from bushel.kernels._jpeg import (
    tile_jpeg as tile_jpeg,
)
from bushel.kernels._keys import (
    decimal_texts as decimal_texts,
)
from bushel.kernels._keys import (
    decode_keys as decode_keys,
)
from bushel.kernels._keys import (
    hash_keys as hash_keys,
)
from bushel.kernels._keys import (
    number_texts as number_texts,
)
from bushel.kernels._keys import (
    sort_keys as sort_keys,
)
from bushel.kernels._lines import (
    LineBlocks as LineBlocks,
)
from bushel.kernels._lines import (
    LineColumn as LineColumn,
)
from bushel.kernels._lines import (
    LineScanner as LineScanner,
)
from bushel.kernels._lines import (
    csv_record as csv_record,
)
from bushel.kernels._numbers import (
    NumberForms as NumberForms,
)
from bushel.kernels._numbers import (
    NumberTable as NumberTable,
)
from bushel.kernels._numbers import (
    decode_numbers as decode_numbers,
)
from bushel.kernels._order import (
    count_rows as count_rows,
)
from bushel.kernels._order import (
    draw_by_weight as draw_by_weight,
)
from bushel.kernels._order import (
    draw_samples as draw_samples,
)
from bushel.kernels._order import (
    even_draws as even_draws,
)
from bushel.kernels._order import (
    guide_sums as guide_sums,
)
from bushel.kernels._order import (
    look_up as look_up,
)
from bushel.kernels._order import (
    mixed_draws as mixed_draws,
)
from bushel.kernels._order import (
    pack_rows as pack_rows,
)
from bushel.kernels._order import (
    permute as permute,
)
from bushel.kernels._order import (
    shuffle_mt19937 as shuffle_mt19937,
)
from bushel.kernels._order import (
    window_sums as window_sums,
)
from bushel.kernels._parquet import (
    decode_deltas as decode_deltas,
)
from bushel.kernels._parquet import (
    join_prefixed as join_prefixed,
)
from bushel.kernels._parquet import (
    present_elements as present_elements,
)
from bushel.kernels._parquet import (
    present_values as present_values,
)
from bushel.kernels._parquet import (
    read_hybrid as read_hybrid,
)
from bushel.kernels._parquet import (
    scan_byte_arrays as scan_byte_arrays,
)
from bushel.kernels._png import (
    colour_png as colour_png,
)
from bushel.kernels._png import (
    unfilter_png as unfilter_png,
)
from bushel.kernels._resize import (
    resize as resize,
)
from bushel.kernels._scans import (
    Inflater as Inflater,
)
from bushel.kernels._scans import (
    RecordioRecords as RecordioRecords,
)
from bushel.kernels._scans import (
    RiegeliChunks as RiegeliChunks,
)
from bushel.kernels._scans import (
    SampleNames as SampleNames,
)
from bushel.kernels._scans import (
    TarMembers as TarMembers,
)
from bushel.kernels._scans import (
    TarScanner as TarScanner,
)
from bushel.kernels._scans import (
    image_header as image_header,
)
from bushel.kernels._scans import (
    image_headers as image_headers,
)
from bushel.kernels._scans import (
    join_recordio as join_recordio,
)
from bushel.kernels._scans import (
    mp3_frames as mp3_frames,
)
from bushel.kernels._scans import (
    scan_recordio as scan_recordio,
)
from bushel.kernels._scans import (
    scan_riegeli as scan_riegeli,
)
from bushel.kernels._scans import (
    scan_snappy as scan_snappy,
)
from bushel.kernels._scans import (
    scan_tar as scan_tar,
)
from bushel.kernels._tfrecord import (
    ExampleScanner as ExampleScanner,
)
from bushel.kernels._tfrecord import (
    TfrecordScanner as TfrecordScanner,
)
from bushel.kernels._tfrecord import (
    crc32c as crc32c,
)
from bushel.kernels._tfrecord import (
    decode_varints as decode_varints,
)
from bushel.kernels._video import (
    yuv420_to_rgb as yuv420_to_rgb,
)
from bushel.kernels._zip import (
    MemberGroups as MemberGroups,
)
from bushel.kernels._zip import (
    ZipScanner as ZipScanner,
)
from bushel.kernels._zip import (
    zip_data as zip_data,
)
