"""The differences between originals and drop-ins that are accepted, each with the words of the page that give the reason.

`DOCUMENTED` has them by the names of the originals. ``tests/interop/test_calls.py`` looks for the words on the pages.
"""

# ruff: noqa: E501 the words of a page are easier to find in one line
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alike import alike

__all__ = ["DOCUMENTED", "Documented"]

GIVES = r'^(?!.*"raises")'
"""Pattern of an outcome without an error."""


@dataclass(frozen=True, slots=True)
class Documented:
    """A difference that a page describes.

    Attributes:
        words: Words of the page.
        call: Pattern that is found in the call; any call if empty.
        original: Pattern that is found in the JSON of the original's outcome.
        dropin: Pattern that is found in the JSON of the drop-in's outcome.
        apart: Parts of the outcomes, such as "files", that may differ ("order": that of dicts' keys); all others must be alike.
    """

    words: str
    call: str = ""
    original: str = ""
    dropin: str = ""
    apart: tuple[str, ...] = ()

    def explains(self, call: str, original: Mapping[str, Any], dropin: Mapping[str, Any]) -> bool:
        """Return whether this is the difference between two outcomes."""
        pairs = ((self.call, call), (self.original, json.dumps(original)), (self.dropin, json.dumps(dropin)))
        if not all(re.search(pattern, text, re.DOTALL) for pattern, text in pairs):
            return False
        if "order" in self.apart:
            original, dropin = _in_order(original), _in_order(dropin)
        return not self.apart or alike(original, {**dropin, **{name: original.get(name) for name in self.apart}})


def _in_order(described: Any) -> Any:
    """Return a description with the keys of all dicts sorted."""
    if isinstance(described, Mapping):
        return {name: _in_order(value) for name, value in described.items()}
    if not isinstance(described, list):
        return described
    if described[:1] == ["map"]:
        return ["map", sorted(map(_in_order, described[1]), key=json.dumps)]
    return [_in_order(each) for each in described]


_OF_GRANULAR = (
    Documented(
        "A datapoint that cannot be encoded leaves some of its records",
        call="Writer",
        original='"raises"',
        apart=("files",),
    ),
    Documented("prints a line that names the key", original="Error (en|de)coding key", apart=("printed", "files")),
    Documented("A missing encoder or decoder is found when it is needed", dropin="there is no function for the type"),
    Documented("A wrong index of a bag gives wrong bytes", dropin="OutOfRangeError"),
    Documented(
        "NumPy integers are not accepted as indices",
        call=r"x(\.available)?[\[(]np\.int64",
        original='"raises"',
        dropin=GIVES,
    ),
    Documented("A reader cannot be read after `close()`", call=r"x\.close\(\)", original='"raises"', dropin=GIVES),
    Documented(
        "Damaged files raise a `bushel.errors.FormatError`",
        call="torn|short|junk|spec.json|ahead|missing|idx|single_file",
        dropin="DamagedError|NoIndexError",
    ),
    Documented(
        "A range of a sequence that begins after its end fails",
        call=r"range\(5, 9\)|slice\(1, 9\)",
        original='"raises"',
        dropin=GIVES,
    ),
    Documented("`int` cannot encode 128 to 255", call="int", original="OverflowError", dropin=GIVES),
    Documented("More is accepted", original='"raises"', dropin=GIVES),
    Documented(
        "More is accepted",
        call=r"E\.decoders\[.*E\.encoders\['(array|tree|msgpack|png|jpg)'",
        original="has no attribute|can not serialize",
    ),
    Documented(
        "An array of objects (`array`, `tree`) is stored as memory addresses",
        call="None",
        dropin="has addresses of objects",
    ),
    Documented("A failed `fn` prints its traceback", call="loader", original="printed", apart=("printed",)),
    Documented("A file in the folder of shards that is not a shard", original="invalid literal for int"),
    Documented(
        "a reader with a field of type `bytes` or `utf8` fails, because a lambda does not pickle",
        original="PicklingError",
    ),
    Documented(
        "Reading with `shardstart` and `shardstep` needs the shards of other workers",
        call="shardst",
        original="AssertionError",
        dropin=GIVES,
    ),
    Documented(
        "`closed` of a `DatasetWriter`", call=r"DatasetWriter[^$]*w\.closed", original=r"false\]", dropin=r"true\]"
    ),
    Documented(
        "an invalid spec of a sharded writer with its first datapoint",
        call="ShardedDatasetWriter",
        dropin="keys and types (are|must)",
    ),
    Documented("NumPy integers are not accepted as indices", original="'numpy.int64' object has no attribute"),
)

