"""The gulp container: layouts of GulpIO2 0.0.4 byte for byte, both ways."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.gulp.chunks import DATA, META, chunk, read
from tests.containers.summed import summed_table
from tests.containers.writing import ShardInProgress, stored_samples

import bushel
from bushel._index.table import ShardIndex
from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions, Stored, WriteOptions
from bushel.containers.gulp import CONTAINER
from bushel.containers.gulp.gmeta import parse_gmeta
from bushel.errors import CodecError, FormatError, SpecError, UnsupportedError
from bushel.kernels import crc32
from bushel.spec import parse_spec
from bushel.storage import Staging

VIDEO = {"frames": "jpg[]", "meta": "json"}

Sample = tuple[str, Mapping[str, Any]]


def start(root: Path, spec: Mapping[str, str], number: int = 0) -> ShardInProgress:
    return ShardInProgress(CONTAINER, root, spec, keyed=True, single=True, name=f"data_{number}.gulp")


def append(progress: ShardInProgress, samples: Iterable[Sample]) -> None:
    """Add samples as the Writer does: encoded, sequences as iterators."""
    for key, values in samples:
        stored: dict[str, Stored] = {}
        for column in progress.layout.columns:
            if (name := column.field.name) in values:
                encode, value = stored_as(column.codec), values[name]
                stored[name] = (encode(item) for item in value) if column.field.sequence else encode(value)
        progress.append([(key, stored)])


def stored_as(codec: str) -> Callable[[Any], Any]:
    encode = get_codec(codec).encode
    return lambda value: value if isinstance(value, bytes | bytearray | memoryview | np.ndarray) else encode(value)


def pack(root: Path, spec: Mapping[str, str], samples: Iterable[Sample], number: int = 0) -> ShardIndex:
    progress = start(root, spec, number)
    append(progress, samples)
    return progress.finish()


def test_reads_the_documented_bytes(tmp_path: Path) -> None:
    assert read(chunk(tmp_path)) == [
        ("v1", {"frames": [b"abc", b"defgh"], "meta": b'{"label": "x"}'}),
        ("v2", {"frames": [b"ijkl"], "meta": b"{}"}),
    ]


def test_index_names_files_types_and_places(tmp_path: Path) -> None:
    [shard] = CONTAINER.shards(chunk(tmp_path)) or []
    scanned: list[int] = []
    index = CONTAINER.index(shard, ReadOptions(report=scanned.append))
    assert shard.name == "data_0.gulp"
    assert [(stamp.name, stamp.size) for stamp in index.files] == [("data_0.gulp", 16), ("meta_0.gmeta", len(META))]
    assert {name: (column.field.type, column.codec, column.file) for name, column in index.fields.items()} == {
        "frames": ("jpg[]", "jpg", 0),
        "meta": ("json", "json", 1),
    }
    assert index.fields["frames"].crc32 is None
    assert scanned == [len(META)]


def test_checksums_on_request(tmp_path: Path) -> None:
    [shard] = CONTAINER.shards(chunk(tmp_path)) or []
    index = summed_table(CONTAINER, shard)
    frames, meta = index.fields["frames"].crc32, index.fields["meta"].crc32
    assert frames is not None
    assert meta is not None
    assert frames.tolist() == [crc32(b"abc"), crc32(b"defgh"), crc32(b"ijkl")]
    assert meta.tolist() == [crc32(b'{"label": "x"}'), crc32(b"{}")]


def test_writes_the_documented_bytes(tmp_path: Path) -> None:
    index = pack(
        tmp_path,
        VIDEO,
        [
            ("v1", {"frames": [b"abc", bytearray(b"defgh")], "meta": {"label": "x"}}),
            ("v2", {"frames": iter([np.frombuffer(b"ijkl", np.uint8)]), "meta": {}}),
        ],
    )
    assert (tmp_path / "data_0.gulp").read_bytes() == DATA
    assert (tmp_path / "meta_0.gmeta").read_bytes() == META
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data_0.gulp", "meta_0.gmeta"]
    [shard] = CONTAINER.shards(tmp_path) or []
    assert stored_samples(shard, index) == read(tmp_path)


SPELLED = {"frames": "jpg", "label": "json"}


@pytest.mark.parametrize("text", ["0", "7", "12345678901234567890123", "-1", "1e2", " 7", "[1,2]"])
def test_json_is_spelled_as_gulpio2_does(tmp_path: Path, text: str) -> None:
    pack(tmp_path, SPELLED, [("a", {"frames": b"abcd", "label": text.encode()})])
    table = (tmp_path / "meta_0.gmeta").read_text()
    assert table.endswith(f'"meta_data": [{{"label": {json.dumps(json.loads(text))}}}]}}}}')


@pytest.mark.parametrize("text", ["", "00", "07", "\uff17", "\u00b2", "7 8", "1_0"])
def test_text_that_is_not_json_is_refused(tmp_path: Path, text: str) -> None:
    shard = ShardInProgress(CONTAINER, tmp_path, SPELLED)
    with pytest.raises(SpecError, match="'label'"):
        shard.append([("a", {"frames": b"abcd", "label": text.encode()})])
    shard.staging.discard()


def test_golden_datasets_read_exactly(golden: Path) -> None:
    manifests = sorted(golden.glob("gulpio2-*/*/manifest.json"))
    assert len(manifests) >= 5
    for path in manifests:
        manifest = json.loads(path.read_text())
        found = read(path.parent / manifest["open"])
        assert [key for key, _ in found] == [sample["key"] for sample in manifest["samples"]], path
        for (_, fields), sample in zip(found, manifest["samples"], strict=True):
            assert [
                {"sha256": hashlib.sha256(frame).hexdigest(), "length": len(frame)} for frame in fields["frames"]
            ] == sample["fields"]["frames"]
            assert json.loads(fields["meta"]) == sample["fields"]["meta"]["value"]


@pytest.mark.parametrize("name", ["videos", "many-chunks", "image-folder"])
def test_golden_bytes_come_out_again(golden: Path, tmp_path: Path, name: str) -> None:
    source = golden / "gulpio2-0.0.4" / name / "data"
    numbers = {int("".join(filter(str.isdigit, shard.name))): shard for shard in CONTAINER.shards(source) or []}
    for number, shard in sorted(numbers.items()):
        pack(tmp_path, VIDEO, stored_samples(shard, CONTAINER.index(shard, ReadOptions())), number)
        for file in shard.files:
            assert (tmp_path / file).read_bytes() == (source / file).read_bytes()


def test_chunks_come_in_the_order_of_their_names_as_text(tmp_path: Path) -> None:
    for number in range(12):
        chunk(tmp_path, b"", b'{"i%d": {"frame_info": [], "meta_data": [{}]}}' % number, number)
    assert [key for key, _ in read(tmp_path)] == [f"i{n}" for n in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)]
    [one] = CONTAINER.shards(tmp_path / "data_10.gulp") or []
    assert one.files == ("data_10.gulp", "meta_10.gmeta")


def test_odd_names_pair_by_their_first_number(tmp_path: Path) -> None:
    for name in ("data-007-x12.gulp", "meta_7.gmeta", "data_12b.gulp", "meta_k_0012.gmeta", "label2idx.json", "d.gulp"):
        (tmp_path / name).touch()
    assert [shard.files for shard in CONTAINER.shards(tmp_path) or []] == [
        ("data-007-x12.gulp", "meta_7.gmeta"),
        ("data_12b.gulp", "meta_k_0012.gmeta"),
    ]


@pytest.mark.parametrize(
    ("names", "culprit"),
    [
        (["data_0.gulp", "data_1.gulp", "meta_1.gmeta"], "data_0.gulp"),
        (["data_1.gulp", "meta_0.gmeta", "meta_1.gmeta"], "meta_0.gmeta"),
        (["meta_3.gmeta"], "meta_3.gmeta"),
        (["data_0.gulp", "data-0.gulp", "meta_0.gmeta"], "data_0.gulp"),
        (["data_1.gulp", "data_10.gulp", "meta-10.gmeta", "meta_1.gmeta"], "data_1.gulp"),
        (["data.gulp", "meta.gmeta"], "data.gulp"),
    ],
)
def test_unpaired_files_are_named(tmp_path: Path, names: list[str], culprit: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(FormatError) as caught:
        CONTAINER.shards(tmp_path)
    assert caught.value.file in (str(tmp_path / culprit), str(tmp_path / names[-1]))


def test_other_paths_are_not_gulp(tmp_path: Path) -> None:
    (tmp_path / "x.tar").touch()
    assert CONTAINER.shards(tmp_path) is None
    assert CONTAINER.shards(tmp_path / "x.tar") is None


def test_ids_and_metadata_as_json_has_them(tmp_path: Path) -> None:
    meta = (
        '{"\\u00e9t\\u00e9": {"meta_data" : [ {"a": "\\u2615"} , {"hidden": 1}], "more": 0, "frame_info": []},\n'
        ' "r\u00e9p\u00e9t\u00e9": {"frame_info": [], "meta_data": [{"n": 1}]},'
        ' "none": {"frame_info": [], "meta_data": []},'
        ' "r\u00e9p\u00e9t\u00e9": {"frame_info": [], "meta_data": [{"n": 2}]}}'
    )
    assert read(chunk(tmp_path, b"", meta.encode())) == [
        ("été", {"frames": [], "meta": b'{"a": "\\u2615"}'}),
        ("répété", {"frames": [], "meta": b'{"n": 2}'}),
        ("none", {"frames": []}),
    ]


def test_what_only_python_calls_json_is_read_too(tmp_path: Path) -> None:
    meta = (
        b'{"a\\udc80": {"frame_info": [[0, 0, 2]], "meta_data": [{"x": NaN}]},'
        b' "b": {"frame_info": [], "meta_data": []}}'
    )
    [(key, fields), (_, second)] = read(chunk(tmp_path, b"ab", meta))
    assert key == "a\udc80"
    assert fields["frames"] == [b"ab"]
    assert math.isnan(get_codec("json").decode(fields["meta"])["x"])
    assert second == {"frames": []}


ImgInfo = namedtuple("ImgInfo", ["loc", "pad", "length"])


@pytest.fixture
def pickled(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The table of `META` as GulpIO2's pickle serializer writes it."""
    module = ModuleType("gulpio2.fileio")
    module.ImgInfo = ImgInfo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gulpio2", ModuleType("gulpio2"))
    monkeypatch.setitem(sys.modules, "gulpio2.fileio", module)
    monkeypatch.setattr(ImgInfo, "__module__", "gulpio2.fileio")
    table = json.loads(META, object_pairs_hook=OrderedDict)
    for entry in table.values():
        entry["frame_info"] = [ImgInfo(*info) for info in entry["frame_info"]]
    return pickle.dumps(table)


