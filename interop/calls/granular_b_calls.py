"""Calls of Granular 0.20.3."""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

import granular_common as common
from grammar import extended
from original import Setup

SETUP = Setup(
    package="granular",
    environment="granular-b",
    mapped={"granular": "bushel.compat.granular"},
    page="compat-granular.md",
    modules=("granular",),
    prelude="import granular\nE = granular\n"
    + common.PRELUDE
    + common.LOADER
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
write("d5", 5)
write("d1", 1)
write("f6", 6, {"id": "int", "name": "utf8"}, flat)
with granular.ShardedDatasetWriter("s7", SPEC, granular.encoders, shardlen=3) as w:
    for number in range(7):
        w.append(point(number))
with granular.DatasetWriter("media", {"a": "jpg", "b": "png[]", "c": "tree", "d": "msgpack", "e": "bytes"}, granular.encoders) as w:
    for i in range(3):
        w.append({"a": picture(i), "b": [picture(i, 4, 4)] * i, "c": {"x": np.arange(i)}, "d": [i, "x"], "e": b"z" * (i + 1)})
"""
    + common.BROKEN
)
TABLES = extended(
    common.OF_GRANULAR,
    common.MASKS,
    {
        "dataset": ("d5", "d5", "f6", "d1", "media"),
        "odd": ("s7",),
        "part": ("'x'",),
        "mask": ("['id']",),
        "more": (", cache_keys=['refs']",),
        "look": (
            "x[<index>, <mask>]",
            "x[<index>, <mask>]",
            "x.available(<index>)",
            "x.copy()[0]",
            "pickle.loads(pickle.dumps(x))[0]",
            "x[0], x.close()",
        ),
        "spec": ("{'_': 'int'}", "{1: 'int'}", "{'a': 'array', 'b': 'jpg[]'}"),
        "datapoint": (
            "{'a': [1, 2]}",
            "None",
            "{**point(2), 'frames': <value>}",
            "{**point(2), 'frames': [<value>]}",
        ),
        "put": ("len(w)\n",),
        "end": (
            "w.close()\nlen(w), w.size",
            "w.close()\nlen(granular.DatasetReader('<target#>', granular.decoders))",
            "w.close()\nw.closed",
        ),
        "starget": ("new", "new", "s7", "vacant"),
        "record": ("bytearray(b'x')", "b'y'"),
        "bag": ("d5/refs.bag",),
        "baglook": ("x.copy()[0]", "pickle.loads(pickle.dumps(x))[1]"),
        "source": (
            "Source(5)",
            "Source(23)",
            "granular.DatasetReader('f6', {'int': granular.decoders['int'], 'utf8': len})",
        ),
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
        "state": (
            "{'step': 0}",
            "{'step': 3}",
            "{'step': 8}",
            "{'step': 0, 'seed': 4}",
            "{'step': 6, 'seed': 0}",
            "{}",
        ),
        "sharded": ("s7", "s7", "s7", "d5", "vacant"),
        "bagmore": ("", "", ", cache_index=False", ", cache_data=True"),
    },
)
TEMPLATES = {
    **common.GRANULAR_TEMPLATES,
    "x = granular.DatasetReader('d5', granular.decoders<more>)\nx[<index>, <mask>]": 22,
    "x = granular.DatasetReader('f6', granular.decoders<more>)\nx[<index>]": 12,
    "w = granular.ShardedDatasetWriter('<starget#>', <spec>, <encoders><length>)\n<put><put><put>w.close()\nlen(w), w.shards": 14,
    "w = granular.BagWriter('new.bag')\nw.append(<record>)\nw.append(<record>)\nlen(w), w.size\nw.close()": 5,
    "granular.BagWriter('r.bag')": 1,
    "x = granular.BagReader(open('r.bag', 'rb').read())\n<baglook>": 3,
    "first(loader(<source>, <batch><fns><hosts>), <batch>)": 16,
    "x = loader(<source>, <batch><fns>)\ny = first(x, 2)\nx.save()": 3,
    "x = loader(<source>, <batch><fns>)\nx.load(<state>)\nx.save(), first(x, 2)": 5,
}
