"""Claims: the right to write a dataset, for one writer at a time.

A claim is a file, or an object of a store, that exists while a writer is open and names its process (`holder`). `files`
takes one in a file system, `objects` in an object store, and `claim` keeps it until it is released.
"""

from bushel.storage.claims.claim import Claim, claims_in, holds_run
from bushel.storage.claims.holder import LEASE_SECONDS, Holder, describe, this_process

__all__ = ["LEASE_SECONDS", "Claim", "Holder", "claims_in", "describe", "holds_run", "this_process"]
