"""Ids of messages, responses, items and calls: unique without asking anybody."""

import os


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 24 hex digits that nobody else has."""
    return f"{prefix}_{os.urandom(12).hex()}"


def new_call_id() -> str:
    """Return an id for a tool call that came without one."""
    return f"call_{os.urandom(6).hex()}"
