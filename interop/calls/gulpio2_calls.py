"""Calls of GulpIO2 0.0.4."""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

from original import Setup

SETUP = Setup(
    package="gulpio2",
    environment="gulpio2",
    mapped={"gulpio2": "bushel.compat.gulpio2"},
    page="compat-gulpio2.md",
    modules=("gulpio2", "gulpio2.fileio", "gulpio2.utils", "gulpio2.adapters", "gulpio2.sanity_utils"),
    commands={
        "gulp2_sanity_check": "bin/gulp2_sanity_check",
        "gulp2_image_list": "bin/gulp2_image_list",
        "gulp2_image_folder": "bin/gulp2_image_folder",
    },
    prelude="""
import gulpio2, json, pickle
from gulpio2 import utils, fileio, adapters
from gulpio2.fileio import *
from gulpio2.fileio import ImgInfo, extract_input_for_getitem, calculate_chunk_slices
from gulpio2.fileio import json_serializer, pickle_serializer
def frame(seed, height=8, width=12, grey=False):
    shape = (height, width) if grey else (height, width, 3)
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)
class Adapter:
    def __init__(self, count, empty=(), grey=False):
        self.count, self.empty, self.grey = count, empty, grey
    def __len__(self):
        return self.count
    def iter_data(self, part=None):
        for number in range(*(part or slice(None)).indices(self.count)):
            frames = [] if number in self.empty else [frame(number + i, grey=self.grey) for i in range(number % 3 + 1)]
            yield {"id": number, "meta": {"label": number % 2}, "frames": frames}
""",
)

ASSETS = (
    SETUP.prelude.replace("from gulpio2.fileio import *", "from gulpio2.fileio import GulpChunk, GulpDirectory")
    + """
import os
def write(folder, chunks, serializer=json_serializer, **more):
    os.makedirs(folder, exist_ok=True)
    for number, items in enumerate(chunks):
        chunk = GulpChunk(f"{folder}/data_{number}.gulp", f"{folder}/meta_{number}.gmeta", serializer=serializer)
        with chunk.open("wb"):
            for id_, count in items:
                chunk.append(id_, {"label": str(id_), "n": count}, [frame(i, **more) for i in range(count)])
write("d", [[("a", 3), (1, 1), ("clip 2", 5)], [("z", 2), ("ü", 1)]])
write("grey", [[("a", 3), ("b", 2)]], grey=True)
write("one", [[("a", 1)]])
write("large", [[(i, i % 4 + 1) for i in range(25)], [(i, 1) for i in range(25, 40)]], height=5, width=5)
os.makedirs("empty")
write("pickled", [[("a", 2)]], serializer=pickle_serializer)
def broken(name, text, source="one"):
    import shutil
    shutil.copytree(source, name)
    open(f"{name}/meta_0.gmeta", "w").write(text)
good = open("one/meta_0.gmeta").read()
broken("bad0", "")
broken("bad1", "{")
broken("bad2", "[]")
broken("bad3", '{"a": {}}')
broken("bad4", '{"a": {"frame_info": [[0, 1]], "meta_data": [{}]}}')
broken("bad5", '{"a": {"frame_info": [[0, 0, 10]], "meta_data": [{}]}}')
broken("bad6", good.replace('"meta_data"', '"meta"'))
broken("bad7", '{"a": {"frame_info": [], "meta_data": []}}')
broken("bad8", '{"a": {"frame_info": [[0, 0, 100000]], "meta_data": [{"n": NaN}]}}')
broken("bad9", '{"a": null}')
broken("bad10", "null")
broken("bad11", '{"a": {"frame_info": [["0", 0, 3]], "meta_data": [{}]}}')
broken("bad12", '{"a": {"frame_info": [[-5, 0, 3]], "meta_data": [{}]}}')
broken("bad13", "\\u00fc")
os.makedirs("unpaired"); open("unpaired/data_0.gulp", "w").close()
os.makedirs("images")
from PIL import Image
for name, mode in (("a.jpg", "RGB"), ("b.png", "RGB"), ("c.jpg", "L"), ("d.jpeg", "RGB")):
    Image.fromarray(frame(3, 20, 30)).convert(mode).save(f"images/{name}")
open("images/list.csv", "w").write("a.jpg,cat\\nb.png,dog\\nc.jpg,cat\\n")
for label in ("cat", "dog"):
    os.makedirs(f"labelled/{label}")
    for number in range(3):
        Image.fromarray(frame(number, 20, 30)).save(f"labelled/{label}/{number}.jpg")
open("label2idx.json", "w").write('{"cat": 0}')
"""
)


