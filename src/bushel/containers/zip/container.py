"""Zip archives: members that share directory and name up to the first dot are one sample.

A member that is stored is an extent of the file; one that is compressed by deflate or zstd is a
block. The directory of the archive has the CRC-32 of each value. docs/format-zip.md has the rules.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from bushel._index.shard import Keys, Shard, stamps
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import offsets_of
from bushel.containers.base import Container, ReadOptions
from bushel.containers.tar.samples import Groups, SampleTable
from bushel.storage import Blocks, open_file

from .members import FILTERS, STEP, members_of


class _Zip(Container):
    name = "zip"
    holds_files = True

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one archive, from its directory and the headers of its members.

        Raises:
            FormatError: The archive is damaged; or a sample has two members with the same
                extension; or the names have too many different extensions for a table.
            OSError: The temporary file cannot be written.
        """
        file = open_file(shard.path(0))
        members = members_of(file)
        blocks, files = list[Blocks](), members.files
        if members.filter.any():
            stored = files.offset, members.stored, members.filter
            in_file = np.zeros(len(members.stored), np.int32)
            blocks = [Blocks(offsets_of(files.size), in_file, *stored, FILTERS)]
            files = replace(files, offset=blocks[0].start)
        samples, keys = len(members.key_offsets) - 1, Keys.build(members.keys, members.key_offsets)
        table = SampleTable(options.spec, file.path, len(members.sample), keys=keys)
        rows = np.flatnonzero(members.sample >= 0)
        sample = members.sample[rows]
        if (sample[1:] < sample[:-1]).any():  # members of a sample are not adjacent
            order = np.argsort(sample, kind="stable")
            rows, sample = rows[order], sample[order]
        steps = np.minimum(np.arange(0, samples + STEP, STEP), samples)
        places = np.searchsorted(sample, steps)
        for (first, last), (start, stop) in zip(
            pairwise(steps.tolist()), pairwise(places), strict=True
        ):
            chosen = rows[start:stop]
            groups = Groups(
                chosen,
                sample[start:stop] - first,
                members.extension[chosen],
                members.keys,
                members.key_offsets[first + 1 : last + 1],
            )
            table.put(files, groups, members.extensions)
        index = table.finish().index(stamps(shard, [file]), tuple(blocks))
        return replace(index, container="zip").check(file.path)


CONTAINER = _Zip()
