"""What else the daemon does: downloads, answers that are kept, its own state."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from blazar_routing.errors import LaneError
from blazar_store.types import KeptResponse


class PullState(Protocol):
    """A pull at one moment."""

    @property
    def reference(self) -> str:
        """What was asked for."""

    @property
    def phase(self) -> str:
        """``planning``, ``downloading``, ``success``, ``failed`` or ``cancelled``."""

    @property
    def name(self) -> str | None:
        """The row's name, once known."""

    @property
    def reason(self) -> str:
        """Why this variant was taken, or ``""``."""

    @property
    def digest(self) -> str:
        """64 hex digits of the model's first file, or ``""``."""

    @property
    def done_bytes(self) -> int:
        """Bytes that are there; never less than before."""

    @property
    def total_bytes(self) -> int:
        """Bytes in all, 0 until known."""

    @property
    def error(self) -> LaneError | None:
        """Why it failed, or ``None``."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""


class ModelPulls(Protocol):
    """Whoever fetches models by name."""

    def follow(self, reference: str) -> AsyncIterator[PullState]:
        """Begin a pull or join the one in progress, and yield its states to the end.

        Whoever stops listening does not stop the pull.
        """

    def states(self) -> Sequence[PullState]:
        """Return the pulls in progress and those that ended lately, oldest first."""

    def cancel(self, reference: str) -> bool:
        """Stop a pull; return whether there was one. What has arrived is kept."""


class ResponseMemory(Protocol):
    """Whoever remembers responses: for each key its own, for a limited time, up to a limited size.

    The oldest go first when room is needed; what has gone is as if it had never been. A response that is larger than
    the whole limit is not kept.
    """

    async def put(self, key: str, kept: KeptResponse) -> None:
        """Remember a response of ``key`` (``""`` on an open gateway), in the place of one with the same id.

        Raises:
            OSError: It cannot be kept: the disk is full.
        """

    async def get(self, key: str, response_id: str) -> KeptResponse | None:
        """Return a response of ``key``, or ``None``."""

    async def delete(self, key: str, response_id: str) -> bool:
        """Forget a response; return whether there was one."""

    async def list(self, key: str) -> Sequence[str]:
        """Return the ids of the responses of ``key``, newest first."""

    async def find_item(self, key: str, item_id: str) -> Mapping[str, object] | None:
        """Return an input or output item of any response of ``key``, or ``None``."""


class Daemon(Protocol):
    """The daemon as its own control calls see it."""

    def status(self) -> Mapping[str, object]:
        """Return what ``blazar status`` shows, as plain JSON values."""

    def log_lines(self, model: str | None, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        """Yield the last ``lines`` of the daemon's log (or a model's), then, if asked, what is added.

        Raises:
            LaneError: There is no such log.
        """

    async def explain(self, model: str) -> Mapping[str, object]:
        """Return what would be started for a row and why, as plain JSON values; its refusal is under ``error``.

        Raises:
            LaneError: There is no such row, or what it is bound to is no engine.
        """

    async def refresh(self) -> None:
        """Look at the rows and the settings now, and return once what has changed holds."""

    def shutdown(self) -> None:
        """Begin an orderly stop."""
