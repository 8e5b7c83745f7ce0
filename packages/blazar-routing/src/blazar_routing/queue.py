"""The admission queue: events in, decisions out.

The queue holds the requests that wait, and decides which of them goes next and which model is loaded for that.
It acts on nothing and reads no clock: the supervisor's dispatcher tells it what happened
(:meth:`AdmissionQueue.arrive`, :meth:`~AdmissionQueue.withdraw`), asks it what to do
(:meth:`~AdmissionQueue.decide`) with a view of the engines, and carries the decisions out.

Who goes next for a model that is loaded is :mod:`blazar_routing.line`'s rule; when a model takes the place of
another is :mod:`blazar_routing.turns`'. The head of a line that does not fit (too few slots or cells free) holds the
line up: a wide request is not overtaken for ever by narrow ones.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from blazar_routing.errors import DeadlineMissed, QueueFull
from blazar_routing.fairness import Credits
from blazar_routing.line import Line, Waiting
from blazar_routing.ticket import Ticket
from blazar_routing.turns import Challenger, Holder, TurnRule, gives_way, gives_way_at_s

DEFAULT_QUEUE_LIMIT = 512
"""Requests that may wait for one model before another is refused."""

_SWAP_WINDOW_S = 60.0


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
        in_flight: Requests that run on it, those without a slot included.
        ready_since_s: When it became ready.
        load_s: Seconds its last load took, or the next one is expected to take.
    """

    ready: bool = False
    loading: bool = False
    free_slots: int = 0
    total_slots: int = 0
    free_cells: int | None = None
    total_cells: int | None = None
    in_flight: int = 0
    ready_since_s: float = 0.0
    load_s: float = 0.0

    def fits(self, ticket: Ticket) -> bool:
        """Return whether a request can start now."""
        if not self.ready or min(ticket.slots, self.total_slots) > self.free_slots:
            return False
        if ticket.slots == 0 or self.free_cells is None or self.total_cells is None:
            return True
        # A request for more cells than there are waits for an empty engine, which then says what it lacks.
        return min(ticket.cells, self.total_cells) <= self.free_cells

    def less(self, ticket: Ticket) -> "Capacity":
        """Return what is left once a request that fits has started."""
        cells = self.free_cells
        if cells is not None and ticket.slots:
            cells -= min(ticket.cells, self.total_cells or 0)
        return replace(
            self,
            free_slots=self.free_slots - min(ticket.slots, self.total_slots),
            free_cells=cells,
            in_flight=self.in_flight + 1,
        )


ABSENT = Capacity()
"""No child, none on its way."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Let the waiting request use the model's child now."""

    place: int


