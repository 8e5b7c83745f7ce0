"""Thoughts that an engine left in the text, between tags, cut anywhere.

llama-server takes them out itself; other engines, and templates that it does not know, do not. Only an answer that
begins with the tag is taken to think: later on the tag may be what the text is about. Line breaks around the tags
belong to neither side.
"""

from enum import Enum, auto

_OPEN = "<think>"
_CLOSE = "</think>"


class _Place(Enum):
    BEFORE = auto()
    THINKING = auto()
    AFTER = auto()


class ThinkTags:
    """Splits the pieces of one answer into thoughts and text.

    Attributes:
        settled: Whether everything that follows is text.
    """

    __slots__ = ("_held", "_place", "_thought", "settled")

    def __init__(self) -> None:
        self._held = ""
        self._place = _Place.BEFORE
        self._thought = False
        self.settled = False

    def feed(self, text: str) -> tuple[str, str]:
        """Return the thoughts and the text that ``text`` completes; either may be empty."""
        if self.settled:
            return "", text
        self._held += text
        thought = ""
        if self._place is _Place.BEFORE:
            start = self._held.lstrip()
            if not start.startswith(_OPEN):
                return "", "" if _OPEN.startswith(start) else self._settle()
            self._place, self._held = _Place.THINKING, start[len(_OPEN) :]
        if self._place is _Place.THINKING:
            if not self._thought:
                self._held = self._held.lstrip("\n")
            thought, closed, rest = self._held.partition(_CLOSE)
            if not closed:
                return self._think(), ""
            self._place, self._held, thought = _Place.AFTER, rest, thought.rstrip("\n")
        self._held = self._held.lstrip("\n")
        return thought, self._settle() if self._held else ""

    def end(self) -> tuple[str, str]:
        """Return what was held back, as thoughts and text; there is no more of either."""
        held = self._settle()
        return (held.rstrip("\n"), "") if self._place is _Place.THINKING else ("", held)

    def stop_looking(self) -> str:
        """Take all that follows for text, since the engine tells thoughts apart itself; return text held back."""
        held = self._settle()
        return held if held.strip() else ""

    def _think(self) -> str:
        """Return the thoughts so far, but what may belong to the closing tag."""
        keep = next((size for size in range(len(_CLOSE) - 1, 0, -1) if self._held.endswith(_CLOSE[:size])), 0)
        thought = self._held[: len(self._held) - keep].rstrip("\n")
        self._held = self._held[len(thought) :]
        self._thought |= bool(thought)
        return thought

    def _settle(self) -> str:
        self.settled = True
        held, self._held = self._held, ""
        return held


def split_thoughts(text: str) -> tuple[str, str]:
    """Return the thoughts and the text of a whole answer."""
    tags = ThinkTags()
    thought, shown = tags.feed(text)
    if not tags.settled:
        rest_thought, rest = tags.end()
        thought, shown = thought + rest_thought, shown + rest
    return thought, shown
