"""The public writer."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence

from bushel._runtime.progress import user_call
from bushel._runtime.public import public

from .dataset_writer import DatasetWriter
from .target import Mode, WriterOptions
from .written_shards import WrittenShards

_log = logging.getLogger("bushel")


_INSTEAD = {
    "writer.append(sample, key)": "write add put push insert add_sample write_sample write_one",
    "writer.extend(columns)": "write_batch append_many add_batch write_many write_table update",
    "writer.close(), or leave its `with` statement": "finish finalize commit save done end",
}
"""What to write instead of methods that writers of other libraries have."""


@public(instead=_INSTEAD)
class Writer(DatasetWriter):
    """Writes a dataset: one sample at a time, or many as columns (`extend`).

    A shard gets its final name only when it is complete and on disk; until then it is staged in
    `.bushel/staging`. If the writer is killed, or the body of the `with` statement raises, finished
    shards stay, and `mode="resume"` continues after the last of them: the samples of the unfinished
    one have to be appended again. One file has no shards: writing it starts again, and appending to
    it leaves it as it was.

    Shards of a dataset in an object store are staged in a local folder (under `TMPDIR`, with space
    for two shards) and uploaded when they are complete, each while the next one is written.
    `mode="resume"` continues after the last uploaded shard.

    Threads may share a writer. Samples are written in the order in which `append` and `extend` are
    called. A second writer of the same path is refused until the first one is closed, also in other
    processes and on other machines.

    Args:
        path: Folder of the dataset, or, for tar, ffrecord and recordio, the name of the one file to
            write. A local path, or a URL: `s3://`, `gs://`, `az://`.
        spec: Field to type, such as `{"image": "jpg", "words": "utf8[]"}`. Can be left out if
            `path` has a dataset already, except with `overwrite`.
        container: `bag`, `tar`, `ffrecord`, `gulp` or `recordio`. Can be left out if the suffix of
            `path` or the existing dataset has it.
        mode: `create` refuses to write where a dataset is. `append` adds to a dataset, as new
            shards or in its one file. `resume` continues an interrupted write; `len(writer)` is
            then the number of samples that are kept. `overwrite` replaces a dataset of any
            container: the old one stays readable until `close` has completed the new one and swaps
            them. If the write fails or is killed, the old dataset stays. In an object store, only a
            dataset of one file can be overwritten.
        shard_samples: Number of samples after which a new shard is started.
        shard_bytes: Size of a shard after which a new one is started: a number of bytes, or text
            such as `"1GB"`; 0 for a folder of one shard. Without it and `shard_samples`, 1 GiB for
            a folder. A bag or gulp that is smaller has the layout that their tools give to one
            shard, and stays one when samples are appended.
        generation: Generation of a bag: `B` (the default; Granular 0.20 to 0.21) or `C` (from 0.22
            on).
        expected: Number of samples that will be appended, if known; with `mode="resume"`, of the
            whole dataset. It saves some containers a copy of the data.
        folders: Paths of empty folders, if samples are the files of a folder with their paths as
            keys. Only `ffrecord` keeps them, in the first shard that is written.
        sync: Whether to wait until a finished shard is on disk. If not, a power cut may lose
            finished shards.
        labels: Names of classes in the order of their numbers, by field:
            `{"label": ["cat", "dog"]}`. They are kept with the dataset, as
            `bushel.open(path).labels`. A dataset that is continued keeps its names; new ones
            follow. A sample may have the name of its class, which is stored as the number.
        seek: Make seek tables of plain JPEGs, with which crops decode faster: see
            docs/seek-tables.md. Each finished shard is read, and its images are decoded once.
            Samples that are added to a dataset with seek tables get theirs in any case.
        columns: Columns to record in the index, such as `["label", "image.width"]`, in which `auto`
            stands for the usual ones; `()` for none. By default the usual ones: numbers, texts of
            at most 32 bytes on average, and sizes of images (docs/columns.md); samples that are
            added to a dataset get the columns that it has.
        forget_removed: Whether `overwrite` drops the list of removed samples (docs/removal.md). By
            default it is kept: a removed sample that is written again stays removed.

    Raises:
        FileExistsError: `path` has a dataset or an unfinished write, or, in any mode except
            `overwrite`, a dataset in parts; with `overwrite`, the folder contains files that are
            not part of a dataset.
        InUseError: Another writer is open for `path`, in this process or elsewhere
            (docs/packing.md).
        FileNotFoundError: The dataset to append to does not exist.
        SpecError: The container cannot hold samples of this spec; the message names the reason, and
            the containers that can. Or `labels` are invalid, or a field cannot have a column.
        KeyError: A column does not belong to a field.
        StateError: The existing dataset has another spec or container, or numbers the classes in
            another way.

    Examples:
        >>> with bushel.Writer("out/", {"image": "jpg", "label": "int"}, container="tar") as writer:
        ...     writer.append({"image": Path("photo.jpg").read_bytes(), "label": 3}, key="first")
        ...     writer.append({"image": np.zeros((48, 64, 3), np.uint8), "label": 4}, key="second")
        0
        1
        >>> bushel.open("out/")["second"]["label"]
        4
    """

    @user_call()
    def __init__(
        self,
        path: object,
        spec: Mapping[str, str] | None = None,
        *,
        container: str | None = None,
        mode: Mode = "create",
        shard_samples: int | None = None,
        shard_bytes: int | str | None = None,
        generation: str | None = None,
        expected: int | None = None,
        folders: Iterable[str] | None = None,
        sync: bool = True,
        labels: Mapping[str, Sequence[str]] | None = None,
        seek: bool = False,
        columns: str | Iterable[str] | None = None,
        forget_removed: bool = False,
    ) -> None:
        super().__init__(path, spec, WriterOptions.of(locals()))
        unclosed = weakref.finalize(
            self,
            _say_unclosed,
            str(self._path),
            os.getpid(),
            self._written,
            overwrite=mode == "overwrite",
        )
        self._let_go.callback(unclosed.detach)


def _say_unclosed(path: str, process: int, written: WrittenShards, *, overwrite: bool) -> None:
    """Log that a writer with samples was never closed. It runs when the writer is collected, or the process ends."""
    if os.getpid() != process or written.current is None:
        return
    lost = "its last samples are not in the dataset; mode='resume' continues after its last shard"
    if overwrite:
        lost = "nothing was written"
    _log.warning(
        "%s: a Writer was not closed, so %s. Use it in a `with` statement, or call close()",
        path,
        lost,
    )
