"""LeRobot's datasets, read in place."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from tests.codecs.coded_clips import clip
from tests.containers.lerobot.robots import Robot, write_robot
from tests.containers.read_in_place import FOREIGN, check_suite, copy, expected
from tests.storage.objects.hub_server import serving_hub
from tests.storage.objects.range_server import serving

import bushel
from bushel._pictures.notebook import main_field
from bushel._pictures.thumbnail import value_pixels
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.errors import BushelError, CodecError, DamagedWarning, FormatError
from bushel.testing import READABLE_CHECKS
from bushel.viewer.kinds import kind_of

CAMERA = "observation.images.top"


def video_of(root: Path, camera: str = CAMERA) -> Path:
    return root / f"videos/{camera}/chunk-000/file-000.mp4"


def test_what_lerobot_wrote(tmp_path: Path) -> None:
    pytest.importorskip("av")
    wanted = expected("lerobot")["samples"]
    with bushel.open(copy("lerobot", tmp_path, "robot")) as ds:
        assert ds.info.container == "lerobot"
        assert ds.spec[CAMERA] == "frame"
        places = list(range(len(ds)))
        random.Random(0).shuffle(places)
        for place in places:
            values, sample = wanted[place]["values"], ds[place]
            assert (sample["__key__"], sample["task"]) == (wanted[place]["key"], values["task"])
            assert sample[CAMERA].shape == (96, 128, 3)
            assert abs(int(sample[CAMERA][..., 2].mean()) - values["blue"]) <= 4
        assert list(ds.where("task == 'task 1'").column("episode_index")[:1]) == [1]
    assert bushel.verify(tmp_path / "robot").ok


def test_both_tables_may_be_stored(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    bushel.index(root)
    bushel.index(root, container="lerobot-episodes")
    assert bushel.verify(root).ok
    assert bushel.verify(root, container="lerobot-episodes").ok
    path = video_of(root)
    data = bytearray(path.read_bytes())
    file, at = bushel.open(root).location(35, CAMERA)
    stored = bushel.open(root).read([35], [CAMERA], decode=False)[0][CAMERA]
    assert (file, bytes(data[at : at + 20]) in bytes(stored)) == (str(path), True)
    data[at + 20] ^= 255
    path.write_bytes(data)
    problems = bushel.verify(root).problems
    assert {str(each.file) for each in problems if each.kind == "checksum"} == {str(path)}


def test_no_episodes(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    shutil.rmtree(root / "meta/episodes")
    with pytest.raises(FormatError, match="its metadata list no episodes"):
        bushel.open(root)


def test_rows_need_no_decoder(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    wanted = expected("lerobot")["samples"]
    with bushel.open(root, index="memory") as ds:
        for sample, each in zip(ds.select_fields(["action", "task", "timestamp"]), wanted, strict=True):
            assert sample["task"] == each["values"]["task"]
            assert sample["action"].shape == (6,)
            assert sample["timestamp"] == pytest.approx(each["values"]["timestamp"])


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(check: str, tmp_path: Path) -> None:
    pytest.importorskip("av")
    check_suite("lerobot", check, copy("lerobot", tmp_path, "robot"), tmp_path)


@pytest.mark.parametrize("kind", ["h264", "h264 with B-frames", "h264 with open groups", "hevc"])
def test_frames_equal_those_of_the_whole_video(kind: str, tmp_path: Path) -> None:
    codec, data = clip(kind)
    root = write_robot(tmp_path / "robot", Robot(videos=(("cam", kind),)))
    whole = codec.decode(data)
    with bushel.open(root) as ds:
        assert len(ds.shards) == 2
        places = list(range(len(ds)))
        random.Random(kind).shuffle(places)
        for place in places:
            video_frame = place if place < 60 else place - 60
            sample = ds[place]
            assert (sample["cam"] == whole[video_frame]).all(), place
            assert sample["action"].tolist() == [sample["episode_index"], sample["frame_index"]]
        batch = next(iter(bushel.Loader(ds, 16, shuffle=True, seed=0, fields=["cam", "action", "task"])))
        assert batch["cam"].shape == (16, 64, 96, 3)
        for row, key in enumerate(batch["__key__"]):
            assert (batch["cam"][row] == whole[int(key) % 60]).all()
        again = pickle.loads(pickle.dumps(ds))
        assert (again[70]["cam"] == whole[10]).all()


def test_only_the_packets_from_the_keyframe_on_are_read(tmp_path: Path) -> None:
    pytest.importorskip("av")
    root = copy("lerobot", tmp_path, "robot")
    ds = bushel.open(root)
    stored = ds.read(range(len(ds)), [CAMERA], decode=False)
    size = video_of(root).stat().st_size
    assert max(len(each[CAMERA]) for each in stored) < size // 15  # LeRobot writes a keyframe every other frame


def test_tables_and_packets_are_requested_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av")
    local = bushel.open(copy("lerobot", tmp_path, "robot"), index="memory")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "5")
    with serving_hub(tmp_path / "robot") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        ds = bushel.open("hf://datasets/org/photos")
        assert (ds.info.container, len(ds)) == ("lerobot", 80)
        for place in (0, 41, 79):
            assert (ds[place][CAMERA] == local[place][CAMERA]).all()
            assert ds[place]["task"] == local[place]["task"]
        assert bushel.open("hf://datasets/org/photos", split="train").info.container == "lerobot"
        rows = bushel.open("hf://datasets/org/photos/data/*/*.parquet")
        assert (rows.info.container, len(rows)) == ("parquet", 80)


def test_an_indexed_folder_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av")
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "5")
    root = copy("lerobot", tmp_path, "robot")
    bushel.index(root)
    local = bushel.open(root)
    with serving(tmp_path) as server:
        ds = bushel.open(f"{server.url}/robot/")
        assert (ds[33][CAMERA] == local[33][CAMERA]).all()


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("v2.1", "convert it: python"),
        ("v1.6", r"convert it to v2\.1 with LeRobot, and then"),
        ("v4.0", "update Bushel"),
    ],
)
def test_other_versions_are_refused(tmp_path: Path, version: str, hint: str) -> None:
    root = copy("lerobot", tmp_path, "robot")
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | {"codebase_version": version}))
    with pytest.raises(FormatError, match=rf"dataset of version {version}, and v3 is read \({hint}"):
        bushel.open(root)


def test_a_folder_called_meta_is_no_dataset_of_lerobot(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text("{}")
    shutil.copytree(FOREIGN / "folder" / "photos" / "class0", tmp_path / "class0")
    assert bushel.open(tmp_path).info.container == "folder"


@pytest.mark.parametrize("description", [None, "", '{"codeba', "[]", "null", '{"fps": 3}'])
def test_a_damaged_description_is_an_error(tmp_path: Path, description: str | None) -> None:
    root = copy("lerobot", tmp_path, "robot")
    path = root / "meta/info.json"
    if description is None:
        path.unlink()
    else:
        path.write_text(description)
    with pytest.raises(FormatError, match="the dataset is incomplete or damaged") as caught:
        bushel.open(root)
    assert caught.value.file == str(path)
    assert bushel.open(root, container="folder").info.container == "folder"


def test_a_truncated_video(tmp_path: Path) -> None:
    pytest.importorskip("av")
    root = copy("lerobot", tmp_path, "robot")
    path = video_of(root)
    path.write_bytes(path.read_bytes()[:5000])  # its tables are in front
    [problem] = bushel.verify(root).problems
    assert "lacks the frames of" in problem.message
    assert str(problem.file).endswith("file-000.mp4")
    with pytest.raises(FormatError, match="lacks the frames of"):
        bushel.open(root, on_damage="raise")
    with pytest.warns(DamagedWarning):
        ds = bushel.open(root)
    assert ds[0][CAMERA].shape == (96, 128, 3)
    with pytest.raises(FormatError, match="lacks the frames of"):
        ds[79]


def test_a_video_without_its_tables(tmp_path: Path) -> None:
    root = write_robot(tmp_path / "robot")
    path = video_of(root, "cam.left").with_name("file-001.mp4")
    path.write_bytes(path.read_bytes()[:-3000])  # PyAV writes its tables to the end
    [problem] = bushel.verify(root).problems
    assert "an MP4 file has a box 'moov'" in problem.message
    with pytest.warns(DamagedWarning):
        ds = bushel.open(root)
    assert ds[59]["cam.left"].shape == (64, 96, 3)  # of another video
    with pytest.raises(FormatError, match="moov"):
        ds[60]


def test_a_missing_video(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    video_of(root).unlink()
    with pytest.raises(FormatError, match=r"file-000\.mp4: a file of the dataset is missing"):
        bushel.open(root)


def test_rows_whose_file_is_missing(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    info = (root / "meta/info.json").read_text()
    (root / "meta/info.json").write_text(info.replace("{chunk_index:03d}/file", "{chunk_indey:03d}/file", 1))
    with pytest.raises(FormatError, match=r"chunk_indey.*parquet: a file of the dataset is missing"):
        bushel.open(root, index="memory")
    assert "missing" in bushel.verify(root).problems[0].message


def test_times_that_drift(tmp_path: Path) -> None:
    root = write_robot(tmp_path / "robot", Robot(shift=0.004))
    problems = bushel.verify(root).problems
    assert sorted("camera" in each.message for each in problems) == [False, False, True, True, True, True]
    assert all("rows drift" in each.message for each in problems)
    assert bushel.open(root)[7]["frame_index"] == 7  # read all the same: the nearest frame is there
    far = write_robot(tmp_path / "far", Robot(shift=10))
    with pytest.raises(FormatError, match="lacks the frames of"):
        bushel.open(far, on_damage="raise")


def test_episodes_of_other_lengths(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    root = write_robot(tmp_path / "robot")
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(1, "length", pa.array([20, 15, 25, 31, 30])), path)
    [problem] = bushel.verify(root).problems
    assert "episode 3 has 30 rows, and the metadata list 31" in problem.message


def test_a_row_of_an_unlisted_episode(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    root = write_robot(tmp_path / "robot")
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 4), path)
    with pytest.raises(FormatError, match="row 55 belongs to episode 4, which the metadata do not list"):
        bushel.open(root)


def test_names_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    info = json.loads((root / "meta/info.json").read_text())
    shutil.copy(video_of(root), tmp_path / "out.mp4")
    (root / "meta/info.json").write_text(json.dumps(info | {"video_path": "../out.mp4"}))
    with pytest.raises(FormatError, match="not the name of a file in this folder"):
        bushel.open(root)
    (root / "meta/info.json").write_text(json.dumps(info | {"video_path": "{chunk_index:0999999999d}.mp4"}))
    with pytest.raises(FormatError, match="missing"):
        bushel.open(root)


def test_metadata_that_change_after_the_files_were_listed(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    container = get_container("lerobot")
    [shard, *_] = container.shards(root) or []
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"video_path": "{video_key}/other.mp4"}))
    with pytest.raises(FormatError, match=r"info\.json.*other\.mp4', which is not among the files"):
        container.index(shard, ReadOptions())


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | {"data_path": "9" * 300}))
    with pytest.raises(FormatError, match="a file has a name of 300 characters"):
        bushel.open(root)


def test_damaged_files(tmp_path: Path) -> None:
    pytest.importorskip("av")
    root = copy("lerobot", tmp_path, "robot")
    rng = random.Random(8)
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    for path in files:
        data = path.read_bytes()
        for _ in range(min(60, settings().max_examples)):
            changed = bytearray(data)
            for _ in range(rng.choice((1, 2, 8))):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            path.write_bytes(changed)
            _read_all(root)
        path.write_bytes(data)


def _read_all(root: Path) -> None:
    """Read some samples. Damage may give other values, or errors of Bushel."""
    with (
        suppress(BushelError, FileNotFoundError),
        bushel.open(root, index="memory", on_damage="raise") as ds,
    ):
        for place in range(0, len(ds), 9):
            assert ds[place]["__key__"] == str(place)


def test_a_frame_is_not_encoded() -> None:
    from bushel.codecs import get_codec

    with pytest.raises(CodecError, match="store pictures as jpg or png"):
        get_codec("frame").encode(np.zeros((2, 2, 3), np.uint8))
    for data in (b"", b"\1\0\0\0", b"\2\0\0\0{}\0\0\0\0", b"\2\0\0\0{}\1\0\0\0" + bytes(12)):
        with pytest.raises(CodecError, match="codec 'frame' expected"):
            get_codec("frame").decode(data)


@pytest.mark.parametrize("kind", ["h264", "h264 with B-frames", "h264 with open groups"])
def test_episodes_have_the_values_of_their_frames(kind: str, tmp_path: Path) -> None:
    root = write_robot(tmp_path / "robot", Robot(videos=(("cam", kind),)))
    frames, episodes = bushel.open(root), bushel.open(root, episodes=True)
    assert (len(frames), len(episodes), episodes.info.container) == (120, 5, "lerobot-episodes")
    assert (episodes.spec["cam"], episodes.spec["action"], episodes.spec["task"]) == (
        "frames",
        "array(float32,-1,2)",
        "utf8",
    )
    assert frames.fingerprint != episodes.fingerprint
    at = 0
    for number, length in enumerate(Robot().lengths):
        episode, own = episodes[number], frames.read(range(at, at + length))
        assert episodes.available(number)["cam"] == range(length)
        assert (episode["cam"] == np.stack([each["cam"] for each in own])).all()
        assert (episode["action"] == np.stack([each["action"] for each in own])).all()
        assert episode["frame_index"].tolist() == list(range(length))
        assert episode["timestamp"].dtype == np.float32
        assert (episode["episode_index"], episode["task"]) == (number, own[0]["task"])
        for part in (slice(3, 9), [length - 1, 0, 4], slice(None, None, 7)):
            assert (episodes[number, {"cam": part}]["cam"] == episode["cam"][part]).all()
        at += length
    again = pickle.loads(pickle.dumps(episodes))
    assert (again[3, {"cam": slice(2, 4)}]["cam"] == episodes[3]["cam"][2:4]).all()
    assert len(bushel.open(root)) == 120  # each has an index of its own
    assert list(episodes.where("task == 'put it down'").column("episode_index")) == [1, 3]


def test_a_part_of_an_episode_reads_its_packets(tmp_path: Path) -> None:
    pytest.importorskip("av")
    ds = bushel.open(copy("lerobot", tmp_path, "robot"), episodes=True)
    index = ds.shards[0].index
    extents = index.fields[CAMERA]
    assert extents.frames is not None
    assert (extents.frames.count(1), int(extents.length[1])) == (30, len(ds.read([1], decode=False)[0][CAMERA]))
    position = bushel.Loader(ds, 2, fields={CAMERA: slice(4, 8)}, shuffle=False)
    assert next(iter(position))[CAMERA].shape == (2, 4, 96, 128, 3)


def test_an_episode_of_a_truncated_video(tmp_path: Path) -> None:
    pytest.importorskip("av")
    root = copy("lerobot", tmp_path, "robot")
    path = video_of(root)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.warns(DamagedWarning):
        ds = bushel.open(root, episodes=True)
    assert ds[0][CAMERA].shape == (17, 96, 128, 3)
    with pytest.raises(FormatError, match="lacks the frames of"):
        ds[3]


def test_two_rows_with_one_frame_make_no_episode(tmp_path: Path) -> None:
    root = write_robot(tmp_path / "robot", Robot(lengths=(20,), files=(0,), of_video=(0,)))
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | {"fps": 2}))  # so that frames may be far away
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(root / "data/chunk-000/file-000.parquet")
    times = table["timestamp"].to_numpy().copy()
    times[7] = times[6]
    pa = pytest.importorskip("pyarrow")
    place = table.column_names.index("timestamp")
    parquet.write_table(table.set_column(place, "timestamp", pa.array(times)), root / "data/chunk-000/file-000.parquet")
    with pytest.raises(FormatError, match=r"rows 6 and 7 of an episode have one frame of camera 'cam\.left'"):
        bushel.open(root, episodes=True, on_damage="raise")
    assert len(bushel.open(root)) == 20


def test_only_robots_have_episodes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="episodes=True is for lerobot, and tar has no episodes"):
        bushel.open(tmp_path, container="tar", episodes=True)
    shutil.copytree(FOREIGN / "folder" / "photos", tmp_path / "photos")
    with pytest.raises(FormatError, match="lerobot-episodes"):
        bushel.open(tmp_path / "photos", episodes=True)


@pytest.mark.parametrize("episodes", [False, True])
def test_cameras_are_drawn(episodes: bool, tmp_path: Path) -> None:
    pytest.importorskip("av")
    ds = bushel.open(copy("lerobot", tmp_path, "robot"), episodes=episodes)
    assert main_field(ds.spec) == CAMERA
    [stored] = ds.read([1], [CAMERA], decode=False)
    drawn = value_pixels("frames" if episodes else "frame", stored[CAMERA], 64)
    assert drawn.shape == (48, 64, 3)
    assert kind_of(ds.spec[CAMERA]) == ("array" if episodes else "frame")


def test_neighbours_in_time(tmp_path: Path) -> None:
    root = write_robot(tmp_path / "robot", Robot(videos=(("cam", "h264 with B-frames"),)))
    frames = bushel.open(root)
    deltas = {"action": [0, 1 / 25, 3 / 25], "cam": [-0.2, -0.04, 0]}
    near = bushel.open(root, delta_timestamps=deltas)
    assert (len(near), list(near.keys[18:22])) == (120, ["0@18", "0@19", "1@0", "1@1"])
    first = np.repeat(np.cumsum([0, *Robot().lengths[:-1]]), Robot().lengths)
    last = np.repeat(np.cumsum(Robot().lengths) - 1, Robot().lengths)
    for place in (0, 1, 18, 19, 20, 34, 35, 77, 119):
        sample = near[place]
        for name, offsets in (("action", [0, 1, 3]), ("cam", [-5, -1, 0])):
            wanted = [place + offset for offset in offsets]
            there = np.clip(wanted, first[place], last[place])
            assert sample[f"{name}_is_pad"].tolist() == (there != wanted).tolist()
            assert (sample[name] == np.stack([frames[number][name] for number in there.tolist()])).all()
        assert sample["frame_index"].tolist() == [frames[place]["frame_index"]]
        assert (sample["task"], sample["episode_index"]) == (frames[place]["task"], frames[place]["episode_index"])
    batch = next(iter(bushel.Loader(near, 16, fields=["cam", "action", "action_is_pad"], shuffle=True, seed=1)))
    assert (batch["cam"].shape, batch["action_is_pad"].shape) == ((16, 3, 64, 96, 3), (16, 3))
    assert near.spec["action"] == "array(float32,3,2)"


def test_times_between_frames_are_refused(tmp_path: Path) -> None:
    root = copy("lerobot", tmp_path, "robot")
    with pytest.raises(ValueError, match=r"'action' asks for 0\.05 seconds, but frames are 0\.1 seconds apart"):
        bushel.open(root, delta_timestamps={"action": [0.05]})
    with pytest.raises(KeyError, match="unknown field 'acton'"):
        bushel.open(root, delta_timestamps={"acton": [0]})
    with pytest.raises(TypeError, match="expected fields and seconds"):
        bushel.open(root, delta_timestamps={})
    with pytest.raises(TypeError, match="'task' is of type 'utf8'"):
        bushel.open(root, delta_timestamps={"task": [0]})
