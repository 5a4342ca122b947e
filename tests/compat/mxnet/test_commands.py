"""`bushel im2rec` and `bushel rec2idx`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sources.folders import image_folder, jpeg

from bushel.cli.app import ORIGINALS
from bushel.compat.mxnet import commands, recordio
from bushel.errors import FormatError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return image_folder(tmp_path / "photos", 10, classes=2)


def ids(path: Path) -> list[int]:
    reader = recordio.MXIndexedRecordIO(path.with_suffix(".idx"), path, "r")
    return [recordio.unpack(reader.read_idx(key))[0].id for key in reader.keys]


def test_they_are_registered() -> None:
    assert ORIGINALS["im2rec"] == "bushel.compat.mxnet.commands"
    assert ORIGINALS["rec2idx"] == "bushel.compat.mxnet.commands"


class TestLists:
    def test_the_order_of_im2rec(self, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.im2rec(["--list", "--recursive", str(tmp_path / "p"), str(root)]) == 0
        lines = [line.split("\t") for line in (tmp_path / "p.lst").read_text().splitlines()]
        assert [line[0] for line in lines] == list("4059316872")
        assert lines[0] == ["4", "0.000000", "class0/0008.jpg"]
        assert capsys.readouterr().out == "class0 0\nclass1 1\n"

    def test_no_image_is_lost(self, root: Path, tmp_path: Path) -> None:
        arguments = ["--list", "--recursive", "--train-ratio", "0.75", "--test-ratio", "0.25"]
        assert commands.im2rec([*arguments, str(tmp_path / "p"), str(root)]) == 0
        counts = {path.name: len(path.read_text().splitlines()) for path in tmp_path.glob("*.lst")}
        assert counts == {"p_test.lst": 2, "p_train.lst": 8}

    def test_a_broken_link_is_no_image(self, root: Path, tmp_path: Path) -> None:
        (root / "class0/0000a.jpg").symlink_to("nowhere.jpg")
        commands.im2rec(["--list", "--recursive", "--no-shuffle", str(tmp_path / "p"), str(root)])
        assert "0000a" not in (tmp_path / "p.lst").read_text()

    def test_no_images(self, root: Path, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="--recursive"):
            commands.im2rec(["--list", str(tmp_path / "p"), str(root)])


class TestRecordFiles:
    def test_only_the_lists_of_the_prefix(self, root: Path, tmp_path: Path) -> None:
        for name in ("p1", "p10", "p1_0_train", "p1.b"):
            (tmp_path / f"{name}.lst").write_text("3\t0\tclass0/0002.jpg\n")
        assert commands.im2rec(["--pass-through", str(tmp_path / "p1"), str(root)]) == 0
        assert sorted(path.name for path in tmp_path.glob("*.rec")) == ["p1.b.rec", "p1.rec", "p1_0_train.rec"]
        assert recordio.unpack(recordio.MXRecordIO(tmp_path / "p1.rec", "r").read() or b"")[1] == jpeg(2)

    def test_all_lists_of_a_folder(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "lists").mkdir()
        for name in ("a", "b"):
            (tmp_path / "lists" / f"{name}.lst").write_text("3\t0\tclass0/0002.jpg\n")
        assert commands.im2rec([str(tmp_path / "lists"), str(root)]) == 0
        assert sorted(path.name for path in (tmp_path / "lists").glob("*.rec")) == ["a.rec", "b.rec"]

    def test_a_list_beside_the_folder_of_the_images(self, root: Path, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no such list: .*photos.lst: --list makes it"):
            commands.im2rec([str(root), str(root)])
        commands.im2rec(["--list", "--recursive", str(root), str(root)])
        assert commands.im2rec([str(root), str(root)]) == 0
        assert len(ids(tmp_path / "photos.rec")) == 10

    @pytest.mark.parametrize("threads", ["1", "3"])
    def test_missing_images_are_reported_and_counted(
        self, root: Path, tmp_path: Path, threads: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "p.lst").write_text("3\t0\tclass0/0002.jpg\n4\t0\tnone.jpg\n5\n6\t0\tclass0/0004.jpg\n")
        assert commands.im2rec(["--num-thread", threads, str(tmp_path / "p"), str(root)]) == 1
        assert ids(tmp_path / "p.rec") == [3, 6]
        assert "2 images could not be packed" in caplog.text
        assert "none.jpg" in (tmp_path / "p.rec.errors.jsonl").read_text()
        (tmp_path / "p.lst").write_text("3\t0\tclass0/0002.jpg\n")
        assert commands.im2rec([str(tmp_path / "p"), str(root)]) == 0
        assert '"mode"' in (tmp_path / "p.rec.errors.jsonl").read_text().splitlines()[-1]

    def test_no_list(self, root: Path, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="--list makes it"):
            commands.im2rec([str(tmp_path / "p"), str(root)])

    def test_a_folder_that_is_not_there_costs_no_record_file(self, tmp_path: Path) -> None:
        (tmp_path / "p.lst").write_text("0\t0\ta.jpg\n")
        (tmp_path / "p.rec").write_bytes(b"old")
        with pytest.raises(FileNotFoundError, match="no such folder"):
            commands.im2rec([str(tmp_path / "p"), str(tmp_path / "none")])
        with pytest.raises(FileNotFoundError, match="no such folder"):
            commands.im2rec([str(tmp_path / "p.lst"), str(tmp_path / "none"), str(tmp_path / "p.rec")])
        assert (tmp_path / "p.rec").read_bytes() == b"old"

    def test_wrong_use(self, root: Path, tmp_path: Path) -> None:
        with pytest.raises(SystemExit) as stopped:
            commands.im2rec(["--color", "2", str(tmp_path / "p"), str(root)])
        assert stopped.value.code == 2


class TestTheFormOfTheNativeTool:
    def test_one_file(self, root: Path, tmp_path: Path) -> None:
        listed, made = tmp_path / "p.lst", tmp_path / "out.rec"
        listed.write_text("3\t0\tclass0/0002.jpg\n5\t0\tclass0/0004.jpg\n")
        assert commands.im2rec([str(listed), f"{root}/", str(made), "unchanged=1"]) == 0
        assert ids(made) == [3, 5]
        assert commands.im2rec([str(listed), str(root), str(made), "resize=5", "quality=80", "color=0"]) == 0
        header, image = recordio.unpack_img(recordio.MXRecordIO(made, "r").read() or b"")
        assert image is not None
        assert (header.id, image.shape) == (3, (5, 6))

    def test_a_part(self, root: Path, tmp_path: Path) -> None:
        listed, made = tmp_path / "p.lst", tmp_path / "out.rec"
        listed.write_text("3\t0\tclass0/0002.jpg\n5\t0\tclass0/0004.jpg\n")
        assert commands.im2rec([str(listed), str(root), str(made), "nsplit=2", "part=1"]) == 0
        assert ids(tmp_path / "out-part-00001.rec") == [5]

    @pytest.mark.parametrize(
        ("option", "message"), [("size=3", "no option 'size'"), ("resize=x", "resize=x: expected a whole number")]
    )
    def test_wrong_options(self, root: Path, tmp_path: Path, option: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            commands.im2rec([str(tmp_path / "p.lst"), str(root), str(tmp_path / "a.rec"), option])


class TestRec2Idx:
    def test_an_index(self, tmp_path: Path) -> None:
        rec, idx = tmp_path / "a.rec", tmp_path / "b.idx"
        with recordio.MXIndexedRecordIO(tmp_path / "a.idx", rec, "w") as writer:
            for key in range(12):
                writer.write_idx(key, bytes(key))
        assert commands.rec2idx([str(rec), str(idx)]) == 0
        assert idx.read_bytes() == (tmp_path / "a.idx").read_bytes()

    def test_a_damaged_file_gets_none(self, tmp_path: Path) -> None:
        rec, idx = tmp_path / "a.rec", tmp_path / "a.idx"
        with recordio.MXRecordIO(rec, "w") as writer:
            writer.write(b"abcdefgh")
        rec.write_bytes(rec.read_bytes()[:-4])
        with pytest.raises(FormatError):
            commands.rec2idx([str(rec), str(idx)])
        assert not idx.exists()
