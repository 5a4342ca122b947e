"""Lines of JSON and records of CSV for tests of their scans."""

from __future__ import annotations

import json

__all__ = ["CELLS", "LINES"]

LINES = b"".join(
    json.dumps({"a": i, "text": 'x"\\' * (i % 40), "list": [[i, {"k": "]}" * (i % 7)}]] * (i % 5), "f": i / 7}).encode()
    + b"\n" * (1 + i % 3)
    for i in range(200)
)
CELLS = b"".join(b'%d,"t, ""%d""\n%s",%s\n' % (i, i, b"z" * (i % 50), b"y" * (i % 40)) for i in range(200))