_BAGS = (
    Documented(
        "A datapoint that cannot be encoded leaves some of its records",
        call="Writer",
        original='"raises"',
        apart=("files",),
    ),
    Documented(
        "are staged in `.bushel/staging` in their folder",
        call="DatasetWriter|BagWriter",
        apart=("files",),
        original='"raises"',
    ),
    Documented(
        "A missing encoder or decoder is found when it is needed (bags)", dropin="there is no function for the type"
    ),
    Documented("`flush` of a sharded writer (bags) is an `AttributeError`", original="no attribute 'specwritten'"),
    Documented(
        "A dataset of bags without datapoints cannot be opened", call="Writer", original="No such file.*spec.json"
    ),
    Documented(
        "A dataset of bags without datapoints cannot be opened",
        call="DatasetWriter",
        dropin="spec.json",
        apart=("files",),
    ),
    Documented(
        "a mask or a range of a sharded reader (bags)", original="'<=' not supported between instances of 'int' and"
    ),
    Documented(
        "A wrong index of a bag gives wrong bytes",
        original="not enough values to unpack|unpack requires|given",
        dropin="OutOfRangeError",
    ),
    Documented(
        "NumPy integers are not accepted as indices",
        call=r"x(\.available)?\[?\(?np\.int64",
        original='"raises"',
        dropin=GIVES,
    ),
    Documented("A reader cannot be read after `close()`", call=r"x\.close\(\)", original='"raises"', dropin=GIVES),
    Documented("More is accepted", original='"raises"', dropin=GIVES),
    Documented(
        "Damaged files raise a `bushel.errors.FormatError`", call="torn|short|junk|spec.json", dropin="DamagedError"
    ),
)

_FFRECORD = (
    Documented("with too few records kills the process", original='"kills"'),
    Documented(
        "a killed or failed writer leaves a file", original=r'"raises".*"files": \{"', call="Writer|dump|pack_folder"
    ),
    Documented("a killed or failed writer leaves a file", original=r'"0 bytes', call="dump"),
    Documented("a `FileWriter` removes an old file of the same name at once", call="exists"),
    Documented("an array is stored as its first `shape[0]` bytes", call="np.arange|write_one"),
    Documented("More is accepted", original='"raises"', dropin=GIVES),
    Documented("`get_offsets` and `get_checksums` of a file that is not there", call="get_"),
    Documented("a negative index reads outside of the tables", original='"kills"'),
    Documented('`exists("file/x")` is a `TypeError`', call="a.txt/b"),
    Documented("`dump` to no files", call="dump"),
    Documented("a list may name folders", call="many", original="is not a file"),
    Documented("`list` returns files and folders in one order", call="list"),
    Documented("a wrong checksum is a `RuntimeError`", call="flip"),
)

_GRANULAR_B = (
    *_OF_GRANULAR,
    Documented(
        "After `loader.load`, workers keep the old seed",
        call=r"x\.load\(.*'seed'",
        original='"given"',
        dropin='"given"',
    ),
    Documented(
        "are staged in `.bushel/staging` in their folder",
        call="DatasetWriter|BagWriter",
        original='"raises"|"files"',
        apart=("files",),
    ),
)

_GRANULAR_C = (
    *_OF_GRANULAR,
    Documented(
        "A sharded writer (0.24) that continues adds to its first shard again", call=r"ShardedDatasetWriter\('s[47]'"
    ),
    Documented(
        "A negative `shardstart` of a reader (0.24) reads some shards twice",
        call="shardstart=-1",
        dropin="shardstart must be",
    ),
    Documented(
        "Of several mistakes in one call",
        call=r"Writer\('(a/b|r\.bag)",
        original="FileNotFound|FileExists",
        dropin="keys and types (are|must)|at least one key",
    ),
    Documented(
        "Of several mistakes in one call", call=r"Writer\('torn'", original="Error encoding", dropin="MismatchError"
    ),
    Documented("`size` of a bag is the one in its index", call="size", original='"given"', dropin='"given"'),
    Documented("A missing bag is found when it is read", call="missing.bag"),
    Documented("`shard_id` that is not below `num_shards`", call="shard_id=3", dropin="WrongUseError"),
    Documented("`Epochs(seed=…)` takes every seed for 0", call="Epochs.*seed"),
    Documented("0.24 cannot open datasets of 0.20", call="s4|r.bag", original='"raises"', dropin=GIVES),
)

