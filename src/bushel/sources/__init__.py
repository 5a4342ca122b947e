"""Sources: the data that `bushel.pack` packs.

`open_source` makes a source from paths, arrays, dicts and datasets. The protocol `Source` describes
the few methods of a source of your own, and `bushel.testing.check_source` checks one.
"""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
