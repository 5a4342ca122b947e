"""Codecs, which convert stored bytes to values and back.

`get_codec(name)` returns one, `register_codec` adds one. docs/codecs.md lists them all.
"""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
