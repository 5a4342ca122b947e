"""Recovering the whole samples of a damaged shard: a copy with fewer samples that can be read like any other shard.

Samples are found by the framing of each format; docs/integrity.md describes what each container allows. Undamaged
files of a shard are copied unchanged.
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

__all__ = ["Recovered", "recover_shard"]

I64 = npt.NDArray[np.int64]
Fault = Callable[[FormatError], None]

_BLOCK = 512
_WINDOW = 1 << 20
_COPY = 1 << 22
_FIRST_PARTS = (0, 1)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The recovered part of a shard.

    Attributes:
        shard: The copy, or None if the format does not allow one; then the reason is among the errors.
        lost: Number of samples that are missing from it, as far as the format reveals them.
    """

    shard: Shard | None
    lost: int = 0


def recover_shard(container: str, shard: Shard, folder: Path, fault: Fault) -> Recovered:
    """Copy the whole samples of a shard.

    Args:
        container: Name of the container.
        shard: The files of the shard, which are not changed.
        folder: An empty folder for the copy.
        fault: Called with an error for everything that is left out.

    Raises:
        OSError: A file cannot be read, or the copy cannot be written.
    """
    way = _WAYS.get(container)
    if way is None:
        fault(FormatError(f"samples of a damaged {container} cannot be recovered", file=str(shard.path(0))))
        return Recovered(None)
    missing = [name for name in shard.files if not (shard.root / name).exists()]
    if missing:
        fault(FormatError("without this file, its shard has no whole sample", file=str(shard.root / missing[0])))
        return Recovered(None)
    return way(shard, folder, fault)


# tar: members with valid headers


def _recover_tar(shard: Shard, folder: Path, fault: Fault) -> Recovered:
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
    return Recovered(Shard(folder, shard.name, (shard.name,)))


def _next_header(file: File, start: int) -> int | None:
    """Return the offset of the first block after `start` that is a POSIX or GNU tar header, by magic and checksum."""
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


# recordio: records with valid magic and length


def _recover_recordio(shard: Shard, folder: Path, fault: Fault) -> Recovered:
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
        return Recovered(Shard(folder, name, (name,)))
    (folder / table).write_text("".join(lines), "utf-8", "surrogateescape")
    return Recovered(Shard(folder, name, (name, table)), len(keys) - keyed)


def _keys_by_offset(shard: Shard, fault: Fault) -> Mapping[int, str] | None:
    if len(shard.files) < 2:
        return None
    table = open_file(shard.path(1))
    try:
        parsed = parse_idx(table.read(0, table.size), table.path)
    except FormatError as error:
        fault(FormatError("the keys are lost: samples get their positions as keys", file=error.file))
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
            f"the .idx has no key for the record here: its sample gets the key {key!r}", file=file.path, offset=offset
        )
    )
    return key


