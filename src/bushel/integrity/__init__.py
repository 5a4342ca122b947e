"""Verifying datasets, repairing damaged ones, comparing two of them, removing and erasing samples."""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
