"""Drop-in for the package `wids` (webdataset 0.2.111): samples of tar shards by position."""

from .dataset import ShardListDataset, default_decoder
from .samplers import ChunkedSampler, DistributedChunkedSampler, ShardedSampler, ShardListSampler

__all__ = [
    "ChunkedSampler",
    "DistributedChunkedSampler",
    "ShardListDataset",
    "ShardListSampler",
    "ShardedSampler",
    "default_decoder",
]
