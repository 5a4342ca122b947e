"""Calls of bags 0.5.1."""

from __future__ import annotations

import granular_common as common
from grammar import extended
from original import Setup

SETUP = Setup(
    package="bags",
    environment="bags",
    mapped={"bags": "bushel.compat.granular.bags"},
    page="compat-granular.md",
    modules=("bags",),
    prelude="import bags\nimport io\nE = bags\n"
    + common.PRELUDE
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
write("d5", 5)
write("d1", 1)
with bags.ShardedDatasetWriter("s7", SPEC, bags.encoders, shard_length=3) as w:
    for number in range(7):
        w.append(point(number))
with bags.DatasetWriter("media", {"a": "jpeg", "b": "png[]", "d": "msgpack", "e": "bytes"}, bags.encoders) as w:
    for i in range(3):
        w.append({"a": picture(i), "b": [picture(i, 4, 4)] * i, "d": [i, "x"], "e": b"z" * (i + 1)})
"""
    + common.BROKEN
)
TABLES = {
    **extended(
        common.TABLES,
        common.MASKS,
        {
            "type": ("jpeg",),
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
            "odd": ("s7",),
            "index": ("range(0, 2)",),
            "more": ("", "", "", ", cache_index=False"),
            "look": ("x[<index>, <mask>]", "x[<index>, <mask>]", "x.available(<index>)"),
            "range": ("", ", shard_start=1", ", shard_step=2", ", shard_start=1, shard_step=2", ", shard_start=9"),
            "spec": (
                "{'refs': 'int'}",
                "{'a': 'array(float32,2)', 'b': 'jpeg[]'}",
                "{'a': 'int(4'}",
                "{'a b': 'int'}",
            ),
            "datapoint": ("{'a': [1, 2]}", "{**point(2), 'frames': <value>}"),
            "put": ("len(w)\n",),
            "end": ("w.close()\nlen(w), w.size", "w.close()\nlen(bags.DatasetReader('<target#>', bags.decoders))"),
            "starget": ("new", "new", "s7", "vacant"),
            "length": (
                "",
                ", shard_length=2",
                ", shard_size=60",
                ", shard_size=None",
                ", shard_length=2, shard_start=1, shard_step=2",
            ),
            "record": ("b''", "b'y'"),
            "bag": ("d5/refs.bag",),
        },
    ),
    "bytes": tuple(
        one.replace("E.encoders['jpg']", "E.encoders['jpeg']").replace("E.encoders['array'](<value>)", "b'abcd' * 4")
        for one in common.TABLES["bytes"]
    ),
    "decoders": ("bags.decoders", "bags.decoders", "bags.decoders", "None", "{}"),
    "encoders": ("bags.encoders", "bags.encoders", "bags.encoders", "None", "{}"),
}
TEMPLATES = {
    **common.TEMPLATES,
    "bags.encoders['array'](<array>, <shape>)": 14,
    "bags.decoders['array'](<bytes>, <shape>)": 10,
    "bags.encoders['int'](<value>, <size>)": 10,
    "bags.decoders['int'](<bytes>, <size>)": 5,
    "x = bags.DatasetReader('d5', bags.decoders<more>)\nx[<index>, <mask>]": 26,
    "x = bags.ShardedDatasetReader('s7', <decoders><more><range>)\n<look>": 22,
    "w = bags.ShardedDatasetWriter('<starget#>', <spec>, <encoders><length>)\n<put><put><put>w.close()\nlen(w)": 18,
    "w = bags.BagWriter('new.bag')\nw.append(<record>)\nw.append(<record>)\nlen(w), w.size\nw.close()": 6,
    "x = bags.BagReader('<bag>'<more>)\n<baglook>": 16,
    "x = bags.BagReader(open('<bag>', 'rb'))\n<baglook>": 6,
}
