"""Copying what is whole of a broken shard: the copy holds fewer samples, and everything that reads shards reads it.

Only what a format's own framing tells apart can be found again; which container is helped in what way is in
docs/integrity.md. Files of a shard that are whole are copied as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel import kernels
from bushel.containers.base import Shard
from bushel.containers.ffrecord.packed_folder import MAGIC, FolderTree, parse_folder
from bushel.containers.gulp.gmeta import parse_gmeta
from bushel.containers.recordio.idx import idx_name, parse_idx
from bushel.containers.recordio.scan import MAGIC as RECORD_MAGIC
from bushel.errors import FormatError
from bushel.storage import File, open_file

__all__ = ["Salvaged", "salvage"]

I64 = npt.NDArray[np.int64]
Fault = Callable[[FormatError], None]

_BLOCK = 512
_WINDOW = 1 << 20
_COPY = 1 << 22
_FIRST_PARTS = (0, 1)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What is left of a shard.

    Attributes:
        shard: The copy, or None where the format gives no hold: then the reason is among the faults.
        lost: Samples that are not in it, as far as the format still tells of them.
    """

    shard: Shard | None
    lost: int = 0


def salvage(container: str, shard: Shard, folder: Path, fault: Fault) -> Salvaged:
    """Copy what is whole of a shard.

    Args:
        container: What it is.
        shard: Its files, none of which is changed.
        folder: Where the copy goes: an empty folder.
        fault: Called with everything that is left out.

    Raises:
        OSError: A file cannot be read, or the copy cannot be written.
    """
    way = _WAYS.get(container)
    if way is None:
        fault(FormatError(f"nothing is known of how to find samples in a broken {container}", file=str(shard.path(0))))
        return Salvaged(None)
    missing = [name for name in shard.files if not (shard.root / name).exists()]
    if missing:
        fault(FormatError("without this file its shard has no whole sample", file=str(shard.root / missing[0])))
        return Salvaged(None)
    return way(shard, folder, fault)


# tar: members whose headers are sound


def _salvage_tar(shard: Shard, folder: Path, fault: Fault) -> Salvaged:
    file = open_file(shard.path(0))
    data = _whole(file)
    with (folder / shard.name).open("wb") as copy:
        start: int | None = 0
        while start is not None and start + _BLOCK <= file.size:
            found = kernels.scan_tar(data, start)
            size = found.size + -found.size % _BLOCK
            _copy(file, zip(found.header.tolist(), (found.offset + size).tolist(), strict=True), copy)
            behind = found.end if found.problem is None else found.problem_offset
            if found.problem is not None:
                fault(FormatError(found.problem, file=file.path, offset=behind))
            elif not found.terminated:
                fault(FormatError("the archive ends without its two empty blocks", file=file.path, offset=behind))
            elif not found.trailing_bytes:
                break
            start = _next_header(file, max(behind, start) + _BLOCK)
        copy.write(bytes(2 * _BLOCK))
    return Salvaged(Shard(folder, shard.name, (shard.name,)))


