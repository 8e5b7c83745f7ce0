"""What the rest of the supervisor asks of an engine kind.

Adding a kind means adding one folder that fits :class:`EngineAdapter`, and a row in :mod:`~.catalogue`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from blazar_routing.kinds import EngineKind
from blazar_store.types import EngineRow, ModelRow
from blazar_supervisor.children.endpoint import Endpoint
from blazar_supervisor.engines.counters import Counters
from blazar_supervisor.engines.failure import Failure
from blazar_supervisor.engines.figures import MemoryFigures
from blazar_supervisor.engines.manifest import Manifest
from blazar_supervisor.engines.profile import Knobs, Profile


class DisconnectCancels(StrEnum):
    """What ends in the engine when a client's connection closes."""

    STREAMS = "streams"
    """A streamed answer ends; a plain one is computed to its end."""
    EVERYTHING = "everything"
    NOTHING = "nothing"


class WarmPeg(StrEnum):
    """What a first token, made before anybody asks, is worth to an engine."""

    BLOCKING = "blocking"
    """It compiles its kernels at the first generation: it counts as loaded once that is done."""
    DETACHED = "detached"
    """The first token is slower than the next; nobody waits for it."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class SlotState:
    """One of an engine's slots.

    Attributes:
        number: Its number.
        busy: Whether a request runs on it.
        used: Whether one has since the engine came up.
        task: The number of its last request, which grows; -1 if it was never used.
    """

    number: int
    busy: bool
    used: bool
    task: int


class EngineLog(Protocol):
    """Reads one child's output."""

    @property
    def listening(self) -> str | None:
        """The address it said it listens on."""

    @property
    def sleeping(self) -> bool: ...

    @property
    def wake_failed(self) -> bool:
        """Whether its last words are those of a load after a sleep that did not end well."""

    def line(self, line: str) -> None: ...
    def partial(self, text: str) -> None: ...
    def fraction(self) -> float | None:
        """How much of the load is done, 0.0 to 1.0, where the engine says so."""

    def figures(self) -> MemoryFigures: ...


class EngineControl(Protocol):
    """Talks to one child, aside from the requests it serves. No method raises for a child that does not answer."""

    async def ready(self) -> bool:
        """Return whether it takes requests now. Never wakes it."""

    async def sleeping(self) -> bool | None:
        """Return whether it sleeps, or ``None`` when it does not say. Never wakes it."""

    async def wake(self, *, timeout_s: float) -> bool:
        """Make a sleeper load its model again and wait for it; return whether it did."""

    async def peg(self, *, timeout_s: float) -> bool:
        """Make one token and return whether it came."""

    async def counters(self) -> Counters | None:
        """Return what it has counted, or ``None`` when it does not say. May wake it."""

    async def slots(self) -> tuple[SlotState, ...] | None:
        """Return its slots, or ``None`` when it does not say. Wakes a sleeper."""

    async def save_slot(self, slot: int, file: str, *, timeout_s: float) -> int | None:
        """Have it write what a slot holds to a file of its bank directory; return how many tokens that is.

        ``None`` when it does not answer in time, or has no such thing. It may go on writing then.
        """

    async def restore_slot(self, slot: int, file: str, *, timeout_s: float) -> bool | None:
        """Have it read a file back into a slot; return whether it did, or ``None`` when it does not answer in time."""

    async def work(self) -> tuple[object, ...] | None:
        """Return counters that change while it works, or ``None`` when it does not answer."""

    async def close(self) -> None: ...


class EngineAdapter(Protocol):
    """One engine kind."""

    @property
    def kind(self) -> EngineKind: ...
    @property
    def load_timeout_s(self) -> float:
        """Seconds a load may take unless the settings say otherwise."""

    @property
    def disconnect_cancels(self) -> DisconnectCancels: ...
    @property
    def warm_peg(self) -> WarmPeg: ...

    def parse_manifest(self, help_text: str) -> Manifest: ...

    def compile(
        self,
        row: ModelRow,
        engine: EngineRow,
        knobs: Knobs,
        manifest: Manifest,
        *,
        ctx_tokens: int,
        ram_bytes: int,
        environ: Mapping[str, str],
    ) -> Profile:
        """Return the profile. Pure.

        Raises:
            ProfileRejected: A setting or an extra argument cannot be used with this build.
        """

    def speculation(self, row: ModelRow, engine: EngineRow, knobs: Knobs, manifest: Manifest) -> tuple[str, ...]:
        """Return the kinds of guessing ahead that the profile will have, which cost memory. Pure.

        Raises:
            ProfileRejected: As :meth:`compile`.
        """

    def with_cache_ram(self, profile: Profile, cache_ram_mb: int) -> Profile:
        """Return the profile with another cap on the prompt cache. Pure."""

    def argv(
        self, profile: Profile, endpoint: Endpoint, apikey_file: Path, bank_dir: Path | None = None
    ) -> tuple[str, ...]:
        """Return the complete argument vector of one start. Pure.

        Args:
            profile: What is started.
            endpoint: Where it is to listen.
            apikey_file: Its secret.
            bank_dir: Where its slots are saved, if at all.
        """

    def headers(self, secret: str) -> Mapping[str, str]:
        """Return what each request to the child carries."""

    def read_log(self) -> EngineLog: ...
    def control(self, endpoint: Endpoint, headers: Mapping[str, str]) -> EngineControl: ...
    def classify(self, lines: Sequence[str], returncode: int | None) -> Failure: ...
    def telling(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the few lines worth quoting in an error."""