@dataclass(frozen=True, slots=True)
class Load:
    """Start a child for this model, after stopping those of ``evict`` (which are idle)."""

    model: str
    evict: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the waiting request that its time is up."""

    place: int
    error: DeadlineMissed


Decision = Grant | Load | Refuse


def _room_for_all(model: str) -> tuple[str, ...]:
    del model
    return ()


class AdmissionQueue:
    """Requests that wait, and the decision whose turn it is.

    Not thread-safe: one owner calls it from one thread. A *place* is the number given to a request on
    arrival; it is never used twice.
    """

    def __init__(self, *, limit: int = DEFAULT_QUEUE_LIMIT, rule: TurnRule | None = None) -> None:
        self.limit = limit
        self.rule = rule or TurnRule()
        self._next_place = 0
        self._lines: dict[str, Line] = {}
        self._credits = Credits()
        self._giving_way: dict[str, str] = {}
        self._swaps_s: deque[float] = deque()

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def waiting(self, model: str) -> int:
        """Return how many requests wait for ``model``."""
        line = self._lines.get(model)
        return len(line) if line else 0

    def models(self) -> list[str]:
        """Return the models that somebody waits for, longest wait first."""
        return sorted(self._lines, key=lambda model: self._lines[model].oldest().place)

    def position(self, place: int) -> int | None:
        """Return how many requests for the same model came before this one, or ``None`` if it does not wait."""
        for line in self._lines.values():
            if place in line:
                return sum(1 for waiting in line if waiting.place < place)
        return None

    def giving_way(self, model: str) -> str | None:
        """Return the model that ``model`` makes room for, once its running requests have finished."""
        return self._giving_way.get(model)

    def may_pass(self, ticket: Ticket, capacity: Capacity) -> bool:
        """Return whether a request that arrives now needs no place at all: nobody waits and there is room."""
        return ticket.model not in self._lines and ticket.model not in self._giving_way and capacity.fits(ticket)

    def arrive(self, ticket: Ticket, *, now_s: float) -> int:
        """Put a request in line and return its place.

        Raises:
            QueueFull: ``limit`` requests wait for the model already.
        """
        line = self._lines.get(ticket.model)
        if (len(line) if line else 0) >= self.limit:
            raise QueueFull(model=ticket.model, waiting=self.limit, retry_after_s=5)
        if line is None:
            line = self._lines[ticket.model] = Line()
        self._credits.join(ticket.key, line.key_names())
        self._next_place += 1
        line.add(Waiting(self._next_place, ticket, now_s))
        return self._next_place

    def withdraw(self, place: int) -> bool:
        """Forget a request that no longer waits for an answer; return whether it was waiting."""
        for model, line in self._lines.items():
            if line.remove(place):
                self._drop_if_empty(model)
                return True
        return False

    def withdraw_all(self, model: str) -> tuple[int, ...]:
        """Forget everybody who waits for ``model`` and return their places, in order of arrival."""
        places = tuple(waiting.place for waiting in self._lines.get(model, ()))
        if places:
            self._lines[model] = Line()
            self._drop_if_empty(model)
        return places

    def next_deadline_s(self) -> float | None:
        """Return the clock time at which the next waiting request runs out of time, if any does."""
        return min((at for line in self._lines.values() if (at := line.next_expiry_s()) is not None), default=None)

    def next_event_s(
        self, engines: Mapping[str, Capacity], room: Callable[[str], tuple[str, ...]] = _room_for_all
    ) -> float | None:
        """Return the clock time at which :meth:`decide` may decide something new although nothing happened."""
        deadline_s = self.next_deadline_s()
        times = [] if deadline_s is None else [deadline_s]
        for model, line in self._lines.items():
            if engines.get(model, ABSENT).ready or engines.get(model, ABSENT).loading:
                continue
            challenger = self._challenger(line, engines.get(model, ABSENT))
            times += [
                gives_way_at_s(self.rule, self._holder(name, engines.get(name, ABSENT)), challenger)
                for name in room(model)
                if name not in self._giving_way
            ]
        if self._swaps_s and len(self._swaps_s) >= self.rule.max_swaps_per_minute:
            times.append(self._swaps_s[0] + _SWAP_WINDOW_S)
        return min(times, default=None)

    def decide(
        self,
        engines: Mapping[str, Capacity],
        *,
        now_s: float,
        room: Callable[[str], tuple[str, ...]] = _room_for_all,
    ) -> list[Decision]:
        """Return what to do now, given what each model's engine can take.

        A granted or refused request has left the queue when this returns.

        Args:
            engines: The capacity by model name; a model that is not in it has no child.
            now_s: The clock's time, of the same clock as :meth:`arrive`'s.
            room: For a model without a child: the loaded models that would have to go for it, idle or not; empty
                when there is room. Whether it could be loaded at all is not the queue's question.
        """
        decisions: list[Decision] = []
        for model in self.models():
            decisions += self._refusals(model, now_s)
        decisions += self._loads(engines, room, now_s)
        for model in self.models():
            if model not in self._giving_way:
                decisions += self._grants(model, engines.get(model, ABSENT), now_s)
        return decisions

    def _refusals(self, model: str, now_s: float) -> Iterator[Refuse]:
        line = self._lines[model]
        for waiting in line.expired(now_s):
            line.remove(waiting.place)
            yield Refuse(waiting.place, DeadlineMissed(model=model, waited_s=now_s - waiting.arrived_s))
        self._drop_if_empty(model)

    def _grants(self, model: str, capacity: Capacity, now_s: float) -> Iterator[Grant]:
        line = self._lines[model]
        while line and capacity.ready:
            waiting = line.next(self._credits, now_s)
            if not capacity.fits(waiting.ticket):
                return
            line.remove(waiting.place)
            capacity = capacity.less(waiting.ticket)
            self._credits.spend(waiting.ticket.key, slots=waiting.ticket.slots, weight=waiting.ticket.weight)
            yield Grant(waiting.place)
        self._drop_if_empty(model)

    def _loads(
        self, engines: Mapping[str, Capacity], room: Callable[[str], tuple[str, ...]], now_s: float
    ) -> Iterator[Load]:
        absent = [model for model in self._lines if not _is_up(engines.get(model, ABSENT))]
        absent.sort(key=lambda model: self._lines[model].most_urgent_due_s())
        # A model that came up asks nobody to give way any more.
        self._giving_way = {name: model for name, model in self._giving_way.items() if model in absent}
        taken: set[str] = set()
        for model in absent:
            victims = room(model)
            if not victims:
                yield Load(model)
                continue
            if taken.intersection(victims) or not self._all_give_way(model, victims, engines, now_s):
                continue
            taken.update(victims)
            if all(engines.get(name, ABSENT).in_flight == 0 for name in victims):
                # They keep giving way until the view shows the load, so that nothing is started on them meanwhile.
                yield Load(model, victims)

    def _all_give_way(
        self, model: str, victims: tuple[str, ...], engines: Mapping[str, Capacity], now_s: float
    ) -> bool:
        """Return whether all of ``victims`` make room for ``model``, and note it."""
        holders = {name: self._giving_way.get(name) for name in victims}
        if all(other == model for other in holders.values()):
            return True
        if any(other not in (None, model) for other in holders.values()):
            return False
        while self._swaps_s and now_s - self._swaps_s[0] >= _SWAP_WINDOW_S:
            self._swaps_s.popleft()
        if len(self._swaps_s) >= self.rule.max_swaps_per_minute:
            return False
        challenger = self._challenger(self._lines[model], engines.get(model, ABSENT))
        for name in victims:
            if not gives_way(self.rule, self._holder(name, engines.get(name, ABSENT)), challenger, now_s=now_s):
                return False
        self._giving_way.update(dict.fromkeys(victims, model))
        self._swaps_s.append(now_s)
        return True

    def _holder(self, model: str, capacity: Capacity) -> Holder:
        line = self._lines.get(model)
        return Holder(
            ready_since_s=capacity.ready_since_s,
            load_s=capacity.load_s,
            in_flight=capacity.in_flight,
            due_s=line.most_urgent_due_s() if line else None,
        )

    def _challenger(self, line: Line, capacity: Capacity) -> Challenger:
        return Challenger(
            waiting_since_s=line.oldest().arrived_s, due_s=line.most_urgent_due_s(), load_s=capacity.load_s
        )

    def _drop_if_empty(self, model: str) -> None:
        if model in self._lines and not self._lines[model]:
            del self._lines[model]
            self._giving_way = {name: other for name, other in self._giving_way.items() if other != model}
            self._credits.keep_only({key for line in self._lines.values() for key in line.key_names()})


def _is_up(capacity: Capacity) -> bool:
    return capacity.ready or capacity.loading
