"""The arguments of `pack` and `convert`, as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec import Struct

from bushel._index.class_names import check_labels
from bushel._index.column_names import names_of
from bushel._runtime.shuffle import Shuffle
from bushel._runtime.threads import cpu_count
from bushel._writer.options import WriterOptions
from bushel.engines import connect

if TYPE_CHECKING:  # packing without transforms imports none
    from bushel.transforms.by_field import Transforms

Treatment: TypeAlias = Literal["check", "upright", "baseline", "tile"]
"""The treatment of an image whose bytes would be stored as they are: see `pack`."""

Images: TypeAlias = Treatment | Iterable[Treatment] | None

Part: TypeAlias = int | Literal["plan"] | None
"""The only part that a call writes, or only the plan of the run; None for all that are missing."""


class PackOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `pack` and `convert` apart from source, target and progress: see `pack`.

    Raises:
        ValueError: There would be no thread.
    """

    fields: tuple[str, ...] | None
    rename: Mapping[str, str]
    spec: Mapping[str, str]
    transforms: Transforms | None
    images: frozenset[str]
    keys: bool | Callable[[str], str] | None
    seek: bool | None
    shuffle: Shuffle
    seed: int
    max_errors: float | None
    # whether the first error is raised as it is
    strict: bool = False
    threads: int | None
    processes: int
    engine: Any
    parts: int | None
    part: Part
    # how each dataset is written; names of classes, folders and seek tables follow from the source
    writer: WriterOptions

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ValueError(
                f"threads={self.threads} is too small: give 1 or more, or None for"
                " the number of CPUs"
            )

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **changed: Any) -> PackOptions:
        """Return the arguments of a public function in their final types.

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
        writing = {
            **options,
            "labels": check_labels(options.get("labels") or {}),
            "seek": False,  # the source decides, if the caller does not
            "columns": None if columns is None else names_of(columns),
        }
        options |= {
            "fields": None if names is None else tuple(names),
            "rename": dict(options["rename"] or {}),
            "spec": dict(options["spec"] or {}),
            "images": _treatments(options["images"]),
            # here, so that a wrong name is an early error
            "engine": None if engine is None else connect(engine),
            "writer": WriterOptions(**_fields_of(WriterOptions, writing)),
        }
        return cls(**_fields_of(cls, options))

    @property
    def in_parts(self) -> bool:
        """Whether parts are written, and not one dataset."""
        return self.parts is not None or self.engine is not None

    @property
    def at_once(self) -> int:
        """Number of batches of a part that are encoded at the same time."""
        usual = cpu_count() if self.engine is None else 1
        return self.processes or self.threads or usual


def _fields_of(kind: type[Struct], arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in kind.__struct_fields__ if name in arguments}


def _treatments(images: Images) -> frozenset[str]:
    if isinstance(images, str):
        images = [images]
    names = frozenset[str](images or ())
    if unknown := sorted(names.difference(get_args(Treatment))):
        raise ValueError(
            f"invalid images={unknown[0]!r}: write 'check', 'upright', 'baseline' or 'tile', or"
            " several of them"
        )
    return names
