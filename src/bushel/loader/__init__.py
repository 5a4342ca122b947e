"""Loading for training: `Loader`, `StreamLoader`, `MapView`, mixtures, orders and collation."""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
