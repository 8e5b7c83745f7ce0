"""The circuit breaker: an engine that keeps dying is left alone for a while. Pure, on a clock passed in."""

from dataclasses import dataclass

from blazar_routing.errors import BreakerOpen
from blazar_routing.instances import model_of

CRASHES_TO_OPEN = 3
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 300.0
HEALTHY_AFTER_S = 600.0
"""A child that has served this long has shown that what killed an earlier one was no matter of starting."""


@dataclass(slots=True)
class _History:
    crashes: int
    open_until_s: float
    tail: tuple[str, ...]


class Breakers:
    """Counts process deaths in a row, per child key.

    A key opens at the third death in a row, for ten seconds, and for twice as long at each further one. After the
    pause one start is tried. A good answer, a clean end, or a long healthy life forgets the deaths: what died in
    between is no row.
    """

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}

    def died(self, key: str, *, now_s: float, tail: tuple[str, ...]) -> None:
        """Count a process death."""
        history = self._histories.setdefault(key, _History(0, 0.0, ()))
        history.crashes += 1
        history.tail = tail
        if history.crashes >= CRASHES_TO_OPEN:
            pause_s = min(FIRST_PAUSE_S * 2 ** (history.crashes - CRASHES_TO_OPEN), LONGEST_PAUSE_S)
            history.open_until_s = now_s + pause_s

    def forget(self, key: str) -> None:
        """Forget the deaths of ``key``: it ended cleanly, or its owner said so."""
        self._histories.pop(key, None)

    def forget_model(self, model: str) -> None:
        """Forget the deaths of every child of a model."""
        for key in [key for key in self._histories if model_of(key) == model]:
            del self._histories[key]

    def is_open(self, key: str, *, now_s: float) -> bool:
        """Return whether no start may be tried yet."""
        history = self._histories.get(key)
        return history is not None and now_s < history.open_until_s

    def crashes(self, key: str) -> int:
        """Return the deaths in a row."""
        history = self._histories.get(key)
        return history.crashes if history else 0

    def check(self, key: str, *, model: str, now_s: float) -> None:
        """Return if a start may be tried.

        Raises:
            BreakerOpen: Not yet; the text says when, and quotes the child.
        """
        history = self._histories.get(key)
        if history is not None and now_s < history.open_until_s:
            raise BreakerOpen(
                model=model,
                crashes=history.crashes,
                wait_s=history.open_until_s - now_s,
                tail=history.tail,
                child=key,
            )
