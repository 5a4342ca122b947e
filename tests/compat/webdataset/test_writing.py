"""Archives: their bytes, compared with Python's tarfile, which the original writes through."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.compat.webdataset.shards import files_of, numbered

import bushel.compat.webdataset as wds
from bushel.compat.webdataset.encoders import imageencoder, make_encoder


def by_tarfile(files: list[tuple[str, bytes]], **attributes: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w|", format=attributes.pop("format", tarfile.PAX_FORMAT)) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for key, value in {"mode": 0o444, "uname": "bigdata", "gname": "bigdata", **attributes}.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({"mtime": 0}, {"mtime": 0}),
        ({"mtime": 1234567890}, {"mtime": 1234567890}),
        ({"mtime": 0.5}, {"mtime": 0.5}),
        (
            {"mtime": 0, "user": "ü", "group": "g", "mode": 0o600},
            {"mtime": 0, "uname": "ü", "gname": "g", "mode": 0o600},
        ),
        ({"mtime": 0, "format": "GNU_FORMAT"}, {"mtime": 0, "format": tarfile.GNU_FORMAT}),
        ({"mtime": 0, "format": tarfile.PAX_FORMAT}, {"mtime": 0}),
    ],
)
def test_bytes_are_those_of_tarfile(options: dict[str, Any], attributes: dict[str, Any]) -> None:
    out = io.BytesIO()
    with wds.TarWriter(out, **options) as writer:
        assert writer.write({"__key__": "dir/a", "txt": "é", "cls": 3, "_meta": "x"}) == 3
        writer.write({"__key__": "long/" * 50, "bin": b"x" * 513})
    files = [("dir/a.cls", b"3"), ("dir/a.txt", "é".encode()), ("long/" * 50 + ".bin", b"x" * 513)]
    assert out.getvalue() == by_tarfile(files, **attributes)


def test_a_time_of_now_takes_no_extra_room() -> None:
    out = io.BytesIO()
    with wds.TarWriter(out) as writer:
        writer.write({"__key__": "a", "cls": 3})
    assert len(out.getvalue()) == 10240
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        [member] = tar
        assert member.mtime > 1e9
        assert member.pax_headers == {}


def test_the_golden_archive() -> None:
    out = io.BytesIO()
    with wds.TarWriter(out, mtime=0) as writer:
        writer.write({"__key__": "a", "cls": 3, "txt": "hi"})
    content = out.getvalue()
    assert len(content) == 10240
    assert content[:5] == b"a.cls"
    assert content[148:157] == b"011505\0 0"
    assert content[0x200:0x201] == b"3"
    assert content[0x400:0x405] == b"a.txt"
    assert content[0x600:0x602] == b"hi"


@pytest.mark.parametrize("name", ["shards", "encoders"])
def test_files_of_the_original_are_written_again(golden: Path, name: str, tmp_path: Path) -> None:
    """What webdataset wrote from bytes is what Bushel writes from them."""
    folder = golden / "webdataset-1.0.2" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    for path in sorted((folder / "data").glob("*.tar")):
        with tarfile.open(path) as tar:
            mtimes = {member.mtime for member in tar}
        with wds.TarWriter(str(tmp_path / path.name), mtime=mtimes.pop() if mtimes else 0) as writer:
            for sample in wds.WebDataset(str(path), shardshuffle=False, empty_check=False):
                writer.write({key: value for key, value in sample.items() if key not in ("__url__", "__local_path__")})
        assert files_of(tmp_path / path.name) == files_of(path)
    assert manifest["samples"]


@pytest.mark.parametrize("suffix", ["tar.gz", "tgz", "tar.bz2", "tar.xz"])
def test_compressed_archives(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    with wds.TarWriter(str(path)) as writer:
        writer.write({"__key__": "a", "txt": "x"})
    assert files_of(path) == [("a.txt", b"x")]
    with open(tmp_path / "b", "wb") as stream, wds.TarWriter(stream, compress="bz2") as writer:
        writer.write({"__key__": "a", "txt": "x"})
    assert files_of(tmp_path / "b") == [("a.txt", b"x")]
    with wds.TarWriter(str(path), compress=False, mtime=0) as writer:
        writer.write({"__key__": "a", "txt": "x"})
    assert path.read_bytes() == by_tarfile([("a.txt", b"x")], mtime=0)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"cls": 3}, "must contain a __key__"),
        ({"__key__": "a", "what": object()}, "no handler found for what"),
        ({"__key__": "a", "_meta": 3}, "metadata must be of string type"),
        ({"__key__": "a", "jpg": np.full((2, 2), 1.5)}, "image values out of range"),
        ({"__key__": "a", "jpg": np.zeros((2, 2, 4), np.uint8)}, "HxWx3, not \\("),
        ({"__key__": "a", "npz": [1]}, "dict of arrays"),
    ],
)
def test_what_cannot_be_written(sample: dict[str, Any], message: str) -> None:
    out = io.BytesIO()
    writer = wds.TarWriter(out)
    with pytest.raises(ValueError, match=message):
        writer.write(sample)
    writer.close()
    writer.close()
    assert len(out.getvalue()) == 10240  # nothing of the sample


def test_encoders_of_ones_own() -> None:
    assert make_encoder({"n": lambda x: b"%d" % x})({"n": 3, "x": b"b"}) == {"n": b"3", "x": b"b"}
    assert make_encoder(False)({"n": 3}) == {"n": 3}
    assert make_encoder(dict)({"n": 3}) == {"n": 3}
    with pytest.raises(ValueError, match="unknown decoder spec"):
        make_encoder(3)
    with pytest.raises(ValueError, match="doesn't map to a bytes"):
        wds.TarWriter(io.BytesIO(), encoder=False).write({"__key__": "a", "n": "text"})
    for wrong in ({"format": "ZIP"}, {"compress": "zip"}):
        with pytest.raises(ValueError, match="unknown"):
            wds.TarWriter(io.BytesIO(), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["png", "ppm", "tiff", "pgm"])
def test_images_come_back(kind: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7) if kind == "pgm" else (5, 7, 3), dtype=np.uint8)
    out = io.BytesIO()
    with wds.TarWriter(out, mtime=0) as writer:
        writer.write({"__key__": "a", kind: pixels})
    [(_, data)] = files_of_bytes(out.getvalue())
    found = np.asarray(Image.open(io.BytesIO(data)))
    assert kind == "tiff" or (found == pixels).all()
    assert found.shape == pixels.shape


def files_of_bytes(content: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]


def test_images_of_one_channel_and_of_pillow() -> None:
    pixels = np.linspace(0, 1, 12).reshape(3, 4, 1)
    assert np.asarray(Image.open(io.BytesIO(imageencoder(pixels)))).shape == (3, 4)
    assert Image.open(io.BytesIO(imageencoder(Image.new("L", (4, 3)), "jpg"))).size == (4, 3)
    with pytest.raises(ValueError, match="not a str"):
        imageencoder("x")


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    writer = wds.TarWriter(str(path), mtime=0)
    writer.write({"__key__": "a", "txt": "x"})
    assert not path.exists()
    writer.close()
    assert files_of(path) == [("a.txt", b"x")]
    for leave in (wds.TarWriter.discard, wds.TarWriter.close):
        other = wds.TarWriter(f"file:{path}", mtime=0)
        other.write({"__key__": "b", "txt": "y"})
        assert files_of(path) == [("a.txt", b"x")]
        leave(other)
    assert files_of(path) == [("b.txt", b"y")]
    assert [one.name for one in tmp_path.iterdir()] == ["a.tar"]
    with pytest.raises(FileNotFoundError) as caught:
        wds.TarWriter(str(tmp_path / "none" / "a.tar"))
    assert caught.value.filename == str(tmp_path / "none" / "a.tar")
    with pytest.raises(IsADirectoryError):
        wds.TarWriter(str(tmp_path))


def test_a_body_that_raises_and_a_writer_that_is_forgotten_leave_what_was_written(tmp_path: Path) -> None:
    def fails() -> None:
        with wds.TarWriter(str(tmp_path / "a.tar")) as writer:
            writer.write({"__key__": "a", "txt": "x"})
            raise KeyError("body")

    with pytest.raises(KeyError, match="body"):
        fails()
    assert files_of(tmp_path / "a.tar") == [("a.txt", b"x")]
    with pytest.warns(ResourceWarning, match=r"b\.tar was not closed"):
        wds.TarWriter(str(tmp_path / "b.tar")).write({"__key__": "b", "txt": "y"})
    assert files_of(tmp_path / "b.tar") == [("b.txt", b"y")]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_stays_one_and_devices_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "target.tar").write_bytes(b"old")
    (tmp_path / "link.tar").symlink_to("target.tar")
    with wds.TarWriter(str(tmp_path / "link.tar")) as writer:
        writer.write({"__key__": "a", "txt": "x"})
    assert (tmp_path / "link.tar").is_symlink()
    assert files_of(tmp_path / "target.tar") == [("a.txt", b"x")]
    with wds.TarWriter("/dev/null") as writer:
        writer.write({"__key__": "a", "txt": "x"})
    assert Path("/dev/null").is_char_device()


def test_shards_are_numbered_and_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done: list[str] = []
    pattern = str(tmp_path / "x-%04d.tar")
    with wds.ShardWriter(pattern, maxcount=4, post=done.append, start_shard=3, mtime=0) as writer:
        for i in range(10):
            writer.write({"__key__": f"s{i:03d}", "cls": i, "txt": f"t{i}"})
        assert (writer.total, writer.count) == (10, 2)
    writer.close()
    assert done == [str(tmp_path / f"x-{i:04d}.tar") for i in (3, 4, 5)]
    assert [file for path in done for file in files_of(Path(path))] == numbered(0, 10)
    assert capsys.readouterr().out.splitlines() == [
        f"# writing {path} {count} 0.0 GB {total}"
        for path, (count, total) in zip(done, [(0, 0), (4, 4), (4, 8)], strict=True)
    ]


def test_shards_have_a_largest_size(tmp_path: Path) -> None:
    with wds.ShardWriter(str(tmp_path / "%d.tar"), maxsize=100, verbose=0) as writer:
        for i in range(6):
            writer.write({"__key__": str(i), "bin": bytes(60)})
    assert [len(files_of(tmp_path / f"{i}.tar")) for i in range(3)] == [2, 2, 2]
    assert len(list(tmp_path.iterdir())) == 3
    for pattern in ("x.tar", "%d-%d.tar"):
        with pytest.raises(TypeError, match="no single place for the number"):
            wds.ShardWriter(pattern)


def test_an_opener_opens_shards_which_are_closed(tmp_path: Path) -> None:
    opened: list[Any] = []

    def opener(name: str) -> Any:
        opened.append(open(tmp_path / name, "wb"))  # noqa: SIM115
        return opened[-1]

    with wds.ShardWriter("%d.tar", maxcount=1, opener=opener, verbose=0) as writer:
        writer.write({"__key__": "a", "txt": "x"})
        writer.write({"__key__": "b", "txt": "y"})
    assert [stream.closed for stream in opened] == [True, True]
    assert files_of(tmp_path / "1.tar") == [("b.txt", b"y")]
