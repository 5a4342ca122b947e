"""What the calls of both versions of Granular, and of bags, have in common: the package is `E`."""

# ruff: noqa: E501 calls are easier to read in one line

from __future__ import annotations

PRELUDE = """
import json, pathlib, pickle
def picture(seed, *shape):
    return np.random.RandomState(seed).randint(0, 256, shape or (6, 8, 3)).astype(np.uint8)
def point(number):
    return {"id": number, "name": f"n{number}", "data": np.arange(number, dtype=np.float32)}
"""

LOADER = """
class Source:
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, index): return {"i": np.int64(index), "x": np.full(2, index, np.float32)}
def loader(source, batch, **more):
    import multiprocessing
    return granular.Loader(source, batch, mp=multiprocessing.get_context("fork"), **{"workers": 2, "prefetch": 2, **more})
"""

BROKEN = """
with E.BagWriter("r.bag") as w:
    for number in range(1, 6):
        w.append(bytes([number]) * number)
import shutil
shutil.copytree("d5", "short"); open("short/name.bag", "r+b").truncate(9)
shutil.copytree("d5", "torn"); os.remove("torn/refs.bag")
os.makedirs("junk"); open("junk/spec.json", "w").write("{")
os.makedirs("vacant")
"""
"""A bag, and datasets with damage, made of `d5`, in generations A and B."""

TABLES = {
    "cut": ("2", "50", "-1", "9999"),
    "value": (
        "0",
        "1",
        "127",
        "128",
        "255",
        "32767",
        "65536",
        "-1",
        "-129",
        "2 ** 40",
        "2 ** 63",
        "2 ** 64",
        "2 ** 200",
        "True",
        "1.5",
        "None",
        "'text'",
        "'ü€'",
        "''",
        "'\\ud800'",
        "b'abc'",
        "b''",
        "bytearray(b'ab')",
        "memoryview(b'ab')",
        "[1, 2]",
        "(1, 'x')",
        "{'a': 1}",
        "{'a': [1, (2, 3)], 'b': None}",
        "{1: 2}",
        "[]",
        "{}",
        "np.arange(3)",
        "np.arange(6.).reshape(2, 3)",
        "np.zeros((0, 3), np.int8)",
        "np.array(5)",
        "np.float32(1.5)",
        "np.int64(3)",
        "np.array(['a', 'bc'])",
        "np.array([1, None])",
        "np.arange(6).reshape(2, 3).T",
        "np.arange(10)[::2]",
        "np.arange(4, dtype='>i4')",
        "np.array([(1, 2.)], [('a', 'i4'), ('b', 'f8')])",
        "np.array(['2020-01-01'], 'M8[D]')",
        "np.array([True, False])",
        "picture(1)",
        "picture(2, 5, 7)",
        "picture(3, 5, 7, 4)",
        "picture(3, 5, 7, 1)",
        "picture(4) > 99",
        "picture(4, 5, 7) > 99",
        "picture(5).astype(np.float32)",
        "picture(6).astype(np.uint16)",
        "picture(6, 4, 4).astype(np.uint16)",
        "picture(7, 9)",
        "picture(8)[:, ::2]",
        "np.zeros((0, 0, 3), np.uint8)",
        "object()",
        "[np.arange(3), {'x': np.ones(2)}]",
        "float('nan')",
        "'_'",
        "['_', '<i4', [1], b'abcd']",
        "picture(9, 2, 6, 8, 3)",
        "lambda x: x",
        "3 + 4j",
    ),
    "bytes": (
        "b''",
        "b'a'",
        "b'\\x00'",
        "b'\\xff'",
        "b'abc'",
        "b'\\xff\\xfe'",
        "b'12345678'",
        "b'123456789'",
        "b'0123456789abcdef'",
        "b'0123456789abcdefg'",
        "b'\\x93\\xa3<i4\\x91\\x02\\xc4\\x08abcdefgh'",
        "b'\\x93\\xa3<i4\\x91\\x03\\xc4\\x08abcdefgh'",
        "b'\\xc1'",
        "b'\\x81\\xa1a'",
        "b'\\x93\\xa3???\\x91\\x03\\xc4\\x00'",
        "b'\\xff\\xd8\\xff'",
        "b'\\x89PNG\\r\\n'",
        "bytearray(b'abcdefgh')",
        "memoryview(b'abcdefgh')",
        "'text'",
        "None",
        "5",
        "E.encoders['jpg'](picture(1))[:<cut>]",
        "E.encoders['png'](picture(1))[:<cut>]",
        "E.encoders['msgpack'](<value>)",
        "E.encoders['array'](<value>)",
    ),
    "type": (
        "bytes",
        "utf8",
        "msgpack",
        "int",
        "png",
    ),
    "index": (
        "0",
        "1",
        "2",
        "4",
        "5",
        "-1",
        "99",
        "None",
        "1.0",
        "'x'",
        "True",
        "np.int64(1)",
        "[0]",
        "slice(0, 2)",
        "slice(None)",
    ),
    "decoders": (
        "E.decoders",
        "E.decoders",
        "E.decoders",
        "None",
        "{}",
        "{**E.decoders, 'int': str}",
    ),
    "odd": (
        "torn",
        "short",
        "junk",
        "vacant",
        "nowhere",
        "r.bag",
    ),
    "any": (
        "<dataset>",
        "<dataset>",
        "<dataset>",
        "<dataset>",
        "<odd>",
    ),
    "look": (
        "x[<index>]",
        "x[<index>]",
        "len(x)",
        "x.spec",
        "x.size",
        "[x[i] for i in range(len(x))]",
    ),
    "spec": (
        "SPEC",
        "{'a': 'int'}",
        "{'a': 'utf8', 'b': 'bytes'}",
        "{'A': 'int'}",
        "{'a': 'Int'}",
        "{'a': 'nope'}",
        "{'a': 'int[]'}",
    ),
    "encoders": (
        "E.encoders",
        "E.encoders",
        "E.encoders",
        "None",
        "{}",
        "{'int': str}",
    ),
    "datapoint": (
        "point(<small>)",
        "point(<small>)",
        "{'a': <value>}",
        "{'a': <value>}",
        "{'a': 'x', 'b': <value>}",
        "{}",
        "[1]",
        "{'id': 1}",
        "{**point(1), 'id': <value>}",
        "{**point(1), 'x': 1}",
    ),
    "small": (
        "0",
        "1",
        "2",
        "3",
        "5",
    ),
    "put": (
        "w.append(<datapoint>)\n",
        "w.append(point(<small>))\n",
        "w.append(point(<small>))\nw.append(point(<small>))\n",
        "w.spec\n",
        "w.flush()\n",
    ),
    "target": (
        "new",
        "new",
        "d5",
        "a/b",
        "vacant",
    ),
    "record": (
        "b'abc'",
        "b'\\x00' * 9",
        "'text'",
        "None",
        "5",
    ),
    "bag": (
        "r.bag",
        "r.bag",
        "missing.bag",
        "d5/id.bag",
        "d5/spec.json",
        "short/name.bag",
    ),
    "baglook": (
        "x[<index>]",
        "x[<index>]",
        "x[<index>]",
        "len(x)",
        "x.size",
    ),
}
"""Choices that suit all three. A package adds its own."""