def _next_header(file: File, start: int) -> int | None:
    """The first block from `start` on that is a header of POSIX or GNU tar: by its magic and its checksum."""
    weights = np.ones(_BLOCK, np.int64)
    weights[148:156] = 0  # the checksum itself counts as spaces
    for first in range(start, file.size - _BLOCK + 1, _WINDOW):
        size = min(_WINDOW, (file.size - first) // _BLOCK * _BLOCK)
        blocks = np.frombuffer(file.read(first, size), np.uint8).reshape(-1, _BLOCK)
        for number in np.flatnonzero((blocks[:, 257:262] == np.frombuffer(b"ustar", np.uint8)).all(1)).tolist():
            block = blocks[number]
            stated = block[148:156].tobytes().strip(b" \0")
            if not stated.strip(b"01234567") and stated and int(stated, 8) == int(block @ weights) + 8 * 32:
                return int(first + number * _BLOCK)
    return None


# recordio: records whose magic and length are sound


def _salvage_recordio(shard: Shard, folder: Path, fault: Fault) -> Salvaged:
    file = open_file(shard.path(0))
    data, keys = _whole(file), _keys_by_offset(shard, fault)
    name, table = shard.files[0], idx_name(shard.files[0])
    lines: list[str] = []
    at, keyed = 0, 0
    with (folder / name).open("wb") as copy:
        start: int | None = 0
        while start is not None:
            found = kernels.scan_recordio(data, start)
            sizes = (8 + found.span + 3) // 4 * 4
            for offset, size in zip(found.offset.tolist(), sizes.tolist(), strict=True):
                lines.append(f"{_key(keys, offset, len(lines), file, fault)}\t{at}\n")
                at += size
                keyed += keys is not None and offset in keys
            _copy(file, zip(found.offset.tolist(), (found.offset + sizes).tolist(), strict=True), copy)
            if found.problem is None:
                break
            fault(FormatError(found.problem, file=file.path, offset=found.problem_offset))
            start = _next_record(file, max(int(found.end), start) + 4)
    if keys is None:
        return Salvaged(Shard(folder, name, (name,)))
    (folder / table).write_text("".join(lines), "utf-8", "surrogateescape")
    return Salvaged(Shard(folder, name, (name, table)), len(keys) - keyed)


def _keys_by_offset(shard: Shard, fault: Fault) -> Mapping[int, str] | None:
    if len(shard.files) < 2:
        return None
    table = open_file(shard.path(1))
    try:
        parsed = parse_idx(table.read(0, table.size), table.path)
    except FormatError as error:
        fault(FormatError("the keys are lost: samples get their positions instead", file=error.file))
        return None
    keys = (str(row) for row in range(len(parsed.offset))) if parsed.keys is None else iter(_all(parsed.keys))
    return dict(zip(parsed.offset.tolist(), keys, strict=True))


def _all(keys: Any) -> list[str]:
    taken: list[str] = keys.take(np.arange(len(keys), dtype=np.int64))
    return taken


def _key(keys: Mapping[int, str] | None, offset: int, number: int, file: File, fault: Fault) -> str:
    if keys is None:
        return str(number)
    if offset in keys:
        return keys[offset]
    key = f"at-{offset}"
    fault(
        FormatError(
            f"the .idx has no key for the record here: its sample is called {key!r}", file=file.path, offset=offset
        )
    )
    return key


def _next_record(file: File, start: int) -> int | None:
    """The first record from `start` on. Its magic tells it, which payloads never hold at a multiple of four."""
    start += -start % 4
    for first in range(start, file.size - 7, _WINDOW):
        size = min(_WINDOW + 4, (file.size - first) // 4 * 4)
        words = np.frombuffer(file.read(first, size), "<u4")
        for number in np.flatnonzero(words[:-1] == RECORD_MAGIC).tolist():
            if int(words[number + 1]) >> 29 in _FIRST_PARTS:
                return int(first + 4 * number)
    return None


# ffrecord: records that have the CRC-32 on record


def _salvage_ffrecord(shard: Shard, folder: Path, fault: Fault) -> Salvaged:
    file = open_file(shard.path(0))
    tables = _ffrecord_tables(file)
    if tables is None:
        fault(FormatError("the tables at its begin are damaged: nothing tells its records apart", file=file.path))
        return Salvaged(None)
    crc32, offset, length = tables
    records: dict[int, bytes] = {}
    paths: list[str] | None = None
    lost = 0
    for row, (first, size) in enumerate(zip(offset.tolist(), length.tolist(), strict=True)):
        record = file.read(first, size) if first + size <= file.size else b""
        if first + size > file.size or kernels.crc32(record) != crc32[row]:
            lost += not record.startswith(MAGIC)  # the table of a packed folder is no sample
            fault(
                FormatError(f"record {row} is lost: it does not have the CRC on record", file=file.path, offset=first)
            )
        elif row == len(offset) - 1 and record.startswith(MAGIC):
            with suppress(FormatError):
                paths = parse_folder(record)[0]
        else:
            records[row] = record
    payloads = list(records.values())
    if paths is not None and len(paths) == len(offset) - 1:
        payloads.append(FolderTree(paths[row] for row in records).record())
    ends = 12 + 12 * len(payloads) + np.cumsum([0, *map(len, payloads)], dtype="<i8")
    checks = np.array([kernels.crc32(payload) for payload in payloads], "<u4")
    head = len(payloads).to_bytes(8, "little") + checks.tobytes() + ends[:-1].tobytes()
    with (folder / shard.name).open("wb") as copy:
        copy.write(kernels.crc32(head).to_bytes(4, "little") + head)
        copy.writelines(payloads)
    return Salvaged(Shard(folder, shard.name, (shard.name,)), lost)


def _ffrecord_tables(file: File) -> tuple[npt.NDArray[np.uint32], I64, I64] | None:
    """CRC-32, offset and length of the records; None where the numbers contradict each other."""
    if file.size < 12:
        return None
    samples = int.from_bytes(file.read(4, 8), "little", signed=True)
    if not 0 < samples <= (file.size - 12) // 12:
        return None
    tables = file.read(12, 12 * samples)
    crc32 = np.frombuffer(tables, "<u4", samples).astype(np.uint32)
    offset = np.frombuffer(tables, "<i8", samples, 4 * samples).astype(np.int64)
    ends = np.append(offset[1:], max(file.size, int(offset[-1])))
    whole = (offset >= 12 + 12 * samples) & (ends >= offset)
    if not whole.any():
        return None
    return crc32, np.where(whole, offset, file.size), np.where(whole, ends - offset, 1)


# gulp: items all of whose frames lie in the data


def _salvage_gulp(shard: Shard, folder: Path, fault: Fault) -> Salvaged:
    data, table = open_file(shard.path(0)), open_file(shard.path(1))
    text = table.read(0, table.size)
    try:
        parsed = parse_gmeta(text, table.path)
        entries: dict[str, Any] = json.loads(text)
    except (FormatError, ValueError) as error:
        fault(FormatError(f"its table does not parse, so nothing tells its frames apart: {error}", file=table.path))
        return Salvaged(None)
    end = 0
    for name, item in parsed.items.items():
        frames = item.frame_info
        if all(first + size <= data.size and pad <= size for first, pad, size in frames):
            end = max([end, *(first + size for first, _, size in frames)])
        else:
            del entries[name]
            where = min(first for first, _, _ in frames)
            fault(FormatError(f"item {name!r} is lost: its frames reach out of the file", file=data.path, offset=where))
    with (folder / shard.files[0]).open("wb") as copy:
        _copy(data, iter([(0, end)]), copy)
    (folder / shard.files[1]).write_text(json.dumps(entries), "ascii")
    return Salvaged(Shard(folder, shard.name, shard.files), len(parsed.items) - len(entries))


# bag: of generation C, whose tables are files of their own, as many samples as all tables have


def _salvage_bag(shard: Shard, folder: Path, fault: Fault) -> Salvaged:
    tables = {
        name: shard.files.index(f"{name.removesuffix('.idx')}.bag") for name in shard.files if name.endswith(".idx")
    }
    if not tables:
        fault(
            FormatError(
                "the table of a bag of generation A or B is part of it: nothing else tells its records apart",
                file=str(shard.path(0)),
            )
        )
        return Salvaged(None)
    ends = {}
    for name, number in tables.items():
        table, data = open_file(shard.root / name), open_file(shard.path(number))
        entries = np.frombuffer(table.read(0, table.size // 8 * 8), "<u8").astype(np.uint64)
        wrong = np.flatnonzero((np.diff(entries, prepend=np.uint64(0)).astype(np.int64) < 0) | (entries > data.size))
        ends[name] = entries[: int(wrong[0])] if len(wrong) else entries
    samples = min(map(len, ends.values()))
    most = max(open_file(shard.root / name).size // 8 for name in tables)
    if most > samples:
        message = f"samples {samples} to {most - 1} are lost: not all fields have them whole"
        fault(FormatError(message, file=str(shard.root / shard.name)))
    prefix = f"{shard.name}/" if shard.name else ""
    for name in shard.files:
        source, target = open_file(shard.root / name), folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name in ends:
            target.write_bytes(ends[name][:samples].tobytes())
        else:
            with target.open("wb") as copy:
                _copy(source, iter([(0, source.size)]), copy)
    return Salvaged(Shard(folder, shard.name, shard.files, f"{prefix}.bushel"), most - samples)


def _whole(file: File) -> Any:
    """The file as kernels take it: mapped, or, where it is not local, its bytes."""
    return file if isinstance(file, kernels.MappedFile) else file.read(0, file.size)


def _copy(file: File, ranges: Iterator[tuple[int, int]], copy: Any) -> None:
    """Copy ranges, neighbouring ones at once."""
    first = last = 0
    for start, end in (*ranges, (-1, -1)):
        if start == last:
            last = end
            continue
        for at in range(first, min(last, file.size), _COPY):
            copy.write(file.read(at, min(_COPY, last - at, file.size - at)))
        if last > file.size:
            copy.write(bytes(last - file.size))  # padding that the file left out
        first, last = start, end


_WAYS: Mapping[str, Callable[[Shard, Path, Fault], Salvaged]] = {
    "bag": _salvage_bag,
    "ffrecord": _salvage_ffrecord,
    "gulp": _salvage_gulp,
    "recordio": _salvage_recordio,
    "tar": _salvage_tar,
}
