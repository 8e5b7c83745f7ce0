"""What a starting daemon loads before anybody asks, one after the other, and the first token that warms each.

A preloaded model makes nobody go, neither one that was preloaded before it nor one that a client has asked for
meanwhile: what does not fit beside the others is left out, and said to be. Nothing here can keep the daemon from
starting or from serving.

The peg is a generation of one token. The next model does not wait for it, and nobody is told when it fails: it gets
90 s to find a slot and 60 s to answer. Only engines that gain by it are pegged.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from blazar_routing.errors import LaneError, ShuttingDown

PEG_TURN_S = 90.0
"""Seconds a peg may wait for a slot."""

PEG_ANSWER_S = 60.0
"""Seconds its one token may take."""

_log = logging.getLogger(__name__)


class PreloadState(StrEnum):
    """How far a preload has come."""

    WAITING = "waiting"
    LOADING = "loading"
    LOADED = "loaded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to preload.

    Attributes:
        model: The row's name.
        keep_s: Seconds it stays without a request, ``None`` for ever; the model's own setting if ``own_keep``.
        own_keep: Whether the model's own setting holds.
    """

    model: str
    keep_s: float | None = None
    own_keep: bool = True


@dataclass(frozen=True, slots=True)
class Preload:
    """A preload as ``status`` shows it.

    Attributes:
        model: The row's name.
        state: How far it is.
        error: Why it failed, or ``None``.
    """

    model: str
    state: PreloadState
    error: str | None = None


class Loads(Protocol):
    """What preloading needs of the dispatcher."""

    async def preload(self, model: str) -> None:
        """Load a model if there is room beside the others.

        Raises:
            LaneError: There is not, or it cannot be loaded.
        """

    def keep(self, model: str, seconds: float | None) -> None:
        """Set how long it stays."""

    async def peg(self, model: str, *, turn_s: float, answer_s: float) -> bool:
        """Have a loaded model make one token; return whether it did."""


class Preloading:
    """The preloads of one daemon, in order.

    Args:
        loads: The dispatcher.
        started: Called with each task, which somebody has to hold and to end.
    """

    def __init__(self, loads: Loads, *, started: Callable[[Coroutine[object, object, None], str], None]) -> None:
        self._loads = loads
        self._started = started
        self._states: dict[str, Preload] = {}

    def states(self) -> tuple[Preload, ...]:
        """Return every preload, in order."""
        return tuple(self._states.values())

    async def run(self, wanted: Sequence[Wanted]) -> None:
        """Load one model after the other. Raises nothing: what fails is logged and shown."""
        self._states = {one.model: Preload(one.model, PreloadState.WAITING) for one in wanted}
        for one in wanted:
            self._now(one.model, PreloadState.LOADING)
            try:
                await self._loads.preload(one.model)
            except ShuttingDown:
                return
            except LaneError as error:
                _log.warning("not preloaded: %s", error)
                self._now(one.model, PreloadState.FAILED, str(error))
                continue
            if not one.own_keep:
                self._loads.keep(one.model, one.keep_s)
            self._now(one.model, PreloadState.LOADED)
            _log.info("preloaded %s", one.model)
            self._started(self._peg(one.model), f"peg {one.model}")

    async def _peg(self, model: str) -> None:
        try:
            warm = await self._loads.peg(model, turn_s=PEG_TURN_S, answer_s=PEG_ANSWER_S)
        except (LaneError, TimeoutError, asyncio.CancelledError) as error:
            _log.debug("%s was not pegged: %s", model, error)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        _log.debug("%s %s", model, "is warm" if warm else "was not pegged")

    def _now(self, model: str, state: PreloadState, error: str | None = None) -> None:
        self._states[model] = replace(self._states[model], state=state, error=error)
