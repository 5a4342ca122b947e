"""Classes of datasets and of facts about them, and types of paths, for annotations and `isinstance`."""

from bushel._dataset.read.sides import Joined
from bushel._dataset.views.info import Info
from bushel._dataset.views.mapped import Mapped
from bushel._dataset.views.saved_views import SavedView
from bushel._dataset.views.stream import StreamDataset
from bushel.storage import AnyLocation, AnySource

__all__ = ["AnyLocation", "AnySource", "Info", "Joined", "Mapped", "SavedView", "StreamDataset"]
