"""What the calls of both versions of Granular, and of bags, have in common."""

# ruff: noqa: E501 calls are easier to read in one line

from __future__ import annotations

from compare_calls import Documented

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

TYPE = ("bytes", "utf8", "msgpack", "int", "png")
MORE_TYPE = ("i64", "u64", "array", "tree", "jpg")
ODD = ("torn", "short", "junk", "vacant", "nowhere", "r.bag")
ANY = ("<dataset>", "<dataset>", "<dataset>", "<dataset>", "<odd>")
INDEX = (
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
)
MORE_INDEX = (
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
)
PART = (
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
)
MASK = (
    "{'id': <part>}",
    "{'frames': <part>}",
    "{'id': True, 'frames': <part>}",
    "{}",
    "{'nope': True}",
    "('id',)",
    "None",
    "{'name': <part>}",
)
DECODERS = (
    "granular.decoders",
    "granular.decoders",
    "granular.decoders",
    "None",
    "{}",
    "{**granular.decoders, 'int': str}",
)
MORE = (
    "",
    "",
    "",
    ", cache_index=False",
    ", cache_keys=('id',)",
    ", cache_keys=('nope',)",
    ", cache_keys='id'",
    ", parallel=True",
    ", parallel=True, cache_keys=('name',)",
)
LOOK = ("x[<index>]", "x[<index>]", "len(x)", "x.spec", "x.size", "[x[i] for i in range(len(x))]")
RANGE = ("", ", shardstart=1", ", shardstep=2", ", shardstart=1, shardstep=2", ", shardstart=9", ", shardstep=0")
SPEC = (
    "SPEC",
    "{'a': 'int'}",
    "{'a': 'utf8', 'b': 'bytes'}",
    "{'A': 'int'}",
    "{'a': 'Int'}",
    "{'a': 'nope'}",
    "{'a': 'int[]'}",
)
ENCODERS = ("granular.encoders", "granular.encoders", "granular.encoders", "None", "{}", "{'int': str}")
DATAPOINT = (
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
)
SMALL = ("0", "1", "2", "3", "5")
PUT = (
    "w.append(<datapoint>)\n",
    "w.append(point(<small>))\n",
    "w.append(point(<small>))\nw.append(point(<small>))\n",
    "w.spec\n",
    "w.flush()\n",
)
TARGET = ("new", "new", "d5", "a/b", "vacant")
LENGTH = ("", ", shardlen=2", ", 1", ", 3, 1, 2", ", shardstart=1")
RECORD = ("b'abc'", "b'\\x00' * 9", "'text'", "None", "5")
BAG = ("r.bag", "r.bag", "missing.bag", "d5/id.bag", "d5/spec.json", "short/name.bag")
BAGLOOK = ("x[<index>]", "x[<index>]", "x[<index>]", "len(x)", "x.size")
BATCH = ("1", "2", "3", "4", "7")

VALUE = (
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
)
BYTES = (
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
)

GIVES = r'^(?!.*"raises")'
"""Pattern of an outcome without an error."""

SHARED = (
    Documented("A wrong index of a bag gives wrong bytes", dropin="OutOfRangeError"),
    Documented("NumPy integers are not accepted as indices", call=r"np\.int|np\.uint", original='"raises"'),
    Documented("A reader cannot be read after `close()`", call=r"close\(\)", dropin='"raises"'),
    Documented("A range of a sequence that begins after its end fails", call="range|slice", original='"raises"'),
    Documented("`reader[:3]` fails", call=r"slice\(None|slice\(\d+\)", original='"raises"'),
    Documented("`int` cannot encode 128 to 255", call=r"'int'|\['id'\]|int"),
    Documented("0.20 does not accept an empty value", call="b''", original='"raises"'),
    Documented("prints a line that names the key", original="Error (en|de)coding key"),
)
