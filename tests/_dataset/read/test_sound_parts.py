"""Windows of WAV and FLAC: only their bytes are read, and they equal the same frames of the whole."""

from __future__ import annotations

import io
import itertools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.counted import counted

import bushel
from bushel.codecs import get_codec
from bushel.codecs.libsndfile import flac_frames
from bushel.codecs.wav_parts import WavOutline

av = pytest.importorskip("av")

RATE, SECONDS = 16000, 40
LOOKED_AT = 4096  # of a WAV file, for its header
GUID = bytes.fromhex("000000001000800000aa00389b71")


def noise(channels: int = 2, frames: int = RATE * SECONDS, seed: int = 0) -> Any:
    """A tone whose loudness changes, so that frames of FLAC have very different sizes."""
    rng, time = np.random.default_rng(seed), np.arange(frames)
    loud = (np.sin(time / RATE / 3) ** 2)[:, None]
    return ((rng.normal(0, 0.2, (frames, channels)) * loud) + np.sin(time / 31)[:, None] / 4).astype(np.float32)


def wav(sound: Any, tag: int, bits: int, *, extra: bytes = b"", after: bytes = b"", extensible: bool = False) -> bytes:
    """Write a WAV file by hand, with chunks before and after the frames."""
    if tag == 3:
        raw = sound.astype(f"<f{bits // 8}").tobytes()
    elif bits == 8:
        raw = (np.clip(np.rint(sound * 128), -128, 127) + 128).astype(np.uint8).tobytes()
    else:
        whole = np.clip(np.rint(sound.astype(np.float64) * 2 ** (bits - 1)), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        wide = whole.astype("<i8").reshape(-1, 1).view(np.uint8)
        raw = wide[:, : bits // 8].tobytes()
    channels = sound.shape[1]
    block = channels * bits // 8
    head = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, RATE, RATE * block, block, bits)
    if extensible:
        head += struct.pack("<HHIH", 22, bits, (1 << channels) - 1, tag) + GUID
    chunks = b"".join(
        struct.pack("<4sI", name, len(body)) + body + b"\0" * (len(body) % 2)
        for name, body in ((b"fmt ", head), (b"LIST", extra), (b"data", raw), (b"junk", after))
        if body
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def flac(sound: Any, **options: str) -> bytes:
    """Encode with FFmpeg, which writes no seek table."""
    stored = io.BytesIO()
    with av.open(stored, "w", format="flac") as output:
        stream = output.add_stream("flac", rate=RATE, options=options)
        layout = {1: "mono", 2: "stereo"}[sound.shape[1]]
        stream.codec_context.layout, stream.codec_context.format = layout, "s16"
        raw = np.clip(np.rint(sound * 32768), -32768, 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(raw.reshape(1, -1)), format="s16", layout=layout)
        frame.sample_rate, frame.pts = RATE, 0
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return stored.getvalue()


def frames_of(data: bytes) -> tuple[int, list[tuple[int, int, int]]]:
    """Return where the frames of a FLAC file begin, and place, first sample and length of each."""
    with av.open(io.BytesIO(data)) as source:
        packets = [packet for packet in source.demux(source.streams.audio[0]) if packet.size]
        frames = [(packet.pos, packet.pts, packet.duration) for packet in packets]
        step = source.streams.audio[0].time_base * RATE
    start = frames[0][0]
    return start, [(at - start, round(first * step), round(length * step)) for at, first, length in frames]


def with_seek_table(data: bytes, every: int, *, wrong: int = 0) -> bytes:
    """Add a seek table and 20 kB of padding; offsets are `wrong` bytes too large."""
    start, frames = frames_of(data)
    points = [struct.pack(">QQH", first, at + wrong, count) for at, first, count in frames[::every]]
    table = b"".join([*points, struct.pack(">QQH", (1 << 64) - 1, 0, 0)])
    blocks = [(0, data[8:42]), (1, bytes(20_000)), (3, table)]
    head = b"".join(bytes([kind | (0x80 if kind == 3 else 0)]) + len(body).to_bytes(3) + body for kind, body in blocks)
    return b"fLaC" + head + data[start:]


def with_sample_numbers(data: bytes) -> bytes:
    """Turn frames that are numbered into frames that name their first sample, as encoders of variable sizes write."""
    start, frames = frames_of(data)
    ends = [at for at, _, _ in frames[1:]] + [len(data) - start]
    out = []
    for (at, first, _), end in zip(frames, ends, strict=True):
        own = data[start + at : start + end]
        lead = own[4]
        length = 1 if lead < 0x80 else 8 - (lead ^ 0xFF).bit_length()
        number = chr(first).encode("utf-8", "surrogatepass") if first < 0x110000 else b""
        assert number
        head_end = 4 + length + {6: 1, 7: 2}.get(own[2] >> 4, 0) + {12: 1, 13: 2, 14: 2}.get(own[2] & 15, 0)
        head = own[:1] + bytes([own[1] | 1]) + own[2:4] + number + own[4 + length : head_end]
        body = head + crc(head, 8, 0x07).to_bytes() + own[head_end + 1 : -2]
        out.append(body + crc(body, 16, 0x8005).to_bytes(2))
    info = bytearray(data[:start])
    info[8:10] = (16).to_bytes(2)  # the smallest frame differs from the largest
    return bytes(info) + b"".join(out)


def crc(data: bytes, bits: int, polynomial: int) -> int:
    value, top = 0, 1 << (bits - 1)
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1 ^ polynomial if value & top else value << 1) & ((1 << bits) - 1)
    return value


SOUND = noise()
WAVS: dict[str, bytes] = {
    "16 bits": wav(SOUND, 1, 16),
    "8 bits": wav(SOUND, 1, 8),
    "24 bits": wav(SOUND, 1, 24),
    "32 bits": wav(SOUND, 1, 32),
    "float32": wav(SOUND, 3, 32),
    "float64": wav(noise(1), 3, 64),
    "extensible": wav(SOUND, 1, 24, extensible=True),
    "chunks": wav(noise(1), 1, 16, extra=b"x" * 901, after=b"y" * 77),
    "a long chunk": wav(SOUND, 1, 16, extra=b"x" * 40_001),
}
WHOLE = {
    "a stream": WAVS["16 bits"][:40] + b"\xff\xff\xff\xff" + WAVS["16 bits"][44:],
    "a law": WAVS["8 bits"][:20] + b"\x06\0" + WAVS["8 bits"][22:],
}


def dataset(path: Path, values: list[bytes], kind: str) -> bushel.Dataset:
    with bushel.Writer(path, {"audio": kind, "label": "int"}, container="bag", sync=False) as writer:
        for number, value in enumerate(values):
            writer.append({"audio": value, "label": number}, key=f"s{number}")
    return bushel.open(path)


@pytest.mark.parametrize("name", [*WAVS, *WHOLE])
def test_frames_of_wav_are_those_of_ffmpeg(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {**WAVS, **WHOLE}[name]
    whole = get_codec("wav").decode(data)
    dataset(tmp_path / "x", [data], "wav")
    asked = counted(monkeypatch)
    ds = bushel.open(tmp_path / "x")
    count = len(whole)
    for elements in (slice(5000, 7000), slice(count - 3, count), [9, -1, 9, 300_000], slice(100, 20, -7), slice(7, 7)):
        asked.clear()
        np.testing.assert_array_equal(ds[0, {"audio": elements}]["audio"], whole[elements])
        if name in WAVS:
            frame, taken = len(data) // count + 1, len(whole[elements])
            looks = 2 if name == "a long chunk" else 1
            assert sum(length for _, length in asked) <= looks * LOOKED_AT + frame * max(taken, 81)
    with pytest.raises(IndexError, match="a sound of"):
        ds[0, {"audio": [count]}]


@pytest.fixture(scope="module")
def flacs() -> dict[str, bytes]:
    plain = flac(SOUND)
    return {
        "stereo": plain,
        "mono": flac(noise(1)),
        "frames of 1152": flac(SOUND, frame_size="1152"),
        "seek table": with_seek_table(plain, 30),
        "wrong seek table": with_seek_table(plain, 30, wrong=3),
        "seek table beyond the end": with_seek_table(plain, 30, wrong=1 << 40),
        "sample numbers": with_sample_numbers(plain),
    }


FLACS = ["stereo", "mono", "frames of 1152", "seek table", "wrong seek table", "seek table beyond the end"]


@pytest.mark.parametrize("name", [*FLACS, "sample numbers"])
def test_frames_of_flac_are_those_of_ffmpeg(
    name: str, flacs: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = flacs[name]
    whole = get_codec("flac").decode(flacs["stereo"] if name != "mono" else data)
    if name == "sample numbers":
        np.testing.assert_array_equal(get_codec("flac").decode(data), whole)
    dataset(tmp_path / "x", [data], "flac")
    asked = counted(monkeypatch)
    count = len(whole)
    for start in (0, 1, 4608, 100_000, 333_333, count - RATE // 4):
        asked.clear()
        ds = bushel.open(tmp_path / "x")  # which knows nothing of the file
        own = slice(start, start + RATE // 4)
        np.testing.assert_array_equal(ds[0, {"audio": own}]["audio"], whole[own])
        if name not in ("wrong seek table", "seek table beyond the end"):
            assert sum(length for _, length in asked) < len(data) // 3
    far = np.array([5, -5, count // 2, 5])
    np.testing.assert_array_equal(ds[0, {"audio": far}]["audio"], whole[far])
    assert len(ds[0, {"audio": slice(4, 4)}]["audio"]) == 0
    with pytest.raises(IndexError, match="a sound of"):
        ds[0, {"audio": [count]}]


@pytest.mark.parametrize("kind", ["wav", "flac"])
def test_windows_and_random_windows(
    kind: str, flacs: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [WAVS["16 bits"], WAVS["24 bits"]] if kind == "wav" else [flacs["stereo"], flacs["seek table"]]
    dataset(tmp_path / "x", data, kind)
    bushel.index(tmp_path / "x", columns=["audio.length"])
    asked = counted(monkeypatch)
    ds = bushel.open(tmp_path / "x")
    own = [get_codec(kind).decode(value) for value in data]
    windows = ds.windows("audio", 4000, hop=3000)
    chosen = [3, 4, 120, 300, 301, 302]
    for number, sample in zip(chosen, windows.read(chosen), strict=True):
        key, _, start = sample["__key__"].partition("@")
        np.testing.assert_array_equal(sample["audio"], own[int(key[1:])][int(start) : int(start) + 4000])
        assert windows[number]["__key__"] == sample["__key__"]
    assert sum(length for _, length in asked) < sum(map(len, data))
    asked.clear()
    fields: Any = {"audio": bushel.loader.RandomWindow(4000), "label": True}
    loader = bushel.Loader(ds, 2, fields=fields, shuffle=True, seed=3, threads=1)
    batches = list(itertools.chain(loader, loader))
    for batch in batches:
        for label, value in zip(batch["label"], batch["audio"], strict=True):
            rows = np.flatnonzero((own[label] == value[0]).all(axis=1))
            assert any(np.array_equal(own[label][row : row + 4000], value) for row in rows)
    assert sum(length for _, length in asked) < sum(map(len, data)) // 2


def test_many_windows_of_one_file(flacs: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = flacs["stereo"]
    whole = get_codec("flac").decode(data)
    dataset(tmp_path / "x", [data], "flac")
    ds = bushel.open(tmp_path / "x")
    rng = np.random.default_rng(0)
    asked = counted(monkeypatch)
    for start in rng.integers(0, len(whole) - 500, 150).tolist():
        asked.clear()
        np.testing.assert_array_equal(ds[0, {"audio": slice(start, start + 500)}]["audio"], whole[start : start + 500])
        assert sum(length for _, length in asked) < len(data) // 3


def test_damage_of_flac_is_found_by_its_checksums(flacs: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    data = bytearray(flacs["stereo"])
    data[len(data) // 2] ^= 16
    ds = dataset(tmp_path / "x", [bytes(data)], "flac")
    whole = get_codec("flac").decode(flacs["stereo"])
    np.testing.assert_array_equal(ds[0, {"audio": slice(0, 900)}]["audio"], whole[:900])
    with pytest.raises(bushel.errors.CodecError, match=r"(?s)'s0'.*audio.*complete sound.*damaged frames"):
        _ = ds[0]
    with pytest.raises(bushel.errors.CodecError, match="damaged frames"):
        ds[0, {"audio": slice(None)}]


@pytest.mark.parametrize("seed", range(30))
def test_damaged_sounds_end_in_an_error_or_in_values(seed: int, flacs: dict[str, bytes], tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    for kind, data in (("wav", WAVS["chunks"]), ("flac", flacs["seek table"])):
        damaged = bytearray(data[: int(rng.integers(70_000, len(data) + 1))])
        for at in rng.integers(0, 2000 if seed % 2 else len(damaged), 40).tolist():
            damaged[at] = int(rng.integers(0, 256))
        damaged[:4] = data[:4]
        ds = dataset(tmp_path / kind, [bytes(damaged)], kind)
        for elements in (slice(0, 50), slice(300_000, 304_000)):
            try:
                whole = get_codec(kind).decode(bytes(damaged))[elements]
            except bushel.errors.CodecError:
                whole = None
            try:
                found = ds[0, {"audio": elements}]["audio"]
            except bushel.errors.CodecError:
                continue
            assert found.dtype == np.float32
            if whole is not None and kind == "wav":
                np.testing.assert_array_equal(found, whole)


class _Failing(io.RawIOBase):
    """A file of which only the first bytes can be read."""

    def __init__(self, data: bytes, readable: int, error: BaseException) -> None:
        self._file, self._end, self._error = io.BytesIO(data), readable, error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        if self.tell() >= self._end:
            raise self._error
        return self._file.readinto(buffer)


@pytest.mark.parametrize("error", [OSError("the disk is gone"), KeyboardInterrupt("enough")])
def test_errors_of_files_come_through_libsndfile(error: BaseException, flacs: dict[str, bytes]) -> None:
    pytest.importorskip("soundfile")
    file: Any = io.BufferedReader(_Failing(flacs["stereo"], 100_000, error), 4096)
    assert flac_frames("flac", file, slice(0, 100)) is not None
    with pytest.raises(type(error), match=str(error)):
        flac_frames("flac", file, slice(300_000, 300_100))


def test_outlines_give_up_on_what_they_do_not_know() -> None:
    riff = b"RIFF\0\0\0\0WAVE"
    for head in (b"", riff, b"fLaC", bytes(5000), riff + b"abcd\xff\xff\xff\xff" * 300):
        outline = WavOutline(100_000)
        for _ in range(100):
            if (asked := outline.probe(slice(0, 10))) is None:
                break
            offset, length = asked
            assert offset >= 0
            assert offset + length <= 100_000
            outline.learn(offset, head if offset == 0 else bytes(length))
        assert outline.probe(slice(0, 10)) is None
        assert outline.part(slice(0, 10)) is None
