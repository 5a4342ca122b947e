"""Calls of bags 0.5.1."""

from __future__ import annotations

from compare_calls import Documented, Setup
from granular_common import (
    ANY,
    BAG,
    BAGLOOK,
    BYTES,
    DATAPOINT,
    GIVES,
    INDEX,
    LOOK,
    MASK,
    ODD,
    PART,
    PRELUDE,
    PUT,
    RECORD,
    SHARED,
    SMALL,
    SPEC,
    TARGET,
    TYPE,
    VALUE,
)

SETUP = Setup(
    package="bags",
    environment="bags",
    mapped={"bags": "bushel.compat.granular.bags"},
    page="compat-granular.md",
    modules=("bags",),
    prelude="import bags\nimport io\nE = bags\n"
    + PRELUDE
    + """
SPEC = {"id": "int(4)", "name": "utf8", "frames": "array(int32,2)[]"}
def point(number):
    return {"id": number, "name": f"n{number}", "frames": [np.full(2, i, np.int32) for i in range(number % 4)]}
def write(folder, count):
    with bags.DatasetWriter(folder, SPEC, bags.encoders) as w:
        for number in range(count):
            w.append(point(number))
""",
)
ASSETS = (
    SETUP.prelude
    + """
import shutil
write("d5", 5)
write("d1", 1)
with bags.ShardedDatasetWriter("s7", SPEC, bags.encoders, shard_length=3) as w:
    for number in range(7):
        w.append(point(number))
with bags.BagWriter("r.bag") as w:
    for number in range(1, 6):
        w.append(bytes([number]) * number)
with bags.DatasetWriter("media", {"a": "jpeg", "b": "png[]", "d": "msgpack", "e": "bytes"}, bags.encoders) as w:
    for i in range(3):
        w.append({"a": picture(i), "b": [picture(i, 4, 4)] * i, "d": [i, "x"], "e": b"z" * (i + 1)})
shutil.copytree("d5", "short"); open("short/name.bag", "r+b").truncate(9)
shutil.copytree("d5", "torn"); os.remove("torn/refs.bag")
os.makedirs("junk"); open("junk/spec.json", "w").write("{")
os.makedirs("vacant")
"""
)
TABLES = {
    "value": VALUE,
    "bytes": tuple(
        one.replace("E.encoders['jpg']", "E.encoders['jpeg']").replace("E.encoders['array'](<value>)", "b'abcd' * 4")
        for one in BYTES
    ),
    "cut": ("2", "50", "-1", "9999"),
    "type": (*TYPE, "jpeg"),
    "shape": (
        "'int32', '2'",
        "'float32', '2', '3'",
        "'uint8', '6', '8', '3'",
        "'int64', '3'",
        "'nope', '2'",
        "'int32', '-1'",
        "'int32'",
        "'bool', '2'",
    ),
    "size": ("'1'", "'4'", "'8'", "'0'", "'x'"),
    "array": (
        "np.arange(3)",
        "np.zeros(2, np.int32)",
        "np.ones((2, 3), np.float32)",
        "picture(1)",
        "np.array([True, False])",
        "[1, 2]",
        "None",
        "np.zeros((2, 1), np.int32)",
        "np.arange(6).reshape(2, 3).T",
    ),
    "dataset": ("d5", "d5", "d1", "media"),
    "odd": (*ODD, "s7"),
    "any": ANY,
    "index": (*INDEX, "range(0, 2)"),
    "part": PART,
    "mask": MASK,
    "decoders": ("bags.decoders", "bags.decoders", "bags.decoders", "None", "{}"),
    "more": ("", "", "", ", cache_index=False"),
    "look": (*LOOK, "x[<index>, <mask>]", "x[<index>, <mask>]", "x.available(<index>)"),
    "range": ("", ", shard_start=1", ", shard_step=2", ", shard_start=1, shard_step=2", ", shard_start=9"),
    "spec": (*SPEC, "{'refs': 'int'}", "{'a': 'array(float32,2)', 'b': 'jpeg[]'}", "{'a': 'int(4'}", "{'a b': 'int'}"),
    "encoders": ("bags.encoders", "bags.encoders", "bags.encoders", "None", "{}"),
    "datapoint": (*DATAPOINT, "{'a': [1, 2]}", "{**point(2), 'frames': <value>}"),
    "small": SMALL,
    "put": (*PUT, "len(w)\n"),
    "end": ("w.close()\nlen(w), w.size", "w.close()\nlen(bags.DatasetReader('<target#>', bags.decoders))"),
    "target": TARGET,
    "starget": ("new", "new", "s7", "vacant"),
    "length": (
        "",
        ", shard_length=2",
        ", shard_size=60",
        ", shard_size=None",
        ", shard_length=2, shard_start=1, shard_step=2",
    ),
    "record": (*RECORD, "b''", "b'y'"),
    "bag": (*BAG, "d5/refs.bag"),
    "baglook": BAGLOOK,
}
TEMPLATES = {
    "bags.encoders['<type>'](<value>)": 26,
    "bags.decoders['<type>'](<bytes>)": 16,
    "bags.decoders['<type#>'](bags.encoders['<type#>'](<value>))": 18,
    "bags.encoders['array'](<array>, <shape>)": 14,
    "bags.decoders['array'](<bytes>, <shape>)": 10,
    "bags.encoders['int'](<value>, <size>)": 10,
    "bags.decoders['int'](<bytes>, <size>)": 5,
    "x = bags.DatasetReader('<any>', <decoders><more>)\n<look>": 34,
    "x = bags.DatasetReader('d5', bags.decoders<more>)\nx[<index>, <mask>]": 26,
    "x = bags.ShardedDatasetReader('s7', <decoders><more><range>)\n<look>": 22,
    "w = bags.DatasetWriter('<target#>', <spec>, <encoders>)\n<put><put><end>": 26,
    "w = bags.DatasetWriter('<target#>', SPEC, bags.encoders)\n<put><put><put><end>": 14,
    "w = bags.ShardedDatasetWriter('<starget#>', <spec>, <encoders><length>)\n<put><put><put>w.close()\nlen(w)": 18,
    "w = bags.BagWriter('new.bag')\nw.append(<record>)\nw.append(<record>)\nlen(w), w.size\nw.close()": 6,
    "x = bags.BagReader('<bag>'<more>)\n<baglook>": 16,
    "x = bags.BagReader(open('<bag>', 'rb'))\n<baglook>": 6,
}
DOCUMENTED = (
    *SHARED,
    Documented(
        "`ds[len(ds)]` of a sharded one gives None (bags)",
        call="Reader",
        dropin="OutOfRange|WrongType|UnknownKey|WrongUse",
    ),
    Documented(
        "Damaged files raise a `bushel.errors.FormatError`",
        call="torn|short|junk|spec.json",
        dropin="DamagedError|SpecError|NoDatasetError",
    ),
    Documented("A dataset of bags without datapoints cannot be opened", call="Writer"),
    Documented("A datapoint that cannot be encoded leaves some of its records", call="Writer", original='"raises"'),
    Documented("are staged in `.bushel/staging` in their folder", call="Writer", original=r'"files": \{"'),
    Documented("A missing decoder is found when it is needed", call=r"\{\}", dropin="there is no function"),
    Documented("More is accepted", original='"raises"', dropin=GIVES),
    Documented("A mask is a dict (0.20) or a tuple of keys (0.24)", call=r"\('id',\)"),
)
