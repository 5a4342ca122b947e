"""What a writer is asked for: its options, and its target with the dataset and the class names there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from bushel._dataset.open.as_listed import check_as_listed
from bushel._dataset.open.caller_fields import CallerFields
from bushel._dataset.open.completeness import is_part, lists_bags, manifest_of, run_folder
from bushel._dataset.open.discovery import find
from bushel._dataset.open.shards import open_shards
from bushel._dataset.read.shard_fields import with_caller_fields
from bushel._dataset.read.shards import OpenShard
from bushel._index.names import Labels, can_be_named, check_labels, join_labels, names_of
from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import readable_manifest
from bushel._runtime.arrays import check_count
from bushel._runtime.messages import few
from bushel.containers import (
    Container,
    Layout,
    ReadOptions,
    candidates,
    container_by_suffix,
    container_for,
    get_writable,
    writable_containers,
)
from bushel.containers.registry import read_only_ending, refuse_read_only
from bushel.errors import FormatError, SpecError, StateError, UnsupportedError
from bushel.spec import Spec, format_spec
from bushel.storage import AnyPath, names_in, parse_bytes

Mode = Literal["create", "append", "resume", "overwrite"]

_SHARD_BYTES = 1 << 30
"""Size of a shard of a folder if the caller gives none."""


class WriterOptions(Struct, frozen=True, kw_only=True):
    """The arguments that decide how a dataset is written. `bushel.Writer` describes its arguments of these names.

    Attributes:
        container: Name of the container; None to derive it from the path or from the dataset there.
        mode: `create`, `append`, `resume` or `overwrite`.
        shard_samples: Number of samples in a shard, or None.
        shard_bytes: Number of bytes in a shard, as a number or as text; 0 for a folder of one
            shard; None for 1 GiB if `shard_samples` is None, too.
        generation: Generation of a bag, or None.
        expected: Number of samples that will be appended, which some containers use.
        folders: Paths of empty folders; None if samples are not files of a folder.
        sync: Whether to wait until a finished shard is on disk.
        labels: Names of classes by field; None keeps the names of the existing dataset.
        seek: Whether to make seek tables.
        columns: Columns to record in the index; None for the usual ones.
        forget_removed: Whether `overwrite` drops the lists of removed samples.
        first_number: Number that the first sample gets as its key if it has no key, where the
            container needs keys.

    Raises:
        TypeError: A number is not a whole one.
        ValueError: The mode is unknown, or a shard has less than one sample or a malformed size.
    """

    container: str | None = None
    mode: Mode = "create"
    shard_samples: int | None = None
    shard_bytes: int | str | None = None
    generation: str | None = None
    expected: int | None = None
    folders: tuple[str, ...] | None = None
    sync: bool = True
    labels: Mapping[str, Sequence[str]] | None = None
    seek: bool = False
    columns: tuple[str, ...] | None = None
    first_number: int = 0
    forget_removed: bool = False

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            modes = ", ".join(map(repr, get_args(Mode)))
            raise ValueError(f"invalid mode={self.mode!r}: write one of {modes}")
        if self.shard_samples is not None:
            samples = check_count("shard_samples", self.shard_samples, least=1)
            force_setattr(self, "shard_samples", samples)
        if self.shard_bytes is not None:
            force_setattr(self, "shard_bytes", parse_bytes(self.shard_bytes))

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> WriterOptions:
        """Return the arguments of a function, as `locals()` has them at its beginning; others are skipped.

        Raises:
            ValueError: `forget_removed` is for another mode.
        """
        options = {name: arguments[name] for name in cls.__struct_fields__ if name in arguments}
        if options.get("columns") is not None:
            options["columns"] = names_of(options["columns"])
        if options.get("folders") is not None:
            options["folders"] = tuple(options["folders"])
        if options.get("forget_removed") and options["mode"] != "overwrite":
            raise ValueError("forget_removed=True needs mode='overwrite'")
        return cls(**options)

    @property
    def divides(self) -> bool:
        """Whether the caller wants several shards, which one file cannot be."""
        return bool(self.shard_samples or self.shard_bytes)

    def limits(self, *, single: bool) -> ShardLimits:
        """Return the size at which a shard is full. One file has no limit."""
        size = self.shard_bytes
        estimated = size is None
        if estimated and not (single or self.shard_samples):
            size = _SHARD_BYTES
        return ShardLimits(self.shard_samples, cast("int", size) or None, estimated=estimated)


class ShardLimits(Struct, frozen=True):
    """The size at which a shard is finished and the next one is started."""

    samples: int | None  # number of samples, or None
    bytes: int | None  # number of bytes that the sample which fills a shard may exceed, or None
    # whether few datasets have that many bytes, so that all samples may fit into one shard
    estimated: bool = False

    def expected(self, total: int | None, written: int, before: int | None) -> int | None:
        """Return the number of samples that the next shard will probably get, or None if unknown.

        Args:
            total: Number of samples of all shards, if known.
            written: Number of samples of the shards so far.
            before: Number of samples of the last one of them, None without any.
        """
        if total is None or (before is None and self.bytes is not None and not self.estimated):
            return None
        counts = [max(total - written, 0), self.samples or total]
        if before is not None and self.bytes is not None:
            counts.append(before)
        return min(counts)


class Target(Struct, frozen=True):
    """The target of a writer: a folder, or one file."""

    path: AnyPath
    container: Container
    single: bool

    @classmethod
    def of(cls, path: AnyPath, container: Container) -> Target:
        """Return the target at a path. A path with the container's suffix is one file.

        Raises:
            UnsupportedError: The container reads files with such a name, as `x.tar.gz`, and does
                not write them.
            SpecError: The container does not find files with such a name, as gulp does not find
                `x.gulp`.
        """
        if not path.is_dir():
            refuse_read_only(path.name, container, str(path))
        single = bool(container.suffix) and path.name.endswith(container.suffix)
        if single:
            container.check_name(path.name)
        return cls(path, container, single)

    @property
    def root(self) -> AnyPath:
        """The folder that is or contains the dataset."""
        return self.path.parent if self.single else self.path

    @property
    def file(self) -> str | None:
        """Name of the one file, or None for a folder."""
        return self.path.name if self.single else None

    def check_kind(self) -> None:
        """Check that the path is not a folder where one file is to be written, nor a file where a folder is.

        Nor may it be a link to a file: a link was followed if the names end alike.

        Raises:
            FileExistsError: It is.
        """
        path = self.path
        if isinstance(path, Path) and path.exists() and path.is_dir() == self.single:
            kinds = "is a folder, but the new dataset is a file"
            if not self.single:
                kinds = "is a file, but the new dataset is a folder"
            raise FileExistsError(f"{path} {kinds}: use another path")
        if self.single and isinstance(path, Path) and path.is_symlink():
            raise FileExistsError(
                f"{path} is a link to {os.path.realpath(path)}, whose name ends in another way: "
                "write to that path, or to another one"
            )

    def check_no_parts(self, mode: str) -> None:
        """Check that the folder has no parts of a run, which shards in the folder itself would hide from readers.

        With `overwrite`, the folder is replaced, with its parts.

        Raises:
            FileExistsError: It has parts, or the plan of a run.
        """
        if self.single or not self.path.is_dir():
            return
        parts = sorted(filter(is_part, names_in(self.path)))
        if parts:
            what = f"has a dataset in parts ({few(parts, 1)}) already"
        elif (run_folder(self.path, single=False) / "plan.json").exists():
            what = "has the plan of a run in parts already"
        else:
            return
        advice = {
            "create": "use mode='overwrite' to replace it, or another path",
            "append": "write the new samples to another path, and join both with bushel.merge",
            "resume": "continue the run with the parts= it was started "
            "with, replace it with mode='overwrite', or use another path",
        }
        raise FileExistsError(f"{self.path} {what}: {advice[mode]}")

    def existing_shards(self) -> list[OpenShard]:
        """Return the shards of the dataset at the path, with their indexes; empty if the path has no dataset.

        Raises:
            FileExistsError: The path holds a dataset of another container.
        """
        path = self.path
        # a folder is as the lock of a new dataset makes it: then no container has to be imported
        is_new = isinstance(path, Path) and path.is_dir() and os.listdir(path) == [FOLDER]
        if is_new or not path.exists():
            return []
        for other in writable_containers() if not self.single else ():
            if other is not self.container and holds_dataset(other, self.path):
                raise FileExistsError(
                    f"{self.path} is a {other.name} dataset, not {self.container.name}: "
                    "write to another folder, or replace it with mode='overwrite'"
                )
        if not holds_dataset(self.container, self.path):
            return []
        dataset = find([self.path], self.container.name)
        manifest = manifest_of(dataset.container, dataset.shards)
        opened = open_shards(
            dataset.container, dataset.shards, ReadOptions(checksums=True), manifest=manifest
        )
        # values are only encoded
        return [with_caller_fields(shard, CallerFields(pickle=True)) for shard in opened]

    def check_as_listed(self, mode: str, shards: list[OpenShard]) -> None:
        """Check that the folder holds the shards that its manifest lists, before they are continued.

        A shard that is not listed may be the last one of a killed writer, which `resume` takes up.

        Raises:
            FormatError: A listed shard is gone; or one that is there is not listed, and the mode is
                `append`.
            UnsupportedError: A shard is in a file that the container reads and does not write, such
                as `x.tar.gz`.
        """
        if mode not in ("append", "resume"):
            return
        for opened in shards:
            if (ending := read_only_ending(opened.shard.name, self.container)) is not None:
                raise UnsupportedError(
                    f"{opened.path(0)} can be read only, so nothing can be added to "
                    f"{self.path}: write the new samples to another folder and open both "
                    f"together, or make a dataset without {ending} files with bushel.convert"
                )
        if not self.single and shards:
            check_as_listed(
                self.path, [opened.shard for opened in shards], unlisted_too=mode == "append"
            )

    def check_mode(self, mode: str, *, exists: bool, incomplete: bool) -> None:
        """Check that a writer may start in this mode.

        `overwrite` may always start. With `incomplete`, the writer of the existing dataset has not
        finished it.

        Raises:
            FileExistsError: There is a dataset, and the mode would not keep it, or not complete it.
            FileNotFoundError: The dataset to append to does not exist.
        """
        if exists and incomplete and mode in ("create", "append"):
            raise FileExistsError(
                f"{self.path} is incomplete: continue the run that wrote it "
                "with mode='resume', or start it again with mode='overwrite'"
            )
        if exists and mode == "create":
            raise FileExistsError(
                f"{self.path} is a dataset already: use mode='append' to "
                "add to it, mode='overwrite' to replace it, or another path"
            )
        if not exists and mode == "append":
            raise FileNotFoundError(
                f"{self.path} has no {self.container.name} dataset to append to"
            )


def check_not_one_of_bags(path: AnyPath) -> None:
    """Check that a folder is not one of several bags: the first one has the manifest and the lists of all.

    Raises:
        FileExistsError: It is.
    """
    shard = Shard(path, "", ())
    if not shard.real_root.name.isdecimal():
        return
    manifest = readable_manifest(shard.removal_lists[-1].parent / "manifest.json")
    if lists_bags(manifest, [shard]):
        raise FileExistsError(
            f"{path} is one of the bags of {shard.real_root.parent}: name that folder, whose manifest "
            "lists all of them"
        )


def check_alone(folder: AnyPath) -> None:
    """Check that a folder without a dataset has no other files, among which the new shards would be.

    Hidden files do not count.

    Raises:
        FileExistsError: It has some.
    """
    if not folder.is_dir():
        return
    files = sorted(name for name in names_in(folder) if not name.startswith("."))
    if files:
        raise FileExistsError(
            f"{folder} has other files ({files[0]}), among which the new dataset "
            f"would be: write to a folder of its own, such as {folder / 'dataset'}"
        )


def choose_container(target: AnyPath, options: WriterOptions) -> Container:
    """Return the container to write. By default, it follows from the target's suffix, or from the dataset there.

    Raises:
        SpecError: It does not have the generation in the options.
        ValueError: The name is unknown, or no name was given and none can be derived.
    """
    container, generation = _named_or_there(target, options.container), options.generation
    if generation not in (None, *container.generations):
        generations = ", ".join(container.generations) or "none"
        raise SpecError(f"unknown generation {generation!r}: {container.name} has {generations}")
    return container


def _named_or_there(target: AnyPath, name: str | None) -> Container:
    if name is not None:
        return get_writable(name)
    if container_by_suffix(target.name) is None and target.exists():
        for candidate in candidates(names_in(target) if target.is_dir() else [target.name]):
            if holds_dataset(candidate, target):
                return get_writable(candidate.name)
    return container_for(target.name)


def holds_dataset(container: Container, target: AnyPath) -> bool:
    """Return whether the target holds a dataset of this container, complete or damaged."""
    try:
        return bool(container.shards(target))
    except FormatError:
        return True


def check_same_fields(
    target: AnyPath, shards: list[OpenShard], spec: dict[str, str], layout: Layout
) -> None:
    """Check that new samples are stored like the existing ones. Raise StateError if the fields differ."""
    existing = {name: column for shard in shards for name, column in shard.index.fields.items()}
    columns = {column.field.name: column for column in layout.columns}
    differ = spec != format_spec({name: column.field for name, column in columns.items()})
    if existing and not layout.sparse:
        differ |= existing.keys() != columns.keys()
    for name in existing.keys() & columns.keys():
        stored, column = existing[name], columns[name]
        differ |= stored.codec != column.codec or stored.field.sequence != column.field.sequence
        differ |= stored.field.type != column.field.type and not layout.sparse
    if differ:
        have = {name: column.field.type for name, column in existing.items()}
        raise StateError(
            f"{target} has the fields {have}, but the writer has {spec}: use the same spec"
        )
    if lacking := existing.keys() - columns.keys():
        raise StateError(
            f"{target} has the fields {', '.join(existing)}, but the new "
            f"samples lack {', '.join(sorted(lacking))}: write them to "
            "another path, and read both with bushel.concat; or, if samples "
            "may lack a field, name all fields in the spec of a bushel.Writer"
        )


def names_to_write(
    given: Mapping[str, Sequence[str]] | None,
    fields: Spec,
    target: AnyPath,
    shards: Sequence[OpenShard],
) -> Labels:
    """Return the names for new shards: those in the dataset, followed by the given ones that are new.

    Raises:
        SpecError: The given names are invalid, or a field cannot have names.
        StateError: The given names number the classes in another way than the dataset.
    """
    checked = check_labels(given or {})
    for name in checked:
        if not can_be_named(fields, name):
            kind = "is not in the spec"
            if name in fields:
                kind = f"is {fields[name].type}"
            raise SpecError(
                f"labels= names the classes of field {name!r}, which {kind}: it must "
                f"be a number, an array, or utf8; the fields are {format_spec(fields)}"
            )
    named = [(str(shard.path(0)), shard.labels) for shard in shards if shard.labels]
    try:
        return join_labels([*named, ("the new samples", checked)], fields)
    except SpecError as error:
        raise StateError(
            f"cannot add these samples to {target}: "
            f"{str(error).partition('. ')[0]}. Number the classes as the dataset "
            "does, or use bushel.convert(..., mode='append'), which maps the numbers"
        ) from error


def folder_in_store(path: AnyPath) -> UnsupportedError:
    """Return the error of `overwrite` for a folder in an object store, which has no atomic swap of folders."""
    return UnsupportedError(
        "mode='overwrite' cannot replace a folder in an object store "
        f"({path}): write to another path, or delete the old dataset first"
    )
