"""The accepted differences of both versions of Granular, and of bags."""

from __future__ import annotations

from difference import GIVES, Documented

__all__ = ["BAGS", "GRANULAR_B", "GRANULAR_C"]

_MORE_OF_GRANULAR = (
    Documented(
        "numbers and other values that NumPy turns into arrays as `array`",
        call="array|SPEC",
        original="object has no attribute 'data'",
    ),
    Documented(
        "arrays of dates or not contiguous in memory as `array` and `tree`",
        call=r"(\['(array|tree)'\]|'(frames|data)': ).*(M8|::2|\.T)",
        original='cannot include dtype \'M\'|"AssertionError".*"message": ""',
    ),
    Documented(
        "NumPy's numbers as `int`, `i64`, `u64`, `msgpack` and in a `tree`",
        call=r"np\.(float32|int64|array|arange)",
        original="has no attribute 'to_bytes'|can not serialize",
    ),
    Documented(
        "greyscale images of shape HxWx1", call="5, 7, 1", original="Cannot handle this data type", dropin=GIVES
    ),
    Documented("`memoryview` and `bytearray` as bytes", call="memoryview|bytearray", original='"raises"', dropin=GIVES),
    Documented(
        "`int` cannot encode 128 to 255", call="int", original="OverflowError|cannot convert float NaN", dropin=GIVES
    ),
    Documented("`int` of more than 16 bytes", call=r"decoders\['int'\]", original='"message": "\\d+"', dropin=GIVES),
    Documented("one of 64 bits or more cannot be encoded", call=r"2 \*\* ", original="loop of ufunc"),
    Documented("maps with numbers as keys", call="{1: 2}", original="strict_map_key", dropin=GIVES),
    Documented(
        "`reader[:3]` fails",
        call=r"slice\(",
        original="'<=' not supported between",
        dropin=f"{GIVES}|OutOfRangeError",  # as of `reader[0:3]`, on both sides
    ),
)

_OF_GRANULAR = (
    Documented(
        "A writer that refuses its spec or a datapoint leaves folders and files",
        call="Writer",
        original='"raises"',
        apart=("files",),
    ),
    Documented("prints a line that names the key", original="Error (en|de)coding key", apart=("printed", "files")),
    Documented("A missing encoder or decoder is found when it is needed", dropin="no function was given for the type"),
    Documented("A wrong index of a bag gives wrong bytes", original=GIVES, dropin="OutOfRangeError"),
    Documented("A wrong index of a bag gives wrong bytes", call=r"list\(x\)", original="not enough values to unpack"),
    Documented(
        "without datapoints, or a bag without records, cannot be opened",
        call="none.bag|'d0'",
        original="No such file.*none.idx|PicklingError|'NoneType' object is not subscriptable",
    ),
    Documented(
        "`single_file=True` (0.24) takes the last bytes of a bag for an index",
        call="single_file=True",
        original=GIVES + "|not enough values to unpack",
        dropin=GIVES,
    ),
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
        "A range of records that begins after the last one of a bag fails",
        call=r"BagReader.*x\[(range\(\d+, \d+\)|\d+:\d+|slice\()",
        original=r'"AssertionError".*"message": "\(\d+, \d+\)"',
        dropin=r'"given": \[\["list", \[\]\]\]',
    ),
    Documented(
        "A range of a sequence that begins after its end fails",
        call=r"range\((5, 9|7, 100)\)|slice\(1, 9\)",
        original='"raises"',
        dropin=GIVES,
    ),
    *_MORE_OF_GRANULAR,
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

