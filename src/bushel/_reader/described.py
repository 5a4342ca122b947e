"""Shards with names of classes and types from the metadata of their repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bushel._discovery.caller_fields import CallerFields
from bushel._index.class_names import can_be_named, check_labels
from bushel._reader.shard_fields import with_caller_fields
from bushel._reader.shards import OpenShard
from bushel.containers.parquet.features import Feature
from bushel.spec import Field

__all__ = ["described"]


def described(shard: OpenShard, features: Mapping[str, Feature]) -> OpenShard:
    """Return a shard with the names of classes and the types that its files do not have themselves.

    Raises:
        SpecError: A name is too long, or two classes have the same.
    """
    fields = {field.name: field for field in shard.fields}
    typed = {
        name: Field(name, feature.codec, fields[name].sequence)
        for name, feature in features.items()
        if feature.codec is not None and name in fields and fields[name].codec == "bytes"
    }
    named = {
        name: feature.names
        for name, feature in features.items()
        if feature.names and name not in shard.labels and can_be_named(fields, name)
    }
    if typed:
        shard = with_caller_fields(
            shard, CallerFields({**typed, **shard.asked.spec}, shard.asked.pickle, shard.asked.names)
        )
    return replace(shard, labels={**shard.labels, **check_labels(named)}) if named else shard
