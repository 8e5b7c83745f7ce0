"""Who has to go so that a model can come. Pure.

The order: children that are idle and that nobody waits for, the least recently used first, those where a conversation
has only paused after the others; then busy ones, the longest loaded first (an order that does not change under load, so
that the same ones are asked to give way each time). Of those, the smallest sufficient set: whoever turns out not to be
needed stays. Pinned children never go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from blazar_supervisor.residency.pools import Bytes, total


@dataclass(frozen=True, slots=True)
class Holding:
    """A child that holds memory.

    Attributes:
        key: The child's key.
        model: Its model.
        holds: What would be free without it.
        last_used_s: When its last request ended.
        ready_since_s: When it came up.
        busy: Whether requests run on it or wait for it.
        talks: Whether a conversation that paused is at home there.
        pinned: Whether its owner said to keep it for ever.
        going: Whether it is being stopped already.
    """

    key: str
    model: str
    holds: Bytes
    last_used_s: float
    ready_since_s: float
    busy: bool
    talks: bool = False
    pinned: bool = False
    going: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What a model's coming takes.

    Attributes:
        victims: Keys of the children that have to go; empty when there is room.
        possible: Whether there is room once they are gone.
        pinned: Keys of pinned children without which there would be room (only when not possible).
    """

    victims: tuple[str, ...] = ()
    possible: bool = True
    pinned: tuple[str, ...] = ()


def find_room(need: Bytes, free: Bytes, holdings: Sequence[Holding], *, max_loaded: int | None = None) -> Room:
    """Return who has to go for ``need``.

    Args:
        need: What the model will take.
        free: What is free now, the children's memory taken off.
        holdings: The other children; those that are going already count as gone.
        max_loaded: The most children at the same time, the new one included, or ``None``.
    """
    staying = [holding for holding in holdings if not holding.going]
    free += total(holding.holds for holding in holdings if holding.going)
    if _enough(need, free, (), staying, max_loaded):
        return Room()
    candidates = sorted((holding for holding in staying if not holding.pinned), key=_order)
    chosen: list[Holding] = []
    for candidate in candidates:
        chosen.append(candidate)
        if _enough(need, free, chosen, staying, max_loaded):
            break
    else:
        pinned = tuple(holding.key for holding in staying if holding.pinned)
        everybody = _enough(need, free, staying, staying, max_loaded)
        return Room(possible=False, pinned=pinned if everybody else ())
    for holding in tuple(chosen):
        fewer = [other for other in chosen if other is not holding]
        if _enough(need, free, fewer, staying, max_loaded):
            chosen = fewer
    return Room(victims=tuple(holding.key for holding in chosen))


def _order(holding: Holding) -> tuple[bool, bool, float]:
    return (
        holding.busy,
        holding.talks and not holding.busy,
        holding.ready_since_s if holding.busy else holding.last_used_s,
    )


def _enough(
    need: Bytes, free: Bytes, going: Sequence[Holding], staying: Sequence[Holding], max_loaded: int | None
) -> bool:
    if max_loaded is not None and len(staying) - len(going) + 1 > max_loaded:
        return False
    return (free + total(holding.holds for holding in going)).covers(need)
