"""Waiting for facts."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 90.0
"""Long, because a loaded machine is slow and a fact that never comes is rare."""


def eventually(look: Callable[[], T | None], *, what: str, timeout_s: float = DEADLINE_S) -> T:
    """Look until what is seen is true, and return it.

    Args:
        look: Returns something true once it is so.
        what: The fact that is waited for, for the failure's text.
        timeout_s: Seconds until the test fails.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; last seen: {seen!r}")
        # Between two looks, not instead of one.
        time.sleep(0.02)
