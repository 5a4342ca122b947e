"""The functions of `gulpio2.utils`, and videos with the frames that ffmpeg gives."""

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tests.compat.gulpio2.frames import frame, make_video, videos, write

from bushel.compat.gulpio2 import utils
from bushel.compat.gulpio2.adapter_base import pick_like_ffmpeg, read_video
from bushel.compat.gulpio2.errors import DuplicateIdException, FFMPEGNotFound, VideoNotFoundError
from bushel.errors import FormatError


@pytest.mark.parametrize(("size", "shape"), [(20, (20, 30, 3)), (48, (48, 72, 3)), (0, (24, 36, 3)), (-1, (24, 36, 3))])
def test_short_edge(tmp_path: Path, size: int, shape: tuple[int, ...]) -> None:
    pixels = frame(1)
    path = tmp_path / "x.png"
    Image.fromarray(pixels).save(path)
    expected = Image.fromarray(pixels)
    if size > 0:
        expected = expected.resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    for given in (pixels, Image.fromarray(pixels), str(path), path):
        found = utils.resize_by_short_edge(given, size)
        assert found.shape == shape
        np.testing.assert_array_equal(found, np.asarray(expected))


def test_edges_are_rounded_down() -> None:
    assert utils.resize_by_short_edge(frame(1, 37, 53), 16).shape == (16, 22, 3)
    assert utils.resize_by_short_edge(frame(1, 53, 37, grey=True), 16).shape == (22, 16)


@pytest.mark.parametrize(
    ("mode", "shape"), [("P", (4, 6, 3)), ("RGBA", (4, 6, 3)), ("L", (4, 6)), ("LA", (4, 6)), ("1", (4, 6))]
)
def test_images_with_other_pixels(tmp_path: Path, mode: str, shape: tuple[int, ...]) -> None:
    """Palettes and transparency, which GulpIO2 stores as grey, or does not accept."""
    image = Image.fromarray(np.full((4, 6, 3), (200, 200, 200), np.uint8)).convert(mode)
    image.save(tmp_path / "x.png")
    found = utils.resize_by_short_edge(str(tmp_path / "x.png"), -1)
    assert found.shape == shape
    if mode == "1":
        assert set(found.ravel().tolist()) <= {0, 255}
    else:
        assert np.abs(found.astype(int) - 200).max() <= 4  # the nearest colour of the palette
    assert utils.img_to_jpeg_bytes(found)


def test_resize_images(tmp_path: Path) -> None:
    for number in range(3):
        Image.fromarray(frame(number)).save(tmp_path / f"{number}.png")
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    assert [image.tobytes() for image in utils.resize_images(paths)] == [frame(n).tobytes() for n in range(3)]
    with pytest.raises(FileNotFoundError):
        list(utils.resize_images([*paths, str(tmp_path / "none.png")]))


def test_images_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a[b]"
    folder.mkdir()
    for name in ("b.jpg", "a.jpg", "c.png", "d.txt"):
        (folder / name).touch()
    assert utils.find_images_in_folder(str(folder)) == [str(folder / "a.jpg"), str(folder / "b.jpg")]
    assert utils.find_images_in_folder(str(folder), ["png", "jpg"])[2] == str(folder / "c.png")


def test_the_only_video(tmp_path: Path) -> None:
    for expected in ("holds 0 videos", "", "holds 2 videos"):
        if expected:
            with pytest.raises(VideoNotFoundError, match=expected) as caught:
                utils.get_single_video_path(str(tmp_path))
            assert isinstance(caught.value, AssertionError)
        else:
            assert utils.get_single_video_path(str(tmp_path)) == str(tmp_path / "0.mp4")
        (tmp_path / f"{len(list(tmp_path.iterdir()))}.mp4").touch()


def test_the_quality_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    default = utils.img_to_jpeg_bytes(frame(1))
    monkeypatch.setattr(utils, "_JPEG_WRITE_QUALITY", 100)
    assert len(utils.img_to_jpeg_bytes(frame(1))) > len(default)
    np.testing.assert_array_equal(utils.jpeg_bytes_to_img(utils.img_to_jpeg_bytes(np.ones((4, 1, 3), np.uint8))), 1)


