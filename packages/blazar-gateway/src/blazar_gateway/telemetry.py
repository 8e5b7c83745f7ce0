"""What is measured of every request: a few additions on the way, turned into metrics when somebody asks."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the buckets, seconds; one more takes the rest."""


@dataclass(slots=True)
class Histogram:
    """Durations, counted in buckets."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def cumulated(self) -> Iterator[tuple[str, float]]:
        """Yield bucket and count as Prometheus wants them: each includes those below."""
        total = 0.0
        for bound, count in zip((*BOUNDS_S, float("inf")), self.counts, strict=True):
            total += count
            yield ("+Inf" if bound == float("inf") else str(bound)), total


class Telemetry:
    """What was measured since the start. Labels are routes, statuses and classes, of which there are few.

    Attributes:
        requests: Counts by route and status; 499 is a client that left.
        request_s: From the request's head to the answer's last byte, by route.
        first_byte_s: Of streams: from the request's head to the answer's, by route; it opens with its
            first frame.
        queue_s: From a request's place in line to its lease, loading included, by admission class.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.request_s: dict[str, Histogram] = {}
        self.first_byte_s: dict[str, Histogram] = {}
        self.queue_s: dict[str, Histogram] = {}

    def ended(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        pair = (route, status)
        self.requests[pair] = self.requests.get(pair, 0) + 1
        _observe(self.request_s, route, seconds)

    def opened(self, route: str, seconds: float) -> None:
        """Count a stream whose first byte is about to be sent."""
        _observe(self.first_byte_s, route, seconds)

    def lent(self, priority: str, seconds: float) -> None:
        """Count a lease that was given."""
        _observe(self.queue_s, priority, seconds)


def _observe(histograms: dict[str, Histogram], label: str, seconds: float) -> None:
    histogram = histograms.get(label)
    if histogram is None:
        histogram = histograms[label] = Histogram()
    histogram.observe(seconds)
