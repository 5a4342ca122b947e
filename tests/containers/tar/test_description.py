"""An archive that Bushel wrote describes its fields, for readers without its index; other readers skip that."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.tar.archives import archive, as_webdataset, without_description

import bushel
from bushel.compat.webdataset.wids import ShardListDataset
from bushel.kernels import TarScanner, scan_tar

SPEC = {"image": "bytes", "label": "u64", "frames": "utf8[]", "box": "array(float32,4)"}
SAMPLES: list[dict[str, Any]] = [
    {"image": b"j%d" % n, "label": n % 2, "frames": ["a"] * n, "box": np.array([n, 0, 1, 2], np.float32)}
    for n in range(3)
]
LABELS = {"label": ["cat", "dög"]}


def write(path: Path, **options: Any) -> Path:
    with bushel.Writer(path, SPEC, labels=LABELS, sync=False, **options) as writer:
        for number, sample in enumerate(SAMPLES):
            writer.append(sample, key=f"k{number}")
    return path


def bare(path: Path) -> Path:
    """The same without the hidden folder."""
    shutil.rmtree((path if path.is_dir() else path.parent) / ".bushel")
    return path


def test_a_bare_copy_keeps_names_types_and_classes(tmp_path: Path) -> None:
    folder = write(tmp_path / "ds", container="tar", shard_samples=2)
    with bushel.open(folder) as ds:
        before, spec, labels, whole = ds.read(range(3), decode=False), ds.spec, ds.labels, ds.fingerprint
    for place in (bare(folder), *sorted(folder.glob("*.tar"))):
        with bushel.open(place, index="memory") as ds:
            assert (ds.spec, ds.labels) == (spec, labels) == (SPEC, {"label": ("cat", "dög")})
            assert ds.read(range(len(ds)), decode=False) == [before[int(key[1:])] for key in ds.keys]
    assert list(bushel.open(folder).spec) == list(SPEC)
    bushel.index(folder)  # which records the checksums again
    assert bushel.open(folder).fingerprint == whole  # so that a loader goes on with it
    assert bushel.verify(folder).ok


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_stream_has_them_too(tmp_path: Path, pack: Any) -> None:
    data = pack(write(tmp_path / "x.tar").read_bytes())
    stream = bushel.open_stream([io.BytesIO(data)])
    found = [{**sample, "box": sample["box"].tolist()} for sample in stream]
    expected = [{**sample, "box": sample["box"].tolist()} for sample in SAMPLES]
    assert found == [{"__key__": f"k{n}", **sample} for n, sample in enumerate(expected)]
    assert stream.spec == SPEC


def test_an_archive_in_gzip(tmp_path: Path) -> None:
    packed = tmp_path / "x.tar.gz"
    packed.write_bytes(gzip.compress(write(tmp_path / "a" / "x.tar").read_bytes()))
    bushel.index(packed)
    assert bushel.open(packed).spec == SPEC


def test_other_readers_pass_over_it(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar")
    members = ["box.npy", "frames.000000.txt", "frames.000001.txt", "image.bin", "label.cls"]
    for how in ("r:", "r|"):
        with tarfile.open(path, how) as tar:
            names = [member.name for member in tar]
        assert [name for name in names if name.startswith("k2.")] == [f"k2.{each}" for each in members]
    listed = subprocess.run(["tar", "-tf", path], capture_output=True, text=True, check=True)
    assert (listed.stdout.split(), listed.stderr) == (names, "")
    desc = [{"url": str(path), "nsamples": 3}]
    for _ in range(2):  # with the index of Bushel, and without
        found = ShardListDataset(desc, transformations=[dict])[2]
        assert {name for name in found if name.startswith(".")} == {f".{each}" for each in members}
        shutil.rmtree(tmp_path / ".bushel", ignore_errors=True)


def test_fields_named_like_extensions_need_none(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tar", {"jpg": "jpg", "cls": "int", "left.png": "png"}, sync=False) as writer:
        writer.append({"jpg": b"1", "cls": 2, "left.png": b"3"}, key="a")
    assert (tmp_path / "x.tar").read_bytes() == as_webdataset([("a", {"jpg": b"1", "cls": b"2", "left.png": b"3"})])
    with bushel.Writer(tmp_path / "y.tar", {"cls": "int"}, sync=False, labels={"cls": ["a"]}) as writer:
        pass
    assert (tmp_path / "y.tar").read_bytes() == bytes(10240)  # a record without a member after it would be an error


def test_new_names_of_classes_are_reported_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar")
    first = path.read_bytes()
    with bushel.Writer(path, mode="append", sync=False) as writer:
        writer.append(SAMPLES[0], key="k3")
    assert path.read_bytes().count(b"bushel-fields") == 1
    with bushel.Writer(path, mode="append", sync=False, labels={"label": ["cat", "dög", "eel"]}) as writer:
        writer.append(SAMPLES[0], key="k4")
        writer.append(SAMPLES[1], key="k5")
    assert path.read_bytes().count(b"bushel-fields") == 2
    assert path.read_bytes()[:2048] == first[:2048]
    with bushel.open(bare(path), index="memory") as ds:
        assert (ds.labels["label"], len(ds)) == (("cat", "dög", "eel"), 6)
    with tarfile.open(path) as tar:
        assert len(tar.getnames()) == sum(3 + len(each["frames"]) for each in (*SAMPLES, *SAMPLES[:1], *SAMPLES[:2]))


def test_resumed_with_more_classes(tmp_path: Path) -> None:
    path, more = tmp_path / "x.tar", {"label": ["cat", "dög", "eel"]}
    with bushel.Writer(path, SPEC, labels=LABELS, sync=False) as writer:
        writer.append(SAMPLES[0], key="k0")
    with bushel.Writer(path, SPEC, labels=more, mode="resume", sync=False) as writer:
        writer.append(SAMPLES[1], key="k1")
    assert bushel.open(bare(path)).labels == {"label": ("cat", "dög", "eel")}


def test_a_first_sample_that_fails(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tar", SPEC, sync=False) as writer:
        for _ in range(2):
            with pytest.raises(bushel.errors.SpecError, match="first dot"):
                writer.append(SAMPLES[0], key="a.b")
        writer.append(SAMPLES[0], key="a")
    assert (tmp_path / "x.tar").read_bytes().count(b"bushel-fields") == 1
    assert bushel.open(bare(tmp_path / "x.tar")).spec == SPEC


def test_the_caller_declares_other_fields(tmp_path: Path) -> None:
    path = bare(write(tmp_path / "x.tar"))
    with bushel.open(path, spec={"image": "utf8", "label.cls": "int"}, index="memory") as ds:
        assert ds.spec == {"image": "utf8", "label.cls": "int", "frames": "utf8[]", "box": "array(float32,4)"}
        assert (ds[1]["image"], ds[1]["label.cls"]) == ("j1", 1)
    with pytest.raises(bushel.errors.SpecError, match="imag"):
        bushel.open(path, spec={"imag": "bytes"})


def test_a_damaged_archive_keeps_its_names(tmp_path: Path) -> None:
    path = bare(write(tmp_path / "x.tar"))
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"k2.label.cls")] + b"?" * 512)
    with pytest.warns(bushel.errors.DamagedWarning):
        ds = bushel.open(path)
    assert (ds.spec, ds.labels, len(ds)) == (SPEC, {"label": ("cat", "dög")}, 3)


def commented(text: bytes, members: Mapping[str, bytes]) -> bytes:
    """An archive with a comment, by Python's tarfile."""
    header = tarfile.TarInfo.create_pax_global_header({"comment": text.decode("utf-8", "surrogateescape")})
    return header + as_webdataset([("a", members)])