def _next_record(file: File, start: int) -> int | None:
    """Return the offset of the first record after `start`. Payloads never hold its magic at a multiple of four."""
    start += -start % 4
    for first in range(start, file.size - 7, _WINDOW):
        size = min(_WINDOW + 4, (file.size - first) // 4 * 4)
        words = np.frombuffer(file.read(first, size), "<u4")
        for number in np.flatnonzero(words[:-1] == RECORD_MAGIC).tolist():
            if int(words[number + 1]) >> 29 in _FIRST_PARTS:
                return int(first + 4 * number)
    return None


# ffrecord: records that match their CRC-32


def _recover_ffrecord(shard: Shard, folder: Path, fault: Fault) -> Recovered:
    file = open_file(shard.path(0))
    tables = _ffrecord_tables(file)
    if tables is None:
        fault(FormatError("the tables in its header are damaged, so its records cannot be located", file=file.path))
        return Recovered(None)
    crc32, offset, length = tables
    records: dict[int, bytes] = {}
    paths: list[str] | None = None
    lost = 0
    for row, (first, size) in enumerate(zip(offset.tolist(), length.tolist(), strict=True)):
        record = file.read(first, size) if first + size <= file.size else b""
        if first + size > file.size or kernels.crc32(record) != crc32[row]:
            lost += not record.startswith(MAGIC)  # the table of a packed folder is not a sample
            fault(FormatError(f"record {row} is lost: it does not match its CRC-32", file=file.path, offset=first))
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
    return Recovered(Shard(folder, shard.name, (shard.name,)), lost)


def _ffrecord_tables(file: File) -> tuple[npt.NDArray[np.uint32], I64, I64] | None:
    """Return CRC-32, offset and length of the records; None if the numbers contradict each other."""
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


# gulp: items whose frames all lie in the data


def _recover_gulp(shard: Shard, folder: Path, fault: Fault) -> Recovered:
    data, table = open_file(shard.path(0)), open_file(shard.path(1))
    text = table.read(0, table.size)
    try:
        parsed = parse_gmeta(text, table.path)
        entries: dict[str, Any] = json.loads(text)
    except (FormatError, ValueError) as error:
        fault(FormatError(f"its table is invalid, so its frames cannot be located: {error}", file=table.path))
        return Recovered(None)
    end = 0
    for name, item in parsed.items.items():
        frames = item.frame_info
        if all(first + size <= data.size and pad <= size for first, pad, size in frames):
            end = max([end, *(first + size for first, _, size in frames)])
        else:
            del entries[name]
            where = min(first for first, _, _ in frames)
            fault(FormatError(f"item {name!r} is lost: its frames reach beyond the file", file=data.path, offset=where))
    with (folder / shard.files[0]).open("wb") as copy:
        _copy(data, iter([(0, end)]), copy)
    (folder / shard.files[1]).write_text(json.dumps(entries), "ascii")
    return Recovered(Shard(folder, shard.name, shard.files), len(parsed.items) - len(entries))


# bag: the samples that all tables have; generation C only, since its tables are separate files


def _recover_bag(shard: Shard, folder: Path, fault: Fault) -> Recovered:
    tables = {
        name: shard.files.index(f"{name.removesuffix('.idx')}.bag") for name in shard.files if name.endswith(".idx")
    }
    if not tables:
        fault(
            FormatError(
                "the table of a bag of generation A or B is damaged, and only it locates the records",
                file=str(shard.path(0)),
            )
        )
        return Recovered(None)
    ends = {}
    for name, number in tables.items():
        table, data = open_file(shard.root / name), open_file(shard.path(number))
        entries = np.frombuffer(table.read(0, table.size // 8 * 8), "<u8").astype(np.uint64)
        wrong = np.flatnonzero((np.diff(entries, prepend=np.uint64(0)).astype(np.int64) < 0) | (entries > data.size))
        ends[name] = entries[: int(wrong[0])] if len(wrong) else entries
    samples = min(map(len, ends.values()))
    most = max(open_file(shard.root / name).size // 8 for name in tables)
    if most > samples:
        message = f"samples {samples} to {most - 1} are lost: some of their fields are missing"
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
    return Recovered(Shard(folder, shard.name, shard.files, f"{prefix}.bushel"), most - samples)


def _whole(file: File) -> Any:
    """Return the file for the kernels: mapped, or, if it is remote, its bytes."""
    return file if isinstance(file, kernels.MappedFile) else file.read(0, file.size)


def _copy(file: File, ranges: Iterator[tuple[int, int]], copy: Any) -> None:
    """Copy ranges, adjacent ones in one piece."""
    first = last = 0
    for start, end in (*ranges, (-1, -1)):
        if start == last:
            last = end
            continue
        for at in range(first, min(last, file.size), _COPY):
            copy.write(file.read(at, min(_COPY, last - at, file.size - at)))
        if last > file.size:
            copy.write(bytes(last - file.size))  # padding that the file lacks
        first, last = start, end


_WAYS: Mapping[str, Callable[[Shard, Path, Fault], Recovered]] = {
    "bag": _recover_bag,
    "ffrecord": _recover_ffrecord,
    "gulp": _recover_gulp,
    "recordio": _recover_recordio,
    "tar": _recover_tar,
}
