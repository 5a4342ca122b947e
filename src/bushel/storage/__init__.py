"""Reading of bytes by (file, offset, length), many at once, from local files and object stores.

`open_file` gives a `File`; `read_many` and `gather` read a batch of extents from any mixture of
files. Local files are mapped and read by one call of a compiled kernel, objects of stores
(`objects`) by many requests at a time; everything else with an `open()` method is read through
`FileObject`. Modules for writing, streams and object stores are imported on first use.
"""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
