"""Make the plan of a `Loader` from its options: the order of its samples, and their division into batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bushel._runtime.order import Exact
from bushel._runtime.scheduled import SampleOrder
from bushel._runtime.shuffle import Shuffle, check_mixed, make_order
from bushel.errors import UnsupportedError
from bushel.loader.checks import check_count
from bushel.loader.order.megatron import Megatron
from bushel.loader.order.mixture import Mixture
from bushel.loader.order.sampling import order_of_buckets, sampled_order
from bushel.loader.plan.bucket_plan import BucketPlan
from bushel.loader.plan.chunk_plan import ChunkPlan
from bushel.loader.plan.pack_options import check_alone, order_of_chunks, order_of_packs
from bushel.loader.plan.pack_plan import PackPlan
from bushel.loader.plan.plan import Plan
from bushel.loader.read.expansion import blocks_that_fit, bytes_to_find
from bushel.loader.read.loadable import Loadable

if TYPE_CHECKING:
    from bushel.loader.options import LoaderOptions
    from bushel.loader.order.orders import AnyPlan

_SAMPLES_PER_READ = 64  # without a batch size

_MOST_UNREAD = 1 << 30
"""Bytes that an exact order may read before its first batch, to find where the samples of a remote dataset are."""


def plan_of(options: LoaderOptions, source: Loadable) -> AnyPlan:
    """Return the plan for some options.

    Raises:
        TypeError: An option has a wrong type.
        ValueError: An option is out of its range, or two of them contradict each other.
        KeyError: The column does not exist.
        UnsupportedError: An exact order of a large remote dataset whose samples have unknown places.
    """
    rank, world_size = options.rank or 0, options.world_size or 1
    check_alone(options)
    if options.pack_by is not None:
        size = check_count("batch_size", options.batch_size, least=1, instead=" of rows")
        packed = order_of_packs(options, source, lambda samples: _order(options, source, samples))
        return PackPlan(packed, size, rank, world_size, options.drop_last, options.pad)
    if options.chunk_by is not None:
        size = check_count("batch_size", options.batch_size, least=1, instead=" of rows")
        chunks = order_of_chunks(options, source, lambda samples: _order(options, source, samples))
        return ChunkPlan(chunks, size, rank, world_size, options.drop_last, options.pad)
    if options.bucket_by is not None:
        if isinstance(options.dataset, Mixture) or options.weights is not None or options.balance is not None:
            raise ValueError("bucket_by= has an order of its own: leave out weights= and balance=, and do not mix")
        buckets = order_of_buckets(
            source,
            options.bucket_by,
            options.batch_size,
            options.batch_tokens,
            _shuffle(options),
            drop_last=options.drop_last,
            seed=options.seed,
        )
        return BucketPlan(buckets, rank, world_size, options.drop_last, options.pad)
    if options.batch_tokens is not None or isinstance(options.batch_size, Mapping):
        raise ValueError("batch_tokens= and a batch size per bucket need bucket_by=, such as 'tokens.length'")
    size, steps_per_read = 1, _SAMPLES_PER_READ
    if options.batch_size is not None:
        size, steps_per_read = check_count("batch_size", options.batch_size, least=1), 1
    order = _order(options, source, len(source))
    if isinstance(order, Exact):
        _check_known(source, options.fields)
    return Plan(order, size, rank, world_size, options.drop_last, options.pad, steps_per_read)


def _order(options: LoaderOptions, source: Loadable, samples: int) -> SampleOrder:
    """Return the order of a number of samples for some options."""
    own = options.dataset.order if isinstance(options.dataset, Mixture) else None
    if options.weights is None and options.balance is None:
        if own is None and options.shuffle == "blocks":
            return replace(blocks_that_fit(source, options.seed, options.fields), samples=samples)
        if own is None:
            return make_order(_shuffle(options), samples, options.seed)
        return check_mixed(own, _shuffle(options), options.seed)
    if own is not None:
        raise ValueError("a mixture has its own order: leave out weights= and balance=")
    return sampled_order(source, options.weights, options.balance, _shuffle(options), options.seed)


def _check_known(source: Loadable, fields: Any) -> None:
    """Refuse an exact order that would read a large dataset to find where samples are, before the first batch."""
    unread = bytes_to_find(source, fields)
    if unread > _MOST_UNREAD:
        raise UnsupportedError(
            f"an exact order would read {unread:,} bytes first, to find where the samples are: run `bushel index` "
            'once, with --index to keep the index in another place; or use shuffle="blocks"'
        )


def _shuffle(options: LoaderOptions) -> Shuffle:
    """Return `shuffle=`, which is not the order of Megatron where that has no meaning."""
    if isinstance(options.shuffle, Megatron):
        raise TypeError("Megatron is an order of chunks: give chunk_by=, such as chunk_by='tokens.length'")
    return options.shuffle
