"""What the gateway has in hand at this moment, and what it has done since it started."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Traffic:
    """Gauges, which are all zero when nobody is being served, and totals.

    Attributes:
        requests: Requests being handled.
        waiting: Requests that wait for a lease, loading included.
        leases: Leases held.
        child_calls: Answers of children being read.
        streams: Event streams open to clients.
        served: Requests that have ended, in any way.
        failed: The part of them that ended with an error of status 500 or more, or as a broken stream.
        abandoned: The part of them whose client left first.
        prompt_tokens: As engines reported them.
        completion_tokens: As engines reported them; of answers that broke off, what was seen to come.
    """

    requests: int = 0
    waiting: int = 0
    leases: int = 0
    child_calls: int = 0
    streams: int = 0
    served: int = 0
    failed: int = 0
    abandoned: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def gauges(self) -> dict[str, int]:
        """Return the gauges alone."""
        return {
            "requests": self.requests,
            "waiting": self.waiting,
            "leases": self.leases,
            "child_calls": self.child_calls,
            "streams": self.streams,
        }

    def snapshot(self) -> dict[str, int]:
        """Return everything, for the daemon's status."""
        return asdict(self)
