"""Calls of MXNet 1.9.1: recordio, image, io and gluon.data."""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

from original import Setup

SETUP = Setup(
    package="mxnet",
    environment="mxnet",
    mapped={"mxnet": "bushel.compat.mxnet"},
    page="compat-mxnet.md",
    modules=("mxnet.recordio", "mxnet.image", "mxnet.gluon.data", "mxnet.gluon.data.vision.transforms"),
    commands={
        "im2rec": "lib/python3.11/site-packages/mxnet/tools/im2rec.py",
        "rec2idx": "lib/python3.11/site-packages/mxnet/tools/rec2idx.py",
    },
    prelude="""
import mxnet as mx, json, pickle, random
from mxnet import recordio, image, io
from mxnet.gluon.data.vision import transforms
from mxnet.gluon import data as gdata
H = recordio.IRHeader
def picture(seed, *shape):
    return np.random.RandomState(seed).randint(0, 256, shape or (12, 16, 3)).astype(np.uint8)
def smooth(height, width, channels=3):
    down, across = np.mgrid[:height, :width]
    planes = [128 + 100 * np.sin(down / 5 + i) * np.cos(across / 7 - i) for i in range(channels)]
    return np.stack(planes, 2).astype(np.uint8)
def A(x):
    return mx.nd.array(x, dtype=x.dtype)
def size(x):
    x = x.asnumpy() if hasattr(x, "asnumpy") else x
    return [str(x.dtype), list(x.shape)]
def batches(it, count=3):
    found = []
    for number, batch in enumerate(it):
        found.append([size(batch.data[0]), batch.label[0].asnumpy().tolist(), batch.pad])
        if number + 1 == count:
            break
    return found
""",
)
ASSETS = (
    SETUP.prelude.replace("from mxnet.gluon.data.vision import transforms\n", "")
    + """
import cv2
os.makedirs("photos/cat"); os.makedirs("photos/dog")
for number in range(4):
    cv2.imwrite(f"photos/{('cat', 'dog')[number % 2]}/{number}.jpg", smooth(20 + number, 30))
cv2.imwrite("photos/cat/9.png", smooth(10, 11))
cv2.imwrite("a.jpg", smooth(40, 60)); cv2.imwrite("grey.jpg", smooth(24, 30, 1)[:, :, 0]); cv2.imwrite("b.png", smooth(20, 24))
cv2.imwrite("alpha.png", smooth(9, 8, 4)); cv2.imwrite("deep.png", smooth(9, 8, 1)[:, :, 0].astype(np.uint16) * 255)
open("cut.jpg", "wb").write(open("a.jpg", "rb").read()[:-300])
open("text.jpg", "wb").write(b"no image"); open("void.jpg", "wb").close()
exif = open("a.jpg", "rb").read()
turned = b"\\xff\\xe1\\x00\\x22Exif\\x00\\x00MM\\x00*\\x00\\x00\\x00\\x08\\x00\\x01\\x01\\x12\\x00\\x03\\x00\\x00\\x00\\x01\\x00\\x06\\x00\\x00\\x00\\x00\\x00\\x00"
open("turned.jpg", "wb").write(exif[:2] + turned + exif[2:])
w = recordio.MXIndexedRecordIO("x.idx", "x.rec", "w")
for number in range(5):
    w.write_idx(number, b"record %d" % number * number)
w.close()
w = recordio.MXIndexedRecordIO("img.idx", "img.rec", "w")
for number in range(7):
    label = number if number % 2 else np.array([number, 1.5], np.float32)
    w.write_idx(number, recordio.pack_img(H(0, float(number), number, 0), smooth(20, 24 + number), quality=90))
w.close()
open("x3.idx", "w").write("".join(line.rstrip("\\n") + "\\tmore\\n" for line in open("x.idx")))
open("bad.idx", "w").write("a\\tb\\n"); open("odd.idx", "w").write("0\\n"); open("blank.idx", "w").write("0\\t0\\n\\n1\\t12\\n")
data = open("x.rec", "rb").read()
open("cut.rec", "wb").write(data[:-3]); open("junk.rec", "wb").write(b"junk" * 9); open("void.rec", "wb").close()
open("photos.lst", "w").write("".join(f"{i}\\t{float(i % 2)}\\t{('cat', 'dog')[i % 2]}/{i}.jpg\\n" for i in range(4)))
open("wide.lst", "w").write("".join(f"{i}\\t{float(i)}\\t{i + 0.5}\\t{('cat', 'dog')[i % 2]}/{i}.jpg\\n" for i in range(4)))
open("gone.lst", "w").write("0\\t0.0\\tcat/0.jpg\\n1\\t1.0\\tnone.jpg\\n")
"""
)
TABLES = {
    "file": ("a.jpg", "a.jpg", "grey.jpg", "b.png", "alpha.png", "deep.png", "turned.jpg", "<oddfile>"),
    "oddfile": ("cut.jpg", "text.jpg", "void.jpg", "missing.jpg"),
    "flag": (
        "",
        "",
        ", flag=1",
        ", flag=0",
        ", 1",
        ", 0",
        ", flag=-1",
        ", flag=1, to_rgb=0",
        ", to_rgb=False",
        ", flag=2",
    ),
    "buf": (
        "open('<file>', 'rb').read()",
        "open('<file>', 'rb').read()",
        "bytearray(open('<file>', 'rb').read())",
        "np.frombuffer(open('<file>', 'rb').read(), np.uint8)",
        "b''",
        "None",
        "'text'",
        "5",
        "[1, 2]",
    ),
    "cvflag": (
        "",
        ", 1",
        ", 0",
        ", -1",
        ", 2",
        ", 4",
        ", 128",
        ", 129",
        ", 5",
        ", 6",
        ", 3",
        ", 7",
        ", 130",
        ", iscolor=1",
    ),
    "w": ("10", "33", "7", "60", "1", "0", "-1", "1.5", "None"),
    "h": ("9", "25", "40", "64", "1", "0", "-3"),
    "interp": ("", "", ", 0", ", 1", ", interp=0", ", interp=1", ", interp=3", ", 9", ", 5", ", -1", ", 11"),
    "img": (
        "A(smooth(20, 30))",
        "A(smooth(20, 30))",
        "A(smooth(40, 25))",
        "A(smooth(5, 5))",
        "A(smooth(20, 30, 1))",
        "A(smooth(20, 30).astype(np.float32))",
        "A(np.zeros((0, 3, 3), np.uint8))",
        "A(smooth(20, 30)[:, :, 0])",
    ),
    "fimg": ("A(smooth(20, 30).astype(np.float32))", "A(smooth(8, 9).astype(np.float32))"),
    "size": ("(8, 6)", "(30, 20)", "(16, 16)", "(50, 40)", "(1, 1)"),
    "short": ("5", "20", "31", "64", "1", "0"),
    "number": ("0", "1", "3", "-1", "2.5", "20"),
    "header": (
        "H(0, 1.0, 2, 0)",
        "H(0, 3, 7, 0)",
        "H(0, [1, 2], 3, 0)",
        "H(0, np.array([1.5, 2, 3]), 9, 1)",
        "(0, 1.5, 2, 3)",
        "H(5, -1.0, 0, 0)",
        "H(0, [], 1, 0)",
        "H(0, 1e39, 1, 0)",
        "H(0, 1, -1, 0)",
        "H(0, 'x', 1, 0)",
        "H(0, None, 1, 0)",
        "(1, 2)",
        "H(0, True, 1, 0)",
        "H(0, np.float32(2), 1, 0)",
        "H(0, 1, 2 ** 64, 0)",
    ),
    "body": ("b''", "b'abc'", "b'\\x00' * 30", "open('a.jpg', 'rb').read()", "bytearray(b'ab')"),
    "packed": (
        "recordio.pack(<header>, <body>)",
        "recordio.pack(<header>, <body>)",
        "b''",
        "b'abc'",
        "b'\\x00' * 24",
        "b'\\x02' + b'\\x00' * 24",
        "recordio.pack_img(H(0, 1, 2, 0), smooth(9, 8))",
    ),
    "quality": ("", ", quality=50", ", quality=100", ", quality=1", ", 80", ", quality=96"),
    "fmt": ("", "", ", img_fmt='.jpg'", ", img_fmt='.JPEG'", ", quality=3, img_fmt='.png'"),
    "pimg": ("smooth(9, 8)", "smooth(16, 16)", "smooth(9, 8, 1)[:, :, 0]", "picture(1)", "smooth(9, 8, 1)"),
    "idx": ("x.idx", "x.idx", "x.idx", "x3.idx", "bad.idx", "odd.idx", "blank.idx", "missing.idx", "void.rec"),
    "rec": ("x.rec", "x.rec", "x.rec", "cut.rec", "junk.rec", "void.rec", "missing.rec", "img.rec", "no/where.rec"),
    "key": ("0", "1", "4", "5", "-1", "'0'", "None", "3", "2"),
    "act": (
        "x.read()",
        "x.read()",
        "x.read_idx(<key>)",
        "x.read_idx(<key>)",
        "x.seek(<key>)\nx.read()",
        "x.keys",
        "x.idx",
        "x.tell()",
        "x.reset()\nx.read()",
        "x.close()\nx.is_open",
        "x.writable",
        "[x.read() for _ in range(7)]",
        "x.write(b'abc')",
        "x.write_idx(9, b'abc')",
        "x.flag",
        "x.close()\nx.close()",
    ),
    "wact": (
        "w.write(b'abc')",
        "w.write(b'')",
        "w.write_idx(<key>, b'xyz')",
        "w.write_idx(3, b'q' * 10)",
        "w.tell()",
        "w.write(None)",
        "w.write('text')",
        "w.read()",
        "w.reset()",
        "w.write(b'abcd')",
        "w.keys",
        "w.idx",
    ),
    "keytype": ("", "", "", ", str", ", key_type=float", ", key_type=int"),
    "aug": (
        "image.ResizeAug(<short>)",
        "image.ForceResizeAug(<size>)",
        "image.RandomCropAug(<size>)",
        "image.CenterCropAug(<size>)",
        "image.HorizontalFlipAug(0.5)",
        "image.CastAug()",
        "image.BrightnessJitterAug(0.3)",
        "image.ContrastJitterAug(0.3)",
        "image.SaturationJitterAug(0.2)",
        "image.HueJitterAug(0.1)",
        "image.ColorJitterAug(0.1, 0.2, 0.3)",
        "image.ColorNormalizeAug(A(np.float32([1, 2, 3])), A(np.float32([2, 2, 2])))",
        "image.RandomGrayAug(0.5)",
        "image.RandomSizedCropAug(<size>, 0.2, (0.7, 1.3))",
        "image.SequentialAug([image.CastAug(), image.HorizontalFlipAug(1)])",
        "image.RandomOrderAug([image.CastAug()])",
        "image.Augmenter(a=1)",
    ),
    "shape": ("(3, 10, 12)", "(3, 10, 12)", "(3, 8, 8)", "(1, 8, 8)", "(8, 8)", "(3, 40, 40)", "[3, 8, 8]"),
    "cargs": (
        "",
        ", resize=16",
        ", rand_crop=True",
        ", rand_crop=True, rand_resize=True",
        ", rand_resize=True",
        ", rand_mirror=True",
        ", mean=True",
        ", std=True",
        ", mean=True, std=True",
        ", mean=np.array([1, 2, 3])",
        ", mean=np.array([1, 2])",
        ", mean=[1, 2, 3]",
        ", std=5",
        ", brightness=0.1, hue=0.1",
        ", pca_noise=0.1",
        ", rand_gray=0.2",
        ", inter_method=1",
        ", mean=False",
        ", contrast=0.5, saturation=0.1",
        ", nope=1",
    ),
    "iargs": (
        ", path_imgrec='img.rec'",
        ", path_imgrec='img.rec', path_imgidx='img.idx'",
        ", path_imglist='photos.lst', path_root='photos'",
        ", imglist=[[0, 'photos/cat/0.jpg'], [1, 'photos/dog/1.jpg']], path_root='.'",
        ", path_imgrec='img.rec', shuffle=True",
        ", path_imgrec='img.rec', path_imgidx='img.idx', shuffle=True",
        ", path_imgrec='missing.rec'",
        ", path_imglist='missing.lst', path_root='.'",
        "",
        ", path_imglist='wide.lst', path_root='photos', label_width=2",
        ", imglist=[[0.5, 1, 'photos/cat/0.jpg']], path_root='.', label_width=2",
        ", imglist=[]",
        ", path_imgrec='x.rec'",
        ", path_imglist='gone.lst', path_root='photos'",
        ", path_imgrec='img.rec', path_imgidx='img.idx', num_parts=2, part_index=1",
        ", path_imgrec='img.rec', path_imgidx='img.idx', num_parts=2, part_index=2",
        ", path_imgrec='junk.rec'",
    ),
    "imore": (
        "",
        "",
        "",
        ", last_batch_handle='discard'",
        ", dtype='int32'",
        ", dtype='int8'",
        ", last_batch_handle='pad'",
        ", data_name='d', label_name='l'",
    ),
    "batch": ("1", "2", "3", "7"),
    "rargs": (
        "",
        ", shuffle=False",
        ", label_width=1",
        ", preprocess_threads=2",
        ", rand_mirror=False",
        ", mean_r=3, std_r=2",
        ", scale=0.5",
        ", resize=24",
        ", mirror=True",
    ),
    "tf": (
        "transforms.Resize(<short>)",
        "transforms.Resize(<size>)",
        "transforms.CenterCrop(<size>)",
        "transforms.ToTensor()",
        "transforms.Cast('float32')",
        "transforms.CropResize(1, 2, 5, 6)",
    ),
    "ds": (
        "gdata.SimpleDataset(list(range(7)))",
        "gdata.ArrayDataset(list(range(5)), list('abcde'))",
        "gdata.ArrayDataset(np.arange(4))",
        "gdata.RecordFileDataset('x.rec')",
        "gdata.RecordFileDataset('missing.rec')",
        "gdata.ArrayDataset([1], [1, 2])",
    ),
    "view": (
        "",
        ".transform(lambda *a: a)",
        ".filter(lambda *a: True)",
        ".take(3)",
        ".take(None)",
        ".take(99)",
        ".shard(2, 0)",
        ".shard(2, 1)",
        ".shard(3, 2)",
        ".shard(2, 2)",
        ".shard(0, 0)",
        ".transform_first(str)",
        ".sample(gdata.SequentialSampler(2))",
    ),
    "sampler": ("gdata.SequentialSampler(5)", "gdata.RandomSampler(5)", "gdata.SequentialSampler(0)"),
    "last": ("'keep'", "'discard'", "'rollover'", "'nope'"),
    "lists": (
        "'--list'",
        "'--list', '--recursive'",
        "'--list', '--recursive', '--train-ratio', '0.5'",
        "'--list', '--recursive', '--no-shuffle'",
        "'--list', '--recursive', '--chunks', '2'",
        "'--list', '--exts', '.png', '--recursive'",
        "'--list', '--recursive', '--train-ratio', '0.5', '--test-ratio', '0.25'",
    ),
    "recs": (
        "'--pass-through'",
        "'--resize', '12'",
        "'--quality', '80'",
        "'--center-crop'",
        "'--color', '0'",
        "'--color', '-1'",
        "'--num-thread', '1', '--pass-through'",
        "'--resize', '16', '--center-crop', '--quality', '70'",
    ),
}
TEMPLATES = {
    "os.environ['MXNET_CPU_WORKER_NTHREADS'] = '3'\nx = image.ImageIter(<batch>, (3, 10, 12)<iargs>)\nbatches(x)": 4,
    "image.imread('<file>'<flag>)": 16,
    "image.imdecode(<buf><flag>)": 18,
    "size(image.imresize(<img>, <w>, <h><interp>))": 16,
    "image.imresize(A(smooth(20, 30)), <w>, <h>, <interp01>)".replace("<interp01>", "interp=1"): 5,
    "image.scale_down(<size>, <size>)": 3,
    "size(image.resize_short(<img>, <short><interp>))": 6,
    "image.fixed_crop(<img>, <number>, <number>, <w>, <h>)": 6,
    "size(image.fixed_crop(<img>, 1, 2, 8, 6, <size>, 1))": 3,
    "image.random_crop(<img>, <size>, 1)": 5,
    "image.center_crop(<img>, <size>, 1)": 5,
    "image.random_size_crop(<img>, <size>, (0.2, 1), (0.7, 1.4), 1)": 4,
    "image.color_normalize(<fimg>, A(np.float32([1, 2, 3])), <std>)".replace("<std>", "A(np.float32([2, 3, 4]))"): 2,
    "recordio.pack(<header>, <body>)": 14,
    "recordio.unpack(<packed>)": 12,
    "recordio.unpack_img(recordio.pack(H(0, 1, 2, 0), open('<file>', 'rb').read())<cvflag>)": 24,
    "recordio.unpack_img(<packed><cvflag>)": 8,
    "recordio.pack_img(<header>, <pimg><quality>)": 8,
    "recordio.unpack_img(recordio.pack_img(H(0, 1, 2, 0), <pimg><fmt>)<cvflag>)": 8,
    "x = recordio.MXRecordIO('<rec>', 'r')\n<act>\n<act>": 14,
    "x = recordio.MXIndexedRecordIO('<idx>', '<rec>', 'r'<keytype>)\n<act>\n<act>": 22,
    "w = recordio.MXRecordIO('<target>', 'w')\n<wact>\n<wact>\nw.close()".replace("<target>", "new.rec"): 8,
    "w = recordio.MXIndexedRecordIO('new.idx', 'new.rec', 'w'<keytype>)\n<wact>\n<wact>\n<wact>\nw.close()": 12,
    "recordio.MXRecordIO('no/where.rec', '<mode>')".replace("<mode>", "w"): 1,
    "recordio.MXRecordIO('x.rec', 'x')": 1,
    "recordio.MXIndexedRecordIO('no/where.idx', 'new.rec', 'w')": 1,
    "x = <aug>\nx.dumps()": 5,
    "random.seed(3); np.random.seed(4)\nsize((<aug>)(<fimg>))": 12,
    "[type(a).__name__ for a in image.CreateAugmenter(<shape><cargs>)]": 16,
    "[a.dumps() for a in image.CreateAugmenter(<shape><cargs>)]": 6,
    "x = image.ImageIter(<batch>, <shape><iargs><imore>)\nbatches(x)": 26,
    "x = image.ImageIter(<batch>, (3, 10, 12)<iargs><cargs>)\nbatches(x)": 10,
    "x = image.ImageIter(<batch>, (3, 10, 12)<iargs><imore>)\nx.provide_data, x.provide_label": 5,
    "x = io.ImageRecordIter(path_imgrec='img.rec', data_shape=(3, 10, 12), batch_size=<batch><rargs>)\nbatches(x, 9)": 10,
    "x = io.ImageRecordIter(path_imgrec='<rec>', data_shape=(3, 10, 12), batch_size=<batch>)\nbatches(x, 2)": 3,
    "size((<tf>)(<img>))": 10,
    "size(transforms.Compose([<tf>, <tf>])(A(smooth(20, 30))))": 4,
    "x = <ds><view>\n[x[i] for i in range(len(x))]": 16,
    "x = <ds><view>\nx[<key>]": 8,
    "list(<sampler>), len(<sampler>)": 2,
    "x = gdata.BatchSampler(gdata.SequentialSampler(7), <batch>, <last>)\nlist(x), len(x), list(x)": 4,
    "command('im2rec', 'set', 'photos', <lists>)": 5,
    "command('im2rec', 'photos', 'photos', <recs>)  # photos.lst\nsorted(os.listdir())": 7,
}