def test_pickled_tables_only_on_request(tmp_path: Path, pickled: bytes) -> None:
    chunk(tmp_path, DATA, pickled)
    with pytest.raises(FormatError, match="pickle=True"):
        read(tmp_path)
    assert read(tmp_path, pickle=True) == read(chunk(tmp_path / "json"))


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    chunk(tmp_path, b"", pickle.dumps({"a": Evil()}))
    with pytest.raises(FormatError, match="it refers to"):
        read(tmp_path, pickle=True)
    assert not (tmp_path / "ran").exists()


NAMES = st.text(min_size=1).filter(lambda name: name != "__key__" and "\0" not in name)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(data=st.data())
def test_samples_come_back_with_and_without_the_builders_index(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("gulp")
    image, label, words, anything = data.draw(st.lists(NAMES, min_size=4, max_size=4, unique=True))
    video = data.draw(st.booleans())
    spec = {label: "i64", image: "jpg[]" if video else "jpg", words: "utf8[]", anything: "json"}
    keys = data.draw(st.lists(st.text(), unique=True, max_size=6))
    frame = st.binary(max_size=9)
    samples: list[Sample] = []
    for key in keys:
        values: dict[str, Any] = {
            image: data.draw(st.lists(frame, max_size=3) if video else frame),
            label: data.draw(st.integers(-(2**63), 2**63 - 1)),
            words: data.draw(st.lists(st.text(), max_size=3)),
            anything: data.draw(JSON),
        }
        for name in data.draw(st.sets(st.sampled_from([label, words, anything]))):
            del values[name]
        samples.append((key, values))
    index = pack(folder, spec, samples)
    [shard] = CONTAINER.shards(folder) or []
    found = stored_samples(shard, index)
    decode = get_codec("json").decode
    for (key, fields), (wanted_key, wanted) in zip(found, samples, strict=True):
        assert key == wanted_key
        assert fields.keys() == wanted.keys()
        assert fields[image] == wanted[image]
        assert {
            name: [decode(item) for item in value] if name == words else decode(value)
            for name, value in fields.items()
            if name != image
        } == {name: value for name, value in wanted.items() if name != image}
    for (key, fields), (wanted_key, wanted) in zip(read(folder), samples, strict=True):
        assert key == wanted_key
        assert fields["frames"] == (wanted[image] if video else [wanted[image]])
        assert decode(fields["meta"]) == {name: value for name, value in wanted.items() if name != image}


def test_a_kill_after_any_sample_is_continued(tmp_path: Path) -> None:
    samples = [(f"k{n}", {"image": bytes([n]) * n, "label": n, "text": "é" * n}) for n in range(5)]
    spec = {"image": "jpg", "label": "int", "text": "utf8"}
    pack(tmp_path / "whole", spec, samples)
    for kept in range(len(samples) + 1):
        progress = start(tmp_path / str(kept), spec)
        append(progress, samples[:kept])
        progress.kill_and_resume()
        append(progress, samples[kept:])
        progress.finish()
        for name in progress.shard.files:
            assert (tmp_path / str(kept) / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_refused_sample_leaves_no_trace(tmp_path: Path) -> None:
    progress = start(tmp_path, {"image": "jpg", "label": "int"})
    append(progress, [("a", {"image": b"abcd", "label": 1})])
    positions = progress.staging.positions
    with pytest.raises(SpecError, match="are not"):
        append(progress, [("b", {"image": b"efgh", "label": b"\x01\x02"})])
    progress.abandon(1, positions)
    with pytest.raises(CodecError, match="an integer"):
        append(progress, [("b", {"image": b"efgh", "label": b'"one"'})])
    progress.abandon(1, positions)
    append(progress, [("b", {"image": b"ij", "label": b"2"})])
    progress.finish()
    assert read(tmp_path) == [
        ("a", {"frames": [b"abcd"], "meta": b'{"label": 1}'}),
        ("b", {"frames": [b"ij"], "meta": b'{"label": 2}'}),
    ]


@pytest.mark.parametrize("number", [0, 2])
def test_an_existing_chunk_is_continued(tmp_path: Path, number: int) -> None:
    """As the original's `ab` mode does, from files that it wrote, whatever their spacing."""
    samples = [(f"k{n}", {"frames": [b"12345"], "meta": {"n": n}}) for n in range(3)]
    pack(tmp_path / "whole", VIDEO, samples)
    pack(tmp_path / "part", VIDEO, samples[:number])
    table = tmp_path / "part" / "meta_0.gmeta"
    table.write_bytes(table.read_bytes()[:-1] + b" \n}\n")
    progress = ShardInProgress(CONTAINER, tmp_path / "part", VIDEO, keyed=True, name="data_0.gulp")
    progress.reopen()
    append(progress, samples[number:])
    progress.finish()
    for name in progress.shard.files:
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_pickled_chunk_is_not_continued(tmp_path: Path, pickled: bytes) -> None:
    [shard] = CONTAINER.shards(chunk(tmp_path, DATA, pickled)) or []
    index = CONTAINER.index(shard, ReadOptions(pickle=True))
    layout = CONTAINER.layout(parse_spec(VIDEO), WriteOptions(keyed=True))
    with pytest.raises(UnsupportedError, match="add chunks"):
        CONTAINER.reopen(layout, shard, index, Staging(tmp_path, shard.name))


def test_new_chunks_are_numbered_after_those_there(tmp_path: Path) -> None:
    alone = CONTAINER.layout(parse_spec(VIDEO), WriteOptions(keyed=True, single=True))
    assert CONTAINER.shard(tmp_path, alone, (), None).files == ("data_0.gulp", "meta_0.gmeta")
    layout = CONTAINER.layout(parse_spec(VIDEO), WriteOptions(keyed=True))
    names = ("data_000000.gulp", "meta_000000.gmeta")
    assert CONTAINER.shard(tmp_path, layout, (), None).files == names
    first = CONTAINER.shard(tmp_path, layout, (), None)
    assert CONTAINER.shard(tmp_path, layout, [first], None).name == "data_000001.gulp"
    chunk(tmp_path, number=3)
    chunk(tmp_path, number=11)
    there = CONTAINER.shards(tmp_path) or []
    assert [shard.name for shard in there] == ["data_11.gulp", "data_3.gulp"]
    assert CONTAINER.shard(tmp_path, layout, there, None).files == ("data_4.gulp", "meta_4.gmeta")


def test_appended_samples_come_last(tmp_path: Path) -> None:
    """Readers sort names as text, so the chunk after data_9 is not data_10, which is read before data_2."""
    for number in range(12):
        mode: Any = "append" if number else "create"
        with bushel.Writer(tmp_path / "ds", {"image": "jpg", "n": "int"}, container="gulp", mode=mode) as out:
            out.append({"image": b"\xff\xd8", "n": number}, key=f"k{number}")
    with bushel.open(tmp_path / "ds") as ds:
        assert ds.column("n").tolist() == list(range(12))
        assert ds.read(range(12), ["n"]) == [{"__key__": f"k{number}", "n": number} for number in range(12)]
    names = sorted(path.name for path in (tmp_path / "ds").glob("*.gulp"))
    assert names[-3:] == ["data_9.gulp", "data_90.gulp", "data_91.gulp"]


def test_the_user_may_name_the_chunk(tmp_path: Path) -> None:
    layout = CONTAINER.layout(parse_spec(VIDEO), WriteOptions(keyed=True, single=True))
    assert CONTAINER.shard(tmp_path, layout, (), "data_7.gulp").files == ("data_7.gulp", "meta_7.gmeta")
    for name in ("train.gulp", "data.gulp", "data_7.tar"):
        with pytest.raises(SpecError, match="data_<number>"):
            CONTAINER.shard(tmp_path, layout, (), name)


def test_an_empty_chunk_has_an_empty_table(tmp_path: Path) -> None:
    pack(tmp_path, VIDEO, [])
    assert (tmp_path / "data_0.gulp").read_bytes() == b""
    assert (tmp_path / "meta_0.gmeta").read_bytes() == b"{}"
    assert read(tmp_path) == []


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"label": "int"}, "exactly one field of JPEG frames"),
        ({"clip": "mp4"}, r"or bushel.sources.Frames \(--frames\) for videos"),
        ({"left": "jpg", "right": "jpg"}, "'left', 'right'"),
        ({"image": "png", "label": "int"}, "exactly one field of JPEG frames"),
        ({"image": "jpg", "mask": "png"}, "field 'mask'.*tar"),
        ({"image": "jpg", "raw": "bytes"}, "cannot hold bytes"),
        ({"image": "jpg", "boxes": "array(float32,4)[]"}, r"cannot hold array\(float32,4\)\[\]"),
    ],
)
def test_specs_it_cannot_hold_are_refused_with_the_reason(spec: dict[str, str], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        CONTAINER.layout(parse_spec(spec), WriteOptions(keyed=False))


def test_layout_of_a_spec() -> None:
    layout = CONTAINER.layout(parse_spec({"label": "int", "image": "jpg(90)"}), WriteOptions(keyed=False))
    assert [(column.field.name, column.codec, column.file) for column in layout.columns] == [
        ("label", "json", 1),
        ("image", "jpg(90)", 0),
    ]
    assert layout.options.keyed
    assert layout.sparse


@pytest.mark.parametrize(
    ("spec", "values", "why"),
    [
        (VIDEO, {"meta": {}}, "empty list"),
        (VIDEO, {"frames": []}, "empty dict"),
        (VIDEO, {"frames": [], "meta": [1]}, "must be a dict"),
        ({"image": "jpg", "x": "json"}, {"image": b"", "x": b"\xff"}, "are not"),
    ],
)
def test_samples_it_cannot_hold_are_refused(
    tmp_path: Path, spec: dict[str, str], values: dict[str, Any], why: str
) -> None:
    progress = start(tmp_path, spec)
    with pytest.raises(SpecError, match=why):
        append(progress, [("k", values)])
    with pytest.raises(SpecError, match="needs an id"):
        progress.writer.append(None, cast("Mapping[str, Stored]", values))
    progress.staging.discard()


def test_huge_tables_are_parsed_by_place_not_by_search() -> None:
    """Metadata that looks like other metadata, or like the table around it, keeps its own place."""
    text = json.dumps(
        {
            f"{n}": {"frame_info": [], "meta_data": [{}, {"n": n}] if n % 2 else [{"t": '"meta_data": [{}]'}]}
            for n in range(1000)
        }
    ).encode()
    table = parse_gmeta(text, "x")
    places = [text[start : start + length] for start, length in zip(table.offset, table.length, strict=True)]
    assert places == [b"{}" if n % 2 else b'{"t": "\\"meta_data\\": [{}]"}' for n in range(1000)]
    assert np.all(np.diff(table.offset) > 0)


def test_many_chunks_are_read_in_the_order_of_writing(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", {"image": "jpg", "n": "int"}, container="gulp", shard_samples=1) as writer:
        for number in range(12):
            writer.append({"image": b"\xff\xd8", "n": number}, key=f"k{number}")
    with bushel.Writer(tmp_path / "ds", mode="append", shard_samples=1) as writer:
        writer.append({"image": b"\xff\xd8", "n": 12}, key="k12")
    assert sorted(path.name for path in (tmp_path / "ds").glob("*.gulp"))[-1] == "data_000012.gulp"
    assert [sample["n"] for sample in bushel.open(tmp_path / "ds").read(range(13), ["n"])] == list(range(13))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"clip": "jpg[]", "label": "utf8"}, [{"label": "x", "clip": [b"abc", b"defgh"]}, {"clip": [b"ijkl"]}]),
        ({"label": "json", "frames": "jpg[]"}, [{"label": "x", "frames": [b"abc", b"defgh"]}, {"frames": [b"ijkl"]}]),
        ({"frames": "jpg[]"}, [{"frames": [b"abc", b"defgh"]}, {"frames": [b"ijkl"]}]),
    ],
)
def test_a_spec_finds_fields_in_the_meta(tmp_path: Path, spec: dict[str, str], expected: list[dict[str, Any]]) -> None:
    dataset = bushel.open(chunk(tmp_path), spec=spec)
    stored = dataset.read([0, 1], decode=False)
    assert [{name: value for name, value in sample.items() if name != "__key__"} for sample in stored] == [
        {name: b'"x"' if value == "x" else value for name, value in sample.items()} for sample in expected
    ]
    assert dataset.spec == spec


def test_a_spec_that_the_items_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="up to 2 frames"):
        bushel.open(chunk(tmp_path), spec={"image": "jpg"})
    with pytest.raises(SpecError, match="not a list"):
        bushel.open(tmp_path, spec={"frames": "jpg[]", "label": "utf8[]"})
    with pytest.raises(SpecError, match="exactly one field"):
        bushel.open(tmp_path, spec={"label": "utf8"})
