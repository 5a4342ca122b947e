"""Lists of images as MXNet's tools write them: `index<TAB>label[<TAB>label…]<TAB>path`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
from msgspec import Struct

from bushel._index.names import in_order
from bushel.errors import FormatError
from bushel.spec import KEY
from bushel.storage import AnyLocation, AnyPath, absolute, as_path, read_text, read_whole

from .base import FileSource, Sample, listed, relative_to
from .media import Image


class ListLine(Struct, frozen=True):
    """One line of a list.

    Attributes:
        index: The image's number, which becomes its key.
        labels: One label, or several: bounding boxes, attributes.
        path: The image, relative to the root of the images.

    Examples:
        >>> from bushel.sources import ListLine
        >>> line = ListLine(index=7, labels=(1.0,), path="dog/1.jpg")
    """

    index: int
    labels: tuple[float, ...]
    path: str


def parse_line(line: str) -> ListLine:
    r"""Parse one line, without its line end.

    Raises:
        ValueError: The line is malformed; the message names the reason.

    Examples:
        >>> from bushel.sources import parse_line
        >>> parse_line("7\t1.0\tdog/1.jpg")
        ListLine(index=7, labels=(1.0,), path='dog/1.jpg')
    """
    columns = line.split("\t")
    if len(columns) < 3:
        raise ValueError(
            f"expected index, label and path with tabs between them, found {line[:80]!r}"
        )
    index, *labels, path = columns
    if not index.strip().isdecimal():
        raise ValueError(f"the index {index!r} is not a number")
    if not path.strip():
        raise ValueError("the path is missing")
    try:
        return ListLine(int(index), tuple(map(float, labels)), path.strip())
    except ValueError:
        raise ValueError(f"the labels {labels} are not all numbers") from None


def format_line(line: ListLine) -> str:
    r"""Return a line as im2rec 1.9 writes it: labels with six decimals.

    Examples:
        >>> from bushel.sources import ListLine, format_line
        >>> format_line(ListLine(7, (3.0,), "cat.jpg"))
        '7\t3.000000\tcat.jpg\n'
    """
    labels = "".join(f"{label:f}\t" for label in line.labels)
    return f"{line.index}\t{labels}{line.path}\n"


class ListFile(FileSource):
    r"""The images of a `.lst` file.

    The key of an image is its index, so an MXNet record file of these samples has the ids that
    im2rec assigns. A malformed line is an error of that item.

    Args:
        path: The list.
        root: The folder that its paths, unless they are URLs, are relative to and do not leave; by
            default that of the list. `/` allows every absolute path.
        first_label: Use only the first label of each line, as im2rec does without `--pack-label`.

    Attributes:
        spec: `image`; and `label`: an `int` if every label is an integer, else a `float`; if a line
            has several labels, an `array` of float32.
        labels: The names of the folders, if the images of each class are in one folder, and each
            folder has one class; else empty.

    Examples:
        >>> from bushel.sources import ListFile
        >>> _ = Path("photos/set.lst").write_text("0\t1.0\tdog/1.jpg\n1\t0.0\tcat/4.jpg\n")
        >>> source = ListFile("photos/set.lst")
        >>> source[0]["__key__"], source[0]["label"], source.labels
        ('0', 1, {'label': ('cat', 'dog')})
    """

    def __init__(
        self, path: AnyLocation, *, root: AnyLocation | None = None, first_label: bool = False
    ) -> None:
        self._list = absolute(as_path(path))
        self._root, self._place = self._list.parent, "the folder of the list"
        if root is not None:
            self._root, self._place = absolute(as_path(root)), "as root= says"
        text = read_text(self._list)
        self.samples = [
            (number, line.removesuffix("\r"))
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
        lines: list[ListLine] = []
        for _, line in self.samples:
            with suppress(ValueError):  # a malformed line is an error when it is read
                lines.append(parse_line(line))
        self._kind = "int" if all(line.labels[0].is_integer() for line in lines) else "float"
        if not first_label and any(len(line.labels) > 1 for line in lines):
            self._kind = "array"
        _, codec = Image().field([line.strip() for _, line in self.samples] or ["x.jpg"])
        self.spec = {"image": codec, "label": self._kind}
        self.labels: Mapping[str, Sequence[str]] = {}
        if self._kind == "int" and (names := _class_names(lines)):
            self.labels = {"label": names}
        self.samples = [self.samples[position] for position in self._remaining(self._root)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, position: int) -> Sample:
        line = self._parsed(position)
        label: object = line.labels[0]
        if self._kind == "array":
            label = np.array(line.labels, np.float32)
        elif self._kind == "int":
            label = int(line.labels[0])
        with relative_to(self._root, self._place):
            image = read_whole(listed(self._root, line.path))
        return {KEY: str(line.index), "image": image, "label": label}

    def origin(self, position: int) -> str:
        """Return the image's path, or the path of the list if the line has none."""
        try:
            return super().origin(position)
        except FormatError as error:
            return str(error.file)

    def _path(self, position: int) -> AnyPath:
        return listed(self._root, self._parsed(position).path)

    def _parsed(self, position: int) -> ListLine:
        number, line = self.samples[position]
        try:
            return parse_line(line)
        except ValueError as error:
            raise FormatError(f"line {number}: {error}", self._list) from None


def _class_names(lines: Sequence[ListLine]) -> tuple[str, ...]:
    """Return the names of the first or, failing that, the last folders of the paths, if they are of classes."""
    if not all("/" in line.path for line in lines):
        return ()
    for which in (0, -1):
        classes = {(line.path.split("/")[:-1][which], int(line.labels[0])) for line in lines}
        numbers = dict(classes)
        if 1 < len(numbers) == len(classes) and (names := in_order(numbers)):
            return names
    return ()
