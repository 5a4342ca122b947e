"""Names of classes of a dataset: in its shards, and in files beside them."""

from __future__ import annotations

from collections.abc import Sequence

from bushel._dataset.open.completeness import manifest_path
from bushel._dataset.read.shards import OpenShard
from bushel._index.class_names import Labels, join_labels
from bushel._index.sidecar import Manifest
from bushel.containers import get_container
from bushel.containers.abilities import KeepsNames
from bushel.containers.base import Shard
from bushel.spec import Spec


def labels_of(shards: Sequence[OpenShard], fields: Spec) -> Labels:
    """Return the names of classes of a dataset with these shards.

    Raises:
        SpecError: Two shards give different names to the same number.
    """
    named: dict[int, OpenShard] = {}
    for shard in shards:
        if shard.labels:
            named.setdefault(id(shard.labels), shard)
    return join_labels(((str(shard.path(0)), shard.labels) for shard in named.values()), fields) if named else {}


def labels_beside(container: str, shards: Sequence[Shard], manifest: Manifest | None) -> Labels:
    """Return the names of classes in a manifest that lists all shards, or in the file that the original tool keeps."""
    own: object = get_container(container)
    labels: Labels = {}
    if isinstance(own, KeepsNames):
        first = shards[0].root
        if all(shard.root == first for shard in shards) or manifest_path(shards) is not None:
            labels = own.class_names(first)
    return labels if manifest is None else {**labels, **labels_in(manifest)}


def labels_in(manifest: Manifest) -> Labels:
    """Return the names of classes in a manifest."""
    return {name: tuple(names) for name, names in manifest.labels.items()}
