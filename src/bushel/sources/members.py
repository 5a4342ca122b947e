"""Recipes of tarp: members that form samples, as in WebDataset, by their names up to the first dot."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bushel.codecs import codec_of_extension
from bushel.errors import FormatError, UnsupportedError
from bushel.sources.base import Names, Sample
from bushel.sources.fetching import FileSource, caller_path, read_file
from bushel.spec import KEY
from bushel.storage import AnyPath, as_path, is_local, read_text


class Members(FileSource):
    """Samples of members, each with a name and a location.

    The key is the name up to the first dot after the last slash, and the field is the rest:
    `a/7.left.jpg` is the field `left.jpg` of `a/7`. The members of one sample must be adjacent, as
    in a tar.

    Args:
        members: Names and locations.
        root: The folder that relative paths start from.
        allow_commands: Whether a location may be `pipe:COMMAND`, whose output is read.

    Attributes:
        spec: Extensions to the codecs that WebDataset uses for them.

    Raises:
        FormatError: A name has no extension, or the members of a sample repeat a name or are not
            adjacent.
    """

    def __init__(
        self, members: Iterable[tuple[str, str]], root: AnyPath, *, allow_commands: bool = False
    ) -> None:
        self._root, self._commands = root, allow_commands
        names: list[str] = []
        places: list[str] = []
        starts: list[int] = []
        seen: set[str] = set()
        key = None
        self.spec: dict[str, str] = {}
        for name, place in members:
            this, extension = _cut(name)
            if this != key:
                if this in seen:
                    raise FormatError(
                        f"the members of sample {this!r} are not adjacent: sort them by name"
                    )
                starts.append(len(names))
                seen.add(this)
                key = this
            elif f"{this}.{extension}" in names[starts[-1] :]:
                raise FormatError(f"sample {this!r} has the member {extension!r} twice")
            names.append(f"{this}.{extension}")
            places.append(place)
            self.spec.setdefault(extension, codec_of_extension(extension))
        self._names, self._places, self._starts = Names(names), Names(places), [*starts, len(names)]

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        sample: dict[str, object] = {}
        for at in range(self._starts[position], self._starts[position + 1]):
            sample[KEY], extension = _cut(self._names[at])
            sample[extension] = self._read(self._places[at])
        return sample

    def origin(self, position: int) -> str:
        """Return the location of its first member."""
        place = self._places[self._starts[position]]
        if place.partition(":")[0] in ("text", "pipe"):
            return place
        path = self._path(place)
        return place if is_local(path) else str(path)

    def _read(self, place: str) -> bytes:
        kind, colon, rest = place.partition(":")
        if colon and kind == "text":
            return rest.encode("utf-8", "surrogateescape")
        if colon and kind == "pipe":
            if not self._commands:
                raise UnsupportedError(
                    f"{place} runs a command: allow that with allow_commands=True"
                )
            import subprocess  # which few sources need

            return subprocess.run(rest, shell=True, check=True, stdout=subprocess.PIPE).stdout
        return read_file(self._at(self._path(place)))

    def _files(self, position: int) -> list[AnyPath]:
        places = self._places[self._starts[position] : self._starts[position + 1]]
        return [
            self._path(place) for place in places if place.partition(":")[0] not in ("text", "pipe")
        ]

    def _path(self, place: str) -> AnyPath:
        return caller_path(self._root, place.removeprefix("file:"))


class Recipe(Members):
    r"""A recipe for `tarp create`.

    A line is a name, a space, and a location: a path, `file:PATH`, `text:TEXT` or `pipe:COMMAND`.

    Args:
        path: The path of the recipe.
        root: The folder that relative paths start from; by default the working directory, as for
            tarp.
        allow_commands: Whether lines may run commands.

    Raises:
        FormatError: A line has no location.

    Examples:
        >>> from bushel.sources import Recipe
        >>> _ = Path("recipe").write_text("a.cls text:1\na.jpg photos/dog/1.jpg\n")
        >>> bushel.pack(Recipe("recipe"), "made.tar").samples
        1
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | AnyPath,
        *,
        root: str | os.PathLike[str] | AnyPath | None = None,
        allow_commands: bool = False,
    ) -> None:
        members = []
        for number, line in enumerate(read_text(as_path(path)).split("\n"), 1):
            if line.strip():
                name, *place = line.strip().split(maxsplit=1)
                if not place:
                    raise FormatError(
                        f"line {number}: expected a name and a location, found {line!r}",
                        file=str(path),
                    )
                members.append((name, place[0]))
        super().__init__(members, as_path(root or "."), allow_commands=allow_commands)


def _cut(name: str) -> tuple[str, str]:
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    if not stem or not extension:
        raise FormatError(f"the name {name!r} has no extension, which would name its field")
    return f"{folder}{slash}{stem}", extension.lower()
