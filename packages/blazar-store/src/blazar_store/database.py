"""One SQLite connection to ``blazar.db``: opening, transactions, errors.

WAL mode, so that readers never wait for the writer and a crash leaves the last committed state. ``PRAGMA
user_version`` says which schema a file has; :mod:`blazar_store.migrations` brings old ones up to date when they
are opened.
"""

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from blazar_store.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseTooNew,
    DiskFull,
    NotWritable,
    StorageFailed,
    StoreError,
)
from blazar_store.files import make_directory
from blazar_store.schema import SCHEMA_VERSION, create_schema

BUSY_TIMEOUT_S = 10.0

Value = str | int | float | bytes | None
"""What SQLite can hold."""


class Database:
    """An open database, used from one thread at a time.

    Attributes:
        path: The file.
        connection: The connection, in autocommit mode: transactions are begun and ended by :meth:`write` and
            :meth:`read` alone.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        """Open ``path``, creating it with the newest schema or migrating it from an older one.

        Raises:
            DatabaseTooNew: A later Blazar wrote it. The file is not touched.
            DatabaseDamaged: It is not a database, or a broken one.
            DatabaseBusy: Another process holds it.
            NotWritable: No permission.
            DiskFull: No room.
            StorageFailed: Any other refusal.
        """
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        make_directory(path.parent, mode=0o700)
        with self.typed_errors():
            self.connection = sqlite3.connect(
                path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
            )
            self.connection.row_factory = sqlite3.Row
            try:
                self._bring_up_to_date()
            except BaseException:
                self.connection.close()
                raise

    def _bring_up_to_date(self) -> None:
        found = self.schema_version()
        if found > SCHEMA_VERSION:
            raise DatabaseTooNew(path=self.path, found=found, known=SCHEMA_VERSION)
        self._switch_to_wal()
        # WAL with NORMAL loses nothing when a process dies; after a power cut the last commits may be missing,
        # never half of one.
        self.connection.execute("PRAGMA synchronous = NORMAL")
        if found < SCHEMA_VERSION:
            if self._is_empty():
                with self.write():
                    if self._is_empty():  # another process may have been faster
                        create_schema(self.connection)
            else:
                from blazar_store.migrations import migrate

                migrate(self)
        self.connection.execute("PRAGMA foreign_keys = ON")

    def _switch_to_wal(self) -> None:
        # When two connections create a database at once, SQLite tells one of them at this statement that it is
        # busy without waiting (seen once in 1,200 openings with 3.40); the wait is ours then.
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _is_empty(self) -> bool:
        return self.connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None

    def schema_version(self) -> int:
        """Return the schema version of the file; 0 for a new one."""
        version: int = self.connection.execute("PRAGMA user_version").fetchone()[0]
        return version

    def data_version(self) -> int:
        """Return a number that changes when *another* connection, in whichever process, commits."""
        with self.typed_errors():
            version: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def rows(self, sql: str, parameters: Sequence[Value] = ()) -> list[sqlite3.Row]:
        """Run one statement and return all its rows."""
        with self.typed_errors():
            return self.connection.execute(sql, parameters).fetchall()

    @contextlib.contextmanager
    def write(self) -> Iterator[None]:
        """Run the block in one transaction that no other writer can enter: all of it happens, or nothing.

        Raises:
            StoreError: What SQLite said; the transaction is undone.
        """
        with self.typed_errors():
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                # Some errors have undone it already, and a BEGIN that fails may have begun it.
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Let all reads of the block see one state, whatever others commit meanwhile."""
        with self.typed_errors():
            try:
                self.connection.execute("BEGIN")
                yield
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")  # there is nothing to keep

    def check(self) -> None:
        """Look through the whole file for damage; takes time in proportion to its size.

        Raises:
            DatabaseDamaged: There is some.
        """
        found = [str(row[0]) for row in self.rows("PRAGMA quick_check(3)")]
        if found != ["ok"]:
            raise DatabaseDamaged(path=self.path, reason="; ".join(found), backup=newest_backup(self.path))

    def close(self) -> None:
        """Close the connection; the second call does nothing."""
        with self.typed_errors():
            self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Turn what SQLite raises in the block into the :class:`StoreError` that tells what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._typed(error) from error

    def _typed(self, error: sqlite3.Error) -> StoreError:
        # The low byte is the primary code; extended ones only say more about it.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        match code:
            case sqlite3.SQLITE_FULL:
                return DiskFull(path=self.path)
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
                return NotWritable(path=self.path, reason=str(error))
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return DatabaseBusy(path=self.path, waited_s=self._busy_timeout_s)
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return DatabaseDamaged(path=self.path, reason=str(error), backup=newest_backup(self.path))
            case _ if _no_room(self.path.parent):
                return DiskFull(path=self.path)  # SQLite reports some writes without room as I/O errors
            case _:
                return StorageFailed(path=self.path, reason=str(error))


def _no_room(directory: Path) -> bool:
    try:
        return shutil.disk_usage(directory).free < 64 * 1024
    except OSError:
        return False


def backup_path(path: Path, version: int) -> Path:
    """Return where the copy of a version-``version`` database goes before it is migrated."""
    return path.with_name(f"{path.name}.v{version}.bak")


def newest_backup(path: Path) -> Path | None:
    """Return the copy that the latest migration left, or ``None``."""
    copies = sorted(path.parent.glob(f"{path.name}.v*.bak"))
    return copies[-1] if copies else None
