"""A request's place in the admission queue, and the facts that decide it."""

from dataclasses import dataclass
from enum import IntEnum

from blazar_routing.instances import model_of


class Priority(IntEnum):
    """The admission class; a smaller value goes first."""

    HIGH = 0
    NORMAL = 1
    LOW = 2

    def demoted(self) -> "Priority":
        """Return the class below, or this one if it is the last."""
        return Priority(min(self + 1, Priority.LOW))


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the queue knows of a request.

    Attributes:
        model: The instance that it waits for: the model row's name, resolved, or that of a companion
            (:mod:`blazar_routing.instances`).
        key: The API key's name, or ``""`` on an open gateway and for the owner.
        priority: The admission class.
        deadline_s: Seconds after arrival by which the request must have started, or ``None``.
        weight: The key's share under contention, at least 1.
        slots: Engine slots taken: 1 for a generation, ``n`` for ``n`` choices, 0 for a call that needs
            a loaded engine but no slot (tokenize, templates).
        cells: KV cells the request may grow to, in tokens (prompt estimate plus the most it may generate).
        session: The conversation it belongs to, or ``None``.
        ctx_tokens: The context that the client asks the model to be loaded with, or 0 when it names none.
    """

    model: str
    key: str = ""
    priority: Priority = Priority.NORMAL
    deadline_s: float | None = None
    weight: int = 1
    slots: int = 1
    cells: int = 0
    session: str | None = None
    ctx_tokens: int = 0

    @property
    def row(self) -> str:
        """The model row's name, whichever of its instances the request waits for."""
        return model_of(self.model)
