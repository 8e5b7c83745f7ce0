"""Which bytes of a file are there and which are fetched next. Pure.

A download is a set of ranges that are on disk. It is written down beside the partial file, so that a later run goes
on where this one stopped, and only if the file upstream is still the same (size and tag).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CHUNK = 32 << 20
"""Bytes of one range request: large enough that requests cost nothing, small enough that a stall loses little."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells that a file upstream is the one that was begun.

    Attributes:
        size: Bytes.
        tag: Its strong ETag, or the hub's hash; ``None`` when the server gives none.
    """

    size: int
    tag: str | None


class Ranges:
    """A set of byte ranges, half-open, joined where they touch."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges: list[tuple[int, int]] = []
        for start, stop in ranges:
            self.add(start, stop)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    @property
    def total(self) -> int:
        """Bytes in the set."""
        return sum(stop - start for start, stop in self._ranges)

    def add(self, start: int, stop: int) -> None:
        """Put a range in."""
        if start >= stop:
            return
        kept = []
        for other_start, other_stop in self._ranges:
            if other_stop < start or other_start > stop:
                kept.append((other_start, other_stop))
            else:
                start, stop = min(start, other_start), max(stop, other_stop)
        self._ranges = sorted([*kept, (start, stop)])

    def missing(self, size: int) -> list[tuple[int, int]]:
        """Return the gaps up to ``size``."""
        gaps, at = [], 0
        for start, stop in self._ranges:
            if start > at:
                gaps.append((at, min(start, size)))
            at = max(at, stop)
        if at < size:
            gaps.append((at, size))
        return [(start, stop) for start, stop in gaps if start < stop]


def plan_requests(missing: list[tuple[int, int]], *, chunk: int = CHUNK) -> list[tuple[int, int]]:
    """Cut the gaps into range requests of at most ``chunk`` bytes, in order."""
    return [(start, min(start + chunk, stop)) for gap_start, stop in missing for start in range(gap_start, stop, chunk)]


def parse_content_range(value: str | None) -> tuple[int, int, int | None] | None:
    """Return start, stop (exclusive) and total of a ``Content-Range``, or ``None`` when it is not one."""
    if value is None or not value.lower().startswith("bytes "):
        return None
    span, _, total = value[6:].strip().partition("/")
    first, _, last = span.partition("-")
    if not first.isdigit() or not last.isdigit() or not (total.isdigit() or total == "*"):
        return None
    return int(first), int(last) + 1, int(total) if total.isdigit() else None