FORGED = [
    b"bushel-fields ",
    b"bushel-fields 1",
    b"bushel-fields 1 {",
    b"bushel-fields 1 []",
    b'bushel-fields 1 {"spec": 3}',
    b'bushel-fields 1 {"spec": {"x": 3}}',
    b'bushel-fields 1 {"spec": {"__key__": "int"}}',
    b'bushel-fields 1 {"spec": {"image": "no-such-codec"}}',
    b'bushel-fields 1 {"spec": {"image": "jpg(path)"}}',
    b'bushel-fields 1 {"spec": {"label": "int"}, "labels": {"label": ["a", "a"]}}',
    b'bushel-fields 1 {"spec": {"label": "int"}, "labels": {"label": 3}}',
    b"bushel-fields 1 " + b"[" * 100_000,
    b"bushel-fields 1 \xff",
    b'bushel-fields 2 {"spec": {"image": "jpg"}}',
]


@pytest.mark.parametrize("text", FORGED, ids=range(len(FORGED)))
def test_what_cannot_be_used_is_left_out(tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    data = commented(text, {"image.jpg": b"j", "label.cls": b"1"})
    (tmp_path / "x.tar").write_bytes(data)
    assert bushel.open(tmp_path / "x.tar").spec == {"image.jpg": "jpg", "label.cls": "cls"}
    assert "named by the extensions" in caplog.text
    [sample] = bushel.open_stream([io.BytesIO(data)]).stored()
    assert sample == {"__key__": "a", "image.jpg": b"j", "label.cls": b"1"}


def test_any_damage_of_a_description_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with bushel.Writer(
        tmp_path / "x.tar", {"image": "jpg", "label": "int"}, labels={"label": ["cat", "dög"]}
    ) as writer:
        writer.append({"image": b"j", "label": 1}, key="a")
    data = (tmp_path / "x.tar").read_bytes()
    first = data.index(b"bushel-fields 1 ") + len("bushel-fields 1 ")
    for at in range(first, data.index(b"\n", first)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        (tmp_path / "y.tar").write_bytes(damaged)
        caplog.clear()
        assert bushel.open(tmp_path / "y.tar", index="memory").spec == {"image.jpg": "jpg", "label.cls": "cls"}
        assert "the comment that describes its fields is malformed" in caplog.text
        assert not bushel.verify(tmp_path / "y.tar").ok


def test_comments_of_other_programs_say_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.tar").write_bytes(commented(b"d3b07384d113edec49eaa6238ad5ff00", {"txt": b"j"}))
    assert bushel.open(tmp_path / "x.tar").spec == {"txt": "utf8"}
    assert not caplog.text


def test_no_code_is_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit('code ran')",)

    value = pickle.dumps(Evil())
    data = commented(b'bushel-fields 1 {"spec": {"notes": "pickle"}}', {"notes.pickle": value})
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.warns(bushel.errors.UntrustedWarning, match="notes"):
        ds = bushel.open(tmp_path / "x.tar", index="memory")
    assert ds[0]["notes"] == value
    with pytest.warns(bushel.errors.UntrustedWarning, match="notes"):
        assert next(iter(bushel.open_stream([io.BytesIO(data)])))["notes"] == value
    with pytest.raises(SystemExit), bushel.open(tmp_path / "x.tar", pickle=True, index="memory") as ds:
        ds[0]


def test_more_than_fits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = [f"{number:01000d}" for number in range(1100)]
    with bushel.Writer(tmp_path / "x.tar", {"label": "int"}, labels={"label": names}, sync=False) as writer:
        writer.append({"label": 3}, key="a")
    assert "more than 1 MiB" in caplog.text
    ds = bushel.open(bare(tmp_path / "x.tar"))
    assert (ds.spec, ds.labels) == ({"label": "int"}, {})


def test_the_kernels_give_the_last_comment() -> None:
    plain = as_webdataset([("a", {"txt": b"1"})])
    assert scan_tar(plain).comment == b""
    one = tarfile.TarInfo.create_pax_global_header({"comment": "one", "path": ""})
    other = tarfile.TarInfo.create_pax_global_header({"comment": "é" * 700})
    own = archive([("b.txt", b"2")], format=tarfile.PAX_FORMAT, pax_headers={})
    data = one + plain[:1024] + other + own
    assert scan_tar(data).comment == ("é" * 700).encode()
    scanner = TarScanner(len(data))
    while (window := scanner.next_window()) is not None:
        scanner.feed(data[window[0] : window[0] + window[1]])
    assert scanner.take().comment == ("é" * 700).encode()
    assert without_description(one + plain) == plain