def test_entries_that_are_there_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "d", videos(2))
    entries = [{"id": id_} for id_ in ("v0", "x", 7, "7", "v1", "x", "y")]
    assert utils.remove_entries_with_duplicate_ids(folder, entries) == [{"id": "x"}, {"id": 7}, {"id": "y"}]
    printed = capsys.readouterr().out
    assert "Id v0 already in GulpDirectory, I skip it!" in printed
    assert "Id 7 more than once in json file, I skip it!" in printed
    with pytest.raises(DuplicateIdException):
        utils.remove_entries_with_duplicate_ids(folder, entries[:1])
    assert utils.remove_entries_with_duplicate_ids(tmp_path / "new", entries[:1]) == entries[:1]


def test_temporary_directory(tmp_path: Path) -> None:
    def use() -> None:
        with utils.temp_dir_for_bursting(str(tmp_path)) as path:
            (Path(path) / "x").touch()
            assert Path(path).parent == tmp_path
            raise RuntimeError

    with pytest.raises(RuntimeError):
        use()
    assert list(tmp_path.iterdir()) == []


def test_without_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not utils.check_ffmpeg_exists()
    with pytest.raises(FFMPEGNotFound, match="install it"):
        utils.burst_frames_to_shm("x.mp4", str(tmp_path))


needs_ffmpeg = pytest.mark.skipif(not utils.check_ffmpeg_exists(), reason="there is no program ffmpeg")


@needs_ffmpeg
@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
@pytest.mark.parametrize("rate", [None, 3, 8, 12, 24, 25, 40, 60])
def test_frames_are_those_of_ffmpeg(tmp_path: Path, suffix: str, rate: int | None) -> None:
    path = str(make_video(tmp_path / f"v{suffix}"))
    with utils.temp_dir_for_bursting(str(tmp_path)) as folder:
        wanted = list(utils.resize_images(utils.burst_video_into_frames(path, folder, rate)))
    found = read_video(path, rate)
    assert len(found) == len(wanted) > 5
    for one, other in zip(found, wanted, strict=True):
        assert np.abs(one.astype(int) - other).mean() < 4


@needs_ffmpeg
def test_real_videos_have_the_frames_of_ffmpeg(videos: Path, tmp_path: Path) -> None:
    pytest.importorskip("av")
    path = str(videos / "carphone_pristine.mp4")
    with utils.temp_dir_for_bursting(str(tmp_path)) as folder:
        wanted = list(utils.resize_images(utils.burst_video_into_frames(path, folder, 8)))
    found = read_video(path, 8)
    assert len(found) == len(wanted) == 34
    assert max(np.abs(one.astype(int) - other).mean() for one, other in zip(found, wanted, strict=True)) < 4


@needs_ffmpeg
def test_a_video_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v.mp4").write_bytes(b"no video")
    assert utils.burst_video_into_frames(str(tmp_path / "v.mp4"), str(tmp_path)) == []
    assert "v.mp4: ffmpeg ended with" in capsys.readouterr().err
    pytest.importorskip("av")
    with pytest.raises((FormatError, OSError)):
        read_video(str(tmp_path / "v.mp4"))


def test_all_frames_of_a_video(tmp_path: Path) -> None:
    found = read_video(str(make_video(tmp_path / "v.mp4", frames=10)))
    assert [image.shape for image in found] == [(48, 64, 3)] * 10
    assert [int(image[0, 63, 0]) for image in found] == pytest.approx([4 * n for n in range(10)], abs=12)


@pytest.mark.parametrize(("time", "expected"), [(10**6, [1, 1, 22, 2]), (10**15, [1, 1])])
def test_a_frame_with_an_impossible_time(time: int, expected: list[int]) -> None:
    """A gap is filled with the frames around it, as ffmpeg does; one of years is damage."""

    def shown(at: int) -> SimpleNamespace:
        return SimpleNamespace(pts=at, time=at / 1e6, duration=40_000, time_base=Fraction(1, 10**6))

    stream = SimpleNamespace(guessed_rate=25, average_rate=25, container=SimpleNamespace(start_time=0))
    frames = iter([shown(0), shown(40_000), shown(time)])
    found = list(pick_like_ffmpeg(None)(frames, stream))
    assert [times for _, times in found] == expected


def test_doubles_are_printed_before_the_directory_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data_0.gulp").write_bytes(b"")
    (tmp_path / "meta_0.gmeta").write_bytes(b"\x80")
    with pytest.raises(UnicodeDecodeError):
        utils.remove_entries_with_duplicate_ids(tmp_path, [{"id": "a"}, {"id": "a"}])
    assert capsys.readouterr().out == "Id a more than once in json file, I skip it!\n"
