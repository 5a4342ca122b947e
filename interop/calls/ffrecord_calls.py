"""Calls of FFRecord 1.4.0."""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

from original import Setup

SETUP = Setup(
    package="ffrecord",
    environment="ffrecord",
    mapped={"ffrecord": "bushel.compat.ffrecord"},
    page="compat-ffrecord.md",
    modules=("ffrecord", "ffrecord.utils"),
    prelude="""
import ffrecord, pickle, pathlib
from ffrecord import FileReader, FileWriter, PackedFolder, pack_folder
from ffrecord.utils import dump
def write(name, records):
    with FileWriter(name, len(records)) as w:
        for record in records:
            w.write_one(record)
def lists(arrays):
    return [bytes(a) for a in arrays]
""",
)
ASSETS = (
    SETUP.prelude
    + """
write("a.ffr", [b"abc", b"", b"defgh" * 50, b"x" * 7, b"last"])
write("b.ffr", [b"one", b"two"])
write("none.ffr", [])
os.makedirs("many"); write("many/PART_1.ffr", [b"p", b"q", b"r"]); write("many/PART_0.ffr", [b"k", b"l"]); open("many/note.txt", "w").close()
os.makedirs("empty")
for name in ("tree/x/y", "tree/z", "tree/void"):
    os.makedirs(name)
for name in ("tree/b.txt", "tree/a.txt", "tree/x/1.bin", "tree/x/y/2.bin", "tree/z/3"):
    open(name, "w").write(name * 3)
pack_folder("tree", "packed.ffr")
data = bytearray(open("a.ffr", "rb").read())
data[-2] ^= 255; open("flip.ffr", "wb").write(data)
open("cut.ffr", "wb").write(data[:-30]); open("text.ffr", "w").write("no records here"); open("void.ffr", "w").close()
open("a.bin", "wb").write(data)
"""
)
TABLES = {
    "file": ("a.ffr", "a.ffr", "a.ffr", "b.ffr", "none.ffr", "many", "packed.ffr", "<odd>"),
    "odd": ("empty", "missing.ffr", "a.bin", "flip.ffr", "a.ffr/x"),
    "source": (
        "'<file>'",
        "'<file>'",
        "'<file>'",
        "pathlib.Path('<file>')",
        "['<file>']",
        "['a.ffr', 'b.ffr']",
        "('b.ffr', 'a.ffr')",
        "['<file>', 'b.ffr']",
        "[]",
        "()",
        "None",
        "5",
        "[None]",
        "{'a.ffr'}",
        "b'a.ffr'",
        "''",
    ),
    "check": ("", "", "", ", check_data=False", ", False", ", check_data=True", ", 1"),
    "index": ("0", "1", "2", "3", "4", "6", "np.int64(1)", "True"),
    "wrong": ("5", "7", "99", "2 ** 40", "1.0", "'0'", "None", "[0]"),
    "indices": (
        "[<index*>]",
        "[<index*>]",
        "[<index>, <index>]",
        "(<index>, 0)",
        "np.array([0, 1])",
        "np.array([1], np.int32)",
        "range(2)",
        "[0, <wrong>]",
        "[]",
        "0",
        "None",
        "'01'",
        "[0, 0, 0]",
        "np.array([[0]])",
        "{0}",
        "np.array([], int)",
        "[0.0]",
    ),
    "look": (
        "lists(x.read(<indices>))",
        "lists(x.read(<indices>))",
        "lists(x.read(<indices>))",
        "bytes(x.read_one(<index>))",
        "bytes(x.read_one(<index>))",
        "x.read_one(<wrong>)",
        "x.n",
        "x.fnames",
        "x.check_data",
        "x.validate()",
        "x.read([0])[0]",
        "np.asarray(x.get_offsets(0)).tolist()",
        "np.asarray(x.get_checksums(0)).tolist()",
        "pickle.loads(pickle.dumps(x)).n",
        "x.close()\nx.close()",
        "len(np.asarray(x.get_offsets(1)))",
        "[bytes(x.read_one(i)) for i in range(x.n)]",
        "x.read_one(0).dtype, x.read_one(0).flags.writeable",
    ),
    "target": (
        "'new.ffr'",
        "'new.ffr'",
        "'a.ffr'",
        "pathlib.Path('new.ffr')",
        "'new.bin'",
        "'new'",
        "None",
        "5",
        "b'new.ffr'",
        "'no/where.ffr'",
    ),
    "n": ("0", "1", "2", "2", "3", "np.int64(2)", "True", "1.0", "None", "'2'", "-1"),
    "record": (
        "b''",
        "b'abc'",
        "b'x' * 100",
        "bytearray(b'ab')",
        "memoryview(b'abc')",
        "np.arange(5, dtype=np.uint8)",
        "np.zeros(0, np.uint8)",
        "<badrecord>",
    ),
    "badrecord": ("'text'", "None", "5", "[1, 2]", "np.arange(6, dtype=np.uint8).reshape(2, 3)", "np.arange(3)"),
    "wact": (
        "w.write_one(<record>)",
        "w.write_one(<record>)",
        "w.write_one(<record>)",
        "w.n, w.count",
        "w.write_one(b'abc')",
    ),
    "path": (
        "'a.txt'",
        "'b.txt'",
        "'x/1.bin'",
        "'x/y/2.bin'",
        "'x'",
        "'void'",
        "'none'",
        "'x/none'",
        "''",
        "'.'",
        "pathlib.Path('x/1.bin')",
        "'a.txt/b'",
        "None",
        "5",
        "'x/'",
        "'z/3'",
    ),
    "flags": ("", "", ", list_file=False", ", list_dir=False", ", recursive=True", ", recursive=True, list_dir=False"),
    "packed": (
        "'packed.ffr'",
        "'packed.ffr'",
        "'packed.ffr'",
        "'packed.ffr'",
        "'a.ffr'",
        "'none.ffr'",
        "'missing.ffr'",
        "pathlib.Path('packed.ffr')",
    ),
    "plook": (
        "x.exists(<path>)",
        "x.is_file(<path>)",
        "x.is_dir(<path>)",
        "bytes(x.read_one(<path>))",
        "lists(x.read([<path>, <path>]))",
        "lists(x.read([<path*>]))",
        "x.read(<path>)",
        "sorted(map(str, x.list(<path><flags>)))",
        "sorted(map(str, x.list()))",
        "x.num_files()",
        "x.list(<path>)",
    ),
    "folder": ("'tree'", "'tree/x'", "'empty'", "'many'", "'missing'", "'a.ffr'", "pathlib.Path('tree')", "None"),
    "data": (
        "[b'a', b'bb', b'ccc']",
        "[b'a']",
        "[]",
        "[bytes([i]) for i in range(7)]",
        "(b'x', b'y')",
        "{0: b'a', 1: b'b'}",
        "[1, 2]",
        "None",
        "5",
    ),
    "files": ("1", "1", "2", "3", "7", "9", "0", "-1"),
}
TEMPLATES = {
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(3) as pool:\n    y = list(pool.map(lambda i: bytes(FileReader('<file>').read_one(i % 2)), range(5)))\ny": 4,
    "x = FileReader(<source><check>)\n<look>": 45,
    "x = FileReader('a.ffr'<check>)\n<look>\n<look>": 30,
    "x = FileReader('<file>'<check>)\n<look>": 12,
    "x = FileReader(<source>)\nx.close()\nx.n": 2,
    "w = FileWriter(<target>, <n>)\nw.n, w.count": 5,
    "w = FileWriter('new.ffr', 2)\n<wact>\n<wact>\nw.close()": 14,
    "with FileWriter('new.ffr', 3) as w:\n    <wact>\n    <wact>\n    <wact>": 10,
    "w = FileWriter('new.ffr', 1)\nw.write_one(<record>)\nw.close()\nbytes(FileReader('new.ffr').read_one(0))": 6,
    "w = FileWriter('new.ffr', <n01>)\nw.write_one(b'x')\nw.write_one(b'y')\nw.close()": 1,
    "w = FileWriter('a.ffr', 1)\nos.path.exists('a.ffr')\nw.write_one(b'x')\nw.close()": 1,
    "x = PackedFolder(<packed><check>)\n<plook>": 30,
    "pack_folder(<folder>, 'out.ffr')\nsorted(map(str, PackedFolder('out.ffr').list(recursive=True)))": 8,
    "pack_folder('tree', 'out.ffr', verbose=True)": 1,
    "pack_folder('tree', <target>)": 3,
    "dump(<data>, 'out.ffr', 1)": 3,
    "dump(<data>, 'outs', <files>)\nsorted(os.listdir('outs'))": 6,
}
TABLES["n01"] = ("2", "np.int64(2)")
