"""Bytes that an engine says it holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """An engine's own account of its memory.

    Attributes:
        host_bytes: In main memory, weights mapped from the file included.
        device_bytes: On accelerators.
        mapped_bytes: The part of ``host_bytes`` that is file mapping: the system counts it as available.
    """

    host_bytes: int = 0
    device_bytes: int = 0
    mapped_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.host_bytes + self.device_bytes


NOTHING = MemoryFigures()
