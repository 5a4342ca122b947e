"""Calls of Granular 0.20.3."""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

from compare_calls import Documented, Setup
from granular_common import (
    ANY,
    BAG,
    BAGLOOK,
    BATCH,
    BYTES,
    DATAPOINT,
    DECODERS,
    ENCODERS,
    GIVES,
    INDEX,
    LENGTH,
    LOADER,
    LOOK,
    MASK,
    MORE,
    MORE_INDEX,
    MORE_TYPE,
    ODD,
    PART,
    PRELUDE,
    PUT,
    RANGE,
    RECORD,
    SHARED,
    SMALL,
    SPEC,
    TARGET,
    TYPE,
    VALUE,
)

SETUP = Setup(
    package="granular",
    environment="granular-b",
    mapped={"granular": "bushel.compat.granular"},
    page="compat-granular.md",
    modules=("granular",),
    prelude="import granular\nE = granular\n"
    + PRELUDE
    + LOADER
    + """
SPEC = {"id": "int", "name": "utf8", "frames": "array[]"}
def point(number):
    return {"id": number, "name": f"n{number}", "frames": [np.full(2, i, np.int32) for i in range(number % 4)]}
def write(folder, count, spec=SPEC, point=point):
    with granular.DatasetWriter(folder, spec, granular.encoders) as w:
        for number in range(count):
            w.append(point(number))
def flat(number):
    return {"id": number, "name": f"n{number}"}
def noise(datapoint, seed):
    return {**datapoint, "noise": np.random.default_rng(seed).integers(0, 99)}
def first(it, count):
    found = []
    for number, batch in enumerate(it):
        found.append({k: np.asarray(v).copy() for k, v in batch.items()})
        if number + 1 == count:
            break
    it.close()
    return found
""",
)
ASSETS = (
    SETUP.prelude
    + """
import shutil
write("d5", 5)
write("d1", 1)
write("f6", 6, {"id": "int", "name": "utf8"}, flat)
with granular.ShardedDatasetWriter("s7", SPEC, granular.encoders, shardlen=3) as w:
    for number in range(7):
        w.append(point(number))
with granular.BagWriter("r.bag") as w:
    for number in range(1, 6):
        w.append(bytes([number]) * number)
with granular.DatasetWriter("media", {"a": "jpg", "b": "png[]", "c": "tree", "d": "msgpack", "e": "bytes"}, granular.encoders) as w:
    for i in range(3):
        w.append({"a": picture(i), "b": [picture(i, 4, 4)] * i, "c": {"x": np.arange(i)}, "d": [i, "x"], "e": b"z" * (i + 1)})
shutil.copytree("d5", "short"); open("short/name.bag", "r+b").truncate(9)
shutil.copytree("d5", "torn"); os.remove("torn/refs.bag")
os.makedirs("junk"); open("junk/spec.json", "w").write("{")
os.makedirs("vacant")
"""
)
TABLES = {
    "value": VALUE,
    "bytes": BYTES,
    "cut": ("2", "50", "-1", "9999"),
    "type": (*TYPE, *MORE_TYPE),
    "dataset": ("d5", "d5", "f6", "d1", "media"),
    "odd": (*ODD, "s7"),
    "any": ANY,
    "index": (*INDEX, *MORE_INDEX),
    "part": (*PART, "'x'"),
    "mask": (*MASK, "['id']"),
    "decoders": DECODERS,
    "more": (*MORE, ", cache_keys=['refs']"),
    "look": (
        *LOOK,
        "x[<index>, <mask>]",
        "x[<index>, <mask>]",
        "x.available(<index>)",
        "x.copy()[0]",
        "pickle.loads(pickle.dumps(x))[0]",
        "x[0], x.close()",
    ),
    "range": RANGE,
    "spec": (*SPEC, "{'_': 'int'}", "{1: 'int'}", "{'a': 'array', 'b': 'jpg[]'}"),
    "encoders": ENCODERS,
    "datapoint": (
        *DATAPOINT,
        "{'a': [1, 2]}",
        "None",
        "{**point(2), 'frames': <value>}",
        "{**point(2), 'frames': [<value>]}",
    ),
    "small": SMALL,
    "put": (*PUT, "len(w)\n"),
    "end": (
        "w.close()\nlen(w), w.size",
        "w.close()\nlen(granular.DatasetReader('<target#>', granular.decoders))",
        "w.close()\nw.closed",
    ),
    "target": TARGET,
    "starget": ("new", "new", "s7", "vacant"),
    "length": LENGTH,
    "record": (*RECORD, "bytearray(b'x')", "b'y'"),
    "bag": (*BAG, "d5/refs.bag"),
    "baglook": (*BAGLOOK, "x.copy()[0]", "pickle.loads(pickle.dumps(x))[1]"),
    "source": (
        "Source(5)",
        "Source(23)",
        "granular.DatasetReader('f6', {'int': granular.decoders['int'], 'utf8': len})",
    ),
    "batch": BATCH,
    "fns": (
        "",
        "",
        ", fns=[noise]",
        ", fns=[noise, noise]",
        ", fns=[noise], seed=3",
        ", shuffle=False",
        ", shuffle=True, seed=5",
        ", shuffle=False, fns=[noise]",
    ),
    "hosts": (
        "",
        "",
        ", shard_id=0, num_shards=2",
        ", shard_id=1, num_shards=2",
        ", workers=1",
        ", workers=3, prefetch=4",
    ),
    "state": ("{'step': 0}", "{'step': 3}", "{'step': 8}", "{'step': 0, 'seed': 4}", "{'step': 6, 'seed': 0}", "{}"),
}
TEMPLATES = {
    "granular.encoders['<type>'](<value>)": 26,
    "granular.decoders['<type>'](<bytes>)": 16,
    "granular.decoders['<type#>'](granular.encoders['<type#>'](<value>))": 22,
    "x = granular.DatasetReader('<any>', <decoders><more>)\n<look>": 34,
    "x = granular.DatasetReader('d5', granular.decoders<more>)\nx[<index>, <mask>]": 22,
    "x = granular.DatasetReader('f6', granular.decoders<more>)\nx[<index>]": 12,
    "x = granular.ShardedDatasetReader('<sharded>', <decoders><more><range>)\n<look>": 18,
    "x = granular.ShardedDatasetReader('s7', granular.decoders<more><range>)\nx.shards, len(x)": 3,
    "w = granular.DatasetWriter('<target#>', <spec>, <encoders>)\n<put><put><end>": 22,
    "w = granular.DatasetWriter('<target#>', SPEC, granular.encoders)\n<put><put><put><end>": 12,
    "w = granular.ShardedDatasetWriter('<starget#>', <spec>, <encoders><length>)\n<put><put><put>w.close()\nlen(w), w.shards": 14,
    "w = granular.BagWriter('new.bag')\nw.append(<record>)\nw.append(<record>)\nlen(w), w.size\nw.close()": 5,
    "granular.BagWriter('r.bag')": 1,
    "x = granular.BagReader('<bag>'<bagmore>)\n<baglook>": 16,
    "x = granular.BagReader(open('r.bag', 'rb').read())\n<baglook>": 3,
    "first(loader(<source>, <batch><fns><hosts>), <batch>)": 16,
    "x = loader(<source>, <batch><fns>)\ny = first(x, 2)\nx.save()": 3,
    "x = loader(<source>, <batch><fns>)\nx.load(<state>)\nx.save(), first(x, 2)": 5,
}
TABLES["sharded"] = ("s7", "s7", "s7", "d5", "vacant")
TABLES["bagmore"] = ("", "", ", cache_index=False", ", cache_data=True")
DOCUMENTED = (
    *SHARED,
    Documented(
        "Damaged files raise a `bushel.errors.FormatError`",
        call="torn|short|junk|spec.json",
        dropin="DamagedError|SpecError|NoDatasetError",
    ),
    Documented("A file in the folder of shards that is not a shard", call="ShardedDatasetReader\\('(d5|vacant)'"),
    Documented("Reading with `shardstart` and `shardstep` needs the shards of other workers", call="shardst"),
    Documented(
        "a reader with a field of type `bytes` or `utf8` fails, because a lambda does not pickle",
        original="PicklingError",
    ),
    Documented("A datapoint that cannot be encoded leaves some of its records", call="Writer", original='"raises"'),
    Documented("are staged in `.bushel/staging` in their folder", call="Writer", original=r'"files": \{"'),
    Documented("More is accepted", call="encoders|decoders|append|Reader|load", original='"raises"', dropin=GIVES),
    Documented("More is accepted", call=r"decoders\[.*E\.encoders", original="has no attribute 'data'"),
    Documented("`spec` of a `ShardedDatasetWriter`", call=r"ShardedDatasetWriter[^$]*w\.spec"),
    Documented("A failed `fn` prints its traceback", call="loader"),
    Documented("A mask is a dict (0.20) or a tuple of keys (0.24)", call=r"\('id',\)|\['id'\]"),
)
