"""Who makes and forgets keys, and what was used on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from blazar_store.types import UsageRow


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that somebody wants made; what is ``None`` or empty is not limited.

    Attributes:
        name: Checked.
        models: The rows it may use; empty means all, and the right to manage.
        limits: ``rpm``, ``tpm``, ``daily_tokens``, ``max_concurrent``, ``weight``; checked.
        max_priority: ``high``, ``normal`` or ``low``.
        expires: As ISO 8601.
    """

    name: str
    models: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    max_priority: str | None = None
    expires: str | None = None


class KeyRegistry(Protocol):
    """Whoever may change the keys. A change holds when the call returns."""

    async def add(self, key: NewKey) -> str:
        """Make a key and return its secret, which is kept nowhere.

        Raises:
            LaneError: The name is taken, or a value is none.
        """

    async def remove(self, name: str) -> None:
        """Remove a key.

        Raises:
            LaneError: There is none of that name, or it is the last.
        """

    async def rotate(self, name: str) -> str:
        """Give a key another secret and return it; the old one opens nothing any more.

        Raises:
            LaneError: There is none of that name.
        """

    async def usage_since(self, day: str) -> Sequence[UsageRow]:
        """Return what was used on ``day`` (UTC, ``2027-01-31``) and after it, as far as it has been written."""