BAGS = (
    Documented(
        "A writer that refuses its spec or a datapoint leaves folders and files",
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
        "A missing encoder or decoder is found when it is needed (bags)", dropin="no function was given for the type"
    ),
    Documented("`flush` of a sharded writer (bags) is an `AttributeError`", original="no attribute 'specwritten'"),
    Documented(
        "A dataset of bags without datapoints, or a bag without records, cannot be opened",
        call="Writer",
        original="No such file.*spec.json",
    ),
    Documented(
        "A dataset of bags without datapoints, or a bag without records, cannot be opened",
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
    *_MORE_OF_GRANULAR,
    Documented(
        "A mask is a dict (0.20) or a tuple of keys (0.24)",
        original=r"AssertionError.*(\('id',\)|None)",
        dropin=GIVES,
    ),
    Documented(
        "`available` and ranges of datapoints (bags)",
        call=r"available|x\[(slice|range)",
        original="no attribute 'available'|AssertionError|bytes-like object is required, not 'list'",
    ),
    Documented(
        "bags: a reader with `decoders=None` fails", call=", None", original="'NoneType' object is not", dropin=GIVES
    ),
    Documented(
        "Damaged files raise a `bushel.errors.FormatError`", call="torn|short|junk|spec.json", dropin="DamagedError"
    ),
)

GRANULAR_B = (
    *_OF_GRANULAR,
    Documented(
        "A mask is a dict (0.20) or a tuple of keys (0.24)",
        original=r"AssertionError.*(\('id',\)|\['id'\]|None)",
        dropin=GIVES,
    ),
    Documented(
        "An empty range of a dataset with sequences is an `IndexError`",
        call=r"'(d5|media|d1)'.*x\[(range\(0, 0\)|slice\(5, 5\))",
        original="list index out of range",
        dropin="sequences and ranges are read of one datapoint at a time",
    ),
    Documented(
        "An empty range of a dataset without sequences",
        call=r"'f6'.*x\[(range\(0, 0\)|slice\(5, 5\))",
        original="list index out of range",
        dropin=GIVES,
    ),
    Documented(
        "If a call has several mistakes",
        call=r"x\['x', \{'nope'",
        original='"AttributeError"',
        dropin="UnknownKeyError",
    ),
    Documented("A state without `seed` cannot be loaded", call="x.load", original="KeyError.*'seed'", dropin=GIVES),
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

GRANULAR_C = (
    *_OF_GRANULAR,
    Documented(
        "A mask is a dict (0.20) or a tuple of keys (0.24)",
        call=r"x\[.*, (None|\{)",
        original="AssertionError",
        dropin=GIVES,
    ),
    Documented(
        "A sharded writer (0.24) that continues adds to its first shard again", call=r"ShardedDatasetWriter\('s[47]'"
    ),
    Documented(
        "A negative `shardstart` of a reader (0.24) reads some shards twice",
        call="shardstart=-1",
        dropin="shardstart must be",
    ),
    Documented(
        "If a call has several mistakes",
        call=r"Writer\('(a/b|r\.bag)",
        original="FileNotFound|FileExists",
        dropin="keys and types (are|must)|at least one key",
    ),
    Documented(
        "If a call has several mistakes", call=r"Writer\('torn'", original="Error encoding", dropin="MismatchError"
    ),
    Documented(
        "If a call has several mistakes",
        call=r"Writer\('torn'",
        original="Record mismatch",
        dropin="(Attribute|Type|Value)Error",
    ),
    Documented("`size` of a bag is the one in its index", call="size", original='"given"', dropin='"given"'),
    Documented("A missing bag is found when it is read", call="missing.bag"),
    Documented("`shard_id` that is not below `num_shards`", call="shard_id=3", dropin="WrongUseError"),
    Documented("`Epochs(seed=…)` takes every seed for 0", call="Epochs.*seed"),
    Documented("cannot be used together", call="parallel=True", original="Existing pool with name"),
    Documented("(`int[]`)", call=r"int\[\]", dropin="cannot hold sequences"),
    Documented(
        "A partial entry that a crash left in an `.idx`",
        call="Writer\\('torn'",
        dropin='"torn/id.idx": "24 bytes',
        apart=("files",),
    ),
    Documented("0.24 cannot open datasets of 0.20", call="s4|r.bag", original='"raises"', dropin=GIVES),
)
