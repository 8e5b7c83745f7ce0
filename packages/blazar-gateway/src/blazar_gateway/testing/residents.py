"""A child as listings show it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class FakeResident:
    """A child that is up and idle."""

    model: str = "m"
    child: str = "m"
    engine: str = "b10434"
    state: str = "ready"
    pid: int | None = 4711
    ctx_tokens: int | None = 4096
    slots: int | None = 4
    in_flight: int = 0
    waiting: int = 0
    memory_bytes: int = 200_000_000
    device_bytes: int = 0
    estimate_bytes: int = 0
    expires_in_s: float | None = 300.0
    load_fraction: float | None = None
    cache_hint: float | None = None
    spec_accept: float | None = None
    warnings: Sequence[str] = ()
