"""Results of `mxnet.recordio`: ``mxnet_recordio.py PACKAGE FOLDER PHOTO…``. The same for both packages.

It also leaves files in FOLDER, whose digests it prints.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import sys
from pathlib import Path

import numpy as np


def digest(data: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(data).hexdigest()[:16]


def raises(kind, call) -> str:  # noqa: ANN001
    """Return whether a call raises an exception of this type."""
    try:
        return f"nothing: {call()!r}"
    except Exception as error:
        return kind.__name__ if isinstance(error, kind) else repr(error)


def main() -> None:
    """Print a line per test."""
    recordio = importlib.import_module(f"{sys.argv[1]}.recordio")
    folder, photos = sys.argv[2], sys.argv[3:]
    rec, idx = os.path.join(folder, "a.rec"), os.path.join(folder, "a.idx")
    magic = bytes.fromhex("0a23d7ce")
    random.seed(5)
    records = [b"", b"a", b"abcd", b"abcde", magic, b"xy" + magic + b"zz", b"wxyz" + magic + b"q", magic * 2]
    records += [magic + b"k" + magic + b"123", bytes(1000)]
    for _ in range(200):
        words = [random.choice([magic, b"1234", b"\0\0\0\0", b"q"]) for _ in range(random.randrange(12))]
        records.append(b"".join(words))

    writer = recordio.MXRecordIO(rec, "w")
    for record in records:
        writer.write(record)
    print(
        "write",
        writer.is_open,
        writer.writable,
        raises(AssertionError, writer.read),
        raises(TypeError, lambda: writer.write("text")),
    )
    writer.close()
    writer.close()
    print("bytes", digest(Path(rec).read_bytes()))
    reader = recordio.MXRecordIO(rec, "r")
    found = []
    while (record := reader.read()) is not None:
        found.append(record)
    print("read", found == records, reader.read(), reader.read())
    reader.reset()
    print("reset", reader.read() == records[0], reader.read() == records[1])
    reader.close()
    print("empty", recordio.MXRecordIO(rec, "w").close(), recordio.MXRecordIO(rec, "r").read())

    writer = recordio.MXIndexedRecordIO(idx, rec, "w")
    places = [writer.tell()]
    for number, record in enumerate(records):
        writer.write_idx(3 * number, record)
        places.append(writer.tell())
    print("tell", places[:12], places[-1], raises(ValueError, lambda: writer.write_idx("no number", b"")))
    writer.close()
    print("indexed", digest(Path(rec).read_bytes()), digest(Path(idx).read_bytes()))
    reader = recordio.MXIndexedRecordIO(idx, rec, "r")
    print("keys", reader.keys[:5], list(reader.idx.items())[:5], len(reader.keys))
    print("by key", all(reader.read_idx(3 * number) == record for number, record in enumerate(records)))
    reader.seek(9)
    print("seek", reader.read() == records[3], reader.read() == records[4])
    reader.read_idx(12)
    print("after", reader.read() == records[5])
    print(
        "wrong",
        raises(KeyError, lambda: reader.read_idx(1)),
        raises(KeyError, lambda: reader.seek("a")),
        raises(AssertionError, reader.tell),
    )
    print(
        "wrong",
        raises(AssertionError, lambda: reader.write_idx(1, b"")),
        raises(AssertionError, lambda: reader.write(b"")),
    )
    reader.reset()
    print("reset", reader.read() == records[0])
    reader.close()
    writer = recordio.MXIndexedRecordIO(idx, rec, "w", key_type=str)
    for key in ("cat/1", "dog 2", "é", "cat/1"):
        writer.write_idx(key, key.encode())
    writer.close()
    print("text keys", digest(Path(idx).read_bytes()))
    reader = recordio.MXIndexedRecordIO(idx, rec, "r", key_type=str)
    print("twice", reader.keys, reader.idx, [reader.read_idx(key) for key in reader.keys])
    print("flag", raises(ValueError, lambda: recordio.MXRecordIO(rec, "x")))
    with open(rec, "r+b") as file:
        file.truncate(os.path.getsize(rec) - 8)
    cut = recordio.MXRecordIO(rec, "r")
    print("cut", cut.read(), cut.read(), cut.read(), raises(RuntimeError, cut.read))

    header = recordio.IRHeader
    for label in (4, 4.5, True, np.float32(0.1), [2, 3], [], [[1, 2], [3, 4]], np.array(7.0), 16777217, 1e40, (1e40,)):
        packed = recordio.pack(header(9, label, 2574, 1), b"IMG")
        got, image = recordio.unpack(packed)
        print("pack", packed.hex(), got.flag, np.asarray(got.label).tolist(), got.id, got.id2, image)
    print(recordio.unpack(recordio.pack(header(0, [2, 3], 2, 0), b"x"))[0])
    print(recordio.unpack(recordio.pack((0, 1, 2, 3), b""))[0])
    print("short", raises(ValueError, lambda: recordio.unpack(recordio.pack((0, [1, 2], 3, 4), b"")[:30])))

    for path in photos:
        content = Path(path).read_bytes()
        for flag in (-1, 0, 1):
            _, image = recordio.unpack_img(recordio.pack((0, 1, 2, 3), content), flag)
            print("decoded", flag, None if image is None else (image.shape, str(image.dtype), digest(image.tobytes())))
        _, image = recordio.unpack_img(recordio.pack((0, 1, 2, 3), content))
        if image is None:
            continue
        for quality in (95, 50, 7):
            print("encoded", quality, digest(recordio.pack_img((0, 1, 2, 3), image, quality, ".jpg")))
        print("default", digest(recordio.pack_img((0, 1, 2, 3), image)))
        _, again = recordio.unpack_img(recordio.pack_img((0, 1, 2, 3), image, 3, ".png"))
        print("png", again.shape == image.shape and bool((again == image).all()))


if __name__ == "__main__":
    main()