_GULPIO2 = (
    Documented("`gulp2_sanity_check` crashes on two of its three faults", call="gulp2_sanity_check"),
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
    Documented("ids as numbers in `accepted_ids`", call="accepted_ids", dropin=GIVES),
    Documented('`remove_duplicates` takes `7` and `"7"` for two ids', call="remove_|_remove"),
    Documented("an item without metadata: `IndexError`", original="IndexError", call="bad7"),
    Documented("reading a pickled table needs GulpIO2", call="pickle_serializer.*ImgInfo"),
    Documented(
        "a malformed table: whatever the code runs into",
        call=r"bad\d",
        dropin="MetaFile|NoTable|Unreadable|MissingItem",
    ),
    Documented("a malformed table: whatever the code runs into", call=r"bad\d", original='"raises"', dropin=GIVES),
    Documented("a chunk whose data file is missing", call="iter_all|list", original="FileNotFoundError"),
)

_MXNET = (
    Documented("`RandomSampler` gives NumPy's integers", call="RandomSampler"),
    Documented("`random_size_crop` and its augmenter take any keyword", call="signature", original='"kwargs"'),
    Documented("`ToTensor` of an image HxW", call="ToTensor", dropin="AxisError"),
    Documented("`unpack_img` of a truncated JPEG", call="cut.jpg", original=GIVES, dropin=GIVES),
    Documented("interpolation 5, and boxes without pixels", call="imresize|crop", dropin="SizeError"),
    Documented("Not covered: modules that need a network library", call="signature", dropin="AttributeError"),
    Documented(
        "More is accepted",
        original='"raises"',
        dropin=GIVES,
        call="imresize|imread|imdecode|flag|CreateAugmenter|ImageIter|crop|transforms|resize|Resize|Aug|ArrayDataset",
    ),
    Documented("an image record without an image", original="cv2|OpenCV.*empty", dropin=GIVES),
    Documented("short image record: `struct.error`", original="unpack requires a buffer"),
    Documented(
        "a record is lost until the file is closed", original='"raises"', call="RecordIO.*'w'", apart=("files",)
    ),
    Documented(
        "labels after the end of a short dataset are uninitialized",
        call="ImageIter",
        original=GIVES,
        dropin=GIVES,
    ),
    Documented("a list that does not exist", call="im2rec"),
    Documented(
        "several mistakes in one call", original='"raises"', dropin='"raises"', call="ImageIter|CreateAugmenter"
    ),
    Documented("`seek` and `read_idx` open a closed reader again", call=r"close\(\)", dropin='"ClosedError'),
    Documented(
        "`seek` and `read_idx` after the last record give None",
        call=r"read\(\)|seek|read_idx",
        original="null",
        dropin=GIVES,
    ),
    Documented("missing padding at the end: an error", call="cut.rec", original='"raises"', dropin=GIVES),
    Documented("damage: `MXNetError`", call="junk|cut|void|bad|odd|x\\.rec", dropin="DamagedError|IndexFileError"),
)

_WEBDATASET = (
    Documented(
        "a `TarWriter` that nobody closed leaves an empty file", call="[wW]riter", original='"raises"', apart=("files",)
    ),
    Documented("More is accepted", original='"raises"', dropin=GIVES),
    Documented("`pgm` and `pbm` images cannot be encoded (`KeyError`)", original="KeyError.*'PGM'"),
    Documented(
        "a sample of a local file has `__local_path__`",
        call="tarfile_to_samples.*collation_fn=None",
        dropin="__local_path__",
    ),
    Documented("`UnbalancedBracesError`", original="UnbalancedBracesError"),
    Documented("these methods are not there", call="signature", dropin="AttributeError"),
    Documented(
        "damage is a `tarfile.ReadError`", call="cut.tar|text.tar|missing", original='"raises"', dropin='"raises"'
    ),
    Documented("`.pyd`, `.pickle`, `.pkl` when decoding", dropin="NotAllowedError"),
    Documented("the keys of a batch are in the order of their hashes", call="batched", apart=("order",)),
    Documented("extensions are lower case", call="odd.tar"),
    Documented("`WebDataset(resampled=True, seed=…)` ignores the seed", call="resampled=True"),
    Documented("`info` writes to what `sys.stderr` was", call=r"signature\('webdataset\.(filters\.)?info'"),
    Documented("`select` takes other arguments", call=r"signature\('webdataset\.FluidInterface\.select'"),
    Documented("the parameter of `tuple2dict`", call="tuple2dict", original="signature"),
    Documented("`DirectoryShardList` looks for", call="DirectoryShardList", original="signature"),
)

DOCUMENTED: Mapping[str, tuple[Documented, ...]] = {
    "bags": _BAGS,
    "ffrecord": _FFRECORD,
    "granular_b": _GRANULAR_B,
    "granular_c": _GRANULAR_C,
    "gulpio2": _GULPIO2,
    "mxnet": _MXNET,
    "webdataset": _WEBDATASET,
}
