from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests._dataset.views.models import CONTAINERS
from tests._pack.opening import opened
from tests._pack.pack_sources import Numbered, files_of, inverted
from tests.faults.ways import JPEG, spec_of
from tests.formats import each_format
from tests.sources.folders import image_folder, jpeg

import bushel
from bushel._runtime.order import make_order
from bushel.codecs import get_codec
from bushel.errors import FormatError, StateError, TooManyErrors
from bushel.storage import publish

ROOT = Path(__file__).resolve().parents[2]

Generation = Literal["B", "C"] | None


def noted(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@each_format
def test_a_run_goes_on_where_an_error_kept_files_from_getting_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str, generation: Generation
) -> None:
    photos = image_folder(tmp_path / "photos", 6)
    whole = bushel.pack(photos, tmp_path / "whole", container=container, generation=generation)
    swap = publish._swap
    for most in (1, 3):
        moved, target = list[str](), tmp_path / f"out{most}"

        def first_ones(staged: Path, place: Path, old: Path, moved: list[str] = moved, most: int = most) -> None:
            if len(moved) == most:
                raise OSError(errno.EIO, "Input/output error", str(place))
            moved.append(place.name)
            swap(staged, place, old)

        monkeypatch.setattr(publish, "_swap", first_ones)
        with suppress(OSError):  # if there are so many files
            bushel.pack(photos, target, container=container, generation=generation)
        monkeypatch.setattr(publish, "_swap", swap)
        done = bushel.pack(photos, target, container=container, generation=generation, mode="resume")
        assert done.kept + done.samples == whole.samples
        assert bushel.diff(bushel.open(tmp_path / "whole"), bushel.open(target)).same


