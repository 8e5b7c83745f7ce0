"""The table of children, and the account of memory over it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from blazar_supervisor.residency.eviction import Holding, Room, find_room
from blazar_supervisor.residency.pools import UNKNOWN, Bytes, Pools, total
from blazar_supervisor.residency.residence import Residence


class Census:
    """Every child by its key, in order of start, and what they hold.

    What other programs use is known from the last measurement: it is what the system said was used then, less what
    the children held at that moment. Between measurements the children's own figures are followed.
    """

    def __init__(self) -> None:
        self._residences: dict[str, Residence] = {}
        self._lines: dict[str, tuple[Residence, ...]] = {}
        self._pools = UNKNOWN
        self._foreign = Bytes()

    def __iter__(self) -> Iterator[Residence]:
        return iter(tuple(self._residences.values()))

    def find(self, key: str) -> Residence | None:
        """Return the child's present life, or ``None``."""
        return self._residences.get(key)

    def enter(self, residence: Residence) -> None:
        """Add a child, at the end of the order."""
        self._residences.pop(residence.key, None)
        self._residences[residence.key] = residence
        self._draw_up(residence.line)

    def leave(self, residence: Residence) -> None:
        """Take a child out, unless its key has begun another life."""
        if self._residences.get(residence.key) is residence:
            del self._residences[residence.key]
            self._draw_up(residence.line)

    def of_line(self, line: str) -> tuple[Residence, ...]:
        """Return the children that serve one line, in order of start."""
        return self._lines.get(line, ())

    def lines(self) -> tuple[str, ...]:
        """Return the instances that have children."""
        return tuple(self._lines)

    def of_model(self, model: str) -> tuple[Residence, ...]:
        """Return the children of a model, whatever they are for."""
        return tuple(residence for residence in self._residences.values() if residence.model == model)

    def measured(self, pools: Pools, *, private: int) -> None:
        """Take in a measurement of the machine.

        Args:
            pools: What the system says.
            private: The main memory that the children held at that moment, file mappings left out.
        """
        self._pools = pools
        figures = (residence.child.figures() for residence in self._alive() if residence.child is not None)
        device = sum(figure.device_bytes for figure in figures)
        self._foreign = pools.foreign(Bytes(private, device))

    @property
    def limit(self) -> Bytes | None:
        """What there would be for children if none ran, or ``None`` when the machine is unknown."""
        return self._pools.total - self._foreign if self._pools.known else None

    def room(
        self, key: str, need: Bytes, *, waiting: Callable[[str], int], max_loaded: int | None, now_s: float
    ) -> Room:
        """Return who has to go so that ``need`` fits, apart from the child of that key itself."""
        holdings = [
            residence.holding(waiting=waiting(residence.line), now_s=now_s)
            for residence in self._alive()
            if residence.key != key
        ]
        if not self._pools.known:
            return find_room(Bytes(), Bytes(), holdings, max_loaded=max_loaded)
        return find_room(self._countable(need), self._free(holdings), holdings, max_loaded=max_loaded)

    def fits_now(self, key: str, need: Bytes, *, max_loaded: int | None) -> bool:
        """Return whether ``need`` fits although what is being stopped still holds its memory."""
        holdings = [residence.holding(waiting=0) for residence in self._alive() if residence.key != key]
        staying = [replace(holding, going=False) for holding in holdings]
        free = self._free(staying) if self._pools.known else Bytes()
        room = find_room(self._countable(need) if self._pools.known else Bytes(), free, staying, max_loaded=max_loaded)
        return room.possible and not room.victims

    def spare_host_bytes(self, key: str, need: Bytes) -> int | None:
        """Return the main memory that is left beside ``need`` and the other children, or ``None`` when unknown."""
        if not self._pools.known:
            return None
        holdings = [residence.holding(waiting=0) for residence in self._alive() if residence.key != key]
        return self._free(holdings).host - need.host

    def _free(self, holdings: Sequence[Holding]) -> Bytes:
        return self._pools.total - self._foreign - total(holding.holds for holding in holdings)

    def _countable(self, need: Bytes) -> Bytes:
        """Return ``need`` without what cannot be counted: accelerators that only the engine knows."""
        return need if self._pools.total.device else Bytes(need.host)

    def _draw_up(self, line: str) -> None:
        children = tuple(residence for residence in self._residences.values() if residence.line == line)
        if children:
            self._lines[line] = children
        else:
            self._lines.pop(line, None)

    def _alive(self) -> list[Residence]:
        return [residence for residence in self._residences.values() if residence.alive]
