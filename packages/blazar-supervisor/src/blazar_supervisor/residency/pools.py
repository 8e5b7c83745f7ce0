"""The machine's memory as the census counts it: main memory, and that of all accelerators together."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bytes:
    """An amount in both pools."""

    host: int = 0
    device: int = 0

    def __add__(self, other: "Bytes") -> "Bytes":
        return Bytes(self.host + other.host, self.device + other.device)

    def __sub__(self, other: "Bytes") -> "Bytes":
        return Bytes(self.host - other.host, self.device - other.device)

    def covers(self, need: "Bytes") -> bool:
        """Return whether ``need`` fits in it. A need of nothing fits in less than nothing."""
        return need.host <= max(0, self.host) and need.device <= max(0, self.device)


def total(amounts: Iterable[Bytes]) -> Bytes:
    """Return the sum."""
    host = device = 0
    for amount in amounts:
        host += amount.host
        device += amount.device
    return Bytes(host, device)


@dataclass(frozen=True, slots=True)
class Pools:
    """The machine's memory at one moment.

    Attributes:
        total: All there is; zeros when unknown, and then nothing is refused.
        available: What the system would give now.
    """

    total: Bytes
    available: Bytes

    @property
    def known(self) -> bool:
        """Whether there is anything to count with."""
        return self.total.host > 0

    def foreign(self, unmapped: Bytes) -> Bytes:
        """Return what programs other than our children use.

        Args:
            unmapped: What our children hold besides file mappings, which the system counts as available.
        """
        used = self.total - self.available - unmapped
        return Bytes(max(0, used.host), max(0, used.device))


UNKNOWN = Pools(Bytes(), Bytes())
