"""The differences between originals and drop-ins that are accepted, each with the words of the page that give the reason.

`DOCUMENTED` has them by the names of the originals. ``tests/interop/test_calls.py`` looks for the words on the pages.
"""

# ruff: noqa: E501 the words of a page are easier to find in one line
from __future__ import annotations

from collections.abc import Mapping

from difference import GIVES, Documented
from documented_granular import BAGS, GRANULAR_B, GRANULAR_C

__all__ = ["DOCUMENTED"]

_FFRECORD = (
    Documented(
        "with too few records kills the process", call="FileWriter", original='"kills"', dropin="RuntimeError|TypeError"
    ),
    Documented("with too few records kills the process", call="FileWriter", original='"kills"', dropin=GIVES),
    Documented(
        "`PackedFolder` of a file without records kills", call="none.ffr", original='"kills"', dropin="ValueError"
    ),
    Documented("a negative index reads outside of the tables", call="-", original='"kills"', dropin="RecordIndexError"),
    Documented(
        "a killed or failed writer leaves a file", original=r'"raises".*"files": \{"', call="Writer|pack_folder"
    ),
    Documented("a `FileWriter` removes an old file of the same name at once", call=r"FileWriter.*exists\("),
    Documented("an array is stored as its first `shape[0]` bytes", call="np.arange", original=GIVES, dropin=GIVES),
    Documented("`get_offsets` and `get_checksums` of a file that is not there", call="get_(offsets|checksums)"),
    Documented('`exists("file/x")` is a `TypeError`', call="a.txt/b", original="TypeError"),
    Documented('`PackedFolder.read("a.txt")` is an', call=r"x.read\([^\[]", original='"AssertionError"', dropin=GIVES),
    Documented("`dump` to no files", call=r"dump\(.*(0|-1)\)|dump\(\[\]"),
    Documented("`dump` ignores a process that failed", call="dump", original=GIVES, dropin='"raises"'),
    Documented("a list may name folders", call="many", original="is not a file"),
    Documented("`list` returns files and folders in one order", call=r"x\.list\("),
    Documented("a wrong checksum is a `RuntimeError`", call="flip", original="RuntimeError"),
)

_GULPIO2 = (
    Documented("`gulp2_sanity_check` crashes on two of its three faults", call="gulp2_sanity_check"),
    Documented(
        "wrong use exits with 1, as docopt does",
        call="gulp2_image_(list|folder)",
        original=r'^(?!.*"printed": "\{).*"given": \[1\]',
        dropin=r'"given": \[2\]',
    ),
    Documented("wrong use exits with 1, as docopt does", call="gulp2_image_.*'-h'", apart=("printed",)),
    Documented(
        "a missing folder of videos or images, or a missing list",
        call="gulp2_image_.*'no', 'new'",
        original=r'"given": \[1\]',
        dropin=r'"given": \[2\]',
    ),
    Documented(
        "`gulp2_image_list --root_path` is `100` by default",
        call="gulp2_image_list",
        original=r"'--root_path': '100'",
        dropin=r'"given": \[1\]',
    ),
    Documented(
        "nothing is found unless the folder ends in `/`",
        call="gulp2_image_folder.*'labelled', ",
        original=r'"given": \[1\].*"printed": "\{',
        dropin=r'"given": \[0\]',
    ),
    Documented(
        "the options are printed as a dict",
        call="gulp2_image_(list|folder)",
        original=r"\"printed\": \"\{'--help': False",
        apart=("printed",),
    ),
    Documented("resizing by Pillow-SIMD", call="resize_"),
    Documented("an empty `.gmeta`: `JSONDecodeError`", call="bad0", original="JSONDecodeError"),
    Documented("rows of a frame that are not contiguous in memory", original="C contiguous"),
    Documented(
        '`open("wb")` on a chunk keeps the old entries',
        call=r"GulpChunk.*open\('wb'\)",
        original=GIVES,
        apart=("files", "given"),
    ),
    Documented(
        'an exception inside `open("wb")` leaves data without a table',
        call=r"open\('[wa]b'\)",
        original='"raises"',
        apart=("files",),
    ),
    Documented("a chunk must be open to be read", original="NoneType' object has no attribute 'seek'"),
    Documented("a chunk without items stays, empty", call="GulpIngestor|write_chunk", original=GIVES, dropin=GIVES),
    Documented(
        "`GulpIngestor` makes the output folder before",
        call="GulpIngestor",
        original='"AssertionError"',
        apart=("files",),
    ),
    Documented("an id in two chunks: `AssertionError`", original="Duplicate id detected"),
    Documented("`append` to a chunk that is open for reading", call=r"open\('rb'\)", dropin="UnsupportedOperation"),
    Documented("ids as numbers in `accepted_ids`", call=r"accepted_ids=\[.*\d", original=GIVES, dropin=GIVES),
    Documented("ids that cannot be hashed", call="accepted_ids|_remove|remove_", original="unhashable", dropin=GIVES),
    Documented("several mistakes in one call", call="remove_.*unpaired", original="unhashable", dropin="UnpairedChunk"),
    Documented(
        '`remove_duplicates` takes `7` and `"7"` for two ids',
        call="remove_|_remove",
        original=GIVES + "|Duplicate",
        dropin=GIVES + "|Duplicate",
    ),
    Documented("an item without metadata: `IndexError`", original="IndexError", call="bad7"),
    Documented("reading a pickled table needs GulpIO2", call="pickle_serializer.*ImgInfo"),
    Documented(
        "a malformed table: any error of the code",
        call=r"bad\d",
        dropin="MetaFile|NoTable|Unreadable|MissingItem",
    ),
    Documented("a malformed table: any error of the code", call=r"bad\d", original='"raises"', dropin=GIVES),
    Documented("a chunk whose data file is missing", call="iter_all|list", original="FileNotFoundError"),
)

