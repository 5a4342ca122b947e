"""What the calls of both versions of Granular, and of bags, have in common."""

from __future__ import annotations

from compare_calls import Documented

PRELUDE = """
import json, pathlib, pickle
def picture(seed, *shape):
    return np.random.RandomState(seed).randint(0, 256, shape or (6, 8, 3)).astype(np.uint8)
def point(number):
    return {"id": number, "name": f"n{number}", "data": np.arange(number, dtype=np.float32)}
"""

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
