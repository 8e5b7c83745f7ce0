"""Remembering, across restarts, which engine build a model was moved to."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from blazar_cli.catalogue import LiveCatalogue
from blazar_store.types import LanePin
from blazar_store.writer import StoreThread

_log = logging.getLogger(__name__)


class LaneMemory:
    """Writes down where models were moved to; what was written is in force at once.

    Args:
        store: Where it is written.
        catalogue: What is asked for it.
        now: Unix seconds.
    """

    def __init__(self, store: StoreThread, catalogue: LiveCatalogue, *, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._catalogue = catalogue
        self._now = now

    def remember(self, model: str, engine: str, refused_by: frozenset[str]) -> None:
        """Note that ``engine`` serves a model whose architecture the builds ``refused_by`` do not know."""
        row = self._catalogue.find_row(model)
        if row is None:
            return
        pin = LanePin(model, row.digest, engine, tuple(sorted(refused_by)), int(self._now()))
        if self._catalogue.find_pin(model) == pin:
            return
        _log.warning(
            "engine %s serves %s from now on, whose architecture is unknown to %s; `blazar models unpin %s` forgets it",
            engine,
            model,
            " and ".join(pin.refused_by),
            model,
        )
        self._catalogue.add_pin(pin)
        self._store.submit(lambda store: store.pin_lane(pin)).add_done_callback(_told)


def _told(future: "Future[None]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.error("an engine's place is remembered until the next start only: %s", error)
