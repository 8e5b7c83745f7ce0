"""Noticing edits while the daemon runs: rows in the store, settings in ``config.toml``.

Both are looked at every second and at once on SIGHUP. An edit that cannot be used changes nothing and is reported
once in the log, and in ``blazar status`` for as long as it is there.
"""

import asyncio
import logging
from collections.abc import Callable

from blazar_store.errors import ConfigInvalid, StoreError
from blazar_store.settings import Settings
from blazar_store.settings_watch import Reload, SettingsWatch
from blazar_store.store import Snapshot, Store
from blazar_store.writer import StoreThread

_log = logging.getLogger(__name__)
PERIOD_S = 1.0


class EditWatch:
    """Watches store and settings for one daemon.

    Args:
        store: The daemon's store thread.
        settings: The settings that hold, and their file.
        on_rows: Called in the event loop with the new rows.
        on_settings: Called in the event loop after an accepted edit.
    """

    def __init__(
        self,
        *,
        store: StoreThread,
        settings: SettingsWatch,
        on_rows: Callable[[Snapshot], None],
        on_settings: Callable[[Settings], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._on_rows = on_rows
        self._on_settings = on_settings
        self._woken = asyncio.Event()
        self._turn = asyncio.Lock()
        self._version: int | None = None
        self.store_error: str | None = None

    @property
    def config_error(self) -> str | None:
        """Why the configuration file's present content is not used, or ``None``."""
        return None if self._settings.error is None else str(self._settings.error)

    def wake(self) -> None:
        """Look now, whatever the stamps say (SIGHUP)."""
        self._woken.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            forced = await self._pause()
            await self.look(forced=forced)

    async def look(self, *, forced: bool = False) -> None:
        """Look once at both.

        Args:
            forced: Read both again even if they seem unchanged, and say so in the log.
        """
        async with self._turn:
            await self._look_at_settings(forced=forced)
            await self._look_at_store(forced=forced)

    async def _pause(self) -> bool:
        try:
            await asyncio.wait_for(self._woken.wait(), PERIOD_S)
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def _look_at_settings(self, *, forced: bool) -> None:
        match await asyncio.to_thread(lambda: self._settings.poll(force=forced)):
            case ConfigInvalid() as error:
                _log.warning("the configuration was edited and is not valid, the former one stays in force:\n%s", error)
            case Reload(settings, changed, needs_restart):
                if changed or forced:
                    _log.info("configuration read again; changed: %s", ", ".join(changed) or "nothing")
                if needs_restart:
                    _log.warning("%s will take effect at the next start of the daemon", ", ".join(needs_restart))
                self._on_settings(settings)
            case None:
                pass

    async def _look_at_store(self, *, forced: bool) -> None:
        try:
            snapshot = await asyncio.wrap_future(self._store.submit(lambda store: self._newer(store, forced=forced)))
        except StoreError as error:
            if self.store_error != str(error):
                self.store_error = str(error)
                _log.warning("the rows cannot be read, the former ones stay: %s", error)
            return
        self.store_error = None
        if snapshot is not None:
            self._on_rows(snapshot)

    def _newer(self, store: Store, *, forced: bool) -> Snapshot | None:
        version = store.data_version()
        if version == self._version and not forced:
            return None
        self._version = version
        return store.snapshot()
