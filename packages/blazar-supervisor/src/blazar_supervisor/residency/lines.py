"""The children of one line: what the queue sees of them together, and which of them serves a request. Pure."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from blazar_routing.instances import child_key
from blazar_routing.queue import Capacity
from blazar_routing.ticket import Ticket
from blazar_supervisor.residency.residence import Residence
from blazar_supervisor.residency.states import ChildState

_IN_MOTION = frozenset({ChildState.STARTING, ChildState.DRAINING, ChildState.STOPPING})


def choose(children: Sequence[Residence], ticket: Ticket, now_s: float, *, home: str | None = None) -> Residence | None:
    """Return the child that should serve a request now.

    That is the one where its conversation is at home, else the least loaded one; of equals the one whose cache hits
    more, then the oldest. In any case it is one that has room.
    """
    best: Residence | None = None
    for child in children:
        fits = child.takes(now_s, ctx_tokens=ticket.ctx_tokens) and child.has_room(ticket)
        if fits and child.key == home:
            return child
        if fits and (best is None or _load_of(child) < _load_of(best)):
            best = child
    return best


def capacity_of(children: Sequence[Residence], now_s: float, *, ctx_tokens: int = 0) -> Capacity:
    """Return what the queue needs to know of a line.

    The room is that of the child with the most of it: the queue is asked again after each round of grants, so the
    others get theirs. A child that is too small for a context that somebody waits for takes no request: it ends when
    those that run have, and a larger one takes its place.

    Args:
        children: All of the line; at least one.
        now_s: The clock's time.
        ctx_tokens: The largest context that somebody in the line waits for, 0 when nobody asks for one.
    """
    in_flight = sum(len(child.leases) for child in children)
    load_s = max(child.load_s for child in children)
    takers = [child for child in children if child.takes(now_s, ctx_tokens=ctx_tokens)]
    if not takers:
        # A stopping child counts as loading: the next one is started when this one is gone, not before.
        coming = any(child.state not in {ChildState.SLEEPING, ChildState.FAILED} for child in children)
        return Capacity(loading=coming, in_flight=in_flight, ready_since_s=now_s, load_s=load_s)
    best = max(takers, key=attrgetter("free_slots", "free_cells"))
    return Capacity(
        ready=True,
        free_slots=best.free_slots,
        total_slots=best.total_slots,
        free_cells=best.free_cells,
        total_cells=best.total_cells,
        in_flight=in_flight,
        ready_since_s=min(child.ready_since_s for child in takers),
        load_s=load_s,
    )


def next_key(line: str, children: Iterable[Residence]) -> str:
    """Return the key to start when a line needs another child: a sleeper's, else the first that is free."""
    living = {child.key: child for child in children if child.state is not ChildState.FAILED}
    for child in living.values():
        if child.state is ChildState.SLEEPING:
            return child.key
    replica = 1
    while child_key(line, replica) in living:
        replica += 1
    return child_key(line, replica)


def wants_another(children: Sequence[Residence], *, replicas: int) -> bool:
    """Return whether a line that somebody waits for although it is up should get one more child.

    One at a time: a child that comes or goes is waited for first. Whether there is memory is another question.
    """
    if any(child.state in _IN_MOTION for child in children):
        return False
    ready = sum(child.state is ChildState.READY for child in children)
    return 0 < ready < replicas


def is_spare(residence: Residence, siblings: Iterable[Residence]) -> bool:
    """Return whether a child can go without its line noticing: it is idle, and another one takes its requests."""
    others = (child for child in siblings if child is not residence)
    return not residence.leases and any(child.state is ChildState.READY for child in others)


def _load_of(child: Residence) -> tuple[float, float, float]:
    """Return how busy a child is, by its slots and then by its cells; of equals, its cache has to have hit more."""
    slots = 1.0 - child.free_slots / child.total_slots if child.total_slots else 1.0
    cells = 1.0 - child.free_cells / child.total_cells if child.total_cells else 1.0
    return slots, cells, -(child.hints.cache_hint or 0.0)
