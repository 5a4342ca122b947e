from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.sources.clips import LEVELS, clip, levels
from tests.sources.folders import jpeg, picture, png

import bushel
from bushel.codecs import get_codec
from bushel.errors import FormatError, SpecError
from bushel.sources import Clip, Frames, Image, LabelledFolder
from bushel.testing import check_source

pytest.importorskip("av")


class TestFrames:
    @pytest.mark.parametrize("suffix", [".mp4", ".webm"])
    def test_all_frames(self, tmp_path: Path, suffix: str) -> None:
        frames = Frames().read(clip(tmp_path / f"a{suffix}"))
        assert levels(frames) == LEVELS
        assert get_codec("jpg").decode(frames[0]).shape == (32, 48, 3)

    @pytest.mark.parametrize(
        ("rate", "stride", "expected"),
        [
            (None, 2, [0, 2, 4]),
            (None, 4, [0, 4]),
            (6, 1, [0, 1, 2, 3, 4, 5]),
            (3, 1, [0, 2, 4]),
            (2, 1, [0, 3]),
            (4, 1, [0, 1, 3, 4]),  # shown at 0, 1/4, 2/4, 3/4 s
            (12, 1, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
            (6, 3, [0, 3]),
            (0.5, 1, [0]),
        ],
    )
    def test_rates_and_strides(self, tmp_path: Path, rate: float | None, stride: int, expected: list[int]) -> None:
        frames = Frames(rate=rate, stride=stride).read(clip(tmp_path / "a.mp4"))
        assert levels(frames) == [LEVELS[number] for number in expected]

    @pytest.mark.parametrize(("edge", "shape"), [(16, (16, 24, 3)), (10, (10, 15, 3)), (64, (64, 96, 3))])
    def test_the_shorter_edge(self, tmp_path: Path, edge: int, shape: tuple[int, ...]) -> None:
        frames = Frames(short_edge=edge).read(clip(tmp_path / "a.mp4"))
        assert get_codec("jpg").decode(frames[3]).shape == shape
        assert levels(frames) == LEVELS

    def test_quality(self, videos: Path) -> None:
        sizes = [sum(map(len, Frames(rate=1, quality=quality).read(videos / "bikes.mp4"))) for quality in (20, 80)]
        assert sizes[0] < sizes[1]

    def test_real_videos(self, videos: Path) -> None:
        import av

        for path in sorted(videos.glob("*.mp4")):
            with av.open(str(path)) as video:
                stream = video.streams.video[0]
                count, duration = stream.frames, float(stream.duration * stream.time_base)  # type: ignore[operator]
            assert len(Frames().read(path)) == count
            assert abs(len(Frames(rate=12, short_edge=64).read(path)) - duration * 12) <= 1

    def test_folders_of_images(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        for number, data in enumerate([jpeg(0), png(1), jpeg(2)]):
            (tmp_path / f"a/{number}.{'png' if number == 1 else 'jpg'}").write_bytes(data)
        (tmp_path / "a/notes.txt").touch()
        frames = Frames().read(tmp_path / "a")
        assert (frames[0], frames[2]) == (jpeg(0), jpeg(2))
        assert frames[1] == get_codec("jpg(95)").encode(picture(1))
        small = Frames(short_edge=6, stride=2).read(tmp_path / "a")
        assert [get_codec("jpg").decode(frame).shape for frame in small] == [(6, 8, 3)] * 2

    def test_damage(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            Frames().read(tmp_path / "none.mp4")
        (tmp_path / "a.mp4").write_bytes(b"no video at all" * 99)
        with pytest.raises(FormatError, match=r"a\.mp4: the video cannot be decoded"):
            Frames().read(tmp_path / "a.mp4")
        (tmp_path / "empty").mkdir()
        with pytest.raises(FormatError, match="has no frames"):
            Frames().read(tmp_path / "empty")

    def test_a_playlist_opens_no_other_file(self, tmp_path: Path) -> None:
        clip(tmp_path / "a.mp4")
        (tmp_path / "b.mp4").write_text(f"#EXTM3U\n#EXTINF:1,\n{tmp_path}/a.mp4\n")
        (tmp_path / "c.mp4").write_text(f"ffconcat version 1.0\nfile {tmp_path}/a.mp4\n")
        for name in ("b.mp4", "c.mp4"):
            with pytest.raises(FormatError, match="cannot be decoded"):
                Frames().read(tmp_path / name)

    @pytest.mark.parametrize("options", [{"rate": 0}, {"stride": 0}, {"short_edge": 0}, {"quality": 101}])
    def test_wrong_parameters(self, options: dict[str, int]) -> None:
        with pytest.raises((ValueError, SpecError)):
            Frames(**options)


class TestLabelledFolder:
    def test_frames_and_labels(self, tmp_path: Path) -> None:
        clip(tmp_path / "in/run/a.mp4")
        clip(tmp_path / "in/jump/b.webm")
        source = LabelledFolder(tmp_path / "in", Frames(stride=3))
        check_source(source)
        assert source.spec == {"frames": "jpg[]", "label": "int"}
        done = bushel.pack(source, tmp_path / "out", container="gulp")
        assert done.samples == 2
        dataset = bushel.open(tmp_path / "out")
        assert [(sample["__key__"], sample["label"], len(sample["frames"])) for sample in dataset] == [
            ("jump/b", 0, 2),
            ("run/a", 1, 2),
        ]

    def test_clips_as_they_are(self, tmp_path: Path) -> None:
        path = clip(tmp_path / "in/a.mp4")
        source = LabelledFolder(tmp_path / "in", Clip())
        assert source.spec == {"clip": "mp4"}
        bushel.pack(source, tmp_path / "x.tar")
        dataset = bushel.open(tmp_path / "x.tar")
        assert bytes(dataset.read([0], decode=False)[0]["clip"]) == path.read_bytes()
        assert dataset[0]["clip"].shape == (6, 32, 48, 3)

    def test_clips_of_several_formats_are_one_field(self, tmp_path: Path) -> None:
        files = [clip(tmp_path / "in" / name) for name in ("a.mp4", "b.webm")]
        files.append(files[1].rename(tmp_path / "in/c.mkv"))
        files[1] = clip(tmp_path / "in/b.webm")
        opened = bushel.open(tmp_path / "in")
        bushel.pack(tmp_path / "in", tmp_path / "x.tar")
        packed = bushel.open(tmp_path / "x.tar")
        for dataset in (opened, packed):
            assert dataset.spec == {"clip": "clip"}
            assert [bytes(row["clip"]) for row in dataset.read(range(3), decode=False)] == [
                path.read_bytes() for path in files
            ]
            assert [row["clip"].shape for row in dataset] == [(6, 32, 48, 3)] * 3
        bushel.index(tmp_path / "x.tar", frames=True)
        packed = bushel.open(tmp_path / "x.tar")
        windows = packed.windows("clip", 2, hop=2)
        assert [len(row["clip"]) for row in windows] == [2] * 9
        for number, row in enumerate(windows):
            frames = packed[number // 3]["clip"][number % 3 * 2 :][:2]
            assert np.abs(row["clip"].astype(int) - frames).max() <= 1

    def test_videos_that_no_codec_stores(self, tmp_path: Path) -> None:
        (tmp_path / "in/b.avi").parent.mkdir()
        (tmp_path / "in/b.avi").write_bytes(clip(tmp_path / "in/a.mp4").read_bytes())
        with pytest.raises(SpecError, match=r"all are \.mp4, .*: select these"):
            LabelledFolder(tmp_path / "in", Clip())
        assert len(LabelledFolder(tmp_path / "in", Frames(stride=3))) == 2


def test_kinds_of_images() -> None:
    assert Image().field(["a.jpg", "b.JPEG"]) == ("image", "jpg")
    assert Image().field(["a.jpg", "b.png"]) == ("image", "image")


def test_frames_of_clips_that_are_named_like_another_format(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips/a.mkv").write_bytes(clip(tmp_path / "a.mp4").read_bytes())
    (tmp_path / "clips/b.mp4").write_bytes(clip(tmp_path / "b.webm").read_bytes())
    source = LabelledFolder(tmp_path / "clips", Frames())
    assert [len(source[0]["frames"]), len(source[1]["frames"])] == [len(LEVELS)] * 2
