"""What can be wrong with a question about memory.

::

    BudgetError
    ├── UnknownCacheType      a cache type the engine's -ctk / -ctv do not accept
    └── UnservableSettings    the engine would exit at start-up with these settings

Each carries a stable ``code`` and one text: what happened, why, and what to type next. The supervisor wraps them into
its own tree before they reach a client.
"""

from typing import ClassVar


class BudgetError(ValueError):
    """Root of this package's errors."""

    code: ClassVar[str] = "budget"


class UnknownCacheType(BudgetError):
    """A cache type that ``-ctk`` and ``-ctv`` do not accept."""

    code: ClassVar[str] = "cache-type-unknown"

    def __init__(self, *, cache_type: str, known: tuple[str, ...]) -> None:
        self.cache_type = cache_type
        self.known = known
        super().__init__(
            f"cache type {cache_type!r} is not one the engine knows, so nothing was loaded; "
            f"use one of {', '.join(known)}"
        )


class UnservableSettings(BudgetError):
    """The engine would refuse these settings for this model, whatever the memory."""

    code: ClassVar[str] = "settings-unservable"

    def __init__(self, *, reason: str, advice: str) -> None:
        self.reason = reason
        self.advice = advice
        super().__init__(f"{reason}; {advice}")
