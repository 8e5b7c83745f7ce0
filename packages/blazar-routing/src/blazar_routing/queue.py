"""The admission queue: events in, decisions out.

The queue holds the requests that wait, and decides which of them goes next and which model has to be loaded
for that. It acts on nothing and reads no clock: the supervisor's dispatcher tells it what happened
(:meth:`AdmissionQueue.arrive`, :meth:`~AdmissionQueue.withdraw`), asks it what to do
(:meth:`~AdmissionQueue.decide`) with a view of the engines, and carries the decisions out.

Today's policy is first come, first served within a model: a request never overtakes an earlier one for
the same model, and models do not wait for each other.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from blazar_routing.errors import DeadlineMissed, QueueFull
from blazar_routing.ticket import Ticket

DEFAULT_QUEUE_LIMIT = 512
"""Requests that may wait for one model before another is refused."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a model's engine can take right now.

    Attributes:
        ready: Whether a child is up and takes work.
        loading: Whether one is being started (or is sure to be); then no other start is asked for.
        free_slots: Slots without a lease.
        total_slots: Slots in all; a ticket that wants more gets them all when they are free.
        free_cells: KV cells not promised to leases, or ``None`` where cells are not accounted.
        total_cells: KV cells in all, or ``None``.
    """

    ready: bool = False
    loading: bool = False
    free_slots: int = 0
    total_slots: int = 0
    free_cells: int | None = None
    total_cells: int | None = None


ABSENT = Capacity()
"""No child, none on its way."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Let the waiting request use the model's child now."""

    place: int


@dataclass(frozen=True, slots=True)
class Load:
    """Start a child for this model: somebody waits for it."""

    model: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the waiting request that its time is up."""

    place: int
    error: DeadlineMissed


Decision = Grant | Load | Refuse


@dataclass(slots=True)
class _Waiting:
    place: int
    ticket: Ticket
    arrived_s: float


class AdmissionQueue:
    """Requests that wait, and the decision whose turn it is.

    Not thread-safe: one owner calls it from one thread. A *place* is the number given to a request on
    arrival; it is never used twice.
    """

    def __init__(self, *, limit: int = DEFAULT_QUEUE_LIMIT) -> None:
        self.limit = limit
        self._next_place = 0
        self._lines: dict[str, deque[_Waiting]] = {}

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def waiting(self, model: str) -> int:
        """Return how many requests wait for ``model``."""
        line = self._lines.get(model)
        return len(line) if line else 0

    def models(self) -> Iterator[str]:
        """Yield the models that somebody waits for, longest wait first."""
        lines = [line for line in self._lines.values() if line]
        for line in sorted(lines, key=lambda line: line[0].place):
            yield line[0].ticket.model

    def position(self, place: int) -> int | None:
        """Return how many requests for the same model go before this one, or ``None`` if it does not wait."""
        for line in self._lines.values():
            for ahead, waiting in enumerate(line):
                if waiting.place == place:
                    return ahead
        return None

    def may_pass(self, ticket: Ticket, capacity: Capacity) -> bool:
        """Return whether a request that arrives now needs no place at all: nobody waits and there is room."""
        return not self._lines.get(ticket.model) and _has_room(ticket, capacity)

    def arrive(self, ticket: Ticket, *, now_s: float) -> int:
        """Put a request at the end of its model's line and return its place.

        Raises:
            QueueFull: ``limit`` requests wait for the model already.
        """
        line = self._lines.setdefault(ticket.model, deque())
        if len(line) >= self.limit:
            raise QueueFull(model=ticket.model, waiting=len(line), retry_after_s=5)
        self._next_place += 1
        line.append(_Waiting(self._next_place, ticket, now_s))
        return self._next_place

    def withdraw(self, place: int) -> bool:
        """Forget a request that no longer waits for an answer; return whether it was waiting."""
        for model, line in self._lines.items():
            for waiting in line:
                if waiting.place == place:
                    line.remove(waiting)
                    if not line:
                        del self._lines[model]
                    return True
        return False

    def withdraw_all(self, model: str) -> tuple[int, ...]:
        """Forget everybody who waits for ``model`` and return their places, in order."""
        line = self._lines.pop(model, None)
        return tuple(waiting.place for waiting in line) if line else ()

    def next_deadline_s(self) -> float | None:
        """Return the clock time at which the next waiting request runs out of time, if any does."""
        times = [
            waiting.arrived_s + waiting.ticket.deadline_s
            for line in self._lines.values()
            for waiting in line
            if waiting.ticket.deadline_s is not None
        ]
        return min(times, default=None)

    def decide(self, engines: Mapping[str, Capacity], *, now_s: float) -> list[Decision]:
        """Return what to do now, given what each model's engine can take.

        A granted or refused request has left the queue when this returns.

        Args:
            engines: The capacity by model name; a model that is not in it has no child.
            now_s: The clock's time, of the same clock as :meth:`arrive`'s.
        """
        decisions: list[Decision] = []
        for model in list(self.models()):
            decisions += self._refusals(model, now_s)
            decisions += self._turns(model, engines.get(model, ABSENT))
        return decisions

    def _refusals(self, model: str, now_s: float) -> Iterator[Refuse]:
        for waiting in list(self._lines[model]):
            deadline_s = waiting.ticket.deadline_s
            if deadline_s is not None and now_s - waiting.arrived_s >= deadline_s:
                self._lines[model].remove(waiting)
                yield Refuse(waiting.place, DeadlineMissed(model=model, waited_s=now_s - waiting.arrived_s))
        if not self._lines[model]:
            del self._lines[model]

    def _turns(self, model: str, capacity: Capacity) -> Iterator[Decision]:
        line = self._lines.get(model)
        if not line:
            return
        if not capacity.ready:
            if not capacity.loading:
                yield Load(model)
            return
        while line and _has_room(line[0].ticket, capacity):
            waiting = line.popleft()
            capacity = _after(waiting.ticket, capacity)
            yield Grant(waiting.place)
        if not line:
            del self._lines[model]


def _has_room(ticket: Ticket, capacity: Capacity) -> bool:
    if not capacity.ready:
        return False
    if min(ticket.slots, capacity.total_slots) > capacity.free_slots:
        return False
    if ticket.slots == 0 or capacity.free_cells is None or capacity.total_cells is None:
        return True
    # A request for more cells than there are waits for an empty engine; the engine then says what it lacks.
    return min(ticket.cells, capacity.total_cells) <= capacity.free_cells


def _after(ticket: Ticket, capacity: Capacity) -> Capacity:
    cells = capacity.free_cells
    return Capacity(
        ready=True,
        loading=capacity.loading,
        free_slots=capacity.free_slots - min(ticket.slots, capacity.total_slots),
        total_slots=capacity.total_slots,
        free_cells=None if cells is None else cells - min(ticket.cells, capacity.total_cells or 0),
        total_cells=capacity.total_cells,
    )
