"""The store: what Blazar remembers about models, engines and the usage of keys."""

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from blazar_store.catalogue import ModelRows
from blazar_store.database import BUSY_TIMEOUT_S, Database
from blazar_store.engines import EngineRows
from blazar_store.lane_pins import LanePins
from blazar_store.layout import Layout
from blazar_store.types import EngineRow, LanePin, ModelRow
from blazar_store.usage import UsageRows


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows at one moment.

    Attributes:
        models: The newest first.
        engines: By kind, the active one of each kind first.
        pins: The builds that models were moved to.
    """

    models: tuple[ModelRow, ...]
    engines: tuple[EngineRow, ...]
    pins: tuple[LanePin, ...] = ()


class Store(ModelRows, EngineRows, UsageRows, LanePins):
    """The rows of one data directory.

    Opening creates the directory and the database where they are missing and migrates an older database. The
    methods block; use a store from one thread at a time (:class:`blazar_store.writer.StoreThread` does).
    Several processes may have the same store open.
    """

    def __init__(self, layout: Layout, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        """Open the store.

        Raises:
            StoreError: As :class:`blazar_store.database.Database` says.
        """
        self._layout = layout
        self._database = Database(layout.database, busy_timeout_s=busy_timeout_s)

    @property
    def layout(self) -> Layout:
        """The directory it belongs to."""
        return self._layout

    def snapshot(self) -> Snapshot:
        """Return all rows as of one moment."""
        with self._database.read():
            return Snapshot(models=self.list_models(), engines=self.list_engines(), pins=self.list_lane_pins())

    def data_version(self) -> int:
        """Return a number that changes when somebody else, in this or another process, has changed the store.

        Changes made through this very object do not count; compare it only with its own earlier values.
        """
        return self._database.data_version()

    def check(self) -> None:
        """Look through the whole database for damage.

        Raises:
            DatabaseDamaged: There is some; the text says what to do.
        """
        self._database.check()

    def close(self) -> None:
        """Close it; the second call does nothing."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
