"""All orders of a loader. Those that need the lengths of samples are imported by loaders that ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bushel._runtime.scheduled import SampleOrder

if TYPE_CHECKING:
    from bushel.loader.order.bucketed import Bucketed
    from bushel.loader.order.chunks import Chunks
    from bushel.loader.order.packed import Packed
    from bushel.loader.plan.bucket_plan import BucketPlan
    from bushel.loader.plan.chunk_plan import ChunkPlan
    from bushel.loader.plan.pack_plan import PackPlan
    from bushel.loader.plan.plan import Plan

    AnyOrder: TypeAlias = SampleOrder | Bucketed | Packed | Chunks
    AnyPlan: TypeAlias = Plan | BucketPlan | PackPlan | ChunkPlan
