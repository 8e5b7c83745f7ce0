"""Finding stop strings in an answer that arrives in pieces.

Engines stop at such strings but do not say at which, and Anthropic's and others' clients want to know. So the gateway
looks for them itself: text that may be the beginning of one is held back until it is known.
"""

from collections.abc import Sequence


class StopWords:
    """Looks for the first of some strings in text fed piece by piece.

    Args:
        words: Not empty strings; none at all means that everything passes.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._held = ""
        self.met: str | None = None

    def feed(self, text: str) -> str:
        """Return what may be shown of the text so far and was not shown yet.

        Once a word was met (``met`` says which) everything after it is swallowed.
        """
        if self.met is not None:
            return ""
        if not self._words:
            return text
        self._held += text
        places = [(at, word) for word in self._words if (at := self._held.find(word)) >= 0]
        if places:
            at, self.met = min(places, key=lambda place: (place[0], -len(place[1])))
            shown, self._held = self._held[:at], ""
            return shown
        keep = max(_overlap(self._held, word) for word in self._words)
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown

    def end(self) -> str:
        """Return what was held back: the text has ended, so it was no beginning after all."""
        shown, self._held = self._held, ""
        return shown


def _overlap(text: str, word: str) -> int:
    """Return the length of the longest proper beginning of ``word`` that ``text`` ends with."""
    for length in range(min(len(word) - 1, len(text)), 0, -1):
        if text.endswith(word[:length]):
            return length
    return 0