_MXNET = (
    Documented("`RandomSampler` gives NumPy's integers", call="RandomSampler"),
    Documented(
        "`random_size_crop`, its augmenter and `imresize` take any keyword",
        call=r"signature\('mxnet.image.(RandomSizedCropAug|random_size_crop|imresize)'",
        original='"kwargs"',
        dropin=GIVES,
    ),
    Documented(
        "they have no `forward` or `hybrid_forward`",
        call=r"signature\('mxnet.gluon.data.vision.transforms.\w+.(hybrid_)?forward'",
        dropin="AttributeError",
    ),
    Documented("`DataLoader(batch_size=0)` fails", call="DataLoader", original=GIVES, dropin="batch_size must be at"),
    Documented("`ToTensor` of an image HxW", call="ToTensor", dropin="AxisError"),
    Documented("`unpack_img` of a truncated JPEG", call="cut.jpg", original=GIVES, dropin=GIVES),
    Documented("interpolation 5, and boxes without pixels", call="imresize.*, 5", original=GIVES, dropin="SizeError"),
    Documented(
        "interpolation 5, and boxes without pixels",
        call="fixed_crop",
        original=r'"0 bytes|\["list", \[0, ',
        dropin="SizeError",
    ),
    Documented(
        "datasets that are downloaded, detection",
        call=r"signature\('mxnet.image.(\w*Det\w*|CreateMultiRandCropAugmenter)\b",
        dropin="AttributeError",
    ),
    Documented(
        "`DataLoader.clean` and `refresh`",
        call=r"signature\('mxnet.(gluon.data.DataLoader.(clean|refresh)|image.ImageIter.check_valid_image)'",
        dropin="AttributeError",
    ),
    Documented(
        "interpolations 9 and 10 in `imresize`",
        call="imresize",
        original="Unknown interpolation method",
        dropin=GIVES,
    ),
    Documented(
        "the flags -1, 2, 4 and 128 in",
        call="im(read|decode).*(flag=|, )(-1|2)",
        original=r"for Parameter flag|static_cast<void\*>\(dst.ptr",
        dropin=GIVES,
    ),
    Documented(
        "lists for `mean`, `std` and `data_shape`",
        call=r"\[3, 8, 8\]",
        original="can only concatenate tuple",
    ),
    Documented(
        "lists for `mean`, `std` and `data_shape`",
        call=r"mean=\[1, 2, 3\]",
        original='"AssertionError"',
    ),
    Documented(
        "images HxW where the original needs a third axis",
        call=r"\[:, :, 0\]",
        original="not enough values to unpack .expected 3, got 2|inputs of 3D",
        dropin=GIVES,
    ),
    Documented(
        "images without pixels in `ToTensor` and `Cast`",
        call="(ToTensor|Cast).*zeros",
        original="inferring shapes failed",
        dropin=GIVES,
    ),
    Documented(
        "`ImageIter` with a list file and integers as `dtype`",
        call=r"\.lst.*int32",
        original="source_array must be array like",
    ),
    Documented("an image record without an image", original="cv2|OpenCV.*empty", dropin=GIVES),
    Documented("short image record: `struct.error`", original="unpack requires a buffer", dropin='"DamagedError"'),
    Documented(
        "a record is lost until the file is closed", original='"raises"', call="RecordIO.*'w'", apart=("files",)
    ),
    Documented("`ImageIter`: parts leave out the remainder", call="num_parts=2", original=GIVES, dropin=GIVES),
    Documented(
        "labels after the end of a short dataset are uninitialized",
        call=r"ImageIter\(([37],.*imglist=|2,.*imglist=\[\[0.5)",
        original=GIVES,
        dropin=GIVES,
    ),
    Documented("a list that does not exist", call="im2rec", original="Did not find", dropin=r"\[2"),
    Documented(
        "does not find `photos.lst` beside a folder `photos`",
        call="im2rec', 'photos'",
        original="Did not find",
        dropin="photos.rec",
    ),
    Documented("`im2rec --list` of a folder without images", call="--list", original="0 bytes", dropin=r"\[2"),
    Documented(
        "`seek` and `read_idx` after the last record give None",
        call=r"read\(\)|seek|read_idx",
        original="null",
        dropin=GIVES,
    ),
    Documented("missing padding at the end: an error", call="cut.rec", original='"raises"', dropin=GIVES),
    Documented(
        "whose record the index puts after the end of the file gives None",
        call="void.rec.*read",
        original="null",
        dropin="DamagedError",
    ),
    Documented(
        "damage: `MXNetError`",
        call="junk|cut|void|bad|odd|x\\.rec",
        original='"raises"',
        dropin="DamagedError|IndexFileError",
    ),
)

