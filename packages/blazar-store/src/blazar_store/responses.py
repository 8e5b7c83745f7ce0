"""Responses that clients go on from, kept for each key for some time and up to some size.

They are a file of their own, ``responses.db``: what is in it comes and goes, may be deleted at any time without losing
anything else, and is as private as the conversations in it (mode 0600).
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from blazar_store.files import make_directory
from blazar_store.types import KeptResponse

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    previous TEXT,
    response TEXT NOT NULL,
    items TEXT NOT NULL,
    size INTEGER NOT NULL,
    kept_at REAL NOT NULL,
    UNIQUE (owner, id)
);
CREATE TABLE IF NOT EXISTS items (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    place INTEGER NOT NULL REFERENCES responses (place) ON DELETE CASCADE,
    item TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS items_by_id ON items (owner, id);
CREATE INDEX IF NOT EXISTS items_by_place ON items (place);
"""


class ResponseFile:
    """The responses of one data directory. Blocks; use it from one thread at a time."""

    def __init__(self, path: Path, *, cap_bytes: int, retention_s: float, now: Callable[[], float]) -> None:
        """Open ``path``; a file that is not one of ours, or is damaged, is replaced by an empty one.

        Args:
            path: The database.
            cap_bytes: The most that all responses may take, as JSON.
            retention_s: Seconds for which one is kept.
            now: Gives unix seconds.

        Raises:
            NotWritable: The directory cannot be written.
        """
        self._cap_bytes = cap_bytes
        self._retention_s = retention_s
        self._now = now
        make_directory(path.parent, mode=0o700)
        try:
            self._connection = _open(path)
        except sqlite3.DatabaseError:
            for leftover in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
                leftover.unlink(missing_ok=True)
            self._connection = _open(path)

    def put(self, owner: str, kept: KeptResponse) -> None:
        """Remember a response, in the place of one with the same id; the oldest go when room is needed."""
        response, items = json.dumps(dict(kept.response)), json.dumps(list(kept.items))
        size = len(response) + len(items)
        with self._connection as transaction:
            self._expire()
            transaction.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (owner, kept.id))
            if size > self._cap_bytes:
                return
            values = (owner, kept.id, kept.created_at, kept.previous, response, items, size, self._now())
            place = transaction.execute(
                "INSERT INTO responses (owner, id, created_at, previous, response, items, size, kept_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            ).lastrowid
            transaction.executemany(
                "INSERT INTO items (owner, id, place, item) VALUES (?, ?, ?, ?)",
                [(owner, str(item["id"]), place, json.dumps(item)) for item in _items_of(kept) if item.get("id")],
            )
            self._make_room()

    def get(self, owner: str, response_id: str) -> KeptResponse | None:
        """Return a response, or ``None``."""
        row = self._connection.execute(
            "SELECT id, created_at, response, items, previous FROM responses "
            "WHERE owner = ? AND id = ? AND kept_at > ?",
            (owner, response_id, self._oldest()),
        ).fetchone()
        if row is None:
            return None
        return KeptResponse(row[0], row[1], json.loads(row[2]), json.loads(row[3]), row[4])

    def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response; return whether there was one."""
        with self._connection as transaction:
            self._expire()
            found = transaction.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (owner, response_id))
            return found.rowcount > 0

    def list(self, owner: str) -> tuple[str, ...]:
        """Return the ids of an owner's responses, newest first."""
        rows = self._connection.execute(
            "SELECT id FROM responses WHERE owner = ? AND kept_at > ? ORDER BY place DESC", (owner, self._oldest())
        )
        return tuple(row[0] for row in rows)

    def find_item(self, owner: str, item_id: str) -> Mapping[str, object] | None:
        """Return an input or output item of any of the owner's responses, or ``None``."""
        row = self._connection.execute(
            "SELECT item FROM items JOIN responses USING (place) "
            "WHERE items.owner = ? AND items.id = ? AND kept_at > ? ORDER BY place DESC LIMIT 1",
            (owner, item_id, self._oldest()),
        ).fetchone()
        found: Mapping[str, object] | None = json.loads(row[0]) if row is not None else None
        return found

    def close(self) -> None:
        """Close it; the second call does nothing."""
        self._connection.close()

    def _oldest(self) -> float:
        return self._now() - self._retention_s

    def _expire(self) -> None:
        self._connection.execute("DELETE FROM responses WHERE kept_at <= ?", (self._oldest(),))

    def _make_room(self) -> None:
        """Delete the oldest that do not fit beside the newer ones."""
        self._connection.execute(
            "DELETE FROM responses WHERE place IN (SELECT place FROM "
            "(SELECT place, SUM(size) OVER (ORDER BY place DESC) AS total FROM responses) WHERE total > ?)",
            (self._cap_bytes,),
        )


class ResponseThread:
    """A :class:`ResponseFile` in a thread of its own, for an event loop that must not wait for the disk.

    Methods are those of the file; each is awaited. Starting blocks until it is open.
    """

    def __init__(self, path: Path, *, cap_bytes: int, retention_s: float, now: Callable[[], float]) -> None:
        """Start the thread and open the file in it; arguments and errors are those of :class:`ResponseFile`."""
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="blazar-responses")
        try:
            self._file = self._executor.submit(
                lambda: ResponseFile(path, cap_bytes=cap_bytes, retention_s=retention_s, now=now)
            ).result()
        except BaseException:
            self._executor.shutdown()
            raise

    async def put(self, key: str, kept: KeptResponse) -> None:
        """Remember a response of ``key``.

        Raises:
            OSError: There is no room for it, or the file cannot be written.
        """
        try:
            await self._run(lambda file: file.put(key, kept))
        except sqlite3.Error as error:
            raise OSError(f"responses.db: {error}") from error

    async def get(self, key: str, response_id: str) -> KeptResponse | None:
        """Return a response of ``key``, or ``None``."""
        return await self._run(lambda file: file.get(key, response_id))

    async def delete(self, key: str, response_id: str) -> bool:
        """Forget a response; return whether there was one."""
        return await self._run(lambda file: file.delete(key, response_id))

    async def list(self, key: str) -> Sequence[str]:
        """Return the ids of the responses of ``key``, newest first."""
        return await self._run(lambda file: file.list(key))

    async def find_item(self, key: str, item_id: str) -> Mapping[str, object] | None:
        """Return an input or output item of any response of ``key``, or ``None``."""
        return await self._run(lambda file: file.find_item(key, item_id))

    def close(self) -> None:
        """Finish what was asked, close the file and end the thread. Blocks; the second call does nothing."""
        try:
            self._executor.submit(self._file.close)
        except RuntimeError:
            return
        self._executor.shutdown()

    async def _run(self, work: Callable[[ResponseFile], T]) -> T:
        return await asyncio.wrap_future(self._executor.submit(work, self._file))


def _open(path: Path) -> sqlite3.Connection:
    # Made by us first, so that it is never readable by others, not even for a moment.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.executescript(_SCHEMA)
        connection.execute("SELECT owner, id, size, kept_at FROM responses LIMIT 1")
    except BaseException:
        connection.close()
        raise
    return connection


def _items_of(kept: KeptResponse) -> list[Mapping[str, object]]:
    output = kept.response.get("output")
    return [*kept.items, *(output if isinstance(output, list) else ())]
