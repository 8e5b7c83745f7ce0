"""The requests that wait for one model, and which of them is next.

The order, first rule first:

1. **Class.** A request belongs to its priority's class until its time is due (:data:`SLO_S` after arrival, or
   shortly before its own deadline); from then on it counts as HIGH. So no class starves, and how long a request
   of a lower class can be passed over is known.
2. **Deadline over share.** Within a class, requests that carry a deadline of their own go first, earliest
   deadline first.
3. **Share.** The key that has been served least, against its weight (:mod:`blazar_routing.fairness`).
4. **Earliest due first** among the requests of that key.

Within one priority and key the due times rise with arrival, so only the head of each such lane has to be looked at.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from blazar_routing.fairness import Credits
from blazar_routing.ticket import Priority, Ticket

SLO_S = {Priority.HIGH: 2.0, Priority.NORMAL: 30.0, Priority.LOW: 120.0}
"""Seconds within which a request of each class should have started."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in line.

    Attributes:
        place: Its number, unique in the queue.
        ticket: What it is.
        arrived_s: When it came.
    """

    place: int
    ticket: Ticket
    arrived_s: float

    @property
    def due_s(self) -> float:
        """The time by which its class, or its own deadline if that is earlier, wants it started."""
        slo_s = SLO_S[self.ticket.priority]
        own_s = self.ticket.deadline_s
        return self.arrived_s + (slo_s if own_s is None else min(slo_s, own_s))

    @property
    def expires_s(self) -> float:
        """The time at which it is refused; only meaningful with a deadline of its own."""
        assert self.ticket.deadline_s is not None
        return self.arrived_s + self.ticket.deadline_s

    def effective_class(self, now_s: float) -> Priority:
        """Return its class now; see rule 1."""
        lead_s = 0.0 if self.ticket.deadline_s is None else SLO_S[Priority.HIGH]
        return Priority.HIGH if now_s >= self.due_s - lead_s else self.ticket.priority


class Line:
    """The requests that wait for one model."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[Priority, str], deque[Waiting]] = {}
        self._with_deadline: list[Waiting] = []
        self._by_place: dict[int, Waiting] = {}

    def __len__(self) -> int:
        return len(self._by_place)

    def __iter__(self) -> Iterator[Waiting]:
        """Yield everybody, in order of arrival."""
        return iter(sorted(self._by_place.values(), key=lambda waiting: waiting.place))

    def __contains__(self, place: int) -> bool:
        return place in self._by_place

    def key_names(self) -> set[str]:
        """Return the names of the keys that wait."""
        return {waiting.ticket.key for waiting in self._by_place.values()}

    def add(self, waiting: Waiting) -> None:
        """Let a request wait."""
        self._by_place[waiting.place] = waiting
        if waiting.ticket.deadline_s is not None:
            insort(self._with_deadline, waiting, key=lambda other: other.expires_s)
        else:
            lane = (waiting.ticket.priority, waiting.ticket.key)
            self._lanes.setdefault(lane, deque()).append(waiting)

    def remove(self, place: int) -> Waiting | None:
        """Take a request out and return it, or ``None`` if it does not wait."""
        waiting = self._by_place.pop(place, None)
        if waiting is None:
            return None
        if waiting.ticket.deadline_s is not None:
            self._with_deadline.remove(waiting)
        else:
            name = (waiting.ticket.priority, waiting.ticket.key)
            lane = self._lanes[name]
            lane.remove(waiting)
            if not lane:
                del self._lanes[name]
        return waiting

    def expired(self, now_s: float) -> list[Waiting]:
        """Return those whose own deadline has passed, without taking them out."""
        return [waiting for waiting in self._with_deadline if waiting.expires_s <= now_s]

    def next_expiry_s(self) -> float | None:
        """Return when the next request runs out of time, if any does."""
        return self._with_deadline[0].expires_s if self._with_deadline else None

    def oldest(self) -> Waiting:
        """Return who has waited longest. The line must not be empty."""
        return self._by_place[min(self._by_place)]

    def most_urgent_due_s(self) -> float:
        """Return the earliest due time in the line. The line must not be empty."""
        return min(waiting.due_s for waiting in self._heads())

    def next(self, credits: Credits, now_s: float) -> Waiting:
        """Return who goes next by the rules above, without taking it out. The line must not be empty."""
        heads = list(self._heads())
        best = min(waiting.effective_class(now_s) for waiting in heads)
        heads = [waiting for waiting in heads if waiting.effective_class(now_s) is best]
        with_deadline = [waiting for waiting in heads if waiting.ticket.deadline_s is not None]
        if with_deadline:
            return min(with_deadline, key=lambda waiting: waiting.expires_s)
        by_arrival = sorted(heads, key=lambda waiting: waiting.place)
        key = credits.least(waiting.ticket.key for waiting in by_arrival)
        return min((waiting for waiting in heads if waiting.ticket.key == key), key=lambda waiting: waiting.due_s)

    def _heads(self) -> Iterator[Waiting]:
        for lane in self._lanes.values():
            yield lane[0]
        # Their classes differ and are not in order of expiry, so all of them are candidates; they are few.
        yield from self._with_deadline
