"""Calls of Granular 0.24.2."""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

import granular_common as common
from grammar import extended
from original import Setup

SETUP = Setup(
    package="granular",
    environment="granular-c",
    mapped={"granular": "bushel.compat.granular.v24"},
    page="compat-granular.md",
    modules=("granular", "granular.sources"),
    prelude="import granular\nE = granular\n"
    + common.PRELUDE
    + common.LOADER
    + """
SPEC = {"id": "int", "name": "utf8", "data": "array"}
def write(folder, count, first=0, **more):
    with granular.DatasetWriter(folder, SPEC, granular.encoders) as w:
        for number in range(first, first + count):
            w.append(point(number))
def shards(folder, count, length):
    with granular.ShardedDatasetWriter(folder, SPEC, granular.encoders, shardlen=length) as w:
        for number in range(count):
            w.append(point(number))
def scalar(step): return {"i": step}
def pair(step): return {"i": np.arange(step, step + 2)}
class Steps:
    def __call__(self, step): return {"i": np.int64(step * 3)}
def first(loader, count, keys=("i",)):
    batches = []
    for number, batch in enumerate(loader):
        batches.append({k: np.asarray(v).copy() for k, v in batch.items()})
        if number + 1 == count:
            break
    loader.close()
    return batches
""",
)
ASSETS = (
    SETUP.prelude
    + """
write("d5", 5)
write("d1", 1)
write("d0", 0)
shards("s7", 7, 3)
shards("s4", 4, 2)
with granular.BagWriter("r.bag") as w:
    for number in range(6):
        w.append(bytes([number]) * number)
with granular.BagWriter("none.bag") as w:
    pass
with granular.DatasetWriter("media", {"a": "jpg", "b": "png", "c": "tree", "d": "msgpack", "e": "bytes"}, granular.encoders) as w:
    for i in range(3):
        w.append({"a": picture(i), "b": picture(i, 4, 4), "c": {"x": np.arange(i)}, "d": [i, "x"], "e": b"z" * i})
import shutil
shutil.copytree("d5", "torn"); open("torn/id.idx", "r+b").truncate(28)
shutil.copytree("d5", "ahead"); open("ahead/id.idx", "r+b").truncate(24); open("ahead/data.idx", "r+b").truncate(24)
shutil.copytree("d5", "short"); open("short/name.bag", "r+b").truncate(3)
os.makedirs("junk"); open("junk/spec.json", "w").write("{")
os.makedirs("vacant")
"""
)
TABLES = {
    **extended(
        common.OF_GRANULAR,
        {
            "dataset": ("d5", "d5", "d5", "d1", "d0", "media"),
            "odd": ("ahead", "s4"),
            "sharded": ("s7", "s7", "s4", "d5", "vacant"),
            "index": ("range(7, 100)", "slice(4, 100)", "slice(5, 5)", "slice(1, None)", "slice(0, 4, 2)"),
            "keys": (
                "('id',)",
                "('name', 'id')",
                "['data']",
                "()",
                "('nope',)",
                "{'id': True}",
                "'id'",
                "None",
                "('id', 'id')",
                "('data', 'name')",
            ),
            "decoders": ("{'int': bool}",),
            "more": (", cache_keys=['data']", ", cache_index=False, parallel=True"),
            "look": (
                "x[<index>, <keys>]",
                "x.copy()[0]",
                "pickle.loads(pickle.dumps(x))[0]",
                "x.closed",
                "x[0], x.close()",
                "x.close()",
            ),
            "range": (", shardstart=-1",),
            "spec": (
                "{}",
                "{'_': 'int'}",
                "{1: 'int'}",
                "{'a': 'array'}",
                "{'a b': 'int'}",
                "{'__key__': 'utf8', 'x': 'int'}",
            ),
            "encoders": ("{**granular.encoders, 'int': lambda x: b'%d' % x}",),
            "datapoint": (
                "point(<small>)",
                "{'a': b'x', 'b': b''}",
                "None",
                "{**point(1), 'name': <value>}",
                "{**point(2), 'data': <value>}",
            ),
            "put": ("w.append(<datapoint>, flush=False)\n", "len(w), w.size\n"),
            "end": (
                "w.close()\nlen(w)",
                "w.close()\nlen(granular.DatasetReader('<target#>', granular.decoders))",
                "w.close()\nw.closed",
                "w.close(); w.close()",
                "w.size",
            ),
            "send": (
                "w.close()\nlen(w), w.shards",
                "w.close()",
                "w.shards, w.size",
                "w.close()\nlen(granular.ShardedDatasetReader('<starget#>', granular.decoders))",
            ),
            "starget": ("new", "s7", "s4", "vacant", "a/b"),
            "length": (", shardlen=None", ", shardlen=0", ", shardlen=2, shardstart=-1"),
            "record": ("b''", "bytearray(b'x')"),
            "bag": ("none.bag", "torn/id.bag"),
            "bagmore": (
                "",
                "",
                ", cache_index=False",
                ", cache_data=True",
                ", single_file=True",
                ", idx_source='r.idx'",
                ", cache_data=True, cache_index=False",
            ),
            "baglook": ("x.copy()[0]", "list(x)", "x.close()\nx[0]", "pickle.loads(pickle.dumps(x))[1]"),
            "source": (
                "Steps()",
                "Steps()",
                "lambda step: {'i': np.int64(step)}",
                "lambda step: {'i': np.arange(step, step + 2)}",
                "lambda step: {'i': step}",
            ),
            "workers": ("", ", workers=1", ", workers=3", ", prefetch=1, workers=2", ", workers=2, prefetch=4"),
            "hosts": (
                "",
                "",
                ", shard_id=0, num_shards=2",
                ", shard_id=1, num_shards=2",
                ", shard_id=2, num_shards=3",
                ", shard_id=3, num_shards=2",
            ),
            "state": ("{'step': 0}", "{'step': 3}", "{'step': 7}", "{'step': 30}", "{}", "{'step': -1}"),
            "chain": (
                "sources.Epochs(Source(5))",
                "sources.Epochs(Source(5), shuffle=False)",
                "sources.Epochs(Source(7), shuffle=True, seed=3)",
                "sources.Transform(Source(5), lambda x, seed: {**x, 'y': seed[1]})",
                "sources.Sample(Source(5))",
                "sources.Interleave([Source(5), Source(3)])",
                "sources.Mix([Source(5), Source(3)], [0.5, 0.5])",
                "sources.Truncate(Source(9), 2)",
                "sources.Epochs(sources.Transform(Source(4), lambda x, seed: x), length=4)",
            ),
        },
    ),
    "any": ("<dataset>", "<dataset>", "<dataset>", "<odd>"),
    "target": ("new", "d5", "d0", "ahead", "torn", "a/b/c", "r.bag", "media"),
}
TEMPLATES = {
    **common.GRANULAR_TEMPLATES,
    "list(granular.encoders), list(granular.decoders)": 1,
    "x = granular.DatasetReader('d5', granular.decoders<more>)\nx[<index>]": 16,
    "w = granular.ShardedDatasetWriter('<starget#>', <spec>, <encoders><length>)\n<put><put><put><send>": 14,
    "w = granular.BagWriter('new.bag')\nw.append(<record>)\nw.append(<record>, flush=False)\nlen(w), w.size\nw.close()": 5,
    "w = granular.BagWriter('r.bag')\nw.append(<record>)\nlen(w), w.size\nw.close()\ngranular.BagReader('r.bag')[6]": 4,
    "first(loader(<source>, <batch><workers><hosts>), <batch>)": 12,
    "x = loader(<source#>, <batch#><workers>)\ny = first(x, 2)\nx.save()": 3,
    "x = loader(<source>, <batch><workers>)\nx.load(<state>)\nx.save(), first(x, 2)": 6,
    "from granular import sources\nx = <chain>\n[x(step) if callable(x) else x[step] for step in range(4)]": 6,
    "from granular import sources\nfirst(loader(<chain>, <batch>), 3)": 4,
}
