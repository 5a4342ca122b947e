"""The player: cameras, frames, sounds and array channels of a sample or an episode along one play head."""

from __future__ import annotations

from typing import Any

from bushel.viewer.shelf import plain_text
from bushel.viewer.site import Handler, Pages, as_json_answer
from bushel.viewer.tracks import tracks_of

__all__ = ["PlayPages"]


class PlayPages(Pages):
    """The handlers of the player."""

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {"/d/{d:int}/play/{position:int}": self.page, "/api/{d:int}/tracks/{position:int}": self.tracks}

    def page(self, request: Any) -> Any:
        """The player of a sample, or of the episode that it is of."""
        shown, position = self._site.shown(request), request.path_params["position"]
        key = plain_text(shown.key(position))
        return self._site.page(request, "play.html", shown, here="samples", position=position, key=key)

    def tracks(self, request: Any) -> Any:
        """Return the values that play together, as JSON."""
        return as_json_answer(tracks_of(self._site.shown(request), request.path_params["position"]))