_WEBDATASET = (
    Documented(
        "a `TarWriter` that was not closed leaves an empty file",
        call="[wW]riter",
        original='"raises"',
        apart=("files",),
    ),
    Documented("sizes of batches below 1", call=r"batched\((0|-1)\)", original="list index out of range", dropin=GIVES),
    Documented(
        "iterables that are not iterators in `shuffle`", original="'list' object is not an iterator", dropin=GIVES
    ),
    Documented("the name of a module and of a function", call=r"signature\('webdataset.gopen'", dropin=GIVES),
    Documented("grey images for `.pgm`", call="'pgm'", original="KeyError.*'PGM'", dropin=GIVES),
    Documented("`pgm` and `pbm` images cannot be encoded (`KeyError`)", original="KeyError.*'PGM'"),
    Documented("`UnbalancedBracesError`", original="UnbalancedBracesError"),
    Documented(
        "which only the package itself calls, are not there",
        call=r"MultiShardSample.parse_spec|DirectoryShardList.recycle|create_url_iterator|update_cache_info",
        dropin="AttributeError",
    ),
    Documented(
        "nor `filters.decode_*`, the helpers of `shardlists` and `writer`",
        call=r"signature\('webdataset.(tariterators.shardlist'|filters.decode_|shardlists.|writer.|autodecode.\w+_loads)",
        dropin="AttributeError",
    ),
    Documented(
        "the `gopen_*` functions and helpers of `gopen`",
        call=r"signature\('webdataset.(gopen.(gopen_|set_options|Pipe\.)|tenbin|utils|pipeline.add_length|cache.\w*filetype)",
        dropin="AttributeError",
    ),
    Documented(
        "`gopen.Pipe` takes a command and a mode",
        call=r"signature\('webdataset.(gopen.Pipe|cache.download)'",
        dropin=GIVES,
    ),
    Documented("damage is a `tarfile.ReadError`", call="text.tar", original="ReadError", dropin="FormatError"),
    Documented("`.pyd`, `.pickle`, `.pkl` when decoding", dropin="NotAllowedError"),
    Documented("the keys of a batch are in the order of their hashes", call="batched", apart=("order",)),
    Documented(
        "the keys of a batch are in the order of their hashes",
        call=r"batched.*\.xdecode\(\)",
        original="'list' object has no attribute 'read'",
        dropin="No decoder found",
    ),
    Documented(
        "arrays without axes in `.ten` fail when read",
        call=r"tenbin\..*np\.array\(5\.0\)",
        original="'numpy.float64' object cannot be interpreted",
        dropin=GIVES,
    ),
    Documented(
        "they are read, and where a stream ends inside one, it is damaged",
        call=r"tenbin\.read.*np\.array\(5\.0\)",
        original="'numpy.float64' object cannot be interpreted",
        dropin="ArrayDataError",
    ),
    Documented("an archive that is truncated or damaged at a header", call="cut.tar", dropin='"DamagedArchiveError'),
    Documented(
        "the truncated sample is delivered with the fields that it had", call="cut.tar.*handler=|handler=.*cut.tar"
    ),
    Documented(
        "`WebDataset(resampled=True, seed=…)` ignores the seed", call="resampled=True", original=GIVES, dropin=GIVES
    ),
    Documented(
        "`WebDataset(resampled=True, seed=…)` ignores the seed",
        call="WDS_SHOW_SEED.*resampled=True.*seed=",
        original="# ResampledShards seed",
        dropin="# ResampledShards seed",
        apart=("printed",),
    ),
    Documented("`info` writes to what `sys.stderr` was", call=r"signature\('webdataset\.(filters\.)?info'"),
    Documented("`select` takes other arguments", call=r"signature\('webdataset\.(compat\.)?FluidInterface\.select'"),
    Documented("the parameter of `tuple2dict`", call="tuple2dict", original="signature"),
    Documented("`DirectoryShardList` looks for", call="DirectoryShardList", original="signature"),
)

DOCUMENTED: Mapping[str, tuple[Documented, ...]] = {
    "bags": BAGS,
    "ffrecord": _FFRECORD,
    "granular_b": GRANULAR_B,
    "granular_c": GRANULAR_C,
    "gulpio2": _GULPIO2,
    "mxnet": _MXNET,
    "webdataset": _WEBDATASET,
}
