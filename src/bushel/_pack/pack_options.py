"""The arguments of `pack` and `convert`, in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from bushel._index.class_names import check_labels
from bushel._index.column_names import names_of
from bushel._pack.field_plan import Jpeg
from bushel._pack.scale_out import RunOptions
from bushel._runtime.shuffle import Shuffle
from bushel._runtime.structs import Struct
from bushel._runtime.threads import cpu_count
from bushel._writer.options import WriterOptions
from bushel.engines import connect

if TYPE_CHECKING:  # packing without transforms imports none
    from bushel.transforms.by_field import Transforms

T = TypeVar("T", bound=Struct)


class SampleOptions(Struct, frozen=True, kw_only=True):
    """The arguments that decide how a sample is stored: see `pack`."""

    fields: tuple[str, ...] | None
    rename: Mapping[str, str]
    spec: Mapping[str, str]
    transforms: Transforms | None
    exif_rotate: bool = False
    check: bool = False
    jpeg: Jpeg
    keys: bool | Callable[[str], str] | None
    seek: bool | None


class ErrorOptions(Struct, frozen=True, kw_only=True):
    """The arguments that decide which errors end a call: see `pack`."""

    max_errors: float | None
    # whether the first error is raised as it is
    strict: bool = False


class Workers(Struct, frozen=True):
    """The threads or processes that encode samples.

    Attributes:
        threads: Number of threads; None for the number of CPUs.
        processes: Number of worker processes that replace the threads.

    Raises:
        ValueError: There would be no thread.
    """

    threads: int | None
    processes: int

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ValueError(
                f"threads={self.threads} is too small: give 1 or more, or None for"
                " the number of CPUs"
            )

    @property
    def at_once(self) -> int:
        """Number of batches that are encoded at the same time."""
        return self.processes or self.threads or cpu_count()


class PackOptions(Struct, frozen=True):
    """The arguments of `pack` and `convert` apart from source, target and progress."""

    samples: SampleOptions  # how a sample is stored
    shuffle: Shuffle  # order of the samples
    seed: int  # seed of the order and of the randomness in transforms
    # how each dataset is written; names of classes, folders and seek tables follow from the source
    writer: WriterOptions
    errors: ErrorOptions  # which errors end the call
    workers: Workers  # the threads or processes that encode samples
    run: RunOptions  # how the samples are divided into parts, and where the parts are written

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **changed: Any) -> PackOptions:
        """Group the arguments of a public function, which have the names of the fields of the groups.

        Args:
            arguments: The arguments, as `locals()` has them at the beginning of `pack` or
                `convert`; others are skipped.
            changed: Arguments with other values, and further ones.

        Raises:
            SpecError: The labels are invalid.
            TypeError, ValueError: An argument is invalid.
        """
        options = {**arguments, **changed}
        names, columns, engine = options["fields"], options["columns"], options["engine"]
        return cls(
            samples=_group(
                SampleOptions,
                options,
                fields=None if names is None else tuple(names),
                rename=dict(options["rename"] or {}),
                spec=dict(options["spec"] or {}),
            ),
            shuffle=options["shuffle"],
            seed=options["seed"],
            writer=_group(
                WriterOptions,
                options,
                labels=check_labels(options.get("labels") or {}),
                seek=False,  # the source decides, if the caller does not
                columns=None if columns is None else names_of(columns),
            ),
            errors=_group(ErrorOptions, options),
            workers=Workers(options["threads"], options["processes"]),
            run=_group(
                RunOptions,
                options,
                # here, so that a wrong name is an early error
                engine=None if engine is None else connect(engine),
            ),
        )


def _group(kind: type[T], arguments: Mapping[str, Any], **own: Any) -> T:
    """Make a struct from the arguments that are named like its fields, and from converted ones."""
    names = set(kind.__struct_fields__)
    return kind(**{**{name: value for name, value in arguments.items() if name in names}, **own})
