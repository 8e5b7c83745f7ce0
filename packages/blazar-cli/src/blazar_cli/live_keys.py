"""Keys that are changed over HTTP: in the file, and at once in the daemon that serves."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from blazar_cli.keys import KeyFile
from blazar_gateway.ports import NewKey
from blazar_routing.errors import LaneError
from blazar_store.errors import StoreError
from blazar_store.types import UsageRow
from blazar_store.writer import StoreThread

T = TypeVar("T")


class LiveKeys:
    """The daemon's ``KeyRegistry``.

    Args:
        file: The keys.
        reload: Takes up the file as it is now.
        store: Holds what was used.
    """

    def __init__(self, file: KeyFile, *, reload: Callable[[], Awaitable[None]], store: StoreThread) -> None:
        self._file = file
        self._reload = reload
        self._store = store

    async def add(self, key: NewKey) -> str:
        """Make a key and return its secret."""
        fields: dict[str, object] = {
            "name": key.name,
            "models": key.models or None,
            **key.limits,
            "max_priority": key.max_priority,
            "expires": key.expires,
        }
        return await self._change(lambda: self._file.add(fields))

    async def remove(self, name: str) -> None:
        """Remove a key."""
        await self._change(lambda: self._file.remove(name))

    async def rotate(self, name: str) -> str:
        """Give a key another secret and return it."""
        return await self._change(lambda: self._file.rotate(name))

    async def usage_since(self, day: str) -> Sequence[UsageRow]:
        """Return what was written of a day and those after it."""
        return await asyncio.wrap_future(self._store.submit(lambda store: store.usage_since(day)))

    async def _change(self, change: Callable[[], T]) -> T:
        try:
            result = await asyncio.to_thread(change)
        except StoreError as error:
            raise LaneError(str(error)) from error
        await self._reload()
        return result
