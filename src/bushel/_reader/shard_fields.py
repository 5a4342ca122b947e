"""Shards restricted to some fields, or with other types or names of fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bushel._discovery.caller_fields import CallerFields, renamed
from bushel._index.class_names import Labels, labels_of_fields
from bushel._reader.shards import OpenShard

__all__ = ["with_caller_fields", "only", "renamed_shard"]


def only(shard: OpenShard, names: Collection[str]) -> OpenShard:
    """Return a shard with only these fields."""
    fields = tuple(field for field in shard.fields if field.name in names)
    if fields == shard.fields:
        return shard
    kept = [field.name for field in fields]
    index = shard.index.select(kept) if shard.loaded else None
    return replace(shard, fields=fields, labels=labels_of_fields(shard.labels, kept), _index=index)


def with_caller_fields(shard: OpenShard, asked: CallerFields) -> OpenShard:
    """Return a shard with the types and names of fields that a caller gives."""
    index = asked.table(shard.index) if shard.loaded else None
    return replace(shard, fields=tuple(map(asked.field, shard.fields)), asked=asked, _index=index)


def renamed_shard(shard: OpenShard, names: Mapping[str, str]) -> OpenShard:
    """Return a shard whose fields have other names, given the new name of each that changes."""
    names = {old: new for old, new in names.items() if any(field.name == old for field in shard.fields)}
    if not names:
        return shard
    before = {new: old for old, new in shard.asked.names.items()}
    earlier = {old: new for old, new in shard.asked.names.items() if new not in names}
    asked = replace(shard.asked, names={**earlier, **{before.get(old, old): new for old, new in names.items()}})
    index = renamed(shard.index, names) if shard.loaded else None
    labels: Labels = {_renamed(name, names): own for name, own in shard.labels.items()}
    fields = tuple(replace(field, name=names.get(field.name, field.name)) for field in shard.fields)
    return replace(shard, fields=fields, labels=labels, asked=asked, _index=index)


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """Return the new name of a field, or of a member of a value of one."""
    old = next((one for one in names if name == one or name.startswith(f"{one}.")), name)
    return names.get(old, old) + name[len(old) :]
