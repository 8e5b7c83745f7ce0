"""Which context a model is loaded with when clients ask for one. Pure.

What nobody asks for is the setting's, or the largest that plainly fits. A client that asks for more gets a larger
child in steps (doublings of 4096 tokens, up to what the model was trained for), so that a client that computes a new
figure for every request does not cause a load each time. A smaller wish, or none, is served by the larger child.
"""

from collections.abc import Iterator

FIRST_STEP = 4096
_GRAIN = 1024


def steps_for(wanted: int, *, trained: int) -> tuple[int, ...]:
    """Return the contexts to try for a wish, the first that fits being taken: the step above it, then itself.

    Args:
        wanted: Tokens asked for, at least 1.
        trained: Tokens the model was trained for; more is never given.
    """
    step = FIRST_STEP
    while step < wanted:
        step *= 2
    exact = -(-wanted // _GRAIN) * _GRAIN
    return tuple(dict.fromkeys(min(size, trained) for size in (step, exact)))


class Wishes:
    """The contexts that waiting requests ask for, by line."""

    def __init__(self) -> None:
        self._wishes: dict[int, tuple[str, int]] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the lines in which somebody asks for a context."""
        return iter({line for line, _ in self._wishes.values()})

    def add(self, place: int, line: str, ctx_tokens: int) -> None:
        """Note what the request at ``place`` asks for; 0 is nothing."""
        if ctx_tokens:
            self._wishes[place] = (line, ctx_tokens)

    def drop(self, place: int) -> None:
        """Forget a request that waits no longer."""
        self._wishes.pop(place, None)

    def largest(self, line: str) -> int:
        """Return the largest context that somebody in the line asks for, or 0."""
        return max((ctx for at, ctx in self._wishes.values() if at == line), default=0)

    def of_line(self, line: str) -> tuple[int, ...]:
        """Return the places of those in the line who ask for a context."""
        return tuple(place for place, (at, _) in self._wishes.items() if at == line)