class TestErrors:
    def test_bad_items_are_passed_over_and_noted(self, tmp_path: Path) -> None:
        photos = image_folder(tmp_path / "photos", 6)
        (photos / "class0/0000.jpg").write_bytes(b"")
        (photos / "class1/0001.jpg").write_bytes(b"no image at all")
        (photos / "class2/0002.jpg").unlink()
        (photos / "class2/0002.jpg").symlink_to("nowhere")
        done = bushel.pack(photos, tmp_path / "out", container="bag", max_errors=0.5)
        assert (done.samples, done.errors) == (3, 2)
        assert done.skipped == {"link that leads nowhere": 1}
        assert done.error_logs == (str(tmp_path / "out.errors.jsonl"),)
        lines = noted(tmp_path / "out.errors.jsonl")
        assert [line["path"] for line in lines] == [
            str(photos / name) for name in ("class0/0000.jpg", "class1/0001.jpg")
        ]
        assert [line["position"] for line in lines] == [0, 2]
        assert [line["key"] for line in lines] == ["class0/0000", "class1/0001"]
        reasons = [line["error"].split(":")[0] for line in lines]
        assert reasons == ["CodecError", "CodecError"]
        assert list(opened(tmp_path / "out").keys) == ["class0/0003", "class1/0004", "class2/0005"]

    @pytest.mark.parametrize("container", ["ffrecord", "tar"])
    @pytest.mark.parametrize("convert", [False, True])
    def test_samples_that_damage_of_their_file_touches_are_passed_over(
        self, tmp_path: Path, container: str, convert: bool
    ) -> None:
        source = tmp_path / ("in.ffr" if container == "ffrecord" else "in.tar")
        with bushel.Writer(source, {"a": "int", "b": "utf8"}, container=container, sync=False) as writer:
            for number in range(6):
                writer.append({"a": number, "b": f"text {number}"}, key=f"k{number}")
        shutil.rmtree(tmp_path / ".bushel", ignore_errors=True)
        data = bytearray(source.read_bytes())
        at = data.index(b"text 4" if container == "ffrecord" else b"k4.")
        data[at] ^= 1
        source.write_bytes(data)
        with pytest.warns(bushel.errors.DamagedWarning):
            dataset = bushel.open(source, index="memory")
        with pytest.raises(FormatError) as caught:
            dataset[4]
        pack = bushel.convert if convert else bushel.pack
        with pytest.raises(FormatError):
            pack(source, tmp_path / "strict", container="bag")
        assert not (tmp_path / "strict").exists()
        with pytest.warns(bushel.errors.DamagedWarning):
            done = pack(source, tmp_path / "out", container="bag", max_errors=2)
        assert (done.samples, done.errors) == (5, 1)
        [line] = noted(tmp_path / "out.errors.jsonl")
        assert (line["position"], line["path"]) == (4, f"{caught.value.file}@{caught.value.offset}")
        assert sorted(opened(tmp_path / "out").keys) == [f"k{number}" for number in (0, 1, 2, 3, 5)]

    def test_damage_inside_an_image_is_found_where_it_is_decoded(self, tmp_path: Path) -> None:
        whole = jpeg(0, 64, 64)
        source = [{"image": jpeg(1)}, {"image": whole[: len(whole) // 2]}, {"image": jpeg(2)}]
        assert bushel.pack(source, tmp_path / "kept.ffr").errors == 0
        assert bushel.pack(source, tmp_path / "checked.ffr", images="check", max_errors=1).errors == 1
        assert bushel.pack(source, tmp_path / "changed.ffr", transforms=[inverted], max_errors=1).errors == 1

    @pytest.mark.parametrize("threads", [1, 8])
    @each_format
    def test_too_many_leave_a_whole_dataset(
        self, tmp_path: Path, container: str, generation: Generation, threads: int
    ) -> None:
        source = Numbered(60, bad=(5, 17, 30, 44))
        with pytest.raises(
            TooManyErrors, match=r"3 of the first 31 items cannot be packed, but max_errors allows 2"
        ) as caught:
            bushel.pack(
                source,
                tmp_path / "out",
                container=container,
                generation=generation,
                max_errors=2,
                shard_samples=20,
                threads=threads,
                sync=False,
            )
        assert "photos/30.jpg" in str(caught.value)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
        with pytest.warns(bushel.errors.IncompleteWarning, match="20 of 60 samples .*mode='resume'.*mode='overwrite'"):
            dataset = opened(tmp_path / "out")
        assert (dataset.info.complete, dataset.info.expected) == (False, 60)
        assert "incomplete: 60 samples expected" in repr(dataset[:2])
        assert [p.kind for p in bushel.verify(tmp_path / "out").problems] == ["incomplete"]
        with pytest.raises(FileExistsError, match="is incomplete: .* mode='resume'"):
            bushel.pack(source, tmp_path / "out", container=container, generation=generation, mode="append")
        assert [sample["label"] for sample in dataset] == [n for n in range(22) if n not in (5, 17)]
        assert [line["position"] for line in noted(tmp_path / "out.errors.jsonl")] == [5, 17, 30]

    @pytest.mark.parametrize("limit", [{"shard_samples": 20}, {"shard_bytes": 12_000}])
    @each_format
    def test_with_more_allowed_it_goes_on_as_if_nothing_had_happened(
        self, tmp_path: Path, container: str, generation: Generation, limit: dict[str, int]
    ) -> None:
        source = Numbered(90, bad=(5, 17, 30, 44))
        options: dict[str, Any] = {"container": container, "generation": generation, "sync": False, **limit}
        with pytest.raises(TooManyErrors):
            bushel.pack(source, tmp_path / "out", max_errors=2, **options)
        done = bushel.pack(source, tmp_path / "out", mode="resume", max_errors=4, **options)
        assert (done.kept + done.samples, done.errors) == (86, 4)
        assert 0 < done.kept <= 28
        bushel.pack(source, tmp_path / "whole", max_errors=4, **options)
        assert len(opened(tmp_path / "whole").shards) > 2
        assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")

    @pytest.mark.parametrize("before", [3, 7])
    @each_format
    def test_a_shard_that_was_there_before_an_append_stays_as_it_is(
        self, tmp_path: Path, container: str, generation: Generation, before: int
    ) -> None:
        options: dict[str, Any] = {"container": container, "generation": generation, "shard_samples": 5, "sync": False}
        more: dict[str, Any] = {**options, "keys": lambda key: "n" + key}
        for name in ("out", "whole"):
            bushel.pack(Numbered(before), tmp_path / name, **options)
        source = Numbered(20, bad=(1, 9))
        with pytest.raises(TooManyErrors):
            bushel.pack(source, tmp_path / "out", mode="append", max_errors=1, **more)
        assert bushel.pack(source, tmp_path / "out", mode="resume", max_errors=2, **more).errors == 2
        bushel.pack(source, tmp_path / "whole", mode="append", max_errors=2, **more)
        assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")

    @pytest.mark.parametrize("before", [3, 9])
    def test_an_append_whose_first_item_fails_changes_nothing(self, tmp_path: Path, before: int) -> None:
        out, source = tmp_path / "x.tar", Numbered(6, bad=(0,))
        options: dict[str, Any] = {"keys": lambda key: "n" + key}
        bushel.pack(Numbered(before), out)
        with pytest.raises(TooManyErrors, match="Nothing was written"):
            bushel.pack(source, out, mode="append", **options)
        assert len(opened(out)) == before
        done = bushel.pack(source, out, mode="append", max_errors=1, **options)
        assert (done.kept, done.samples, done.errors) == (before, 5, 1)
        assert [sample["label"] for sample in opened(out)] == [*range(before), 1, 2, 3, 4, 5]

    def test_nothing_is_continued_where_nothing_was_written(self, tmp_path: Path) -> None:
        """A note beside `Nothing was written` said how to resume."""
        with pytest.raises(TooManyErrors, match="Nothing was written") as raised:
            bushel.pack(Numbered(6, bad=(3, 4)), tmp_path / "x", container="tar", max_errors=1)
        assert "mode=" not in "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])

    def test_a_finished_dataset_is_not_taken_for_the_beginning_of_another_source(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(3), tmp_path / "x.tar")
        assert bushel.pack(Numbered(3), tmp_path / "x.tar", mode="resume").samples == 0
        done = bushel.pack(Numbered(4, bad=(3,)), tmp_path / "y.tar", max_errors=1)
        assert (done.samples, done.errors) == (3, 1)
        again = bushel.pack(Numbered(4, bad=(3,)), tmp_path / "y.tar", mode="resume", max_errors=1)
        assert (again.kept, again.samples, again.errors) == (3, 0, 1)
        with pytest.raises(StateError, match="the finished run had samples=3, but this call has samples=6"):
            bushel.pack(Numbered(6), tmp_path / "x.tar", mode="resume")
        assert len(opened(tmp_path / "x.tar")) == 3

    @pytest.mark.parametrize("written", [3, 5, 6])
    @pytest.mark.parametrize("container", CONTAINERS)
    def test_what_another_program_has_begun_is_not_called_complete(
        self, tmp_path: Path, container: str, written: int
    ) -> None:
        target = container
        data = JPEG if container == "gulp" else b"data"
        samples = [{"__key__": f"key{number}", "data": data, "label": number} for number in range(6)]
        options: dict[str, Any] = {"container": container, "spec": spec_of(container), "sync": False}
        options["shard_samples"] = 3
        writer = bushel.Writer(tmp_path / target, **options)
        for sample in samples[:written]:
            writer.append(sample)
        writer.suspend()
        said = rf"{target} is unfinished with {written // 3 * 3} samples, .*Writer.*mode='resume'.*mode='overwrite'"
        with pytest.raises(StateError, match=said):
            bushel.pack(samples, tmp_path / target, mode="resume", **options)
        with bushel.Writer(tmp_path / target, mode="resume", **options) as writer:
            for sample in samples[len(writer) :]:
                writer.append(sample)
        with bushel.Writer(tmp_path / "whole" / target, **options) as writer:
            for sample in samples:
                writer.append(sample)
        found, whole = tmp_path / target, tmp_path / "whole" / target
        assert files_of(found) == files_of(whole)
        assert bushel.verify(found).ok

    def test_another_order_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(TooManyErrors):
            bushel.pack(Numbered(9, bad=(5,)), tmp_path / "x", container="tar", shard_samples=2)
        with pytest.raises(StateError, match="had shuffle=None, but this call has shuffle=exact/1 with seed 1"):
            bushel.pack(Numbered(9), tmp_path / "x", container="tar", mode="resume", shuffle=True, seed=1)

    def test_a_kill_after_too_many_errors(self, tmp_path: Path) -> None:
        with pytest.raises(TooManyErrors):
            bushel.pack(Numbered(40, bad=(13,)), tmp_path / "out", container="bag", shard_samples=10)
        call = f"bushel.pack(Dying(40, 17), {str(tmp_path / 'out')!r}, container='bag', shard_samples=10, mode='resume'"
        killed(f"{call}, max_errors=1, threads=1)")
        assert [sample["label"] for sample in opened(tmp_path / "out", allow_incomplete=True)] == list(range(10))
        options: dict[str, Any] = {"container": "bag", "shard_samples": 10, "max_errors": 1}
        bushel.pack(Numbered(40, bad=(13,)), tmp_path / "out", mode="resume", **options)
        bushel.pack(Numbered(40, bad=(13,)), tmp_path / "whole", **options)
        assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")

    def test_none_is_allowed_unless_said(self, tmp_path: Path) -> None:
        with pytest.raises(TooManyErrors, match="1 of the first 3 items cannot be packed, but max_errors allows 0"):
            bushel.pack(Numbered(9, bad=(2,)), tmp_path / "x.tar")
        assert not (tmp_path / "x.tar").exists()
        done = bushel.pack(Numbered(9, bad=(2,)), tmp_path / "x.tar", mode="resume", max_errors=1)
        assert (done.samples, opened(tmp_path / "x.tar").info.complete) == (8, True)

    def test_a_transform_that_fails_is_an_error_of_its_item(self, tmp_path: Path) -> None:
        def picky(image: Any) -> Any:
            if int(image[0, 0, 0]) > 20:
                raise ArithmeticError("too bright")
            return image

        encode = get_codec("png").encode
        source = [{"image": encode(np.full((8, 8, 3), 10 * number, np.uint8))} for number in range(5)]
        done = bushel.pack(source, tmp_path / "x.tar", transforms=[picky], max_errors=2)
        assert done.errors == 2
        for line in noted(Path(done.error_logs[0])):
            assert line["error"].startswith("ArithmeticError: too bright (in the transform ")
            assert line["error"].endswith("picky of field 'image')")

    def test_a_later_run_adds_to_the_log(self, tmp_path: Path) -> None:
        log = tmp_path / "x.rec.errors.jsonl"

        def entries() -> list[tuple[int, int | str | None]]:
            return [(line["run"], line.get("position", line.get("mode"))) for line in noted(log)]

        options: dict[str, Any] = {"keys": False, "max_errors": 1}
        bushel.pack(Numbered(3, bad=(1,)), tmp_path / "x.rec", **options)
        assert entries() == [(1, 1)]
        done = bushel.pack(Numbered(3), tmp_path / "x.rec", mode="append", **options)
        assert (done.errors, done.error_logs) == (0, ())
        assert len(opened(tmp_path / "x.rec")) == 5
        assert entries() == [(1, 1), (2, "append")]
        done = bushel.pack(Numbered(4, bad=(2,)), tmp_path / "x.rec", mode="overwrite", **options)
        assert done.error_logs == (str(log),)
        assert entries() == [(1, 1), (2, "append"), (3, "overwrite"), (3, 2)]
        again = bushel.pack(Numbered(4, bad=(2,)), tmp_path / "x.rec", mode="resume", **options)
        assert (again.kept, again.samples, again.errors) == (3, 0, 1)
        assert entries() == [(1, 1), (2, "append"), (3, "overwrite"), (3, 2)]
        with pytest.raises(TooManyErrors):
            bushel.pack(Numbered(6, bad=(0, 3, 4)), tmp_path / "x.rec", mode="append", **options)
        assert entries()[4:] == [(4, "append"), (4, 0), (4, 3)]
        done = bushel.pack(Numbered(6, bad=(0, 3, 4)), tmp_path / "x.rec", mode="append", keys=False, max_errors=3)
        assert (done.kept, done.samples, done.errors) == (3, 3, 3)
        assert entries()[4:] == [(4, "append"), (4, 0), (4, 3), (5, "append"), (5, 0), (5, 3), (5, 4)]

    def test_files_that_are_passed_over(self, tmp_path: Path) -> None:
        photos = image_folder(tmp_path / "photos", 3)
        for name in ("a.nef", "class0/b.cr2", "class1/c.cr2"):
            (photos / name).write_bytes(b"")
        done = bushel.pack(photos, tmp_path / "x.tar")
        assert (done.samples, done.errors, done.skipped) == (3, 0, {".cr2": 2, ".nef": 1})
        assert "skipped 2 .cr2, 1 .nef" in repr(done)


class TestFirstError:
    def test_a_run_goes_on_once_its_item_is_mended(self, tmp_path: Path) -> None:
        photos = image_folder(tmp_path / "photos", 9)
        good = (photos / "class1/0001.jpg").read_bytes()
        (photos / "class1/0001.jpg").write_bytes(b"no image")
        with pytest.raises(TooManyErrors, match=r"0001\.jpg: CodecError: .*expected an image"):
            bushel.pack(photos, tmp_path / "out", container="bag")
        (photos / "class1/0001.jpg").write_bytes(good)
        done = bushel.pack(photos, tmp_path / "out", container="bag", mode="resume")
        assert (done.kept, done.samples, done.errors) == (0, 9, 0)
        bushel.pack(photos, tmp_path / "whole", container="bag")
        assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def killed(call: str) -> None:
    """Run a call of pack that ends its process."""
    script = f"import bushel\nfrom tests._pack.pack_sources import *\n{call}\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 9, done.stderr


class TestResume:
    @pytest.mark.parametrize("shard_samples", [None, 16])
    @each_format
    def test_the_bytes_are_those_of_an_undisturbed_run(
        self, tmp_path: Path, container: str, generation: Generation, shard_samples: int | None
    ) -> None:
        bad = (0, 7, 8, 33, 57)
        options = f"container={container!r}, generation={generation!r}, shard_samples={shard_samples}"
        options += ", max_errors=9, shuffle=True, seed=1"
        call = f"bushel.pack(Dying(60, 45, {bad}), {str(tmp_path / 'out')!r}, {options}, threads=1)"
        killed(call)
        order = make_order(True, 60, 1)
        reached = order.take(0, np.arange(60)).tolist().index(45)
        keywords: dict[str, Any] = {
            "container": container,
            "generation": generation,
            "shard_samples": shard_samples,
            "max_errors": 9,
            "shuffle": True,
            "seed": 1,
        }
        done = bushel.pack(Numbered(60, bad), tmp_path / "out", mode="resume", **keywords)
        assert done.kept + done.samples == 55
        assert done.kept <= reached
        assert done.errors == 5
        bushel.pack(Numbered(60, bad), tmp_path / "whole", **keywords)
        assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
        assert (tmp_path / "out.errors.jsonl").read_text() == (tmp_path / "whole.errors.jsonl").read_text()
        again = bushel.pack(Numbered(60, bad), tmp_path / "out", mode="resume", **keywords)
        assert (again.kept, again.samples, again.errors) == (55, 0, 5)

    def test_a_killed_run_is_incomplete(self, tmp_path: Path) -> None:
        options = "container='tar', shard_samples=10, threads=1, sync=False"
        killed(f"bushel.pack(Dying(2000, 1990), {str(tmp_path / 'out')!r}, {options})")
        with pytest.warns(bushel.errors.IncompleteWarning, match=r"of 2,000 samples are there.*mode='resume'"):
            assert 0 < len(opened(tmp_path / "out")) < 2000
        assert bushel.verify(tmp_path / "out").problems[0].kind == "incomplete"
        killed(f"bushel.pack(Dying(60, 45), {str(tmp_path / 'x.tar')!r}, threads=1)")
        with pytest.raises(FileNotFoundError, match="interrupted: .*mode='resume'"):
            opened(tmp_path / "x.tar")

    def test_an_interrupted_append(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        for name in ("out", "whole"):
            bushel.pack(Numbered(7), tmp_path / name, container="tar", shard_samples=5)
        call = f"bushel.pack(Dying(30, 20), {str(out)!r}, container='tar', shard_samples=5, mode='append', keys=again)"
        script = f"def again(key): return 'n' + key\n{call}"
        killed(script)
        options: dict[str, Any] = {"container": "tar", "shard_samples": 5, "keys": lambda key: "n" + key}
        done = bushel.pack(Numbered(30), out, mode="resume", **options)
        assert done.kept + done.samples == 37
        assert done.samples >= 10
        bushel.pack(Numbered(30), tmp_path / "whole", mode="append", **options)
        assert files_of(out) == files_of(tmp_path / "whole")

    def test_parts_that_are_finished_are_left_alone(self, tmp_path: Path) -> None:
        call = f"bushel.pack(Dying(30, 15), {str(tmp_path / 'out')!r}, container='bag', parts=3)"
        killed(call)
        first = (tmp_path / "out/part-00000/image.bag").stat().st_mtime_ns
        done = bushel.pack(Numbered(30), tmp_path / "out", container="bag", parts=3, mode="resume")
        assert done.samples + done.kept == 30
        assert (tmp_path / "out/part-00000/image.bag").stat().st_mtime_ns == first
        assert [sample["label"] for sample in opened(str(tmp_path / "out/part-*"))] == list(range(30))

    def test_ctrl_c_can_be_resumed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bushel._runtime.progress._INTERVAL_SECONDS", 0)

        def interrupting(progress: Any) -> None:
            if progress.done >= 20:
                signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            bushel.pack(Numbered(2000), tmp_path / "x.rec", progress=interrupting)
        done = bushel.pack(Numbered(2000), tmp_path / "x.rec", mode="resume")
        assert done.kept == 0
        bushel.pack(Numbered(2000), tmp_path / "y.rec")
        assert (tmp_path / "x.rec").read_bytes() == (tmp_path / "y.rec").read_bytes()
        assert (tmp_path / "x.idx").read_bytes() == (tmp_path / "y.idx").read_bytes()

    def test_with_other_arguments_it_is_refused(self, tmp_path: Path) -> None:
        killed(f"bushel.pack(Dying(40, 30), {str(tmp_path / 'x.tar')!r}, threads=1)")
        with pytest.raises(StateError, match="had shuffle=None, but this call has shuffle=exact/1 with seed 1"):
            bushel.pack(Numbered(40), tmp_path / "x.tar", mode="resume", shuffle=True, seed=1)
        with pytest.raises(StateError, match="had samples=40, but this call has samples=41"):
            bushel.pack(Numbered(41), tmp_path / "x.tar", mode="resume")
        with pytest.raises(StateError, match="a stream cannot be resumed"):
            bushel.pack(iter([Numbered(1)[0]]), tmp_path / "x.tar", mode="resume")
        assert bushel.pack(Numbered(40), tmp_path / "x.tar", mode="resume").errors == 0

    def test_a_target_with_more_samples_than_the_source(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(9), tmp_path / "x.tar")
        with pytest.raises(StateError, match="the finished run had samples=9, but this call has samples=5"):
            bushel.pack(Numbered(5), tmp_path / "x.tar", mode="resume")

    def test_a_log_that_a_power_cut_has_filled_with_zeros(self, tmp_path: Path) -> None:
        options: dict[str, Any] = {"max_errors": 3, "threads": 1}
        killed(f"bushel.pack(Dying(40, 30, (1,)), {str(tmp_path / 'x.tar')!r}, max_errors=3, threads=1)")
        log = tmp_path / "x.tar.errors.jsonl"
        log.write_bytes(bytes(80) + b"\n")
        done = bushel.pack(Numbered(40, (1,)), tmp_path / "x.tar", mode="resume", **options)
        assert (done.kept + done.samples, done.errors) == (39, 1)
        bushel.pack(Numbered(40, (1,)), tmp_path / "whole.tar", **options)
        assert log.read_text() == (tmp_path / "whole.tar.errors.jsonl").read_text()

    def test_a_log_that_was_changed(self, tmp_path: Path) -> None:
        options = "container='tar', shard_samples=10, max_errors=3, threads=1"
        killed(f"bushel.pack(Dying(2000, 1990, (1,)), {str(tmp_path / 'x')!r}, {options})")
        (tmp_path / "x.errors.jsonl").write_text("not json\n")
        with pytest.raises(bushel.errors.FormatError, match="had written [0-9]+ bytes of it, and 9 are there"):
            bushel.pack(Numbered(2000, (1,)), tmp_path / "x", container="tar", mode="resume", max_errors=3)