TEMPLATES = {
    "E.encoders['<type>'](<value>)": 26,
    "E.decoders['<type>'](<bytes>)": 16,
    "E.decoders['<type#>'](E.encoders['<type#>'](<value>))": 22,
    "x = E.DatasetReader('<any>', <decoders><more>)\n<look>": 34,
    "w = E.DatasetWriter('<target#>', <spec>, <encoders>)\n<put><put><end>": 24,
    "w = E.DatasetWriter('<target#>', SPEC, E.encoders)\n<put><put><put><end>": 12,
}

MASKS = {
    "part": (
        "True",
        "True",
        "False",
        "range(0, 2)",
        "range(1, 2)",
        "slice(0, 2)",
        "slice(1, 9)",
        "range(0, 0)",
        "range(5, 9)",
        "slice(None)",
        "range(2, 1)",
        "None",
        "1",
    ),
    "mask": (
        "{'id': <part>}",
        "{'frames': <part>}",
        "{'id': True, 'frames': <part>}",
        "{}",
        "{'nope': True}",
        "('id',)",
        "None",
        "{'name': <part>}",
    ),
}
"""Parts of datapoints with sequences, which 0.24 does not have."""

OF_GRANULAR = {
    **TABLES,
    "more": (
        "",
        "",
        "",
        ", cache_index=False",
        ", cache_keys=('id',)",
        ", cache_keys=('nope',)",
        ", cache_keys='id'",
        ", parallel=True",
        ", parallel=True, cache_keys=('name',)",
    ),
    "range": (
        "",
        ", shardstart=1",
        ", shardstep=2",
        ", shardstart=1, shardstep=2",
        ", shardstart=9",
        ", shardstep=0",
    ),
    "length": (
        "",
        ", shardlen=2",
        ", 1",
        ", 3, 1, 2",
        ", shardstart=1",
    ),
    "batch": (
        "1",
        "2",
        "3",
        "4",
        "7",
    ),
    "type": (*TABLES["type"], "i64", "u64", "array", "tree", "jpg"),
    "index": (
        *TABLES["index"],
        "6",
        "range(0, 3)",
        "range(2, 5)",
        "range(0, 100)",
        "range(5, 100)",
        "range(0, 0)",
        "range(3, 1)",
        "range(0, 4, 2)",
        "slice(0, 100)",
        "slice(3)",
        "slice(-2, 2)",
        "slice(0, 4, 1)",
    ),
}
"""Choices that suit both versions of Granular."""

GRANULAR_TEMPLATES = {
    **TEMPLATES,
    "x = granular.ShardedDatasetReader('<sharded>', <decoders><more><range>)\n<look>": 18,
    "x = granular.ShardedDatasetReader('s7', granular.decoders<more><range>)\nx.shards, len(x)": 3,
    "x = granular.BagReader('<bag>'<bagmore>)\n<baglook>": 16,
    "x = loader(<source>, <batch>)\ny = first(x, 2)\nx.save()": 3,
}
