"""Thoughts that an engine left in the text, between tags, cut anywhere.

llama-server takes them out itself; other engines, and templates that it does not know, do not. Only an answer that
begins with the tag is taken to think: later on the tag may be what the text is about.
"""

_OPEN = "<think>"
_CLOSE = "</think>"


class ThinkTags:
    """Splits the pieces of one answer into thoughts and text."""

    __slots__ = ("_held", "_thinking", "settled")

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False
        self.settled = False

    def feed(self, text: str) -> tuple[str, str]:
        """Return the thoughts and the text that ``text`` completes; either may be empty.

        Once ``settled``, everything is text.
        """
        if self.settled:
            return "", text
        self._held += text
        if not self._thinking:
            start = self._held.lstrip()
            if not start.startswith(_OPEN):
                if _OPEN.startswith(start):
                    return "", ""
                return "", self._settle()
            self._thinking, self._held = True, start[len(_OPEN) :]
        thought, closed, rest = self._held.partition(_CLOSE)
        if closed:
            self._held = rest.lstrip("\n")
            return thought.rstrip("\n"), self._settle()
        keep = next((size for size in range(len(_CLOSE) - 1, 0, -1) if self._held.endswith(_CLOSE[:size])), 0)
        thought = self._held[: len(self._held) - keep]
        self._held = self._held[len(thought) :]
        return thought, ""

    def end(self) -> tuple[str, str]:
        """Return what was held back, as thoughts and text."""
        held, thinking = self._settle(), self._thinking
        return (held, "") if thinking else ("", held)

    def _settle(self) -> str:
        self.settled = True
        held, self._held = self._held, ""
        return held
