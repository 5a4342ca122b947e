"""Calls of webdataset 1.0.2 and wids."""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

from original import Setup

SETUP = Setup(
    package="webdataset",
    environment="webdataset",
    mapped={"webdataset": "bushel.compat.webdataset", "wids": "bushel.compat.webdataset.wids"},
    page="compat-webdataset.md",
    modules=(
        "webdataset",
        "webdataset.filters",
        "webdataset.shardlists",
        "webdataset.tariterators",
        "webdataset.writer",
        "webdataset.autodecode",
        "webdataset.cache",
        "webdataset.compat",
        "webdataset.extradatasets",
        "webdataset.gopen",
        "webdataset.handlers",
        "webdataset.pipeline",
        "webdataset.tenbin",
        "webdataset.utils",
        "webdataset.mix",
    ),
    prelude="""
import webdataset as wds, io, pickle, random, json, tarfile
from webdataset import filters, shardlists, tariterators, autodecode, tenbin
def picture(seed, *shape):
    return np.random.RandomState(seed).randint(0, 256, shape or (6, 8, 3)).astype(np.uint8)
def samples(count):
    return [{"__key__": f"k{i:02d}", "x": i, "y": str(i)} for i in range(count)]
def clean(sample):
    if isinstance(sample, dict):
        return {k: v for k, v in sample.items() if k != "__local_path__"}
    return sample
def take(it, count=30):
    return [one for _, one in zip(range(count), it)]
def tar(name, members):
    with tarfile.open(name, "w") as archive:
        for key, data in members:
            info = tarfile.TarInfo(key)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
def writer(target, **more):
    return wds.TarWriter(target, mtime=0, **more)
def fail(x):
    if int(x["cls"]) % 3 == 1:
        raise ValueError("third")
    return x
""",
)
ASSETS = (
    SETUP.prelude
    + """
def photo(seed):
    from PIL import Image
    stream = io.BytesIO()
    Image.fromarray(picture(seed)).save(stream, "PNG")
    return stream.getvalue()
for shard in range(3):
    tar(f"s-{shard:06d}.tar", [(f"k{shard}{i}.{ext}", data) for i in range(4) for ext, data in (("cls", str(i).encode()), ("txt", f"text {i}".encode()), ("png", photo(i)), ("json", b'{"i": %d}' % i))])
tar("odd.tar", [("a.b.txt", b"1"), ("dir/a.cls", b"2"), ("dir/a.TXT", b"x"), (".hidden", b"h"), ("noext", b"n"), ("__meta__", b"m"), ("b.txt", b"3"), ("b.cls", b"oops"), ("c.npy", b"junk"), ("d.mp", b"\\xc1"), ("e.json", b"{")])
tar("twice.tar", [("a.txt", b"1"), ("a.txt", b"2"), ("b.txt", b"3")])
tar("one.tar", [("a.txt", b"1"), ("a.cls", b"7")])
tar("void.tar", [])
open("text.tar", "w").write("no archive")
data = open("s-000000.tar", "rb").read(); open("cut.tar", "wb").write(data[:1500])
open("s-000000.tar.gz", "wb").write(__import__("gzip").compress(data))
stream = io.BytesIO(); np.save(stream, np.arange(4)); tar("arrays.tar", [("a.npy", stream.getvalue()), ("a.id", b"5"), ("b.npy", stream.getvalue()), ("b.index", b"9")])
"""
)
TABLES = {
    "urls": (
        "'s-000000.tar'",
        "('s-{000000..000002}.tar', 's-000000.tar s-000001.tar s-000002.tar')[0]",  # named, so that they are there
        "['s-000000.tar', 's-000001.tar']",
        "'s-000000.tar.gz'",
        "'odd.tar'",
        "'arrays.tar'",
        "'one.tar'",
        "<badurls>",
    ),
    "badurls": (
        "'cut.tar'",
        "'text.tar'",
        "['cut.tar', 's-000000.tar']",
        "'missing.tar'",
        "'void.tar'",
        "'twice.tar'",
        "[]",
        "'s-{000000..000009}.tar'",
        "None",
    ),
    "options": (
        "",
        "",
        "",
        ", shardshuffle=False",
        ", shardshuffle=True, seed=1",
        ", shardshuffle=10, seed=5",
        ", handler=wds.ignore_and_continue",
        ", handler=wds.warn_and_continue",
        ", handler=wds.warn_and_stop",
        ", empty_check=False",
        ", detshuffle=True, shardshuffle=5",
        ", resampled=True, seed=7",
        ", select_files=lambda n: n.endswith('cls')",
        ", rename_files=lambda n: n.replace('txt', 'text')",
        ", nodesplitter=wds.shardlists.single_node_only",
        ", cache_dir=None",
        ", seed=3, shardshuffle=3",
    ),
    "steps": ("", "", "<step>", "<step><step>", "<step><step><step>"),
    "step": (
        ".decode()",
        ".decode('rgb8')",
        ".decode('l8')",
        ".decode('pil')",
        ".decode('rgb')",
        ".decode(only=['cls'])",
        ".decode(partial=True)",
        ".decode('nope')",
        ".decode('rgba8', handler=wds.ignore_and_continue)",
        ".to_tuple('txt', 'cls')",
        ".to_tuple('png;jpg', 'cls')",
        ".to_tuple('nope')",
        ".to_tuple('nope', missing_is_error=False)",
        ".to_tuple('txt cls')",
        ".map(clean)",
        ".map_dict(txt=len)",
        ".map_dict(nope=len)",
        ".map_tuple(str, str)",
        ".map_tuple(str)",
        ".select(lambda x: True)",
        ".select(lambda x: int(x['cls']) > 1)",
        ".shuffle(5, rng=random.Random(1))",
        ".shuffle(0)",
        ".shuffle(100, initial=2, rng=random.Random(2))",
        ".shuffle(5, rng=random.Random(3))",
        ".batched(3)",
        ".batched(3, partial=False)",
        ".batched(1)",
        ".slice(3)",
        ".slice(1, 4)",
        ".slice(0, 9, 2)",
        ".unbatched()",
        ".rename(a='txt')",
        ".rename(a='nope')",
        ".rename(a='nope;txt', keep=False)",
        ".rename_keys(a='txt')",
        ".extract_keys('*.txt', '*.cls')",
        ".extract_keys('cls')",
        ".extract_keys('nope')",
        ".listed(2)",
        ".xdecode()",
        ".map(fail)",
        ".map(fail, handler=wds.ignore_and_continue)",
        ".map(fail, handler=wds.warn_and_stop)",
        ".repeat(2)",
        ".with_epoch(5)",
        ".with_length(7)",
        ".log_keys()",
        ".rsample(0.5)",
        ".rsample(1.0)",
        ".associate({'k00': {'more': 1}})",
        ".compose(lambda it: it)",
        ".then(lambda it: it)",
        ".mcached()",
        ".mcached()",
        ".select(lambda x: False)",
        ".detshuffle(3, seed=4)",
        ".slice(0)",
    ),
    "filter": (
        "shuffle(3, rng=random.Random(1))",
        "batched(4)",
        "batched(4, collation_fn=None)",
        "batched(4, partial=False)",
        "slice(2)",
        "slice(2, 5)",
        "map(clean)",
        "select(lambda x: x['x'] > 2)",
        "to_tuple('x', 'y')",
        "to_tuple('x', 'z')",
        "rename(a='x')",
        "map_dict(x=str)",
        "detshuffle(5, seed=3)",
        "rsample(0.3)",
        "unlisted()",
        "listed(3)",
        "listed(3, partial=False)",
        "extract_keys('x')",
        "rename_keys(z='x')",
        "slice(1)",
        "slice(9)",
        "map_tuple(str)",
        "associate(lambda k: {'q': 1})",
        "select(bool)",
        "log_keys()",
        "unbatched()",
        "xdecode()",
        "decode()",
        "batched(0)",
        "batched(-1)",
        "shuffle(-1)",
        "slice(-1)",
    ),
    "handler": (
        "wds.reraise_exception",
        "wds.ignore_and_continue",
        "wds.warn_and_continue",
        "wds.ignore_and_stop",
        "wds.warn_and_stop",
    ),
    "count": ("0", "1", "3", "7", "10"),
    "sample": (
        "{'__key__': 'a', 'txt': 'text', 'cls': 3}",
        "{'__key__': 'a', 'json': {'x': [1, 2]}}",
        "{'__key__': 'a', 'npy': np.arange(3)}",
        "{'__key__': 'a', 'png': picture(1)}",
        "{'__key__': 'a', 'bin': b'abc'}",
        "{'__key__': 'a', 'mp': {'x': 1}}",
        "{'__key__': 'dir/a', 'txt': 'ü'}",
        "{'txt': 'x'}",
        "{'__key__': 'a'}",
        "{'__key__': 5, 'txt': 'x'}",
        "{'__key__': 'a', 'nope': 5}",
        "{'__key__': 'a', 'txt': 5}",
        "{'__key__': 'a', 'cls': 'x'}",
        "{'__key__': 'a', 'ten': [np.arange(3, dtype=np.float32)]}",
        "{'__key__': 'a', 'png': picture(1).astype(np.float32) / 255}",
        "{'__key__': 'a', 'bin': None}",
        "{'__key__': 'a', 'txt': None}",
        "{'__key__': 'a', 'x.txt': 'y', 'z.cls': 1}",
        "{'__key__': 'a', 'npz': {'a': np.arange(2)}}",
        "{'__key__': 'a', 'pgm': picture(1, 4, 5)}",
        "{'__key__': 'x' * 120, 'txt': 'long'}",
        "{'__key__': 'a', '__url__': 'u', 'txt': 'b'}",
        "[1]",
        "None",
        "{'__key__': 'a', 'index': 4}",
        "{'__key__': 'a', 'bin': bytearray(b'ab')}",
    ),
    "encoder": (
        "",
        "",
        "",
        ", encoder=False",
        ", encoder=True",
        ", compress=False",
        ", keep_meta=True",
        ", user='u', group='g', mode=0o600",
        ", encoder={'txt': lambda x: b'E'}",
    ),
    "pattern": (
        "'s-{000000..000003}.tar'",
        "'{a,b}{1..3}'",
        "'x'",
        "'a::b'",
        "'s-{0..3}.tar::t-{1..2}.tar'",
        "'{3..1}'",
        "'{a..c}'",
        "''",
        "['a', 'b{1..2}']",
        "'{'",
    ),
    "ext": (
        "'txt'",
        "'cls'",
        "'json'",
        "'mp'",
        "'npy'",
        "'ten'",
        "'index'",
        "'id'",
        "'count'",
        "'pyd'",
        "'text'",
        "'transcript'",
        "'class'",
        "'inx'",
        "'bin'",
        "'nope'",
        "'txt.gz'",
        "'left.txt'",
    ),
    "data": (
        "b'5'",
        "b'text'",
        "b''",
        "b'\\xff'",
        "b'{\"a\": 1}'",
        "b'\\x81\\xa1a\\x01'",
        "b'x' * 20",
        "None",
        "'text'",
    ),
    "spec": ("'rgb'", "'rgb8'", "'l'", "'l8'", "'rgba'", "'rgba8'", "'pil'", "'pilrgb'", "'nope'", "'pill'"),
}
TEMPLATES = {
    "os.environ['<variable>'] = '<setting>'\ntake(wds.WebDataset(<urls><options>)<steps>)": 14,
    "take(wds.WebDataset(<urls><options>)<steps>)": 60,
    "take(wds.WebDataset('s-000000.tar', shardshuffle=False)<step>)": 40,
    "take(wds.WebDataset('s-000000.tar', shardshuffle=False)<step><step>)": 30,
    "take(wds.DataPipeline(wds.SimpleShardList(<urls>), wds.tarfile_to_samples()))": 6,
    "take(wds.DataPipeline(wds.SimpleShardList(<urls>, seed=3), wds.tarfile_to_samples(handler=<handler>), filters.<filter>))": 8,
    "take(filters.<filter>(samples(<count>)))": 26,
    "take(filters.<filter>(iter(samples(<count>))))": 5,
    "take(wds.DataPipeline(samples(7), filters.<filter>, filters.<filter>))": 12,
    "list(wds.shardlists.expand_urls(<pattern>))": 5,
    "take(wds.SimpleShardList(<pattern>))": 4,
    "take(wds.ResampledShards(<pattern>, nshards=4, seed=3, deterministic=True))": 3,
    "random.seed(2)\ntake(wds.RandomMix([samples(3), samples(5)], [0.3, 0.7]))": 1,
    "take(wds.RoundRobin([samples(<count>), samples(<count>)]))": 3,
    "w = writer('new.tar'<encoder>)\nw.write(<sample>)\nw.close()": 30,
    "w = writer('new.tar'<encoder>)\nw.write(<sample>)\nw.write(<sample>)\nw.close()\ntake(wds.WebDataset('new.tar', shardshuffle=False))": 12,
    "with wds.ShardWriter('o-%03d.tar', maxcount=2, mtime=0, verbose=0) as w:\n    for s in samples(<count>):\n        w.write({'__key__': s['__key__'], 'txt': s['y']})": 3,
    "with wds.ShardWriter('o-%03d.tar', maxsize=3000, mtime=0, verbose=0) as w:\n    w.write(<sample>)\n    w.write(<sample>)": 4,
    "take(tariterators.group_by_keys([{'fname': 'a.txt', 'data': b'1'}, {'fname': 'a.cls', 'data': b'2'}, {'fname': 'b.txt', 'data': b'3'}]))": 1,
    "tariterators.base_plus_ext(<fname>)": 4,
    "autodecode.basichandlers(<ext>, <data>)": 16,
    "wds.autodecode.Decoder([autodecode.basichandlers])({'__key__': 'k', <ext>: <data>})": 8,
    "x = wds.autodecode.imagehandler(<spec>)\nx('png', <image>)": 6,
    "x = wds.autodecode.imagehandler(<spec>)\nx('nope', b'')": 2,
    "wds.tariterators.valid_sample(<sample>)": 5,
    "tenbin.encode_buffer(<arrays><infos>)": 3,
    "tenbin.decode_buffer(bytes(tenbin.encode_buffer(<arrays>, <two>))<back>)": 3,
    "tenbin.decode_buffer(<data><back>)": 1,
    "tenbin.save('<ten>', np.arange(3), np.ones((2, 2))<infos><check>)\ntenbin.load('<ten>'<back><check>)": 3,
    "tenbin.read(io.BytesIO(bytes(tenbin.encode_buffer(<arrays>))[:<short>]), <count>)": 2,
    "x = wds.handlers.<handle>(ValueError('x'))\nx": 2,
}
TABLES["handle"] = ("ignore_and_continue", "warn_and_continue", "ignore_and_stop", "warn_and_stop", "reraise_exception")
TABLES["fname"] = ("'a.txt'", "'dir/a.b.c'", "'noext'", "'.hidden'", "'a/b.c/d'", "''", "'a.'", "'a/.b'", "'./x.y'")
TABLES["image"] = ("b''", "b'junk'", "next(iter(wds.WebDataset('s-000000.tar', shardshuffle=False)))['png']")
TABLES["variable"] = (
    "WDS_REWRITE",
    "GOPEN_VERBOSE",
    "WDS_VERBOSE_CACHE",
    "WDS_SHOW_SEED",
    "RANK",
    "WORLD_SIZE",
    "WORKER",
    "NUM_WORKERS",
    "WDS_EPOCH",
    "WDS_CACHE_SIZE",
    "WDS_SECURE",
)
TABLES["setting"] = ("0", "1", "2", "s-=t-", "missing=one", "x")
TABLES["arrays"] = (
    "[]",
    "[np.arange(3), np.ones((2, 2))]",
    "[np.zeros((0, 3), np.float32)]",
    "[np.array(5.0), np.arange(4, dtype=np.int16)]",
    "(np.arange(3),)",
    "[np.array([True])]",
    "None",
)
TABLES["infos"] = ("", "", ", infos=['a', 'b']", ", infos=['a']", ", infos=['longer than 8', 'b']", ", infos=[]")
TABLES["two"] = ("None", "['a', 'b']", "['12345678', '']")
TABLES["back"] = ("", "", ", infos=True", ", infos=False")
TABLES["ten"] = ("x.ten", "x.ten", "x.bin")
TABLES["check"] = ("", "", ", nocheck=True")
TABLES["short"] = ("9999", "9999", "100", "8", "0")
