"""Refusals about waiting: a full queue, a missed deadline, a daemon that stops."""

from blazar_routing.errors.base import LaneError


class QueueFull(LaneError):
    """So many requests wait already that another would only be disappointed later.

    Attributes:
        model: The one waited for.
        waiting: Requests in line.
        position: The place in line that this request would have had, counted from 1.
    """

    code = "queue-full"

    def __init__(self, *, model: str, waiting: int, retry_after_s: int) -> None:
        self.model = model
        self.waiting = waiting
        self.position = waiting + 1
        self.retry_after_s = retry_after_s
        super().__init__(
            f"the queue for model '{model}' is full: {waiting} requests wait already, this would be number "
            f"{waiting + 1}. "
            f"Try again in {retry_after_s} s, or raise `queue_limit` in the configuration."
        )


class DeadlineMissed(LaneError):
    """The request could not be started before its own deadline."""

    code = "deadline-missed"
    retry_after_s = 1

    def __init__(self, *, model: str, waited_s: float) -> None:
        self.model = model
        self.waited_s = waited_s
        super().__init__(
            f"model '{model}' could not start this request within its deadline; it waited {waited_s:.1f} s. "
            "Try again, or allow more time with the `x-blazar-deadline-ms` header."
        )


class ShuttingDown(LaneError):
    """The daemon is stopping and takes no new work."""

    code = "shutting-down"
    retry_after_s = 5

    def __init__(self) -> None:
        super().__init__(
            "the daemon is shutting down and takes no new requests. "
            "Try again once it is back (`blazar serve` starts it)."
        )