TABLES = {
    "good": ("d", "d", "grey", "one", "large"),
    "folder": ("<good>", "<good>", "<good>", "<odd>"),
    "odd": ("empty", "pickled", "unpaired", *(f"bad{number}" for number in range(14))),
    "id": ("'a'", "'a'", "1", "'1'", "'clip 2'", "'z'", "0", "3", "'b'", "<odd_id>"),
    "odd_id": ("'missing'", "None", "1.5", "('a',)", "b'a'", "True", "('a', 'b', 'c')", "np.int64(1)", "['a']", "{}"),
    "part": (
        "slice(0, 2)",
        "slice(None)",
        "slice(None, None, 2)",
        "slice(-1, None)",
        "slice(2, 0, -1)",
        "slice(5, 9)",
        "[0]",
        "[0, -1]",
        "[]",
        "[0, 0, 0]",
        "[99]",
        "np.array([0, 1])",
        "np.array([0])",
        "None",
        "slice(0, 1, 1)",
        "0",
        "'x'",
        "(0, 1)",
        "[True]",
        "np.int64(0)",
        "slice(0)",
        "np.array([], int)",
        "[1.0]",
        "np.array([[0]])",
    ),
    "chunk": ("GulpChunk('<folder#>/data_0.gulp', '<folder#>/meta_0.gmeta'<serializer>)",),
    "serializer": (
        "",
        "",
        "",
        "",
        ", serializer=json_serializer",
        ", serializer=pickle_serializer",
        ", jpeg_decoder=len",
    ),
    "image": (
        "frame(1)",
        "frame(2, 1, 1)",
        "frame(3, 16, 16)",
        "frame(4, grey=True)",
        "frame(6)[::2]",
        "frame(7)[:, :, ::-1]",
        "frame(1, 33, 17)",
        "np.asfortranarray(frame(3))",
        "np.zeros((1, 1), np.uint8)",
        "<odd_image>",
    ),
    "odd_image": (
        "frame(5)[:, :, :1]",
        "frame(8).astype(np.float32)",
        "frame(9).astype(np.uint16)",
        "frame(1)[0, 0]",
        "np.zeros((0, 4, 3), np.uint8)",
        "np.zeros((4, 4, 4), np.uint8)",
        "frame(1).tolist()",
        "None",
        "frame(1) > 9",
    ),
    "flag": ("wb", "ab", "wb", "ab", "rb", "r", "w", "xb"),
    "meta": ("{}", "{'label': 1}", "{'x': [1, None, 'ü']}", "{'t': (1, 2)}", "{1: 2}"),
    "append": (
        "    x.append(<id>, <meta>, [<image*>])\n",
        "    x.append(<id>, <meta>, [<image*>])\n    x.append(<id>, <meta>, [<image*>])\n",
        "    x.append(<id>, <meta>, [<image*>])\n    x.flush()\n",
        "    x.append(<id>, <meta>, [<image*>])\n    t = x.fp.tell()\n",
        "",
    ),
    "then": ("x.meta_dict", "list(x.meta_dict)", "x.fp.closed", "len(x.meta_dict)", "t"),
    "quality": ("90", "1", "50", "95", "96", "97", "98", "99", "100", "75", "0", "101", "-1"),
    "read": (
        "x[<id>]",
        "x[<id>, <part>]",
        "x.read_frames(<id>)",
        "x.read_frames(<id>, <part>)",
        "<id> in x",
        "list(x)",
        "x.meta_dict",
        "list(x.iter_all(accepted_ids=[<id*>]))",
        "[m for f, m in x.iter_all(shuffle=True)]",
    ),
    "look": (
        "x.num_chunks",
        "x.chunk_lookup",
        "x.merged_meta_dict",
        "x.all_meta_dicts",
        "list(x.chunk_objs_lookup)",
        "len(list(x))",
        "[c.data_file_path for c in x.chunks()]",
        "[c.meta_file_path for c in x.new_chunks(2)]",
        "list(x.new_chunks(0))",
        "[list(c) for c in x]",
        "[[m for f, m in c.iter_all()] for c in x]",
        "x._load_label_dict()",
        "x.output_dir",
        "len(x['a'][0])",
        "x['a'][1]",
        "[len(f) for c in x for f, m in c.iter_all(accepted_ids=['a', '1', 'z'])]",
        "[m for c in x for f, m in c.iter_all(shuffle=True)]",
        "[m for c in x for f, m in c.iter_all(['nothing'])]",
        "x.jpeg_decoder is utils.jpeg_bytes_to_img",
        "'a' in x.chunk_lookup",
    ),
    "decoder": ("", "", "", ", jpeg_decoder=len", ", lambda b: b", ", jpeg_decoder=None"),
    "size": ("-1", "0", "1", "4", "8", "13", "40"),
    "bytes": (
        "b''",
        "b'abc'",
        "None",
        "3",
        "'text'",
        "utils.img_to_jpeg_bytes(<image>)[:<cut>]",
        "bytearray(utils.img_to_jpeg_bytes(frame(1)))",
    ),
    "cut": ("0", "2", "50", "200", "-2", "-1", "9999"),
    "path": ("'images/a.jpg'", "'images/b.png'", "'images/c.jpg'", "'images/missing.jpg'"),
    "formats": ("", ", ['jpg']", ", ['png', 'jpg']", ", []", ", ['JPG']", ", ['j*']", ", 'jpg'", ", formats=('jpg',)"),
    "entry": ("{'id': <id>}", "{'id': <id>, 'x': 1}"),
    "error": (
        "DuplicateIdException",
        "ImageNotFound",
        "FFMPEGNotFound",
        "DuplicateIdException()",
        "ImageNotFound('x')",
        "DuplicateIdException('a', 1)",
        "FFMPEGNotFound(1)",
    ),
    "table": (
        "one/meta_0.gmeta",
        "d/meta_1.gmeta",
        "bad0/meta_0.gmeta",
        "bad1/meta_0.gmeta",
        "bad2/meta_0.gmeta",
        "bad8/meta_0.gmeta",
        "bad10/meta_0.gmeta",
        "bad13/meta_0.gmeta",
        "no.gmeta",
        "one",
        "pickled/meta_0.gmeta",
        "one/data_0.gulp",
    ),
    "thing": (
        "{}",
        "{'a': 1}",
        "[1, 2]",
        "None",
        "{'ü': 'ä'}",
        "{1: 2}",
        "float('nan')",
        "{'a': (1, 2)}",
        "object()",
        "{'a': np.int64(3)}",
        "b'x'",
        "'x'",
        "{'a': ImgInfo(1, 2, 3)}",
        "{'a': [ImgInfo(1, 2, 3)]}",
        "2 ** 70",
        "{'b': 1, 'a': 2}",
    ),
    "count": ("0", "1", "2", "5", "7"),
    "per": ("1", "2", "3", "100", "0", "-1", "'2'"),
    "workers": ("1", "1", "1", "1", "2", "0", "-1", "'1'"),
    "empty": ("", "", ", (0,)", ", (1, 2)", ", grey=True"),
    "whole": ("", ", grey=True"),
    "target": ("'new'", "'one'", "'d'", "'a/b'"),
    "options": (
        "",
        "'--root_path', 'images', ",
        "'--images_per_chunk', '2', '--num_workers', '1', ",
        "'--image_size', '10', ",
        "'--num_workers', '1', '--root_path', 'images', ",
    ),
    "slash": ("", "/", "/"),
    "tool": ("gulp2_image_list", "gulp2_image_folder", "gulp2_sanity_check"),
    "wrong": ("'-h'", "", "'no', 'new'", "'--nope', 'images', 'new'", "'one', 'two', 'three'"),
    "number": ("-1", "0", "1", "2", "3", "10", "100"),
}
TEMPLATES = {
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(3) as pool:\n    y = list(pool.map(lambda i: GulpDirectory('<good#>')[<id>, <part>], range(5)))\ny": 4,
    "x = GulpDirectory('<folder>'<decoder>)\nx[<id>]": 8,
    "x = GulpDirectory('<good>')\nx[<id>, <part>]": 14,
    "x = <chunk>\nwith x.open('rb'):\n    y = <read>\ny": 25,
    "x = <chunk>\n<read>": 3,
    "x = GulpDirectory('<folder>'<decoder>)\n<look>": 25,
    "x = GulpChunk('<good#>/data_0.gulp', '<good#>/meta_0.gmeta')\nwith x.open('<flag>'):\n<append>    pass\n<then>": 15,
    "x = next(GulpDirectory('<folder>').new_chunks(1))\nwith x.open('<flag>'):\n<append>    pass\n<then>": 12,
    "utils.img_to_jpeg_bytes(<image>)": 4,
    "utils._JPEG_WRITE_QUALITY = <quality>\ntry:\n    y = utils.img_to_jpeg_bytes(<image>)\nfinally:\n    utils._JPEG_WRITE_QUALITY = 90\ny": 9,
    "utils.jpeg_bytes_to_img(utils.img_to_jpeg_bytes(<image>))": 4,
    "utils.jpeg_bytes_to_img(<bytes>)": 4,
    "utils.resize_by_short_edge(<image>, <size>)": 6,
    "utils.resize_by_short_edge(<path>, <size>)": 4,
    "list(utils.resize_images([<path*>], <size>))": 3,
    "utils.find_images_in_folder('<target_folder>'<formats>)".replace("<target_folder>", "images"): 3,
    "utils.find_images_in_folder('no'<formats>)": 1,
    "utils.get_single_video_path('images', format_='<suffix>')".replace("<suffix>", "png"): 1,
    "utils.get_single_video_path('images', 'jpg')": 1,
    "utils.get_single_video_path('d')": 1,
    "utils.remove_entries_with_duplicate_ids('<folder>', [<entry*>])": 6,
    "utils._remove_duplicates_in_metadict([<entry*>])": 3,
    "raise utils.<error>": 3,
    "with utils.temp_dir_for_bursting('.') as p:\n    y = os.path.isdir(p)\n(y, os.path.isdir(p))": 1,
    "extract_input_for_getitem(<id>)": 4,
    "extract_input_for_getitem((<id>, <part>))": 3,
    "calculate_chunk_slices(<number>, <number>)": 4,
    "json_serializer.load('<table>')": 4,
    "pickle_serializer.load('<table>')": 2,
    "json_serializer.dump(<thing>, 'out')\nopen('out').read()\njson_serializer.load('out')": 4,
    "pickle_serializer.dump(<thing>, 'out')\npickle_serializer.load('out')": 2,
    "ImgInfo(<count>, <count>, length=<count>)": 1,
    "ImgInfo(1, 2)": 1,
    "fileio.AbstractSerializer()": 1,
    "x = ChunkWriter(Adapter(<count><empty>)).write_chunk(next(GulpDirectory('new').new_chunks(1)), slice(0, <count>))\nx": 2,
    "x = GulpIngestor(Adapter(<count><whole>), <target#>, <per>, <workers>)\ny = x()\nlist(GulpDirectory(<target#>).merged_meta_dict)": 9,
    "command('gulp2_sanity_check', '<folder>')": 4,
    "command('gulp2_image_list', <options>'images/list.csv', 'new')": 5,
    "command('gulp2_image_folder', <options>'labelled<slash>', 'new')": 5,
    "command('<tool>', <wrong>)": 3,
}
